//! Keys and tokens that tests sign themselves.

use std::sync::LazyLock;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::token::Expectations;

/// The time of all tests, as seconds.
pub(super) const NOW_S: i64 = 1_800_000_000;

/// The keys of a provider, one of each kind.
pub(super) struct Provider {
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    edwards: Ed25519KeyPair,
}

/// Made once: a key of RSA takes a while.
pub(super) static PROVIDER: LazyLock<Provider> = LazyLock::new(|| Provider {
    rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
    p256: EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
    p384: EcdsaKeyPair::generate(&signature::ECDSA_P384_SHA384_FIXED_SIGNING).unwrap(),
    edwards: Ed25519KeyPair::generate().unwrap(),
});

pub(super) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Provider {
    /// The set of keys, with these members besides in that of RSA.
    pub(super) fn set_with(&self, more: &str) -> String {
        // RFC 8017: a sequence of two numbers, where the first has 257 bytes with its zero.
        let rsa = self.rsa.public_key().as_ref();
        let (n, e) = (encoded(rsa.get(9..265).unwrap()), encoded([1, 0, 1]));
        let point = |key: &EcdsaKeyPair| {
            // The first byte says that both coordinates follow.
            let point = key.public_key().as_ref().get(1..).unwrap();
            let half = point.len() / 2;
            let (x, y) = (point.get(..half).unwrap(), point.get(half..).unwrap());
            format!(r#""x":"{}","y":"{}""#, encoded(x), encoded(y))
        };
        format!(
            r#"{{"keys":[
                {{"kty":"RSA","kid":"r","n":"{n}","e":"{e}"{more}}},
                {{"kty":"EC","kid":"p256","crv":"P-256","use":"sig",{}}},
                {{"kty":"EC","kid":"p384","crv":"P-384","key_ops":["verify"],{}}},
                {{"kty":"OKP","kid":"ed","crv":"Ed25519","x":"{}"}},
                {{"kty":"oct","kid":"secret","k":"c2VjcmV0"}}
            ]}}"#,
            point(&self.p256),
            point(&self.p384),
            encoded(self.edwards.public_key())
        )
    }

    pub(super) fn set(&self) -> String {
        self.set_with("")
    }

    /// The bytes that a client could know of the key of RSA.
    pub(super) fn public_bytes(&self) -> Vec<u8> {
        self.rsa.public_key().as_ref().to_vec()
    }

    /// Signs by an algorithm; without one that is served the signature is empty.
    pub(super) fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        let by_rsa = |encoding| {
            let mut signature = vec![0; self.rsa.public_modulus_len()];
            self.rsa
                .sign(encoding, &random, message, &mut signature)
                .unwrap();
            signature
        };
        match algorithm {
            "RS256" => by_rsa(&signature::RSA_PKCS1_SHA256),
            "RS384" => by_rsa(&signature::RSA_PKCS1_SHA384),
            "RS512" => by_rsa(&signature::RSA_PKCS1_SHA512),
            "PS256" => by_rsa(&signature::RSA_PSS_SHA256),
            "PS384" => by_rsa(&signature::RSA_PSS_SHA384),
            "PS512" => by_rsa(&signature::RSA_PSS_SHA512),
            "ES256" => self.p256.sign(&random, message).unwrap().as_ref().to_vec(),
            "ES384" => self.p384.sign(&random, message).unwrap().as_ref().to_vec(),
            "EdDSA" => self.edwards.sign(message).as_ref().to_vec(),
            _ => Vec::new(),
        }
    }

    /// A token with this header and these claims, signed by an algorithm.
    pub(super) fn token(&self, algorithm: &str, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encoded(header), encoded(claims));
        let signature = self.sign(algorithm, signed.as_bytes());
        format!("{signed}.{}", encoded(signature))
    }

    /// A token of RS256 with these claims.
    pub(super) fn token_of(&self, claims: &str) -> String {
        self.token("RS256", r#"{"alg":"RS256","kid":"r"}"#, claims)
    }
}

/// What tests expect of tokens.
pub(super) fn expected() -> Expectations {
    Expectations {
        issuer: Some("https://idp".to_owned()),
        audiences: vec!["kafka".to_owned()],
        subject_claim: "sub".to_owned(),
        scope_claim: "scope".to_owned(),
        skew_ms: 30_000,
    }
}

/// Claims that are as expected, with some of them replaced or, by an empty text, left out.
pub(super) fn claims(replaced: &[(&str, &str)]) -> String {
    let (issued, expires) = ((NOW_S - 60).to_string(), (NOW_S + 600).to_string());
    let mut all = vec![
        ("iss", r#""https://idp""#),
        ("aud", r#""kafka""#),
        ("sub", r#""ada""#),
        ("iat", &issued),
        ("exp", &expires),
    ];
    for (name, value) in replaced {
        all.retain(|(known, _)| known != name);
        all.push((name, value));
    }
    all.retain(|(_, value)| !value.is_empty());
    let members: Vec<_> = all
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", members.join(","))
}
