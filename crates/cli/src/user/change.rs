//! Changes of credentials, by requests of a bounded size: at least as many as a user has
//! mechanisms, since brokers refuse a request that names a user twice, also with two mechanisms.
//!
//! Invariant: each user has an outcome. What failed for a user is not followed by another change of
//! the user, and the outcome says which changes came before. After a request without an answer no
//! other is sent, so what was changed is known, but for the users of that request.

use std::collections::BTreeMap;

use wire::messages::AlterUserScramCredentialsRequest;
use wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};

use super::credential::mechanism_name;
use crate::ask::{Cluster, Failure, check, each_answer};

/// The most users of a request: a tenth of what brokers change by one.
const REQUEST_USERS_MAX: usize = 1000;
/// The most bytes of their names, salts and passwords; one user may have more alone.
const REQUEST_BYTES_MAX: usize = 512 << 10;

/// What becomes of the users behind a request without an answer.
const UNSENT: &str = "not sent: there was no answer to those before";

/// A change of one credential.
#[derive(Clone, Debug)]
pub(super) enum CredentialChange {
    /// It is set.
    Set(ScramCredentialUpsertion),
    /// It is deleted.
    Delete(ScramCredentialDeletion),
}

impl CredentialChange {
    fn mechanism(&self) -> String {
        mechanism_name(match self {
            Self::Set(one) => one.mechanism,
            Self::Delete(one) => one.mechanism,
        })
    }

    /// Returns the bytes of a request that grow with what users chose.
    fn bytes(&self) -> usize {
        let lengths = match self {
            Self::Set(one) => [one.name.len(), one.salt.len(), one.salted_password.len()],
            Self::Delete(one) => [one.name.len(), 0, 0],
        };
        lengths.into_iter().fold(0, usize::saturating_add)
    }
}

/// Makes the changes of each user; returns what became of them, or why it is not known.
pub(super) fn made(
    cluster: &mut Cluster,
    changes: &BTreeMap<String, Vec<CredentialChange>>,
    done: &str,
) -> BTreeMap<String, Result<(), String>> {
    let rounds = changes.values().map(Vec::len).max().unwrap_or(0);
    let names = changes.keys().cloned();
    let mut outcomes: BTreeMap<_, Result<(), String>> = names.map(|name| (name, Ok(()))).collect();
    let mut goes_on = true;
    for round in 0..rounds {
        let is_sound = |name: &str| outcomes.get(name).is_some_and(Result::is_ok);
        let of_round = changes.iter().filter(|(name, _)| is_sound(name));
        let of_round = of_round.filter_map(|(name, all)| Some((name.clone(), all.get(round)?)));
        for part in parts(of_round.collect()) {
            let results = if goes_on {
                asked(cluster, &part)
            } else {
                let unsent = || Err(Failure::NotAsked(UNSENT.to_owned()));
                part.keys().map(|name| (name.clone(), unsent())).collect()
            };
            let is_asked =
                |result: &Result<(), Failure>| !matches!(result, Err(Failure::NotAsked(_)));
            goes_on = results.values().any(is_asked);
            for (name, result) in results {
                if let (Err(failure), Some(all)) = (result, changes.get(&name)) {
                    outcomes.insert(name, Err(told(all, round, &failure, done)));
                }
            }
        }
    }
    outcomes
}

/// Divides the changes of a round into those of one request each, in the order of the users.
fn parts(changes: BTreeMap<String, &CredentialChange>) -> Vec<BTreeMap<String, &CredentialChange>> {
    let (mut parts, mut part, mut bytes) = (Vec::new(), BTreeMap::new(), 0_usize);
    for (name, change) in changes {
        let own = change.bytes();
        let is_full = bytes.saturating_add(own) > REQUEST_BYTES_MAX;
        if !part.is_empty() && (is_full || part.len() >= REQUEST_USERS_MAX) {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes = bytes.saturating_add(own);
        part.insert(name, change);
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

/// Sends one change of each of these users.
fn asked(
    cluster: &mut Cluster,
    changes: &BTreeMap<String, &CredentialChange>,
) -> BTreeMap<String, Result<(), Failure>> {
    let mut request = AlterUserScramCredentialsRequest::default();
    for change in changes.values() {
        match change {
            CredentialChange::Set(one) => request.upsertions.push(one.clone()),
            CredentialChange::Delete(one) => request.deletions.push(one.clone()),
        }
    }
    let answer = cluster
        .controller()
        .and_then(|broker| broker.ask_newest(&request));
    let answer = answer.map(|answer| {
        answer.results.into_iter().map(|one| {
            let result = check(one.error_code, one.error_message.as_ref());
            (one.user.to_string(), result)
        })
    });
    each_answer(changes.keys().cloned(), answer)
}

/// Returns the words for a change that failed, with those of the user that came before.
fn told(all: &[CredentialChange], failed: usize, failure: &Failure, done: &str) -> String {
    let (before, from) = all.split_at_checked(failed).unwrap_or((all, &[]));
    let (Some(one), true) = (from.first(), all.len() > 1) else {
        return failure.to_string();
    };
    let words = format!("{}: {failure}", one.mechanism());
    if before.is_empty() {
        return words;
    }
    let before: Vec<_> = before.iter().map(CredentialChange::mechanism).collect();
    format!("{words}; {} was {done}", before.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use wire::messages::AlterUserScramCredentialsResponse;
    use wire::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;

    use super::*;
    use crate::ask::{AskedRequest, Peer, text};

    /// A broker that refuses a user who is named twice by a request, and one mechanism.
    fn broker(refuses: Option<i8>) -> Peer {
        Peer::start(move |asked: &AskedRequest| {
            let answer = asked.to(|request: AlterUserScramCredentialsRequest| {
                let mut seen = BTreeSet::new();
                let results = request.deletions.iter().map(|one| {
                    let is_first = seen.insert(one.name.clone());
                    let code = match Some(one.mechanism) == refuses {
                        true => 42,
                        false if is_first => 0,
                        false => 92,
                    };
                    AlterUserScramCredentialsResult::default()
                        .with_user(one.name.clone())
                        .with_error_code(code)
                });
                AlterUserScramCredentialsResponse::default().with_results(results.collect())
            });
            answer.or_else(|| asked.metadata(Vec::new()))
        })
    }

    fn deletions(users: &[(&str, &[i8])]) -> BTreeMap<String, Vec<CredentialChange>> {
        let of_user = |name: &str, mechanisms: &[i8]| {
            let each = mechanisms.iter().map(|&mechanism| {
                let deletion = ScramCredentialDeletion::default()
                    .with_name(text(name))
                    .with_mechanism(mechanism);
                CredentialChange::Delete(deletion)
            });
            (name.to_owned(), each.collect())
        };
        let all = users
            .iter()
            .map(|(name, mechanisms)| of_user(name, mechanisms));
        all.collect()
    }

    #[test]
    fn a_request_names_a_user_once() {
        let changes = deletions(&[("ada", &[1, 2]), ("bob", &[2])]);
        let outcomes = made(&mut broker(None).cluster(), &changes, "deleted");
        assert!(
            outcomes.len() == 2 && outcomes.values().all(Result::is_ok),
            "{outcomes:?}"
        );
    }

    #[test]
    fn what_was_changed_before_a_failure_is_told() {
        let changes = deletions(&[("ada", &[1, 2]), ("bob", &[1])]);
        let outcomes = made(&mut broker(Some(2)).cluster(), &changes, "deleted");
        assert_eq!(outcomes["bob"], Ok(()));
        assert_eq!(
            outcomes["ada"],
            Err("SCRAM-SHA-512: INVALID_REQUEST; SCRAM-SHA-256 was deleted".to_owned())
        );
        let changes = deletions(&[("ada", &[2, 1])]);
        let outcomes = made(&mut broker(Some(2)).cluster(), &changes, "deleted");
        assert_eq!(
            outcomes["ada"],
            Err("SCRAM-SHA-512: INVALID_REQUEST".to_owned())
        );
    }

    /// Deletes one password of each user, by a broker that answers this number of requests; returns
    /// outcomes, and how many users each request had.
    fn tried(
        names: impl Iterator<Item = String>,
        answered: usize,
    ) -> (BTreeMap<String, Result<(), String>>, Vec<usize>) {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sizes);
        let peer = Peer::start(move |asked: &AskedRequest| {
            let answer = asked.to(|request: AlterUserScramCredentialsRequest| {
                seen.lock().unwrap().push(request.deletions.len());
                let results = request.deletions.iter().map(|one| {
                    AlterUserScramCredentialsResult::default().with_user(one.name.clone())
                });
                AlterUserScramCredentialsResponse::default().with_results(results.collect())
            });
            let answer = answer.filter(|_| seen.lock().unwrap().len() <= answered);
            answer.or_else(|| asked.metadata(Vec::new()))
        });
        let names: Vec<_> = names.collect();
        let users: Vec<_> = names.iter().map(|name| (name.as_str(), &[1][..])).collect();
        let outcomes = made(&mut peer.cluster(), &deletions(&users), "deleted");
        let sizes = sizes.lock().unwrap().clone();
        (outcomes, sizes)
    }

    #[test]
    fn many_users_are_changed_by_several_requests() {
        let (outcomes, sizes) = tried((0..2500).map(|user| format!("app-{user}")), 9);
        assert_eq!(sizes, [1000, 1000, 500]);
        assert!(outcomes.len() == 2500 && outcomes.values().all(Result::is_ok));
        let long = "x".repeat(30_000);
        let (outcomes, sizes) = tried((10..50).map(|user| format!("{user}{long}")), 9);
        assert_eq!(sizes, [17, 17, 6]);
        assert!(outcomes.len() == 40 && outcomes.values().all(Result::is_ok));
    }

    #[test]
    fn after_a_request_without_an_answer_no_other_is_sent() {
        let (outcomes, sizes) = tried((0..2500).map(|user| format!("{user:04}")), 1);
        assert_eq!(sizes, [1000, 1000]);
        assert_eq!(outcomes["0999"], Ok(()));
        let unknown = outcomes["1000"].as_ref().unwrap_err();
        assert!(unknown.contains("broker"), "{unknown}");
        let unsent = outcomes["2000"].as_ref().unwrap_err();
        assert!(unsent.starts_with("not sent"), "{unsent}");
    }

    #[test]
    fn without_an_answer_its_error_is_that_of_each_user() {
        let outcomes = made(
            &mut Peer::start(|_| None).cluster(),
            &deletions(&[("a", &[1])]),
            "",
        );
        assert!(
            outcomes["a"].as_ref().unwrap_err().contains("Metadata"),
            "{outcomes:?}"
        );
    }
}
