//! What one state of the ACLs says about whole types of resources: whether a client may do
//! something with at least one.
//!
//! The answer takes a look at all names of a client's ACLs, and producers ask when they begin, all
//! of them at once after a restart. It is the same until an ACL changes, so it is kept with the
//! ACLs, for all shards. Invariant: a copy knows nothing, because other ACLs follow a copy.

#![allow(
    clippy::disallowed_types,
    reason = "shards share the ACLs; the lock is held for a look into a map"
)]

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use wire::acl::{Client, Operation, Principal, ResourceType};

/// Most answers that are kept; beyond them all are forgotten.
const ANSWERS_MAX: usize = 4096;

type Question = (Principal, IpAddr, Operation, ResourceType);

/// Answers of one state of the ACLs.
#[derive(Default, Debug)]
pub(super) struct WorthVerdicts(
    // Bounded: `ANSWERS_MAX`.
    Mutex<HashMap<Question, bool>>,
);

impl Clone for WorthVerdicts {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl WorthVerdicts {
    /// Returns the answer, by `decide` if it is asked for the first time.
    pub(super) fn verdict(
        &self,
        (client, operation, resource_type): (&Client<'_>, Operation, ResourceType),
        decide: impl FnOnce() -> bool,
    ) -> bool {
        let principal = client.principal().clone();
        let question = (principal, client.address(), operation, resource_type);
        let answers = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = answers().get(&question) {
            return *known;
        }
        // Not under the lock: others ask for something else.
        let verdict = decide();
        let mut answers = answers();
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
        answers.insert(question, verdict);
        verdict
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}
