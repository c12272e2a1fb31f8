//! Segments with an unfinished move: two copies exist, and the one that the note names is damaged.
//!
//! Until a move is finished the two copies are the same, byte for byte, and were durable before the
//! note; a disk that lied, or was repaired, may have lost a part of one. Invariants: the other copy
//! counts only where it is whole, ends where it must, and has every good batch of the noted one, so
//! that nothing counts again that was truncated or deleted. The note is durable before the damaged
//! copy is set aside.
//! It does not: choose between copies that are both whole, or both damaged.

use platform::Platform;
use platform::disk::{Disk, Open};
use wire::types::Offset;

use super::super::notes::{Debt, NotedPlace};
use super::copies::{good_end_of, sound_end};
use super::{GatherState, NotedLocation};
use crate::error::{Error, Result};
use crate::segment::naming::{Role, file_path};
use crate::segment::scan::Scan;

/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;

impl<P: Platform> GatherState<'_, P> {
    /// Makes the whole one of two copies at the ends of a move count.
    ///
    /// It runs before the other end pays with that copy.
    pub(super) async fn prefer_whole_twins(&mut self) -> Result<()> {
        for base in self.moving.clone() {
            let noted = self.notes.away.get(&base).map(|place| self.noted(place));
            let Some(NotedLocation::In(spoiled)) = noted else {
                continue;
            };
            if !self.parts[spoiled].logs.contains_key(&base) {
                continue;
            }
            let mut others = self.holders(base).into_iter();
            let Some(twin) = others.find(|at| *at != spoiled && self.is_twin(*at, base)) else {
                continue;
            };
            match self.is_spoiled(spoiled, twin, base).await {
                Ok(true) => self.prefer(twin, spoiled, base).await?,
                Err(error) if error.is_exhausted() => return Err(error),
                // Paying, or choosing between the two, meets the error again.
                Ok(false) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Returns true for the other end of the move: home, or a path that owes its copy only for the
    /// move.
    fn is_twin(&self, at: usize, base: Offset) -> bool {
        let Some(path) = &self.parts[at].path else {
            return true;
        };
        let owed = self.notes.owed.get(&base).into_iter().flatten();
        let mut owed = owed.filter(|(_, place)| place.is(path, self.tiers()));
        owed.all(|(owing, _)| *owing == Debt::Moving) && self.is_owed(base, &NotedPlace::of(path))
    }

    /// Returns true when the noted copy is damaged or too short, and the whole other one has all
    /// that is good in it.
    async fn is_spoiled(&self, noted: usize, twin: usize, base: Offset) -> Result<bool> {
        let disk = self.store.disk();
        let next = self.sure_next(base, None);
        // Both have the segment; a length of 0 would make a copy the shorter one, which is never
        // preferred.
        let len = |at: usize| self.parts[at].logs.get(&base).copied().unwrap_or(0);
        let path = |at: usize| file_path(self.parts[at].folder(), base, Role::Log);
        let (len, twin_len) = (len(noted), len(twin));
        let (_, is_whole) = good_end_of(disk, &path(noted), (base, next), len).await?;
        if is_whole && len == twin_len || len > twin_len {
            return Ok(false);
        }
        let end = sound_end(disk, &self.parts[twin], (base, next)).await?;
        // A copy that was truncated on purpose is shorter, too, and the next segment begins there.
        let is_right = end.is_some_and(|end| end > base && (len == twin_len || end == next));
        if !is_right {
            return Ok(false);
        }
        let open = async |path| {
            let opened = disk.open(path, Open::Read).await;
            opened.map_err(Error::io("open", path))
        };
        let (noted, twin) = (path(noted), path(twin));
        let (noted_file, twin_file) = (open(&noted).await?, open(&twin).await?);
        let mut noted_scan = Scan::new(&noted_file, 0, len, READ_BYTES);
        let mut twin_scan = Scan::new(&twin_file, 0, twin_len, READ_BYTES);
        while let Some(header) = twin_scan.header().await.map_err(Error::io("read", &twin))? {
            let is_same = noted_scan.crc_is_right(&header).await;
            if !is_same.map_err(Error::io("read", &noted))? {
                let other = noted_scan.header().await;
                if let Some(other) = other.map_err(Error::io("read", &noted))? {
                    let is_good = noted_scan.crc_is_right(&other).await;
                    if is_good.map_err(Error::io("read", &noted))? {
                        // The batch is of a time after the move.
                        return Ok(false);
                    }
                }
            }
            noted_scan.skip(&header);
            twin_scan.skip(&header);
        }
        Ok(true)
    }

    /// Makes one copy count instead of the noted one.
    ///
    /// Without room for a note of that, everything stays as it is.
    async fn prefer(&mut self, twin: usize, spoiled: usize, base: Offset) -> Result<()> {
        let Some(old) = self.parts[spoiled].path.as_deref().map(NotedPlace::of) else {
            return Ok(());
        };
        // The move was interrupted, perhaps before this copy's name was durable. Once the copy is
        // no end of a move, no other step syncs its folder.
        let folder = self.parts[twin].folder();
        let synced = self.store.disk().sync_dir(folder).await;
        match synced.map_err(Error::dir_sync(folder)) {
            Err(error) if error.is_exhausted() => return Err(error),
            Err(error) => {
                // This copy is whole and the other is not; and a read-only path has nothing to be
                // made durable.
                tracing::warn!(folder = %folder.display(), %error,
                    "a copy of a segment that counts from now on may not be durable");
            }
            Ok(()) => {}
        }
        let noted = if let Some(place) = self.parts[twin].path.as_deref().map(NotedPlace::of) {
            self.note_twin(base, place, old).await
        } else {
            self.note_home(base, old).await
        };
        match noted {
            Err(Error::Full { .. }) => return Ok(()),
            noted => noted?,
        }
        tracing::error!(base = base.0, kept = %self.parts[twin].folder().display(),
            aside = %self.parts[spoiled].folder().display(),
            "a copy of a segment is damaged and set aside: the one that its move had left counts");
        match self.set_aside(spoiled, base).await {
            Err(error) if error.is_exhausted() => Err(error),
            // That directory owes the copy, and pays or fails.
            _ => Ok(()),
        }
    }

    /// Notes that a segment is at home, where its move began; the other end owes its copy.
    async fn note_home(&mut self, base: Offset, old: NotedPlace) -> Result<()> {
        // A debt that could not be written is not kept in memory.
        let before = self.notes.owed.get(&base).cloned().unwrap_or_default();
        if let Err(error) = self.note_owed(base, old).await {
            self.notes.owed.insert(base, before);
            return Err(error);
        }
        self.remove_note(base).await
    }

    /// Notes that a segment is at one end of its move; the other end owes its copy.
    async fn note_twin(&mut self, base: Offset, place: NotedPlace, old: NotedPlace) -> Result<()> {
        self.replace_note(base, &place).await?;
        let owed = self.notes.owed.entry(base).or_default();
        owed.retain(|(_, other)| *other != place);
        owed.push((Debt::Moving, old));
        self.notes.away.insert(base, place);
        // There may have been no room for a text.
        self.named.push(base);
        Ok(())
    }
}
