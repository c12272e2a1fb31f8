//! Turns of large reads: they are done in pieces, of which those in flight at once are bounded in bytes; others wait in line.
//!
//! A device works on what it was given in about that order. Hundreds of clients that ask for megabytes each would put
//! gigabytes in front of the next small write, and of everybody who waits for its sync. Invariants: nobody overtakes
//! a piece; a turn ends with the transfer, not with who waited for it; a device
//! that hangs keeps the turns of no other. Reads of the background have their own pace (see the limits of movers), small ones
//! need no turn.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::disk::IoClass;

/// Bytes of large reads that a shard has in flight at a device: two milliseconds of a flash disk, and enough to keep it busy.
const IN_FLIGHT_BYTES_MAX: usize = 4 << 20;

/// The longest piece.
const PIECE_BYTES: usize = 2 << 20;

/// Reads below need no turn.
const LARGE_BYTES: usize = 256 << 10;

/// The turns of a shard.
#[derive(Default)]
pub(super) struct Turns {
    // Bounded: by the devices of the log directories and tiers.
    free: RefCell<HashMap<u64, Arc<Semaphore>>>,
}

/// A turn, if it takes one; ends with its last clone.
pub(super) type Turn = Option<Arc<OwnedSemaphorePermit>>;

impl Turns {
    /// Waits for the turn of a read of `len` bytes of a file, and says how many of them it is for.
    pub(super) async fn take(&self, file: &OwnedFd, class: IoClass, len: usize) -> (Turn, usize) {
        if len < LARGE_BYTES || class == IoClass::Background {
            return (None, len);
        }
        // The inode of an open file is in memory: no need for a thread.
        let piece = len.min(PIECE_BYTES);
        match rustix::fs::fstat(file) {
            Ok(facts) => (self.take_of(facts.st_dev, piece).await, piece),
            Err(_) => (None, piece),
        }
    }

    async fn take_of(&self, device: u64, piece: usize) -> Turn {
        let bytes = u32::try_from(piece).unwrap_or(u32::MAX);
        let free = Arc::clone(
            self.free
                .borrow_mut()
                .entry(device)
                .or_insert_with(|| Arc::new(Semaphore::new(IN_FLIGHT_BYTES_MAX))),
        );
        // It is never closed.
        free.acquire_many_owned(bytes).await.ok().map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const MB: usize = 1 << 20;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Turn> + 'a>>;

    fn large(turns: &Turns, megabytes: usize) -> Waiting<'_> {
        Box::pin(turns.take_of(1, megabytes * MB))
    }

    /// The turn, if it has come.
    fn now(waiting: &mut Waiting<'_>) -> Turn {
        match waiting
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(turn) => turn,
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn large_reads_wait_in_line_and_small_ones_do_not() {
        let turns = Turns::default();
        let first = now(&mut large(&turns, 3)).expect("nobody else is there");
        let (mut second, mut third) = (large(&turns, 2), large(&turns, 1));
        assert!(now(&mut second).is_none(), "too much at once");
        assert!(now(&mut third).is_none(), "nobody overtakes");
        let of_the_transfer = Arc::clone(&first);
        drop(first);
        assert!(now(&mut second).is_none(), "the transfer still goes on");
        drop(of_the_transfer);
        assert!(now(&mut second).is_some() && now(&mut third).is_some());
        assert!(turns.take_of(2, 4 * MB).await.is_some(), "another device");
    }

    #[tokio::test]
    async fn only_large_reads_of_the_foreground_go_in_pieces() {
        let turns = Turns::default();
        let file = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        for (class, len, piece) in [
            (IoClass::Foreground, 4096, None),
            (IoClass::Background, 5 * MB, None),
            (IoClass::Foreground, MB, Some(MB)),
            (IoClass::Foreground, 5 * MB, Some(PIECE_BYTES)),
        ] {
            let (turn, part) = turns.take(&file, class, len).await;
            assert_eq!(
                (turn.is_some(), part),
                (piece.is_some(), piece.unwrap_or(len))
            );
        }
    }
}
