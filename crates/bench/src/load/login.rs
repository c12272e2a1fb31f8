//! Logs a connection in by SASL: PLAIN, SCRAM and OAUTHBEARER, whose machines are `wire`'s.
//!
//! Invariant: an error tells what the broker said, and never what was sent.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use client::settings::Login;
use platform::clock::Instant;
use wire::StrBytes;
use wire::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use wire::sasl::oauthbearer::{self, InitialResponse, Step};
use wire::sasl::scram::{self, Nonce};
use wire::sasl::{Mechanism, plain};
use wire::text::EscapedText;

use super::client::{Client, said};

/// How long an identity provider may take.
const TOKEN_WITHIN: Duration = Duration::from_secs(5);

/// Versions of the two requests: with frames for each message, and with an error's text.
const HANDSHAKE_VERSION: i16 = 1;
const AUTHENTICATE_VERSION: i16 = 2;

/// Logs in.
pub(super) async fn log_in(client: &mut Client, login: &Login) -> anyhow::Result<()> {
    let mechanism = login.mechanism;
    let by = || format!("login by {}", mechanism.name());
    exchange(client, login).await.with_context(by)
}

async fn exchange(client: &mut Client, login: &Login) -> anyhow::Result<()> {
    let mechanism = login.mechanism;
    let request =
        SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(mechanism.name()));
    let version = client.version::<SaslHandshakeRequest>(HANDSHAKE_VERSION)?;
    ensure!(
        version == HANDSHAKE_VERSION,
        "the broker knows no frames for logins"
    );
    let answer = client.ask(version, &request).await?;
    if answer.error_code != 0 {
        let served: Vec<_> = answer.mechanisms.iter().map(StrBytes::as_str).collect();
        let served = served.join(", ");
        let error = said(answer.error_code);
        bail!("{error}: the broker serves {}", EscapedText(&served));
    }
    match mechanism {
        Mechanism::Plain => {
            let message = plain::message(&login.user, &login.password)?;
            send(client, Bytes::copy_from_slice(message.expose())).await?;
        }
        Mechanism::Scram(hash) => {
            let nonce = Nonce::of_random(random());
            let password = login.password.clone();
            let (machine, first) = scram::Client::start(hash, &login.user, password, nonce)?;
            let challenge = send(client, first.into()).await?;
            let (proven, proof) = machine.answer(&challenge)?;
            let last = send(client, proof.into()).await?;
            proven.finish(&last)?;
        }
        Mechanism::Oauthbearer => {
            let source = login.token.as_ref().context("there is no token")?;
            let token = source.token(Instant::now() + TOKEN_WITHIN).await?;
            let initial = InitialResponse::new(token.clone(), login.extensions.clone())?;
            let message = Bytes::copy_from_slice(initial.encode().expose());
            if oauthbearer::answered(&send(client, message).await?) == Step::Confirm {
                source.refused(&token);
                send(client, Bytes::from_static(&[oauthbearer::CONFIRMATION])).await?;
                bail!("the token is not accepted");
            }
        }
    }
    Ok(())
}

async fn send(client: &mut Client, message: Bytes) -> anyhow::Result<Bytes> {
    let version = client.version::<SaslAuthenticateRequest>(AUTHENTICATE_VERSION)?;
    let request = SaslAuthenticateRequest::default().with_auth_bytes(message);
    let answer = client.ask(version, &request).await?;
    if answer.error_code != 0 {
        let words = answer.error_message.as_ref().map_or("", StrBytes::as_str);
        bail!("{}: {}", said(answer.error_code), EscapedText(words));
    }
    Ok(answer.auth_bytes)
}

fn random() -> [u8; 18] {
    let mut bytes = [0; 18];
    for part in bytes.chunks_mut(8) {
        let word = platform::os::random_u64().to_ne_bytes();
        for (to, from) in part.iter_mut().zip(word) {
            *to = from;
        }
    }
    bytes
}
