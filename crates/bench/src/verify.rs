//! The check of every record: numbers go out, and what comes back is held against them.
//!
//! Readers of the load are checked while they read (`session.rs`); when nobody writes any more, everything there
//! is is read once (`sweep.rs`). What either finds is a fault.
//!
//! A record's number is unique among those of its producer and partition, in all runs that share a ledger: the
//! run is in its upper bits. So nothing has to be remembered per record, and a run that was killed needs not
//! say how far it came.

pub mod check;
pub mod ledger;
pub mod numbers;
pub mod session;
pub mod stamp;
mod sweep;

use crate::load::{Control, Stop};
use crate::outcome::{Outcome, Verified};
use crate::spec::Topics;
use session::Session;

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

/// The id of a new verification.
pub fn random_id() -> u64 {
    let mut id = [0; 8];
    // Eight bytes come whole or not at all.
    match rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => u64::from_le_bytes(id),
        Err(_) => std::process::id().into(),
    }
}

/// True when nothing was found.
pub fn sound(verified: &Verified) -> bool {
    let Verified {
        lost,
        duplicated,
        disordered,
        damaged,
        ..
    } = verified;
    [lost, duplicated, disordered, damaged] == [&0; 4]
}

/// Ends a check: reads everything and says in the outcome what was found, with the first faults among its errors.
/// Where that cannot be done, the outcome says that it ended before its time, and claims no check.
pub async fn finish(
    bootstrap: &str,
    topics: &Topics,
    session: &Session,
    control: &Control,
    outcome: &mut Outcome,
) {
    // Whoever stopped the load wants to know what became of what it wrote.
    let stop = if control.stop.is_set() {
        Stop::default()
    } else {
        control.stop.clone()
    };
    let read = sweep::sweep(bootstrap, topics, session, &stop).await;
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
