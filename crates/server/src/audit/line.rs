//! An event as lines of JSON: one for most, several for a change of very many things.
//!
//! Invariants: a line is one object, and everything in it that a client chose went through the one
//! function that escapes what cannot be seen ([`escaped_json`]), so no client writes a line, or
//! moves the cursor of who reads it. Fields without a value are left out. docs/audit.md has them
//! all.

use std::collections::BTreeMap;

use broker::audit::{AuditClass, AuditDetail, AuditEvent, AuditOrigin, AuditedChange};
use page::date::utc_exact;
use serde::Serialize;
use wire::text::escaped_json;

use super::pending::DueEvent;

/// How each line begins: by its first field.
pub(super) const BEGINNING: &[u8] = b"{\"time\":\"";

/// Changes on one line.
const CHANGES_MAX: usize = 100;

#[derive(Default, Serialize)]
struct Line<'a> {
    time: String,
    class: &'a str,
    outcome: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    principal: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    address: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    listener: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    mechanism: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    client: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(flatten)]
    right: Option<RightFields<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    changes: &'a [ChangeFields<'a>],
    /// Of how many lines of one request this is which.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<[usize; 2]>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    // Unbounded: one for each class of events.
    dropped: BTreeMap<&'a str, u64>,
    count: u64,
    #[serde(skip_serializing_if = "is_false")]
    cut: bool,
}

#[derive(Serialize)]
struct RightFields<'a> {
    operation: &'a str,
    resource_type: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    pattern: &'a str,
    rule: &'a str,
}

#[derive(Serialize)]
struct ChangeFields<'a> {
    what: &'a str,
    target: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    value: &'a str,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Returns the lines of an event, each with its end.
pub(super) fn lines(due: &DueEvent) -> Vec<Vec<u8>> {
    let event = &due.event;
    let line = Line {
        outcome: outcome(event),
        count: due.count,
        ..beginning(event, due.wall_ms)
    };
    match &event.detail {
        AuditDetail::Login(reason) => vec![ended(&Line { reason, ..line })],
        AuditDetail::Right(right) => {
            let right = Some(RightFields {
                operation: right.operation.name(),
                resource_type: right.resource_type.name(),
                name: &right.name,
                pattern: if right.is_any { "ANY" } else { "LITERAL" },
                rule: &right.rule,
            });
            vec![ended(&Line { right, ..line })]
        }
        AuditDetail::Records(records) => {
            let cut = line.cut || records.is_cut;
            of_changes(Line { cut, ..line }, &records.changes())
        }
        AuditDetail::Changes(changes) => of_changes(line, changes),
    }
}

/// Returns the line about events that found no room, by class.
pub(super) fn of_dropped(dropped: &BTreeMap<AuditClass, u64>, wall_ms: i64) -> Vec<u8> {
    let counts = dropped.values().copied();
    let dropped = dropped.iter();
    ended(&Line {
        time: utc_exact(wall_ms),
        class: "audit",
        outcome: "dropped",
        count: counts.fold(0, u64::saturating_add),
        dropped: dropped
            .map(|(class, count)| (class.name(), *count))
            .collect(),
        ..Line::default()
    })
}

/// Returns the line with which a start shows that the file can be written.
pub(super) fn of_start(wall_ms: i64) -> Vec<u8> {
    ended(&Line {
        time: utc_exact(wall_ms),
        class: "audit",
        outcome: "started",
        count: 1,
        ..Line::default()
    })
}

fn beginning(event: &AuditEvent, wall_ms: i64) -> Line<'_> {
    let AuditOrigin {
        address,
        listener,
        mechanism,
        client,
        api,
    } = &event.origin;
    Line {
        time: utc_exact(wall_ms),
        class: event.class.name(),
        principal: &event.principal,
        address: address.to_canonical().to_string(),
        listener,
        mechanism,
        client,
        api,
        cut: event.is_cut,
        ..Line::default()
    }
}

fn outcome(event: &AuditEvent) -> &'static str {
    match (event.class, &event.detail) {
        (AuditClass::AuthFailure, _) => "failed",
        (AuditClass::Auth, _) => "logged_in",
        (AuditClass::Denied, _) => "denied",
        (AuditClass::WouldDeny | AuditClass::Allowed, _) => "allowed",
        (AuditClass::Admin, AuditDetail::Records(records)) if !records.is_done => "failed",
        (AuditClass::Admin, _) => "done",
    }
}

fn of_changes(mut line: Line<'_>, changes: &[AuditedChange]) -> Vec<Vec<u8>> {
    let parts = changes.len().div_ceil(CHANGES_MAX).max(1);
    let mut lines = Vec::with_capacity(parts);
    let mut rest = changes.chunks(CHANGES_MAX);
    for part in 1..=parts {
        let some = rest.next().unwrap_or_default();
        let cut = line.cut || some.iter().any(|change| change.is_cut);
        let fields = some.iter().map(|change| ChangeFields {
            what: change.what,
            target: &change.target,
            value: &change.value,
        });
        let fields: Vec<_> = fields.collect();
        line.part = (parts > 1).then_some([part, parts]);
        lines.push(ended(&Line {
            time: line.time.clone(),
            address: line.address.clone(),
            changes: &fields,
            cut,
            right: None,
            dropped: BTreeMap::new(),
            ..line
        }));
    }
    lines
}

fn ended(line: &Line<'_>) -> Vec<u8> {
    // Texts and numbers have a form in JSON.
    let json = serde_json::to_string(line).unwrap_or_default();
    let mut bytes = escaped_json(&json).into_owned().into_bytes();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use wire::text::is_unseen;

    use super::*;

    fn due(class: AuditClass, detail: AuditDetail) -> DueEvent {
        let listener = "OUTSIDE".into();
        let mut origin = AuditOrigin::of_login([10, 0, 0, 1].into(), &listener, "PLAIN");
        origin.client = "app\n{\"class\":\"admin\"}\u{202e}\u{9b}2J".to_owned();
        let principal = "User:ada\u{2028}\x1b[2J";
        DueEvent {
            event: AuditEvent::new(class, principal, origin, detail),
            wall_ms: 1_790_000_000_007,
            count: 3,
        }
    }

    #[test]
    fn a_text_of_a_client_makes_no_line_and_moves_no_cursor() {
        let reason = AuditDetail::Login("wrong\r\ncredentials".into());
        let lines = lines(&due(AuditClass::AuthFailure, reason));
        let [line] = &lines[..] else {
            panic!("{lines:?}");
        };
        assert!(line.starts_with(BEGINNING));
        let text = std::str::from_utf8(line).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert!(!text.trim_end().contains(is_unseen), "{text:?}");
        let read: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(read["principal"], "User:ada\u{2028}\x1b[2J");
        assert_eq!(read["reason"], "wrong\r\ncredentials");
        assert_eq!(read["time"], "2026-09-21T14:13:20.007Z");
        assert_eq!(read["class"], "auth_failure");
        assert_eq!(read["outcome"], "failed");
        assert_eq!(
            (read["count"].as_u64(), &read["address"]),
            (Some(3), &"10.0.0.1".into())
        );
        assert!(read.get("operation").is_none() && read.get("cut").is_none());
    }

    #[test]
    fn a_change_of_many_things_is_several_lines_that_say_so() {
        let change = |number: usize| AuditedChange::new("delete_group", &number.to_string(), "");
        let changes = (0..250).map(change).collect();
        let lines = lines(&due(AuditClass::Admin, AuditDetail::Changes(changes)));
        let read = lines.iter().map(|line| {
            let read: serde_json::Value = serde_json::from_slice(line).unwrap();
            let changes = read["changes"].as_array().unwrap().len();
            (read["part"].to_string(), changes)
        });
        let expected = [("[1,3]", 100), ("[2,3]", 100), ("[3,3]", 50)];
        let expected = expected.map(|(part, changes)| (part.to_owned(), changes));
        assert_eq!(read.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_change_whose_name_was_cut_says_so() {
        let cut = |bytes: usize| {
            let changes = vec![AuditedChange::new("order", &"n".repeat(bytes), "")];
            let lines = lines(&due(AuditClass::Admin, AuditDetail::Changes(changes)));
            let read: serde_json::Value = serde_json::from_slice(&lines[0]).unwrap();
            read["cut"] == true
        };
        assert!(!cut(broker::audit::TEXT_BYTES_MAX) && cut(broker::audit::TEXT_BYTES_MAX + 1));
    }

    #[test]
    fn what_found_no_room_is_a_line() {
        let dropped = [(AuditClass::Denied, 5), (AuditClass::Auth, 2)].into();
        let line = of_dropped(&dropped, 0);
        assert!(line.starts_with(BEGINNING) && of_start(0).starts_with(BEGINNING));
        let read: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(read["dropped"]["denied"], 5);
        assert_eq!(
            (read["count"].as_u64(), &read["class"]),
            (Some(7), &"audit".into())
        );
    }
}
