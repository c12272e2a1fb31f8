//! Memory of requests, counted before it is taken.
//!
//! A large frame takes memory in pieces, as its bytes arrive, so an announced length alone costs
//! nothing. Small frames have a reserve that large ones cannot use. No address (for IPv6: no
//! network) holds more than half of either part. Large frames that have begun and find no more
//! memory could wait for each other forever; so one of them at a time is read to its end beyond the
//! bound (as with Kafka's `queued.max.request.bytes`).
//!
//! Invariants: the sum of what is held exceeds the bound by at most one frame. A frame that finds
//! too little memory waits in line, without overtaking; small and large frames have separate lines.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::network::network;
use tokio::sync::Semaphore;

/// Longest frame that uses the reserve for small ones.
pub(super) const SMALL_BYTES_MAX: usize = 64 << 10;

/// Smallest budget.
const BYTES_MIN: usize = 4 * SMALL_BYTES_MAX;

/// Bytes that a large frame takes at a time.
pub(super) const PIECE_BYTES: usize = 2 << 20;

/// A bound on bytes, shared by all connections of all shards.
#[derive(Clone, Debug)]
pub struct Budget {
    shared: Arc<BudgetPools>,
}

/// The two parts of the budget, for small and for large frames, and the shares of addresses.
#[derive(Debug)]
struct BudgetPools {
    small: Semaphore,
    large: Semaphore,
    /// Its one permit is with the frame that is read to its end beyond the bound.
    finish: Semaphore,
    small_max: usize,
    large_max: usize,
    small_share: usize,
    large_share: usize,
    /// Bytes held beyond the bound.
    beyond: AtomicUsize,
    // Bounded: addresses with connections; `admission::admit` bounds these.
    addresses: Mutex<HashMap<IpAddr, AddressAccount>>,
}

/// The share of an address that has connections, and the number of these connections.
#[derive(Debug)]
struct AddressAccount {
    address: Arc<Address>,
    connections: usize,
}

/// The memory that an address may still take.
#[derive(Debug)]
struct Address {
    small: Semaphore,
    large: Semaphore,
}

/// Access of one connection, which lives on one shard, to the budget.
#[derive(Debug)]
pub(super) struct Account {
    shared: Arc<BudgetPools>,
    address: Arc<Address>,
    ip: IpAddr,
}

/// Bytes taken; dropping this returns them.
#[derive(Debug)]
pub(super) struct TakenBytes {
    account: Rc<Account>,
    small: u32,
    large: u32,
    /// Bytes beyond the bound, taken with the only permit of `finish`.
    beyond: u32,
}

/// A place in the line for bytes.
pub(super) type BytesWait = Pin<Box<dyn Future<Output = TakenBytes>>>;

/// Returns half of `all`, but at least what one frame needs of it.
fn share(all: usize, frame: usize) -> usize {
    (all / 2).max(frame.min(all))
}

/// Takes `bytes` of both, or nothing.
fn try_both(first: &Semaphore, second: &Semaphore, bytes: u32) -> bool {
    let (Ok(first), Ok(second)) = (
        first.try_acquire_many(bytes),
        second.try_acquire_many(bytes),
    ) else {
        return false;
    };
    first.forget();
    second.forget();
    true
}

/// Waits in both lines, one after the other.
async fn both(first: &Semaphore, second: &Semaphore, bytes: u32) {
    let first = first.acquire_many(bytes).await;
    let second = second.acquire_many(bytes).await;
    // Fail loudly: otherwise bytes that were not taken would count as taken.
    let (Ok(first), Ok(second)) = (first, second) else {
        unreachable!("neither is ever closed");
    };
    first.forget();
    second.forget();
}

impl Budget {
    /// Creates a budget of `bytes_max`, an eighth of it for small frames.
    ///
    /// An address may hold half of either part, or as much as one frame needs, which is at most
    /// `frame_bytes_max`.
    pub fn new(bytes_max: usize, frame_bytes_max: usize) -> Self {
        let bytes_max = bytes_max.clamp(BYTES_MIN, Semaphore::MAX_PERMITS);
        let small_max = (bytes_max / 8).max(BYTES_MIN / 2);
        let large_max = bytes_max - small_max;
        let shared = BudgetPools {
            small: Semaphore::new(small_max),
            large: Semaphore::new(large_max),
            finish: Semaphore::new(1),
            small_max,
            large_max,
            small_share: share(small_max, SMALL_BYTES_MAX),
            large_share: share(large_max, frame_bytes_max),
            beyond: AtomicUsize::new(0),
            addresses: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns the bound.
    pub fn bytes_max(&self) -> usize {
        self.shared.small_max + self.shared.large_max
    }

    /// Returns the bytes taken now.
    pub fn used_bytes(&self) -> usize {
        let shared = &self.shared;
        let free = shared.small.available_permits() + shared.large.available_permits();
        let beyond = shared.beyond.load(Ordering::Relaxed);
        self.bytes_max().saturating_sub(free) + beyond
    }

    /// Returns the account of a connection from `ip`.
    pub(super) fn account(&self, ip: IpAddr) -> Rc<Account> {
        let ip = network(ip);
        let shared = Arc::clone(&self.shared);
        let address = {
            let mut addresses = shared.addresses();
            let weighed = addresses.entry(ip).or_insert_with(|| AddressAccount {
                address: Arc::new(Address {
                    small: Semaphore::new(shared.small_share),
                    large: Semaphore::new(shared.large_share),
                }),
                connections: 0,
            });
            weighed.connections += 1;
            Arc::clone(&weighed.address)
        };
        Rc::new(Account {
            shared,
            address,
            ip,
        })
    }
}

impl BudgetPools {
    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, AddressAccount>> {
        // Nothing under the lock panics half-way.
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut addresses = self.shared.addresses();
        let Some(weighed) = addresses.get_mut(&self.ip) else {
            unreachable!("an address is known while it has a connection");
        };
        assert!(weighed.connections > 0, "a connection ends once");
        weighed.connections -= 1;
        if weighed.connections == 0 {
            addresses.remove(&self.ip);
        }
    }
}

impl Account {
    fn nothing(self: &Rc<Self>) -> TakenBytes {
        TakenBytes {
            account: Rc::clone(self),
            small: 0,
            large: 0,
            beyond: 0,
        }
    }

    /// Returns how much a frame that lacks `missing` bytes takes next; a small one takes all.
    pub(super) fn piece(&self, missing: usize) -> usize {
        if missing <= SMALL_BYTES_MAX {
            missing
        } else {
            missing.min(PIECE_BYTES).min(self.shared.large_share)
        }
    }

    /// Takes `bytes` for a frame that holds nothing yet, if they are free and no other frame waits
    /// for them.
    pub(super) fn try_take(self: &Rc<Self>, bytes: usize) -> Option<TakenBytes> {
        let mut taken = self.nothing();
        let (shared, address) = (&self.shared, &self.address);
        let wanted = count(bytes);
        if bytes <= SMALL_BYTES_MAX && try_both(&address.small, &shared.small, wanted) {
            taken.small = wanted;
            return Some(taken);
        }
        taken.try_more(bytes).then_some(taken)
    }

    /// Takes `bytes`, as [`Account::piece`] returned them, when they are free.
    pub(super) fn take(self: &Rc<Self>, bytes: usize) -> BytesWait {
        let mut taken = self.nothing();
        Box::pin(async move {
            let (shared, address) = (&taken.account.shared, &taken.account.address);
            // The frame holds nothing yet, so no other frame waits for it to end.
            if bytes <= SMALL_BYTES_MAX {
                both(&address.small, &shared.small, count(bytes)).await;
                taken.small = count(bytes);
            } else {
                both(&address.large, &shared.large, count(bytes)).await;
                taken.large = count(bytes);
            }
            taken
        })
    }
}

/// Converts bytes to permits: no frame is longer than 31 bits.
fn count(bytes: usize) -> u32 {
    let Ok(count) = u32::try_from(bytes) else {
        unreachable!("a frame that is longer than any may be is refused by its length");
    };
    count
}

impl TakenBytes {
    /// Returns the number of bytes taken.
    pub(super) fn bytes(&self) -> usize {
        [self.small, self.large, self.beyond]
            .into_iter()
            .fold(0, |sum, part| sum + part as usize)
    }

    /// Takes `bytes` more for the same frame, if they are free and no other frame waits for them.
    pub(super) fn try_more(&mut self, bytes: usize) -> bool {
        let (shared, address) = (&self.account.shared, &self.account.address);
        let got = try_both(&address.large, &shared.large, count(bytes));
        if got {
            self.large = self.large.saturating_add(count(bytes));
        }
        got
    }

    /// Takes `bytes` more when they are free, or the whole `rest` of the frame beyond the bound
    /// when its turn comes.
    pub(super) fn more(mut self, bytes: usize, rest: usize) -> BytesWait {
        Box::pin(async move {
            let (shared, address) = (&self.account.shared, &self.account.address);
            let finishes = tokio::select! {
                biased;
                () = both(&address.large, &shared.large, count(bytes)) => false,
                finish = shared.finish.acquire() => {
                    finish.map(tokio::sync::SemaphorePermit::forget).is_ok()
                }
            };
            if finishes {
                shared.beyond.fetch_add(rest, Ordering::Relaxed);
                self.beyond = count(rest);
            } else {
                self.large = self.large.saturating_add(count(bytes));
            }
            self
        })
    }
}

impl Drop for TakenBytes {
    fn drop(&mut self) {
        let (shared, address) = (&self.account.shared, &self.account.address);
        if self.small > 0 {
            shared.small.add_permits(self.small as usize);
            address.small.add_permits(self.small as usize);
        }
        if self.large > 0 {
            shared.large.add_permits(self.large as usize);
            address.large.add_permits(self.large as usize);
        }
        if self.beyond > 0 {
            let beyond = self.beyond as usize;
            let before = shared.beyond.fetch_sub(beyond, Ordering::Relaxed);
            assert!(before >= beyond, "what is given back was taken");
            shared.finish.add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests;
