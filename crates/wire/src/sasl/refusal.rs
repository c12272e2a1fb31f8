//! Why an exchange fails: for the log and the audit of this end, and the answer to the other end,
//! which says less.

use std::borrow::Cow;

use super::Mechanism;

/// What a client gets for a token that is not accepted, as a challenge and again as the error.
pub(super) const INVALID_TOKEN: &str = r#"{"status":"invalid_token"}"#;

/// The reason why an exchange has failed. No variant holds anything that a peer sent, apart from
/// lengths and counts.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A message does not have the form that the mechanism asks for.
    #[error("{message}: {rule}")]
    Malformed {
        /// The name of the message.
        message: &'static str,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// A message, or a part of one, is longer than any real one.
    #[error("{what} has {bytes} bytes, {bytes_max} are allowed")]
    TooLong {
        /// The part.
        what: &'static str,
        /// Its bytes.
        bytes: usize,
        /// Bytes allowed.
        bytes_max: usize,
    },
    /// The client asks for channel binding, offers it, or contradicts what it said about it.
    #[error("channel binding is not served")]
    ChannelBinding,
    /// The client names a delegation token.
    #[error("delegation tokens are not served")]
    DelegationToken,
    /// The client wants to act as another than the one it authenticates as.
    #[error("the authorization id is not that of the user")]
    OtherIdentity,
    /// The user is unknown, or the password is wrong.
    #[error("unknown user or wrong password")]
    Credentials,
    /// A message belongs to another exchange.
    #[error("the nonce is not that of this exchange")]
    Nonce,
    /// The server wants fewer iterations than are safe, or more than a client may spend.
    #[error("the server wants {iterations} iterations, {min} to {max} are allowed")]
    Iterations {
        /// What it wants.
        iterations: u32,
        /// The fewest allowed.
        min: u32,
        /// The most allowed.
        max: u32,
    },
    /// The server has refused the client.
    #[error("the server refuses: {error}")]
    ByServer {
        /// The error, one of those that RFC 5802 lists.
        error: &'static str,
    },
    /// The server has not shown that it knows the user.
    #[error("the server does not know the password")]
    ServerSignature,
    /// The token is not accepted.
    #[error("the token is not accepted")]
    Token,
    /// The token is not accepted, and this end knows why.
    #[error("the token is not accepted: {why}")]
    BadToken {
        /// Why, without anything of the token.
        why: &'static str,
    },
}

impl Refusal {
    /// Returns what Kafka tells the client in its answer. `again` is true when a client that was
    /// authenticated before does it once more.
    ///
    /// Apart from three cases it tells only that the credentials are invalid. Kafka's sentence on
    /// another identity of OAUTHBEARER names both; here it is that of the other mechanisms.
    pub fn told(&self, mechanism: Mechanism, again: bool) -> Cow<'static, str> {
        let told = match self {
            Self::Credentials if mechanism == Mechanism::Plain => {
                "Authentication failed: Invalid username or password"
            }
            Self::OtherIdentity => {
                "Authentication failed: Client requested an authorization id that is different \
                 from username"
            }
            Self::Token | Self::BadToken { .. } => INVALID_TOKEN,
            _ => {
                let what = if again {
                    "re-authentication"
                } else {
                    "authentication"
                };
                return Cow::Owned(format!(
                    "Authentication failed during {what} due to invalid credentials with SASL \
                     mechanism {}",
                    mechanism.name()
                ));
            }
        };
        Cow::Borrowed(told)
    }
}

/// Refuses a part that is longer than any real one.
pub(super) fn check_length(
    what: &'static str,
    bytes: usize,
    bytes_max: usize,
) -> Result<(), Refusal> {
    if bytes > bytes_max {
        return Err(Refusal::TooLong {
            what,
            bytes,
            bytes_max,
        });
    }
    Ok(())
}

/// Returns a message as text, if it is neither too long nor anything but UTF-8.
pub(super) fn text<'a>(
    message: &'static str,
    bytes: &'a [u8],
    bytes_max: usize,
) -> Result<&'a str, Refusal> {
    check_length(message, bytes.len(), bytes_max)?;
    std::str::from_utf8(bytes).map_err(|_| Refusal::Malformed {
        message,
        rule: "it is not UTF-8",
    })
}
