//! The machine of a classic group: how it is replaced, and the appends it continues after.
//!
//! A group may get another machine while appends of the earlier one are in flight: it was deleted
//! and created again, or it changed its protocol. Generations then start again, so they do not tell
//! the machines apart. The outcome of an append therefore goes only to the machine that asked for
//! it. Kafka does the same: the continuation of a write holds the group object.

use std::collections::BTreeSet;

use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{Group, GroupOutcome, Groups};
use crate::group::ClockReading;
use crate::group::classic::{AfterAppend, ClassicGroup, Limits, Reply, Token};
use crate::group::records::GroupRecord;

/// What a machine does after an append.
#[derive(Debug)]
pub struct Continuation {
    group: StrBytes,
    /// [`Group::machine_number`] of the machine that asked for the append.
    machine: u64,
    then: AfterAppend,
}

impl Group {
    /// Replaces the machine; outcomes of earlier appends no longer reach it.
    pub(super) fn set_machine(&mut self, machine: ClassicGroup) {
        self.machine = machine;
        self.machine_number = self.machine_number.wrapping_add(1);
    }

    /// Replaces the machine by a new one, and answers the requests that wait in it with `error`.
    pub(super) fn abandon_machine(&mut self, error: ErrorCode) -> Vec<(Token, Reply)> {
        self.machine_number = self.machine_number.wrapping_add(1);
        self.machine.abandon(error).replies
    }

    /// Builds the machine of a classic group from its record after a failed append, if nothing is
    /// left of the group in the machine: its deletion, or its change of protocol, has failed.
    ///
    /// Returns true when it did.
    fn restore_machine(&mut self, limits: Limits, now: ClockReading) -> bool {
        if self.consumer().is_some() || !self.machine.is_blank() {
            return false;
        }
        let Some(metadata) = self.metadata.latest() else {
            return false;
        };
        let machine = ClassicGroup::load(limits, metadata, now);
        self.set_machine(machine);
        true
    }
}

impl Groups {
    /// Returns the continuation of the group's current machine.
    pub(super) fn continuation(&self, id: &StrBytes, then: AfterAppend) -> Option<Continuation> {
        let machine = self.by_id.get(id)?.machine_number;
        Some(Continuation {
            group: id.clone(),
            machine,
            then,
        })
    }

    /// Continues after an append, unless the group has another machine by now.
    pub(super) fn continue_with(
        &mut self,
        continuation: Continuation,
        outcome: Result<(), ErrorCode>,
        now: ClockReading,
    ) -> GroupOutcome {
        let Continuation {
            group: id,
            machine,
            then,
        } = continuation;
        let group = self.by_id.get_mut(&id);
        let Some(group) = group.filter(|group| group.machine_number == machine) else {
            // Requests wait in the machine itself, which answered them before it was replaced.
            return GroupOutcome::default();
        };
        let effects = group.machine.stored(then, outcome, now);
        self.carry(&id, effects)
    }

    /// Restores the classic groups whose deletion or change of protocol was in these records, which
    /// are not in the log.
    pub(super) fn restore_machines(&mut self, records: &[GroupRecord], now: ClockReading) {
        let limits = self.options.classic;
        let states = records.iter().filter(|record| record.is_of_state());
        let groups: BTreeSet<&StrBytes> = states.map(GroupRecord::group).collect();
        for id in groups {
            let group = self.by_id.get_mut(id);
            if group.is_some_and(|group| group.restore_machine(limits, now)) {
                self.arm(id);
            }
        }
    }
}
