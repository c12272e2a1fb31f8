//! What a server knows of a user, and what it pretends to know of one who does not exist.

use super::keys::{Keys, ScramHash};
use super::{ITERATIONS_MAX, ITERATIONS_MIN, SALT_BYTES_MAX};
use crate::sasl::Secret;

/// What a server knows of a user.
#[derive(Clone, Debug)]
pub struct Credential {
    hash: ScramHash,
    salt: Vec<u8>,
    iterations: u32,
    keys: Keys,
}

/// The reason why values make no credential.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// Too few iterations to be safe.
    #[error("{iterations} iterations, at least {} are needed", ITERATIONS_MIN)]
    TooFewIterations {
        /// So many.
        iterations: i64,
    },
    /// More iterations than anybody may set.
    #[error("{iterations} iterations, at most {} are allowed", ITERATIONS_MAX)]
    TooManyIterations {
        /// So many.
        iterations: i64,
    },
    /// A salt that is too long.
    #[error("a salt of {bytes} bytes, at most {} are allowed", SALT_BYTES_MAX)]
    Salt {
        /// Its bytes.
        bytes: usize,
    },
    /// A salted password of another hash, or of none.
    #[error("a salted password of {bytes} bytes instead of {expected}")]
    SaltedPassword {
        /// Its bytes.
        bytes: usize,
        /// Those of the hash.
        expected: usize,
    },
    /// A key of another hash.
    #[error("a key of {bytes} bytes instead of {expected}")]
    Key {
        /// Its bytes.
        bytes: usize,
        /// Those of the hash.
        expected: usize,
    },
    /// No salt.
    #[error("the salt is empty")]
    NoSalt,
    /// No password.
    #[error("the password is empty")]
    NoPassword,
}

impl Credential {
    /// Takes what was stored.
    pub fn new(
        hash: ScramHash,
        salt: &[u8],
        iterations: i32,
        keys: Keys,
    ) -> Result<Self, CredentialError> {
        let iterations = allowed(iterations.into())?;
        check_salt(salt)?;
        let expected = hash.bytes();
        for key in [&keys.stored, &keys.server] {
            let bytes = key.expose().len();
            if bytes != expected {
                return Err(CredentialError::Key { bytes, expected });
            }
        }
        Ok(Self {
            hash,
            salt: salt.to_vec(),
            iterations,
            keys,
        })
    }

    /// Takes what a client has derived from a password, for a broker that stores it. The salt may
    /// be empty, as in Kafka.
    pub fn of_salted(
        hash: ScramHash,
        salt: &[u8],
        iterations: i32,
        salted: &[u8],
    ) -> Result<Self, CredentialError> {
        let iterations = allowed(iterations.into())?;
        check_salt(salt)?;
        let (bytes, expected) = (salted.len(), hash.bytes());
        if bytes != expected {
            // Keys of an empty one, for example, are known to everybody.
            return Err(CredentialError::SaltedPassword { bytes, expected });
        }
        Ok(Self {
            hash,
            salt: salt.to_vec(),
            iterations,
            keys: Keys::of_salted(hash, salted),
        })
    }

    /// Derives a credential from a password, for tools that store one. It takes milliseconds: no
    /// server calls this.
    pub fn derive(
        hash: ScramHash,
        password: &Secret<String>,
        salt: &[u8],
        iterations: u32,
    ) -> Result<Self, CredentialError> {
        let iterations = allowed(iterations.into())?;
        check_salt(salt)?;
        if salt.is_empty() {
            return Err(CredentialError::NoSalt);
        }
        let password = password.expose().as_bytes();
        if password.is_empty() {
            return Err(CredentialError::NoPassword);
        }
        let salted = hash.salted(password, salt, iterations);
        Ok(Self {
            hash,
            salt: salt.to_vec(),
            iterations,
            keys: Keys::of_salted(hash, salted.expose()),
        })
    }

    /// Returns the hash of its mechanism.
    pub fn hash(&self) -> ScramHash {
        self.hash
    }

    /// Returns the salt.
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// Returns the number of iterations.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Returns the keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }
}

/// Returns the number of iterations, if somebody may set so many.
fn allowed(iterations: i64) -> Result<u32, CredentialError> {
    let enough = enough(iterations)?;
    if enough > ITERATIONS_MAX {
        return Err(CredentialError::TooManyIterations { iterations });
    }
    Ok(enough)
}

/// Returns the number of iterations, if it is safe.
fn enough(iterations: i64) -> Result<u32, CredentialError> {
    if iterations < i64::from(ITERATIONS_MIN) {
        return Err(CredentialError::TooFewIterations { iterations });
    }
    u32::try_from(iterations).map_err(|_| CredentialError::TooManyIterations { iterations })
}

fn check_salt(salt: &[u8]) -> Result<(), CredentialError> {
    let bytes = salt.len();
    if bytes > SALT_BYTES_MAX {
        return Err(CredentialError::Salt { bytes });
    }
    Ok(())
}

/// Makes credentials of users who do not exist: with a salt that looks like others, and is the same
/// whenever somebody asks.
#[derive(Clone, Debug)]
pub struct Decoy {
    secret: Secret<[u8; 32]>,
    iterations: u32,
}

impl Decoy {
    /// Takes a secret that is random, and lasts as long as salts of users do; and a number of
    /// iterations, which should be that of most users.
    pub fn new(secret: [u8; 32], iterations: u32) -> Self {
        assert!(
            (ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations),
            "a decoy looks like a credential"
        );
        Self {
            secret: Secret::new(secret),
            iterations,
        }
    }

    /// Returns the credential of somebody who does not exist. No password belongs to its keys.
    pub(super) fn credential(&self, hash: ScramHash, name: &str) -> Credential {
        let secret = self.secret.expose();
        let of_hash = [hash.code().unsigned_abs()];
        let random = ScramHash::Sha512.hmac(secret, &[&of_hash, name.as_bytes()]);
        let of_salt = random.expose().first_chunk::<17>();
        let key = hash.hmac(secret, &[b"key", random.expose()]);
        Credential {
            hash,
            salt: salt(*of_salt.expect("a hash of 64 bytes")),
            iterations: self.iterations,
            keys: Keys {
                stored: key.clone(),
                server: key,
            },
        }
    }
}

/// Returns a new salt, made of 17 random bytes, of the form that Kafka's tools give theirs: a
/// number of 130 bits with base 36. The salts of all users look alike then, those who do not exist
/// included.
pub fn salt(random: [u8; 17]) -> Vec<u8> {
    let mut number = random;
    let [first, ..] = &mut number;
    *first &= 0b11;
    let mut digits = Vec::with_capacity(26);
    loop {
        let mut rest = 0;
        for byte in &mut number {
            let here = rest * 256 + u32::from(*byte);
            *byte = u8::try_from(here / 36).expect("the rest is less than 36");
            rest = here % 36;
        }
        let digit = char::from_digit(rest, 36).and_then(|digit| u8::try_from(digit).ok());
        digits.push(digit.expect("the rest is less than 36"));
        if number.iter().all(|byte| *byte == 0) {
            break;
        }
    }
    assert!(
        digits.len() <= 26,
        "36 to the power of 26 is more than 130 bits"
    );
    digits.reverse();
    digits
}
