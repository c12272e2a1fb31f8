//! A process that is killed at every step of a plan of twenty items, and again at every step of
//! taking it back.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;

use rustix::io::Errno;

use super::*;
use crate::apply::{self, Change, apply, order};
use crate::fake::{Fake, Habit, Life, kill};
use crate::journal::store::{JournalFile, Store, transactions};

/// How much of a record reaches the disk if the process is killed while writing it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum TornRecord {
    Nothing,
    Half,
    AllButItsEnd,
    All,
}

struct DyingJournal {
    file: JournalFile,
    dir: std::path::PathBuf,
    life: Rc<Life>,
    torn: TornRecord,
}

impl Log for DyingJournal {
    fn append(&mut self, event: Event) -> io::Result<()> {
        if self.life.step() {
            return self.file.append(event);
        }
        let path = self.dir.join(format!("{}.jsonl", self.file.id));
        let before = std::fs::read(&path).unwrap().len();
        self.file.append(event).unwrap();
        let text = std::fs::read(&path).unwrap();
        let line = text.len() - before;
        let kept = match self.torn {
            TornRecord::Nothing => 0,
            TornRecord::Half => line / 2,
            TornRecord::AllButItsEnd => line - 1,
            TornRecord::All => line,
        };
        std::fs::write(&path, &text[..before + kept]).unwrap();
        kill();
    }
}

/// (item, file, shown text, wanted value, habit).
type Item = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Option<Habit>,
);

const ITEMS: [Item; 30] = [
    (
        "sysctl.net.core.somaxconn",
        "proc/sys/net/core/somaxconn",
        "64",
        "4096",
        None,
    ),
    (
        "sysctl.net.core.netdev_max_backlog",
        "proc/sys/net/core/netdev_max_backlog",
        "1000",
        "4000",
        None,
    ),
    (
        "sysctl.net.core.netdev_budget",
        "proc/sys/net/core/netdev_budget",
        "300",
        "600",
        None,
    ),
    (
        "sysctl.net.core.rmem_max",
        "proc/sys/net/core/rmem_max",
        "212992",
        "5000",
        Some(Habit::AtLeast(8192)),
    ),
    (
        "sysctl.net.core.wmem_max",
        "proc/sys/net/core/wmem_max",
        "212992",
        "4194304",
        None,
    ),
    (
        "sysctl.net.core.rps_sock_flow_entries",
        "proc/sys/net/core/rps_sock_flow_entries",
        "0",
        "3000",
        Some(Habit::PowerOfTwo),
    ),
    (
        "sysctl.net.ipv4.tcp_rmem",
        "proc/sys/net/ipv4/tcp_rmem",
        "4096\t131072\t6291456",
        "4096 131072 16777216",
        Some(Habit::Row),
    ),
    (
        "sysctl.net.ipv4.tcp_max_syn_backlog",
        "proc/sys/net/ipv4/tcp_max_syn_backlog",
        "512",
        "4096",
        None,
    ),
    (
        "sysctl.vm.swappiness",
        "proc/sys/vm/swappiness",
        "60",
        "1",
        None,
    ),
    (
        "sysctl.vm.dirty_background_bytes",
        "proc/sys/vm/dirty_background_bytes",
        "0",
        "268435456",
        Some(Habit::Excludes("proc/sys/vm/dirty_background_ratio")),
    ),
    (
        "sysctl.vm.dirty_ratio",
        "proc/sys/vm/dirty_ratio",
        "0",
        "40",
        Some(Habit::Excludes("proc/sys/vm/dirty_bytes")),
    ),
    (
        "sysctl.vm.max_map_count",
        "proc/sys/vm/max_map_count",
        "65530",
        "262144",
        None,
    ),
    (
        "sysctl.kernel.numa_balancing",
        "proc/sys/kernel/numa_balancing",
        "1",
        "0",
        None,
    ),
    (
        "block.vda.scheduler",
        "sys/block/vda/queue/scheduler",
        "none [mq-deadline] kyber",
        "none",
        Some(Habit::Chooses),
    ),
    (
        "block.vda.nr_requests",
        "sys/block/vda/queue/nr_requests",
        "256",
        "4",
        Some(Habit::AtLeast(5)),
    ),
    (
        "block.vda.read_ahead_kb",
        "sys/block/vda/queue/read_ahead_kb",
        "128",
        "0",
        None,
    ),
    (
        "mm.thp.enabled",
        "sys/kernel/mm/transparent_hugepage/enabled",
        "[always] madvise never",
        "madvise",
        Some(Habit::Chooses),
    ),
    (
        "net.eth0.rx-0.rps_cpus",
        "sys/class/net/eth0/queues/rx-0/rps_cpus",
        "00000000,00000000",
        "1-3",
        Some(Habit::Mask),
    ),
    (
        "net.eth0.rx-0.rps_flow_cnt",
        "sys/class/net/eth0/queues/rx-0/rps_flow_cnt",
        "0",
        "4096",
        Some(Habit::PowerOfTwo),
    ),
    (
        "net.eth0.rss",
        "ethtool/eth0/rss",
        "0 1 2 3 0 1 2 3",
        "equal=2",
        Some(Habit::Spreads("eth0")),
    ),
    (
        "net.eth0.rss_key",
        "ethtool/eth0/rss_key",
        "6d5a56da255b0ec2",
        "0102030405060708",
        None,
    ),
    (
        "net.eth0.rss_fields",
        "ethtool/eth0/rss_fields",
        "tcp4_ports=1 tcp6_ports=1 udp4_ports=0 udp6_ports=0",
        "udp4_ports=1 udp6_ports=1",
        Some(Habit::Fixes("none")),
    ),
    (
        "net.eth0.features",
        "ethtool/eth0/features",
        "gro=1 gso=1 lro=0 tso=1",
        "gro=0 tso=0",
        Some(Habit::Fixes("none")),
    ),
    (
        "net.eth0.pause",
        "ethtool/eth0/pause",
        "autoneg=0 rx=1 tx=1",
        "rx=0",
        Some(Habit::Fixes("none")),
    ),
    (
        "net.eth0.tx-0.bql_max",
        "sys/class/net/eth0/queues/tx-0/byte_queue_limits/limit_max",
        "1879048192",
        "262144",
        None,
    ),
    (
        "cpu.cpu1.latency_us",
        "sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us",
        "0",
        "20",
        None,
    ),
    (
        "cpu.cpu1.state3.off",
        "sys/devices/system/cpu/cpu1/cpuidle/state3/disable",
        "0",
        "1",
        None,
    ),
    ("process.cpus", "etc/forebay/cpus", "0-7", "1-7", None),
    (
        "firmware.cpu.snoop",
        "firmware/cpu.snoop",
        "[early] home cluster-on-die",
        "home",
        Some(Habit::Chooses),
    ),
    (
        "net.eth0.gro_flush_timeout",
        "sys/class/net/eth0/gro_flush_timeout",
        "0",
        "20000",
        None,
    ),
];

/// Returns a directory where syncing is free, if there is one; these tests do not concern the disk.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.unwrap()
}

fn host() -> Fake {
    let mut fake = Fake::new(&[
        ("proc/sys/kernel/random/boot_id", "boot"),
        ("proc/sys/vm/dirty_background_ratio", "10"),
        ("proc/sys/vm/dirty_bytes", "1048576"),
    ]);
    for (_, file, shown, _, habit) in ITEMS {
        fake.set(file, shown);
        if let Some(habit) = habit {
            fake = fake.habit(file, habit);
        }
    }
    // The other knobs of the pairs have the same habit.
    fake.habit(
        "proc/sys/vm/dirty_background_ratio",
        Habit::Excludes("proc/sys/vm/dirty_background_bytes"),
    )
    .habit(
        "proc/sys/vm/dirty_bytes",
        Habit::Excludes("proc/sys/vm/dirty_ratio"),
    )
}

fn changes() -> Vec<Change> {
    let change = |(item, _, _, want, _): &Item| Change {
        item: (*item).to_owned(),
        want: (*want).to_owned(),
    };
    let mut changes: Vec<Change> = ITEMS.iter().map(change).collect();
    order(&mut changes);
    changes
}

fn begin(store: &Store) -> JournalFile {
    let mut file = store.begin().unwrap();
    let (plan, host) = ("p".to_owned(), "h".to_owned());
    let deadline_ms = Some(1);
    file.append(Event::Begin {
        plan,
        host,
        deadline_ms,
        network: None,
        taken: Vec::new(),
        within_ms: None,
        guard: None,
    })
    .unwrap();
    file
}

/// Runs `body` in a process that is killed after the steps of `life`; returns whether it completed.
fn lives(fake: &Fake, life: &Rc<Life>, body: impl FnOnce()) -> bool {
    fake.lives(Some(Rc::clone(life)));
    let ended = catch_unwind(AssertUnwindSafe(body)).is_ok();
    fake.lives(None);
    ended
}

fn undo_to_the_end(fake: &Fake, dir: &Path) -> Vec<UndoneItem> {
    let store = Store::lock(dir, "boot").unwrap();
    let mut all = Vec::new();
    for transaction in transactions(dir).unwrap() {
        if transaction.closed.is_none() {
            let mut log = store.append_to(&transaction.id).unwrap();
            all.extend(undo(fake, &mut log, &transaction, None).unwrap());
        }
    }
    all
}

/// Applies and is killed after `steps` steps; returns whether it completed.
fn apply_killed(fake: &Fake, dir: &Path, steps: u64, torn: TornRecord) -> bool {
    let store = Store::lock(dir, "boot").unwrap();
    let life = Life::of(steps);
    let mut log = DyingJournal {
        file: begin(&store),
        dir: dir.to_owned(),
        life: Rc::clone(&life),
        torn,
    };
    lives(fake, &life, || {
        let applied = apply(fake, &mut log, &changes()).unwrap();
        assert_eq!(applied.len(), ITEMS.len());
        assert!(
            applied.iter().all(|one| one.outcome.is_well()),
            "{applied:?}"
        );
    })
}

fn differences(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> Vec<String> {
    let differ = one
        .iter()
        .filter(|(name, text)| other.get(*name) != Some(*text));
    differ
        .map(|(name, text)| format!("{name}: {text} {:?}", other.get(name)))
        .collect()
}

#[test]
fn killed_at_any_step_the_host_is_as_before_after_undo() {
    for torn in [
        TornRecord::Nothing,
        TornRecord::Half,
        TornRecord::AllButItsEnd,
        TornRecord::All,
    ] {
        let mut steps = 0;
        loop {
            let dir = scratch();
            let fake = host();
            let before = fake.files();
            let ended = apply_killed(&fake, dir.path(), steps, torn);
            assert!(!ended || fake.files() != before, "it does something");
            undo_to_the_end(&fake, dir.path());
            let left = differences(&before, &fake.files());
            assert!(left.is_empty(), "{torn:?} {steps}: {left:?}");
            steps += 1;
            if ended {
                break;
            }
        }
        assert!(steps > 3 * ITEMS.len() as u64, "each item is three steps");
    }
}

#[test]
fn killed_at_any_step_of_undo_the_next_undo_ends_it() {
    for applied in [1_u64, 8, 31, 32, 33, 1_000] {
        let mut steps = 0;
        loop {
            let dir = scratch();
            let fake = host();
            let before = fake.files();
            apply_killed(&fake, dir.path(), applied, TornRecord::Half);
            let life = Life::of(steps);
            let store = Store::lock(dir.path(), "boot").unwrap();
            let transaction = store.transactions().unwrap().remove(0);
            let mut log = DyingJournal {
                file: store.append_to(&transaction.id).unwrap(),
                dir: dir.path().to_owned(),
                life: Rc::clone(&life),
                torn: TornRecord::Half,
            };
            let ended = lives(&fake, &life, || {
                undo(&fake, &mut log, &transaction, None).unwrap();
            });
            drop(store);
            undo_to_the_end(&fake, dir.path());
            let left = differences(&before, &fake.files());
            assert!(left.is_empty(), "{applied} {steps}: {left:?}");
            steps += 1;
            if ended {
                break;
            }
        }
    }
}

fn applied(fake: &Fake, dir: &Path, item: &str, want: &str) -> Vec<apply::AppliedItem> {
    let store = Store::lock(dir, "boot").unwrap();
    let mut log = begin(&store);
    let change = Change {
        item: item.to_owned(),
        want: want.to_owned(),
    };
    apply(fake, &mut log, &[change]).unwrap()
}

#[test]
fn what_somebody_else_changed_is_left_and_named() {
    let dir = scratch();
    let fake = host();
    applied(&fake, dir.path(), "sysctl.vm.swappiness", "1");
    fake.set("proc/sys/vm/swappiness", "30");
    let undone = undo_to_the_end(&fake, dir.path());
    let found = "30".to_owned();
    assert_eq!(undone[0].outcome, UndoOutcome::Drifted { found });
    assert_eq!(fake.read("proc/sys/vm/swappiness").unwrap(), "30\n");
}

#[test]
fn what_somebody_else_changed_while_no_record_was_written_is_left_too() {
    let dir = scratch();
    let fake = host();
    let store = Store::lock(dir.path(), "boot").unwrap();
    let life = Life::of(2);
    let mut log = DyingJournal {
        file: begin(&store),
        dir: dir.path().to_owned(),
        life: Rc::clone(&life),
        torn: TornRecord::Nothing,
    };
    let change = Change {
        item: "block.vda.nr_requests".to_owned(),
        want: "4".to_owned(),
    };
    assert!(!lives(&fake, &life, || {
        apply(&fake, &mut log, &[change]).unwrap();
    }));
    drop((store, log));
    fake.set("sys/block/vda/queue/nr_requests", "64");
    let undone = undo_to_the_end(&fake, dir.path());
    let found = "64".to_owned();
    assert_eq!(undone[0].outcome, UndoOutcome::Drifted { found });
    assert_eq!(
        fake.read("sys/block/vda/queue/nr_requests").unwrap(),
        "64\n"
    );
}

#[test]
fn what_the_kernel_makes_of_a_value_is_told() {
    let dir = scratch();
    let fake = host()
        .habit("proc/sys/vm/swappiness", Habit::Ignores)
        .habit("proc/sys/vm/max_map_count", Habit::Refuses(Errno::PERM));
    let got = |item: &str, want: &str| applied(&fake, dir.path(), item, want).remove(0).outcome;
    assert_eq!(
        got("sysctl.vm.dirty_ratio", "50"),
        apply::ApplyOutcome::Same
    );
    assert_eq!(
        got("sysctl.vm.dirty_ratio", "50"),
        apply::ApplyOutcome::Already
    );
    let five = "5".to_owned();
    assert_eq!(
        got("block.vda.nr_requests", "4"),
        apply::ApplyOutcome::Coerced { got: five }
    );
    let sixty = "60".to_owned();
    assert_eq!(
        got("sysctl.vm.swappiness", "1"),
        apply::ApplyOutcome::Ignored { got: sixty }
    );
    let apply::ApplyOutcome::Denied { error } = got("sysctl.vm.max_map_count", "70000") else {
        panic!("it was refused");
    };
    assert!(error.contains("not permitted"), "{error}");
}

#[test]
fn what_cannot_be_read_is_not_settled_and_what_is_gone_is() {
    let dir = scratch();
    let fake = host();
    applied(&fake, dir.path(), "sysctl.vm.swappiness", "1");
    fake.set("proc/sys/vm/swappiness", "");
    assert!(matches!(
        undo_to_the_end(&fake, dir.path())[0].outcome,
        UndoOutcome::Refused { .. }
    ));
    fake.set("proc/sys/vm/swappiness", "1");
    assert_eq!(
        undo_to_the_end(&fake, dir.path())[0].outcome,
        UndoOutcome::Restored
    );
    applied(&fake, dir.path(), "sysctl.vm.swappiness", "1");
    fake.remove("proc/sys/vm/swappiness");
    assert!(matches!(
        undo_to_the_end(&fake, dir.path())[0].outcome,
        UndoOutcome::Gone { .. }
    ));
    assert!(
        undo_to_the_end(&fake, dir.path()).is_empty(),
        "it is closed"
    );
}

/// A card that was taken out says `ENODEV`; without this its transaction would stay open, and keep
/// every other plan from being applied.
#[test]
fn a_card_that_is_gone_is_settled() {
    for errno in [Errno::NODEV, Errno::NXIO, Errno::SRCH] {
        let dir = scratch();
        let fake = host();
        applied(&fake, dir.path(), "net.eth0.features", "gro=0");
        fake.becomes("ethtool/eth0/features", Habit::Fails(errno));
        assert!(matches!(
            undo_to_the_end(&fake, dir.path())[0].outcome,
            UndoOutcome::Gone { .. }
        ));
        assert!(transactions(dir.path()).unwrap()[0].closed.is_some());
    }
}

#[test]
fn after_an_item_that_does_not_work_nothing_more_is_written() {
    let dir = scratch();
    let fake = host().habit("proc/sys/net/core/somaxconn", Habit::Refuses(Errno::PERM));
    let before = fake.files();
    let store = Store::lock(dir.path(), "boot").unwrap();
    let mut log = begin(&store);
    let changes = changes();
    let applied = apply(&fake, &mut log, &changes).unwrap();
    let at = changes
        .iter()
        .position(|change| change.item == "sysctl.net.core.somaxconn")
        .unwrap();
    assert_eq!(applied.len(), at + 1);
    drop((store, log));
    undo_to_the_end(&fake, dir.path());
    assert!(differences(&before, &fake.files()).is_empty());
}

#[test]
fn one_item_is_taken_back_alone_and_the_rest_later() {
    let dir = scratch();
    let fake = host();
    let before = fake.files();
    apply_killed(&fake, dir.path(), 1_000, TornRecord::Nothing);
    let store = Store::lock(dir.path(), "boot").unwrap();
    let transaction = store.transactions().unwrap().remove(0);
    let mut log = store.append_to(&transaction.id).unwrap();
    undo(&fake, &mut log, &transaction, Some("sysctl.vm.swappiness")).unwrap();
    assert_eq!(fake.read("proc/sys/vm/swappiness").unwrap(), "60\n");
    assert_eq!(fake.read("proc/sys/net/core/somaxconn").unwrap(), "4096\n");
    assert_eq!(store.transactions().unwrap()[0].closed, None);
    drop((store, log));
    undo_to_the_end(&fake, dir.path());
    assert!(differences(&before, &fake.files()).is_empty());
}

/// A journal on a disk that becomes full after `takes` records.
struct FullDiskJournal {
    file: JournalFile,
    takes: usize,
}

impl Log for FullDiskJournal {
    fn append(&mut self, event: Event) -> io::Result<()> {
        if self.takes == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.takes -= 1;
        self.file.append(event)
    }
}

#[test]
fn a_full_disk_keeps_nothing_from_being_taken_back() {
    for takes in [0, 1, 5] {
        let dir = scratch();
        let fake = host();
        let before = fake.files();
        apply_killed(&fake, dir.path(), 1_000, TornRecord::Nothing);
        let store = Store::lock(dir.path(), "boot").unwrap();
        let transaction = store.transactions().unwrap().remove(0);
        let file = store.append_to(&transaction.id).unwrap();
        let told = undo(
            &fake,
            &mut FullDiskJournal { file, takes },
            &transaction,
            None,
        )
        .unwrap_err();
        assert!(told.to_string().contains("journal"), "{told}");
        let left = differences(&before, &fake.files());
        assert!(left.is_empty(), "{takes}: {left:?}");
        drop(store);
        // With space again the transaction is settled, and nothing is written to the host.
        let writes = fake.writes.get();
        undo_to_the_end(&fake, dir.path());
        assert_eq!(fake.writes.get(), writes);
        assert!(transactions(dir.path()).unwrap()[0].closed.is_some());
    }
}

#[test]
fn what_cannot_be_written_at_the_moment_is_not_taken_for_somebody_elses() {
    let dir = scratch();
    let fake = host();
    let store = Store::lock(dir.path(), "boot").unwrap();
    let life = Life::of(2);
    let mut log = DyingJournal {
        file: begin(&store),
        dir: dir.path().to_owned(),
        life: Rc::clone(&life),
        torn: TornRecord::Nothing,
    };
    let change = Change {
        item: "block.vda.nr_requests".to_owned(),
        want: "4".to_owned(),
    };
    assert!(!lives(&fake, &life, || {
        apply(&fake, &mut log, &[change]).unwrap();
    }));
    drop((store, log));
    let fake = fake.habit(
        "sys/block/vda/queue/nr_requests",
        Habit::Refuses(Errno::ROFS),
    );
    let undone = undo_to_the_end(&fake, dir.path());
    assert!(
        matches!(undone[0].outcome, UndoOutcome::Refused { .. }),
        "{undone:?}"
    );
    let fake = fake.habit("sys/block/vda/queue/nr_requests", Habit::AtLeast(5));
    assert_eq!(
        undo_to_the_end(&fake, dir.path())[0].outcome,
        UndoOutcome::Restored
    );
}

#[test]
fn a_card_of_another_network_namespace_is_not_written() {
    const NET: &str = "proc/self/ns/net";
    let dir = scratch();
    let fake = host();
    let store = Store::lock(dir.path(), "boot").unwrap();
    let mut log = store.begin().unwrap();
    log.append(Event::Begin {
        plan: String::new(),
        host: String::new(),
        deadline_ms: None,
        network: Some("net:[1]".to_owned()),
        taken: Vec::new(),
        within_ms: None,
        guard: None,
    })
    .unwrap();
    let change = |item: &str, want: &str| Change {
        item: item.to_owned(),
        want: want.to_owned(),
    };
    let changes = [
        change("sysctl.net.core.somaxconn", "4096"),
        change("sysctl.vm.swappiness", "1"),
    ];
    apply(&fake, &mut log, &changes).unwrap();
    drop((store, log));
    fake.set_link(NET, "net:[2]");
    fake.set(
        "proc/self/mountinfo",
        "1 1 0:4 net:[1] /run/netns/blue rw - nsfs nsfs rw",
    );
    let undone = undo_to_the_end(&fake, dir.path());
    assert_eq!(
        undone[0].outcome,
        UndoOutcome::Restored,
        "memory is the host's"
    );
    assert!(
        matches!(undone[1].outcome, UndoOutcome::Refused { .. }),
        "{undone:?}"
    );
    assert_eq!(fake.read("proc/sys/net/core/somaxconn").unwrap(), "4096\n");
    // If the namespace is gone, its settings are gone, too.
    fake.set("proc/self/mountinfo", "1 1 0:4 / / rw - ext4 /dev/vda rw");
    let undone = undo_to_the_end(&fake, dir.path());
    assert!(
        matches!(undone[0].outcome, UndoOutcome::Gone { .. }),
        "{undone:?}"
    );
    assert_eq!(fake.read("proc/sys/net/core/somaxconn").unwrap(), "4096\n");
    assert!(transactions(dir.path()).unwrap()[0].closed.is_some());
}

/// Fewer queues, and packets over fewer of them: on the way back, the spread is refused until there
/// are as many queues as before.
#[test]
fn a_spread_over_more_queues_than_there_are_waits_for_them() {
    let dir = scratch();
    let fake = Fake::new(&[
        ("proc/interrupts", "  CPU0"),
        ("ethtool/eth0/channels", "combined_max=63 combined=8"),
        ("ethtool/eth0/rss", "0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7"),
    ])
    .habit("ethtool/eth0/channels", Habit::Renumbers("eth0", "0-7"))
    .habit("ethtool/eth0/rss", Habit::Spreads("eth0"));
    let before = fake.files();
    let change = |item: &str, want: &str| Change {
        item: item.to_owned(),
        want: want.to_owned(),
    };
    let changes = [
        change("net.eth0.channels", "combined=4"),
        change("net.eth0.rss", "equal=2"),
    ];
    let store = Store::lock(dir.path(), "boot").unwrap();
    let mut log = store.begin().unwrap();
    assert!(
        apply(&fake, &mut log, &changes)
            .unwrap()
            .iter()
            .all(|one| one.outcome.is_well())
    );
    let transaction = transactions(dir.path()).unwrap().remove(0);
    let undone = undo(&fake, &mut log, &transaction, None).unwrap();
    assert_eq!(undone.len(), 2);
    // Refused at first, and the kernel's own again with the channels.
    let spread = &undone[1];
    assert_eq!(spread.item, "net.eth0.rss");
    assert!(
        undone
            .iter()
            .all(|one| matches!(one.outcome, UndoOutcome::Restored | UndoOutcome::Untouched)),
        "{undone:?}"
    );
    assert_eq!(differences(&fake.files(), &before), Vec::<String>::new());
}

/// A card that keeps a feature says so by what is read back.
#[test]
fn a_feature_that_the_card_keeps_ends_the_plan() {
    let dir = scratch();
    let fake = Fake::new(&[("ethtool/eth0/features", "gro=1 lro=0 tso=1")])
        .habit("ethtool/eth0/features", Habit::Fixes("lro"));
    let applied = applied(&fake, dir.path(), "net.eth0.features", "lro=1");
    assert!(
        matches!(applied[0].outcome, apply::ApplyOutcome::Ignored { .. }),
        "{applied:?}"
    );
}

/// Fields that a card takes one by one: it has some of them when it refuses the next.
#[test]
fn half_of_the_fields_are_taken_back() {
    let dir = scratch();
    let name = "ethtool/eth0/rss_fields";
    let shown = "tcp4_ports=1 tcp6_ports=1 udp4_ports=0 udp6_ports=0";
    let fake = Fake::new(&[(name, shown)]).habit(name, Habit::TakesUpTo("udp6_ports"));
    let want = "udp4_ports=1 udp6_ports=1";
    let applied = applied(&fake, dir.path(), "net.eth0.rss_fields", want);
    assert!(
        matches!(applied[0].outcome, apply::ApplyOutcome::Denied { .. }),
        "{applied:?}"
    );
    assert!(fake.read(name).unwrap().contains("udp4_ports=1"));
    let undone = undo_to_the_end(&fake, dir.path());
    assert_eq!(undone[0].outcome, UndoOutcome::Restored);
    assert_eq!(fake.read(name).unwrap().trim(), shown);
}
