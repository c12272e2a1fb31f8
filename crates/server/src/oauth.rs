//! The tokens of OAUTHBEARER: whose they are, and with which keys that is known.
//!
//! A token is a JWT that an identity provider has signed. `token.rs` reads and judges one,
//! `keys.rs` has the set of keys of the provider, `algorithm.rs` the signatures, `json.rs` the
//! values of both, `keep.rs` keeps the set as its file or its URL has it.
//!
//! Invariants:
//! - A key decides which algorithm a signature has; the token only says which of a key's it is.
//!   There is none without a signature, and none whose key is a secret of both ends.
//! - Whatever a client sends is judged in memory bounded by its length, without a wait. No log line
//!   has anything of a token but the name of its user.
//! - A set of keys is whole and never changes. What could not be read leaves the one before in
//!   force.
//!
//! Not here: the messages that carry a token (`wire`), sessions and their end (`broker`).

mod algorithm;
mod json;
mod keep;
mod keys;
#[cfg(test)]
mod signed;
mod token;

use std::sync::Arc;

use broker::session::{TokenFault, TokenOwner, TokenVerifier};

use crate::metrics::OauthMetrics;
pub use algorithm::Algorithm;
pub use keep::KeyPlace;
pub(crate) use keep::{KeySource, SourceSettings};
pub use keys::{KeySet, KeySetProblem};
pub use token::Expectations;

/// The keys of all listeners of OAUTHBEARER, and what counts their tokens.
#[derive(Clone, Default, Debug)]
pub(crate) struct TokenKeys {
    /// For each such listener.
    // Bounded: one for each of `listeners`.
    pub(crate) sources: Vec<Arc<KeySource>>,
    /// The counts.
    pub(crate) metrics: OauthMetrics,
}

/// What verifies the tokens of one listener.
#[derive(Debug)]
pub(crate) struct Verifier {
    expected: Expectations,
    keys: Arc<KeySource>,
    metrics: OauthMetrics,
}

impl Verifier {
    /// A verifier that expects this of tokens. It knows no key until `keys` does.
    pub(crate) fn new(expected: Expectations, keys: Arc<KeySource>, metrics: OauthMetrics) -> Self {
        Self {
            expected,
            keys,
            metrics,
        }
    }

    fn judge(&self, token: &str, wall_ms: i64) -> Result<TokenOwner, TokenFault> {
        let keys = self.keys.current().ok_or(TokenFault::NoKeys)?;
        let judged = token::judge(token, &keys, &self.expected, wall_ms);
        judged.map_err(|refused| {
            if let Some(id) = refused.unknown_key {
                self.keys.note_missing(&id);
            }
            refused.fault
        })
    }
}

impl TokenVerifier for Verifier {
    fn verify(&self, token: &str, wall_ms: i64) -> Result<TokenOwner, TokenFault> {
        let judged = self.judge(token, wall_ms);
        match &judged {
            Ok(_) => self.metrics.accepted(self.keys.listener()),
            Err(fault) => self.metrics.refused(self.keys.listener(), fault.label()),
        }
        judged
    }
}

/// Returns whose claims these are, as if they were signed (for tests of hostile claims).
#[doc(hidden)]
pub fn judge_claims(
    claims: &[u8],
    expected: &Expectations,
    wall_ms: i64,
) -> Result<TokenOwner, TokenFault> {
    token::judge_claims(claims, expected, wall_ms)
}

/// Returns whose token it is, with these keys, at this time of the wall clock.
pub fn judge(
    token: &str,
    keys: &KeySet,
    expected: &Expectations,
    wall_ms: i64,
) -> Result<TokenOwner, TokenFault> {
    token::judge(token, keys, expected, wall_ms).map_err(|refused| refused.fault)
}
