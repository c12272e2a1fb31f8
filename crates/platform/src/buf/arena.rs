//! Anonymous mappings, divided into regions of one chunk each.
//!
//! Invariants: an arena stays mapped while any of its regions exists; regions of one arena do not
//! overlap; every byte of a new mapping reads as zero, so all of the memory is initialized. Access
//! is by raw pointer: this module creates no reference to arena memory, and the owner of a region
//! owns its bytes.
#![allow(unsafe_code, reason = "maps memory and hands out raw pointers into it")]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

/// Size and alignment of a huge page on the supported machines.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// One mapping.
struct Arena {
    mapping: NonNull<u8>,
    mapping_len: usize,
    layout: Layout,
}

/// How an arena is divided.
#[derive(Clone, Copy)]
struct Layout {
    /// Offset of the first region in the mapping.
    skip: usize,
    /// Number of regions times the chunk size.
    len: usize,
}

// SAFETY: an arena is an address range. It returns pointers, not references, and unmaps once, when
// its last owner drops.
unsafe impl Send for Arena {}
// SAFETY: as above; shared access only copies the address.
unsafe impl Sync for Arena {}

impl Arena {
    fn map(len: usize) -> io::Result<Self> {
        // Huge pages need their alignment; the extra reservation is address space only, never
        // touched. In a process that has small pages only (`memory::use_small_pages`), which a
        // broker is unless it maps persistent memory, the advice below changes nothing.
        let huge = len >= HUGE_PAGE_BYTES;
        let mapping_len = if huge { len + HUGE_PAGE_BYTES } else { len };
        let mapping = sys::map(mapping_len)?;
        let skip = if huge {
            mapping.as_ptr().align_offset(HUGE_PAGE_BYTES)
        } else {
            0
        };
        let arena = Self {
            mapping,
            mapping_len,
            layout: Layout { skip, len },
        };
        if huge {
            sys::advise_huge(arena.start(), len);
        }
        Ok(arena)
    }

    fn start(&self) -> NonNull<u8> {
        // SAFETY: `skip` is below HUGE_PAGE_BYTES, by which the mapping exceeds the regions, or 0.
        unsafe { self.mapping.add(self.layout.skip) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: created by `sys::map` with this length; no region is left, because each keeps the
        // arena alive.
        unsafe { sys::unmap(self.mapping, self.mapping_len) }
    }
}

/// The memory of one chunk, with one owner.
pub(super) struct Region {
    arena: Arc<Arena>,
    offset: usize,
    len: usize,
}

impl Region {
    /// Maps an arena and divides it into regions of `chunk_bytes`: at least one, at most
    /// `count_max`.
    pub(super) fn map(chunk_bytes: usize, count_max: usize) -> io::Result<Vec<Self>> {
        let count = (HUGE_PAGE_BYTES / chunk_bytes).clamp(1, count_max.max(1));
        let arena = Arc::new(Arena::map(count * chunk_bytes)?);
        Ok((0..count)
            .map(|index| Self {
                arena: Arc::clone(&arena),
                offset: index * chunk_bytes,
                len: chunk_bytes,
            })
            .collect())
    }

    /// Returns the first byte.
    ///
    /// The region is block-aligned and valid for reads and writes of its length.
    pub(super) fn start(&self) -> NonNull<u8> {
        debug_assert!(self.offset + self.len <= self.arena.layout.len);
        // SAFETY: regions lie within the arena by construction.
        unsafe { self.arena.start().add(self.offset) }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Makes every page resident, keeping the content.
    pub(super) fn populate(&self) {
        sys::populate(self.start(), self.len);
    }

    /// Returns the pages to the system; they read as zero afterwards.
    pub(super) fn release(&self) {
        sys::release(self.start(), self.len);
    }
}

#[cfg(not(miri))]
pub(super) mod sys {
    use super::{NonNull, io};
    use crate::disk::BLOCK_BYTES;
    use rustix::mm::{Advice, MapFlags, ProtFlags};

    pub(in crate::buf) fn map(len: usize) -> io::Result<NonNull<u8>> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping at an address that the kernel chooses replaces nothing.
        let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, prot, flags)? };
        NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapping at address zero"))
    }

    /// # Safety
    /// `start` and `len` are those of one `map`, and nothing points into it any more.
    pub(in crate::buf) unsafe fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: given by the caller. Failure would only leak address space.
        let unmapped = unsafe { rustix::mm::munmap(start.as_ptr().cast(), len) };
        debug_assert!(unmapped.is_ok());
    }

    pub(super) fn advise_huge(start: NonNull<u8>, len: usize) {
        // SAFETY: advice changes how pages are backed, not what they hold. Refusal (no huge pages
        // here) is harmless.
        let _ = unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, Advice::LinuxHugepage) };
    }

    pub(super) fn populate(start: NonNull<u8>, len: usize) {
        // SAFETY: populating makes pages resident and keeps their content.
        let populated =
            unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, Advice::LinuxPopulateWrite) };
        if populated.is_ok() {
            return;
        }
        // Before Linux 5.14: touch each page.
        for offset in (0..len).step_by(BLOCK_BYTES) {
            // SAFETY: within the region, which only the caller owns; the byte is written back
            // unchanged.
            unsafe {
                let at = start.add(offset).as_ptr();
                at.write_volatile(at.read_volatile());
            }
        }
    }

    pub(super) fn release(start: NonNull<u8>, len: usize) {
        // SAFETY: only the caller owns the region, and it expects zeroes; a refusal keeps the old
        // content, which is also valid.
        let _ = unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, Advice::LinuxDontNeed) };
    }
}

/// A substitute under Miri, which has no mappings: the allocator, so that Miri can check the
/// pointer rules of chunks.
#[cfg(miri)]
pub(super) mod sys {
    use super::{HUGE_PAGE_BYTES, NonNull, io};
    use std::alloc;

    fn layout(len: usize) -> alloc::Layout {
        alloc::Layout::from_size_align(len, HUGE_PAGE_BYTES).expect("small sizes in tests")
    }

    pub(in crate::buf) fn map(len: usize) -> io::Result<NonNull<u8>> {
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { alloc::alloc_zeroed(layout(len)) })
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// # Safety
    /// As with the real one.
    pub(in crate::buf) unsafe fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: allocated with this layout.
        unsafe { alloc::dealloc(start.as_ptr(), layout(len)) }
    }

    pub(super) fn advise_huge(_: NonNull<u8>, _: usize) {}
    pub(super) fn populate(_: NonNull<u8>, _: usize) {}
    pub(super) fn release(_: NonNull<u8>, _: usize) {}
}
