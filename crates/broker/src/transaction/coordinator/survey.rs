//! Looking at all transactional ids of a shard, some at a time: there may be a million, and others wait.

use platform::Platform;
use platform::task::yield_now;
use wire::types::ErrorCode;

use super::{Phase, Slot, TransactionCoordinator};
use crate::transaction::state::Entry;

/// Ids that are looked at before others have their turn.
const AT_ONCE: usize = 512;

impl<P: Platform> TransactionCoordinator<P> {
    /// Ids by what `see` makes of them, some at a time; the error of a slot that is not served.
    pub(crate) async fn survey<R>(
        &self,
        mut see: impl FnMut(&str, &Entry) -> Option<R>,
    ) -> Result<Vec<R>, ErrorCode> {
        let partitions: Vec<i32> = self.slots.borrow().keys().copied().collect();
        let mut seen = Vec::new();
        for partition in partitions {
            let mut after: Option<String> = None;
            loop {
                after = {
                    let slots = self.slots.borrow();
                    if slots.values().any(|slot| slot.phase == Phase::Loading) {
                        return Err(ErrorCode::CoordinatorLoadInProgress);
                    }
                    let slot = slots.get(&partition);
                    let Some(slot) = slot.filter(|slot| slot.phase == Phase::Active) else {
                        break;
                    };
                    slot.survey_some(after.as_deref(), &mut see, &mut seen)
                };
                if after.is_none() {
                    break;
                }
                yield_now().await;
            }
        }
        Ok(seen)
    }
}

impl Slot {
    /// Looks at some ids behind one. Gives the last of them, if there may be more.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::types::ProducerId;

    use crate::transaction::machine::Transaction;
    use crate::transaction::weight::Ids;

    #[test]
    fn every_id_is_seen_once_some_at_a_time() {
        let ids = (0..AT_ONCE * 2 + 7).map(|number| format!("{number:06}"));
        let transaction = || Transaction::loaded(Entry::unused(ProducerId(1), 0, 0));
        let mut by_id = Ids::default();
        ids.clone().for_each(|id| by_id.insert(id, transaction()));
        let slot = Slot {
            phase: Phase::Active,
            incarnation: 0,
            failures: 0,
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
}
