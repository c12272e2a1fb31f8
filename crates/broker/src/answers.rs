//! Counts the memory of answers that are being sent, for the whole process and for each address.
//!
//! The broker holds an answer until the client has received it, and some clients are slow. A fetch
//! with a large answer first sets aside what it may read, at most an eighth of what is free, so it
//! reads less the more is held. A small answer is always possible, so every client makes progress.
//! The sender of an answer counts it until it is sent ([`Account::hold`]). One address may hold
//! half of the bound, and in any case a fair share of a quarter of it, so that a few clients that
//! do not read cannot keep others from their answers. An IPv6 address counts as its network,
//! because all addresses of a network belong to one user. Fetches that wait at many partitions take
//! many times the memory of their requests; [`Answers::wait`] counts them separately, by the same
//! rules.
//!
//! Invariant: fetches never raise what is held above the bound, except for the floor of each
//! connection and a first batch that is larger; other answers exceed it by no more than the fair
//! shares. This module does not know connections or their speed.

#![allow(
    clippy::disallowed_types,
    reason = "addresses are shared by all shards; the lock is held for a look, when a connection comes or goes or memory is short"
)]

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::network::network;

/// Largest answer that is not counted, because a connection has one at a time.
///
/// A waiting fetch that takes no more than this is never refused.
pub const FLOOR_BYTES: usize = 64 << 10;

/// The count; clones share it.
#[derive(Clone, Debug)]
pub struct Answers {
    shared: Arc<AnswerTotals>,
}

#[derive(Debug)]
struct AnswerTotals {
    used: AtomicUsize,
    bytes_max: usize,
    waiting: AtomicUsize,
    /// Number of addresses with accounts.
    count: AtomicUsize,
    // Bounded: addresses with connections, which `max.connections` and the limit of open files
    // bound.
    addresses: Mutex<HashMap<IpAddr, AddressAccounts>>,
}

/// An address with accounts, and their number.
#[derive(Debug)]
struct AddressAccounts {
    address: Arc<Address>,
    accounts: usize,
}

/// The bytes held for an address.
#[derive(Default, Debug)]
struct Address {
    used: AtomicUsize,
    waiting: AtomicUsize,
}

/// A connection, as the holder of answers or as a waiting fetch.
#[derive(Debug)]
pub struct Account {
    shared: Arc<AnswerTotals>,
    address: Arc<Address>,
    ip: IpAddr,
}

/// Bytes that count as held until this is dropped, on any shard.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    answers: Answers,
    /// The account of the address, if the bytes count for the address too.
    account: Option<Account>,
    bytes: usize,
}

/// A fetch that waits; dropping it ends the count.
#[derive(Debug)]
pub(crate) struct WaitingFetch {
    /// The account, if the fetch takes more than the floor.
    account: Option<Account>,
    bytes: usize,
}

impl Answers {
    /// Creates a count of zero; fetches may raise it to `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        let shared = AnswerTotals {
            used: AtomicUsize::new(0),
            bytes_max,
            waiting: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            addresses: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns the bytes held now.
    pub fn used_bytes(&self) -> usize {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// Returns the bound on the bytes held.
    pub fn bytes_max(&self) -> usize {
        self.shared.bytes_max
    }

    /// Returns about how many bytes the fetches that wait at many partitions take now.
    pub fn waiting_bytes(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Returns the bound on [`Answers::waiting_bytes`].
    pub fn waiting_max(&self) -> usize {
        self.shared.waiting_max()
    }

    /// Opens an account for a connection from `ip`.
    pub fn account(&self, ip: IpAddr) -> Account {
        let ip = network(ip);
        let address = {
            let mut addresses = self.shared.addresses();
            let weighed = addresses.entry(ip).or_insert_with(|| AddressAccounts {
                address: Arc::default(),
                accounts: 0,
            });
            weighed.accounts = weighed.accounts.saturating_add(1);
            let address = Arc::clone(&weighed.address);
            self.shared.count.store(addresses.len(), Ordering::Relaxed);
            address
        };
        Account {
            shared: Arc::clone(&self.shared),
            address,
            ip,
        }
    }

    /// Returns the bytes that one address may hold.
    pub(crate) fn share(&self) -> usize {
        self.shared.share()
    }

    /// Returns true if the address holds more than its share, or if all together exceed the bound
    /// and the address its fair share.
    pub(crate) fn is_over(&self, ip: IpAddr) -> bool {
        let used = self.used_bytes();
        used > self.shared.share() && self.shared.is_over(used, self.shared.used_by(ip))
    }

    /// Returns the bytes that answers to an address may still take.
    pub(crate) fn free_bytes(&self, ip: IpAddr) -> usize {
        let left = self.bytes_max().saturating_sub(self.used_bytes());
        let share = self.shared.share().saturating_sub(self.shared.used_by(ip));
        left.min(share)
    }

    /// Returns the same for an answer that is refused instead of shrunk: at least what is left of
    /// the fair share of its address.
    pub(crate) fn free_or_fair_bytes(&self, ip: IpAddr) -> usize {
        let fair = self.shared.fair(self.bytes_max());
        let fair = fair.saturating_sub(self.shared.used_by(ip));
        self.free_bytes(ip).max(fair)
    }

    /// Counts as held the bytes of an answer that is not being sent yet.
    pub(crate) fn hold(&self, bytes: usize) {
        self.shared.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Releases bytes that `hold` has counted.
    pub(crate) fn release(&self, bytes: usize) {
        take_off(&self.shared.used, bytes);
    }

    /// Sets memory aside for an answer to `ip` that would take `wanted` bytes, and returns how many
    /// it may take.
    pub(crate) fn set_aside(&self, wanted: usize, ip: IpAddr) -> (usize, Option<HeldBytes>) {
        if wanted <= FLOOR_BYTES {
            return (wanted, None);
        }
        // An address holds no more than all together. While that is little, its own count is not
        // looked up; from half of a share on, it is.
        let sure = (self.shared.share() / 2).saturating_sub(self.used_bytes());
        let answers = self.clone();
        if wanted <= sure / 8 {
            let bytes = wanted.saturating_sub(FLOOR_BYTES);
            self.hold(bytes);
            let account = None;
            return (
                wanted,
                Some(HeldBytes {
                    answers,
                    account,
                    bytes,
                }),
            );
        }
        let granted = wanted.min((self.free_bytes(ip) / 8).max(FLOOR_BYTES));
        assert!(granted >= FLOOR_BYTES, "everybody gets some");
        let bytes = granted.saturating_sub(FLOOR_BYTES);
        let account = self.account(ip);
        account.hold(bytes);
        let account = Some(account);
        (
            granted,
            Some(HeldBytes {
                answers,
                account,
                bytes,
            }),
        )
    }

    /// Counts a waiting fetch that takes `bytes`; returns `None` if it may not wait.
    pub(crate) fn wait(&self, bytes: usize, ip: IpAddr) -> Option<WaitingFetch> {
        let account = (bytes > FLOOR_BYTES).then(|| self.account(ip));
        let waiting = WaitingFetch { account, bytes };
        let Some(account) = &waiting.account else {
            // Thousands of small fetches must not keep a larger one from waiting.
            return Some(waiting);
        };
        let all = account.shared.waiting.fetch_add(bytes, Ordering::Relaxed);
        let own = account.address.waiting.fetch_add(bytes, Ordering::Relaxed);
        let (all, own) = (all.saturating_add(bytes), own.saturating_add(bytes));
        let bytes_max = self.waiting_max();
        let is_over = own > bytes_max / 2 || (all > bytes_max && own > self.shared.fair(bytes_max));
        (!is_over).then_some(waiting)
    }
}

/// Counts bytes as no longer held.
///
/// A count below zero would wrap to the maximum, and every later answer would be refused.
fn take_off(count: &AtomicUsize, bytes: usize) {
    let before = count.fetch_sub(bytes, Ordering::Relaxed);
    assert!(before >= bytes, "bytes are released as they were held");
}

impl AnswerTotals {
    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, AddressAccounts>> {
        // No holder of the lock can panic half-way, so a poisoned map is consistent.
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes that one address may hold.
    fn share(&self) -> usize {
        self.bytes_max / 2
    }

    /// Returns the bytes that waiting fetches may take.
    fn waiting_max(&self) -> usize {
        self.bytes_max / 4
    }

    /// Returns the part of `bytes_max` that each address may have, however much the others have.
    fn fair(&self, bytes_max: usize) -> usize {
        bytes_max / 4 / self.count.load(Ordering::Relaxed).max(1)
    }

    /// Returns true if an address that holds `own` holds too much, while all together hold `all`.
    fn is_over(&self, all: usize, own: usize) -> bool {
        own > self.share() || (all > self.bytes_max && own > self.fair(self.bytes_max))
    }

    fn used_by(&self, ip: IpAddr) -> usize {
        let addresses = self.addresses();
        let weighed = addresses.get(&network(ip));
        weighed.map_or(0, |weighed| weighed.address.used.load(Ordering::Relaxed))
    }
}

impl Account {
    /// Counts bytes as held.
    pub fn hold(&self, bytes: usize) {
        self.shared.used.fetch_add(bytes, Ordering::Relaxed);
        self.address.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts held bytes as sent.
    pub fn release(&self, bytes: usize) {
        take_off(&self.shared.used, bytes);
        take_off(&self.address.used, bytes);
    }

    /// Returns true if this address holds more than its share, or if all together exceed the bound
    /// and this address its fair share.
    pub fn is_over(&self) -> bool {
        let own = self.address.used.load(Ordering::Relaxed);
        self.shared
            .is_over(self.shared.used.load(Ordering::Relaxed), own)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut addresses = self.shared.addresses();
        let Some(weighed) = addresses.get_mut(&self.ip) else {
            unreachable!("an address is known while it has an account");
        };
        assert!(weighed.accounts > 0, "an account ends once");
        weighed.accounts = weighed.accounts.saturating_sub(1);
        if weighed.accounts == 0 {
            addresses.remove(&self.ip);
        }
        self.shared.count.store(addresses.len(), Ordering::Relaxed);
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        match &self.account {
            Some(account) => account.release(self.bytes),
            None => self.answers.release(self.bytes),
        }
    }
}

impl Drop for WaitingFetch {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            take_off(&account.shared.waiting, self.bytes);
            take_off(&account.address.waiting, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

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
            // The reader does not receive the answer.
            account.hold(granted - FLOOR_BYTES);
        }
        assert_eq!(last, [FLOOR_BYTES; 2]);
        assert!(answers.used_bytes() <= answers.bytes_max());
        assert_eq!(answers.set_aside(FLOOR_BYTES, ip(3)).0, FLOOR_BYTES);
    }

    #[test]
    fn what_is_set_aside_counts_for_its_address() {
        let answers = Answers::new(64 * MIB);
        let all: Vec<_> = (0..1000)
            .map(|_| answers.set_aside(55 * MIB, ip(1)).1)
            .collect();
        assert!(
            answers.used_bytes() <= 32 * MIB + MIB,
            "{}",
            answers.used_bytes()
        );
        let (granted, aside) = answers.set_aside(MIB, ip(2));
        assert_eq!(granted, MIB);
        drop((all, aside));
        assert_eq!(answers.used_bytes(), 0);
        assert_eq!(answers.shared.used_by(ip(1)), 0);
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
        // An answer that is not shrunk may exceed the share: that affects only its own address.
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
        let fair = answers.wait(MIB, ip(3));
        assert!(fair.is_some(), "each of three has its share");
        assert!(answers.wait(MIB, ip(3)).is_none());
        assert!(answers.wait(FLOOR_BYTES, ip(1)).is_some());
        assert_eq!(answers.waiting_bytes(), 17 * MIB);
        drop((waiting, others, fair));
        assert_eq!(answers.waiting_bytes(), 0);
        assert!(answers.shared.addresses().is_empty());
    }

    #[test]
    fn thousands_of_small_fetches_do_not_keep_a_large_one_from_waiting() {
        let answers = Answers::new(64 * MIB);
        let small: Vec<_> = (0..1000)
            .map(|_| answers.wait(FLOOR_BYTES, ip(1)))
            .collect();
        assert_eq!(small.iter().flatten().count(), 1000);
        assert!(answers.wait(MIB, ip(2)).is_some());
    }

    #[test]
    fn two_addresses_that_do_not_read_leave_a_fair_share_to_a_third() {
        let answers = Answers::new(64 * MIB);
        let (one, two) = (answers.account(ip(1)), answers.account(ip(2)));
        one.hold(33 * MIB);
        two.hold(33 * MIB);
        assert!(one.is_over() && two.is_over() && answers.is_over(ip(1)));
        let three = answers.account(ip(3));
        assert!(!three.is_over() && !answers.is_over(ip(3)));
        assert_eq!(answers.free_or_fair_bytes(ip(3)), 64 * MIB / 4 / 3);
        three.hold(6 * MIB);
        assert!(three.is_over() && answers.is_over(ip(3)));
        assert_eq!(answers.free_or_fair_bytes(ip(3)), 0);
        for (account, bytes) in [(one, 33), (two, 33), (three, 6)] {
            account.release(bytes * MIB);
        }
        assert_eq!(answers.used_bytes(), 0);
    }

    #[test]
    fn addresses_of_one_network_share() {
        let answers = Answers::new(64 * MIB);
        let accounts: Vec<Account> = (0..100_u128)
            .map(|host| Ipv6Addr::from_bits((0x2001_0db8 << 96) | host))
            .map(|ip| answers.account(ip.into()))
            .collect();
        for account in &accounts {
            account.hold(MIB);
        }
        assert!(accounts.iter().all(Account::is_over));
        let other = answers.account(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, 1]));
        assert!(!other.is_over());
        let mapped = answers.account(IpAddr::from([0, 0, 0, 0, 0, 0xffff, 0x0a00, 1]));
        mapped.hold(MIB);
        assert_eq!(answers.shared.used_by(ip(1)), MIB);
    }
}
