//! What a user of a log can notice: appends, reads, rolls, restarts, retention, truncation, a full
//! or failing disk.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "the names are our own"
)]

mod world;

#[path = "log/append_and_read.rs"]
mod append_and_read;
#[path = "log/at_rest.rs"]
mod at_rest;
#[path = "log/cache.rs"]
mod cache;
#[path = "log/cut_off.rs"]
mod cut_off;
#[path = "log/hints.rs"]
mod hints;
#[path = "log/misled.rs"]
mod misled;
#[path = "log/names.rs"]
mod names;
#[path = "log/producers.rs"]
mod producers;
#[path = "log/read_ahead.rs"]
mod read_ahead;
#[path = "log/relocation.rs"]
mod relocation;
#[path = "log/restart.rs"]
mod restart;
#[path = "log/rewinds.rs"]
mod rewinds;
#[path = "log/room_and_failures.rs"]
mod room_and_failures;
#[path = "log/small_files.rs"]
mod small_files;
#[path = "log/stamps.rs"]
mod stamps;
#[path = "log/start_and_end.rs"]
mod start_and_end;
