//! `CreateDelegationToken` (key 38), `RenewDelegationToken` (39), `ExpireDelegationToken` (40) and
//! `DescribeDelegationToken` (41): refused, as by a Kafka without `delegation.token.secret.key`.
//!
//! A token represents the user that created it. A client that has not logged in has no user, and
//! one that has gets the answer that there are no tokens. From version 3 of the first one, the
//! response names the token's owner and its requester. Unlike Kafka, the broker checks no
//! `CREATE_TOKENS` on another owner: the answer is the same for every client.

use wire::StrBytes;
use wire::messages::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeDelegationTokenResponse,
    ExpireDelegationTokenResponse, RenewDelegationTokenResponse,
};
use wire::types::ErrorCode;

use crate::session::Session;

/// The type of the principals that may renew a token.
const USER: &str = "User";
/// The first version that names an owner and a requester.
const OWNERS: i16 = 3;

/// Returns why no request about tokens is served, and the time that stands in place of a token's.
fn refusal(session: &Session) -> (ErrorCode, i64) {
    if session.login().is_some() {
        (ErrorCode::DelegationTokenAuthDisabled, 0)
    } else {
        (ErrorCode::DelegationTokenRequestNotAllowed, -1)
    }
}

pub(crate) fn create(
    request: &CreateDelegationTokenRequest,
    version: i16,
    session: &Session,
) -> CreateDelegationTokenResponse {
    let (mut code, mut time) = refusal(session);
    let mut renewers = request.renewers.iter();
    if session.login().is_some() && renewers.any(|one| &*one.principal_type != USER) {
        (code, time) = (ErrorCode::InvalidPrincipalType, -1);
    }
    let asker = session.principal();
    let asker = || {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        (text(asker.kind()), text(asker.name()))
    };
    let owner = |name: &Option<StrBytes>| name.clone().filter(|name| !name.is_empty());
    let named = owner(&request.owner_principal_type).zip(owner(&request.owner_principal_name));
    let (kind, name) = named.unwrap_or_else(asker);
    let response = CreateDelegationTokenResponse::default()
        .with_error_code(code.code())
        .with_principal_type(kind)
        .with_principal_name(name)
        .with_issue_timestamp_ms(time)
        .with_expiry_timestamp_ms(time)
        .with_max_timestamp_ms(time);
    if version < OWNERS {
        return response;
    }
    let (kind, name) = asker();
    response
        .with_token_requester_principal_type(kind)
        .with_token_requester_principal_name(name)
}

pub(crate) fn renew(session: &Session) -> RenewDelegationTokenResponse {
    let (code, time) = refusal(session);
    RenewDelegationTokenResponse::default()
        .with_error_code(code.code())
        .with_expiry_timestamp_ms(time)
}

pub(crate) fn expire(session: &Session) -> ExpireDelegationTokenResponse {
    let (code, time) = refusal(session);
    ExpireDelegationTokenResponse::default()
        .with_error_code(code.code())
        .with_expiry_timestamp_ms(time)
}

pub(crate) fn describe(session: &Session) -> DescribeDelegationTokenResponse {
    let (code, _) = refusal(session);
    DescribeDelegationTokenResponse::default().with_error_code(code.code())
}
