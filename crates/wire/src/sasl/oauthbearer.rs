//! OAUTHBEARER (RFC 7628): one message with a token and extensions, answered with nothing; or with
//! an error, which the client confirms before the exchange fails.
//!
//! ```text
//! client                                            server
//!   -- n,, 01 auth=Bearer <token> 01 01 ----------->   InitialResponse::parse
//!   <-- nothing -----------------------------------   InitialResponse::accept
//!   <-- {"status":"invalid_token"} ----------------   InitialResponse::reject
//!   -- 01 ----------------------------------------->   RejectedLogin::finish
//! ```
//!
//! The messages are those of Kafka: of a key that is there twice the last counts. Unlike in Kafka,
//! a token has a bound, and a client cannot try a second token after an error.
//!
//! Not here: what a token means. To this module it is text of a certain alphabet.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::names::{HEADER, HeadedMessage, encoded};
use super::refusal::{INVALID_TOKEN, check_length, text};
use super::{Refusal, Secret};

/// Maximum bytes of a token.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;
/// Maximum bytes of the client's message, and so of its extensions.
pub const MESSAGE_BYTES_MAX: usize = TOKEN_BYTES_MAX + (16 << 10);

/// What a client sends when it has been told that its token is not accepted.
pub const CONFIRMATION: u8 = 0x01;

const MESSAGE: &str = "the OAUTHBEARER message";
const SEPARATOR: char = '\u{1}';
const AUTH: &str = "auth";
const SCHEME: &str = "Bearer ";

/// The message of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InitialResponse {
    authzid: Option<String>,
    token: Secret<String>,
    // Bounded: `MESSAGE_BYTES_MAX`
    extensions: BTreeMap<String, String>,
}

impl InitialResponse {
    /// Makes the message of a client, which names no other identity.
    pub fn new(
        token: Secret<String>,
        extensions: BTreeMap<String, String>,
    ) -> Result<Self, Refusal> {
        check_token(token.expose())?;
        for (key, value) in &extensions {
            check_extension(key, value)?;
        }
        let initial = Self {
            authzid: None,
            token,
            extensions,
        };
        check_length(MESSAGE, initial.bytes(), MESSAGE_BYTES_MAX)?;
        Ok(initial)
    }

    /// Reads the message.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let text = text(MESSAGE, bytes, MESSAGE_BYTES_MAX)?;
        let headed = HeadedMessage::parse(MESSAGE, text)?;
        let pairs = headed.rest.strip_prefix(SEPARATOR);
        let pairs = pairs.and_then(|pairs| pairs.strip_suffix(SEPARATOR));
        let pairs = pairs.ok_or(malformed("it does not begin and end with a separator"))?;
        if !pairs.is_empty() && !pairs.ends_with(SEPARATOR) {
            return Err(malformed("it does not end with two separators"));
        }
        let mut auth = None;
        let mut extensions = BTreeMap::new();
        for pair in pairs.split_terminator(SEPARATOR) {
            let split = pair.split_once('=');
            let (key, value) = split.ok_or(malformed("a key has no value"))?;
            if key == AUTH {
                check_value(value)?;
                auth = Some(value);
            } else {
                check_extension(key, value)?;
                extensions.insert(key.to_owned(), value.to_owned());
            }
        }
        Ok(Self {
            authzid: headed.authzid,
            token: token_of(auth.ok_or(malformed("it has no token"))?)?,
            extensions,
        })
    }

    /// Returns the message as bytes.
    pub fn encode(&self) -> Secret<Vec<u8>> {
        let bytes = self.bytes();
        // With room for all of it, so that it leaves no copies behind.
        let mut text = String::with_capacity(bytes);
        text.push_str(&self.header());
        text.push(SEPARATOR);
        text.extend([AUTH, "=", SCHEME, self.token.expose()]);
        text.push(SEPARATOR);
        for (key, value) in &self.extensions {
            text.extend([key.as_str(), "=", value.as_str()]);
            text.push(SEPARATOR);
        }
        text.push(SEPARATOR);
        assert!(text.len() == bytes, "the bytes were counted");
        Secret::new(text.into_bytes())
    }

    fn header(&self) -> Cow<'static, str> {
        let named = |authzid| Cow::Owned(format!("n,a={},", encoded(authzid)));
        self.authzid.as_deref().map_or(HEADER.into(), named)
    }

    /// Returns the bytes of the message: keys, values, their equals signs, a separator after each
    /// and two more.
    fn bytes(&self) -> usize {
        let auth = AUTH.len() + SCHEME.len() + self.token.expose().len();
        let extensions = self.extensions.iter();
        let extensions = extensions.map(|(key, value)| key.len().saturating_add(value.len()));
        let pairs = extensions.chain([auth]);
        let pairs = pairs.fold(0_usize, |sum, pair| {
            sum.saturating_add(pair).saturating_add(2)
        });
        pairs.saturating_add(self.header().len() + 2)
    }

    /// Returns the token.
    pub fn token(&self) -> &Secret<String> {
        &self.token
    }

    /// Returns the extensions.
    pub fn extensions(&self) -> &BTreeMap<String, String> {
        &self.extensions
    }

    /// Ends the exchange of a token that belongs to `principal`: the answer is empty.
    pub fn accept(self, principal: &str) -> Result<(), Refusal> {
        let is_other = self.authzid.is_some_and(|authzid| authzid != principal);
        (!is_other).then_some(()).ok_or(Refusal::OtherIdentity)
    }

    /// Answers a token that is not accepted.
    pub fn reject(self) -> (RejectedLogin, &'static [u8]) {
        (RejectedLogin(()), INVALID_TOKEN.as_bytes())
    }
}

/// A server that waits until the client has confirmed the error.
#[derive(Debug)]
pub struct RejectedLogin(());

impl RejectedLogin {
    /// Ends the exchange, whatever the client says.
    pub fn finish(self, bytes: &[u8]) -> Refusal {
        match bytes {
            [CONFIRMATION] => Refusal::Token,
            _ => malformed("it is not the confirmation of an error"),
        }
    }
}

/// What a client does next, once it has sent its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing: the token is accepted.
    Accepted,
    /// It sends [`CONFIRMATION`], and the exchange ends with [`Refusal::Token`].
    Confirm,
}

/// Reads the answer of the server.
pub fn answered(bytes: &[u8]) -> Step {
    if bytes.is_empty() {
        Step::Accepted
    } else {
        Step::Confirm
    }
}

/// Returns the token of `Bearer <token>`.
fn token_of(value: &str) -> Result<Secret<String>, Refusal> {
    let split = value.split_once(' ');
    let (scheme, rest) = split.ok_or(malformed("it has no scheme"))?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(malformed("its scheme is not Bearer"));
    }
    let token = rest.trim_start_matches(' ');
    check_token(token)?;
    Ok(Secret::new(token.to_owned()))
}

fn check_token(token: &str) -> Result<(), Refusal> {
    check_length("the token", token.len(), TOKEN_BYTES_MAX)?;
    let inner = token.trim_end_matches('=');
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~+/.".contains(&byte);
    if inner.is_empty() || !inner.bytes().all(is_of_token) {
        return Err(malformed("the token is not of the alphabet of tokens"));
    }
    Ok(())
}

fn check_extension(key: &str, value: &str) -> Result<(), Refusal> {
    let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic());
    if !is_key || key == AUTH {
        return Err(malformed("the key of an extension is not made of letters"));
    }
    check_value(value)
}

fn check_value(value: &str) -> Result<(), Refusal> {
    let is_of_value = |byte| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    if value.is_empty() || !value.bytes().all(is_of_value) {
        return Err(malformed("a value is empty or not printable"));
    }
    Ok(())
}

fn malformed(rule: &'static str) -> Refusal {
    Refusal::Malformed {
        message: MESSAGE,
        rule,
    }
}

#[cfg(test)]
mod tests;
