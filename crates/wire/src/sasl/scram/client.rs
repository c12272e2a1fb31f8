//! The client's end, which trusts no server: what it spends is bounded, and it is done only when
//! the server has shown that it knows the user.

use subtle::ConstantTimeEq as _;

use super::keys::{Keys, ScramHash, client_key, combined};
use super::messages::{ClientFinal, ServerFinal, ServerFirst, signed};
use super::nonce::Nonce;
use super::{CLIENT_ITERATIONS_MAX, ITERATIONS_MIN};
use crate::sasl::names::{HEADER, check_name, encoded};
use crate::sasl::{Refusal, Secret};

/// A client that waits for the salt.
#[derive(Debug)]
pub struct Client {
    hash: ScramHash,
    password: Secret<String>,
    bare: String,
    nonce: String,
}

/// A client that has sent its proof and waits for that of the server.
#[derive(Debug)]
pub struct ProvenClient {
    signature: Secret<Vec<u8>>,
}

impl Client {
    /// Returns the first message.
    pub fn start(
        hash: ScramHash,
        name: &str,
        password: Secret<String>,
        nonce: Nonce,
    ) -> Result<(Self, Vec<u8>), Refusal> {
        check_name("the first message of the client", name)?;
        let nonce = nonce.into_text();
        let bare = format!("n={},r={nonce}", encoded(name));
        let bytes = format!("{HEADER}{bare}").into_bytes();
        let client = Self {
            hash,
            password,
            bare,
            nonce,
        };
        Ok((client, bytes))
    }

    /// Answers the first message of the server with a proof. It takes milliseconds, and up to
    /// [`CLIENT_ITERATIONS_MAX`] iterations where the server wants them.
    pub fn answer(self, bytes: &[u8]) -> Result<(ProvenClient, Vec<u8>), Refusal> {
        let first = ServerFirst::parse(bytes)?;
        let added = first.nonce.strip_prefix(&self.nonce);
        if added.is_none_or(str::is_empty) {
            return Err(Refusal::Nonce);
        }
        let (min, max) = (ITERATIONS_MIN, CLIENT_ITERATIONS_MAX);
        if !(min..=max).contains(&first.iterations) {
            return Err(Refusal::Iterations {
                iterations: first.iterations,
                min,
                max,
            });
        }
        let hash = self.hash;
        let password = self.password.expose().as_bytes();
        let salted = hash.salted(password, &first.salt, first.iterations);
        let keys = Keys::of_salted(hash, salted.expose());
        let without_proof = ClientFinal::written_without_proof(HEADER, first.nonce);
        let signed = signed(&self.bare, first.text, &without_proof);
        let signature = hash.hmac(keys.stored.expose(), &[signed.as_bytes()]);
        let proof = combined(
            client_key(hash, salted.expose()).expose(),
            signature.expose(),
        );
        let bytes = ClientFinal::written(&without_proof, proof.expose()).into_bytes();
        let signature = hash.hmac(keys.server.expose(), &[signed.as_bytes()]);
        Ok((ProvenClient { signature }, bytes))
    }
}

impl ProvenClient {
    /// Checks the last message of the server. Without it the client does not know who the server
    /// is.
    pub fn finish(self, bytes: &[u8]) -> Result<(), Refusal> {
        match ServerFinal::parse(bytes)? {
            ServerFinal::Error(error) => Err(Refusal::ByServer { error }),
            ServerFinal::Signature(given) => {
                let is_equal = given.ct_eq(self.signature.expose());
                bool::from(is_equal)
                    .then_some(())
                    .ok_or(Refusal::ServerSignature)
            }
        }
    }
}
