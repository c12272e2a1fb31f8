//! Errors in a broker's answers, and retries of those that are transient.
//!
//! Invariant: messages of brokers are shown escaped.

use std::fmt::{self, Display, Formatter};
use std::thread;
use std::time::{Duration, Instant};

use client::error::{protocol_name, shown};
use wire::StrBytes;
use wire::types::ErrorCode;

const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// An error code of the protocol, with the broker's message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) error: ErrorCode,
    message: Option<String>,
}

impl Refusal {
    /// Returns true for a transient error: a coordinator that loads, a leader that is being
    /// elected.
    pub(crate) fn passes(&self) -> bool {
        matches!(
            self.error,
            ErrorCode::CoordinatorLoadInProgress
                | ErrorCode::CoordinatorNotAvailable
                | ErrorCode::NotCoordinator
                | ErrorCode::LeaderNotAvailable
                | ErrorCode::NotLeaderOrFollower
        )
    }
}

impl From<ErrorCode> for Refusal {
    fn from(error: ErrorCode) -> Self {
        Self {
            error,
            message: None,
        }
    }
}

impl std::error::Error for Refusal {}

impl Display for Refusal {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&protocol_name(self.error))?;
        match &self.message {
            Some(message) if !message.is_empty() => write!(formatter, ": {}", shown(message)),
            _ => Ok(()),
        }
    }
}

/// Converts the error code of an answer into a result.
pub(crate) fn check(code: i16, message: Option<&StrBytes>) -> Result<(), Refusal> {
    match ErrorCode::try_from_code(code) {
        None => Ok(()),
        Some(error) => Err(Refusal {
            error,
            message: message.map(|message| message.as_str().to_owned()),
        }),
    }
}

/// Retries until `attempt` succeeds, fails with a lasting error, or the time is over.
pub(crate) fn patiently<T>(
    within: Duration,
    attempt: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    while_it_passes(within, Refusal::passes, attempt)
}

/// Does the same as [`patiently`], with `passing` to select the transient errors.
pub(crate) fn while_it_passes<T>(
    within: Duration,
    passing: impl Fn(&Refusal) -> bool,
    mut attempt: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + within;
    loop {
        let tried = attempt();
        let passes = tried.as_ref().is_err_and(|error| {
            let refusal = error.downcast_ref::<Refusal>();
            refusal.is_some_and(&passing)
        });
        if !passes || Instant::now() >= deadline {
            return tried;
        }
        thread::sleep(ASK_AGAIN_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn errors_are_named_as_the_protocol_names_them() {
        let refusal = check(36, Some(&StrBytes::from_static_str("there"))).unwrap_err();
        assert_eq!(refusal.to_string(), "TOPIC_ALREADY_EXISTS: there");
        let forged = StrBytes::from_static_str("no\nforebay: done\x1b[1m");
        let refusal = check(36, Some(&forged)).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "TOPIC_ALREADY_EXISTS: no\\u{a}forebay: done\\u{1b}[1m"
        );
        let bare = check(16, None).unwrap_err();
        assert_eq!(bare.to_string(), "NOT_COORDINATOR");
        assert_eq!(
            check(9999, None).unwrap_err().to_string(),
            "error code 9999"
        );
    }

    #[test]
    fn only_what_passes_is_tried_again() {
        let mut times = 0;
        let done = patiently(Duration::from_mins(1), || {
            times += 1;
            let code = if times < 3 { 14 } else { 0 };
            check(code, None).context("group g")?;
            Ok(times)
        });
        assert_eq!(done.unwrap(), 3);
        let refused = patiently(Duration::from_mins(1), || Ok(check(36, None)?));
        assert!(refused.is_err());
    }
}
