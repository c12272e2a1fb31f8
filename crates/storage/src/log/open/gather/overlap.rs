//! Segments on other paths without a note at home that begin within the segment before them.
//!
//! While their path was absent, the log continued without them: their offsets have other records
//! now, which were served, so what the log has counts. Invariants: no such segment is lost, it is
//! set aside; used as a segment it would hide records of the one before, or have a recovery discard
//! all that follows. A segment that cannot be set aside or judged now is left out, and the next
//! start meets it again.

use platform::Platform;
use wire::types::Offset;

use super::super::notes::NotedPlace;
use super::super::part::Part;
use super::{GatherState, swaps};
use crate::error::Result;

impl<P: Platform> GatherState<'_, P> {
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

    /// Treats a segment as absent, because the one before it cannot be read.
    ///
    /// Until a start can read that one, it is neither served nor set aside.
    fn hold_back(&mut self, at: usize, base: Offset) {
        let part = &mut self.parts[at];
        let Some(path) = &part.path else { return };
        tracing::error!(base = base.0, folder = %part.folder().display(),
            "a segment that was not noted is not served: the one before it cannot be read");
        self.absent.insert(base, NotedPlace::of(path));
        part.logs.remove(&base);
        part.shadowed.push(base);
    }

    /// Returns true when the segment before `base`, if there is one, has records from there on.
    ///
    /// When that segment cannot be read, its path is not used, and the error is returned.
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
