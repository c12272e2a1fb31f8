//! SASL: how a client shows who it is, both ends of PLAIN, SCRAM and OAUTHBEARER, and the line of a
//! JAAS configuration that holds its credentials.
//!
//! Each end of a mechanism is a chain of values: a step consumes the state before it, takes the
//! peer's bytes, and returns the next state with the bytes to send, or a [`Refusal`]. So no step
//! happens twice, out of order, or after a failure.
//!
//! Invariants:
//! - Every byte string is answered or refused, and every length has a bound.
//! - Randomness comes from the caller (nonces, salts, the secrets of a process), and so do users:
//!   this module looks up no user.
//! - Secrets are in no `Debug` output and in no error, and are overwritten when they are dropped.
//! - What a client does not know is compared in constant time. An unknown user takes the same steps
//!   as a known one with a wrong password, and fails at the same one.
//!
//! Not here: the requests that carry these bytes, the order of them on a connection, deadlines and
//! delays, the contents of an OAUTHBEARER token, who the users are.

pub mod jaas;
mod names;
pub mod oauthbearer;
pub mod plain;
#[cfg(test)]
mod recorded;
mod refusal;
pub mod scram;
mod secret;

pub use names::check_user;
pub use refusal::Refusal;
pub use secret::Secret;

use scram::ScramHash;

/// A mechanism that both ends speak.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mechanism {
    /// The password itself.
    Plain,
    /// Proof of knowing the password.
    Scram(ScramHash),
    /// A token that an identity provider has signed.
    Oauthbearer,
}

impl Mechanism {
    /// All of them, the weakest first.
    pub const ALL: [Self; 4] = [
        Self::Plain,
        Self::Scram(ScramHash::Sha256),
        Self::Scram(ScramHash::Sha512),
        Self::Oauthbearer,
    ];

    /// Returns the registered name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(ScramHash::Sha256) => "SCRAM-SHA-256",
            Self::Scram(ScramHash::Sha512) => "SCRAM-SHA-512",
            Self::Oauthbearer => "OAUTHBEARER",
        }
    }

    /// Returns the mechanism with this name; as in Kafka, case matters.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mechanism_is_found_by_its_exact_name_only() {
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::from_name(mechanism.name()), Some(mechanism));
        }
        for name in ["plain", "", "SCRAM-SHA-1", "SCRAM-SHA-256-PLUS", "GSSAPI"] {
            assert_eq!(Mechanism::from_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_client_is_told_what_kafka_tells_and_not_whether_a_user_exists() {
        let plain = Refusal::Credentials.told(Mechanism::Plain, false);
        assert_eq!(plain, "Authentication failed: Invalid username or password");
        let scram = Mechanism::Scram(ScramHash::Sha512);
        assert_eq!(
            Refusal::Credentials.told(scram, false),
            "Authentication failed during authentication due to invalid credentials with SASL \
             mechanism SCRAM-SHA-512"
        );
        assert_eq!(
            Refusal::Nonce.told(scram, true),
            "Authentication failed during re-authentication due to invalid credentials with SASL \
             mechanism SCRAM-SHA-512"
        );
        let token = Refusal::Token.told(Mechanism::Oauthbearer, false);
        assert_eq!(token, r#"{"status":"invalid_token"}"#);
    }
}
