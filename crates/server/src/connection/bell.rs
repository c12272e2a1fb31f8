//! Records whether the requests in progress want to be polled, separately from the socket.
//!
//! A connection is one task, and while it reads, mostly the socket wakes it. Without this, each
//! piece of an incoming body would poll every request that waits for the disk. Invariant: the next
//! look sees every ring after the last look.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

/// A waker that leaves a mark.
pub(super) struct Bell {
    ring: Arc<Ring>,
    waker: Waker,
    /// The task that `ring` wakes.
    task: Waker,
}

struct Ring {
    rung: AtomicBool,
    task: Mutex<Waker>,
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .wake_by_ref();
    }
}

impl Bell {
    /// Creates a bell that wakes no task yet.
    pub(super) fn new() -> Self {
        let task = Mutex::new(Waker::noop().clone());
        let ring = Arc::new(Ring {
            rung: AtomicBool::new(false),
            task,
        });
        Self {
            waker: Arc::clone(&ring).into(),
            ring,
            task: Waker::noop().clone(),
        }
    }

    /// Makes the bell wake the task of `cx` from now on.
    pub(super) fn hang(&mut self, cx: &Context<'_>) {
        if !self.task.will_wake(cx.waker()) {
            self.task.clone_from(cx.waker());
            let mut task = self
                .ring
                .task
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            task.clone_from(cx.waker());
        }
    }

    /// Returns true if the bell was rung since the last call.
    pub(super) fn was_rung(&self) -> bool {
        self.ring.rung.swap(false, Ordering::Acquire)
    }

    /// Returns the waker that rings it.
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }
}
