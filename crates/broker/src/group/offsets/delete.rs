//! Deletions of offsets: the existing ones of a request are found in pieces, then deleted in one
//! decision.
//!
//! As for commits ([`super::commit`]), the decision looks only at the offsets to delete, which fit
//! into one batch of the log, and not at everything that a request names.

use std::collections::{BTreeMap, BTreeSet};

use wire::messages::OffsetDeleteRequest;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::tombstone;
use crate::group::classic::ClassicGroupState;
use crate::group::groups::{Group, Groups};
use crate::group::owned;
use crate::group::records::GroupRecord;

/// The offsets of a request that may be deleted.
#[derive(Default)]
pub(crate) struct OffsetDeletion {
    // Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
    offsets: BTreeMap<StrBytes, BTreeSet<i32>>,
    log_bytes: usize,
}

impl OffsetDeletion {
    fn add(&mut self, group: &StrBytes, topic: &StrBytes, index: i32) {
        if !self.offsets.contains_key(topic) {
            self.offsets.insert(owned(topic), BTreeSet::new());
        }
        let Some(of_topic) = self.offsets.get_mut(topic) else {
            return;
        };
        if of_topic.insert(index) {
            let gone = tombstone(group, topic, index);
            self.log_bytes = self.log_bytes.saturating_add(gone.log_bytes());
        }
    }

    /// Takes out the topics for which `keeps` returns false, and returns them.
    pub(crate) fn keep(&mut self, keeps: impl Fn(&str) -> bool) -> Vec<StrBytes> {
        let mut out = Vec::new();
        self.offsets.retain(|topic, _| {
            let kept = keeps(topic);
            if !kept {
                out.push(topic.clone());
            }
            kept
        });
        out
    }

    /// Returns the least bytes that the tombstones take in the log.
    pub(crate) fn log_bytes(&self) -> usize {
        self.log_bytes
    }
}

impl Groups {
    /// Checks that offsets of the group may be deleted.
    pub(crate) fn check_delete_offsets(&self, id: &StrBytes) -> Result<(), ErrorCode> {
        let group = self.existing_group(id).ok_or(ErrorCode::GroupIdNotFound)?;
        let holds =
            group.machine.state() != ClassicGroupState::Empty && !group.machine.is_consumer();
        if group.consumer().is_none() && holds {
            return Err(ErrorCode::NonEmptyGroup);
        }
        Ok(())
    }

    /// Checks an existing partition: returns true when the group reads its topic; otherwise notes
    /// its offset for deletion.
    pub(crate) fn find_going(
        &self,
        id: &StrBytes,
        topic: &StrBytes,
        index: i32,
        going: &mut OffsetDeletion,
    ) -> bool {
        let Some(group) = self.existing_group(id) else {
            return false;
        };
        if reads(group, topic) {
            return true;
        }
        if self.has_offset(id, group, topic, index) {
            going.add(id, topic, index);
        }
        false
    }

    /// Returns the tombstones of the offsets that were found, and the topics that the group reads
    /// by now, whose offsets stay.
    pub(crate) fn delete_offsets(
        &self,
        request: &OffsetDeleteRequest,
        going: &OffsetDeletion,
    ) -> Result<(Vec<GroupRecord>, Vec<StrBytes>), ErrorCode> {
        self.check_delete_offsets(&request.group_id)?;
        let (mut records, mut read) = (Vec::new(), Vec::new());
        let id = owned(&request.group_id);
        let Some(group) = self.existing_group(&id) else {
            return Err(ErrorCode::GroupIdNotFound);
        };
        for (topic, offsets) in &going.offsets {
            if reads(group, topic) {
                read.push(topic.clone());
                continue;
            }
            let there = offsets.iter().copied();
            let there = there.filter(|index| self.has_offset(&id, group, topic, *index));
            records.extend(there.map(|index| tombstone(&id, topic, index)));
        }
        Ok((records, read))
    }

    fn has_offset(&self, id: &StrBytes, group: &Group, topic: &StrBytes, index: i32) -> bool {
        let offset = group.offsets.get(topic).and_then(|all| all.get(&index));
        offset.is_some_and(|offset| offset.latest().is_some())
            || (self.open.all_of(id)).is_some_and(|open| open.contains_key(&(topic.clone(), index)))
    }
}

fn reads(group: &Group, topic: &StrBytes) -> bool {
    match group.consumer() {
        Some(consumer) => consumer.is_subscribed_to(topic),
        None => group.machine.is_subscribed_to(topic),
    }
}
