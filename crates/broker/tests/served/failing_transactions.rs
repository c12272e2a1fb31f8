//! Any one disk operation of `__transaction_state` or of `__consumer_offsets` fails, for want of
//! room or of a descriptor, or because the disk is broken or read-only, while a producer begins,
//! adds, produces, commits a position and ends, or at a start. What passes is tried again and done
//! in the same life; what is final is named until the restart. Then all that was committed is
//! there, nothing that was aborted or given up, and readers of committed records are held back by
//! nothing.

use platform::sim::{Effect, Fault, SimDisk};
use wire::messages::{FindCoordinatorRequest, TransactionalId};
use wire::types::ErrorCode;

use crate::failing_groups::is_named;
use crate::full_transactions::judge;
use crate::harness::asks::{error, text};
use crate::harness::transactor::Transactor;
use crate::harness::{Cluster, Setup, life, try_life};
use crate::starts_refused::{EFFECTS, is_final};

const LOGS: [&str; 2] = ["/__transaction_state-", "/__consumer_offsets-"];
const ID: &str = "a";
const GROUP: &str = "g";
/// How often a producer comes back, with longer and longer pauses.
const TRIES: u64 = 8;

fn setup() -> Setup {
    let mut setup = Setup::shards(2);
    setup.options.group.offsets_partitions = 1;
    setup.options.transaction.partitions = 1;
    setup
}

/// What the producer knows.
#[derive(Clone, Debug)]
struct ProducerView {
    newer: bool,
    /// Its ids and epochs, in their order.
    producers: Vec<(i64, i16)>,
    /// Transactions that were begun; the value and the position of each is its number.
    begun: i64,
    /// Values that are committed, and those whose commit was not answered.
    certain: Vec<String>,
    perhaps: Vec<String>,
    /// The position that was committed last, -1 for none, and those after it whose commit was not
    /// answered.
    position: i64,
    perhaps_at: Vec<i64>,
}

impl ProducerView {
    fn nothing(newer: bool) -> Self {
        Self {
            newer,
            producers: Vec::new(),
            begun: 0,
            certain: Vec::new(),
            perhaps: Vec::new(),
            position: -1,
            perhaps_at: Vec::new(),
        }
    }

    async fn begin<'a>(&mut self, cluster: &'a Cluster) -> Result<Transactor<'a>, ErrorCode> {
        let find = FindCoordinatorRequest::default()
            .with_key_type(1)
            .with_coordinator_keys(vec![text(ID)]);
        let found = cluster.ask(4, &find).await;
        if let Some(code) = error(found.coordinators[0].error_code) {
            return Err(code);
        }
        let mut begun = Err(ErrorCode::ConcurrentTransactions);
        for _ in 0..TRIES {
            begun = Transactor::try_begin(cluster, &TransactionalId(text(ID))).await;
            if begun != Err(ErrorCode::ConcurrentTransactions) {
                break;
            }
            cluster.pass_ms(500).await;
        }
        let producer = begun?;
        let is_new = !self.producers.contains(&producer);
        assert!(is_new, "{producer:?} is given again: {self:?}");
        self.producers.push(producer);
        Ok(Transactor::resumed(cluster, ID, producer, self.newer, 0))
    }

    /// One transaction, with a record and a position.
    async fn transact(&mut self, cluster: &Cluster, commit: bool) -> Result<(), ErrorCode> {
        let mut writer = self.begin(cluster).await?;
        self.begun += 1;
        let (number, value) = (self.begun, self.begun.to_string());
        writer.add(0).await?;
        writer.send(0, &[&value]).await?;
        if let Some(code) = writer.send_offset(GROUP, number).await {
            return Err(code);
        }
        if !commit {
            return writer.end(false).await;
        }
        if let Err(code) = writer.end(true).await {
            self.perhaps.push(value);
            self.perhaps_at.push(number);
            return Err(code);
        }
        self.certain.push(value);
        self.position = number;
        self.perhaps_at.clear();
        Ok(())
    }

    /// As [`ProducerView::transact`], again and again until it is done.
    async fn insist(&mut self, cluster: &Cluster, commit: bool) -> Result<(), ErrorCode> {
        let mut last = Ok(());
        for at in 0..TRIES {
            cluster.pass_ms(1000 * at).await;
            last = self.transact(cluster, commit).await;
            if last.is_ok() {
                break;
            }
        }
        last
    }

    async fn live(&mut self, cluster: &Cluster) -> Result<(), ErrorCode> {
        self.insist(cluster, true).await?;
        self.insist(cluster, false).await
    }

    /// Nothing holds readers back, and they find what was committed.
    async fn judge(&self, cluster: &Cluster, what: &str) {
        let found = cluster.settled_values(0).await;
        judge(&found, &self.certain, &self.perhaps, what);
        let mut position = Err(ErrorCode::NotCoordinator);
        for at in 0..TRIES {
            cluster.pass_ms(1000 * at).await;
            position = cluster.stable_position(GROUP, "t").await;
            if position.is_ok() {
                break;
            }
        }
        let position = position.unwrap_or_else(|code| panic!("{what}: {code:?}: {self:?}"));
        let expected = self.position == position || self.perhaps_at.contains(&position);
        assert!(expected, "{what}: {position} is found: {self:?}");
    }

    /// What was committed is there, what was given up is not, and the id is served.
    async fn check(mut self, cluster: &Cluster, what: &str) {
        let before = self.producers.clone();
        let lived = self.insist(cluster, true).await;
        assert_eq!(lived, Ok(()), "{what}: {self:?}");
        for producer in before {
            let mut old = Transactor::resumed(cluster, ID, producer, self.newer, 1);
            assert!(old.end(true).await.is_err(), "{what}: {producer:?} ends");
        }
        self.judge(cluster, what).await;
    }

    /// What becomes of a life in which an operation has this fate.
    async fn live_under(&mut self, cluster: &Cluster, (effect, passes): (Effect, bool)) {
        let lived = self.live(cluster).await;
        let disk = cluster.disk();
        disk.clear_faults();
        let what = format!("{effect:?}: {:?}", disk.struck());
        let passes = passes && !is_final(disk, effect);
        if !passes && is_named(cluster) {
            // Markers wait for the restart, and what readers find with them.
            return;
        }
        assert_eq!(lived, Ok(()), "{what}: {self:?}");
        self.judge(cluster, &what).await;
        assert!(!is_named(cluster), "{what}");
    }
}

fn fault(log: &str, at: u64, effect: Effect) -> Fault {
    Fault {
        path_contains: Some(log.to_owned()),
        ..Fault::at(at, effect)
    }
}

/// Tries effects at each operation; `lives` returns false when it did not come to that one.
fn each(effects: Effects, least: u64, lives: impl Fn(u64, (Effect, bool)) -> bool) {
    let mut operations = 0;
    loop {
        let mut struck = true;
        for (turn, effect) in (0..).zip(EFFECTS) {
            if effects == Effects::All || turn == operations % 4 {
                struck &= lives(operations, effect);
            }
        }
        if !struck {
            break;
        }
        operations += 1;
    }
    assert!(operations > least, "{operations}");
}

/// Which effects an operation has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effects {
    All,
    /// One of them: the next operation has the next one.
    InTurn,
}

#[test]
fn whatever_a_disk_refuses_transactions_what_was_committed_is_there_and_ids_are_served_again() {
    let [state, offsets] = LOGS;
    for (log, newer, effects) in [
        (state, true, Effects::All),
        (state, false, Effects::InTurn),
        (offsets, true, Effects::InTurn),
    ] {
        each(effects, 15, |at, effect| {
            let mut known = ProducerView::nothing(newer);
            let disk = SimDisk::new(1);
            life(&disk, &setup(), async |cluster| {
                cluster.create("t", 1).await;
                disk.inject(fault(log, at, effect.0));
                known.live_under(cluster, effect).await;
            });
            let what = format!("{effect:?}: {:?}", disk.struck());
            let struck = !disk.struck().is_empty();
            life(&disk.crash(2), &setup().next(), async |cluster| {
                known.check(cluster, &what).await;
            });
            struck
        });
    }
}

#[test]
fn whatever_a_disk_refuses_a_start_transactions_are_whole_at_the_next_one() {
    for newer in [false, true] {
        let (disk, mut first) = (SimDisk::new(1), ProducerView::nothing(newer));
        life(&disk, &setup(), async |cluster| {
            cluster.create("t", 1).await;
            first.live(cluster).await.unwrap();
            // This one is not ended.
            let mut open = first.begin(cluster).await.unwrap();
            open.write(0, &["open"]).await;
        });
        let left = disk.kill(1);
        let log = LOGS[0];
        each(Effects::InTurn, 8, |at, effect| {
            let (disk, mut known) = (left.kill(2), first.clone());
            disk.inject(fault(log, at, effect.0));
            let started = try_life(&disk, &setup().next(), async |cluster| {
                known.live_under(cluster, effect).await;
            });
            let what = format!("{effect:?}: {:?}", disk.struck());
            if let Err(said) = started {
                assert!(said.contains('/'), "{what}: no file is named in: {said}");
            }
            let struck = !disk.struck().is_empty();
            life(&disk.crash(3), &setup().next().next(), async |cluster| {
                known.check(cluster, &what).await;
            });
            struck
        });
    }
}
