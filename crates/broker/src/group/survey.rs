//! What metrics show of groups: how many there are in each state, and the members and committed
//! offsets of each.
//!
//! A group is shown whole or only counted. Bounded: the shown groups take at most the bytes of a
//! metrics page that the caller gives (`Survey::room_after`: a name stands in every row of its
//! group), and a group whose name is written longer than [`NAME_BYTES_MAX`] is not shown;
//! [`Survey::left_out`] counts the groups that are not shown. A survey also counts its work, after
//! which the walk gives way to others. Not here: the walk over all groups
//! ([`super::coordinator`]), the names of metrics, and lag, for which the caller knows the ends of
//! logs (`server`).

use std::collections::BTreeMap;

use wire::protocol::StrBytes;
use wire::text::escaped;

use super::groups::{Group, GroupRef};

/// Longest name of a group that is shown, as the page writes it.
const NAME_BYTES_MAX: usize = 256;
/// Bytes of a row of the page besides the names of group and topic: the metric's name, the names
/// of labels, a partition, a value.
const ROW_BYTES: usize = 128;

/// The groups of one shard.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Number of groups by protocol and state.
    // Bounded: `add` has one for each protocol and each of its states.
    pub states: BTreeMap<(&'static str, &'static str), u64>,
    /// The groups that are shown.
    // Bounded: the bytes given to `Survey::new`.
    pub groups: Vec<SurveyedGroup>,
    /// Number of groups that are not shown.
    pub left_out: u64,
    bytes_left: usize,
    /// Groups, members and offsets visited since the last pause.
    work: usize,
}

/// A group that is shown.
#[derive(Clone, Debug)]
pub struct SurveyedGroup {
    /// Its id.
    pub id: StrBytes,
    /// Number of its members.
    pub members: usize,
    /// Topic, partition and offset of its commits.
    pub offsets: Vec<(StrBytes, i32, i64)>,
}

impl Survey {
    /// Creates an empty survey that shows groups of at most `bytes_max` bytes of a page.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_left: bytes_max,
            ..Self::default()
        }
    }

    /// Adds a group that exists.
    pub(super) fn add(&mut self, id: &StrBytes, group: &Group) {
        let (state, members) = match group.kind() {
            GroupRef::Classic(classic) => (
                ("classic", classic.state().name()),
                classic.members().count(),
            ),
            GroupRef::Consumer(consumer) => {
                (("consumer", consumer.state().name()), consumer.size())
            }
        };
        let count = self.states.entry(state).or_default();
        *count = count.saturating_add(1);
        self.worked(members);
        let room = if shown_bytes(id) > NAME_BYTES_MAX {
            None
        } else {
            self.room_after(id, group)
        };
        let Some(room) = room else {
            self.left_out = self.left_out.saturating_add(1);
            return self.check();
        };
        self.bytes_left = room;
        let mut offsets = Vec::new();
        for (topic, partitions) in &group.offsets {
            for (partition, offset) in partitions {
                if let Some(position) = offset.committed() {
                    offsets.push((topic.clone(), *partition, position.value.offset));
                }
            }
        }
        self.worked(offsets.len());
        self.groups.push(SurveyedGroup {
            id: id.clone(),
            members,
            offsets,
        });
        self.check();
    }

    /// Returns the bytes that are left when the page shows the group; `None` if it has no room.
    ///
    /// A group has a row of its own, two rows for each partition and two for each topic.
    fn room_after(&mut self, id: &StrBytes, group: &Group) -> Option<usize> {
        let row_bytes = shown_bytes(id).saturating_add(ROW_BYTES);
        let mut room = self.bytes_left.checked_sub(row_bytes)?;
        for (topic, partitions) in &group.offsets {
            self.worked(1);
            let rows = partitions.len().saturating_add(1).saturating_mul(2);
            let bytes = row_bytes.saturating_add(shown_bytes(topic));
            room = room.checked_sub(bytes.saturating_mul(rows))?;
        }
        assert!(room < self.bytes_left, "a group that is shown takes room");
        Some(room)
    }

    /// Counts work since the last pause.
    pub(super) fn worked(&mut self, count: usize) {
        self.work = self.work.saturating_add(count);
    }

    /// Returns true if the walk has to give way to others after so much work.
    pub(super) fn has_worked(&self, most: usize) -> bool {
        self.work >= most
    }

    /// Counts work from zero again, after a pause.
    pub(super) fn rested(&mut self) {
        self.work = 0;
    }

    /// Every group is counted once, whether it is shown or not.
    fn check(&self) {
        let counted = self.states.values().copied().fold(0, u64::saturating_add);
        assert_eq!(
            (self.groups.len() as u64).saturating_add(self.left_out),
            counted,
            "a group is shown or left out"
        );
    }
}

/// Returns the bytes of a name on a page, which writes quotes, backslashes and what is invisible as
/// several characters.
fn shown_bytes(name: &str) -> usize {
    let shown = escaped(name);
    let quoted = shown.bytes().filter(|byte| matches!(byte, b'"' | b'\\'));
    shown.len().saturating_add(quoted.count())
}
