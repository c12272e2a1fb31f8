//! Tells whether work under way wants to be polled, apart from whether the socket does.
//!
//! A connection is one task: what wakes it is the socket, most of the time, while it reads. Without
//! this, each piece of a body that comes in would poll every request that waits for the disk.
//! Invariant: who rings after the last look is seen by the next one.

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
    /// A bell that nobody hears yet.
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

    /// Lets the bell wake the task of `cx` from now on.
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

    /// True when it was rung since the last call.
    pub(super) fn was_rung(&self) -> bool {
        self.ring.rung.swap(false, Ordering::Acquire)
    }

    /// What rings it.
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }
}
