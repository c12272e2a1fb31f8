//! Why one of many things has no answer: one partition, one topic, one group.
//!
//! A command shows it in the row of that thing and goes on with the others.

use std::fmt::{self, Display, Formatter};

use wire::types::ErrorCode;

use super::refusal::Refusal;

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The broker answered with an error code.
    Refused(Refusal),
    /// The broker could not be asked, for this reason.
    NotAsked(String),
    /// The answer of the broker does not name the thing.
    LeftOut,
    /// The command refuses it, for this reason.
    Unsafe(String),
}

impl Failure {
    /// Returns true if the offsets of a partition are not known for a reason that is no failure of
    /// the command: the partition has no leader, or its topic was deleted.
    pub(crate) fn is_excused(&self) -> bool {
        let Self::Refused(refusal) = self else {
            return false;
        };
        matches!(
            refusal.error,
            ErrorCode::LeaderNotAvailable | ErrorCode::UnknownTopicOrPartition
        )
    }
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(formatter),
            Self::NotAsked(reason) | Self::Unsafe(reason) => formatter.write_str(reason),
            Self::LeftOut => formatter.write_str("the broker did not answer for it"),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ErrorCode> for Failure {
    fn from(error: ErrorCode) -> Self {
        Self::Refused(error.into())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<Refusal>() {
            Ok(refusal) => Self::Refused(refusal),
            Err(error) => Self::NotAsked(format!("{error:#}")),
        }
    }
}

impl From<Failure> for anyhow::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            // Callers retry some error codes.
            Failure::Refused(refusal) => refusal.into(),
            other => Self::msg(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn an_error_code_stays_one_and_other_errors_keep_their_reasons() {
        let refusal = Refusal::from(ErrorCode::NotCoordinator);
        let wrapped = Err::<(), _>(refusal.clone()).context("group g");
        let failure = Failure::from(wrapped.unwrap_err());
        assert_eq!(failure, Failure::Refused(refusal.clone()));
        let back = anyhow::Error::from(failure);
        assert_eq!(back.downcast_ref::<Refusal>(), Some(&refusal));

        let lost = anyhow::anyhow!("reset").context("broker a:1");
        let failure = Failure::from(lost);
        assert_eq!(failure.to_string(), "broker a:1: reset");
    }

    #[test]
    fn only_a_missing_leader_or_topic_excuses_that_offsets_are_not_known() {
        for error in [
            ErrorCode::LeaderNotAvailable,
            ErrorCode::UnknownTopicOrPartition,
        ] {
            assert!(Failure::from(error).is_excused(), "{error:?}");
        }
        for error in [
            ErrorCode::TopicAuthorizationFailed,
            ErrorCode::KafkaStorageError,
            ErrorCode::NotLeaderOrFollower,
        ] {
            assert!(!Failure::from(error).is_excused(), "{error:?}");
        }
        let silent = Failure::NotAsked("no answer".into());
        assert!(!silent.is_excused() && !Failure::LeftOut.is_excused());
    }
}
