//! Segments whose move was not ended: two copies are there, and the one that the note names is spoiled.
//!
//! Until the move is ended the two are the same, byte for byte, and were durable before the note; a disk that lied, or was
//! mended, may have kept less of one. Invariants: the other one counts only where it is whole, ends where it must, and has
//! every good batch that the noted one has, so that nothing counts again which was cut off or deleted. The note is
//! durable before the spoiled one is set aside. It does not: choose between copies that both are whole, or both spoiled.

use platform::Platform;
use platform::disk::{Disk, Open};
use wire::types::Offset;

use super::super::notes::{Owing, Place};
use super::copies::{good_end_of, sound_end};
use super::{Gathering, Noted};
use crate::error::{Error, Result};
use crate::segment::naming::{Role, file_path};
use crate::segment::scan::Scan;

/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;

impl<P: Platform> Gathering<'_, P> {
    /// Has the whole one of two copies at the ends of a move count, before the other end pays with it.
    pub(super) async fn prefer_whole_twins(&mut self) -> Result<()> {
        for base in self.moving.clone() {
            let noted = self.notes.away.get(&base).map(|place| self.noted(place));
            let Some(Noted::In(spoiled)) = noted else {
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
                // Whoever pays, or chooses between the two, meets an error again.
                Ok(false) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// True for the other end of the move: home, or what owes its copy for nothing but that.
    fn is_twin(&self, at: usize, base: Offset) -> bool {
        let Some(path) = &self.parts[at].path else {
            return true;
        };
        let owed = self.notes.owed.get(&base).into_iter().flatten();
        let mut owed = owed.filter(|(_, place)| place.is(path, self.tiers()));
        owed.all(|(owing, _)| *owing == Owing::Moving) && self.is_owed(base, &Place::of(path))
    }

    /// True when the noted copy is damaged, or ends too early, and all that is good in it is in the other one, which is whole.
    async fn is_spoiled(&self, noted: usize, twin: usize, base: Offset) -> Result<bool> {
        let disk = self.store.disk();
        let next = self.sure_next(base, None);
        // Both hold it; a length of 0 would be the shorter one, and never be preferred.
        let len = |at: usize| self.parts[at].logs.get(&base).copied().unwrap_or(0);
        let path = |at: usize| file_path(self.parts[at].folder(), base, Role::Log);
        let (len, twin_len) = (len(noted), len(twin));
        let (_, is_whole) = good_end_of(disk, &path(noted), (base, next), len).await?;
        if is_whole && len == twin_len || len > twin_len {
            return Ok(false);
        }
        let end = sound_end(disk, &self.parts[twin], (base, next)).await?;
        // What was cut off on purpose is shorter, too, and the next segment begins there.
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
                        // It is of a time after the move.
                        return Ok(false);
                    }
                }
            }
            noted_scan.skip(&header);
            twin_scan.skip(&header);
        }
        Ok(true)
    }

    /// Has one copy count instead of the one that is noted. With no room to say so everything stays as it is.
    async fn prefer(&mut self, twin: usize, spoiled: usize, base: Offset) -> Result<()> {
        let Some(old) = self.parts[spoiled].path.as_deref().map(Place::of) else {
            return Ok(());
        };
        // The move was cut short, perhaps before its name was durable, and once it is no end of one nobody else sees to that.
        let folder = self.parts[twin].folder();
        let synced = self.store.disk().sync_dir(folder).await;
        match synced.map_err(Error::dir_sync(folder)) {
            Err(error) if error.is_exhausted() => return Err(error),
            Err(error) => {
                // It is whole, the other is not; and a path that is read-only has nothing to be made durable.
                tracing::warn!(folder = %folder.display(), %error,
                    "a copy of a segment that counts from now on may not be durable");
            }
            Ok(()) => {}
        }
        let noted = if let Some(place) = self.parts[twin].path.as_deref().map(Place::of) {
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
            // It owes that, and pays or fails.
            _ => Ok(()),
        }
    }

    /// Notes that a segment is at home, where its move began: the other end owes its copy.
    async fn note_home(&mut self, base: Offset, old: Place) -> Result<()> {
        // Of one that owes nothing nothing is noted.
        let before = self.notes.owed.get(&base).cloned().unwrap_or_default();
        if let Err(error) = self.note_owed(base, old).await {
            self.notes.owed.insert(base, before);
            return Err(error);
        }
        self.remove_note(base).await
    }

    /// Notes that a segment is at the one end of its move; the other one owes its copy.
    async fn note_twin(&mut self, base: Offset, place: Place, old: Place) -> Result<()> {
        self.replace_note(base, &place).await?;
        let owed = self.notes.owed.entry(base).or_default();
        owed.retain(|(_, other)| *other != place);
        owed.push((Owing::Moving, old));
        self.notes.away.insert(base, place);
        // Perhaps there was no room for a text.
        self.named.push(base);
        Ok(())
    }
}
