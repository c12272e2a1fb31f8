//! The third step: from what a member has to what it is to have.
//!
//! First it gives up what it is not to have, and stays in its epoch until it has confirmed that (by
//! no longer naming those partitions among its own). Then it moves to the target's epoch and gets
//! what is free; for the rest it waits. What it no longer reads it is not to have, whatever the
//! target says.

use std::collections::{BTreeMap, BTreeSet};

use wire::types::{ErrorCode, Uuid};

use super::Refused;
use super::decision::millis;
use super::draft::Draft;
use super::member::{Assignment, MemberState, Progress};
use super::record::ConsumerRecord;
use super::timer_change::TimerChange;
use crate::group::assignor::Partitions;

impl Draft<'_> {
    /// Moves the member on, as far as it can go. `owned` is what it says it has, if it says so.
    pub(super) fn reconcile(&mut self, owned: Option<&Partitions>) -> Result<(), Refused> {
        if !self.resubscribed && self.progress.is_at(self.target_epoch) {
            return Ok(());
        }
        let next = self.next_progress(owned)?;
        if next == self.progress {
            return Ok(());
        }
        let record = ConsumerRecord::Progress(self.id.clone(), Some(next.clone()));
        self.decision.records.push(record);
        if self.member.classic.is_none() {
            let change = if next.state == MemberState::Unrevoked {
                let wait = millis(self.member.rebalance_timeout_ms);
                TimerChange::Rebalance(self.ask.now.at + wait, next.epoch)
            } else {
                TimerChange::Rebalanced
            };
            self.timer(change);
        }
        self.progress = next;
        Ok(())
    }

    fn next_progress(&self, owned: Option<&Partitions>) -> Result<Progress, Refused> {
        let now = &self.progress;
        Ok(match now.state {
            MemberState::Stable if now.epoch != self.target_epoch => {
                self.toward_target(now.epoch, owned)
            }
            MemberState::Stable if self.resubscribed => self.without_unread(owned),
            MemberState::Stable => now.clone(),
            MemberState::Unrevoked if still_owns(owned, &now.revoking) => {
                if self.resubscribed {
                    self.without_unread(owned)
                } else {
                    now.clone()
                }
            }
            MemberState::Unrevoked | MemberState::Unreleased => {
                self.toward_target(now.epoch, owned)
            }
            MemberState::Unknown if owned.is_some_and(BTreeMap::is_empty) => {
                self.toward_target(self.target_epoch, owned)
            }
            MemberState::Unknown => {
                let message = "The member is in a state that this broker does not know. It must \
                               give up its partitions and join again.";
                return Err(Refused::new(ErrorCode::FencedMemberEpoch, message));
            }
        })
    }

    /// The same assignment without topics that the member does not read any more.
    fn without_unread(&self, owned: Option<&Partitions>) -> Progress {
        let now = &self.progress;
        let read = self.topic_ids();
        let (kept, unread): (Assignment, Assignment) = now
            .assigned
            .clone()
            .into_iter()
            .partition(|(topic, _)| read.contains(topic));
        if unread.is_empty() {
            return now.clone();
        }
        let mut revoking = now.revoking.clone();
        for (topic, held) in unread {
            revoking.entry(topic).or_default().extend(held);
        }
        if still_owns(owned, &revoking) {
            Progress {
                state: MemberState::Unrevoked,
                previous_epoch: now.epoch,
                assigned: kept,
                revoking,
                ..now.clone()
            }
        } else {
            Progress {
                previous_epoch: now.epoch,
                assigned: kept,
                ..now.clone()
            }
        }
    }

    fn toward_target(&self, epoch: i32, owned: Option<&Partitions>) -> Progress {
        let now = &self.progress;
        let read = self.topic_ids();
        let is_target = |topic: &Uuid, partition: i32| {
            read.contains(topic)
                && self
                    .target
                    .get(topic)
                    .is_some_and(|partitions| partitions.contains(&partition))
        };
        let mut assigned = Assignment::new();
        let mut revoking = Assignment::new();
        for (topic, held) in &now.assigned {
            for (partition, since) in held {
                let side = if is_target(topic, *partition) {
                    &mut assigned
                } else {
                    &mut revoking
                };
                side.entry(*topic).or_default().insert(*partition, *since);
            }
        }
        if !revoking.is_empty() && still_owns(owned, &revoking) {
            return Progress {
                epoch,
                previous_epoch: now.epoch,
                state: MemberState::Unrevoked,
                assigned,
                revoking,
            };
        }
        let mut waits = false;
        for (topic, partition) in self.wanted(&read, &assigned) {
            if self.is_free(topic, partition) {
                let held = assigned.entry(topic).or_default();
                held.insert(partition, self.target_epoch);
            } else {
                waits = true;
            }
        }
        let state = if waits {
            MemberState::Unreleased
        } else {
            MemberState::Stable
        };
        now.moved_to(self.target_epoch, state, assigned)
    }

    /// What the member is to have and does not.
    fn wanted(&self, read: &BTreeSet<Uuid>, assigned: &Assignment) -> Vec<(Uuid, i32)> {
        let topics = self
            .target
            .iter()
            .filter(|(topic, _)| read.contains(*topic));
        let all = topics.flat_map(|(topic, partitions)| {
            let held = assigned.get(topic);
            let missing = move |one: &&i32| !held.is_some_and(|held| held.contains_key(*one));
            let missing = partitions.iter().filter(missing);
            missing.map(|partition| (*topic, *partition))
        });
        all.collect()
    }

    /// True when nobody else holds a partition.
    fn is_free(&self, topic: Uuid, partition: i32) -> bool {
        let holder = self.group.index.holders.get(&(topic, partition));
        holder.is_none_or(|holder| *holder == self.id || Some(holder) == self.replaced.as_ref())
    }
}

/// True when the member has any of these partitions, or does not say what it has.
fn still_owns(owned: Option<&Partitions>, revoking: &Assignment) -> bool {
    let Some(owned) = owned else { return true };
    revoking.iter().any(|(topic, held)| {
        let owned = owned.get(topic);
        owned.is_some_and(|owned| held.keys().any(|partition| owned.contains(partition)))
    })
}
