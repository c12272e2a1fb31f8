//! `DescribeUserScramCredentials` (key 50), version 0: which of all or some users have SCRAM
//! credentials. The credentials themselves are never returned.

use std::collections::BTreeMap;

use wire::StrBytes;
use wire::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use wire::messages::{DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse};
use wire::types::ErrorCode;

use crate::controller::{Refusal, quoted};
use crate::image::Image;
use crate::rests::{Rests, each};

/// Answers from the image.
pub(crate) async fn handle(
    image: &Image,
    request: &DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    // Each user, and how often the request names it.
    let mut users = BTreeMap::<&str, usize>::new();
    let mut rests = Rests::new();
    match &request.users {
        Some(named) if !named.is_empty() => {
            for user in named {
                let times = users.entry(user.name.as_str()).or_default();
                *times = times.saturating_add(1);
                rests.item().await;
            }
        }
        _ => users.extend(image.scram().keys().map(|(user, _)| (user.as_str(), 1))),
    }
    let results = each(users, |(user, times)| {
        let described = describe(image, user, times);
        let (infos, refused) = match described {
            Ok(infos) => (infos, Ok(())),
            Err(refusal) => (Vec::new(), Err(refusal)),
        };
        let (code, message) = Refusal::parts(refused);
        DescribeUserScramCredentialsResult::default()
            .with_user(StrBytes::from_string(user.to_owned()))
            .with_error_code(code)
            .with_error_message(message)
            .with_credential_infos(infos)
    });
    DescribeUserScramCredentialsResponse::default()
        .with_error_message(None)
        .with_results(results.await)
}

fn describe(image: &Image, user: &str, times: usize) -> Result<Vec<CredentialInfo>, Refusal> {
    if times > 1 {
        return Err(Refusal::new(
            ErrorCode::DuplicateResource,
            format!(
                "Cannot describe SCRAM credentials for the same user twice in a single request: \
                 {}",
                quoted(user)
            ),
        ));
    }
    let own = image.scram().range((user.to_owned(), i8::MIN)..);
    let own = own
        .map(|(_, record)| record)
        .take_while(|record| record.name == user);
    let infos: Vec<_> = own
        .map(|record| {
            CredentialInfo::default()
                .with_mechanism(record.mechanism)
                .with_iterations(record.iterations)
        })
        .collect();
    if infos.is_empty() {
        return Err(Refusal::new(
            ErrorCode::ResourceNotFound,
            format!(
                "Attempt to describe a user credential that does not exist: {}",
                quoted(user)
            ),
        ));
    }
    Ok(infos)
}
