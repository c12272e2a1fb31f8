//! Share groups and streams groups in `__consumer_offsets` of a stopped broker.
//!
//! The broker leaves their records alone; an operator wants to know which groups will not be
//! served. Works on the bytes of segments: the caller reads the files, those of a partition in
//! their order. Invariant: at most [`GROUPS_MAX`] groups are kept. What cannot be read is passed
//! over: whether the files are sound is the question of `forebay check`.

use std::collections::BTreeSet;

use bytes::Bytes;
use wire::batch::{Batches, records};
use wire::records::offsets::{UnservedKind, unserved_group};

/// Groups that are kept; more are counted as "more".
pub const GROUPS_MAX: usize = 10_000;

/// The groups that were found and not deleted since.
#[derive(Default, Debug)]
pub struct UnservedGroups {
    // Bounded: `GROUPS_MAX`.
    live: BTreeSet<(UnservedKind, String)>,
    is_cut: bool,
}

impl UnservedGroups {
    /// Reads a segment, as far as it has whole batches.
    pub fn read(&mut self, segment: &Bytes) {
        for batch in Batches::new(segment) {
            let Ok((header, batch)) = batch else { return };
            if header.is_control() {
                continue;
            }
            let Ok(each) = records(&segment.slice_ref(batch)) else {
                continue;
            };
            for record in each.map_while(Result::ok) {
                let group = record.key.as_deref().and_then(unserved_group);
                if let Some(group) = group {
                    self.note(group, record.value.is_some());
                }
            }
        }
    }

    fn note(&mut self, group: (UnservedKind, String), exists: bool) {
        if !exists {
            self.live.remove(&group);
        } else if self.live.len() < GROUPS_MAX {
            self.live.insert(group);
        } else if !self.live.contains(&group) {
            self.is_cut = true;
        }
    }

    /// Returns the groups of a kind, by name.
    pub fn of(&self, kind: UnservedKind) -> impl Iterator<Item = &str> {
        let those = self.live.iter().filter(move |(of, _)| *of == kind);
        those.map(|(_, name)| name.as_str())
    }

    /// Returns true if there are more groups than are kept.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

#[cfg(test)]
mod tests {
    use wire::batch::BatchBuilder;
    use wire::types::{LeaderEpoch, Offset, TimestampMs};

    use super::*;

    fn segment(keys: &[(&[u8], Option<&[u8]>)]) -> Bytes {
        let mut batch = BatchBuilder::new(Offset(0), LeaderEpoch(0));
        for (key, value) in keys {
            batch.add(TimestampMs(0), Some(key), *value, &[]);
        }
        batch.finish().unwrap()
    }

    #[test]
    fn a_group_is_there_until_its_tombstone() {
        let (share, streams) = (&b"\0\x0b\0\x01s"[..], &b"\0\x11\0\x01t"[..]);
        let other = &b"\0\x02\0\x01c"[..];
        let mut groups = UnservedGroups::default();
        let value = Some(&b"v"[..]);
        groups.read(&segment(&[
            (share, value),
            (other, value),
            (streams, value),
        ]));
        assert_eq!(groups.of(UnservedKind::Share).collect::<Vec<_>>(), ["s"]);
        assert_eq!(groups.of(UnservedKind::Streams).collect::<Vec<_>>(), ["t"]);
        groups.read(&segment(&[(share, None)]));
        assert_eq!(groups.of(UnservedKind::Share).count(), 0);
        assert!(!groups.is_cut());
        // The end of a segment that was being written.
        groups.read(&segment(&[(share, value)]).slice(..40));
        assert_eq!(groups.of(UnservedKind::Share).count(), 0);
    }

    #[test]
    fn a_cluster_of_very_many_groups_takes_bounded_memory() {
        let mut groups = UnservedGroups::default();
        for at in 0..=GROUPS_MAX {
            groups.note((UnservedKind::Share, format!("g{at}")), true);
        }
        assert!(groups.is_cut());
        assert_eq!(groups.of(UnservedKind::Share).count(), GROUPS_MAX);
    }
}
