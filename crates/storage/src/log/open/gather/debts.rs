//! What directories owe of a log, and the removal of copies that do not count.
//!
//! Invariants: no copy is removed while it may be all that is left: where the one that counts is damaged, has no batches, is not
//! where it should be or cannot be read, it stays or is set aside. It does not: say which copy counts; the notes do.

use platform::Platform;
use wire::types::Offset;

use super::super::notes::{self, Owing, Place};
use super::copies::{is_empty, sound_end};
use super::{Gathering, Noted};
use crate::error::{Error, Result};

impl<P: Platform> Gathering<'_, P> {
    /// Removes from each directory that was read what it owes. What one cannot pay with is not used.
    pub(super) async fn pay(&mut self) -> Result<()> {
        let disk = self.store.disk();
        for (base, owed) in self.notes.owed.clone() {
            let mut left = Vec::new();
            for (owing, place) in &owed {
                let Noted::In(at) = self.noted(place) else {
                    if self.noted(place) != Noted::Nowhere {
                        left.push((self.owing_for_long(*owing, base), place.clone()));
                    }
                    continue;
                };
                if *owing != Owing::Unmade && self.is_away_unread(base) {
                    // Until the one that counts can be read it may be all that is left.
                    left.push((*owing, place.clone()));
                    continue;
                }
                if *owing == Owing::Moving && self.is_last_twin(at, base) {
                    tracing::warn!(base = base.0, folder = %self.parts[at].folder().display(),
                        "a segment is not where a move had left it: the copy at the other end counts");
                    continue;
                }
                let paid = match owing {
                    Owing::Copy | Owing::Moving => match self.remove_stale(at, base).await {
                        Ok(()) => self.parts[at].remove_unmade(disk, base).await,
                        error => error,
                    },
                    Owing::Unmade => self.parts[at].remove_unmade(disk, base).await,
                };
                if let Err(error) = paid {
                    // What it could read stays in use.
                    self.leave_out(at, base, &error)?;
                    self.parts[at].swaps.retain(|swap| swap.0 != base);
                    left.push((*owing, place.clone()));
                }
            }
            // One of which nothing is left was read as well.
            if left != owed || left.is_empty() {
                match notes::write_owed(disk, &self.home, base, &left).await {
                    // To pay twice does no harm, and a start needs no room.
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

    /// An end of a move that is not there may come back after the other one was changed: then it is no twin of that.
    fn owing_for_long(&self, owing: Owing, base: Offset) -> Owing {
        let noted = self.notes.away.get(&base).map(|place| self.noted(place));
        match (owing, noted) {
            (Owing::Moving, Some(Noted::In(at))) if self.parts[at].logs.contains_key(&base) => {
                Owing::Copy
            }
            _ => owing,
        }
    }

    /// True when of a segment that was being moved only the copy in `at` is left. The one that the note names is the same, and
    /// its directory was read and has it not.
    fn is_last_twin(&self, at: usize, base: Offset) -> bool {
        let mut parts = self.parts.iter().enumerate();
        self.parts[at].logs.contains_key(&base)
            && self.notes.away.contains_key(&base)
            && !parts.any(|(other, part)| other != at && self.may_count(part, base))
    }

    /// Whether a segment is on a path that is not there, as far as is noted.
    fn is_away_unread(&self, base: Offset) -> bool {
        let noted = self.notes.away.get(&base);
        noted.is_some_and(|place| matches!(self.noted(place), Noted::Unread | Noted::Unsure))
    }

    /// Removes a copy that does not count; sets it aside where the one that does is damaged, or cannot be read.
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

    /// True when the copy of a segment that counts is sound, or none does and the one in `at` is that of a segment which was
    /// deleted. What has no batches is no reason for one to go that has.
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
        let place = self.parts[live].path.as_deref().map(Place::of);
        self.lose(live, &error)?;
        let is_noted = self.notes.away.contains_key(&base);
        if let Some(place) = place.filter(|_| !was_noted && is_noted) {
            // A start without that path would know nothing of it, once this one is set aside.
            self.write_note(base, &place).await?;
        }
        Ok(false)
    }

    /// The copy of a segment that counts, beside the one in `at`, as far as that is known yet.
    fn counting_beside(&self, at: usize, base: Offset) -> Option<usize> {
        let mut others = self.holders(base);
        others.retain(|other| *other != at);
        match self.notes.away.get(&base).map(|place| self.noted(place)) {
            Some(Noted::In(noted)) if others.contains(&noted) => Some(noted),
            _ => others.first().copied(),
        }
    }
}
