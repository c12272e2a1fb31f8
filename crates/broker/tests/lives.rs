//! Random stories of requests, kills and shortages: a short run of what
//! `fuzz/fuzz_targets/broker_lives.rs` does at length.
//!
//! `FOREBAY_STORIES=n` runs `n` stories. A story that fails is repeated by its seed:
//! `FOREBAY_STORY=seed`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    dead_code,
    reason = "the makers of requests are shared with others"
)]

#[path = "harness/cluster.rs"]
mod harness;
#[path = "../../bench/examples/sweep/make.rs"]
mod make;
#[path = "lives/story.rs"]
mod story;
#[path = "../../bench/examples/sweep/words.rs"]
mod words;

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};

use platform::sim::Rng;

/// Stories of a plain test run.
const STORIES: u64 = 60;
const BYTES_MAX: u64 = 1500;

/// A task panicked: executors swallow that.
static PANICKED: AtomicBool = AtomicBool::new(false);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn bytes(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let length = rng.below(BYTES_MAX);
    (0..length).map(|_| rng.below(256) as u8).collect()
}

#[test]
fn stories_end_well() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        PANICKED.store(true, Ordering::Relaxed);
        usual(what);
    }));
    let seeds = match number("FOREBAY_STORY") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FOREBAY_STORIES").unwrap_or(STORIES),
    };
    for seed in seeds {
        let told = panic::catch_unwind(|| story::tell(&bytes(seed)));
        let well = told.is_ok() && !PANICKED.load(Ordering::Relaxed);
        assert!(
            well,
            "again: FOREBAY_STORY={seed} cargo test -p forebay-broker --test lives"
        );
    }
}
