//! Records of groups on their way: in flight, in the log or never written, read again.
//!
//! Invariant: a group that is vacant is swept unless records of it are about to be staged.

use std::collections::BTreeSet;

use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::weight::offset_bytes;
use super::{Append, Group, GroupOutcome, Groups, LOADED, Position};
use crate::group::ClockReading;
use crate::group::classic::ClassicGroup;
use crate::group::records::GroupRecord;
use crate::group::versioned::Sequence;

impl Groups {
    /// Takes in records that are about to be appended.
    pub fn stage(&mut self, sequence: Sequence, records: &[GroupRecord], now: ClockReading) {
        let limits = self.options.classic;
        for record in records {
            let group = self.by_id.entry(record.group().clone());
            let group = group.or_insert_with(|| Group::new(limits).into());
            match record {
                GroupRecord::Offset {
                    topic,
                    partition,
                    value,
                    ..
                } => {
                    let offsets = group.offsets.entry(topic.clone()).or_default();
                    let position = value.clone().map(|value| Position::new(value, now));
                    let versions = offsets.entry(*partition).or_default();
                    versions.stage(sequence, position);
                }
                GroupRecord::Metadata { value, .. } => {
                    if value.is_none() && group.machine.is_idle() {
                        group.set_machine(ClassicGroup::new(limits));
                    }
                    group.metadata.stage(sequence, value.clone());
                }
                GroupRecord::Consumer { record, .. } => {
                    let consumer = group.consumer.get_or_insert_default();
                    consumer.stage(sequence, record);
                }
            }
        }
    }

    /// Answers the requests that wait for an append of unknown outcome; its records stay in flight.
    pub fn stop_waiting(
        &mut self,
        append: &mut Append,
        error: ErrorCode,
        now: ClockReading,
    ) -> GroupOutcome {
        let then = append.then.take();
        let told = then.map(|then| self.continue_with(then, Err(error), now));
        let mut told = told.unwrap_or_default();
        let answers = append.answers.drain(..);
        let refused = answers.map(|(token, reply)| (token, reply.refused(error)));
        told.replies.extend(refused);
        told
    }

    /// Ends an append: `appended` means that its records are in the log; `outcome` goes to the
    /// group and the requests.
    pub fn settle(
        &mut self,
        sequence: Sequence,
        append: Append,
        appended: bool,
        outcome: Result<(), ErrorCode>,
        now: ClockReading,
    ) -> GroupOutcome {
        if !appended {
            self.refusals = self.refusals.saturating_add(1);
        }
        for record in &append.records {
            self.settle_record(sequence, record, appended);
        }
        if !appended {
            self.reindex(&append.records);
        }
        let then = append.then;
        let told = then.map(|then| self.continue_with(then, outcome, now));
        let mut told = told.unwrap_or_default();
        if let Err(error) = outcome
            && !appended
        {
            told.extend(self.recover_consumers(&append.records, error, now));
            self.restore_machines(&append.records, now);
        }
        let answers = append.answers.into_iter();
        told.replies
            .extend(answers.map(|(token, reply)| match outcome {
                Ok(()) => (token, reply),
                Err(error) => (token, reply.refused(error)),
            }));
        for record in &append.records {
            if !told.writes_to(record.group()) {
                self.sweep(record.group());
            }
        }
        told
    }

    /// Rebuilds the indexes of the groups in these records, whose versions were dropped, once per
    /// group.
    pub(super) fn reindex(&mut self, records: &[GroupRecord]) {
        let consumers = records
            .iter()
            .filter(|record| matches!(record, GroupRecord::Consumer { .. }));
        let groups: BTreeSet<&StrBytes> = consumers.map(GroupRecord::group).collect();
        for id in groups {
            let group = self.by_id.get_mut(id);
            if let Some(consumer) = group.and_then(|group| group.consumer.as_mut()) {
                consumer.reindex();
            }
        }
    }

    fn settle_record(&mut self, sequence: Sequence, record: &GroupRecord, appended: bool) {
        let refusals = self.refusals;
        let Some(group) = self.by_id.get_mut(record.group()) else {
            return;
        };
        match record {
            GroupRecord::Offset {
                topic, partition, ..
            } => {
                if !appended {
                    group.refused_at = refusals;
                }
                let Some(offsets) = group.offsets.get_mut(topic) else {
                    return;
                };
                let Some(offset) = offsets.get_mut(partition) else {
                    return;
                };
                let before = offset_bytes(topic, offset);
                offset.settle(sequence, appended);
                let after = offset_bytes(topic, offset);
                assert!(group.offsets_bytes >= before, "the sum of its offsets");
                let bytes = group.offsets_bytes.saturating_sub(before);
                group.offsets_bytes = bytes.saturating_add(after);
                if offset.is_vacant() {
                    offsets.remove(partition);
                }
                if offsets.is_empty() {
                    group.offsets.remove(topic);
                }
            }
            GroupRecord::Metadata { .. } => group.metadata.settle(sequence, appended),
            GroupRecord::Consumer { record, .. } => {
                let is_new = appended && sequence != LOADED && record.is_epoch();
                let count = &mut self.rebalances.consumer;
                *count = count.saturating_add(is_new.into());
                if let Some(consumer) = &mut group.consumer {
                    consumer.settle(sequence, record, appended);
                    if consumer.is_vacant() {
                        group.consumer = None;
                    }
                }
            }
        }
    }

    /// Takes in an offset of a committed transaction; [`OpenTransactions`] has skipped all other
    /// records.
    pub fn commit_record(&mut self, record: &GroupRecord, now: ClockReading) {
        let GroupRecord::Offset {
            group,
            topic,
            partition,
            value,
        } = record
        else {
            return;
        };
        let limits = self.options.classic;
        let known = self.by_id.entry(group.clone());
        let known = known.or_insert_with(|| Group::new(limits).into());
        let offsets = known.offsets.entry(topic.clone()).or_default();
        let position = value.clone().map(|value| Position::new(value, now));
        let offset = offsets.entry(*partition).or_default();
        let before = offset_bytes(topic, offset);
        offset.commit(position);
        assert!(known.offsets_bytes >= before, "the sum of its offsets");
        let bytes = known.offsets_bytes.saturating_sub(before);
        known.offsets_bytes = bytes.saturating_add(offset_bytes(topic, offset));
        self.sweep(group);
    }

    /// Takes in a record from the log; [`Groups::finish_load`] then builds the machines.
    pub fn load(&mut self, record: &GroupRecord, now: ClockReading) {
        self.stage(LOADED, std::slice::from_ref(record), now);
        self.settle_record(LOADED, record, true);
        self.sweep(record.group());
    }
}
