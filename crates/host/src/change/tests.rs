//! Confirmation, expiry and drift.

use rustix::io::Errno;

use super::*;
use crate::fake::{Fake, Habit};
use crate::watch::Verdict;

const SWAPPINESS: &str = "proc/sys/vm/swappiness";

fn host() -> Fake {
    Fake::new(&[
        ("proc/sys/kernel/random/boot_id", "boot-1"),
        (SWAPPINESS, "60"),
        ("proc/sys/vm/max_map_count", "65530"),
    ])
}

fn down_to(id: &str) -> UndoSelection<'_> {
    UndoSelection {
        to: Some(id),
        ..UndoSelection::default()
    }
}

fn item_of(id: &str) -> UndoSelection<'_> {
    UndoSelection {
        item: Some(id),
        ..UndoSelection::default()
    }
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
        taken: Vec::new(),
        ..Order::default()
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
    confirm(&fake, state.path(), &report.transaction, false)
        .unwrap()
        .unwrap();
    confirm(&fake, state.path(), &report.transaction, false)
        .unwrap()
        .unwrap();
    let kept = crate::journal::store::transactions(state.path()).unwrap();
    let look = || crate::watch::look(&fake, "boot-1", &kept);
    assert!(look().iter().all(|one| one.verdict == Verdict::Same));
    fake.set(SWAPPINESS, "30");
    let mut drifted = look();
    drifted.retain(|one| one.verdict == Verdict::Drifted);
    assert_eq!(drifted.len(), 1);
    assert_eq!(drifted[0].found.as_deref(), Some("30"));
}

#[test]
fn past_its_deadline_nothing_is_confirmed() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    let report = start(&fake, state.path(), Some(0)).unwrap();
    let refused = confirm(&fake, state.path(), &report.transaction, false)
        .unwrap()
        .unwrap_err();
    assert!(refused.why.contains("past its deadline"), "{refused:?}");
}

#[test]
fn in_another_boot_what_was_not_kept_is_over_and_nothing_is_written() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    let report = start(&fake, state.path(), Some(60_000)).unwrap();
    // The boot restored the defaults; an operator has changed one of them since.
    fake.set("proc/sys/kernel/random/boot_id", "boot-2");
    fake.set(SWAPPINESS, "1");
    let before = (fake.files(), fake.writes.get());
    let refused = confirm(&fake, state.path(), &report.transaction, false)
        .unwrap()
        .unwrap_err();
    assert!(refused.why.contains("another boot"), "{refused:?}");
    assert!(
        undo(&fake, state.path(), UndoSelection::default())
            .unwrap()
            .is_empty()
    );
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
        undo(&fake, state.path(), UndoSelection::default())
            .unwrap()
            .is_empty(),
        "it is closed"
    );
}

/// A disk that fails takes the journal with it while the plan is being applied.
#[test]
fn what_does_not_work_is_taken_back_without_its_journal() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let fake = host().habit("proc/sys/vm/max_map_count", Habit::Refuses(Errno::PERM));
    let before = fake.files();
    let changes = changes();
    let order = Order {
        plan: "p".to_owned(),
        host: "h".to_owned(),
        changes: &changes,
        confirm_within_ms: Some(60_000),
        taken: Vec::new(),
        ..Order::default()
    };
    let lose = |id: &str| {
        std::fs::write(state.join("lost"), id)?;
        std::fs::remove_file(state.join(format!("{id}.jsonl")))?;
        Ok(())
    };
    let report = begin(&fake, state, order, lose).unwrap().unwrap();
    assert!(!report.whole && state.join("lost").exists());
    assert_eq!(fake.files(), before);
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
        taken: Vec::new(),
        ..Order::default()
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
    confirm(&fake, state.path(), &first, false)
        .unwrap()
        .unwrap();
    let changes = [Change {
        item: "sysctl.vm.swappiness".to_owned(),
        want: "5".to_owned(),
    }];
    let order = Order {
        plan: "q".to_owned(),
        host: "h".to_owned(),
        changes: &changes,
        confirm_within_ms: None,
        taken: Vec::new(),
        ..Order::default()
    };
    begin(&fake, state.path(), order, |_| Ok(()))
        .unwrap()
        .unwrap();
    assert!(undo(&fake, state.path(), down_to("1-1")).is_err());
    let done = undo(&fake, state.path(), down_to(&first)).unwrap();
    assert_eq!(done.len(), 2);
    assert_eq!(fake.files(), before);
}

/// The journal of the newest cannot be opened, as on a disk that has become read-only.
#[test]
fn what_cannot_be_recorded_is_taken_back_and_the_older_too() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    let before = fake.files();
    let first = start(&fake, state.path(), None).unwrap().transaction;
    confirm(&fake, state.path(), &first, false)
        .unwrap()
        .unwrap();
    let changes = [Change {
        item: "sysctl.vm.swappiness".to_owned(),
        want: "5".to_owned(),
    }];
    let order = Order {
        changes: &changes,
        ..Order::default()
    };
    let newest = begin(&fake, state.path(), order, |_| Ok(()))
        .unwrap()
        .unwrap()
        .transaction;
    let path = state.path().join(format!("{newest}.jsonl"));
    let transactions = crate::journal::store::transactions(state.path()).unwrap();
    let store = Store::lock(state.path(), "boot-1").unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut log = store.to_take_back(&newest);
    let told = undo::undo(&fake, &mut *log, &transactions[1], None).unwrap_err();
    assert!(told.to_string().contains(&newest), "{told}");
    assert_eq!(fake.read(SWAPPINESS).unwrap(), "1\n");
    drop(store);
    undo(&fake, state.path(), down_to(&first)).unwrap();
    assert_eq!(fake.files(), before);
}

#[test]
fn half_a_plan_cannot_be_confirmed() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    let id = start(&fake, state.path(), Some(60_000))
        .unwrap()
        .transaction;
    // Killed after its last write: all records except the last.
    let path = state.path().join(format!("{id}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    std::fs::write(&path, lines[..lines.len() - 1].concat()).unwrap();
    let refused = confirm(&fake, state.path(), &id, false)
        .unwrap()
        .unwrap_err();
    assert!(refused.why.contains("not applied whole"), "{refused:?}");
    undo(&fake, state.path(), UndoSelection::default()).unwrap();
    assert_eq!(fake.read(SWAPPINESS).unwrap(), "60\n");
}

#[test]
fn one_damaged_journal_keeps_nothing_from_being_taken_back_and_nothing_is_applied_beside_it() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    let before = fake.files();
    start(&fake, state.path(), Some(60_000)).unwrap();
    for id in ["1-1", "99999999999-1"] {
        std::fs::write(state.path().join(format!("{id}.jsonl")), "x\ny\n").unwrap();
    }
    let refused = start(&fake, state.path(), Some(60_000)).unwrap_err();
    assert!(refused.why.contains("damaged"), "{refused:?}");
    let done = undo(&fake, state.path(), UndoSelection::default()).unwrap();
    assert_eq!(fake.files(), before);
    let refused = undo::UndoOutcome::Refused {
        error: format!(
            "{}: line 1 is damaged, and is not the last",
            state.path().join("99999999999-1.jsonl").display()
        ),
    };
    assert_eq!(done[0].1[0].outcome, refused, "it is not silent");
}

#[test]
fn an_item_is_taken_back_of_the_newest_change_that_has_it() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    let before = fake.files();
    let first = start(&fake, state.path(), None).unwrap().transaction;
    confirm(&fake, state.path(), &first, false)
        .unwrap()
        .unwrap();
    fake.set("proc/sys/net/core/somaxconn", "128");
    let changes = [Change {
        item: "sysctl.net.core.somaxconn".to_owned(),
        want: "4096".to_owned(),
    }];
    let order = Order {
        plan: "q".to_owned(),
        host: "h".to_owned(),
        changes: &changes,
        confirm_within_ms: None,
        taken: Vec::new(),
        ..Order::default()
    };
    begin(&fake, state.path(), order, |_| Ok(()))
        .unwrap()
        .unwrap();
    let done = undo(&fake, state.path(), item_of("sysctl.vm.swappiness")).unwrap();
    assert_eq!(done.len(), 1);
    assert_eq!(fake.read(SWAPPINESS).unwrap(), before[SWAPPINESS]);
    assert_eq!(fake.read("proc/sys/net/core/somaxconn").unwrap(), "4096\n");
    for absent in ["sysctl.vm.swappiness", "sysctl.vm.dirty_ratio"] {
        let told = undo(&fake, state.path(), item_of(absent))
            .unwrap_err()
            .to_string();
        assert!(told.contains("no transaction that is in effect"), "{told}");
    }
}
