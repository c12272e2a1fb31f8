//! Adds ACLs by requests of a bounded size, one after the other.
//!
//! Invariant: each ACL has an outcome. After a request without an answer no other is sent, so what
//! was added is known, but for the ACLs of that request.

use wire::messages::CreateAclsRequest;
use wire::messages::create_acls_request::AclCreation;

use crate::acl::entry::Entry;
use crate::ask::{Cluster, Failure, check};
use crate::outcome::CommandOutcome;

/// The most ACLs of a request: a tenth of what brokers change by one.
const REQUEST_ACLS_MAX: usize = 1000;
/// The most bytes of their texts; one ACL may have more by itself.
const REQUEST_BYTES_MAX: usize = 512 << 10;

/// What becomes of the ACLs behind a request without an answer.
const UNSENT: &str = "not sent: there was no answer to those before";

/// Adds ACLs; fails if not even the first request has an answer.
pub(super) fn added(
    cluster: &mut Cluster,
    creations: Vec<AclCreation>,
) -> anyhow::Result<Vec<CommandOutcome>> {
    let mut outcomes = Vec::with_capacity(creations.len());
    let mut goes_on = true;
    for part in parts(creations) {
        let lines: Vec<_> = part.iter().map(|acl| Entry::made(acl).line()).collect();
        let is_first = outcomes.is_empty();
        let mut tell = |results: Vec<Result<(), Failure>>| {
            let all = lines.iter().zip(results);
            outcomes.extend(all.map(|(line, result)| CommandOutcome::of(line, result, "added")));
        };
        if !goes_on {
            let unsent = Failure::NotAsked(UNSENT.to_owned());
            tell(vec![Err(unsent); lines.len()]);
            continue;
        }
        let request = CreateAclsRequest::default().with_creations(part);
        let asked = cluster
            .controller()
            .and_then(|broker| broker.ask_newest(&request));
        match asked {
            Ok(answer) => {
                // The answer has no names: results are in the order of the request.
                let results = answer.results.iter().map(|one| {
                    check(one.error_code, one.error_message.as_ref()).map_err(Failure::from)
                });
                let missing = std::iter::repeat(Err(Failure::LeftOut));
                tell(results.chain(missing).take(lines.len()).collect());
            }
            Err(error) if is_first => return Err(error),
            Err(error) => {
                goes_on = false;
                tell(vec![Err(error.into()); lines.len()]);
            }
        }
    }
    Ok(outcomes)
}

/// Divides ACLs into those of one request each, in their order.
fn parts(creations: Vec<AclCreation>) -> Vec<Vec<AclCreation>> {
    let (mut parts, mut part, mut bytes) = (Vec::new(), Vec::new(), 0_usize);
    for acl in creations {
        let own = [&acl.resource_name, &acl.principal, &acl.host];
        let own = own.iter().map(|text| text.len());
        let own = own.fold(0, usize::saturating_add);
        let is_full = bytes.saturating_add(own) > REQUEST_BYTES_MAX;
        if !part.is_empty() && (is_full || part.len() >= REQUEST_ACLS_MAX) {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes = bytes.saturating_add(own);
        part.push(acl);
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::Value;
    use wire::messages::CreateAclsResponse;
    use wire::messages::create_acls_response::AclCreationResult;

    use super::*;
    use crate::ask::{AskedRequest, Peer, text};

    fn acls(count: usize, name: &str) -> Vec<AclCreation> {
        let one = |id| AclCreation::default().with_resource_name(text(&format!("{name}{id}")));
        (0..count).map(one).collect()
    }

    /// Adds to a broker that answers this number of requests; returns outcomes, and how many ACLs
    /// each request had.
    fn tried(count: usize, answered: usize) -> (anyhow::Result<Vec<Value>>, Vec<usize>) {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sizes);
        let peer = Peer::start(move |asked: &AskedRequest| {
            let create = asked.to(|request: CreateAclsRequest| {
                let results = request
                    .creations
                    .iter()
                    .map(|_| AclCreationResult::default());
                seen.lock().unwrap().push(request.creations.len());
                CreateAclsResponse::default().with_results(results.collect())
            });
            let create = create.filter(|_| seen.lock().unwrap().len() <= answered);
            create.or_else(|| asked.metadata(Vec::new()))
        });
        let outcomes = added(&mut peer.cluster(), acls(count, "t"));
        let json = |one: &CommandOutcome| serde_json::to_value(one).unwrap();
        let outcomes = outcomes.map(|all| all.iter().map(json).collect());
        let sizes = sizes.lock().unwrap().clone();
        (outcomes, sizes)
    }

    #[test]
    fn many_acls_are_added_by_several_requests() {
        let (outcomes, sizes) = tried(2500, 9);
        let outcomes = outcomes.unwrap();
        assert!(outcomes.len() == 2500 && outcomes.iter().all(|one| one["done"] == true));
        assert_eq!(sizes, [1000, 1000, 500]);
    }

    #[test]
    fn without_an_answer_no_more_is_sent_and_what_was_added_is_told() {
        let (outcomes, sizes) = tried(2500, 1);
        let outcomes = outcomes.unwrap();
        assert_eq!(sizes, [1000, 1000]);
        let done = |one: &&Value| one["done"] == true;
        assert_eq!(outcomes.iter().filter(done).count(), 1000);
        let error = |at: usize| outcomes[at]["error"].as_str().unwrap();
        assert!(error(1000).contains("broker"), "{}", error(1000));
        assert!(error(2499).starts_with("not sent"), "{}", error(2499));
        assert!(tried(2500, 0).0.is_err());
    }

    #[test]
    fn a_request_has_few_bytes() {
        let long = "x".repeat(30_000);
        let sizes: Vec<_> = parts(acls(40, &long)).iter().map(Vec::len).collect();
        assert_eq!(sizes, [17, 17, 6]);
        let alone = "x".repeat(1 << 20);
        assert_eq!(parts(acls(2, &alone)).len(), 2);
        assert!(parts(Vec::new()).is_empty());
    }
}
