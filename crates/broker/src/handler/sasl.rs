//! `SaslHandshake` (key 17), versions 0-1, and `SaslAuthenticate` (key 36), versions 0-2, outside
//! of a login: refused. Those of a login are in `dispatch/login.rs`.

use wire::StrBytes;
use wire::messages::{SaslAuthenticateResponse, SaslHandshakeResponse};
use wire::types::ErrorCode;

const CODE: ErrorCode = ErrorCode::IllegalSaslState;

pub(crate) fn handshake() -> SaslHandshakeResponse {
    SaslHandshakeResponse::default().with_error_code(CODE.code())
}

pub(crate) fn authenticate() -> SaslAuthenticateResponse {
    let message = "SaslAuthenticate request received after successful authentication";
    SaslAuthenticateResponse::default()
        .with_error_code(CODE.code())
        .with_error_message(Some(StrBytes::from_static_str(message)))
}
