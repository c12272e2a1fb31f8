//! What metrics show of groups: how many there are in each state, and the members and committed
//! offsets of each.
//!
//! A group is shown whole or only counted. Bounded: the shown groups take at most the bytes that
//! the caller gives, counted as for the bounds of all groups ([`super::groups`]), and a group
//! whose name is longer than [`NAME_BYTES_MAX`] is not shown; [`Survey::left_out`] counts the
//! groups that are not shown. Not here: the walk over all groups ([`super::coordinator`]), the
//! names of metrics, and lag, for which the caller knows the ends of logs (`server`).

use std::collections::BTreeMap;

use wire::protocol::StrBytes;

use super::groups::{GROUP_BYTES, Group, GroupRef};

/// Longest name of a group that is shown.
const NAME_BYTES_MAX: usize = 256;

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
    /// Creates an empty survey that shows groups of at most `bytes_max` bytes.
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
        let bytes = group.offsets_bytes().saturating_add(GROUP_BYTES);
        if bytes > self.bytes_left || id.len() > NAME_BYTES_MAX {
            self.left_out = self.left_out.saturating_add(1);
            return self.check();
        }
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        let mut offsets = Vec::new();
        for (topic, partitions) in &group.offsets {
            for (partition, offset) in partitions {
                if let Some(position) = offset.committed() {
                    offsets.push((topic.clone(), *partition, position.value.offset));
                }
            }
        }
        self.groups.push(SurveyedGroup {
            id: id.clone(),
            members,
            offsets,
        });
        self.check();
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
