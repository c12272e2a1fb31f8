//! SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): a client proves that it knows a password,
//! and the server that it knows the user, without either sending it.
//!
//! ```text
//! client                                     server
//!   Client::start  -- n,,n=ada,r=<nonce> -->   ClientFirst::parse
//!   Client::answer <-- r=,s=<salt>,i=4096 --   Server::answer      the caller has looked ada up
//!   Proven         -- c=,r=,p=<proof> ------>  Server::finish
//!   Proven::finish <-- v=<signature> --------  Accepted
//! ```
//!
//! As in Kafka: names and passwords are UTF-8 bytes as they are (no `SASLprep`), no channel
//! binding, unknown extensions are ignored, and the server never derives keys from a password.
//!
//! Unlike Kafka:
//! - An unknown user gets a salt like that of others, the same every time, and fails at the end
//!   (`decoy.rs` says what remains to tell them apart). Kafka fails at once.
//! - Names are UTF-8 and not only ASCII; an authorization id is compared unescaped.
//! - What the client says about channel binding at the end has to be what it said at the beginning,
//!   as the RFC has it, or `n,,` where it began with its own name. Signatures cover messages as
//!   they were sent, not as they are encoded again.
//! - The attribute `m=` (a mandatory extension) is refused wherever it stands, as the RFC has it;
//!   base64 has one form.
//! - A client spends a bounded number of iterations, and wants a part of the nonce to be the
//!   server's.

mod client;
mod credential;
mod decoy;
mod keys;
mod messages;
mod nonce;
mod salt;
mod server;

pub use client::{Client, ProvenClient};
pub use credential::{Credential, CredentialError};
pub use decoy::Decoy;
pub use keys::{Keys, ScramHash};
pub use messages::ClientFirst;
pub use nonce::Nonce;
pub use salt::salt;
pub use server::{AcceptedLogin, Server};

use super::Secret;

/// Returns the salted password that a client sends to a broker which is to store a credential. It
/// takes milliseconds, and as many iterations as the caller says: a server calls this off its
/// shards only, with the iterations of a stored credential.
pub fn salted_password(
    hash: ScramHash,
    password: &Secret<String>,
    salt: &[u8],
    iterations: u32,
) -> Secret<Vec<u8>> {
    hash.salted(password.expose().as_bytes(), salt, iterations)
}

/// The fewest iterations of a credential, and the fewest that a client accepts.
pub const ITERATIONS_MIN: u32 = 4096;
/// The most iterations of a credential that a client sets. One that was stored elsewhere may have
/// more.
pub const ITERATIONS_MAX: u32 = 16_384;
/// The most iterations that a client spends on a server, which may be another that allows more.
pub const CLIENT_ITERATIONS_MAX: u32 = 1 << 18;
/// The most bytes of a salt.
pub const SALT_BYTES_MAX: usize = 1024;
/// The most bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// The most bytes of a nonce.
const NONCE_BYTES_MAX: usize = 1024;
/// The most bytes of the client's part of it.
const CLIENT_NONCE_BYTES_MAX: usize = 512;

const _: () = assert!(
    ITERATIONS_MIN < ITERATIONS_MAX && ITERATIONS_MAX < CLIENT_ITERATIONS_MAX,
    "a client accepts every credential that somebody may set"
);
const _: () = assert!(
    CLIENT_NONCE_BYTES_MAX + nonce::BYTES <= NONCE_BYTES_MAX,
    "a server reads the nonce that it made longer"
);
const _: () = assert!(
    6 * crate::sasl::names::NAME_BYTES_MAX + 2 * NONCE_BYTES_MAX < MESSAGE_BYTES_MAX,
    "a message has room for its parts, with every character of both names escaped"
);

#[cfg(test)]
mod tests;
