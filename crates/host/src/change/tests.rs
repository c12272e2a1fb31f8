//! Confirming, expiring, drifting.

use rustix::io::Errno;

use super::*;
use crate::fake::{Fake, Habit};

const SWAPPINESS: &str = "proc/sys/vm/swappiness";

fn host() -> Fake {
    Fake::new(&[
        ("proc/sys/kernel/random/boot_id", "boot-1"),
        (SWAPPINESS, "60"),
        ("proc/sys/vm/max_map_count", "65530"),
    ])
}

fn changes() -> Vec<Change> {
    let change = |item: &str, want: &str| Change {
        item: item.to_owned(),
        want: want.to_owned(),
    };
    vec![
        change("sysctl.vm.swappiness", "1"),
        change("sysctl.vm.max_map_count", "262144"),
    ]
}

fn start(fake: &Fake, state: &Path, within: Option<u64>) -> Result<Report, Refusal> {
    let changes = changes();
    let order = Order {
        plan: "p".to_owned(),
        host: "h".to_owned(),
        changes: &changes,
        confirm_within_ms: within,
    };
    begin(fake, state, order, |_| Ok(())).unwrap()
}

#[test]
fn nothing_but_confirm_keeps_a_change() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    let report = start(&fake, state.path(), Some(60_000)).unwrap();
    assert!(report.whole);
    let refused = start(&fake, state.path(), Some(60_000)).unwrap_err();
    assert!(refused.why.contains("is open"), "{refused:?}");
    confirm(&fake, state.path(), &report.transaction)
        .unwrap()
        .unwrap();
    confirm(&fake, state.path(), &report.transaction)
        .unwrap()
        .unwrap();
    let kept = crate::journal::store::transactions(state.path()).unwrap();
    assert!(verify(&fake, &kept).iter().all(|one| one.same));
    fake.set(SWAPPINESS, "30");
    let drifted: Vec<_> = verify(&fake, &kept)
        .into_iter()
        .filter(|one| !one.same)
        .collect();
    assert_eq!(drifted.len(), 1);
    assert_eq!(drifted[0].found.as_deref(), Some("30"));
}

#[test]
fn past_its_deadline_nothing_is_confirmed() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    let report = start(&fake, state.path(), Some(0)).unwrap();
    let refused = confirm(&fake, state.path(), &report.transaction)
        .unwrap()
        .unwrap_err();
    assert!(refused.why.contains("past its deadline"), "{refused:?}");
}

#[test]
fn in_another_boot_what_was_not_kept_is_over_and_nothing_is_written() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    let report = start(&fake, state.path(), Some(60_000)).unwrap();
    // The boot brought the defaults back; one of them is the operator's since.
    fake.set("proc/sys/kernel/random/boot_id", "boot-2");
    fake.set(SWAPPINESS, "1");
    let before = (fake.files(), fake.writes.get());
    let refused = confirm(&fake, state.path(), &report.transaction)
        .unwrap()
        .unwrap_err();
    assert!(refused.why.contains("another boot"), "{refused:?}");
    assert!(undo(&fake, state.path(), None, None).unwrap().is_empty());
    assert_eq!((fake.files(), fake.writes.get()), before);
    let closed = crate::journal::store::transactions(state.path()).unwrap();
    assert_eq!(closed[0].closed.as_deref(), Some("expired"));
    start(&fake, state.path(), None).unwrap();
}

#[test]
fn what_does_not_work_whole_is_taken_back_whole() {
    let state = tempfile::tempdir().unwrap();
    let fake = host().habit("proc/sys/vm/max_map_count", Habit::Refuses(Errno::PERM));
    let before = fake.files();
    let report = start(&fake, state.path(), Some(60_000)).unwrap();
    assert!(!report.whole);
    assert_eq!(fake.files(), before);
    fake.set(SWAPPINESS, "60");
    assert!(
        undo(&fake, state.path(), None, None).unwrap().is_empty(),
        "it is closed"
    );
}

#[test]
fn without_a_watchdog_nothing_is_written() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    let changes = changes();
    let order = Order {
        plan: "p".to_owned(),
        host: "h".to_owned(),
        changes: &changes,
        confirm_within_ms: Some(60_000),
    };
    let failed = begin(&fake, state.path(), order, |_| anyhow::bail!("no watchdog"));
    assert!(failed.is_err());
    assert_eq!(fake.writes.get(), 0);
    start(&fake, state.path(), None).unwrap();
}

#[test]
fn transactions_are_taken_back_the_newest_first() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    let before = fake.files();
    let first = start(&fake, state.path(), None).unwrap().transaction;
    confirm(&fake, state.path(), &first).unwrap().unwrap();
    let changes = [Change {
        item: "sysctl.vm.swappiness".to_owned(),
        want: "5".to_owned(),
    }];
    let order = Order {
        plan: "q".to_owned(),
        host: "h".to_owned(),
        changes: &changes,
        confirm_within_ms: None,
    };
    begin(&fake, state.path(), order, |_| Ok(()))
        .unwrap()
        .unwrap();
    assert!(undo(&fake, state.path(), Some("1-1"), None).is_err());
    let done = undo(&fake, state.path(), Some(&first), None).unwrap();
    assert_eq!(done.len(), 2);
    assert_eq!(fake.files(), before);
}
