//! Why a request has no answer: one type for the whole client, closed.
//!
//! A variant exists where callers act differently. Errors are values that can be copied, because
//! one broken connection is the error of everybody who waits on it. Text of brokers is shown
//! escaped; secrets are in none of them.

mod handshake;

use std::fmt::{self, Display, Formatter};
use std::io;

use wire::text::{EscapedText, cut};
use wire::types::ErrorCode;

/// The most bytes of a text of a broker that messages show.
const SHOWN_BYTES_MAX: usize = 4096;

/// What stands in the place of a mechanism if TLS fails.
pub const TLS: &str = "TLS";

/// The error of an exchange with a broker, or of the client itself.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClientError {
    /// The network, or the broker's end of a connection.
    #[error("broker {broker}: {what}: {reason}")]
    Io {
        /// Address of the broker.
        broker: String,
        /// What was being done.
        what: &'static str,
        /// The kind of error.
        kind: io::ErrorKind,
        /// The system's words.
        reason: String,
    },
    /// Nothing came in time. What was asked for may have happened.
    #[error("broker {broker}: no answer in time: {what}")]
    TimedOut {
        /// Address of the broker, or all addresses that were tried.
        broker: String,
        /// What was waited for.
        what: String,
    },
    /// The broker answered with an error code.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The broker and this client have no version of the request in common.
    #[error("{}", unsupported(.broker, .api, *.theirs, *.ours))]
    Unsupported {
        /// Address of the broker.
        broker: String,
        /// The request.
        api: String,
        /// Oldest and newest version of the broker; `None` if it does not serve the request.
        theirs: Option<(i16, i16)>,
        /// Oldest and newest version here.
        ours: (i16, i16),
    },
    /// What the broker sent is not an answer to what it was asked.
    #[error("broker {broker}: {reason}")]
    Malformed {
        /// Address of the broker.
        broker: String,
        /// The rule that is broken.
        reason: String,
    },
    /// The broker does not let this client in, or is not the one it should be.
    #[error("broker {broker}: {}: {reason}", login_by(.mechanism))]
    Login {
        /// Address of the broker.
        broker: String,
        /// The SASL mechanism, or TLS.
        mechanism: String,
        /// Why.
        reason: String,
    },
    /// A setting or an argument that makes no sense.
    #[error("{what}: {reason}")]
    Invalid {
        /// The setting or argument.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no room for another record, and none came in time.
    #[error("the client's memory for records is full")]
    Full,
    /// The producer or the member can do nothing any more; another has to be made.
    #[error("{reason}")]
    Fatal {
        /// Why.
        reason: String,
    },
    /// The connection or the client has been closed at this end.
    #[error("the client was closed")]
    Closed,
}

/// An error code of the protocol, with what it is about and the broker's message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The code.
    pub code: ErrorCode,
    /// The message, if the broker sent one.
    pub message: Option<String>,
}

impl Refusal {
    /// Returns true if asking again, later or another broker, may help.
    pub fn is_retriable(&self) -> bool {
        self.code.is_retriable()
    }
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        Self {
            code,
            message: None,
        }
    }
}

impl From<ErrorCode> for ClientError {
    fn from(code: ErrorCode) -> Self {
        Self::Refused(code.into())
    }
}

impl std::error::Error for Refusal {}

impl Display for Refusal {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(&protocol_name(self.code))?;
        match &self.message {
            Some(message) if !message.is_empty() => write!(to, ": {}", shown(message)),
            _ => Ok(()),
        }
    }
}

impl ClientError {
    /// Returns the error code, if a broker answered with one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.code),
            _ => None,
        }
    }

    /// Returns true if the same request may succeed later, perhaps at another broker.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Io { .. } | Self::TimedOut { .. } => true,
            Self::Refused(refusal) => refusal.is_retriable(),
            _ => false,
        }
    }

    /// Returns true if the client cannot know whether the broker carried out the request.
    pub fn is_unknown_outcome(&self) -> bool {
        matches!(
            self,
            Self::Io { .. } | Self::TimedOut { .. } | Self::Malformed { .. }
        )
    }

    /// What a stream ended with: the system's error, or that of TLS, which another connection
    /// would end with as well.
    pub fn io(broker: &str, what: &'static str, error: &io::Error) -> Self {
        if let Some(reason) = handshake::words(error) {
            return Self::Login {
                broker: broker.to_owned(),
                mechanism: TLS.to_owned(),
                reason,
            };
        }
        Self::Io {
            broker: broker.to_owned(),
            what,
            kind: error.kind(),
            reason: reason_of(error),
        }
    }

    /// What a stream ended with that had been made: whatever it was, another connection may do, and
    /// what was asked over it may have happened.
    pub(crate) fn broken(broker: &str, what: &'static str, error: &io::Error) -> Self {
        Self::Io {
            broker: broker.to_owned(),
            what,
            kind: error.kind(),
            reason: handshake::words(error).unwrap_or_else(|| reason_of(error)),
        }
    }

    pub(crate) fn timed_out(broker: &str, what: impl Into<String>) -> Self {
        Self::TimedOut {
            broker: broker.to_owned(),
            what: what.into(),
        }
    }

    pub(crate) fn malformed(broker: &str, reason: impl Into<String>) -> Self {
        Self::Malformed {
            broker: broker.to_owned(),
            reason: reason.into(),
        }
    }

    pub(crate) fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid {
            what: what.into(),
            reason: reason.into(),
        }
    }
}

/// Returns the system's words; an end has words of ours, for those of TLS are for programmers.
fn reason_of(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return "the broker has closed the connection".to_owned();
    }
    error.to_string()
}

/// Turns the error code of an answer into a result.
pub fn check(code: i16, message: Option<&wire::StrBytes>) -> Result<(), Refusal> {
    match ErrorCode::try_from_code(code) {
        None => Ok(()),
        Some(code) => Err(Refusal {
            code,
            message: message.map(|message| message.as_str().to_owned()),
        }),
    }
}

/// Returns an error code as the protocol's documentation writes it.
pub fn protocol_name(code: ErrorCode) -> String {
    if let ErrorCode::Unknown(code) = code {
        return format!("error code {code}");
    }
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// Returns a text of a broker as messages show it: escaped, and cut to a length that can be read.
pub fn shown(text: &str) -> EscapedText<'_> {
    EscapedText(cut(text, SHOWN_BYTES_MAX))
}

/// Returns the name of a request, for messages.
pub fn name_of(api: i16) -> String {
    crate::ask::name_of(api)
}

/// Returns how errors name what a broker refuses, or is refused by.
pub fn login_by(mechanism: &str) -> String {
    if mechanism == TLS {
        return TLS.to_owned();
    }
    format!("login by {mechanism}")
}

fn unsupported(broker: &str, api: &str, theirs: Option<(i16, i16)>, ours: (i16, i16)) -> String {
    let (ours_min, ours_max) = ours;
    match theirs {
        None => format!("broker {broker} does not serve {api}"),
        Some((min, max)) => format!(
            "broker {broker} serves {api} in versions {min} to {max}, {ours_min} to {ours_max} are \
             known here"
        ),
    }
}

#[cfg(test)]
mod tests {
    use wire::StrBytes;

    use super::*;

    #[test]
    fn codes_are_named_as_the_protocol_names_them_and_messages_cannot_forge_lines() {
        let refusal = check(36, Some(&StrBytes::from_static_str("there"))).unwrap_err();
        assert_eq!(refusal.to_string(), "TOPIC_ALREADY_EXISTS: there");
        let forged = StrBytes::from_static_str("no\nforebay: done\x1b[1m");
        let refusal = check(36, Some(&forged)).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "TOPIC_ALREADY_EXISTS: no\\u{a}forebay: done\\u{1b}[1m"
        );
        assert_eq!(check(16, None).unwrap_err().to_string(), "NOT_COORDINATOR");
        assert_eq!(
            check(9999, None).unwrap_err().to_string(),
            "error code 9999"
        );
        assert_eq!(check(0, None), Ok(()));
    }

    #[test]
    fn what_may_pass_is_told_from_what_stays() {
        assert!(ClientError::from(ErrorCode::NotLeaderOrFollower).is_retriable());
        assert!(!ClientError::from(ErrorCode::TopicAuthorizationFailed).is_retriable());
        let silent = ClientError::timed_out("a:1", "Produce");
        assert!(silent.is_retriable() && silent.is_unknown_outcome());
        assert!(!ClientError::Closed.is_retriable());
    }

    #[test]
    fn a_broker_does_not_fill_the_terminal_by_a_message() {
        let long = "\u{e9}".repeat(1 << 20);
        let refusal = Refusal {
            code: ErrorCode::InvalidRequest,
            message: Some(long),
        };
        assert!(refusal.to_string().len() <= SHOWN_BYTES_MAX + 30);
    }
}
