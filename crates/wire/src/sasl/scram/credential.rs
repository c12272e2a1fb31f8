//! What a server knows of a user.
//!
//! Kafka logs users in with as many iterations as were stored, and so does this module: only who
//! sets a credential is held to [`ITERATIONS_MAX`]. A server derives no keys from passwords, so the
//! number costs clients alone.

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
        /// Their number.
        iterations: i64,
    },
    /// More iterations than a client may set.
    #[error("{iterations} iterations, at most {} are allowed", ITERATIONS_MAX)]
    TooManyIterations {
        /// Their number.
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
    /// Takes what was stored, by whichever broker or tool.
    pub fn new(
        hash: ScramHash,
        salt: &[u8],
        iterations: i32,
        keys: Keys,
    ) -> Result<Self, CredentialError> {
        let iterations = enough(iterations.into())?;
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
            // Any peer can compute the keys of an empty one, for example.
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

    /// Returns a credential to which no password belongs.
    pub(super) fn of_nobody(
        hash: ScramHash,
        salt: Vec<u8>,
        iterations: u32,
        key: Secret<Vec<u8>>,
    ) -> Self {
        assert!(
            salt.len() <= SALT_BYTES_MAX && iterations >= ITERATIONS_MIN,
            "a decoy looks like a credential"
        );
        assert!(
            key.expose().len() == hash.bytes(),
            "a decoy is checked like a credential"
        );
        Self {
            hash,
            salt,
            iterations,
            keys: Keys {
                stored: key.clone(),
                server: key,
            },
        }
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

/// Returns the number of iterations, if a client may set it.
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
