//! Owned block-aligned buffers, pooled by size or taken from a chunk pool: targets of direct reads
//! and copies of partial blocks.
//!
//! Invariants: memory is zeroed once at allocation and so is always initialized, but a pooled
//! buffer still contains the bytes of its last user; free buffers kept for reuse never exceed
//! `kept_bytes_max`. A buffer returns to its pool when it, or the last of the `Bytes` made from it,
//! drops, on any thread.
#![allow(
    unsafe_code,
    reason = "allocates with an alignment that Vec cannot give"
)]

use std::alloc::{self, Layout};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::arena::sys;
use super::chunk::Lease;
use crate::disk::BLOCK_BYTES;
use crate::workers;

/// A block-aligned buffer with one owner.
pub struct AlignedBuf {
    /// `None` only while it drops.
    memory: Option<Source>,
    len: usize,
    home: Option<Arc<Shelves>>,
    /// True when some of the memory was never used: its pages may still need allocation and
    /// clearing.
    is_new: bool,
}

impl AlignedBuf {
    /// Returns `len` zeroes in newly allocated memory.
    pub fn zeroed(len: usize) -> Self {
        Self {
            memory: Some(Source::Own(Memory::zeroed(
                len.max(1).next_multiple_of(BLOCK_BYTES),
            ))),
            len,
            home: None,
            is_new: true,
        }
    }

    /// Returns a buffer of a whole region of a chunk pool, which returns to that pool.
    pub(super) fn leased(lease: Lease) -> Self {
        Self {
            len: lease.len(),
            memory: Some(Source::Leased(lease)),
            home: None,
            is_new: false,
        }
    }

    /// Returns true when some of the memory was never used.
    ///
    /// The first write to each page then waits for the kernel to allocate and clear it.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Drops all but the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Makes the buffer immutable and shareable, without a copy.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }

    fn start(&self) -> NonNull<u8> {
        match self.memory.as_ref().expect("present until drop") {
            Source::Own(memory) => memory.start,
            Source::Leased(lease) => lease.start(),
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes are allocated and initialised, and `&self` keeps writers out.
        unsafe { slice::from_raw_parts(self.start().as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` bytes are allocated and initialised, and `&mut self` is the only access.
        unsafe { slice::from_raw_parts_mut(self.start().as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if let (Some(Source::Own(memory)), Some(home)) = (self.memory.take(), &self.home)
            && let Some(memory) = home.put(memory)
        {
            memory.free();
        }
    }
}

/// A pool of reusable [`AlignedBuf`]s; clones share it.
#[derive(Clone)]
pub struct BufPool {
    shelves: Arc<Shelves>,
}

impl BufPool {
    /// Creates a pool that keeps up to `kept_bytes_max` bytes of free buffers.
    pub fn new(kept_bytes_max: usize) -> Self {
        Self {
            shelves: Arc::new(Shelves {
                kept_bytes_max,
                free: Mutex::default(),
            }),
        }
    }

    /// Returns a buffer of `len` bytes with unspecified content.
    pub fn take(&self, len: usize) -> AlignedBuf {
        let capacity = len.max(BLOCK_BYTES).next_power_of_two();
        let kept = self.shelves.get(capacity);
        let mut memory = kept.unwrap_or_else(|| Memory::zeroed(capacity));
        let is_new = memory.used < len;
        memory.used = memory.used.max(len.next_multiple_of(BLOCK_BYTES));
        AlignedBuf {
            memory: Some(Source::Own(memory)),
            len,
            home: Some(Arc::clone(&self.shelves)),
            is_new,
        }
    }

    /// Returns the size of the free buffers in bytes.
    pub fn kept_bytes(&self) -> usize {
        self.shelves.lock().bytes
    }
}

/// Free memory, indexed by the logarithm of its size.
struct Shelves {
    kept_bytes_max: usize,
    free: Mutex<FreeMemory>,
}

#[derive(Default)]
struct FreeMemory {
    bytes: usize,
    shelves: Vec<Vec<Memory>>,
}

impl Shelves {
    fn lock(&self) -> MutexGuard<'_, FreeMemory> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, capacity: usize) -> Option<Memory> {
        let mut free = self.lock();
        let memory = free.shelves.get_mut(shelf(capacity))?.pop()?;
        free.bytes -= memory.layout.size();
        Some(memory)
    }

    /// Keeps the memory, or gives it back.
    fn put(&self, memory: Memory) -> Option<Memory> {
        let size = memory.layout.size();
        let mut free = self.lock();
        if free.bytes + size > self.kept_bytes_max {
            return Some(memory);
        }
        free.bytes += size;
        let index = shelf(size);
        if free.shelves.len() <= index {
            free.shelves.resize_with(index + 1, Vec::new);
        }
        free.shelves[index].push(memory);
        None
    }
}

fn shelf(capacity: usize) -> usize {
    debug_assert!(capacity.is_power_of_two() && capacity >= BLOCK_BYTES);
    (capacity / BLOCK_BYTES).trailing_zeros() as usize
}

/// Origin of a buffer's memory.
enum Source {
    Own(Memory),
    /// The buffer is the only user of the region until it drops.
    Leased(Lease),
}

/// Size from which memory is mapped.
///
/// The allocator clears reused memory at once, which costs milliseconds for each megabyte whose
/// pages the system has to find again; those of a mapping are cleared where they are first used.
const MAPPED_BYTES_MIN: usize = 256 << 10;

/// Size from which a shard does not free memory itself: it takes a millisecond for each megabyte.
const FREED_ELSEWHERE_MIN: usize = 1 << 20;

/// One allocation, or one mapping.
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
    /// Bytes from the start that a user may have touched.
    used: usize,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Memory {}
// SAFETY: shared access to a buffer only reads.
unsafe impl Sync for Memory {}

impl Memory {
    fn zeroed(size: usize) -> Self {
        let layout = Layout::from_size_align(size, BLOCK_BYTES).expect("buffer size fits isize");
        if size >= MAPPED_BYTES_MIN {
            let Ok(start) = sys::map(size) else {
                alloc::handle_alloc_error(layout)
            };
            return Self::new(start, layout);
        }
        // SAFETY: callers pass sizes of at least one block.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            alloc::handle_alloc_error(layout)
        };
        Self::new(start, layout)
    }

    /// Frees it, on another thread if it has enough pages to keep the system busy.
    fn free(self) {
        if self.layout.size() >= FREED_ELSEWHERE_MIN {
            // Where there are no other threads, it is freed here.
            drop(workers::run(Box::new(move || drop(self))));
        }
    }

    fn new(start: NonNull<u8>, layout: Layout) -> Self {
        let used = 0;
        Self {
            start,
            layout,
            used,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.layout.size() >= MAPPED_BYTES_MIN {
            // SAFETY: mapped in `zeroed` with this size, unmapped once.
            return unsafe { sys::unmap(self.start, self.layout.size()) };
        }
        // SAFETY: allocated in `zeroed` with this layout, freed once.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) }
    }
}
