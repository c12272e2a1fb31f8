//! The check of every record: producers number records, and the records read are compared with the
//! numbers.
//!
//! Consumers of the load check while they read (`session.rs`); after the last write, everything is
//! read once more (`sweep.rs`). A fault in either counts.
//!
//! A record's number is unique among those of its producer and partition, in all runs that share a
//! ledger, because its upper bits contain the run. So nothing is stored per record, and a killed
//! run does not have to report its progress.

pub mod check;
pub mod ledger;
pub mod numbers;
pub mod session;
pub mod stamp;
mod sweep;

use std::path::Path;

use crate::load::{Control, Stop};
use crate::outcome::{LoadOutcome, RecordCheckResult};
use crate::spec::Topics;
use session::Session;

/// Bits of a number that count records; the bits above contain the run.
const RUN_SHIFT: u32 = 40;

/// Returns the run that a number belongs to.
fn run_of(number: u64) -> u64 {
    number >> RUN_SHIFT
}

/// Returns the first number of a run.
fn first_of(run: u64) -> u64 {
    run << RUN_SHIFT
}

/// Returns the id for a new verification.
pub fn random_id() -> u64 {
    let mut id = [0; 8];
    // A request for eight bytes is never answered in part.
    match rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => u64::from_le_bytes(id),
        Err(_) => std::process::id().into(),
    }
}

/// Returns whether no fault was found.
pub fn sound(verified: &RecordCheckResult) -> bool {
    let RecordCheckResult {
        lost,
        duplicated,
        disordered,
        damaged,
        ..
    } = verified;
    [lost, duplicated, disordered, damaged] == [&0; 4]
}

/// Where the records are that a check reads.
#[derive(Clone, Copy, Debug)]
pub struct WrittenTopics<'a> {
    /// The broker, or several, comma-separated.
    pub bootstrap: &'a str,
    /// The topics.
    pub topics: &'a Topics,
    /// The file of properties to connect with, if there is one.
    pub security: Option<&'a Path>,
}

/// Ends a check: reads everything, and puts the result and the first faults into the outcome.
///
/// If it cannot read everything, it marks the outcome as aborted and removes the result of the
/// check.
pub async fn finish(
    written: &WrittenTopics<'_>,
    session: &Session,
    control: &Control,
    outcome: &mut LoadOutcome,
) {
    // After a stop the written records are still checked.
    let stop = if control.stop.is_set() {
        Stop::default()
    } else {
        control.stop.clone()
    };
    let read = sweep::sweep(written, session, &stop).await;
    let mut why = session.failure();
    let found = match read {
        Ok(reader) => {
            let found = session.live().and(session.whole(&reader));
            outcome.verified = Some(found.verified.clone());
            found
        }
        Err(error) => {
            why.get_or_insert(format!("the check did not come to its end: {error:#}"));
            outcome.verified = None;
            session.live()
        }
    };
    outcome.errors.extend(found.examples);
    if let Some(why) = why {
        *outcome.errors.entry(why.clone()).or_default() += 1;
        outcome.aborted.get_or_insert(why);
    }
}
