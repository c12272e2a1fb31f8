//! Where a client gets its token for OAUTHBEARER: a file, the environment, or an identity provider
//! that is asked with the client's own credentials (RFC 6749, 4.4).
//!
//! A file and the environment are read at each login, so a renewed token is taken. What a provider
//! gives is kept for four fifths of its life, or until a broker refuses it. Invariant: no error and
//! no `Debug` output shows a token or the credentials for one.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use platform::bounded;
use platform::clock::Instant;
use platform::net::TcpNet;
use platform::task::timeout_at;
use wire::sasl::Secret;
use wire::sasl::oauthbearer::TOKEN_BYTES_MAX;

use crate::error::ClientError;
use crate::http::{self, HttpContent, HttpError, HttpUrl};
use crate::settings::Tls;
use crate::transport::Dial;

/// The setting of Java's clients that names a file or a provider.
pub(crate) const URL: &str = "sasl.oauthbearer.token.endpoint.url";
/// Longest file, and longest answer of a provider: a token and what is around it.
const ANSWER_BYTES_MAX: usize = 2 * TOKEN_BYTES_MAX;

/// Where a token is.
#[derive(Clone, Debug)]
pub enum TokenSource {
    /// In a file.
    File(PathBuf),
    /// In a variable of the environment.
    Environment(String),
    /// At a provider.
    Provider(Arc<TokenProvider>),
}

/// An identity provider, and the credentials of this client there.
#[derive(Debug)]
pub struct TokenProvider {
    url: HttpUrl,
    authorization: Secret<String>,
    scope: Option<String>,
    tls: Option<Tls>,
    kept: Mutex<Option<KeptToken>>,
}

#[derive(Clone, Debug)]
struct KeptToken {
    token: Secret<String>,
    until: Instant,
}

impl TokenProvider {
    /// A provider at this address, where the client has this id and secret.
    pub(crate) fn new(
        url: HttpUrl,
        (id, secret): (&str, &Secret<String>),
        scope: Option<String>,
        tls: Option<Tls>,
    ) -> Self {
        let pair = Secret::new(format!("{id}:{}", secret.expose()));
        let basic = format!("Basic {}", STANDARD.encode(pair.expose()));
        Self {
            url,
            authorization: Secret::new(basic),
            scope,
            tls,
            kept: Mutex::default(),
        }
    }

    async fn token(
        &self,
        dial: &dyn Dial,
        deadline: Instant,
    ) -> Result<Secret<String>, ClientError> {
        if let Some(kept) = self.kept(Instant::now()) {
            return Ok(kept);
        }
        let asking = async {
            let url = &self.url;
            let stream = dial.dial(url.host(), url.port(), deadline).await;
            let stream = stream.map_err(|error| HttpError::Connection {
                what: "connecting",
                reason: error.to_string(),
            })?;
            let content = HttpContent::Form {
                authorization: self.authorization.clone(),
                fields: self.fields(),
            };
            http::ask_over(stream, url, &content, self.tls.as_ref(), ANSWER_BYTES_MAX).await
        };
        let asked = timeout_at(deadline, asking).await;
        let answer = asked.unwrap_or(Err(HttpError::Late));
        let wrong = |why: String| {
            ClientError::invalid(
                URL,
                format!("no token comes from {}: {why}", self.url.authority()),
            )
        };
        let answer = Secret::new(answer.map_err(|error| wrong(error.to_string()))?);
        let (token, life) = granted(answer.expose()).map_err(|why| wrong(why.to_owned()))?;
        let until = Instant::now().checked_add(life * 4 / 5);
        if let Some(until) = until {
            let kept = KeptToken {
                token: token.clone(),
                until,
            };
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        }
        Ok(token)
    }

    fn kept(&self, now: Instant) -> Option<Secret<String>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.as_ref().filter(|kept| kept.until > now);
        kept.map(|kept| kept.token.clone())
    }

    /// Forgets the token that is kept, if it is this one.
    fn forget(&self, token: &Secret<String>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take_if(|kept| kept.token == *token);
    }

    fn fields(&self) -> String {
        let mut fields = "grant_type=client_credentials".to_owned();
        if let Some(scope) = &self.scope {
            fields.push_str("&scope=");
            fields.push_str(&encoded(scope));
        }
        fields
    }
}

impl TokenSource {
    /// Returns the token, by TCP if it has to be asked for.
    pub async fn token(&self, deadline: Instant) -> Result<Secret<String>, ClientError> {
        self.token_by(&TcpNet, deadline).await
    }

    /// Notes that a broker has not accepted this token: the next login asks for another, since the
    /// keys of the provider, or a clock, may have changed in the life that it was given.
    pub fn refused(&self, token: &Secret<String>) {
        if let Self::Provider(provider) = self {
            provider.forget(token);
        }
    }

    pub(crate) async fn token_by(
        &self,
        dial: &dyn Dial,
        deadline: Instant,
    ) -> Result<Secret<String>, ClientError> {
        match self {
            Self::File(path) => {
                let wrong = |why: String| {
                    ClientError::invalid(
                        "the file of the token",
                        format!("{}: {why}", path.display()),
                    )
                };
                let bytes = bounded::file(path, ANSWER_BYTES_MAX as u64);
                let bytes = Secret::new(bytes.map_err(|error| wrong(error.to_string()))?);
                let text = std::str::from_utf8(bytes.expose());
                let text = text
                    .map_err(|_| wrong("it is not UTF-8".to_owned()))?
                    .trim();
                if text.is_empty() {
                    return Err(wrong("it is empty".to_owned()));
                }
                Ok(Secret::new(text.to_owned()))
            }
            Self::Environment(name) => {
                let value = std::env::var(name).ok().map(Secret::new);
                let value = value.filter(|value| !value.expose().trim().is_empty());
                let value = value.ok_or_else(|| {
                    ClientError::invalid(
                        "token.env",
                        format!("{name} is not set in the environment"),
                    )
                })?;
                Ok(Secret::new(value.expose().trim().to_owned()))
            }
            Self::Provider(provider) => provider.token(dial, deadline).await,
        }
    }
}

/// Returns whose a token says that it is, by its claim `sub`. Only the broker knows whether that is
/// true, and may read the name from another claim.
pub fn subject(token: &Secret<String>) -> Option<String> {
    let claims = token.expose().split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    claims.get("sub")?.as_str().map(str::to_owned)
}

/// Reads the answer of a provider: a token, and how long it lasts.
fn granted(answer: &[u8]) -> Result<(Secret<String>, Duration), &'static str> {
    let answer: serde_json::Value =
        serde_json::from_slice(answer).map_err(|_| "the answer is no JSON")?;
    let token = answer.get("access_token").and_then(|token| token.as_str());
    let token = token.filter(|token| !token.is_empty());
    let token = token.ok_or("the answer has no access_token")?;
    let seconds = answer.get("expires_in").and_then(serde_json::Value::as_u64);
    // Not kept, if it is not said for how long.
    let life = Duration::from_secs(seconds.unwrap_or(0).min(u64::from(u32::MAX)));
    Ok((Secret::new(token.to_owned()), life))
}

/// Encodes a value of a form.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push('+'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => {
                encoded.push(char::from(byte));
            }
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                let digit = |at: u8| char::from(DIGITS[usize::from(at & 15)]);
                encoded.extend(['%', digit(byte >> 4), digit(byte)]);
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests;
