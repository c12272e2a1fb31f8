//! The third step of a decision: moves a member from its current assignment towards its target.
//!
//! First the member gives up the partitions that are not in its target, and stays in its epoch
//! until it has confirmed that, by not naming them among its own. Then it moves to the target epoch
//! and gets the partitions that are free; it waits for the others. Topics that it no longer
//! subscribes to do not count as its target.

use std::collections::{BTreeMap, BTreeSet};

use wire::types::{ErrorCode, Uuid};

use super::GroupRefusal;
use super::decision::millis;
use super::draft::Draft;
use super::member::{Assignment, MemberState, Progress};
use super::record::ConsumerRecord;
use super::timer_change::TimerChange;
use crate::group::assignor::Partitions;

impl Draft<'_> {
    /// Moves the member on as far as possible.
    ///
    /// `owned` are the partitions that the member owns, if the request names them.
    pub(super) fn reconcile(&mut self, owned: Option<&Partitions>) -> Result<(), GroupRefusal> {
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

    fn next_progress(&self, owned: Option<&Partitions>) -> Result<Progress, GroupRefusal> {
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
                return Err(GroupRefusal::new(ErrorCode::FencedMemberEpoch, message));
            }
        })
    }

    /// Returns the current assignment without topics that the member no longer reads.
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

    /// Returns the partitions of the target that the member does not have.
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

    /// Returns true when no other member holds the partition.
    fn is_free(&self, topic: Uuid, partition: i32) -> bool {
        let holder = self.group.index.holders.get(&(topic, partition));
        holder.is_none_or(|holder| *holder == self.id || Some(holder) == self.replaced.as_ref())
    }
}

/// Returns true when the member owns any of these partitions, or does not name its partitions.
fn still_owns(owned: Option<&Partitions>, revoking: &Assignment) -> bool {
    let Some(owned) = owned else { return true };
    revoking.iter().any(|(topic, held)| {
        let owned = owned.get(topic);
        owned.is_some_and(|owned| held.keys().any(|partition| owned.contains(partition)))
    })
}
