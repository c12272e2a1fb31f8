//! The keys of an identity provider, as it publishes them (RFC 7517, a JWK set).
//!
//! What is of no use here is left out: keys for encryption, symmetric ones, algorithms that are not
//! served, keys of fewer bits than are safe. Private members of a key are not read. Invariant: a
//! set has at least one key, and each can verify signatures.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::algorithm::{Algorithm, PublicKey};
use super::json::{Json, Object};

/// Longest set.
pub(super) const SET_BYTES_MAX: usize = 1 << 20;
/// Most keys of a set: some hundred times as many as real ones have.
const KEYS_MAX: usize = 500;
/// Most values of a set, those of members that are not read included.
const VALUES_MAX: usize = 1 << 16;
/// Most keys that are left out and named in the log.
const NAMED_MAX: usize = 8;
/// Longest name of one there, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Longest id of a key, as in Kafka.
pub(super) const ID_BYTES_MAX: usize = 1000;

/// A set of keys.
#[derive(Debug)]
pub struct KeySet {
    // Bounded: `KEYS_MAX`.
    keys: Vec<Key>,
    left_out: LeftOut,
}

/// The keys of a set that are of no use here.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct LeftOut {
    count: usize,
    /// The ids of the first of them, for the log.
    // Bounded: `NAMED_MAX` and `NAME_BYTES_MAX`.
    names: Vec<String>,
}

/// One key of a set.
#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// The only algorithm, where the provider names one.
    algorithm: Option<Algorithm>,
    public: PublicKey,
}

/// Why a text is no set of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeySetProblem {
    /// It is longer than any real one.
    #[error("it has more than {SET_BYTES_MAX} bytes")]
    TooLong,
    /// It is not what it should be.
    #[error(
        "it is no JSON object, has a name twice in one object, or has too many values (a JWK set \
         begins with {{\"keys\":[)"
    )]
    NoObject,
    /// It has no list of keys.
    #[error("it has no list named keys")]
    NoKeys,
    /// It has more keys than any real one.
    #[error("it has more than {KEYS_MAX} keys")]
    TooMany,
    /// None of its keys is of use.
    #[error(
        "none of its {0} keys verifies signatures (RSA from 2048 to 8192 bits, P-256, P-384, P-521, \
         Ed25519; use=sig)"
    )]
    NoneServed(usize),
}

/// Why there is no key for a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoKey {
    /// No key has the id.
    Unknown,
    /// The key of that id is of another algorithm.
    OtherAlgorithm,
    /// The token names none, and not exactly one key fits.
    Unnamed,
}

impl KeySet {
    /// Reads a set.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeySetProblem> {
        if bytes.len() > SET_BYTES_MAX {
            return Err(KeySetProblem::TooLong);
        }
        let object = Json::object(bytes, VALUES_MAX).ok_or(KeySetProblem::NoObject)?;
        let Some(Json::List(all)) = object.get("keys") else {
            return Err(KeySetProblem::NoKeys);
        };
        if all.len() > KEYS_MAX {
            return Err(KeySetProblem::TooMany);
        }
        let mut left_out = LeftOut::default();
        let served = all.iter().filter_map(|member| {
            let key = Key::of(member);
            if key.is_none() {
                left_out.add(member);
            }
            key
        });
        let keys: Vec<Key> = served.collect();
        if keys.is_empty() {
            return Err(KeySetProblem::NoneServed(all.len()));
        }
        assert_eq!(
            keys.len() + left_out.count,
            all.len(),
            "each key is served or left out"
        );
        Ok(Self { keys, left_out })
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns false: a set has keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the number of keys that are of no use here.
    pub fn left_out(&self) -> usize {
        self.left_out.count
    }

    /// Returns the ids of those that are of no use, as the log has them: the first few.
    pub fn left_out_names(&self) -> String {
        let named = self.left_out.names.join(", ");
        match self
            .left_out
            .count
            .saturating_sub(self.left_out.names.len())
        {
            0 => named,
            more => format!("{named}, and {more} more"),
        }
    }

    /// Returns the key for a signature by this algorithm: that of the id, or the only one that
    /// fits.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Result<&PublicKey, NoKey> {
        let mut fitting = self.keys.iter().filter(|key| key.is_for(algorithm));
        let Some(id) = id else {
            return match (fitting.next(), fitting.next()) {
                (Some(key), None) => Ok(&key.public),
                _ => Err(NoKey::Unnamed),
            };
        };
        let has_id = |key: &&Key| key.id.as_deref() == Some(id);
        if let Some(key) = fitting.find(has_id) {
            return Ok(&key.public);
        }
        let is_known = self.keys.iter().any(|key| has_id(&key));
        Err(if is_known {
            NoKey::OtherAlgorithm
        } else {
            NoKey::Unknown
        })
    }
}

impl LeftOut {
    fn add(&mut self, member: &Json) {
        self.count = self.count.saturating_add(1);
        if self.names.len() >= NAMED_MAX {
            return;
        }
        let id = match member {
            Json::Object(member) => member.get("kid").and_then(Json::text),
            _ => None,
        };
        // In quotes, and with control characters escaped: the provider has written it.
        let name = id.map(|id| format!("{:?}", wire::text::cut(id, NAME_BYTES_MAX)));
        self.names
            .push(name.unwrap_or_else(|| "one without kid".to_owned()));
    }
}

impl Key {
    /// Returns the key of a member of the list; `None` for one that is of no use.
    fn of(member: &Json) -> Option<Self> {
        let Json::Object(member) = member else {
            return None;
        };
        let id = match member.get("kid") {
            None => None,
            Some(Json::Text(id)) if id.len() <= ID_BYTES_MAX => Some(id.clone()),
            Some(_) => return None,
        };
        let algorithm = match member.get("alg") {
            None => None,
            Some(named) => Some(Algorithm::from_name(named.text()?)?),
        };
        if member.get("use").is_some_and(|of| of.text() != Some("sig")) {
            return None;
        }
        if let Some(operations) = member.get("key_ops") {
            let Json::List(operations) = operations else {
                return None;
            };
            let verifies = operations.iter().any(|it| it.text() == Some("verify"));
            verifies.then_some(())?;
        }
        let public = public(member)?;
        let key = Self {
            id,
            algorithm,
            public,
        };
        algorithm
            .is_none_or(|algorithm| key.public.is_for(algorithm))
            .then_some(key)
    }

    fn is_for(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|own| own == algorithm) && self.public.is_for(algorithm)
    }
}

fn public(member: &Object) -> Option<PublicKey> {
    let text = |name: &str| member.get(name)?.text();
    let number = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
    match text("kty")? {
        "RSA" => PublicKey::rsa(&number("n")?, &number("e")?),
        "EC" => PublicKey::on_curve(text("crv")?, &number("x")?, &number("y")?),
        "OKP" if text("crv")? == "Ed25519" => PublicKey::edwards(&number("x")?),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
