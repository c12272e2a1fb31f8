//! A journal in use: starts, callers with random submissions, a lander, and what each of them
//! knows.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::sim::{Rng, SimDisk, SimFile};
use platform::task;

use super::ring_file::{PATH, open, wide_id};
use super::world::some_reserve;
use super::*;
use crate::journal::committer::{Committer, CommitterOptions, Condition, HeldLanding, Lander};
use crate::journal::error::JournalError;
use crate::journal::file;
use crate::journal::submission::{OwnedChange, OwnedPart};

pub(super) type SharedLedger = Rc<RefCell<Ledger>>;

const CALLERS: u64 = 7;

/// What is known from outside.
#[derive(Default)]
pub(super) struct Ledger {
    /// All bytes that callers may have handed in, by log and position.
    handed_in: BTreeMap<(u128, u32), Vec<u8>>,
    /// Where the next bytes of a log go.
    positions: BTreeMap<u128, u32>,
    /// What was acknowledged since the last start.
    acknowledged: Vec<(Sequence, Vec<WrittenPart>)>,
    /// The segments of a log have all of its parts in commits below.
    landed: BTreeMap<u128, Sequence>,
    /// Acknowledgements, skip marks seen, submissions dropped, failures.
    pub(super) counts: BTreeMap<&'static str, usize>,
}

impl Ledger {
    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Compares what a start reads with what is known.
    fn check(&mut self, head: Head, commits: &[(Sequence, Vec<WrittenPart>)]) {
        let mut last: BTreeMap<u128, u32> = BTreeMap::new();
        for written in commits.iter().flat_map(|(_, parts)| parts) {
            let (log, bytes) = (number_of(written.log), written.part().bytes().to_vec());
            let handed_in = self.handed_in.get(&(log, written.position));
            assert_eq!(handed_in, Some(&bytes), "nobody handed that in");
            let before = last.insert(log, written.position);
            assert!(before.is_none_or(|before| before < written.position));
        }
        let commits: BTreeMap<_, _> = commits.iter().cloned().collect();
        for (sequence, parts) in std::mem::take(&mut self.acknowledged) {
            let log = number_of(parts[0].log);
            let is_landed = self.landed.get(&log).is_some_and(|below| sequence < *below);
            let Some(commit) = commits.get(&sequence) else {
                assert!(is_landed, "{sequence:?} is lost, the head is {head:?}");
                continue;
            };
            let at = commit.iter().position(|part| part == &parts[0]);
            let found = at.and_then(|at| commit.get(at..at + parts.len()));
            assert_eq!(found, Some(&parts[..]), "{sequence:?} has other parts");
            self.count("read back");
        }
    }
}

fn number_of(log: LogId) -> u128 {
    log.topic_id.0.as_u128()
}

pub(super) fn owned_part(written: &WrittenPart) -> OwnedPart {
    let change = match &written.what {
        PartContent::Bytes(leader_epoch, bytes) => OwnedChange::Bytes {
            leader_epoch: *leader_epoch,
            bytes: Bytes::copy_from_slice(bytes),
        },
        PartContent::Cut(offset) => OwnedChange::Cut { offset: *offset },
    };
    OwnedPart {
        log: written.log,
        segment: written.segment,
        position: written.position,
        change,
    }
}

/// Starts: opens the ring, checks what is in it, and begins its next use; or makes it.
pub(super) async fn start(
    disk: &SimDisk,
    known: &SharedLedger,
    rng: &mut Rng,
) -> Result<Committer<SimFile>, JournalError> {
    let mut open = match open(disk).await {
        Ok(found) => {
            let head = found.header().head;
            let mut commits = Vec::new();
            let visit = |commit: Commit<'_>| commits.push((commit.stamp.sequence, owned(&commit)));
            let read = found.scan(visit).await?;
            known.borrow_mut().check(head, &commits);
            read.begin(rng.next_u64()).await?
        }
        Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            assert!(known.borrow().acknowledged.is_empty(), "the ring is lost");
            file::create(disk, Path::new(PATH), wide_id(), small(), rng.next_u64()).await?
        }
        Err(error) => return Err(error),
    };
    open.ring.reserve_at_most(some_reserve(rng));
    let options = CommitterOptions {
        unlanded_bytes_max: 40_000,
    };
    Ok(Committer::new(open, options))
}

/// A start, callers that go on until they are done or the journal fails, and an end.
///
/// Fails if a start says what no failing disk explains.
pub(super) async fn live(disk: SimDisk, known: SharedLedger, seed: u64) {
    let mut rng = Rng::new(seed);
    let committer = match start(&disk, &known, &mut rng).await {
        Ok(committer) => committer,
        Err(JournalError::Io { .. } | JournalError::NoRoom { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    let lander = TestLander {
        known: Rc::clone(&known),
        rng: RefCell::new(Rng::new(rng.next_u64())),
    };
    let landing = task::spawn(land_forever(committer.clone(), lander));
    let callers: Vec<_> = (1..=CALLERS)
        .map(|number| {
            let rng = Rng::new(rng.next_u64());
            let (committer, known) = (committer.clone(), Rc::clone(&known));
            task::spawn(call(committer, known, u128::from(number), rng))
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    if matches!(&*committer.condition().borrow(), Condition::Failed(_)) {
        known.borrow_mut().count("failed");
    }
    landing.abort();
    assert!(landing.await.is_err_and(|ended| ended.is_cancelled()));
}

/// Hands in what a log of its own gets, one submission after the other.
async fn call(committer: Committer<SimFile>, known: SharedLedger, number: u128, mut rng: Rng) {
    let mut is_durable = true;
    for _ in 0..16 {
        if rng.chance(40) {
            rest(Duration::from_millis(rng.below(15))).await;
        }
        if is_durable
            && rng.chance(12)
            && let Err(error) = truncate(&committer, &known, number).await
        {
            assert!(matches!(error, JournalError::Failed { .. }), "{error}");
            return;
        }
        let parts = next_parts(&known, number, &mut rng);
        let owned = parts.iter().map(owned_part).collect();
        let commit = committer.commit(owned);
        let patience = if rng.chance(15) {
            Duration::from_millis(rng.below(4))
        } else {
            Duration::from_hours(1)
        };
        let answer = task::timeout(patience, commit).await;
        is_durable = answer.is_ok();
        match answer {
            Ok(Ok(sequence)) => {
                let mut known = known.borrow_mut();
                known.acknowledged.push((sequence, parts));
                known.count("acknowledged");
            }
            Ok(Err(error)) => {
                assert!(matches!(error, JournalError::Failed { .. }), "{error}");
                assert!(error.to_string().contains(PATH), "{error}");
                return;
            }
            Err(_) => {
                assert!(patience < Duration::from_secs(1), "a caller is forgotten");
                known.borrow_mut().count("dropped");
            }
        }
    }
}

/// Truncates a log without parts that wait to be committed.
async fn truncate(
    committer: &Committer<SimFile>,
    known: &SharedLedger,
    number: u128,
) -> Result<(), JournalError> {
    let position = {
        let mut known = known.borrow_mut();
        let next = known.positions.entry(number).or_default();
        let position = *next;
        // So each part has another position.
        *next += 1;
        known.handed_in.insert((number, position), Vec::new());
        position
    };
    let cut = WrittenPart::cut(log(number), position);
    loop {
        if let Some(acknowledgement) = committer.cut(owned_part(&cut))? {
            let sequence = acknowledgement.await?;
            let mut known = known.borrow_mut();
            known.acknowledged.push((sequence, vec![cut]));
            known.count("cut");
            return Ok(());
        }
        known.borrow_mut().count("waited to cut");
        committer.room_for_cut().await?;
    }
}

/// Returns one to three parts that begin where the log's last ended.
fn next_parts(known: &SharedLedger, number: u128, rng: &mut Rng) -> Vec<WrittenPart> {
    let mut known = known.borrow_mut();
    let count = 1 + rng.below(3);
    let parts = (0..count).map(|_| {
        let position = known.positions.entry(number).or_default();
        let below = [60, 900, 4500][index_of(rng.below(3))];
        let len = 1 + rng.below(below);
        let fill = rng.next_u64().to_be_bytes();
        let bytes: Vec<u8> = fill.into_iter().cycle().take(index_of(len)).collect();
        let written = WrittenPart::bytes(log(number), *position, bytes.clone());
        *position += u32::try_from(len).unwrap();
        known.handed_in.insert((number, written.position), bytes);
        written
    });
    parts.collect()
}

/// Lands what it is asked to, sometimes after a while, sometimes not.
pub(super) struct TestLander {
    pub(super) known: SharedLedger,
    pub(super) rng: RefCell<Rng>,
}

impl Lander for TestLander {
    type Hold = ();

    fn hold(&self, _: LogId) -> Option<()> {
        Some(())
    }

    async fn land(&self, landings: &[HeldLanding<()>]) -> Vec<LogId> {
        let after = Duration::from_millis(self.rng.borrow_mut().below(5));
        rest(after).await;
        let mut landed = Vec::new();
        for HeldLanding { landing, .. } in landings {
            if self.rng.borrow_mut().chance(85) {
                let mut known = self.known.borrow_mut();
                known.landed.insert(number_of(landing.log), landing.below);
                known.count("landed");
                landed.push(landing.log);
            }
        }
        landed
    }
}

/// Waits in simulated time.
pub(super) async fn rest(duration: Duration) {
    let never = std::future::pending::<()>();
    drop(task::timeout(duration, never).await);
}

async fn land_forever(committer: Committer<SimFile>, lander: TestLander) {
    loop {
        committer.landing_wanted().await;
        if committer.land(&lander, 3).await == 0 {
            rest(Duration::from_millis(1)).await;
        }
    }
}
