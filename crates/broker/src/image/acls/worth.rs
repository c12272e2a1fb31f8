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
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    /// Returns the answer, if it was kept.
    pub(super) fn known(
        &self,
        client: &Client<'_>,
        operation: Operation,
        resource_type: ResourceType,
    ) -> Option<bool> {
        let question = question((client, operation, resource_type));
        self.answers().get(&question).copied()
    }

    /// Keeps an answer.
    pub(super) fn keep(&self, asked: (&Client<'_>, Operation, ResourceType), answer: bool) {
        let mut answers = self.answers();
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
        answers.insert(question(asked), answer);
    }

    // Held for a look: no decision is made under the lock.
    fn answers(&self) -> MutexGuard<'_, HashMap<Question, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn question(
    (client, operation, resource_type): (&Client<'_>, Operation, ResourceType),
) -> Question {
    let principal = client.principal().clone();
    (principal, client.address(), operation, resource_type)
}
