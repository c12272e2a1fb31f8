//! `CreateDelegationToken` (key 38), `RenewDelegationToken` (39), `ExpireDelegationToken` (40) and
//! `DescribeDelegationToken` (41): refused, as Kafka does on an unauthenticated connection.
//!
//! A token represents the user that created it, and on a PLAINTEXT listener no client has
//! authenticated. From version 3 of the first one, the response names the token's owner and its
//! requester.

use wire::StrBytes;
use wire::acl::Principal;
use wire::messages::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeDelegationTokenResponse,
    ExpireDelegationTokenResponse, RenewDelegationTokenResponse,
};
use wire::types::ErrorCode;

const CODE: ErrorCode = ErrorCode::DelegationTokenRequestNotAllowed;
/// The first version that names an owner and a requester.
const OWNERS: i16 = 3;

pub(crate) fn create(
    request: &CreateDelegationTokenRequest,
    version: i16,
    asker: &Principal,
) -> CreateDelegationTokenResponse {
    let asker = || {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        (text(asker.kind()), text(asker.name()))
    };
    let owner = |name: &Option<StrBytes>| name.clone().filter(|name| !name.is_empty());
    let named = owner(&request.owner_principal_type).zip(owner(&request.owner_principal_name));
    let (kind, name) = named.unwrap_or_else(asker);
    let response = CreateDelegationTokenResponse::default()
        .with_error_code(CODE.code())
        .with_principal_type(kind)
        .with_principal_name(name)
        .with_issue_timestamp_ms(-1)
        .with_expiry_timestamp_ms(-1)
        .with_max_timestamp_ms(-1);
    if version < OWNERS {
        return response;
    }
    let (kind, name) = asker();
    response
        .with_token_requester_principal_type(kind)
        .with_token_requester_principal_name(name)
}

pub(crate) fn renew() -> RenewDelegationTokenResponse {
    RenewDelegationTokenResponse::default()
        .with_error_code(CODE.code())
        .with_expiry_timestamp_ms(-1)
}

pub(crate) fn expire() -> ExpireDelegationTokenResponse {
    ExpireDelegationTokenResponse::default()
        .with_error_code(CODE.code())
        .with_expiry_timestamp_ms(-1)
}

pub(crate) fn describe() -> DescribeDelegationTokenResponse {
    DescribeDelegationTokenResponse::default().with_error_code(CODE.code())
}
