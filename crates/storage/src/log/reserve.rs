//! Room that a log keeps in its file behind its end (`LogOptions::reserve_bytes`), for appends when
//! the disk is full.
//!
//! The room is made like that of `preallocate`, and a clean stop gives it back. Invariant: it is
//! made when there is room, after an append and on demand; without room the log works like one that
//! reserves nothing. It does not: say who may use it.

use platform::Platform;
use platform::disk::{BLOCK_BYTES, DiskFile};

use super::Log;
use crate::error::{Error, FailureKind, Result};
use crate::log::views::Upkeeping;
use crate::segment::naming::Role;

/// Smallest reserve that is worth asking for.
const RESERVE_BYTES_MIN: u64 = 64 << 10;

impl<P: Platform> Log<P> {
    /// Returns the bytes that can be appended without any room from the file system.
    pub fn reserved_bytes(&self) -> u64 {
        let active = self.segments.active();
        active.allocated().saturating_sub(active.size())
    }

    /// Makes the reserve whole, or as large as there is room for; fails if that is not all of it.
    pub async fn reserve(&self) -> Result<()> {
        let gate = self.upkeep.gate.acquire().await;
        let _gate = gate.map_err(|_| Error::Closed)?;
        if Upkeeping(self).wants_reserve(self.options().reserve_bytes) {
            return Upkeeping(self).make_reserve().await;
        }
        Ok(())
    }
}

impl<P: Platform> Upkeeping<'_, P> {
    /// Returns true when the reserve is not whole and can be made so.
    ///
    /// A part of it may be used before more is asked for.
    pub(super) fn wants_reserve(self, bytes: u64) -> bool {
        bytes > 0
            && self.segments.active().is_named()
            && !self.upkeep.cannot_reserve.get()
            && self.reserved_bytes() < bytes - bytes / 8
    }

    /// Makes the reserve; the caller holds the gate.
    pub(super) async fn make_reserve(self) -> Result<()> {
        let active = self.segments.active();
        let file = active.file(self.store.disk()).await?;
        let path = active.path(Role::Log);
        let mut bytes = self.options().reserve_bytes;
        let mut failed = None;
        while bytes >= RESERVE_BYTES_MIN {
            let upto = active.size().saturating_add(bytes);
            let upto = upto.next_multiple_of(BLOCK_BYTES as u64);
            if upto <= active.allocated() {
                break;
            }
            match file
                .allocate(upto)
                .await
                .map_err(Error::io("reserve room in", &path))
            {
                Ok(()) => {
                    active.has_room(upto);
                    break;
                }
                Err(error) if error.kind() == FailureKind::Full => {
                    failed.get_or_insert(error);
                    bytes /= 2;
                }
                Err(error) => {
                    if !error.is_exhausted() {
                        tracing::warn!(partition = %self.partition, %error,
                            "no room can be kept for a full disk");
                        self.upkeep.cannot_reserve.set(true);
                    }
                    return Err(error);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
