//! Requests under way: what they own, who waits, what came of them.
//!
//! States of a slot: waiting -> completed -> taken; or waiting -> abandoned -> gone with the
//! completion. Invariant: what a request owns leaves its slot only after the completion.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Poll, Waker};

use bytes::Bytes;

use crate::buf::AlignedBuf;
use crate::os::turns::Turn;

/// Everything the kernel may touch on behalf of a request.
pub(super) struct Kept {
    _file: Arc<OwnedFd>,
    parts: Vec<Bytes>,
    vector: Box<[Part]>,
    buf: Option<AlignedBuf>,
    _turn: Turn,
}

/// The kernel's `struct iovec`.
#[repr(C)]
pub(super) struct Part {
    start: *const u8,
    len: usize,
}

impl Kept {
    pub(super) fn file(file: &Arc<OwnedFd>) -> Self {
        Self {
            _file: Arc::clone(file),
            parts: Vec::new(),
            vector: Box::default(),
            buf: None,
            _turn: Turn::default(),
        }
    }

    pub(super) fn parts(file: &Arc<OwnedFd>, parts: Vec<Bytes>) -> Self {
        let vector = parts.iter().map(|part| Part {
            start: part.as_ptr(),
            len: part.len(),
        });
        Self {
            vector: vector.collect(),
            parts,
            ..Self::file(file)
        }
    }

    pub(super) fn buf(file: &Arc<OwnedFd>, buf: AlignedBuf, turn: Turn) -> Self {
        Self {
            buf: Some(buf),
            _turn: turn,
            ..Self::file(file)
        }
    }

    /// The parts as the kernel wants them; valid as long as this is.
    pub(super) fn vector(&self) -> (*const Part, u32) {
        debug_assert_eq!(self.parts.len(), self.vector.len());
        let count = u32::try_from(self.vector.len()).unwrap_or(u32::MAX);
        (self.vector.as_ptr(), count)
    }

    pub(super) fn into_buf(self) -> Option<AlignedBuf> {
        self.buf
    }
}

/// Names a slot.
#[derive(Clone, Copy)]
pub(super) struct Key(usize);

impl Key {
    pub(super) fn as_user_data(self) -> u64 {
        self.0 as u64
    }

    pub(super) fn of_user_data(user_data: u64) -> Self {
        Self(usize::try_from(user_data).unwrap_or(usize::MAX))
    }
}

enum Slot {
    Free,
    Waiting { kept: Kept, waker: Option<Waker> },
    Abandoned { _kept: Kept },
    Completed { result: i32, kept: Kept },
}

/// All slots; freed ones are used again.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

/// What a completion leaves to be done outside of all borrows.
#[derive(Default)]
pub(super) struct LeftOver {
    waker: Option<Waker>,
    abandoned: Option<Slot>,
}

impl LeftOver {
    pub(super) fn settle(self) {
        drop(self.abandoned);
        if let Some(waker) = self.waker {
            waker.wake();
        }
    }
}

impl Slots {
    pub(super) fn insert(&mut self, kept: Kept) -> Key {
        let slot = Slot::Waiting { kept, waker: None };
        if let Some(index) = self.free.pop() {
            self.slots[index] = slot;
            return Key(index);
        }
        self.slots.push(slot);
        Key(self.slots.len() - 1)
    }

    fn take(&mut self, key: Key) -> Slot {
        self.free.push(key.0);
        std::mem::replace(&mut self.slots[key.0], Slot::Free)
    }

    pub(super) fn poll(&mut self, key: Key, by: &Waker) -> Poll<(i32, Kept)> {
        if let Slot::Waiting { waker, .. } = &mut self.slots[key.0] {
            *waker = Some(by.clone());
            return Poll::Pending;
        }
        match self.take(key) {
            Slot::Completed { result, kept } => Poll::Ready((result, kept)),
            _ => unreachable!("only who waits polls"),
        }
    }

    /// Nobody waits any more.
    pub(super) fn abandon(&mut self, key: Key) -> LeftOver {
        match std::mem::replace(&mut self.slots[key.0], Slot::Free) {
            Slot::Waiting { kept, .. } => {
                self.slots[key.0] = Slot::Abandoned { _kept: kept };
                LeftOver::default()
            }
            unwanted => {
                self.free.push(key.0);
                LeftOver {
                    waker: None,
                    abandoned: Some(unwanted),
                }
            }
        }
    }

    pub(super) fn complete(&mut self, key: Key, result: i32) -> LeftOver {
        match std::mem::replace(&mut self.slots[key.0], Slot::Free) {
            Slot::Waiting { kept, waker } => {
                self.slots[key.0] = Slot::Completed { result, kept };
                LeftOver {
                    waker,
                    abandoned: None,
                }
            }
            abandoned @ Slot::Abandoned { .. } => {
                self.free.push(key.0);
                LeftOver {
                    waker: None,
                    abandoned: Some(abandoned),
                }
            }
            Slot::Free | Slot::Completed { .. } => unreachable!("one completion per request"),
        }
    }
}
