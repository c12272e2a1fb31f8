//! A hundred worlds. `FOREBAY_SIM_SEED=n` runs world n alone, `FOREBAY_SIM_SEEDS=n` as many from 0
//! on, or from `FOREBAY_SIM_FROM=n` on.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sim::report::Counts;

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}")),
    )
}

/// The seed that a thread runs, and since when.
type RunningSeed = Mutex<Option<(u64, Instant)>>;

/// A world takes a second or two. One whose time stands still ends never, and is named.
const WORLD_MAX: Duration = Duration::from_mins(5);

fn watch(running: &[RunningSeed], ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        thread::park_timeout(Duration::from_secs(1));
        for one in running {
            let one = *one.lock().expect("nobody panics with it");
            if let Some((seed, _)) = one.filter(|(_, since)| since.elapsed() > WORLD_MAX) {
                eprintln!("seed {seed} does not come to its end: a shard never rests");
                std::process::exit(101);
            }
        }
    }
}

/// Runs the worlds on all cores; one world is one thread's from beginning to end.
fn run_all(seeds: Range<u64>) -> (Counts, Vec<String>) {
    let next = AtomicU64::new(seeds.start);
    let ended = AtomicBool::new(false);
    let all = Mutex::new((Counts::default(), Vec::new()));
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let running: Vec<_> = (0..threads).map(|_| Mutex::new(None)).collect();
    let work = |running: &RunningSeed| {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            *running.lock().expect("nobody panics with it") = Some((seed, Instant::now()));
            let ran = sim::run(seed, None);
            *running.lock().expect("nobody panics with it") = None;
            let mut all = all.lock().expect("nobody panics with it");
            match ran {
                Ok(report) => all.0.add(&report.counts),
                Err(violation) => {
                    eprintln!("{violation}");
                    all.1.push(violation.to_string());
                }
            }
        }
    };
    let work = &work;
    thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&running, &ended));
        let workers: Vec<_> = running
            .iter()
            .map(|one| scope.spawn(move || work(one)))
            .collect();
        for worker in workers {
            worker.join().expect("no world panics");
        }
        ended.store(true, Ordering::Relaxed);
        watch.thread().unpark();
    });
    let (counts, mut violations) = all.into_inner().expect("nobody panicked with it");
    violations.sort();
    (counts, violations)
}

#[test]
fn a_hundred_worlds_keep_their_promises() {
    let from = from_environment("FOREBAY_SIM_FROM").unwrap_or(0);
    let count = from_environment("FOREBAY_SIM_SEEDS").unwrap_or(100);
    let many = from..from.saturating_add(count);
    let one = from_environment("FOREBAY_SIM_SEED").map(|seed| seed..seed + 1);
    let seeds = one.unwrap_or(many);
    let (counts, violations) = run_all(seeds.clone());
    assert!(
        violations.is_empty(),
        "{}\nagain, one of them: FOREBAY_SIM_SEED=n cargo test -p forebay-sim",
        violations.join("\n")
    );
    println!("{counts:?}");
    if seeds.end - seeds.start < 100 {
        return;
    }
    // The worlds are worth something only if all of this happens in them.
    for (what, count) in [
        ("acknowledged", counts.acknowledged),
        ("duplicates", counts.duplicates),
        ("read", counts.read),
        ("refused", counts.refused),
        ("truncated", counts.truncated),
        ("retained", counts.retained),
        ("absent", counts.absent),
        ("moved", counts.moved),
        ("away", counts.away),
        ("stops", counts.stops),
        ("kills", counts.kills),
        ("crashes", counts.crashes),
        ("failed", counts.failed),
        ("lost", counts.lost),
        ("damaged", counts.damaged),
        ("replayed", counts.replayed),
    ] {
        assert!(count > 0, "nothing was {what} in all the worlds");
    }
}
