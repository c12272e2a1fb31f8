//! Memory of answers on their way out, counted for the whole process and for each address.
//!
//! What clients are to be sent is held until they have taken it, which some do slowly. A fetch whose answer would be large sets
//! aside what it may read, at most an eighth of what is free, and so reads less the more is held; a small answer is always
//! possible, so that everybody gets on. Whoever sends an answer counts it until it is sent ([`Account::hold`]). An address may
//! hold half of the bound. Fetches that wait at many partitions, which takes many times what their requests do, are counted
//! beside ([`Answers::wait`]).
//! Invariant: fetches never bring what is held above the bound, save for the floor of each connection and a first batch that
//! is larger. It does not know connections, nor how fast they are.

#![allow(
    clippy::disallowed_types,
    reason = "addresses are shared by all shards; the lock is held for a look, when a connection comes or goes or memory is short"
)]

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Answers up to this size are not counted: a connection has one at a time. Nor are waiting fetches refused that take as much.
pub const FLOOR_BYTES: usize = 64 << 10;

/// The count; clones share it.
#[derive(Clone, Debug)]
pub struct Answers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    used: AtomicUsize,
    bytes_max: usize,
    waiting: AtomicUsize,
    // Bounded: addresses with connections, which `max.connections` and the limit of open files bound.
    addresses: Mutex<HashMap<IpAddr, Weighed>>,
}

/// An address with accounts, and how many.
#[derive(Debug)]
struct Weighed {
    address: Arc<Address>,
    accounts: usize,
}

/// What is held for an address.
#[derive(Default, Debug)]
struct Address {
    used: AtomicUsize,
    waiting: AtomicUsize,
}

/// Who holds answers, or waits: a connection.
#[derive(Debug)]
pub struct Account {
    shared: Arc<Shared>,
    address: Arc<Address>,
    ip: IpAddr,
}

/// Bytes that count as held until this is dropped.
#[derive(Debug)]
pub(crate) struct Aside<'a> {
    answers: &'a Answers,
    bytes: usize,
}

/// A fetch that waits; dropped, it does no more.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    answers: &'a Answers,
    /// Of one that takes more than the floor.
    account: Option<Account>,
    bytes: usize,
}

impl Answers {
    /// Nothing held; fetches may bring it to `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        let shared = Shared {
            used: AtomicUsize::new(0),
            bytes_max,
            waiting: AtomicUsize::new(0),
            addresses: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Bytes held now.
    pub fn used_bytes(&self) -> usize {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// The bound.
    pub fn bytes_max(&self) -> usize {
        self.shared.bytes_max
    }

    /// Bytes that waiting fetches take now, about.
    pub fn waiting_bytes(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// The bound on those.
    pub fn waiting_max(&self) -> usize {
        self.shared.waiting_max()
    }

    /// The account of a connection from `ip`.
    pub fn account(&self, ip: IpAddr) -> Account {
        let ip = ip.to_canonical();
        let address = {
            let mut addresses = self.shared.addresses();
            let weighed = addresses.entry(ip).or_insert_with(|| Weighed {
                address: Arc::default(),
                accounts: 0,
            });
            weighed.accounts = weighed.accounts.saturating_add(1);
            Arc::clone(&weighed.address)
        };
        Account {
            shared: Arc::clone(&self.shared),
            address,
            ip,
        }
    }

    /// What one address may hold.
    pub(crate) fn share(&self) -> usize {
        self.shared.share()
    }

    /// True when more is held than may be: by all, or by the address.
    pub(crate) fn is_over(&self, ip: IpAddr) -> bool {
        let used = self.used_bytes();
        used > self.bytes_max()
            || (used > self.shared.share() && self.shared.used_by(ip) > self.shared.share())
    }

    /// Bytes that answers to an address may still take.
    pub(crate) fn free_bytes(&self, ip: IpAddr) -> usize {
        let left = self.bytes_max().saturating_sub(self.used_bytes());
        let share = self.shared.share().saturating_sub(self.shared.used_by(ip));
        left.min(share)
    }

    /// Counts bytes as held, of an answer that is not on its way yet.
    pub(crate) fn hold(&self, bytes: usize) {
        self.shared.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts them as held no more.
    pub(crate) fn release(&self, bytes: usize) {
        self.shared.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Sets memory aside for an answer to `ip` that would have `wanted` bytes; says how many it may have.
    pub(crate) fn set_aside(&self, wanted: usize, ip: IpAddr) -> (usize, Option<Aside<'_>>) {
        if wanted <= FLOOR_BYTES {
            return (wanted, None);
        }
        // The address holds no more than all do: while that is little, nobody needs to look.
        let sure = self.shared.share().saturating_sub(self.used_bytes());
        let granted = if wanted <= sure / 8 {
            wanted
        } else {
            wanted.min((self.free_bytes(ip) / 8).max(FLOOR_BYTES))
        };
        let bytes = granted.saturating_sub(FLOOR_BYTES);
        self.hold(bytes);
        let answers = self;
        (granted, Some(Aside { answers, bytes }))
    }

    /// Counts a fetch that waits and takes so many bytes by that; `None` when it may not wait.
    pub(crate) fn wait(&self, bytes: usize, ip: IpAddr) -> Option<Waiting<'_>> {
        let all = self.shared.waiting.fetch_add(bytes, Ordering::Relaxed);
        let account = (bytes > FLOOR_BYTES).then(|| self.account(ip));
        let waiting = Waiting {
            answers: self,
            account,
            bytes,
        };
        let Some(account) = &waiting.account else {
            return Some(waiting);
        };
        let of_address = account.address.waiting.fetch_add(bytes, Ordering::Relaxed);
        let bytes_max = self.waiting_max();
        let fits = all.saturating_add(bytes) <= bytes_max
            && of_address.saturating_add(bytes) <= bytes_max / 2;
        fits.then_some(waiting)
    }
}

impl Shared {
    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, Weighed>> {
        // Nothing in here can panic half-way.
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What one address may hold.
    fn share(&self) -> usize {
        self.bytes_max / 2
    }

    /// What waiting fetches may take.
    fn waiting_max(&self) -> usize {
        self.bytes_max / 4
    }

    fn used_by(&self, ip: IpAddr) -> usize {
        let addresses = self.addresses();
        let weighed = addresses.get(&ip.to_canonical());
        weighed.map_or(0, |weighed| weighed.address.used.load(Ordering::Relaxed))
    }
}

impl Account {
    /// Counts bytes as held.
    pub fn hold(&self, bytes: usize) {
        self.shared.used.fetch_add(bytes, Ordering::Relaxed);
        self.address.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes as sent that were held.
    pub fn release(&self, bytes: usize) {
        self.shared.used.fetch_sub(bytes, Ordering::Relaxed);
        self.address.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// True when more is held than may be: by all, or by this address.
    pub fn is_over(&self) -> bool {
        self.shared.used.load(Ordering::Relaxed) > self.shared.bytes_max
            || self.address.used.load(Ordering::Relaxed) > self.shared.share()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut addresses = self.shared.addresses();
        if let Some(weighed) = addresses.get_mut(&self.ip) {
            weighed.accounts = weighed.accounts.saturating_sub(1);
            if weighed.accounts == 0 {
                addresses.remove(&self.ip);
            }
        }
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        self.answers.release(self.bytes);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let all = &self.answers.shared.waiting;
        all.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(account) = &self.account {
            let waiting = &account.address.waiting;
            waiting.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn answers_shrink_as_more_is_held_and_everybody_gets_some() {
        let answers = Answers::new(64 * MIB);
        let accounts = [answers.account(ip(1)), answers.account(ip(2))];
        let mut last = [usize::MAX; 2];
        for turn in 0..2000 {
            let (account, last) = (&accounts[turn % 2], &mut last[turn % 2]);
            let (granted, aside) = answers.set_aside(55 * MIB, account.ip);
            assert!(granted <= *last && granted >= FLOOR_BYTES);
            *last = granted;
            drop(aside);
            // A reader that does not take it.
            account.hold(granted - FLOOR_BYTES);
        }
        assert_eq!(last, [FLOOR_BYTES; 2]);
        assert!(answers.used_bytes() <= answers.bytes_max());
        assert_eq!(answers.set_aside(FLOOR_BYTES, ip(3)).0, FLOOR_BYTES);
    }

    #[test]
    fn what_was_set_aside_is_free_again() {
        let answers = Answers::new(64 * MIB);
        let (granted, aside) = answers.set_aside(MIB, ip(1));
        assert_eq!((granted, answers.used_bytes()), (MIB, MIB - FLOOR_BYTES));
        drop(aside);
        assert_eq!(answers.used_bytes(), 0);
    }

    #[test]
    fn an_address_that_does_not_read_leaves_half_to_the_others() {
        let answers = Answers::new(64 * MIB);
        let greedy = answers.account(ip(1));
        for _ in 0..1000 {
            let (granted, _aside) = answers.set_aside(55 * MIB, ip(1));
            greedy.hold(granted - FLOOR_BYTES);
        }
        assert!(answers.used_bytes() <= 32 * MIB);
        assert_eq!(answers.set_aside(MIB, ip(1)).0, FLOOR_BYTES);
        assert_eq!(answers.set_aside(MIB, ip(2)).0, MIB);
        // What is not shrunk may bring it above: that concerns the address alone.
        let other = answers.account(ip(2));
        greedy.hold(2 * MIB);
        assert!(greedy.is_over() && answers.is_over(ip(1)));
        assert!(!other.is_over() && !answers.is_over(ip(2)));
        greedy.release(answers.used_bytes());
        drop((greedy, other));
        assert!(answers.shared.addresses().is_empty());
    }

    #[test]
    fn fetches_of_few_partitions_always_wait_and_others_within_their_share() {
        let answers = Answers::new(64 * MIB);
        let waiting: Vec<_> = (0..100).map(|_| answers.wait(MIB, ip(1))).collect();
        assert_eq!(waiting.iter().flatten().count(), 8, "an address");
        let others: Vec<_> = (0..100).map(|_| answers.wait(MIB, ip(2))).collect();
        assert_eq!(others.iter().flatten().count(), 8, "in all");
        assert!(answers.wait(MIB, ip(3)).is_none());
        assert!(answers.wait(FLOOR_BYTES, ip(1)).is_some());
        assert_eq!(answers.waiting_bytes(), 16 * MIB);
        drop((waiting, others));
        assert_eq!(answers.waiting_bytes(), 0);
        assert!(answers.shared.addresses().is_empty());
    }
}
