//! The check of every record: numbers go out, and what comes back is held against them.
//!
//! A record's number is unique among those of its producer and partition, in all runs that share a ledger: the
//! run is in its upper bits. So nothing has to be remembered per record, and a run that was killed needs not
//! say how far it came.

pub mod check;
pub mod ledger;
pub mod numbers;
pub mod session;
pub mod stamp;

/// Bits of a number that count records; the run is above them.
const RUN_SHIFT: u32 = 40;

/// The run that a number belongs to.
fn run_of(number: u64) -> u64 {
    number >> RUN_SHIFT
}

/// The first number of a run.
fn first_of(run: u64) -> u64 {
    run << RUN_SHIFT
}
