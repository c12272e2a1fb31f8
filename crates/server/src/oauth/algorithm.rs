//! The algorithms of signatures (RFC 7518, RFC 8037), and the public keys that they belong to.
//!
//! Invariant: a key verifies nothing but the algorithms of its kind, so no token can make one be
//! taken for a key of another. There is none for `none`, and none whose key is a secret (HS256..).

use std::fmt;

use aws_lc_rs::signature::{
    self, ParsedPublicKey, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};

/// Fewest bits of an RSA key: what the algorithms ask for.
const RSA_BITS_MIN: usize = 2048;
/// Most: a longer one takes a shard too long.
const RSA_BITS_MAX: usize = 8192;
/// Most bytes of its exponent; real ones have 3.
const EXPONENT_BYTES_MAX: usize = 4;

/// An algorithm of a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// RSA with PKCS#1 v1.5 and SHA-256.
    Rs256,
    /// The same with SHA-384.
    Rs384,
    /// The same with SHA-512.
    Rs512,
    /// RSA with PSS and SHA-256.
    Ps256,
    /// The same with SHA-384.
    Ps384,
    /// The same with SHA-512.
    Ps512,
    /// ECDSA on P-256.
    Es256,
    /// ECDSA on P-384.
    Es384,
    /// ECDSA on P-521.
    Es512,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// All of them, with their names.
    pub const ALL: [(&str, Self); 10] = [
        ("RS256", Self::Rs256),
        ("RS384", Self::Rs384),
        ("RS512", Self::Rs512),
        ("PS256", Self::Ps256),
        ("PS384", Self::Ps384),
        ("PS512", Self::Ps512),
        ("ES256", Self::Es256),
        ("ES384", Self::Es384),
        ("ES512", Self::Es512),
        ("EdDSA", Self::EdDsa),
    ];

    /// Returns the algorithm of this name; case matters.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, algorithm)| algorithm)
    }

    fn rsa(self) -> Option<&'static RsaParameters> {
        match self {
            Self::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
            Self::Es256 | Self::Es384 | Self::Es512 | Self::EdDsa => None,
        }
    }
}

/// The public half of a key.
#[derive(Clone)]
pub(super) enum PublicKey {
    /// Of RSA.
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// A point on a curve, with its one algorithm.
    Point(Algorithm, Vec<u8>),
}

impl PublicKey {
    /// Returns the key of RSA, if a signature may be of it.
    pub(super) fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        let (modulus, exponent) = (without_zeros(modulus), without_zeros(exponent));
        let first = modulus.first()?;
        let bits = (modulus.len() * 8).checked_sub(first.leading_zeros() as usize)?;
        let is_odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
        let fits = (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits)
            && (1..=EXPONENT_BYTES_MAX).contains(&exponent.len())
            && exponent != [1]
            && is_odd(modulus)
            && is_odd(exponent);
        fits.then(|| {
            Self::Rsa(RsaPublicKeyComponents {
                n: modulus.to_vec(),
                e: exponent.to_vec(),
            })
        })
    }

    /// Returns the point with these coordinates, if it is on the curve of this name.
    pub(super) fn on_curve(curve: &str, x: &[u8], y: &[u8]) -> Option<Self> {
        let (algorithm, bytes) = match curve {
            "P-256" => (Algorithm::Es256, 32),
            "P-384" => (Algorithm::Es384, 48),
            "P-521" => (Algorithm::Es512, 66),
            _ => return None,
        };
        let uncompressed = [&[4], x, y].concat();
        let has_length = x.len() == bytes && y.len() == bytes;
        Self::point(algorithm, has_length.then_some(uncompressed)?)
    }

    /// Returns the key of Ed25519.
    pub(super) fn edwards(x: &[u8]) -> Option<Self> {
        Self::point(Algorithm::EdDsa, x.to_vec())
    }

    fn point(algorithm: Algorithm, bytes: Vec<u8>) -> Option<Self> {
        ParsedPublicKey::new(verification(algorithm)?, &bytes).ok()?;
        Some(Self::Point(algorithm, bytes))
    }

    /// Returns true if the key may have signed by this algorithm.
    pub(super) fn is_for(&self, algorithm: Algorithm) -> bool {
        match self {
            Self::Rsa(_) => algorithm.rsa().is_some(),
            Self::Point(own, _) => *own == algorithm,
        }
    }

    /// Returns true if the signature is that of the key.
    pub(super) fn has_signed(
        &self,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let verified = match self {
            Self::Rsa(key) => {
                let parameters = algorithm.rsa();
                parameters.map(|parameters| key.verify(parameters, message, signature))
            }
            Self::Point(own, bytes) => {
                let rule = verification(algorithm).filter(|_| *own == algorithm);
                let key = rule.map(|rule| UnparsedPublicKey::new(rule, bytes));
                key.map(|key| key.verify(message, signature))
            }
        };
        verified.is_some_and(|verified| verified.is_ok())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rsa(_) => to.write_str("Rsa"),
            Self::Point(algorithm, _) => write!(to, "Point({algorithm:?})"),
        }
    }
}

fn verification(algorithm: Algorithm) -> Option<&'static dyn VerificationAlgorithm> {
    match algorithm {
        Algorithm::Es256 => Some(&signature::ECDSA_P256_SHA256_FIXED),
        Algorithm::Es384 => Some(&signature::ECDSA_P384_SHA384_FIXED),
        Algorithm::Es512 => Some(&signature::ECDSA_P521_SHA512_FIXED),
        Algorithm::EdDsa => Some(&signature::ED25519),
        _ => None,
    }
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}
