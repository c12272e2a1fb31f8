//! Share groups and streams groups in `__consumer_offsets` of a stopped broker.
//!
//! The broker leaves their records alone; an operator wants to know which groups will not be
//! served. Works on the bytes of segments: the caller reads the files, those of a partition in
//! their order. Invariants: at most [`GROUPS_MAX`] groups of each kind are kept, with
//! [`NAMES_BYTES_MAX`] bytes of names; only batches with a right CRC decide. What cannot be read is
//! passed over: whether the files are sound is the question of `forebay check`.

use std::collections::BTreeSet;

use bytes::Bytes;
use wire::batch::iter::check_crc;
use wire::batch::{Batches, records};
use wire::records::offsets::{UnservedKind, unserved_group};

/// Groups of one kind that are kept.
pub const GROUPS_MAX: usize = 10_000;
/// Bytes of the names of one kind that are kept: far more than groups of that number usually have.
const NAMES_BYTES_MAX: usize = 4 << 20;

/// The groups that were found and not deleted since.
#[derive(Default, Debug)]
pub struct UnservedGroups {
    share: UnservedNames,
    streams: UnservedNames,
}

/// Groups of one kind.
#[derive(Default, Debug)]
struct UnservedNames {
    // Bounded: `GROUPS_MAX`, `NAMES_BYTES_MAX`.
    names: BTreeSet<String>,
    bytes: usize,
    is_cut: bool,
}

impl UnservedGroups {
    /// Reads a segment, as far as it has whole batches.
    pub fn read(&mut self, segment: &Bytes) {
        for batch in Batches::new(segment) {
            let Ok((header, batch)) = batch else { return };
            if header.is_control() || check_crc(&header, batch).is_err() {
                continue;
            }
            let Ok(each) = records(&segment.slice_ref(batch)) else {
                continue;
            };
            for record in each.map_while(Result::ok) {
                let group = record.key.as_deref().and_then(unserved_group);
                if let Some((kind, name)) = group {
                    self.of_kind(kind).note(name, record.value.is_some());
                }
            }
        }
    }

    fn of_kind(&mut self, kind: UnservedKind) -> &mut UnservedNames {
        match kind {
            UnservedKind::Share => &mut self.share,
            UnservedKind::Streams => &mut self.streams,
        }
    }

    fn kept(&self, kind: UnservedKind) -> &UnservedNames {
        match kind {
            UnservedKind::Share => &self.share,
            UnservedKind::Streams => &self.streams,
        }
    }

    /// Returns the groups of a kind, by name.
    pub fn of(&self, kind: UnservedKind) -> impl Iterator<Item = &str> {
        self.kept(kind).names.iter().map(String::as_str)
    }

    /// Returns true if there were more groups of a kind than are kept.
    pub fn is_cut(&self, kind: UnservedKind) -> bool {
        self.kept(kind).is_cut
    }
}

impl UnservedNames {
    fn note(&mut self, name: String, exists: bool) {
        if !exists {
            if self.names.remove(&name) {
                self.bytes = self.bytes.saturating_sub(name.len());
            }
            return;
        }
        if self.names.contains(&name) {
            return;
        }
        let bytes = self.bytes.saturating_add(name.len());
        if self.names.len() < GROUPS_MAX && bytes <= NAMES_BYTES_MAX {
            self.bytes = bytes;
            self.names.insert(name);
        } else {
            self.is_cut = true;
        }
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
        assert!(!groups.is_cut(UnservedKind::Share));
        // The end of a segment that was being written.
        groups.read(&segment(&[(share, value)]).slice(..40));
        assert_eq!(groups.of(UnservedKind::Share).count(), 0);
    }

    #[test]
    fn a_batch_with_a_wrong_crc_decides_nothing() {
        let share = &b"\0\x0b\0\x01s"[..];
        let mut groups = UnservedGroups::default();
        let mut damaged = segment(&[(share, Some(b"v"))]).to_vec();
        let at = damaged.iter().rposition(|byte| *byte == b's').unwrap();
        damaged[at] = b't';
        groups.read(&damaged.into());
        assert_eq!(groups.of(UnservedKind::Share).count(), 0);
        groups.read(&segment(&[(share, Some(b"v"))]));
        let mut tombstone = segment(&[(share, None)]).to_vec();
        // In its times, which the CRC covers.
        tombstone[30] ^= 1;
        groups.read(&tombstone.into());
        assert_eq!(groups.of(UnservedKind::Share).collect::<Vec<_>>(), ["s"]);
    }

    #[test]
    fn a_cluster_of_very_many_groups_takes_bounded_memory() {
        let mut groups = UnservedGroups::default();
        let share = groups.of_kind(UnservedKind::Share);
        for at in 0..=GROUPS_MAX {
            share.note(format!("g{at}"), true);
        }
        assert!(groups.is_cut(UnservedKind::Share));
        assert_eq!(groups.of(UnservedKind::Share).count(), GROUPS_MAX);
        // Those of one kind leave room for those of the other.
        let streams = groups.of_kind(UnservedKind::Streams);
        let long = "g".repeat(NAMES_BYTES_MAX);
        streams.note(long.clone(), true);
        streams.note("h".into(), true);
        assert!(streams.is_cut);
        streams.note(long, false);
        streams.note("h".into(), true);
        assert_eq!(groups.of(UnservedKind::Streams).collect::<Vec<_>>(), ["h"]);
    }
}
