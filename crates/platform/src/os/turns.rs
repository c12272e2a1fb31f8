//! Turns of large reads: a few at a time per device, each in pieces; others wait in order.
//!
//! A device processes its requests roughly in order. Hundreds of clients that read megabytes each
//! would queue gigabytes before the next small write and the sync that others wait for, and each
//! read would hold its memory. Invariants: reads are served in order; a turn is taken before the
//! memory; a hanging device holds no turns of another; the kernel's transfer keeps the turn to its
//! end, even when the caller stops waiting. Background reads have their own pace (see the limits of
//! movers), and small reads need no turn.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::disk::IoClass;

/// Maximum concurrent large reads of a shard at one device.
const READS_MAX: usize = 2;

/// Maximum length of a piece: a millisecond of a flash disk, and enough to keep it busy.
const PIECE_BYTES: usize = 2 << 20;

/// Reads shorter than this need no turn.
const LARGE_BYTES: usize = 256 << 10;

/// The turns of a shard.
#[derive(Default)]
pub(super) struct Turns {
    // Bounded: the devices of the log directories and tiers.
    free: RefCell<HashMap<u64, Arc<Semaphore>>>,
}

/// A turn, if the read needs one; it ends with its last clone.
#[derive(Clone, Default)]
pub(super) struct Turn(Option<Arc<OwnedSemaphorePermit>>);

impl Turn {
    /// Returns how much of the remaining bytes is read next.
    pub(super) fn piece(&self, left: usize) -> usize {
        if self.0.is_some() {
            left.min(PIECE_BYTES)
        } else {
            left
        }
    }
}

impl Turns {
    /// Waits for the turn of a read of `len` bytes of a file.
    pub(super) async fn take(&self, file: &OwnedFd, class: IoClass, len: usize) -> Turn {
        if len < LARGE_BYTES || class == IoClass::Background {
            return Turn::default();
        }
        // The inode of an open file is in memory, so this needs no thread.
        match rustix::fs::fstat(file) {
            Ok(facts) => self.take_of(facts.st_dev).await,
            Err(_) => Turn::default(),
        }
    }

    async fn take_of(&self, device: u64) -> Turn {
        let free = Arc::clone(
            self.free
                .borrow_mut()
                .entry(device)
                .or_insert_with(|| Arc::new(Semaphore::new(READS_MAX))),
        );
        // The semaphore is never closed.
        Turn(free.acquire_owned().await.ok().map(Arc::new))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const MB: usize = 1 << 20;

    type WaitingTurn<'a> = Pin<Box<dyn Future<Output = Turn> + 'a>>;

    /// Returns the turn if it is granted.
    fn now(waiting: &mut WaitingTurn<'_>) -> Option<Turn> {
        match waiting
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[test]
    fn large_reads_wait_in_line_for_each_device() {
        let turns = Turns::default();
        let mut all: Vec<WaitingTurn<'_>> =
            (0..4).map(|_| Box::pin(turns.take_of(1)) as _).collect();
        let mut had: Vec<Option<Turn>> = all.iter_mut().map(now).collect();
        assert_eq!(had.iter().flatten().count(), READS_MAX, "too many at once");
        let mut elsewhere: WaitingTurn<'_> = Box::pin(turns.take_of(2));
        assert!(now(&mut elsewhere).is_some(), "another device");
        let of_the_transfer = had[0].clone();
        had[0] = None;
        assert!(now(&mut all[2]).is_none(), "the transfer still goes on");
        drop(of_the_transfer);
        assert!(now(&mut all[3]).is_none(), "nobody overtakes");
        assert!(now(&mut all[2]).is_some());
    }

    #[tokio::test]
    async fn only_large_reads_of_the_foreground_go_in_pieces() {
        let turns = Turns::default();
        let file = OwnedFd::from(std::fs::File::open("/dev/null").expect("always there"));
        for (class, len, piece) in [
            (IoClass::Foreground, 4096, 4096),
            (IoClass::Background, 5 * MB, 5 * MB),
            (IoClass::Foreground, MB, MB),
            (IoClass::Foreground, 5 * MB, PIECE_BYTES),
        ] {
            let turn = turns.take(&file, class, len).await;
            assert_eq!(turn.piece(len), piece, "{class:?} {len}");
        }
    }
}
