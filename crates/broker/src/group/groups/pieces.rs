//! Operations on all groups of a partition, some groups at a time: there may be a million, and the
//! shard has other work.
//!
//! Not here: the pauses, and the check that the partition is still the same after one
//! ([`crate::group::coordinator`]).

use wire::protocol::StrBytes;

use super::{GroupOutcome, GroupRef, Groups};
use crate::group::ClockReading;
use crate::group::classic::ClassicGroup;
use crate::group::cluster::Cluster;
use crate::group::survey::Survey;

impl Groups {
    /// Visits the groups among the next `count` entries after `after`; returns where to continue if
    /// there may be more.
    pub fn visit(
        &self,
        after: Option<&StrBytes>,
        count: usize,
        mut look: impl FnMut(&StrBytes, GroupRef<'_>),
    ) -> Option<StrBytes> {
        let (mut seen, mut last) = (0, None);
        for (id, group) in self.all_after(after).take(count) {
            if group.exists() {
                look(id, group.kind());
            }
            (seen, last) = (seen + 1, Some(id));
        }
        last.filter(|_| seen == count).cloned()
    }

    /// Notes the groups after `after` in `survey` until it has done so much work; returns where to
    /// continue if there may be more.
    pub(in crate::group) fn survey(
        &self,
        after: Option<&StrBytes>,
        work_max: usize,
        survey: &mut Survey,
    ) -> Option<StrBytes> {
        for (id, group) in self.all_after(after) {
            survey.worked(1);
            if group.exists() {
                survey.add(id, group);
            }
            if survey.has_worked(work_max) {
                return Some(id.clone());
            }
        }
        None
    }

    /// Ends a load for the next `count` groups after `after`; returns where to continue if there
    /// may be more.
    ///
    /// Their members have a session from `now` on.
    pub fn finish_load(
        &mut self,
        after: Option<&StrBytes>,
        count: usize,
        (now, cluster): (ClockReading, &dyn Cluster),
    ) -> (GroupOutcome, Option<StrBytes>) {
        let mut outcome = GroupOutcome::default();
        let limits = self.options.classic;
        let ids = self.all_after(after).take(count).map(|(id, _)| id.clone());
        let ids: Vec<StrBytes> = ids.collect();
        for id in &ids {
            if self.is_consumer(id) {
                self.resume_consumers(id, now, cluster);
                continue;
            }
            let Some(group) = self.by_id.get_mut(id) else {
                continue;
            };
            let Some(metadata) = group.metadata.committed() else {
                continue;
            };
            let machine = ClassicGroup::load(limits, metadata, now);
            group.set_machine(machine);
            let effects = group.machine.check_size(now);
            outcome.extend(self.carry(id, effects));
        }
        let more = ids.len() == count;
        (outcome, ids.into_iter().next_back().filter(|_| more))
    }
}
