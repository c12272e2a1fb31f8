//! What becomes of one position of a group that is reset.
//!
//! It is `executed` only if the coordinator confirmed it.

use serde::Serialize;

use crate::ask::{Failure, PartitionKey};
use crate::show::{Table, or_dash};

/// A partition, and the group's position in it.
#[derive(Debug, Serialize)]
pub(super) struct MovedPosition {
    topic: String,
    partition: i32,
    from: Option<i64>,
    /// The position that is wanted.
    to: i64,
    executed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl MovedPosition {
    /// Makes a row, given what became of the position, if it was to be stored.
    pub(super) fn of(
        place: PartitionKey,
        from: Option<i64>,
        to: i64,
        stored: Option<Result<(), Failure>>,
    ) -> Self {
        let executed = matches!(stored, Some(Ok(())));
        let failure = stored.and_then(Result::err);
        Self {
            topic: place.0,
            partition: place.1,
            from,
            to,
            executed,
            error: failure.map(|failure| failure.to_string()),
        }
    }

    pub(super) fn is_failed(&self) -> bool {
        self.error.is_some()
    }

    fn status(&self) -> &str {
        match &self.error {
            Some(error) => error,
            None if self.executed => "moved",
            None => "would be moved",
        }
    }
}

pub(super) fn table(moved: &[MovedPosition]) -> String {
    let head = ["TOPIC", "PARTITION", "PRIOR-OFFSET", "NEW-OFFSET", "STATUS"];
    let mut table = Table::headed(&head);
    for one in moved {
        table.row([
            one.topic.clone(),
            one.partition.to_string(),
            or_dash(one.from),
            one.to.to_string(),
            one.status().to_owned(),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::types::ErrorCode;

    use super::*;

    #[test]
    fn a_position_that_was_not_stored_is_not_executed_and_has_a_reason() {
        let row = |stored| MovedPosition::of(("cars".to_owned(), 0), Some(6), 2, stored);
        let planned = row(None);
        assert_eq!(
            (planned.status(), planned.is_failed()),
            ("would be moved", false)
        );
        let moved = row(Some(Ok(())));
        assert_eq!((moved.status(), moved.is_failed()), ("moved", false));
        let expected =
            json!({"topic": "cars", "partition": 0, "from": 6, "to": 2, "executed": true});
        assert_eq!(serde_json::to_value(&moved).unwrap(), expected);

        let refused = row(Some(Err(ErrorCode::TopicAuthorizationFailed.into())));
        assert!(refused.is_failed());
        let json = serde_json::to_value(&refused).unwrap();
        assert_eq!(json["executed"], false);
        assert_eq!(json["error"], "TOPIC_AUTHORIZATION_FAILED");
        let left_out = row(Some(Err(Failure::LeftOut)));
        assert!(left_out.is_failed() && !left_out.executed);
        assert!(table(&[left_out]).contains("the broker did not answer for it"));
    }
}
