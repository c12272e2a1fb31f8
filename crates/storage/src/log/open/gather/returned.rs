//! Segments that were set aside under another, older home, and that the right home has a note of.
//!
//! Invariants: a file is taken back only if a note at home names this very directory, no segment of
//! that base is there, all its batches are good, and it fits between its neighbours. Any other file
//! stays set aside.

use platform::Platform;
use platform::disk::Disk;
use wire::types::Offset;

use super::super::part::AsideFile;
use super::{GatherState, NotedLocation, sound_end_of};
use crate::error::{Error, Result};
use crate::segment::naming::{Role, file_path};

impl<P: Platform> GatherState<'_, P> {
    pub(super) async fn take_back(&mut self) -> Result<()> {
        for (base, place) in self.notes.away.clone() {
            let NotedLocation::In(at) = self.noted(&place) else {
                continue;
            };
            if !self.holders(base).is_empty() || !self.parts[at].asides.contains_key(&base) {
                continue;
            }
            let Some(aside) = self.fitting(at, base).await? else {
                continue;
            };
            if let Err(error) = self.name_again(at, base, &aside).await {
                self.lose(at, &error)?;
            }
        }
        Ok(())
    }

    /// Returns the longest of the set-aside files that can be the segment.
    async fn fitting(&mut self, at: usize, base: Offset) -> Result<Option<AsideFile>> {
        let asides = self.parts[at].asides.get(&base).cloned();
        let mut best: Option<(Offset, AsideFile)> = None;
        for aside in asides.into_iter().flatten() {
            let path = self.parts[at].folder().join(&aside.name);
            let bounds = (base, self.next_after(base));
            let end = match sound_end_of(self.store.disk(), &path, bounds, aside.len).await {
                Ok(Some(end)) => end,
                Ok(None) => continue,
                Err(error) => {
                    // Segments on a path that fails are absent, and the rest of the log is served.
                    self.lose(at, &error)?;
                    return Ok(None);
                }
            };
            let is_longest = best.as_ref().is_none_or(|(other, _)| end > *other);
            if end > base && is_longest {
                best = Some((end, aside));
            }
        }
        if best.is_none() {
            return Ok(None);
        }
        match self.is_within_another(base).await {
            Err(error) if error.is_exhausted() => Err(error),
            // Another start may know more.
            Err(_) | Ok(true) => Ok(None),
            Ok(false) => Ok(best.map(|(_, aside)| aside)),
        }
    }

    /// Returns where the next known segment begins.
    fn next_after(&self, base: Offset) -> Offset {
        let after = Offset(base.0.saturating_add(1));
        let parts = self.parts.iter().filter(|part| !part.is_lost);
        let there = parts.filter_map(|part| part.logs.range(after..).next());
        let noted = self.notes.away.range(after..).next();
        let known = there
            .map(|(base, _)| *base)
            .chain(noted.map(|(base, _)| *base));
        known.min().unwrap_or(Offset(i64::MAX))
    }

    async fn name_again(&mut self, at: usize, base: Offset, aside: &AsideFile) -> Result<()> {
        let disk = self.store.disk();
        let part = &mut self.parts[at];
        let (from, to) = (
            part.folder().join(&aside.name),
            file_path(part.folder(), base, Role::Log),
        );
        tracing::warn!(file = %from.display(),
            "a segment that was set aside is where its note says that it is: it counts again");
        // Indexes that are there may not be its own.
        part.remove_segment(disk, base).await?;
        let renamed = disk.rename(&from, &to).await;
        renamed.map_err(Error::io("rename", &from))?;
        part.sync(disk).await?;
        part.logs.insert(base, aside.len);
        part.times.insert((base, Role::Log), aside.modified_ms);
        Ok(())
    }
}
