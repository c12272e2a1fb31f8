//! The server's end. Its caller looks the user up between [`ClientFirst::parse`] and
//! [`Server::answer`].
//!
//! A login costs it three keyed hashes and those of a decoy, which are as many for every name.

use subtle::{Choice, ConstantTimeEq as _};

use super::credential::Credential;
use super::decoy::Decoy;
use super::keys::{ScramHash, combined};
use super::messages::{ClientFinal, ClientFirst, ServerFinal, ServerFirst, signed};
use super::nonce::Nonce;
use crate::sasl::Refusal;
use crate::sasl::names::HEADER;

/// A server that waits for the proof.
#[derive(Debug)]
pub struct Server {
    first: ClientFirst,
    /// Both parts.
    nonce: String,
    answer: String,
    credential: Credential,
    is_known: bool,
}

/// A client has proved who it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcceptedLogin {
    /// The name of the user.
    pub name: String,
    /// The last message, with which the server proves that it knows the user.
    pub reply: Vec<u8>,
}

impl Server {
    /// Answers the first message of a client. `known` is the credential of [`ClientFirst::name`]
    /// for this hash, and `None` for an unknown user.
    pub fn answer(
        hash: ScramHash,
        first: ClientFirst,
        nonce: Nonce,
        known: Option<&Credential>,
        decoy: &Decoy,
    ) -> (Self, Vec<u8>) {
        // For known users too: it takes time.
        let pretended = decoy.credential(hash, first.name());
        // A user that is not there fails at the end, like a wrong password.
        let credential = known.unwrap_or(&pretended).clone();
        assert!(
            credential.hash() == hash,
            "a credential is looked up by its hash"
        );
        let nonce = format!("{}{}", first.nonce, nonce.into_text());
        let answer = ServerFirst::written(&nonce, credential.salt(), credential.iterations());
        let bytes = answer.clone().into_bytes();
        let server = Self {
            first,
            nonce,
            answer,
            credential,
            is_known: known.is_some(),
        };
        (server, bytes)
    }

    /// Returns the hash of the mechanism.
    pub fn hash(&self) -> ScramHash {
        self.credential.hash()
    }

    /// Checks the proof of the client.
    pub fn finish(self, bytes: &[u8]) -> Result<AcceptedLogin, Refusal> {
        let last = ClientFinal::parse(bytes)?;
        // Some clients name themselves in the header, and leave the name out when they repeat it.
        // Both say the same: the name there could only be that of the user.
        let is_repeated = |header: &str| last.header == header.as_bytes();
        if !is_repeated(&self.first.header) && !is_repeated(HEADER) {
            return Err(Refusal::ChannelBinding);
        }
        if last.nonce != self.nonce {
            return Err(Refusal::Nonce);
        }
        let hash = self.credential.hash();
        if last.proof.expose().len() != hash.bytes() {
            return Err(Refusal::Credentials);
        }
        let keys = self.credential.keys();
        let signed = signed(&self.first.bare, &self.answer, last.without_proof);
        let signature = hash.hmac(keys.stored.expose(), &[signed.as_bytes()]);
        let client_key = combined(signature.expose(), last.proof.expose());
        let stored = hash.digest(client_key.expose());
        let is_equal = stored.expose().ct_eq(keys.stored.expose());
        let is_known = Choice::from(u8::from(self.is_known));
        if !bool::from(is_equal & is_known) {
            return Err(Refusal::Credentials);
        }
        let proof = hash.hmac(keys.server.expose(), &[signed.as_bytes()]);
        Ok(AcceptedLogin {
            name: self.first.name,
            reply: ServerFinal::written(proof.expose()).into_bytes(),
        })
    }
}
