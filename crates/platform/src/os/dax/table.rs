//! All mappings of the process in a form that the signal handler can read: a fixed table of
//! atomics.
//!
//! Invariants: only the owner of a slot writes it, under a lock that the handler does not take. The
//! slot's sequence is odd during a write, and the handler trusts a slot only if its sequence was
//! even and the same before and after the read. A mapping that is being accessed is alive, so its
//! slot does not change. Not here: the handler (`os/dax/guard.rs`).
#![allow(unsafe_code, reason = "replaces pages under readers")]

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use rustix::mm::{MapFlags, ProtFlags};

/// Maximum number of mappings: the kernel's default limit per process.
const MAPPINGS_MAX: usize = 65_536;

/// The smallest page of the kernel.
pub(super) const PAGE_BYTES: usize = 4096;

struct MappingSlot {
    sequence: AtomicU64,
    start: AtomicUsize,
    len: AtomicUsize,
    damaged: AtomicBool,
}

static SLOTS: [MappingSlot; MAPPINGS_MAX] = [const {
    MappingSlot {
        sequence: AtomicU64::new(0),
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        damaged: AtomicBool::new(false),
    }
}; MAPPINGS_MAX];

/// Number of slots ever used; the handler reads no further.
static USED: AtomicUsize = AtomicUsize::new(0);

static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The slot of a mapping in the table; dropping it frees the slot.
pub(super) struct Registration {
    slot: usize,
}

impl Registration {
    /// Registers a mapping for the handler.
    pub(super) fn of(start: usize, len: usize) -> io::Result<Self> {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match free.pop() {
            Some(slot) => slot,
            None if USED.load(Ordering::Relaxed) < MAPPINGS_MAX => {
                USED.fetch_add(1, Ordering::AcqRel)
            }
            None => {
                return Err(io::Error::other(format!(
                    "{MAPPINGS_MAX} files are mapped, which is the most"
                )));
            }
        };
        SLOTS[slot].set(start, len);
        Ok(Self { slot })
    }

    /// Returns true when a page of the mapping was replaced by zeros.
    pub(super) fn is_damaged(&self) -> bool {
        SLOTS[self.slot].damaged.load(Ordering::SeqCst)
    }

    /// Records that a page of the mapping was replaced by zeros.
    pub(super) fn set_damaged(&self) {
        SLOTS[self.slot].damaged.store(true, Ordering::SeqCst);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        SLOTS[self.slot].set(0, 0);
        free.push(self.slot);
    }
}

impl MappingSlot {
    fn set(&self, start: usize, len: usize) {
        self.sequence.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.start.store(start, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.damaged.store(false, Ordering::Relaxed);
        self.sequence.fetch_add(1, Ordering::Release);
    }

    fn holds(&self, address: usize) -> bool {
        let before = self.sequence.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Relaxed);
        let len = self.len.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let unchanged = self.sequence.load(Ordering::Relaxed) == before;
        before.is_multiple_of(2) && unchanged && address.wrapping_sub(start) < len
    }
}

/// Replaces the page at `address` by zeros; returns false when it is in none of our mappings.
///
/// The signal handler calls this: no locks, no allocation.
pub(super) fn replace_page(address: usize) -> bool {
    let used = USED.load(Ordering::Acquire).min(MAPPINGS_MAX);
    let Some(slot) = SLOTS[..used].iter().find(|slot| slot.holds(address)) else {
        return false;
    };
    // Set first, so that code that stores to the new page by mistake sees it afterwards.
    slot.damaged.store(true, Ordering::SeqCst);
    let page = address - address % PAGE_BYTES;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    let at = std::ptr::with_exposed_provenance_mut(page);
    // SAFETY: the page belongs to one of our mappings, which is alive because it is being accessed,
    // and holds nothing that can be lost: it is unreadable. The call goes directly to the kernel.
    unsafe { rustix::mm::mmap_anonymous(at, PAGE_BYTES, prot, flags) }.is_ok()
}
