//! What fuzzing calls: the reading of a login of Basic, which a client that is not known has sent.
//!
//! Not here: whether the password is right.

use hyper::header::HeaderValue;
use wire::sasl::Secret;

use super::access;

/// Reads the bytes of a header `Authorization`; `None` if they are no login.
pub fn login_of_header(bytes: &[u8]) -> Option<(String, Secret<String>)> {
    let header = HeaderValue::from_bytes(bytes).ok()?;
    let (scheme, given) = access::scheme_of(&header).ok()?;
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    is_basic.then(|| access::credentials(given).ok()).flatten()
}

/// Reads what such a header has encoded.
pub fn login_of_text(bytes: &[u8]) -> Option<(String, Secret<String>)> {
    access::credentials_of_text(bytes).ok()
}
