//! The four messages as text: attributes of a letter, `=` and a value, with commas between them.
//!
//! The parsers take what Kafka's take, apart from the differences of `scram.rs`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::nonce::is_nonce;
use super::{CLIENT_NONCE_BYTES_MAX, MESSAGE_BYTES_MAX, NONCE_BYTES_MAX, SALT_BYTES_MAX};
use crate::sasl::names::{HeadedMessage, decoded};
use crate::sasl::refusal::{check_length, text};
use crate::sasl::{Refusal, Secret};

const CLIENT_FIRST: &str = "the first message of the client";
const CLIENT_FINAL: &str = "the last message of the client";
const SERVER_FIRST: &str = "the first message of the server";
const SERVER_FINAL: &str = "the last message of the server";

/// The first message of a client.
#[derive(Clone, Debug)]
pub struct ClientFirst {
    /// The header, which the client repeats at the end.
    pub(super) header: String,
    /// What comes after the header.
    pub(super) bare: String,
    pub(super) name: String,
    pub(super) nonce: String,
}

impl ClientFirst {
    /// Reads the message.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let message = CLIENT_FIRST;
        let text = text(message, bytes, MESSAGE_BYTES_MAX)?;
        let headed = HeadedMessage::parse(message, text)?;
        let mut attributes = headed.rest.split(',');
        let name = decoded(message, attribute(message, attributes.next(), "n=")?)?;
        let nonce = nonce(message, attributes.next(), CLIENT_NONCE_BYTES_MAX)?;
        for extension in attributes {
            let (key, value) = extension_of(message, extension)?;
            // Kafka reads any other value as false.
            if key == "tokenauth" && value.eq_ignore_ascii_case("true") {
                return Err(Refusal::DelegationToken);
            }
        }
        if headed.authzid.is_some_and(|authzid| authzid != name) {
            return Err(Refusal::OtherIdentity);
        }
        Ok(Self {
            header: headed.header.to_owned(),
            bare: headed.rest.to_owned(),
            name,
            nonce: nonce.to_owned(),
        })
    }

    /// Returns the name of the user to look up, as the client sent it: it may hold any character
    /// but a NUL, among them those that move a terminal's cursor or end a line of a log.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The first message of a server.
#[derive(Debug)]
pub(super) struct ServerFirst<'a> {
    pub(super) text: &'a str,
    pub(super) nonce: &'a str,
    pub(super) salt: Vec<u8>,
    pub(super) iterations: u32,
}

impl<'a> ServerFirst<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let message = SERVER_FIRST;
        let malformed = |rule| Refusal::Malformed { message, rule };
        let text = text(message, bytes, MESSAGE_BYTES_MAX)?;
        let mut attributes = text.split(',');
        let nonce = nonce(message, attributes.next(), NONCE_BYTES_MAX)?;
        let salt = attribute(message, attributes.next(), "s=")?;
        let salt = base64(message, salt)?;
        check_length("the salt", salt.len(), SALT_BYTES_MAX)?;
        let iterations = attribute(message, attributes.next(), "i=")?;
        if !iterations.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed("the iterations are no number"));
        }
        let no_number = |_| malformed("the iterations are no number");
        let iterations = iterations.parse().map_err(no_number)?;
        for extension in attributes {
            extension_of(message, extension)?;
        }
        Ok(Self {
            text,
            nonce,
            salt,
            iterations,
        })
    }

    pub(super) fn written(nonce: &str, salt: &[u8], iterations: u32) -> String {
        format!(
            "r={nonce},s={},i={iterations}",
            BASE64_STANDARD.encode(salt)
        )
    }
}

/// The last message of a client.
#[derive(Debug)]
pub(super) struct ClientFinal<'a> {
    pub(super) without_proof: &'a str,
    /// The header that the client sent, as it says now.
    pub(super) header: Vec<u8>,
    pub(super) nonce: &'a str,
    pub(super) proof: Secret<Vec<u8>>,
}

impl<'a> ClientFinal<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let message = CLIENT_FINAL;
        let malformed = |rule| Refusal::Malformed { message, rule };
        let text = text(message, bytes, MESSAGE_BYTES_MAX)?;
        let without = text.rsplit_once(",p=");
        let (without_proof, proof) = without.ok_or(malformed("it has no proof at its end"))?;
        let mut attributes = without_proof.split(',');
        let header = attribute(message, attributes.next(), "c=")?;
        let header = base64(message, header)?;
        let nonce = nonce(message, attributes.next(), NONCE_BYTES_MAX)?;
        for extension in attributes {
            extension_of(message, extension)?;
        }
        Ok(Self {
            without_proof,
            header,
            nonce,
            proof: Secret::new(base64(message, proof)?),
        })
    }

    pub(super) fn written_without_proof(header: &str, nonce: &str) -> String {
        format!("c={},r={nonce}", BASE64_STANDARD.encode(header))
    }

    pub(super) fn written(without_proof: &str, proof: &[u8]) -> String {
        format!("{without_proof},p={}", BASE64_STANDARD.encode(proof))
    }
}

/// The last message of a server.
#[derive(Debug)]
pub(super) enum ServerFinal {
    Signature(Vec<u8>),
    Error(&'static str),
}

impl ServerFinal {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let message = SERVER_FINAL;
        let text = text(message, bytes, MESSAGE_BYTES_MAX)?;
        let mut attributes = text.split(',');
        let first = attributes.next();
        if let Some(error) = first.and_then(|first| first.strip_prefix("e=")) {
            return Ok(Self::Error(known_error(error)));
        }
        let signature = base64(message, attribute(message, first, "v=")?)?;
        for extension in attributes {
            extension_of(message, extension)?;
        }
        Ok(Self::Signature(signature))
    }

    pub(super) fn written(signature: &[u8]) -> String {
        format!("v={}", BASE64_STANDARD.encode(signature))
    }
}

/// Returns what both ends sign.
pub(super) fn signed(first_bare: &str, answer: &str, last_without_proof: &str) -> String {
    format!("{first_bare},{answer},{last_without_proof}")
}

/// Returns the error as one of those that RFC 5802 lists; the last one stands for all others.
fn known_error(error: &str) -> &'static str {
    const ERRORS: [&str; 11] = [
        "invalid-encoding",
        "extensions-not-supported",
        "invalid-proof",
        "channel-bindings-dont-match",
        "server-does-support-channel-binding",
        "channel-binding-not-supported",
        "unsupported-channel-binding-type",
        "unknown-user",
        "invalid-username-encoding",
        "no-resources",
        "other-error",
    ];
    let known = ERRORS.into_iter().find(|known| *known == error);
    known.unwrap_or("other-error")
}

/// Returns the value of the attribute that has to stand here.
fn attribute<'a>(
    message: &'static str,
    found: Option<&'a str>,
    name: &'static str,
) -> Result<&'a str, Refusal> {
    let rule = match name {
        "n=" => "it has no n= where it has to",
        "r=" => "it has no r= where it has to",
        "s=" => "it has no s= where it has to",
        "i=" => "it has no i= where it has to",
        "c=" => "it has no c= where it has to",
        _ => "it has no v= where it has to",
    };
    let value = found.and_then(|found| found.strip_prefix(name));
    value.ok_or(Refusal::Malformed { message, rule })
}

fn nonce<'a>(
    message: &'static str,
    found: Option<&'a str>,
    bytes_max: usize,
) -> Result<&'a str, Refusal> {
    let nonce = attribute(message, found, "r=")?;
    check_length("the nonce", nonce.len(), bytes_max)?;
    let rule = "the nonce is not printable";
    is_nonce(nonce)
        .then_some(nonce)
        .ok_or(Refusal::Malformed { message, rule })
}

/// Splits an extension: letters, `=`, and a value that is not empty. A client that sends `m` wants
/// to fail where it is not understood.
fn extension_of<'a>(message: &'static str, text: &'a str) -> Result<(&'a str, &'a str), Refusal> {
    let is_extension = |(key, value): &(&str, &str)| {
        let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic());
        is_key && !value.is_empty() && !value.contains('\0')
    };
    let malformed = |rule| Refusal::Malformed { message, rule };
    let split = text.split_once('=').filter(is_extension);
    let (key, value) = split.ok_or(malformed("what follows is no extension"))?;
    if key == "m" {
        return Err(malformed("it has a mandatory extension"));
    }
    Ok((key, value))
}

fn base64(message: &'static str, text: &str) -> Result<Vec<u8>, Refusal> {
    let rule = "a value is not base64";
    let decoded = BASE64_STANDARD.decode(text);
    decoded.map_err(|_| Refusal::Malformed { message, rule })
}
