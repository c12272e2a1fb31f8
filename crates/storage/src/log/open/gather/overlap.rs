//! Segments on other paths that home has no note of, and that begin within the segment before them.
//!
//! While their path was not there the log went on without them: their offsets have other records now, which were served, so
//! what the log has counts. Invariants: nothing of them is lost, they are set aside; taken for segments they would hide
//! records of the one before, or have a recovery discard all that follows. What cannot be set aside now is left out, and met
//! again by the next start, and so is what cannot be judged.

use platform::Platform;
use wire::types::Offset;

use super::super::notes::Place;
use super::super::part::Part;
use super::{Gathering, swaps};
use crate::error::Result;

impl<P: Platform> Gathering<'_, P> {
    pub(super) async fn set_overlapping_aside(&mut self) -> Result<()> {
        for at in 1..self.parts.len() {
            let bases: Vec<_> = self.parts[at].logs.keys().copied().collect();
            for base in bases {
                let is_noted = self.notes.away.contains_key(&base);
                if is_noted || self.parts[at].is_lost {
                    continue;
                }
                let is_within = self.is_within_another(base).await;
                // Its own path may have failed just now.
                if self.parts[at].is_lost {
                    break;
                }
                match is_within {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) if error.is_exhausted() => return Err(error),
                    Err(_) => {
                        self.hold_back(at, base);
                        continue;
                    }
                }
                tracing::error!(base = base.0, folder = %self.parts[at].folder().display(),
                    "a segment that was not noted begins within another one: it is set aside");
                if let Err(error) = self.set_aside(at, base).await {
                    self.leave_out(at, base, &error)?;
                }
            }
        }
        Ok(())
    }

    /// Of a segment beside what cannot be read nothing is known: until a start can read that it is absent, neither served nor
    /// set aside.
    fn hold_back(&mut self, at: usize, base: Offset) {
        let part = &mut self.parts[at];
        let Some(path) = &part.path else { return };
        tracing::error!(base = base.0, folder = %part.folder().display(),
            "a segment that was not noted is not served: the one before it cannot be read");
        self.absent.insert(base, Place::of(path));
        part.logs.remove(&base);
        part.shadowed.push(base);
    }

    /// True when the segment before `base`, if it is there, has records from there on. When that cannot be read its path is not
    /// used, and the error is the answer.
    pub(super) async fn is_within_another(&mut self, base: Offset) -> Result<bool> {
        let before = |part: &Part| {
            let last = part.logs.range(..base).next_back();
            last.map(|(at, len)| (*at, *len))
        };
        let parts = self.parts.iter().filter(|part| !part.is_lost);
        let found = parts.filter_map(|part| Some((before(part)?, part)));
        let Some(((at, len), part)) = found.max_by_key(|((at, _), _)| *at) else {
            return Ok(false);
        };
        let bounds = (at, self.sure_next(at, Some(base)));
        match swaps::end_of(self.store.disk(), part, bounds, len).await {
            Ok(end) => Ok(end > base),
            Err(error) => {
                self.lose_failed(0, &error)?;
                Err(error)
            }
        }
    }
}
