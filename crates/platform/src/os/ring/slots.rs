//! Requests in flight: what they own, their waiters and their results.
//!
//! States of a slot: waiting -> completed -> taken; or waiting -> abandoned -> free with the
//! completion. Invariant: what a request owns leaves its slot only after the completion. Not here:
//! the ring.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Poll, Waker};

use bytes::Bytes;

use crate::buf::AlignedBuf;
use crate::os::lanes::Places;
use crate::os::turns::Turn;

/// Everything that the kernel may access for a request.
pub(super) struct RequestResources {
    _file: Arc<OwnedFd>,
    parts: Vec<Bytes>,
    vector: Box<[Part]>,
    buf: Option<AlignedBuf>,
    _turn: Turn,
    _places: Places,
}

/// The kernel's `struct iovec`.
#[repr(C)]
pub(super) struct Part {
    start: *const u8,
    len: usize,
}

impl RequestResources {
    pub(super) fn file(file: &Arc<OwnedFd>, places: Places) -> Self {
        Self {
            _places: places,
            _file: Arc::clone(file),
            parts: Vec::new(),
            vector: Box::default(),
            buf: None,
            _turn: Turn::default(),
        }
    }

    pub(super) fn parts(file: &Arc<OwnedFd>, parts: Vec<Bytes>, places: Places) -> Self {
        let vector = parts.iter().map(|part| Part {
            start: part.as_ptr(),
            len: part.len(),
        });
        Self {
            vector: vector.collect(),
            parts,
            ..Self::file(file, places)
        }
    }

    pub(super) fn buf(
        file: &Arc<OwnedFd>,
        buf: AlignedBuf,
        (turn, places): (Turn, Places),
    ) -> Self {
        Self {
            buf: Some(buf),
            _turn: turn,
            ..Self::file(file, places)
        }
    }

    /// Returns the parts as the kernel expects them; valid as long as `self`.
    pub(super) fn vector(&self) -> (*const Part, u32) {
        debug_assert_eq!(self.parts.len(), self.vector.len());
        let count = u32::try_from(self.vector.len()).unwrap_or(u32::MAX);
        (self.vector.as_ptr(), count)
    }

    pub(super) fn into_buf(self) -> Option<AlignedBuf> {
        self.buf
    }
}

/// Identifies a slot.
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

enum RequestSlot {
    Free,
    Waiting {
        kept: RequestResources,
        waker: Option<Waker>,
    },
    Abandoned {
        _kept: RequestResources,
    },
    Completed {
        result: i32,
        kept: RequestResources,
    },
}

/// All slots; free ones are reused.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<RequestSlot>,
    free: Vec<usize>,
}

/// Work after a completion that must run outside of all borrows.
#[derive(Default)]
pub(super) struct LeftOver {
    waker: Option<Waker>,
    abandoned: Option<RequestSlot>,
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
    pub(super) fn insert(&mut self, kept: RequestResources) -> Key {
        let slot = RequestSlot::Waiting { kept, waker: None };
        if let Some(index) = self.free.pop() {
            self.slots[index] = slot;
            return Key(index);
        }
        self.slots.push(slot);
        Key(self.slots.len() - 1)
    }

    fn take(&mut self, key: Key) -> RequestSlot {
        self.free.push(key.0);
        std::mem::replace(&mut self.slots[key.0], RequestSlot::Free)
    }

    pub(super) fn poll(&mut self, key: Key, by: &Waker) -> Poll<(i32, RequestResources)> {
        if let RequestSlot::Waiting { waker, .. } = &mut self.slots[key.0] {
            *waker = Some(by.clone());
            return Poll::Pending;
        }
        match self.take(key) {
            RequestSlot::Completed { result, kept } => Poll::Ready((result, kept)),
            _ => unreachable!("only who waits polls"),
        }
    }

    /// Marks that the waiter of a request is gone.
    pub(super) fn abandon(&mut self, key: Key) -> LeftOver {
        match std::mem::replace(&mut self.slots[key.0], RequestSlot::Free) {
            RequestSlot::Waiting { kept, .. } => {
                self.slots[key.0] = RequestSlot::Abandoned { _kept: kept };
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
        match std::mem::replace(&mut self.slots[key.0], RequestSlot::Free) {
            RequestSlot::Waiting { kept, waker } => {
                self.slots[key.0] = RequestSlot::Completed { result, kept };
                LeftOver {
                    waker,
                    abandoned: None,
                }
            }
            abandoned @ RequestSlot::Abandoned { .. } => {
                self.free.push(key.0);
                LeftOver {
                    waker: None,
                    abandoned: Some(abandoned),
                }
            }
            RequestSlot::Free | RequestSlot::Completed { .. } => {
                unreachable!("one completion per request")
            }
        }
    }
}
