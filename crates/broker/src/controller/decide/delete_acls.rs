//! `DeleteAcls` (key 31), versions 1-3: removes the ACLs that filters mean, all in one batch, and
//! tells for each filter which it means.
//!
//! An ACL that several filters match is in the result of each of them, and removed once. A filter
//! that cannot be refuses nothing but itself; more than [`CHANGES_MAX`] ACLs refuse the request, as
//! in Kafka. What is not as in Kafka: the work and the answer are bounded, whatever the filters
//! say.

use std::collections::{BTreeMap, BTreeSet};

use wire::StrBytes;
use wire::acl::{AclBinding, AclError, AclFilter, CHANGES_MAX, PatternFilter, RawFilter};
use wire::messages::delete_acls_response::{DeleteAclsFilterResult, DeleteAclsMatchingAcl};
use wire::messages::{DeleteAclsRequest, DeleteAclsResponse};
use wire::records::metadata::{MetadataRecord, RemoveAccessControlEntryRecord};
use wire::types::{ErrorCode, Uuid};

use super::create_acls::NO_AUTHORIZER;
use crate::controller::{ControllerDecision, Refusal, too_large};
use crate::image::{Acls, Image, acl_bytes};
use crate::rests::{Rests, each};

/// Maximum number of ACLs that the filters of a request are held against, all together: no other
/// change runs meanwhile.
///
/// A filter with a name that is no pattern is held against the ACLs of that name only.
const LOOKS_MAX: usize = 10_000_000;
/// Maximum bytes of the ACLs that an answer tells, each as often as filters mean it.
const TOLD_BYTES_MAX: usize = 32 << 20;

type Filters = [Result<AclFilter, AclError>];
type AclsByName<'a> = BTreeMap<&'a str, Vec<(Uuid, &'a AclBinding)>>;

/// Answers as a broker without an authorizer does.
pub(crate) async fn disabled(request: &DeleteAclsRequest) -> DeleteAclsResponse {
    let refusal = Refusal::new(ErrorCode::SecurityDisabled, NO_AUTHORIZER);
    let results = each(&request.filters, |_| told(Err(refusal.clone())));
    DeleteAclsResponse::default().with_filter_results(results.await)
}

/// Decides on a request.
pub(crate) async fn handle(
    image: &Image,
    request: &DeleteAclsRequest,
) -> ControllerDecision<DeleteAclsResponse> {
    let filters = each(&request.filters, |filter| {
        RawFilter::from(filter).for_deletion()
    });
    let filters = filters.await;
    match matching(image.acls(), &filters).await {
        Ok((removed, results)) => {
            let record = |id| RemoveAccessControlEntryRecord { id }.into();
            ControllerDecision {
                records: each(removed, record).await,
                response: DeleteAclsResponse::default().with_filter_results(results),
            }
        }
        Err(refusal) => {
            let results = each(&filters, |_| told(Err(refusal.clone()))).await;
            ControllerDecision {
                records: Vec::<MetadataRecord>::new(),
                response: DeleteAclsResponse::default().with_filter_results(results),
            }
        }
    }
}

/// Returns the ids of what the filters mean, and the answer to each filter; or why the whole
/// request is refused.
async fn matching(
    acls: &Acls,
    filters: &Filters,
) -> Result<(BTreeSet<Uuid>, Vec<DeleteAclsFilterResult>), Refusal> {
    let named = by_name(acls, filters).await;
    let all = each(acls.iter(), |(id, acl)| (id, &**acl)).await;
    let (mut looks, mut bytes) = (0_usize, 0_usize);
    let mut removed = BTreeSet::new();
    let mut results = Vec::with_capacity(filters.len());
    let mut rests = Rests::new();
    for filter in filters {
        rests.item().await;
        let filter = match filter {
            Ok(filter) => filter,
            Err(error) => {
                let refusal = Refusal::new(error.error_code(), error.to_string());
                results.push(told(Err(refusal)));
                continue;
            }
        };
        let of_name = only_name(filter).and_then(|name| named.get(name));
        let candidates = of_name.unwrap_or(&all);
        looks = looks.saturating_add(candidates.len());
        if looks > LOOKS_MAX {
            return Err(too_large());
        }
        let mut matching = Vec::new();
        for (id, acl) in candidates {
            rests.item().await;
            if !filter.matches(acl) {
                continue;
            }
            if removed.len() >= CHANGES_MAX {
                return Err(too_many());
            }
            bytes = bytes.saturating_add(acl_bytes(acl));
            if bytes > TOLD_BYTES_MAX {
                return Err(too_large());
            }
            removed.insert(*id);
            matching.push(told_acl(acl));
        }
        results.push(told(Ok(matching)));
    }
    Ok((removed, results))
}

/// Returns the ACLs of each name that a filter asks for.
async fn by_name<'a>(acls: &'a Acls, filters: &'a Filters) -> AclsByName<'a> {
    let mut rests = Rests::new();
    let mut named = AclsByName::new();
    for name in filters.iter().flatten().filter_map(only_name) {
        named.entry(name).or_default();
        rests.item().await;
    }
    for (id, acl) in acls.iter() {
        if let Some(of_name) = named.get_mut(&*acl.pattern.name) {
            of_name.push((id, &**acl));
        }
        rests.item().await;
    }
    named
}

/// Returns the name of the ACLs that the filter means, if it means those of one name.
fn only_name(filter: &AclFilter) -> Option<&str> {
    match filter.pattern_type {
        PatternFilter::Any | PatternFilter::Is(_) => filter.name.as_deref(),
        PatternFilter::Match => None,
    }
}

/// As in Kafka, which says how many may be removed when one more would be.
fn too_many() -> Refusal {
    let message =
        format!("Cannot remove more than {CHANGES_MAX} acls in a single delete operation.");
    Refusal::new(ErrorCode::InvalidRequest, message)
}

fn told(result: Result<Vec<DeleteAclsMatchingAcl>, Refusal>) -> DeleteAclsFilterResult {
    let (matching, refused) = match result {
        Ok(matching) => (matching, Ok(())),
        Err(refusal) => (Vec::new(), Err(refusal)),
    };
    let (code, message) = Refusal::parts(refused);
    DeleteAclsFilterResult::default()
        .with_error_code(code)
        .with_error_message(message)
        .with_matching_acls(matching)
}

fn told_acl(acl: &AclBinding) -> DeleteAclsMatchingAcl {
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    DeleteAclsMatchingAcl::default()
        .with_error_message(None)
        .with_resource_type(acl.pattern.resource_type.code())
        .with_resource_name(text(&acl.pattern.name))
        .with_pattern_type(acl.pattern.pattern_type.code())
        .with_principal(text(acl.principal.as_str()))
        .with_host(text(acl.host.as_str()))
        .with_operation(acl.operation.code())
        .with_permission_type(acl.permission.code())
}

#[cfg(test)]
mod tests;
