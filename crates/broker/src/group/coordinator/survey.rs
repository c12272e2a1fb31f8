//! The walk over all groups of a shard for metrics, with pauses for other work: after a number of
//! groups, members and offsets, of any partitions.
//!
//! Groups of a partition that is loading or failed are not visited: metrics count those
//! partitions. Groups that are added or removed meanwhile may or may not be visited. Not here: what
//! is noted of a group ([`crate::group::survey`]).

use platform::Platform;
use platform::task::yield_now;

use super::{GroupCoordinator, GroupSlotPhase, OffsetsLog, VISITED_AT_ONCE};
use crate::group::survey::Survey;

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Returns what metrics show of the groups, in at most `bytes_max` bytes.
    pub async fn survey(&self, bytes_max: usize) -> Survey {
        let mut survey = Survey::new(bytes_max);
        let partitions: Vec<i32> = self.slots.borrow().keys().copied().collect();
        for partition in partitions {
            survey.worked(1);
            let mut after = None;
            loop {
                {
                    let mut slots = self.slots.borrow_mut();
                    let slot = slots.get_mut(&partition);
                    let Some(slot) = slot.filter(|slot| slot.phase == GroupSlotPhase::Active)
                    else {
                        break;
                    };
                    after = slot
                        .groups
                        .survey(after.as_ref(), VISITED_AT_ONCE, &mut survey);
                }
                if survey.has_worked(VISITED_AT_ONCE) {
                    yield_now().await;
                    survey.rested();
                }
                if after.is_none() {
                    break;
                }
            }
        }
        survey
    }
}
