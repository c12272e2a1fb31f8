//! Pays what directories owe of a log, and removes copies that do not count.
//!
//! Invariant: no copy is removed while it may be all that is left: where the one that counts is
//! damaged, has no batches, is missing or cannot be read, the copy stays or is set aside. It does
//! not: say which copy counts; the notes do.

use platform::Platform;
use wire::types::Offset;

use super::super::notes::{self, Debt, NotedPlace};
use super::copies::{is_empty, sound_end};
use super::{GatherState, NotedLocation};
use crate::error::{Error, Result};

impl<P: Platform> GatherState<'_, P> {
    /// Removes from each directory that was read what it owes; what cannot be removed is not used.
    pub(super) async fn pay(&mut self) -> Result<()> {
        let disk = self.store.disk();
        for (base, owed) in self.notes.owed.clone() {
            let mut left = Vec::new();
            for (owing, place) in &owed {
                let NotedLocation::In(at) = self.noted(place) else {
                    if self.noted(place) != NotedLocation::Nowhere {
                        left.push((self.owing_for_long(*owing, base), place.clone()));
                    }
                    continue;
                };
                if *owing != Debt::Unmade && self.is_away_unread(base) {
                    // Until the one that counts can be read, this copy may be all that is left.
                    left.push((*owing, place.clone()));
                    continue;
                }
                if *owing == Debt::Moving && self.is_last_twin(at, base) {
                    tracing::warn!(base = base.0, folder = %self.parts[at].folder().display(),
                        "a segment is not where a move had left it: the copy at the other end counts");
                    continue;
                }
                let paid = match owing {
                    Debt::Copy | Debt::Moving => match self.remove_stale(at, base).await {
                        Ok(()) => self.parts[at].remove_unmade(disk, base).await,
                        error => error,
                    },
                    Debt::Unmade => self.parts[at].remove_unmade(disk, base).await,
                };
                if let Err(error) = paid {
                    // The rest of what was read there stays in use.
                    self.leave_out(at, base, &error)?;
                    self.parts[at].swaps.retain(|swap| swap.0 != base);
                    left.push((*owing, place.clone()));
                }
            }
            // A file of debts may have nothing left from the beginning: it goes, too.
            if left != owed || left.is_empty() {
                match notes::write_owed(disk, &self.home, base, &left).await {
                    // Paying twice does no harm, and a start must not need room.
                    Err(Error::Full { .. }) => left = owed,
                    written => written?,
                }
            }
            if left.is_empty() {
                self.notes.owed.remove(&base);
            } else {
                self.notes.owed.insert(base, left);
            }
        }
        Ok(())
    }

    /// Returns what an absent end of a move owes from now on.
    ///
    /// It may come back after the other end was changed, and is no twin of that then: it owes its
    /// copy.
    fn owing_for_long(&self, owing: Debt, base: Offset) -> Debt {
        let noted = self.notes.away.get(&base).map(|place| self.noted(place));
        match (owing, noted) {
            (Debt::Moving, Some(NotedLocation::In(at)))
                if self.parts[at].logs.contains_key(&base) =>
            {
                Debt::Copy
            }
            _ => owing,
        }
    }

    /// Returns true when the copy in `at` is the only one left of a segment that was being moved.
    ///
    /// The copy that the note names was the same, and its directory was read and does not have it.
    fn is_last_twin(&self, at: usize, base: Offset) -> bool {
        let mut parts = self.parts.iter().enumerate();
        self.parts[at].logs.contains_key(&base)
            && self.notes.away.contains_key(&base)
            && !parts.any(|(other, part)| other != at && self.may_count(part, base))
    }

    /// Returns true when a segment is noted to be on a path that is absent.
    fn is_away_unread(&self, base: Offset) -> bool {
        let noted = self.notes.away.get(&base);
        noted.is_some_and(|place| {
            matches!(
                self.noted(place),
                NotedLocation::Unread | NotedLocation::Unsure
            )
        })
    }

    /// Removes a copy that does not count, or sets it aside where the one that counts is damaged or
    /// unreadable.
    pub(super) async fn remove_stale(&mut self, at: usize, base: Offset) -> Result<()> {
        let disk = self.store.disk();
        let is_there = self.parts[at].logs.contains_key(&base);
        if is_there && !self.may_go(at, base).await? {
            tracing::error!(base = base.0, folder = %self.parts[at].folder().display(),
                "an older copy of a segment that is damaged, or not where it should be, is set aside");
            return self.set_aside(at, base).await;
        }
        if is_there {
            tracing::warn!(base = base.0, removed = %self.parts[at].folder().display(),
                "a copy of a segment that does not count any more is removed");
        }
        self.parts[at].remove_segment(disk, base).await
    }

    /// Returns true when the copy that counts is sound, or the copy in `at` is of a deleted
    /// segment.
    ///
    /// A counting copy without batches is no reason to remove one that has some.
    async fn may_go(&mut self, at: usize, base: Offset) -> Result<bool> {
        let Some(live) = self.counting_beside(at, base) else {
            return Ok(!self.notes.away.contains_key(&base));
        };
        let disk = self.store.disk();
        let bounds = (base, self.sure_next(base, None));
        let error = match sound_end(disk, &self.parts[live], bounds).await {
            Ok(Some(end)) if end > base => return Ok(true),
            Ok(Some(_)) => return is_empty(disk, &self.parts[at], base).await,
            Ok(None) => return Ok(false),
            Err(error) => error,
        };
        let was_noted = self.notes.away.contains_key(&base);
        let place = self.parts[live].path.as_deref().map(NotedPlace::of);
        self.lose(live, &error)?;
        let is_noted = self.notes.away.contains_key(&base);
        if let Some(place) = place.filter(|_| !was_noted && is_noted) {
            // Once this copy is set aside, a start without that path would not know of the segment.
            self.write_note(base, &place).await?;
        }
        Ok(false)
    }

    /// Returns the counting copy of a segment beside the one in `at`, as far as it is known yet.
    fn counting_beside(&self, at: usize, base: Offset) -> Option<usize> {
        let mut others = self.holders(base);
        others.retain(|other| *other != at);
        match self.notes.away.get(&base).map(|place| self.noted(place)) {
            Some(NotedLocation::In(noted)) if others.contains(&noted) => Some(noted),
            _ => others.first().copied(),
        }
    }
}
