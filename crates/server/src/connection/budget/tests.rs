//! Which frames get memory, and which wait.

use std::future::poll_fn;
use std::task::Poll;

use super::*;

const MIB: usize = 1 << 20;

fn account(budget: &Budget, last: u8) -> Rc<Account> {
    budget.account(IpAddr::from([10, 0, 0, last]))
}

/// Polls the future once.
fn poll_once(waiting: &mut BytesWait) -> Option<TakenBytes> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(poll_fn(|cx| {
        Poll::Ready(match waiting.as_mut().poll(cx) {
            Poll::Ready(taken) => Some(taken),
            Poll::Pending => None,
        })
    }))
}

#[test]
fn large_frames_leave_a_reserve_to_small_ones() {
    let budget = Budget::new(16 * MIB, 100 * MIB);
    let accounts: Vec<_> = (0..8).map(|last| account(&budget, last)).collect();
    let mut held = Vec::new();
    for account in accounts.iter().cycle().take(100) {
        held.extend(account.try_take(account.piece(100 * MIB)));
    }
    assert!(budget.used_bytes() >= 12 * MIB);
    let newcomer = account(&budget, 99);
    assert!(newcomer.try_take(newcomer.piece(MIB)).is_none());
    assert!(newcomer.try_take(1000).is_some());
}

#[test]
fn one_address_leaves_half_to_the_others() {
    let budget = Budget::new(64 * MIB, MIB);
    let (greedy, other) = (account(&budget, 1), account(&budget, 2));
    let mut held: Vec<TakenBytes> = Vec::new();
    held.extend(std::iter::from_fn(|| greedy.try_take(MIB)));
    held.extend(std::iter::from_fn(|| greedy.try_take(1000)));
    // Small frames may also use free memory of the large part, but only within the address's half.
    assert!(
        budget.used_bytes() <= 32 * MIB + 1000,
        "{}",
        budget.used_bytes()
    );
    assert!(other.try_take(MIB).is_some() && other.try_take(1000).is_some());
    let again = account(&budget, 1);
    assert!(
        again.try_take(MIB).is_none(),
        "another connection of the address"
    );
    drop(held);
    assert!(again.try_take(MIB).is_some());
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn all_addresses_of_a_network_have_one_half_of_it_together() {
    let budget = Budget::new(64 * MIB, MIB);
    let held: Vec<TakenBytes> = (0..10)
        .flat_map(|last| {
            let ip = [0x2001, 0xdb8, 0, 1, 0, 0, 0, last];
            let account = budget.account(ip.into());
            std::iter::from_fn(move || account.try_take(MIB))
        })
        .collect();
    assert!(budget.used_bytes() <= 32 * MIB, "{}", budget.used_bytes());
    let neighbour = budget.account([0x2001, 0xdb8, 0, 2, 0, 0, 0, 0].into());
    assert!(neighbour.try_take(MIB).is_some());
    drop(held);
}

#[test]
fn frames_that_are_read_in_part_do_not_wait_for_each_other_for_ever() {
    let budget = Budget::new(8 * MIB, 100 * MIB);
    let accounts = [account(&budget, 1), account(&budget, 2)];
    let rest = 50 * MIB;
    let mut parts: Vec<_> = accounts
        .iter()
        .map(|a| a.try_take(a.piece(rest)).unwrap())
        .collect();
    while parts.iter_mut().any(|part| part.try_more(MIB)) {}
    let mut waiting: Vec<_> = parts.into_iter().map(|part| part.more(MIB, rest)).collect();
    let first = poll_once(&mut waiting[0]).expect("one goes on, beyond the bound");
    assert!(first.bytes() > rest);
    assert!(poll_once(&mut waiting[1]).is_none(), "one at a time");
    assert!(budget.used_bytes() <= 8 * MIB + rest);
    drop(first);
    assert!(poll_once(&mut waiting[1]).is_some());
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn addresses_without_connections_are_forgotten() {
    let budget = Budget::new(MIB, MIB);
    let (one, same) = (account(&budget, 1), account(&budget, 1));
    let taken = one.try_take(10).unwrap();
    drop((one, same));
    assert_eq!(budget.shared.addresses().len(), 1, "it holds bytes");
    drop(taken);
    assert!(budget.shared.addresses().is_empty());
}
