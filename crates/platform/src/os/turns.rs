//! Turns of large reads: a few at a time at each device, each in pieces; others wait in line.
//!
//! A device works on what it was given in about that order. Hundreds of clients that ask for megabytes each would put
//! gigabytes in front of the next small write, and of everybody who waits for its sync; each would hold its memory, too.
//! Invariants: nobody overtakes; a turn is taken before the memory; a device that hangs keeps the turns of no other; the
//! kernel's transfer has the turn to its end, also when nobody waits for it any more. Reads of the background have their own
//! pace (see the limits of movers), small ones need no turn.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::disk::IoClass;

/// Large reads that a shard has under way at a device.
const READS_MAX: usize = 2;

/// The longest piece: a millisecond of a flash disk, and enough to keep it busy.
const PIECE_BYTES: usize = 2 << 20;

/// Reads below need no turn.
const LARGE_BYTES: usize = 256 << 10;

/// The turns of a shard.
#[derive(Default)]
pub(super) struct Turns {
    // Bounded: by the devices of the log directories and tiers.
    free: RefCell<HashMap<u64, Arc<Semaphore>>>,
}

/// A turn, if the read takes one; ends with its last clone.
#[derive(Clone, Default)]
pub(super) struct Turn(Option<Arc<OwnedSemaphorePermit>>);

impl Turn {
    /// How much of what is left is read next.
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
        // The inode of an open file is in memory: no need for a thread.
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
        // It is never closed.
        Turn(free.acquire_owned().await.ok().map(Arc::new))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const MB: usize = 1 << 20;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Turn> + 'a>>;

    /// The turn, if it has come.
    fn now(waiting: &mut Waiting<'_>) -> Option<Turn> {
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
        let mut all: Vec<Waiting<'_>> = (0..4).map(|_| Box::pin(turns.take_of(1)) as _).collect();
        let mut had: Vec<Option<Turn>> = all.iter_mut().map(now).collect();
        assert_eq!(had.iter().flatten().count(), READS_MAX, "too many at once");
        let mut elsewhere: Waiting<'_> = Box::pin(turns.take_of(2));
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
