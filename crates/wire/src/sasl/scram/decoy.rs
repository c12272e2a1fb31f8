//! Credentials of users who do not exist: until the end of an exchange they look like those of
//! others.
//!
//! A client sees the salt and the number of iterations of a user. A decoy derives them from a
//! secret and the name, so they are the same for every request. Its look (the form of the salt, and
//! the iterations) is one that stored credentials of the hash have, each look in proportion to the
//! users who have it; where there are none, that of Kafka's tools.
//!
//! What remains to tell users from names of no user:
//! - A look that is not among the [`LOOKS_MAX`] most frequent ones belongs to a user.
//! - So does a salt that is not random: a word, or the salt of another user.
//! - Where the shares of looks change, a few names of no user change theirs, and their salts.
//!   A user does so only if a client sets a credential.
//!
//! A client that asks for many names learns the shares.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::ITERATIONS_MIN;
use super::credential::Credential;
use super::keys::ScramHash;
use super::salt::SaltForm;
use crate::sasl::Secret;

/// The most looks that the decoys of a hash have.
const LOOKS_MAX: usize = 16;
/// The parts that looks have their shares of.
const PARTS: u64 = 1 << 16;

/// Makes credentials of users who do not exist.
#[derive(Clone, Debug)]
pub struct Decoy {
    secret: Secret<[u8; 32]>,
    sha_256: DecoyLooks,
    sha_512: DecoyLooks,
}

impl Decoy {
    /// Takes a random secret and the stored credentials of all users.
    ///
    /// The secret has to be kept over restarts, for as long as users keep their salts: with another
    /// one all salts change but those of users. The credentials may be those of the start.
    pub fn new<'a>(secret: [u8; 32], stored: impl Iterator<Item = &'a Credential> + Clone) -> Self {
        Self {
            secret: Secret::new(secret),
            sha_256: DecoyLooks::of(ScramHash::Sha256, stored.clone()),
            sha_512: DecoyLooks::of(ScramHash::Sha512, stored),
        }
    }

    /// Returns the credential of a user that does not exist. No password belongs to its keys.
    ///
    /// It takes the same keyed hashes for every name.
    pub(super) fn credential(&self, hash: ScramHash, name: &str) -> Credential {
        let looks = match hash {
            ScramHash::Sha256 => &self.sha_256,
            ScramHash::Sha512 => &self.sha_512,
        };
        let keyed = |parts: &[&[u8]]| ScramHash::Sha512.hmac(self.secret.expose(), parts);
        let of_hash = [hash.code().unsigned_abs()];
        let seed = keyed(&[&of_hash, name.as_bytes()]);
        let part = seed.expose().first_chunk().expect("a hash of 64 bytes");
        let look = looks.at(u16::from_be_bytes(*part));
        // As many as the longest salt of all looks takes.
        let mut random = Vec::with_capacity(looks.random_bytes);
        let mut block = 0_u8;
        while random.len() < looks.random_bytes {
            random.extend_from_slice(keyed(&[b"salt", &[block], seed.expose()]).expose());
            block = block.checked_add(1).expect("a salt is shorter");
        }
        let key = hash.hmac(self.secret.expose(), &[b"key", seed.expose()]);
        Credential::of_nobody(hash, look.salt.salt(&random), look.iterations, key)
    }
}

/// What a client sees of a credential, apart from which salt of its form it has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct CredentialLook {
    iterations: u32,
    salt: SaltForm,
}

impl CredentialLook {
    /// That of Kafka's tools, without an option.
    const KAFKA: Self = Self {
        iterations: ITERATIONS_MIN,
        salt: SaltForm::Number,
    };

    fn of(credential: &Credential) -> Self {
        Self {
            iterations: credential.iterations(),
            salt: SaltForm::of(credential.salt()),
        }
    }
}

/// The looks of the decoys of a hash.
#[derive(Clone, Debug)]
struct DecoyLooks {
    /// Each look with the end of its share in [`PARTS`], in order: the last share ends there. At
    /// least one, at most [`LOOKS_MAX`].
    ends: Vec<(u64, CredentialLook)>,
    /// The random bytes that the longest salt takes.
    random_bytes: usize,
}

impl DecoyLooks {
    fn of<'a>(hash: ScramHash, stored: impl Iterator<Item = &'a Credential>) -> Self {
        let mut counts: BTreeMap<CredentialLook, u64> = BTreeMap::new();
        for credential in stored.filter(|one| one.hash() == hash) {
            let count = counts.entry(CredentialLook::of(credential)).or_default();
            *count = count.saturating_add(1);
        }
        let mut counted: Vec<(CredentialLook, u64)> = counts.into_iter().collect();
        counted.sort_by_key(|(_, count)| Reverse(*count));
        counted.truncate(LOOKS_MAX);
        if counted.is_empty() {
            counted.push((CredentialLook::KAFKA, 1));
        }
        // Not the most frequent first: where two are as frequent, one user more would swap them,
        // and with them the looks of all names of no user.
        counted.sort_unstable();
        let each = counted.iter().map(|(_, count)| *count);
        let all = each.fold(0, u64::saturating_add);
        let mut below = 0_u64;
        let ends = counted.iter().map(|(look, count)| {
            below = below.saturating_add(*count);
            (below.saturating_mul(PARTS) / all, *look)
        });
        let ends: Vec<(u64, CredentialLook)> = ends.collect();
        assert!(
            ends.last().is_some_and(|(end, _)| *end == PARTS),
            "the shares are everything"
        );
        let bytes = counted.iter().map(|(look, _)| look.salt.random_bytes());
        Self {
            random_bytes: bytes.fold(0, usize::max),
            ends,
        }
    }

    /// Returns the look to whose share a part belongs.
    fn at(&self, part: u16) -> CredentialLook {
        let mut ends = self.ends.iter();
        let found = ends.find(|(end, _)| u64::from(part) < *end);
        found.expect("the shares are everything").1
    }
}
