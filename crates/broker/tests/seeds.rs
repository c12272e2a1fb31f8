//! Groups, transactions and rights under seeds: whole brokers on a simulated disk, killed, cut from
//! power and given wrong clocks.
//!
//! A *run* is decided by its seed. It is a row of *lives* of one broker; in each, clients work at
//! random while the disk fails and the clock jumps. What they were told is kept in a book over all
//! lives, and in the end, on a healthy disk, the broker has to agree with it:
//! * chains: each number is read by readers of committed records exactly once, as far as the
//!   position of its group says;
//! * members of a classic or a consumer group never hold a partition twice, and positions never go
//!   back;
//! * ACLs and users of SCRAM are as an administrator was told, after every start.
//!
//! `FOREBAY_SIM_SEED=n` runs one seed, `FOREBAY_SIM_SEEDS=n` runs `n` of them. Not here: the
//! network, several brokers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "seeds/book.rs"]
mod book;
#[path = "seeds/chain.rs"]
mod chain;
#[path = "seeds/classic.rs"]
mod classic;
#[path = "harness/cluster.rs"]
mod harness;
#[path = "seeds/members.rs"]
mod members;
#[path = "seeds/rights.rs"]
mod rights;
#[path = "seeds/run.rs"]
mod run;

use std::num::NonZero;
use std::ops::Range;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use book::Counts;

/// Seeds of a plain test run.
const SEEDS: u64 = 16;

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Runs the seeds on all cores; a run is one thread's from beginning to end.
#[allow(
    clippy::disallowed_methods,
    reason = "threads of the test, not of the broker"
)]
fn run_all(seeds: &Range<u64>) -> (Counts, Vec<String>) {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let (mut counts, mut violations) = (Counts::default(), Vec::new());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return (counts, violations);
            }
            match run::run(seed, false) {
                Ok(ended) => counts.add(&ended.counts),
                Err(violation) => violations.push(format!("seed {seed}: {violation}")),
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let (mut all, mut violations) = (Counts::default(), Vec::new());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let (counts, more) = thread.join().expect("a run does not panic");
            all.add(&counts);
            violations.extend(more);
        }
    });
    violations.sort();
    (all, violations)
}

#[test]
fn coordinators_keep_their_promises() {
    let seeds = match from_environment("FOREBAY_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..from_environment("FOREBAY_SIM_SEEDS").unwrap_or(SEEDS),
    };
    let (all, violations) = run_all(&seeds);
    assert!(
        violations.is_empty(),
        "{}\nagain, one of them: FOREBAY_SIM_SEED=n cargo test -p forebay-broker --test seeds",
        violations.join("\n")
    );
    println!("{all:?}");
    if seeds.end - seeds.start < SEEDS {
        return;
    }
    // The runs are worth something only if all of this happens in them.
    for (what, count) in all.named() {
        assert!(count > 0, "nothing was {what} in all the runs");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..2 {
        let (first, second) = (run::run(seed, false), run::run(seed, false));
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn a_broker_that_answers_before_it_syncs_is_found() {
    // What it lost may also be the end of a transaction, for which the inspection waits until it
    // gives up: that is found, too, but does not say what was promised.
    let ended = |seed| panic::catch_unwind(|| run::run(seed, true).err());
    let found = (0..SEEDS).find_map(|seed| ended(seed).ok().flatten());
    let violation = found.expect("positions or records that were lost");
    assert!(violation.contains("was told"), "{violation}");
}
