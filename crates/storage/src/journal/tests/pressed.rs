//! The commit loop without room: who waits, in which order, and what makes room.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use platform::sim::{Rng, SimFile};
use platform::task;

use super::commit_story::{SharedLedger, TestLander, rest};
use super::committing::{begin, cut_of, one, settle, started};
use super::ring_file::{create, new_disk, read, simulate};
use super::*;
use crate::journal::committer::{Committer, CommitterOptions, HeldLanding, Lander};

/// Lands everything at once.
struct AtOnce;

impl Lander for AtOnce {
    type Hold = ();

    fn hold(&self, _: LogId) -> Option<()> {
        Some(())
    }

    async fn land(&self, landings: &[HeldLanding<()>]) -> Vec<LogId> {
        all_of(landings)
    }
}

/// Never ends.
struct StuckFuture;

impl Lander for StuckFuture {
    type Hold = ();

    fn hold(&self, _: LogId) -> Option<()> {
        Some(())
    }

    async fn land(&self, _: &[HeldLanding<()>]) -> Vec<LogId> {
        std::future::pending().await
    }
}

/// Lands at once, but not the log to which another task writes.
struct AllBut(LogId);

impl Lander for AllBut {
    type Hold = Rc<()>;

    fn hold(&self, log: LogId) -> Option<Rc<()>> {
        (log != self.0).then(Rc::default)
    }

    async fn land(&self, landings: &[HeldLanding<Rc<()>>]) -> Vec<LogId> {
        assert!(landings.iter().all(|one| one.landing.log != self.0));
        all_of(landings)
    }
}

fn all_of<H>(landings: &[HeldLanding<H>]) -> Vec<LogId> {
    landings.iter().map(|one| one.landing.log).collect()
}

#[test]
fn commits_that_need_a_header_to_reserve_room_wait_for_that_alone() {
    simulate(async {
        let disk = new_disk(1).await;
        disk.set_latency(Duration::from_millis(5), Duration::from_millis(5));
        let mut open = create(&disk).await.unwrap();
        open.ring.reserve_at_most(8 * BLOCK);
        let options = CommitterOptions {
            unlanded_bytes_max: 1 << 20,
        };
        let committer = Committer::new(open, options);
        // A ring of sixteen blocks, all of it reserved at first. Nothing lands before it is full.
        for lap in 0..3 {
            let all: Vec<_> = (1..=16)
                .map(|number| begin(&committer, one(number, lap, 3900)))
                .collect();
            for commit in all {
                commit.await.unwrap().unwrap();
                assert!(!committer.is_waited_for(), "it waits for no landing");
            }
            while committer.land(&AtOnce, 64).await > 0 {}
        }
        let mut last = begin(&committer, one(1, 9, 3900));
        (&mut last).await.unwrap().unwrap();
    });
}

#[test]
fn a_log_to_which_somebody_writes_is_passed_over_and_keeps_its_parts() {
    simulate(async {
        let disk = new_disk(1).await;
        let committer = started(&disk).await;
        for number in 1..=3 {
            committer.commit(one(number, 0, 100)).await.unwrap();
        }
        assert_eq!(committer.land(&AllBut(log(1)), 2).await, 2);
        assert_eq!(committer.land(&AllBut(log(1)), 2).await, 0);
        assert_eq!(committer.unlanded_bytes(), 100);
        assert!(committer.begin_landing(log(1)).is_some());
    });
}

/// Commits of 4,000 bytes of one log until the ring is full.
async fn fill(committer: &Committer<SimFile>) -> Vec<Sequence> {
    let mut all = Vec::new();
    for number in 0..16 {
        let commit = committer.commit(one(1, number * 10, 10));
        all.push(commit.await.unwrap());
    }
    all
}

#[test]
fn a_full_ring_refuses_nobody_and_goes_on_in_order_when_there_is_room() {
    simulate(async {
        let disk = new_disk(1).await;
        let committer = started(&disk).await;
        fill(&committer).await;
        let waiting: Vec<_> = (2..=6)
            .zip([6000, 1, 9000, 4500, 30])
            .map(|(number, len)| begin(&committer, one(number, 0, len)))
            .collect();
        settle().await;
        assert!(waiting.iter().all(|commit| !commit.is_finished()));
        committer.landing_wanted().await;
        assert_eq!(committer.land(&AtOnce, 9).await, 1);
        let mut last = Sequence(16);
        for commit in waiting {
            let sequence = commit.await.unwrap().unwrap();
            assert!(sequence >= last, "in order");
            last = sequence;
        }
        assert!(last > Sequence(16));
        let (head, _, commits) = read(&disk.crash(3)).await.unwrap();
        assert_eq!(head.sequence, Sequence(17));
        let logs = commits
            .iter()
            .flat_map(|(_, parts)| parts)
            .map(|part| part.log);
        assert_eq!(
            logs.collect::<Vec<_>>(),
            (2..=6).map(log).collect::<Vec<_>>()
        );
    });
}

#[test]
fn the_ring_goes_round_for_ever_when_logs_land() {
    simulate(async {
        let disk = new_disk(1).await;
        let committer = started(&disk).await;
        let landing = committer.clone();
        let landing = task::spawn(async move {
            loop {
                landing.landing_wanted().await;
                landing.land(&AtOnce, 2).await;
            }
        });
        for round in 0..200 {
            let len = 1 + usize::try_from(round).unwrap() * 7919 % 16_000;
            let commit = committer.commit(one(1 + u128::from(round % 3), round, len));
            commit.await.unwrap();
        }
        landing.abort();
    });
}

#[test]
fn callers_wait_in_order_when_too_many_bytes_are_not_landed() {
    simulate(async {
        let disk = new_disk(1).await;
        let committer = started(&disk).await; // 40,000 bytes
        for number in 1..=3 {
            committer.commit(one(number, 0, 12_000)).await.unwrap();
        }
        assert_eq!(committer.unlanded_bytes(), 36_000);
        let large = begin(&committer, one(4, 0, 15_000));
        let dropped = begin(&committer, one(5, 0, 3_000));
        let small = begin(&committer, one(6, 0, 100));
        settle().await;
        assert!(
            !large.is_finished() && !small.is_finished(),
            "nobody overtakes"
        );
        dropped.abort();
        committer.landing_wanted().await;
        assert_eq!(committer.land(&AtOnce, 1).await, 1);
        let large = large.await.unwrap().unwrap();
        let small = small.await.unwrap().unwrap();
        assert!(large <= small);
        assert_eq!(committer.unlanded_bytes(), 24_000 + 15_000 + 100);
        let (_, _, commits) = read(&disk.crash(1)).await.unwrap();
        let parts = commits.iter().flat_map(|(_, parts)| parts);
        assert!(parts.into_iter().all(|part| part.log != log(5)));
    });
}

#[test]
fn a_landing_that_is_dropped_or_fails_is_given_up_and_tried_again() {
    simulate(async {
        let disk = new_disk(1).await;
        let committer = started(&disk).await;
        fill(&committer).await;
        let stuck = task::timeout(Duration::from_secs(1), committer.land(&StuckFuture, 5)).await;
        assert!(stuck.is_err());
        let fails = TestLander {
            known: SharedLedger::default(),
            rng: RefCell::new(Rng::new(5)),
        };
        let mut tries = 0;
        while committer.unlanded_bytes() > 0 {
            committer.landing_wanted().await;
            committer.land(&fails, 5).await;
            tries += 1;
        }
        assert!(tries > 0);
        committer.commit(one(2, 0, 5)).await.unwrap();
    });
}

#[test]
fn a_cut_has_its_room_at_once_or_its_log_is_not_cut() {
    simulate(async {
        let disk = new_disk(1).await;
        let committer = started(&disk).await;
        fill(&committer).await;
        assert!(committer.cut(cut_of(1)).unwrap().is_none(), "it is full");
        let waits = committer.clone();
        let waits = task::spawn(async move { waits.room_for_cut().await });
        // Others that wait for more do not keep it out, and it does not keep its log from landing.
        let other = begin(&committer, one(2, 0, 16_000));
        settle().await;
        assert!(!waits.is_finished());
        let landing = committer.begin_landing(log(1)).expect("it may land");
        committer.end_landing(landing);
        waits.await.unwrap().unwrap();
        let cut = committer.cut(cut_of(1)).unwrap().expect("there is room");
        assert!(committer.begin_landing(log(1)).is_none(), "a cut is open");
        let sequence = cut.await.unwrap();
        let landing = committer.begin_landing(log(1)).expect("it is durable");
        assert!(landing.below > sequence);
        committer.give_up_landing(landing);
        other.await.unwrap().unwrap();
        let (_, _, commits) = read(&disk.crash(1)).await.unwrap();
        let of_log = commits.iter().flat_map(|(_, parts)| parts);
        let cuts = of_log.filter(|part| matches!(part.what, PartContent::Cut(_)));
        assert_eq!(cuts.count(), 1);
    });
}

#[test]
fn a_commit_is_released_when_it_has_landed_and_both_headers_have_passed_it() {
    simulate(async {
        let disk = new_disk(1).await;
        let committer = started(&disk).await;
        let first = committer.commit(one(1, 0, 10)).await.unwrap();
        let second = committer.commit(one(2, 0, 10)).await.unwrap();
        let waits = Rc::new(RefCell::new(Vec::new()));
        for sequence in [first, second] {
            let (committer, waits) = (committer.clone(), Rc::clone(&waits));
            task::spawn(async move {
                committer.released(sequence).await.unwrap();
                waits.borrow_mut().push(sequence);
            });
        }
        rest(Duration::from_secs(1)).await;
        assert!(waits.borrow().is_empty());
        committer.landing_wanted().await;
        assert_eq!(committer.land(&AtOnce, 1).await, 1);
        settle().await;
        assert_eq!(*waits.borrow(), [first]);
        committer.forget(log(2));
        settle().await;
        assert_eq!(*waits.borrow(), [first, second]);
        assert_eq!(committer.unlanded_bytes(), 0);
        let (head, _, commits) = read(&disk.crash(1)).await.unwrap();
        assert_eq!((head.sequence, commits.len()), (Sequence(3), 0));
    });
}
