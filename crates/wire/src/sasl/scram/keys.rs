//! The functions of RFC 5802 over the two hashes, and the keys that a server keeps.

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::{Digest as _, Sha256, Sha512};
use zeroize::Zeroize as _;

use crate::sasl::Secret;

/// The hash of a mechanism.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScramHash {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl ScramHash {
    /// Returns the code that requests and metadata records have for the mechanism with this hash.
    pub fn code(self) -> i8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha512 => 2,
        }
    }

    /// Returns the hash of the mechanism with this code.
    pub fn from_code(code: i8) -> Option<Self> {
        [Self::Sha256, Self::Sha512]
            .into_iter()
            .find(|one| one.code() == code)
    }

    /// Returns the bytes of a hash, of a key and of a proof.
    pub fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// Returns the hash of a key.
    pub(super) fn digest(self, key: &[u8]) -> Secret<Vec<u8>> {
        Secret::new(match self {
            Self::Sha256 => taken(&mut Sha256::digest(key)),
            Self::Sha512 => taken(&mut Sha512::digest(key)),
        })
    }

    /// Returns the keyed hash of the parts, one after the other.
    pub(in crate::sasl) fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Secret<Vec<u8>> {
        let keyed = match self {
            Self::Sha256 => keyed::<Hmac<Sha256>>(key, parts),
            Self::Sha512 => keyed::<Hmac<Sha512>>(key, parts),
        };
        assert!(keyed.len() == self.bytes(), "HMAC is as long as its hash");
        Secret::new(keyed)
    }

    /// Returns the salted password (PBKDF2). It takes milliseconds: no server calls this.
    pub(super) fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Secret<Vec<u8>> {
        Secret::new(match self {
            Self::Sha256 => salted::<Hmac<Sha256>>(password, salt, iterations),
            Self::Sha512 => salted::<Hmac<Sha512>>(password, salt, iterations),
        })
    }
}

fn keyed<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("a key may have any length");
    for part in parts {
        mac.update(part);
    }
    taken(&mut mac.finalize().into_bytes())
}

/// Returns a copy of the bytes, which are overwritten where they are.
fn taken(bytes: &mut [u8]) -> Vec<u8> {
    let copy = bytes.to_vec();
    bytes.zeroize();
    copy
}

fn salted<M: Mac + KeyInit + Clone>(password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
    // The key is hashed once and not in every round.
    let keyed = <M as KeyInit>::new_from_slice(password).expect("a key may have any length");
    let mut mac = keyed.clone();
    mac.update(salt);
    mac.update(&1_u32.to_be_bytes());
    let mut last = mac.finalize().into_bytes();
    let mut salted = last.to_vec();
    for _ in 1..iterations {
        let mut mac = keyed.clone();
        mac.update(&last);
        last = mac.finalize().into_bytes();
        for (to, from) in salted.iter_mut().zip(&last) {
            *to ^= from;
        }
    }
    last.as_mut_slice().zeroize();
    salted
}

/// What a server keeps of a password. Who has them can answer clients as a server, but cannot log
/// in.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The hash of the key with which a client proves that it knows the password.
    pub stored: Secret<Vec<u8>>,
    /// The key with which a server proves that it knows the user.
    pub server: Secret<Vec<u8>>,
}

impl Keys {
    /// Derives the keys from a salted password.
    pub fn of_salted(hash: ScramHash, salted: &[u8]) -> Self {
        Self {
            stored: hash.digest(client_key(hash, salted).expose()),
            server: hash.hmac(salted, &[b"Server Key"]),
        }
    }
}

/// Returns the key with which a client proves that it knows the password.
pub(super) fn client_key(hash: ScramHash, salted: &[u8]) -> Secret<Vec<u8>> {
    hash.hmac(salted, &[b"Client Key"])
}

/// Returns both combined: a key and a signature make a proof, a proof and the signature the key.
pub(super) fn combined(one: &[u8], other: &[u8]) -> Secret<Vec<u8>> {
    assert!(
        one.len() == other.len(),
        "keys, signatures and proofs have one length"
    );
    Secret::new(
        one.iter()
            .zip(other)
            .map(|(one, other)| one ^ other)
            .collect(),
    )
}
