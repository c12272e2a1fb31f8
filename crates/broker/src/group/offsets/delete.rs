//! Deletions of offsets: what of a request is there to be deleted is found in pieces, then decided in one.
//!
//! Like commits ([`super::commit`]): the decision looks at what may go, of which no more than fits into one batch of the log,
//! and not at all that a request names.

use std::collections::{BTreeMap, BTreeSet};

use wire::messages::OffsetDeleteRequest;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::tombstone;
use crate::group::classic::State;
use crate::group::groups::{Group, Groups};
use crate::group::owned;
use crate::group::records::GroupRecord;

/// What of a request may go.
#[derive(Default)]
pub(crate) struct Going {
    // Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
    offsets: BTreeMap<StrBytes, BTreeSet<i32>>,
    log_bytes: usize,
}

impl Going {
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

    /// Bytes that the tombstones take in the log at least.
    pub(crate) fn log_bytes(&self) -> usize {
        self.log_bytes
    }
}

impl Groups {
    /// Whether offsets of the group may be deleted.
    pub(crate) fn check_delete_offsets(&self, id: &StrBytes) -> Result<(), ErrorCode> {
        let group = self.existing_group(id).ok_or(ErrorCode::GroupIdNotFound)?;
        let holds = group.machine.state() != State::Empty && !group.machine.is_consumer();
        if group.consumer().is_none() && holds {
            return Err(ErrorCode::NonEmptyGroup);
        }
        Ok(())
    }

    /// Looks at a partition that is there: true when the group reads its topic, else takes note of it if it has a position.
    pub(crate) fn find_going(
        &self,
        id: &StrBytes,
        topic: &StrBytes,
        index: i32,
        going: &mut Going,
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

    /// What goes of what was found. A topic that is read by now stays, and is told of.
    pub(crate) fn delete_offsets(
        &self,
        request: &OffsetDeleteRequest,
        going: &Going,
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
