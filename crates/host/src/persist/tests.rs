//! Boots of a host with confirmed changes.

use super::*;
use crate::fake::Fake;

const SWAPPINESS: &str = "proc/sys/vm/swappiness";
const QUEUE: &str = "proc/sys/net/core/somaxconn";

fn host() -> Fake {
    Fake::new(&[
        ("proc/sys/kernel/random/boot_id", "boot-1"),
        (SWAPPINESS, "60"),
        (QUEUE, "128"),
    ])
}

/// Reboots: values are the kernel's own again.
fn start(fake: &Fake, boot: &str) {
    fake.set("proc/sys/kernel/random/boot_id", boot);
    fake.set(SWAPPINESS, "60");
    fake.set(QUEUE, "128");
}

fn keep(fake: &Fake, state: &Path, item: &str, want: &str, until_reboot: bool) -> String {
    let changes = [Change {
        item: item.to_owned(),
        want: want.to_owned(),
    }];
    let order = Order {
        plan: String::new(),
        host: Facts::read(fake).fingerprint(),
        changes: &changes,
        confirm_within_ms: None,
        taken: Vec::new(),
        ..Order::default()
    };
    let id = change::begin(fake, state, order, |_| Ok(()))
        .unwrap()
        .unwrap()
        .transaction;
    change::confirm(fake, state, &id, until_reboot)
        .unwrap()
        .unwrap();
    id
}

fn go(fake: &Fake, state: &Path) -> BootOutcome {
    at_start(fake, state, &Facts::read(fake), |_| Ok(())).unwrap()
}

#[track_caller]
fn refused(outcome: BootOutcome, says: &str) {
    let BootOutcome::Refused { refused } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        refused.iter().any(|one| one.why.contains(says)),
        "{refused:?}"
    );
}

#[test]
fn what_is_kept_is_applied_anew_at_each_start_and_can_be_taken_back() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    keep(&fake, state.path(), "sysctl.vm.swappiness", "1", false);
    keep(&fake, state.path(), "sysctl.vm.swappiness", "5", false);
    keep(
        &fake,
        state.path(),
        "sysctl.net.core.somaxconn",
        "4096",
        true,
    );
    assert!(
        matches!(go(&fake, state.path()), BootOutcome::Nothing),
        "it is in effect"
    );
    for boot in ["boot-2", "boot-3", "boot-4", "boot-5"] {
        start(&fake, boot);
        assert!(matches!(go(&fake, state.path()), BootOutcome::Applied { report } if report.whole));
        assert_eq!(fake.read(SWAPPINESS).unwrap(), "5\n", "the newest word");
        assert_eq!(fake.read(QUEUE).unwrap(), "128\n", "for its boot only");
        assert!(
            matches!(go(&fake, state.path()), BootOutcome::Nothing),
            "once is enough"
        );
        lived(&fake, state.path()).unwrap();
    }
    change::undo(&fake, state.path(), change::UndoSelection::default()).unwrap();
    assert_eq!(fake.read(SWAPPINESS).unwrap(), "60\n");
    start(&fake, "boot-6");
    assert!(matches!(go(&fake, state.path()), BootOutcome::Nothing));
}

#[test]
fn after_two_starts_that_did_not_live_nothing_is_applied_until_somebody_says_so() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    keep(&fake, state.path(), "sysctl.vm.swappiness", "1", false);
    for boot in ["boot-2", "boot-3"] {
        start(&fake, boot);
        assert!(matches!(
            go(&fake, state.path()),
            BootOutcome::Applied { .. }
        ));
    }
    for boot in ["boot-4", "boot-5"] {
        start(&fake, boot);
        refused(go(&fake, state.path()), "did not live");
        assert_eq!(fake.read(SWAPPINESS).unwrap(), "60\n");
        // This boot lives without the change, so it proves nothing about the change.
        lived(&fake, state.path()).unwrap();
    }
    again(state.path()).unwrap();
    assert!(matches!(
        go(&fake, state.path()),
        BootOutcome::Applied { .. }
    ));
    assert_eq!(fake.read(SWAPPINESS).unwrap(), "1\n");
}

#[test]
fn a_start_that_is_killed_while_it_applies_is_tried_again_by_the_next() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    keep(&fake, state.path(), "sysctl.vm.swappiness", "1", false);
    start(&fake, "boot-2");
    // The watchdog does not start: nothing is written, but the boot is remembered.
    assert!(
        at_start(&fake, state.path(), &Facts::read(&fake), |_| anyhow::bail!(
            "none"
        ))
        .is_err()
    );
    assert_eq!(fake.read(SWAPPINESS).unwrap(), "60\n");
    start(&fake, "boot-3");
    assert!(matches!(
        go(&fake, state.path()),
        BootOutcome::Applied { .. }
    ));
}

#[test]
fn another_kernel_or_another_owner_is_another_host() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    keep(&fake, state.path(), "sysctl.vm.swappiness", "1", false);
    start(&fake, "boot-2");
    fake.set("proc/sys/kernel/osrelease", "7.0");
    refused(go(&fake, state.path()), "this host is");
    fake.remove("proc/sys/kernel/osrelease");
    fake.set("etc/sysctl.d/90-mine.conf", "vm.swappiness = 10");
    refused(go(&fake, state.path()), "sets it by now");
    assert_eq!(fake.read(SWAPPINESS).unwrap(), "60\n");
}

#[test]
fn a_damaged_memory_of_starts_is_no_good_news() {
    let state = tempfile::tempdir().unwrap();
    let fake = host();
    keep(&fake, state.path(), "sysctl.vm.swappiness", "1", false);
    std::fs::write(state.path().join("starts.json"), "[{\"boot").unwrap();
    start(&fake, "boot-2");
    refused(go(&fake, state.path()), "did not live");
}

const SNOOP: &str = "firmware/cpu.snoop";
const SNOOP_NOW: &str = "firmware-now/cpu.snoop";

fn with_firmware() -> Fake {
    let fake = host();
    fake.set(SNOOP, "[early] home");
    fake.set(SNOOP_NOW, "early");
    fake.habit(SNOOP, crate::fake::Habit::Chooses)
}

fn stage(fake: &Fake, state: &Path) -> String {
    let changes = [Change {
        item: "firmware.cpu.snoop".to_owned(),
        want: "home".to_owned(),
    }];
    let order = Order {
        host: Facts::read(fake).fingerprint(),
        changes: &changes,
        confirm_within_ms: Some(60_000),
        ..Order::default()
    };
    change::begin(fake, state, order, |_| Ok(()))
        .unwrap()
        .unwrap()
        .transaction
}

fn standing(fake: &Fake, state: &Path) -> TransactionStanding {
    let boot = boot::id(fake);
    transactions(state).unwrap().last().unwrap().standing(&boot)
}

/// A restart does not end what the firmware keeps: it is open still, waits again for its
/// confirmation, and is taken back by staging the old value.
#[test]
fn a_setting_of_the_firmware_outlives_the_start_that_brings_it() {
    let state = tempfile::tempdir().unwrap();
    let fake = with_firmware();
    let id = stage(&fake, state.path());
    let verdict = |fake: &Fake| {
        let seen = crate::watch::look(fake, &boot::id(fake), &transactions(state.path()).unwrap());
        seen[0].verdict
    };
    assert_eq!(verdict(&fake), crate::watch::Verdict::Waiting);
    start(&fake, "boot-2");
    fake.set(SNOOP_NOW, "home");
    assert_eq!(standing(&fake, state.path()), TransactionStanding::Open);
    assert_eq!(verdict(&fake), crate::watch::Verdict::Same);
    let watched = std::cell::RefCell::new(Vec::new());
    let resumed = change::resume(&fake, state.path(), |id| {
        watched.borrow_mut().push(id.to_owned());
        Ok(())
    });
    assert_eq!(resumed.unwrap(), std::slice::from_ref(&id));
    assert_eq!(*watched.borrow(), std::slice::from_ref(&id));
    let deadline = transactions(state.path()).unwrap()[0]
        .deadline("boot-2")
        .unwrap();
    assert!(deadline > boot::now_ms() && deadline <= boot::now_ms() + 60_000);
    // Once a boot.
    assert_eq!(
        change::resume(&fake, state.path(), |_| Ok(())).unwrap(),
        Vec::<String>::new()
    );
    let undone = change::undo(&fake, state.path(), change::UndoSelection::default()).unwrap();
    assert_eq!(undone[0].1[0].outcome, crate::undo::UndoOutcome::Restored);
    assert_eq!(fake.files()[SNOOP], "[early] home\n");
    assert_eq!(standing(&fake, state.path()), TransactionStanding::Closed);
}

#[test]
fn what_waits_for_its_confirmation_keeps_no_start_from_applying_the_rest() {
    let state = tempfile::tempdir().unwrap();
    let fake = with_firmware();
    keep(&fake, state.path(), "sysctl.vm.swappiness", "1", false);
    let id = stage(&fake, state.path());
    start(&fake, "boot-2");
    let BootOutcome::Applied { report } = go(&fake, state.path()) else {
        panic!("it applies what is kept");
    };
    assert!(report.whole);
    assert_eq!(fake.files()[SWAPPINESS], "1\n");
    let all = transactions(state.path()).unwrap();
    let waiting = all.iter().find(|one| one.id == id).unwrap();
    assert_eq!(waiting.standing("boot-2"), TransactionStanding::Open);
    change::confirm(&fake, state.path(), &id, false)
        .unwrap()
        .unwrap();
}

/// A start writes nothing to the firmware, which has its settings still; undo knows the value from
/// before the first start.
#[test]
fn what_the_firmware_keeps_is_taken_back_to_what_was_before_all_starts() {
    let state = tempfile::tempdir().unwrap();
    let fake = with_firmware();
    let id = stage(&fake, state.path());
    change::confirm(&fake, state.path(), &id, false)
        .unwrap()
        .unwrap();
    keep(&fake, state.path(), "sysctl.vm.swappiness", "1", false);
    for boot in ["boot-2", "boot-3"] {
        start(&fake, boot);
        let writes = fake.writes.get();
        assert!(matches!(
            go(&fake, state.path()),
            BootOutcome::Applied { .. }
        ));
        assert_eq!(fake.writes.get(), writes + 1, "the sysctl alone");
        lived(&fake, state.path()).unwrap();
    }
    let down_to = change::UndoSelection {
        to: Some(&id),
        ..change::UndoSelection::default()
    };
    change::undo(&fake, state.path(), down_to).unwrap();
    assert_eq!(fake.files()[SNOOP], "[early] home\n");
    assert_eq!(fake.files()[SWAPPINESS], "60\n");
}

/// Without its controller the value of the firmware is unknown: it is not taken for gone.
#[test]
fn a_controller_that_is_not_named_keeps_the_transaction_open() {
    let state = tempfile::tempdir().unwrap();
    let fake = with_firmware();
    stage(&fake, state.path());
    fake.remove(SNOOP);
    let undone = change::undo(&fake, state.path(), change::UndoSelection::default()).unwrap();
    assert!(matches!(
        undone[0].1[0].outcome,
        crate::undo::UndoOutcome::Refused { .. }
    ));
    assert_eq!(standing(&fake, state.path()), TransactionStanding::Open);
}
