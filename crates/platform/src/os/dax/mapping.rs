//! A file in memory: a shared mapping, the readers' slices of it, and stores into it.
//!
//! Invariants: only the routines of [`super::guard`] and the holders of slices access the memory of
//! a mapping; a slice lies within the length of the file at its creation, and keeps the mapping
//! alive. Bytes under a slice never change: code that changes or truncates them first calls
//! [`Mapping::detach`], which gives the readers a private copy at the same addresses. So a slice is
//! a `&[u8]` of bytes that are never written again, whatever happens to the file. The exception is
//! a medium that fails under a reader, see [`super::guard`].
#![allow(unsafe_code, reason = "mapped memory")]

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::{NonNull, null_mut};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};

use super::guard;
use super::table::{PAGE_BYTES, Registration};

/// A mapping of the first `len` bytes of a file, present or not.
pub(super) struct Mapping {
    /// Dropped before the pages are unmapped: from then on another mapping may have their
    /// addresses, and the handler would mark the wrong one of two.
    registration: Registration,
    pages: Pages,
    /// Number of live slices.
    slices: AtomicUsize,
    /// No live slice ends behind this.
    slices_end: AtomicU64,
    /// From here on readers have a copy, which is no longer the file.
    detached_from: AtomicU64,
}

// SAFETY: the mapping owns the memory until it drops; the invariants above define who may access
// it, and the counters are atomic.
unsafe impl Send for Mapping {}
// SAFETY: the same.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file.
    ///
    /// The part behind the end of the file takes only addresses, and becomes usable as the file
    /// grows.
    pub(super) fn new(file: &OwnedFd, len: usize, writable: bool, sync: bool) -> io::Result<Self> {
        let len = len.max(1).next_multiple_of(PAGE_BYTES);
        let flags = if sync {
            MapFlags::SHARED_VALIDATE | MapFlags::SYNC
        } else {
            MapFlags::SHARED
        };
        let prot = if writable {
            ProtFlags::READ | ProtFlags::WRITE
        } else {
            ProtFlags::READ
        };
        // SAFETY: a mapping at an address that the kernel chooses touches no memory of ours.
        let start = unsafe { rustix::mm::mmap(null_mut(), len, prot, flags, file, 0)? };
        let Some(start) = NonNull::new(start.cast::<u8>()) else {
            return Err(io::Error::other("mapped at address zero"));
        };
        let pages = Pages { start, len };
        Ok(Self {
            registration: Registration::of(start.as_ptr().expose_provenance(), len)?,
            pages,
            slices: AtomicUsize::new(0),
            slices_end: AtomicU64::new(0),
            detached_from: AtomicU64::new(u64::MAX),
        })
    }

    /// Returns the mapped length in bytes.
    pub(super) fn len(&self) -> usize {
        self.pages.len
    }

    /// Returns true when a part of it could not be read and is now zeros.
    ///
    /// Only the holders of slices may still use the mapping.
    pub(super) fn is_damaged(&self) -> bool {
        self.registration.is_damaged()
    }

    /// Stores `bytes`, whole cache lines, at `position`; on persistent memory they are durable when
    /// it returns.
    ///
    /// The caller ensures that no slice is there (see [`Mapping::detach`]).
    pub(super) fn store(&self, position: usize, bytes: &[u8]) -> io::Result<()> {
        assert!(
            position <= self.pages.len && bytes.len() <= self.pages.len - position,
            "store beside"
        );
        debug_assert!(self.slices_end() <= position as u64, "store under a reader");
        // SAFETY: within the mapping, which `&self` keeps alive; position and length are whole
        // blocks (the file's callers ensure it); there are no slices and no other references there.
        unsafe {
            let to = self.pages.start.as_ptr().add(position);
            guard::store(to, bytes.as_ptr(), bytes.len())?;
        }
        // A page that was replaced meanwhile has lost the bytes stored to it.
        if self.is_damaged() {
            return Err(guard::media_error());
        }
        Ok(())
    }

    /// Copies bytes into `target`.
    pub(super) fn load(&self, position: usize, target: &mut [u8]) -> io::Result<()> {
        assert!(
            position <= self.pages.len && target.len() <= self.pages.len - position,
            "load beside"
        );
        // SAFETY: within the mapping, which `&self` keeps alive.
        unsafe {
            let from = self.pages.start.as_ptr().add(position);
            guard::load(target.as_mut_ptr(), from, target.len())?;
        }
        if self.is_damaged() {
            return Err(guard::media_error());
        }
        Ok(())
    }

    /// Returns a range without a copy, after checking that every line of it is readable.
    pub(super) fn slice(self: &Arc<Self>, range: Range<usize>) -> io::Result<Bytes> {
        assert!(
            range.start <= range.end && range.end <= self.pages.len,
            "slice beside"
        );
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        // Counted first: from now on nothing is stored there.
        let slice = Slice::of(self, range);
        // SAFETY: within the mapping, which the slice keeps alive.
        unsafe { guard::probe(slice.start(), slice.len)? };
        if self.is_damaged() {
            return Err(guard::media_error());
        }
        Ok(Bytes::from_owner(slice))
    }

    /// Returns the end of the slices of the file itself; 0 without slices.
    pub(super) fn slices_end(&self) -> u64 {
        if self.slices.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let end = self.slices_end.load(Ordering::Relaxed);
        end.min(self.detached_from.load(Ordering::Relaxed))
    }

    /// Gives the readers behind `position` a copy at the same addresses, so that the file can
    /// change there.
    ///
    /// The rest of this mapping is then no longer the file.
    pub(super) fn detach(&self, position: u64) -> io::Result<()> {
        let end = usize::try_from(self.slices_end())
            .unwrap_or(self.pages.len)
            .min(self.pages.len);
        let position = usize::try_from(position).unwrap_or(self.pages.len);
        let from = position - position % PAGE_BYTES;
        let to = end.next_multiple_of(PAGE_BYTES);
        // From the end, so that the detached part always extends to the end.
        for at in (from..to).step_by(DETACH_BYTES).rev() {
            self.detach_range(at, to.min(at + DETACH_BYTES))?;
            self.detached_from.store(at as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn detach_range(&self, from: usize, to: usize) -> io::Result<()> {
        let len = to - from;
        let copy = AnonymousMemory::new(len)?;
        for page in (0..len).step_by(PAGE_BYTES) {
            // SAFETY: a page of the copy, which is exclusively ours, and one of the mapping.
            let copied = unsafe {
                let target = copy.start.as_ptr().add(page);
                guard::load(
                    target,
                    self.pages.start.as_ptr().add(from + page),
                    PAGE_BYTES,
                )
            };
            if copied.is_err() {
                // Like the handler: readers find zeros, and the mapping is marked.
                self.registration.set_damaged();
            }
        }
        copy.replace(self.pages.start.as_ptr().wrapping_add(from))
    }

    /// Makes the pages of a range present before stores to them.
    ///
    /// Only saves time, so a failure is ignored.
    pub(super) fn populate(&self, range: Range<usize>) {
        let from = range.start - range.start % PAGE_BYTES;
        let to = range.end.min(self.pages.len);
        if from < to {
            let start = self.pages.start.as_ptr().wrapping_add(from).cast();
            // SAFETY: the range is within the mapping, and the advice changes no bytes.
            let _ = unsafe { rustix::mm::madvise(start, to - from, Advice::LinuxPopulateWrite) };
        }
    }
}

/// Bytes that are detached at a time.
const DETACH_BYTES: usize = 4 << 20;

/// The addresses of a mapping; dropping it unmaps them.
struct Pages {
    start: NonNull<u8>,
    len: usize,
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped in `Mapping::new` with this length, detached pages included; every slice
        // keeps the mapping alive, so there are none.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "cannot unmap a file");
    }
}

/// A range that a reader holds.
struct Slice {
    mapping: Arc<Mapping>,
    position: usize,
    len: usize,
}

impl Slice {
    fn of(mapping: &Arc<Mapping>, range: Range<usize>) -> Self {
        // Only the shard that owns the file creates slices; any thread drops them.
        let end = range.end as u64;
        if mapping.slices.load(Ordering::Acquire) == 0 {
            mapping.slices_end.store(end, Ordering::Relaxed);
        } else {
            mapping.slices_end.fetch_max(end, Ordering::Relaxed);
        }
        mapping.slices.fetch_add(1, Ordering::AcqRel);
        Self {
            mapping: Arc::clone(mapping),
            position: range.start,
            len: range.len(),
        }
    }

    fn start(&self) -> *const u8 {
        self.mapping
            .pages
            .start
            .as_ptr()
            .wrapping_add(self.position)
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: within the mapping, which the slice keeps alive; every line was readable when the
        // slice was created, and nothing writes there while it lives.
        unsafe { slice::from_raw_parts(self.start(), self.len) }
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        self.mapping.slices.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Private memory in whole pages.
struct AnonymousMemory {
    start: NonNull<u8>,
    len: usize,
}

impl AnonymousMemory {
    fn new(len: usize) -> io::Result<Self> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory at an address that the kernel chooses.
        let start =
            unsafe { rustix::mm::mmap_anonymous(null_mut(), len, prot, MapFlags::PRIVATE)? };
        let start = NonNull::new(start.cast::<u8>());
        let start = start.ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Self { start, len })
    }

    /// Replaces the same number of pages of a mapping by this memory.
    ///
    /// The change is atomic: a reader finds the old page or this one.
    fn replace(self, at: *mut u8) -> io::Result<()> {
        // SAFETY: the pages at `at` belong to the caller's mapping and hold the same bytes, so
        // their readers see no change; this memory has no other user and moves there unchanged.
        unsafe {
            let flags = MremapFlags::MAYMOVE;
            let start = self.start.as_ptr().cast();
            rustix::mm::mremap_fixed(start, self.len, self.len, flags, at.cast())?;
        }
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for AnonymousMemory {
    fn drop(&mut self) {
        // SAFETY: ours, and not moved away.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn file(pages: usize) -> OwnedFd {
        let file = tempfile::tempfile().unwrap();
        file.set_len((pages * PAGE_BYTES) as u64).unwrap();
        file.into()
    }

    /// A mapping that goes away leaves its addresses to another at once.
    #[test]
    fn a_bad_page_marks_its_own_mapping_while_others_come_and_go_at_its_addresses() {
        guard::install().unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let file = file(1);
                    while !ended.load(Ordering::Relaxed) {
                        drop(Mapping::new(&file, PAGE_BYTES, true, false).unwrap());
                    }
                });
            }
            let file = file(1);
            for _ in 0..20_000 {
                let mapping = Arc::new(Mapping::new(&file, PAGE_BYTES, true, false).unwrap());
                let held = mapping.slice(0..PAGE_BYTES).unwrap();
                rustix::fs::ftruncate(&file, 0).unwrap();
                assert!(held.iter().all(|byte| *byte == 0));
                if !mapping.is_damaged() {
                    ended.store(true, Ordering::Relaxed);
                    panic!("another mapping was marked");
                }
                rustix::fs::ftruncate(&file, PAGE_BYTES as u64).unwrap();
            }
            ended.store(true, Ordering::Relaxed);
        });
    }
}
