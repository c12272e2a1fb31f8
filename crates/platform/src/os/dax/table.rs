//! All mappings of the process, as the signal handler can look at them: a fixed table of atomics.
//!
//! Invariants: a slot is written by who takes or frees it, under a lock that the handler does not
//! know; its sequence is odd meanwhile, and the handler believes only a slot whose sequence was even
//! and the same before and after. A mapping that somebody touches is alive, so its slot stands still.
#![allow(unsafe_code, reason = "replaces pages under readers")]

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use rustix::mm::{MapFlags, ProtFlags};

/// Mappings at a time: as many as the kernel lets a process have, by default.
const MAPPINGS_MAX: usize = 65_536;

/// The kernel's smallest page.
pub(super) const PAGE_BYTES: usize = 4096;

struct Slot {
    sequence: AtomicU64,
    start: AtomicUsize,
    len: AtomicUsize,
    damaged: AtomicBool,
}

static SLOTS: [Slot; MAPPINGS_MAX] = [const {
    Slot {
        sequence: AtomicU64::new(0),
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        damaged: AtomicBool::new(false),
    }
}; MAPPINGS_MAX];

/// Slots that were ever used; the handler looks no further.
static USED: AtomicUsize = AtomicUsize::new(0);

static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// A mapping's place in the table, free again when it drops.
pub(super) struct Registration {
    slot: usize,
}

impl Registration {
    /// Makes a mapping known to the handler.
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

    /// Whether a page of it was replaced by zeros.
    pub(super) fn is_damaged(&self) -> bool {
        SLOTS[self.slot].damaged.load(Ordering::SeqCst)
    }

    /// Notes that a page of it was replaced by zeros.
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

impl Slot {
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

/// Puts zeros in the place of the page at `address`; false when it is in no mapping of ours. Called
/// by the signal handler: no locks, no memory.
pub(super) fn replace_page(address: usize) -> bool {
    let used = USED.load(Ordering::Acquire).min(MAPPINGS_MAX);
    let Some(slot) = SLOTS[..used].iter().find(|slot| slot.holds(address)) else {
        return false;
    };
    // First: who stores to the new page by mistake sees it afterwards.
    slot.damaged.store(true, Ordering::SeqCst);
    let page = address - address % PAGE_BYTES;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    let at = std::ptr::with_exposed_provenance_mut(page);
    // SAFETY: the page belongs to a mapping of ours, which is alive because somebody touches it,
    // and holds nothing that could be lost: it cannot be read. The call goes straight to the kernel.
    unsafe { rustix::mm::mmap_anonymous(at, PAGE_BYTES, prot, flags) }.is_ok()
}
