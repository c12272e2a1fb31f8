//! What the broker does with logs beside commits and landings, while their parts are in the ring:
//! appends past it, a log that is deleted and made again, a log that is carried on.

use super::device::below;
use super::logs::Log;
use super::world::{World, random_bytes};
use super::*;

impl World {
    /// Appends a large batch to a segment, past the ring, synced.
    pub(super) fn append_directly(&mut self) {
        let released = self.released();
        let number = below(&mut self.rng, self.logs.len());
        let log = &mut self.logs[number];
        // A cut that is read back would cut off what comes now.
        let is_released = released.is_some_and(|released| log.last_cut < released);
        let is_due = is_released || self.planted == Some(PlantedBug::AppendAfterCut);
        if log.is_landed() && is_due {
            log.append_directly(&random_bytes(&mut self.rng, 4000));
            self.see("direct append");
        }
    }

    /// Deletes a log.
    pub(super) fn delete(&mut self) {
        let number = below(&mut self.rng, self.logs.len());
        let log = &mut self.logs[number];
        if log.is_there {
            log.delete();
            self.ring.forget(log.id);
        }
    }

    /// Makes a log of the same id as one that was deleted: when no part of that is read back any
    /// more, or by a cut that voids all of them, before there is a segment.
    pub(super) fn make_again(&mut self) {
        let released = self.released();
        let is_gone = |log: &&mut Log| !log.is_there && log.made_by.is_none();
        let Some(log) = self.logs.iter_mut().find(is_gone) else {
            return;
        };
        let is_released = released.is_some_and(|released| log.last_part < released);
        let is_at_once = self.planted == Some(PlantedBug::MakeAgainAtOnce);
        if is_at_once || (is_released && self.rng.chance(50)) {
            log.make();
            self.see("made again");
        } else if self.rng.chance(50) {
            let id = log.id;
            let Some(sequence) = self.write_commit(vec![WrittenPart::cut(id, 0)]) else {
                return;
            };
            let log = self.logs.iter_mut().find(|log| log.id == id).unwrap();
            log.note(sequence, Vec::new(), true);
            log.made_by = Some(sequence);
            self.see("made again by a cut");
        }
    }

    /// Carries a log on whose segment takes nothing: commits its parts again, so that the room of
    /// the first ones is released.
    pub(super) fn carry_on(&mut self) {
        let number = below(&mut self.rng, self.logs.len());
        let log = &self.logs[number];
        let (id, bytes) = (log.id, log.bytes.clone());
        let Some(landing) = self.ring.begin_landing(id) else {
            return;
        };
        let until = match self.planted {
            Some(PlantedBug::CarryOnDurableOnly) => landing.below,
            _ => Sequence(u64::MAX),
        };
        let commits = self.commits.range(log.landed_below..until);
        let parts = commits.filter_map(|(_, parts)| parts.as_ref()).flatten();
        let copies: Vec<_> = parts.filter(|part| part.log == id).cloned().collect();
        let commits: Vec<_> = match self.planted {
            Some(PlantedBug::CarryOnPartByPart) => {
                copies.into_iter().map(|part| vec![part]).collect()
            }
            _ => vec![copies],
        };
        let mut last = None;
        for copies in commits {
            let has_cut = copies
                .iter()
                .any(|part| matches!(part.what, PartContent::Cut(_)));
            last = self.write_commit(copies);
            let Some(sequence) = last else { break };
            self.logs[number].note(sequence, bytes.clone(), has_cut);
        }
        match last {
            Some(last) => {
                self.logs[number].carried = Some((landing, last));
                self.see("carried on");
            }
            None => self.ring.give_up_landing(landing),
        }
    }

    /// Returns below which commit nothing is read back.
    fn released(&self) -> Option<Sequence> {
        match self.planted {
            Some(PlantedBug::ReleaseWhileOpening) => {
                self.ring.released().or(Some(self.ring.durable()))
            }
            _ => self.ring.released(),
        }
    }
}
