//! Values taken away by a reset are rewritten; values set by others are not.

use super::*;
use crate::apply::Change;
use crate::change::{self, Order};
use crate::fake::Fake;

const RPS: &str = "sys/class/net/eth0/queues/rx-0/rps_cpus";
const THREAD: &str = "napi/eth0/0";

fn host() -> Fake {
    Fake::new(&[
        ("proc/sys/kernel/random/boot_id", "boot-1"),
        ("sys/devices/system/cpu/online", "0-3"),
        ("proc/sys/vm/swappiness", "60"),
        ("sys/class/net/eth0/threaded", "1"),
        (RPS, "0"),
        (THREAD, "0-1"),
    ])
    .habit(RPS, crate::fake::Habit::Mask)
}

fn kept(fake: &Fake, state: &Path) {
    kept_for(fake, state, false);
}

fn kept_for(fake: &Fake, state: &Path, until_reboot: bool) {
    let changes = [
        ("net.eth0.napi-0.cpus", "2"),
        ("net.eth0.rx-0.rps_cpus", "1-3"),
        ("sysctl.vm.swappiness", "1"),
    ];
    let changes = changes.map(|(item, want)| Change {
        item: item.to_owned(),
        want: want.to_owned(),
    });
    let order = Order {
        plan: String::new(),
        host: String::new(),
        changes: &changes,
        confirm_within_ms: None,
        taken: Vec::new(),
        ..Order::default()
    };
    let report = change::begin(fake, state, order, |_| Ok(()))
        .unwrap()
        .unwrap();
    assert!(report.whole, "{report:?}");
    change::confirm(fake, state, &report.transaction, until_reboot)
        .unwrap()
        .unwrap();
}

/// Another boot: values, queues and threads are the kernel's own again.
fn reboot(fake: &Fake) {
    fake.set("proc/sys/kernel/random/boot_id", "boot-2");
    fake.set("proc/sys/vm/swappiness", "60");
    fake.set(RPS, "0");
    fake.set(THREAD, "0-3");
}

#[test]
fn what_was_kept_until_a_reboot_is_over_with_it() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    kept_for(&fake, state.path(), true);
    reboot(&fake);
    let before = fake.files();
    let mut watch = Watch::default();
    assert!(told(&mut watch, &fake, state.path(), 0).is_empty());
    let found = transactions(state.path()).unwrap();
    assert_eq!(found[0].standing("boot-1"), TransactionStanding::Confirmed);
    assert_eq!(found[0].standing("boot-2"), TransactionStanding::Expired);
    assert!(look(&fake, "boot-2", &found).is_empty());
    change::undo(&fake, state.path(), change::UndoSelection::default()).unwrap();
    assert_eq!(fake.files(), before, "a start has taken it back");
}

/// The boot service refused it, because the kernel is another one, or has not run yet.
#[test]
fn what_this_boot_has_not_applied_is_not_written_by_the_watch() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    kept(&fake, state.path());
    reboot(&fake);
    let before = fake.files();
    let mut watch = Watch::default();
    let first = told(&mut watch, &fake, state.path(), 0);
    assert_eq!(first.len(), 3, "{first:?}");
    assert!(
        first
            .iter()
            .all(|one| one.contains("not applied since the start"))
    );
    assert!(told(&mut watch, &fake, state.path(), 1_000).is_empty());
    assert_eq!(fake.files(), before);
}

fn told(watch: &mut Watch, fake: &Fake, state: &Path, now: u64) -> Vec<String> {
    let told = watch.look(fake, state, now).unwrap();
    told.into_iter()
        .map(|one| format!("{}: {}", one.seen.item, one.done))
        .collect()
}

#[test]
fn what_a_reset_took_away_is_written_anew_and_journalled() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    kept(&fake, state.path());
    let mut watch = Watch::default();
    assert!(told(&mut watch, &fake, state.path(), 0).is_empty());
    // A new queue and thread: no steering, all CPUs.
    fake.set(RPS, "0");
    fake.set(THREAD, "0-3");
    assert_eq!(told(&mut watch, &fake, state.path(), 1_000).len(), 2);
    assert_eq!(fake.read(RPS).unwrap(), "00000000,0000000e\n");
    assert_eq!(fake.read(THREAD).unwrap(), "2\n");
    assert!(told(&mut watch, &fake, state.path(), 2_000).is_empty());
    // The change can still be taken back.
    change::undo(&fake, state.path(), change::UndoSelection::default()).unwrap();
    assert_eq!(fake.read(THREAD).unwrap(), "0-1\n");
    assert!(
        told(&mut watch, &fake, state.path(), 3_000).is_empty(),
        "what was undone stays so"
    );
}

#[test]
fn what_somebody_else_set_is_named_once_and_left() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    kept(&fake, state.path());
    let mut watch = Watch::default();
    fake.set(THREAD, "3");
    // A reset of a link does not change this value: another program set it back.
    fake.set("proc/sys/vm/swappiness", "60");
    let first = told(&mut watch, &fake, state.path(), 0);
    assert_eq!(
        first,
        [
            "net.eth0.napi-0.cpus: left: somebody else set it",
            "sysctl.vm.swappiness: left: somebody else set it",
        ]
    );
    assert!(told(&mut watch, &fake, state.path(), 1_000).is_empty());
    assert_eq!(fake.read(THREAD).unwrap(), "3\n");
    fake.remove(THREAD);
    assert_eq!(
        told(&mut watch, &fake, state.path(), 2_000).len(),
        1,
        "it is gone"
    );
    fake.set(THREAD, "0-3");
    assert_eq!(
        told(&mut watch, &fake, state.path(), 3_000),
        ["net.eth0.napi-0.cpus: restored"]
    );
}

#[test]
fn who_takes_it_away_again_and_again_is_not_fought() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    kept(&fake, state.path());
    let mut watch = Watch::default();
    for at in 0..u64::try_from(AGAIN_MAX).unwrap() {
        fake.set(RPS, "0");
        assert_eq!(
            told(&mut watch, &fake, state.path(), at * 1_000),
            ["net.eth0.rx-0.rps_cpus: restored"]
        );
    }
    fake.set(RPS, "0");
    let said = told(&mut watch, &fake, state.path(), 60_000);
    assert!(said[0].contains("within an hour"), "{said:?}");
    assert!(
        told(&mut watch, &fake, state.path(), 61_000).is_empty(),
        "it is said once"
    );
    assert_eq!(told(&mut watch, &fake, state.path(), 2 * HOUR_MS).len(), 1);
}

#[test]
fn a_change_whose_watchdog_was_killed_gets_another_one() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    let changes = [Change {
        item: "sysctl.vm.swappiness".to_owned(),
        want: "1".to_owned(),
    }];
    let order = Order {
        changes: &changes,
        confirm_within_ms: Some(60_000),
        ..Order::default()
    };
    let begun = change::begin(&fake, state.path(), order, |_| Ok(()));
    let id = begun.unwrap().unwrap().transaction;
    let mut watch = Watch::default();
    let mut orphans = || {
        watch.look(&fake, state.path(), 0).unwrap();
        watch.orphans(&fake, state.path())
    };
    assert!(orphans().is_empty(), "it may be about to start");
    assert_eq!(orphans(), std::slice::from_ref(&id));
    let lock = std::fs::File::create(state.path().join(format!("{id}.watch"))).unwrap();
    lock.lock().unwrap();
    assert!(orphans().is_empty(), "it runs");
    drop(lock);
    change::confirm(&fake, state.path(), &id, false)
        .unwrap()
        .unwrap();
    assert!(orphans().is_empty() && orphans().is_empty(), "it is kept");
}

#[test]
fn looking_takes_no_more_than_a_thousandth_of_a_cpu() {
    assert_eq!(Watch::wait_ms(100), LOOK_MS);
    assert_eq!(Watch::wait_ms(5_000), 5_000);
    assert!(Watch::wait_ms(u64::MAX) > 1 << 40);
}
