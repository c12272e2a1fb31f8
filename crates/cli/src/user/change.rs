//! Changes of credentials, by as many requests as a user has mechanisms: brokers refuse a request
//! that names a user twice, also with two mechanisms.
//!
//! Invariant: each user has an outcome. What failed for a user is not followed by another change of
//! the user, and the outcome says which changes came before.

use std::collections::BTreeMap;

use wire::messages::AlterUserScramCredentialsRequest;
use wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};

use super::credential::mechanism_name;
use crate::ask::{Cluster, Failure, check, each_answer};

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
    for round in 0..rounds {
        let goes_on = |name: &str| outcomes.get(name).is_some_and(Result::is_ok);
        let of_round = changes.iter().filter(|(name, _)| goes_on(name));
        let of_round = of_round.filter_map(|(name, all)| Some((name.clone(), all.get(round)?)));
        let of_round: BTreeMap<_, _> = of_round.collect();
        if of_round.is_empty() {
            break;
        }
        for (name, result) in asked(cluster, &of_round) {
            if let (Err(failure), Some(all)) = (result, changes.get(&name)) {
                outcomes.insert(name, Err(told(all, round, &failure, done)));
            }
        }
    }
    outcomes
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
