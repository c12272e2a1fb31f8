//! What one state of the ACLs says about whole types of resources: whether a client may do
//! something with at least one.
//!
//! The answer takes a look at all names of a client's ACLs, and producers ask when they begin, all
//! of them at once after a restart. It is the same until an ACL changes, so it is kept with the
//! ACLs, for all shards. Invariants: a copy knows nothing, because other ACLs follow a copy; what
//! is kept is bounded in answers and in bytes of names, which clients choose.

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
/// Most bytes of the names of their clients; beyond them all are forgotten. A longer name is never
/// kept.
const BYTES_MAX: usize = 512 << 10;

type Question = (Principal, IpAddr, Operation, ResourceType);

/// Answers of one state of the ACLs.
#[derive(Default, Debug)]
pub(super) struct WorthVerdicts(Mutex<KnownAnswers>);

#[derive(Default, Debug)]
struct KnownAnswers {
    // Bounded: `ANSWERS_MAX` and `BYTES_MAX`.
    answers: HashMap<Question, bool>,
    /// Bytes of the names in `answers`.
    bytes: usize,
}

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
        self.locked().answers.get(&question).copied()
    }

    /// Keeps an answer.
    pub(super) fn keep(&self, asked: (&Client<'_>, Operation, ResourceType), answer: bool) {
        self.locked().keep(question(asked), answer);
    }

    // Held for a look: no decision is made under the lock.
    fn locked(&self) -> MutexGuard<'_, KnownAnswers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.locked().answers.len()
    }
}

impl KnownAnswers {
    fn keep(&mut self, question: Question, answer: bool) {
        let more = question.0.as_str().len();
        if more > BYTES_MAX {
            return;
        }
        if self.answers.len() >= ANSWERS_MAX || self.bytes.saturating_add(more) > BYTES_MAX {
            *self = Self::default();
        }
        if self.answers.insert(question, answer).is_none() {
            self.bytes = self.bytes.saturating_add(more);
        }
        assert!(
            self.bytes <= BYTES_MAX && self.answers.len() <= ANSWERS_MAX,
            "what is kept is bounded"
        );
    }
}

fn question(
    (client, operation, resource_type): (&Client<'_>, Operation, ResourceType),
) -> Question {
    let principal = client.principal().clone();
    (principal, client.address(), operation, resource_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &str) -> Question {
        let address = IpAddr::from([127, 0, 0, 1]);
        (
            Principal::user(name),
            address,
            Operation::Write,
            ResourceType::Topic,
        )
    }

    #[test]
    fn what_is_kept_is_bounded_in_answers_and_in_bytes_of_names() {
        let mut known = KnownAnswers::default();
        for number in 0..3 * ANSWERS_MAX {
            known.keep(asked(&number.to_string()), true);
            assert!(known.answers.len() <= ANSWERS_MAX);
        }
        for number in 0..1000 {
            known.keep(asked(&format!("{number}{}", "n".repeat(10_000))), true);
            let bytes: usize = known.answers.keys().map(|it| it.0.as_str().len()).sum();
            assert_eq!(known.bytes, bytes);
            assert!(bytes <= BYTES_MAX, "{bytes}");
        }
        let before = known.answers.len();
        known.keep(asked(&"n".repeat(BYTES_MAX + 1)), true);
        assert_eq!(known.answers.len(), before, "longer than all that is kept");
        known.keep(asked("0"), true);
        let bytes = known.bytes;
        known.keep(asked("0"), false);
        assert_eq!(known.bytes, bytes, "another answer to the same question");
    }
}
