//! What the broker knows of the tokens of OAUTHBEARER: a verdict, in words of ours.
//!
//! Tokens are verified outside of this crate, by [`TokenVerifier`], because that takes keys and
//! cryptography. Invariant: a verdict takes no wait, and holds nothing of the token but the name of
//! its user.

use std::fmt;

/// What verifies the tokens of one listener.
pub trait TokenVerifier: fmt::Debug + Send + Sync {
    /// Returns whose token it is, at this time of the wall clock. It neither waits nor takes long:
    /// it runs on a shard.
    fn verify(&self, token: &str, wall_ms: i64) -> Result<TokenOwner, TokenFault>;
}

/// Whose token it is, and until when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenOwner {
    /// The name of the user.
    pub name: String,
    /// When the token expires, as wall-clock milliseconds.
    pub expires_ms: i64,
}

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident = $label:literal, $words:literal;)*) => {
        /// Why a token is not accepted.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum TokenFault {
            $($(#[$doc])* $fault,)*
        }

        impl TokenFault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$fault),*];

            /// Returns the name in metrics.
            pub fn label(self) -> &'static str {
                match self { $(Self::$fault => $label,)* }
            }

            /// Returns the reason in the log.
            pub fn words(self) -> &'static str {
                match self { $(Self::$fault => $words,)* }
            }
        }
    };
}

faults! {
    /// It is longer than any real one.
    TooLong = "too_long", "it is longer than a token may be";
    /// It is no signed JWT in its compact form.
    Form = "form", "it is not three parts of base64url, as a signed JWT is";
    /// Its header is none that is served.
    Header = "header", "its header is no JSON object with alg, or has crit";
    /// Its algorithm is none, or a symmetric one, or unknown.
    Algorithm = "algorithm", "its algorithm is not served (RS, PS, ES 256 to 512, EdDSA are)";
    /// No set of keys was read yet.
    NoKeys = "no_keys", "no keys were read yet (sasl.oauthbearer.jwks.endpoint.url)";
    /// The set has no key of its id.
    UnknownKey = "unknown_key", "its key (kid) is not in the set of keys, or left out there";
    /// It names no key, and several may be meant.
    UnnamedKey = "unnamed_key", "it names no key (kid), and the set has none or several that fit";
    /// The key is of another algorithm.
    OtherAlgorithm = "other_algorithm", "its algorithm is not that of its key";
    /// The signature is not that of the key.
    Signature = "signature", "its signature is wrong";
    /// Its claims are none.
    Claims = "claims", "its claims are no JSON object, or a name in them is there twice";
    /// A time is missing or is no whole number of seconds.
    Times = "times", "exp or iat is missing, or a time is no whole number of seconds";
    /// It has expired.
    Expired = "expired", "it has expired";
    /// It is not valid yet.
    Early = "early", "it is not valid yet (nbf, iat): compare the clocks";
    /// It expires before it was issued or is valid.
    Order = "order", "it expires before it begins";
    /// It is of another issuer.
    Issuer = "issuer", "its issuer is not sasl.oauthbearer.expected.issuer";
    /// It is for others.
    Audience = "audience", "its audience is none of sasl.oauthbearer.expected.audience";
    /// It names no user.
    Subject = "subject", "the claim of sasl.oauthbearer.sub.claim.name is no name of a user";
    /// Its scope is none.
    Scope = "scope", "the claim of sasl.oauthbearer.scope.claim.name is neither text nor a list";
    /// The listener verifies no tokens.
    NotServed = "not_served", "the listener verifies no tokens";
}
