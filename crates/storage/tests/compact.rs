//! What a user of a compacted log can notice: which records stay, that nothing else changes, and
//! that no crash at any point loses a record, brings one back, or leaves a log that does not go on.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod world;

#[path = "compact/crash.rs"]
mod crash;
#[path = "compact/history.rs"]
mod history;
#[path = "compact/keys_without_end.rs"]
mod keys_without_end;
#[path = "compact/large_batches.rs"]
mod large_batches;
#[path = "compact/model.rs"]
mod model;
#[path = "compact/rounds.rs"]
mod rounds;
#[path = "compact/swap_states.rs"]
mod swap_states;
