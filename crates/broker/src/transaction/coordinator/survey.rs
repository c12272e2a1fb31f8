//! Operations on all transactional ids of a shard, some at a time: there may be a million, and the
//! shard has other work.

use platform::Platform;
use platform::task::{spawn, yield_now};
use wire::types::ErrorCode;

use super::{Change, Ids, TransactionCoordinator, TransactionSlot, TransactionSlotPhase};
use crate::transaction::machine::Transaction;
use crate::transaction::state::Entry;

/// Most ids visited before other tasks have their turn.
pub(super) const AT_ONCE: usize = 512;

impl<P: Platform> TransactionCoordinator<P> {
    /// Returns what `see` makes of every id, visiting some at a time.
    ///
    /// Fails while a partition is loading; skips partitions that failed.
    pub(crate) async fn survey<R>(
        &self,
        mut see: impl FnMut(&str, &Entry) -> Option<R>,
    ) -> Result<Vec<R>, ErrorCode> {
        let partitions = self.partitions();
        let mut seen = Vec::new();
        for partition in partitions {
            let mut after: Option<String> = None;
            loop {
                after = {
                    let slots = self.slots.borrow();
                    if slots
                        .values()
                        .any(|slot| slot.phase == TransactionSlotPhase::Loading)
                    {
                        return Err(ErrorCode::CoordinatorLoadInProgress);
                    }
                    let slot = slots.get(&partition);
                    let Some(slot) = slot.filter(|slot| slot.phase == TransactionSlotPhase::Active)
                    else {
                        break;
                    };
                    slot.survey_some(after.as_deref(), &mut see, &mut seen)
                };
                // Many partitions with few ids are long work, too.
                yield_now().await;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(seen)
    }

    /// Returns the partitions on this shard.
    pub(super) fn partitions(&self) -> Vec<i32> {
        self.slots.borrow().keys().copied().collect()
    }

    /// Returns the changes that `see` makes to some ids after `after`; leaves the last id in
    /// `after` if there may be more.
    pub(super) fn sweep_some<R>(
        &self,
        partition: i32,
        after: &mut Option<String>,
        see: impl FnMut(&mut Transaction) -> Option<R>,
    ) -> Vec<(Change, R)> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(&partition);
        let Some(slot) = slot.filter(|slot| slot.phase == TransactionSlotPhase::Active) else {
            *after = None;
            return Vec::new();
        };
        slot.sweep_some(partition, after, see)
    }
}

/// Drops ids that are no longer served, some at a time.
pub(super) fn discard(mut ids: Ids) {
    if ids.len() == 0 {
        return;
    }
    spawn(async move {
        while ids.drop_some(AT_ONCE) {
            yield_now().await;
        }
    });
}

impl TransactionSlot {
    /// Visits some ids after `after`; returns the last of them if there may be more.
    fn survey_some<R>(
        &self,
        after: Option<&str>,
        see: &mut impl FnMut(&str, &Entry) -> Option<R>,
        seen: &mut Vec<R>,
    ) -> Option<String> {
        let (mut count, mut last) = (0, None);
        for (id, transaction) in self.by_id.behind(after).take(AT_ONCE) {
            if !transaction.is_unwritten() {
                seen.extend(see(id, transaction.entry()));
            }
            (count, last) = (count + 1, Some(id));
        }
        last.filter(|_| count == AT_ONCE).cloned()
    }

    /// As [`TransactionCoordinator::sweep_some`], for this slot.
    fn sweep_some<R>(
        &mut self,
        partition: i32,
        after: &mut Option<String>,
        mut see: impl FnMut(&mut Transaction) -> Option<R>,
    ) -> Vec<(Change, R)> {
        let (mut count, mut last, mut found) = (0, None, Vec::new());
        for (id, transaction) in self.by_id.behind_mut(after.as_deref()).take(AT_ONCE) {
            if let Some(seen) = see(transaction) {
                let change = Change {
                    partition,
                    incarnation: self.incarnation,
                    id: id.clone(),
                    fences: true,
                };
                found.push((change, seen));
            }
            (count, last) = (count + 1, Some(id));
        }
        *after = last.filter(|_| count == AT_ONCE).cloned();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::types::ProducerId;

    #[test]
    fn every_id_is_seen_once_some_at_a_time() {
        let ids = (0..AT_ONCE * 2 + 7).map(|number| format!("{number:06}"));
        let transaction = || Transaction::loaded(Entry::unused(ProducerId(1), 0, 0));
        let mut by_id = Ids::default();
        ids.clone().for_each(|id| by_id.insert(id, transaction()));
        let slot = TransactionSlot {
            phase: TransactionSlotPhase::Active,
            incarnation: 0,
            failures: 0,
            is_swept: false,
            by_id,
        };
        let (mut after, mut seen, mut rounds) = (None, Vec::new(), 0);
        loop {
            let see = &mut |id: &str, _: &Entry| Some(id.to_owned());
            after = slot.survey_some(after.as_deref(), see, &mut seen);
            rounds += 1;
            if after.is_none() {
                break;
            }
        }
        assert!(seen.into_iter().eq(ids));
        assert_eq!(rounds, 3);
    }
    #[test]
    fn every_id_is_swept_once_some_at_a_time() {
        let mut by_id = Ids::default();
        for number in 0..=AT_ONCE * 2 {
            let transaction = Transaction::loaded(Entry::unused(ProducerId(1), 0, 0));
            by_id.insert(format!("{number:06}"), transaction);
        }
        let mut slot = TransactionSlot {
            phase: TransactionSlotPhase::Active,
            incarnation: 0,
            failures: 0,
            is_swept: false,
            by_id,
        };
        let (mut after, mut found) = (None, Vec::new());
        loop {
            found.push(slot.sweep_some(3, &mut after, |_| Some(())).len());
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, [AT_ONCE, AT_ONCE, 1]);
        assert!(slot.by_id.drop_some(AT_ONCE * 2));
        assert!(!slot.by_id.drop_some(AT_ONCE) && slot.by_id.len() == 0);
    }
}
