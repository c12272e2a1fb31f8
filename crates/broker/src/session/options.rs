//! How the clients of a listener log in, as the settings say.
//!
//! Passwords of PLAIN are in no `Debug` output. Not here: users of SCRAM, who are in the metadata.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use wire::sasl::{Mechanism, Secret};

use super::tokens::TokenVerifier;

/// What a listener speaks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum SecurityProtocol {
    /// Requests as they are.
    #[default]
    Plaintext,
    /// Requests inside TLS.
    Ssl,
    /// Requests as they are, after a login.
    SaslPlaintext,
    /// Requests inside TLS, after a login.
    SaslSsl,
}

impl SecurityProtocol {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Plaintext,
        Self::Ssl,
        Self::SaslPlaintext,
        Self::SaslSsl,
    ];

    /// Returns the number that requests and metadata records have for it.
    pub fn code(self) -> i16 {
        match self {
            Self::Plaintext => 0,
            Self::Ssl => 1,
            Self::SaslPlaintext => 2,
            Self::SaslSsl => 3,
        }
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    /// Returns true if a client has to log in.
    pub fn asks_for_login(self) -> bool {
        match self {
            Self::Plaintext | Self::Ssl => false,
            Self::SaslPlaintext | Self::SaslSsl => true,
        }
    }

    /// Returns true if what goes over the network is encrypted.
    pub fn is_encrypted(self) -> bool {
        match self {
            Self::Plaintext | Self::SaslPlaintext => false,
            Self::Ssl | Self::SaslSsl => true,
        }
    }
}

/// How clients of a listener log in.
#[derive(Clone, Debug)]
pub struct LoginOptions {
    /// The mechanisms, in the order of the response to clients. Without any, no client logs in.
    pub mechanisms: Vec<MechanismOptions>,
    /// How long the response to a failed login, and the end of its connection, wait.
    pub failure_delay: Duration,
    /// Largest frame before the login is complete.
    pub frame_bytes_max: usize,
    /// How long the first login may take, from the beginning of the connection.
    pub time_max: Duration,
}

/// A mechanism of a listener.
#[derive(Clone)]
pub struct MechanismOptions {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// How long a session lasts until the client has to log in again; `None` for ever.
    pub session_max: Option<Duration>,
    /// Names and passwords, for PLAIN.
    // Bounded: `wire::sasl::jaas::TEXT_BYTES_MAX`.
    pub users: Vec<(String, Secret<String>)>,
    /// What verifies tokens, for OAUTHBEARER.
    pub tokens: Option<Arc<dyn TokenVerifier>>,
}

impl fmt::Debug for MechanismOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("MechanismOptions");
        shown.field("mechanism", &self.mechanism);
        shown.field("session_max", &self.session_max);
        shown.field("users", &self.users.len());
        shown.field("tokens", &self.tokens);
        shown.finish()
    }
}

impl LoginOptions {
    /// A login that no client passes, for a listener without settings.
    pub fn refused() -> Self {
        Self {
            mechanisms: Vec::new(),
            failure_delay: Duration::from_millis(100),
            frame_bytes_max: 1 << 19,
            time_max: Duration::from_secs(30),
        }
    }

    /// Returns the row of a mechanism that clients may use.
    pub(crate) fn of(&self, mechanism: Mechanism) -> Option<&MechanismOptions> {
        self.mechanisms.iter().find(|it| it.mechanism == mechanism)
    }
}
