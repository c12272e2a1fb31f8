//! Stories of requests of several clients, kills, losses of power, full disks, missing descriptors
//! and jumps of the clock, told to whole brokers on a simulated disk: nothing panics, every start
//! succeeds, and what was acknowledged is there.
//!
//! What bytes mean is in `crates/broker/tests/lives/story.rs`, of which the gate runs a few at
//! random.
#![no_main]
#![allow(
    dead_code,
    reason = "the harness and the maker of requests are shared with others"
)]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/broker/tests/harness/cluster.rs"]
mod harness;
#[path = "../../crates/bench/examples/sweep/make.rs"]
mod make;
#[path = "../../crates/broker/tests/lives/story.rs"]
mod story;
#[path = "../../crates/bench/examples/sweep/words.rs"]
mod words;

fuzz_target!(|bytes: &[u8]| {
    // Longer ones say nothing that shorter ones could not.
    story::tell(&bytes[..bytes.len().min(4096)]);
});
