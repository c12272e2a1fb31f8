//! Logs in by SASL: the handshake names the mechanism, then its messages go to and fro.
//!
//! PLAIN, SCRAM and OAUTHBEARER; the machines are `wire`'s. Invariant: an error tells what the
//! broker said, and never what was sent.

use std::time::Duration;

use bytes::Bytes;
use platform::clock::Instant;
use wire::StrBytes;
use wire::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use wire::sasl::oauthbearer::{self, InitialResponse, Step};
use wire::sasl::scram::{self, Nonce};
use wire::sasl::{Mechanism, Refusal, Secret, plain};
use wire::types::ErrorCode;

use super::opening::Early;
use super::versions::Versions;
use crate::ask::Ask;
use crate::error::{ClientError, check, shown};
use crate::settings::Login;

/// The newest version of the handshake; in version 0 the messages have no frames of their own.
const HANDSHAKE_VERSION: i16 = 1;
/// The longest lifetime of a login that is kept account of: a month.
const LIFETIME_MAX: Duration = Duration::from_hours(30 * 24);
/// The shortest time after which a connection is replaced: one that is too old at once would be
/// made again and again, and nothing be asked over it.
const LIFETIME_MIN: Duration = Duration::from_secs(1);

/// Logs in, with the token if the mechanism takes one; returns when a new connection should take
/// the place of this one, if the broker bounds the login's life.
pub(super) async fn log_in(
    early: &mut Early<'_>,
    versions: &Versions,
    (login, token): (&Login, Option<Secret<String>>),
    random: &dyn Fn() -> u64,
) -> Result<Option<Instant>, ClientError> {
    let mechanism = login.mechanism;
    let failed = |broker: &str, reason: String| ClientError::Login {
        broker: broker.to_owned(),
        mechanism: mechanism.name().to_owned(),
        reason,
    };
    handshake(early, versions, mechanism, failed).await?;
    let newest = <SaslAuthenticateRequest as Ask>::NEWEST;
    let api = <SaslAuthenticateRequest as Ask>::API;
    let version = versions.common(early.address, api, (0, newest))?;
    let address = early.address;
    let refused = |refusal: Refusal| failed(address, refusal.to_string());
    let last = match mechanism {
        Mechanism::Plain => {
            let message = plain::message(&login.user, &login.password).map_err(refused)?;
            let message = Bytes::copy_from_slice(message.expose());
            authenticate(early, version, message, failed).await?
        }
        Mechanism::Scram(hash) => {
            let nonce = Nonce::of_random(eighteen(random));
            let password = login.password.clone();
            let started = scram::Client::start(hash, &login.user, password, nonce);
            let (client, first) = started.map_err(refused)?;
            let challenge = authenticate(early, version, first.into(), failed).await?;
            let (proven, proof) = client.answer(&challenge.auth_bytes).map_err(refused)?;
            let last = authenticate(early, version, proof.into(), failed).await?;
            proven.finish(&last.auth_bytes).map_err(refused)?;
            last
        }
        Mechanism::Oauthbearer => {
            let token = token.unwrap_or_else(|| Secret::new(String::new()));
            let initial = InitialResponse::new(token, login.extensions.clone());
            let message = initial.map_err(refused)?.encode();
            let message = Bytes::copy_from_slice(message.expose());
            let answer = authenticate(early, version, message, failed).await?;
            match oauthbearer::answered(&answer.auth_bytes) {
                Step::Accepted => answer,
                Step::Confirm => {
                    // The broker answers this with the error.
                    let confirmation = Bytes::from_static(&[oauthbearer::CONFIRMATION]);
                    authenticate(early, version, confirmation, failed).await?;
                    return Err(refused(Refusal::Token));
                }
            }
        }
    };
    Ok(ends(last.session_lifetime_ms, Instant::now(), random()))
}

async fn handshake(
    early: &mut Early<'_>,
    versions: &Versions,
    mechanism: Mechanism,
    failed: impl Fn(&str, String) -> ClientError,
) -> Result<(), ClientError> {
    let api = <SaslHandshakeRequest as Ask>::API;
    let ours = (HANDSHAKE_VERSION, HANDSHAKE_VERSION);
    let version = versions.common(early.address, api, ours)?;
    let request =
        SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(mechanism.name()));
    let answer: SaslHandshakeResponse = early.ask(version, &request).await?;
    match check(answer.error_code, None) {
        Ok(()) => Ok(()),
        Err(refusal) if refusal.code == ErrorCode::UnsupportedSaslMechanism => {
            let served: Vec<_> = answer.mechanisms.iter().map(StrBytes::as_str).collect();
            let served = served.join(", ");
            let reason = format!("the broker serves {}", shown(&served));
            Err(failed(early.address, reason))
        }
        Err(refusal) if refusal.code == ErrorCode::IllegalSaslState => {
            let reason = "the listener wants no login: security.protocol is PLAINTEXT or SSL there";
            Err(failed(early.address, reason.to_owned()))
        }
        Err(refusal) => Err(failed(early.address, refusal.to_string())),
    }
}

async fn authenticate(
    early: &mut Early<'_>,
    version: i16,
    message: Bytes,
    failed: impl Fn(&str, String) -> ClientError,
) -> Result<SaslAuthenticateResponse, ClientError> {
    let request = SaslAuthenticateRequest::default().with_auth_bytes(message);
    let answer = early.ask(version, &request).await?;
    let refused = check(answer.error_code, answer.error_message.as_ref());
    refused.map_err(|refusal| failed(early.address, refusal.to_string()))?;
    Ok(answer)
}

/// Returns when to log in again: after 85 to 95 % of the login's life, so that many clients do not
/// come at once.
fn ends(lifetime_ms: i64, now: Instant, random: u64) -> Option<Instant> {
    let lifetime = Duration::from_millis(u64::try_from(lifetime_ms).ok()?);
    if lifetime.is_zero() || lifetime > LIFETIME_MAX {
        return None;
    }
    let share = 85 + u32::try_from(random % 11).unwrap_or(0);
    now.checked_add((lifetime * share / 100).max(LIFETIME_MIN))
}

fn eighteen(random: &dyn Fn() -> u64) -> [u8; 18] {
    let mut bytes = [0; 18];
    for part in bytes.chunks_mut(8) {
        for (to, from) in part.iter_mut().zip(random().to_ne_bytes()) {
            *to = from;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_ends_before_the_broker_ends_it() {
        let now = Instant::now();
        assert_eq!(ends(0, now, 3), None);
        assert_eq!(ends(-5, now, 3), None);
        assert_eq!(ends(i64::MAX, now, 3), None);
        let after = |random| ends(100_000, now, random).unwrap() - now;
        assert_eq!(after(0), Duration::from_secs(85));
        assert_eq!(after(10), Duration::from_secs(95));
        assert_eq!(ends(1, now, 0), Some(now + LIFETIME_MIN));
    }

    #[test]
    fn every_byte_of_a_nonce_is_random() {
        let bytes = eighteen(&|| u64::MAX);
        assert_eq!(bytes, [0xff; 18]);
    }
}
