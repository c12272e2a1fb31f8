//! `CreateAcls` (key 30), versions 1-3: adds ACLs. Each is judged by itself, in Kafka's words; one
//! that is there already has been created.
//!
//! What is not as in Kafka: all ACLs together are bounded in bytes
//! (`bounds::ACLS_BYTES_MAX`), and a code that no ACL can have refuses the ACL that has it, where
//! Kafka closes the connection or fails all of the request. As in Kafka, versions below 3 may name
//! users as a resource, although only version 3 says so.

use std::collections::BTreeSet;

use wire::StrBytes;
use wire::acl::{AclBinding, AclError, CHANGES_MAX, RawAcl};
use wire::messages::create_acls_response::AclCreationResult;
use wire::messages::{CreateAclsRequest, CreateAclsResponse};
use wire::records::metadata::MetadataRecord;
use wire::types::{ErrorCode, Uuid};

use crate::controller::bounds::check_acls;
use crate::controller::{
    ControllerDecision, RECORDS_PER_REQUEST_MAX, Refusal, too_large, topic_id,
};
use crate::image::{Image, acl_bytes};
use crate::rests::{DECISION, Rests, each};

/// Kafka's words where there is no authorizer.
pub(super) const NO_AUTHORIZER: &str = "No Authorizer is configured.";

const _: () = assert!(CHANGES_MAX <= RECORDS_PER_REQUEST_MAX, "an ACL is a record");

/// Answers as a broker without an authorizer does.
pub(crate) async fn disabled(request: &CreateAclsRequest) -> CreateAclsResponse {
    let refusal = Refusal::new(ErrorCode::SecurityDisabled, NO_AUTHORIZER);
    let results = each(&request.creations, |_| told(Err(refusal.clone())));
    CreateAclsResponse::default().with_results(results.await)
}

/// Decides on a request.
pub(crate) async fn handle(
    image: &Image,
    request: &CreateAclsRequest,
    random: &mut dyn FnMut() -> u64,
) -> ControllerDecision<CreateAclsResponse> {
    let creations = &request.creations;
    let judged = each(creations, |creation| RawAcl::from(creation).validate()).await;
    let mut there = already_there(image, &judged).await;
    let mut bytes = image.acls().bytes();
    let mut records: Vec<MetadataRecord> = Vec::new();
    let mut results = Vec::with_capacity(judged.len());
    let mut rests = Rests::new();
    for judged_one in &judged {
        rests.items(DECISION).await;
        let acl = match judged_one {
            Ok(acl) if !there.contains(acl) => acl,
            Ok(_) => {
                results.push(told(Ok(())));
                continue;
            }
            Err(error) => {
                results.push(told(Err(refused(error))));
                continue;
            }
        };
        if records.len() >= CHANGES_MAX {
            return too_many(&judged).await;
        }
        let more = bytes.saturating_add(acl_bytes(acl));
        let fits = check_acls(more);
        if fits.is_ok() {
            bytes = more;
            there.insert(acl);
            records.push(acl.to_record(new_id(image, random)).into());
        }
        results.push(told(fits));
    }
    let response = CreateAclsResponse::default().with_results(results);
    ControllerDecision { records, response }
}

/// Returns those of the ACLs that the image has.
async fn already_there<'a>(
    image: &Image,
    judged: &'a [Result<AclBinding, AclError>],
) -> BTreeSet<&'a AclBinding> {
    let mut rests = Rests::new();
    let mut there = BTreeSet::new();
    let index = image.acls().index();
    for acl in judged.iter().flatten() {
        if index.has(acl) {
            there.insert(acl);
        }
        rests.item().await;
    }
    there
}

/// Refuses everything that is not refused for its name: no ACL is added.
///
/// As in Kafka, where names are judged before the controller is asked.
async fn too_many(
    judged: &[Result<AclBinding, AclError>],
) -> ControllerDecision<CreateAclsResponse> {
    let results = each(judged, |judged| {
        told(Err(match judged {
            Err(error @ (AclError::ClusterName | AclError::EmptyName)) => refused(error),
            _ => too_large(),
        }))
    });
    ControllerDecision {
        records: Vec::new(),
        response: CreateAclsResponse::default().with_results(results.await),
    }
}

fn refused(error: &AclError) -> Refusal {
    Refusal::new(error.error_code(), error.to_string())
}

fn told(result: Result<(), Refusal>) -> AclCreationResult {
    match result {
        // As Kafka, with an empty text and not without one.
        Ok(()) => AclCreationResult::default().with_error_message(Some(StrBytes::default())),
        Err(refusal) => {
            let (code, message) = Refusal::parts(Err(refusal));
            AclCreationResult::default()
                .with_error_code(code)
                .with_error_message(message)
        }
    }
}

/// Returns a random id that no ACL has.
fn new_id(image: &Image, random: &mut dyn FnMut() -> u64) -> Uuid {
    loop {
        // Kafka makes ids of ACLs as it makes those of topics.
        let id = topic_id(random);
        if !image.acls().has(id) {
            return id;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
