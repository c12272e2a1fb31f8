//! What is joined, what is due, and what finds no room.

use broker::audit::{AuditOrigin, AuditedChange};
use wire::acl::{Operation, ResourceType};

use super::*;

const LIMITS: PendingLimits = PendingLimits {
    per_second: 100,
    repeat: Duration::from_mins(1),
};

fn origin(last: u8) -> AuditOrigin {
    AuditOrigin::of_login([10, 0, 0, last].into(), &"A".into(), "PLAIN")
}

fn denied(name: &str, last: u8) -> AuditEvent {
    let right = (Operation::Read, ResourceType::Topic, Some(name));
    AuditEvent::of_right(
        AuditClass::Denied,
        "User:ada",
        origin(last),
        right,
        "no ACL",
    )
}

fn change(name: &str) -> AuditEvent {
    let changes = vec![AuditedChange::new("delete_group", name, "")];
    AuditEvent::new(
        AuditClass::Admin,
        "User:root",
        origin(1),
        AuditDetail::Changes(changes),
    )
}

/// What is due, as name and count.
fn due(pending: &mut Pending, now: Instant) -> Vec<(String, u64)> {
    let taken = pending.take(now, false).events.into_iter();
    let named = taken.map(|due| {
        let name = match due.event.detail {
            AuditDetail::Right(right) => right.name,
            AuditDetail::Login(reason) => reason,
            AuditDetail::Changes(changes) => changes[0].target.clone(),
            AuditDetail::Records(_) => String::new(),
        };
        (name, due.count)
    });
    named.collect()
}

fn row(name: &str, count: u64) -> (String, u64) {
    (name.to_owned(), count)
}

#[test]
fn what_repeats_has_a_line_at_once_and_one_in_each_interval() {
    let begin = Instant::now();
    let at = |second| begin + Duration::from_secs(second);
    let mut pending = Pending::new(LIMITS, begin);
    for name in ["a", "a", "a", "b"] {
        assert!(pending.put(denied(name, 1), begin, 1));
    }
    let mut first = due(&mut pending, at(1));
    first.sort();
    assert_eq!(first, [row("a", 3), row("b", 1)]);
    for second in 1..59 {
        assert!(pending.put(denied("a", 1), at(second), 2));
        assert_eq!(due(&mut pending, at(second)), []);
    }
    assert_eq!(due(&mut pending, at(61)), [row("a", 58)]);
    assert_eq!(pending.joined.len(), 1, "b is forgotten");
    assert_eq!(due(&mut pending, at(122)), []);
    assert_eq!((pending.joined.len(), pending.bytes), (0, 0));
}

#[test]
fn events_are_the_same_only_if_all_is_that_tells_who_did_what_from_where() {
    let now = Instant::now();
    let mut pending = Pending::new(LIMITS, now);
    let login = |class, reason: &str| {
        let detail = AuditDetail::Login(reason.to_owned());
        AuditEvent::new(class, "", origin(1), detail)
    };
    let mut other_client = denied("a", 1);
    other_client.origin.client = "other".to_owned();
    let mut other_class = denied("a", 1);
    other_class.class = AuditClass::WouldDeny;
    for event in [
        denied("a", 1),
        other_client,
        other_class,
        denied("a", 2),
        denied("b", 1),
        login(AuditClass::AuthFailure, "one"),
        login(AuditClass::AuthFailure, "two"),
        login(AuditClass::Auth, ""),
    ] {
        assert!(pending.put(event, now, 0));
    }
    assert_eq!(pending.joined.len(), 7);
    let taken = pending.take(now, false).events;
    let counts = taken.iter().map(|due| due.count);
    assert_eq!(counts.max(), Some(2), "the client id is no difference");
}

#[test]
fn an_address_has_its_share_and_a_class_its_bound_and_the_rest_is_counted() {
    let begin = Instant::now();
    let mut pending = Pending::new(LIMITS, begin);
    let names: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let put = |pending: &mut Pending, last, now| {
        let kept = names
            .iter()
            .filter(|name| pending.put(denied(name, last), now, 0));
        kept.count()
    };
    assert_eq!(put(&mut pending, 1, begin), 25);
    for (last, kept) in [(2, 25), (3, 25), (4, 25), (5, 0)] {
        assert_eq!(put(&mut pending, last, begin), kept, "{last}");
    }
    // Other classes have room.
    assert!(pending.put(change("g"), begin, 0));
    let taken = pending.take(begin, false);
    assert_eq!(taken.events.len(), 101);
    assert_eq!(taken.dropped, [(AuditClass::Denied, 4900)].into());
    let later = begin + WINDOW;
    assert_eq!(put(&mut pending, 6, later), 25);
    assert!(pending.take(later, false).dropped[&AuditClass::Denied] == 975);
}

#[test]
fn what_is_remembered_has_a_bound_and_makes_room_when_it_is_written() {
    let begin = Instant::now();
    let limits = PendingLimits {
        per_second: usize::MAX,
        repeat: Duration::from_hours(24),
    };
    let mut pending = Pending::new(limits, begin);
    let long = "n".repeat(broker::audit::TEXT_BYTES_MAX - 8);
    let all = 20_000;
    let put = |pending: &mut Pending, from: usize| {
        let events = (from..from + all).map(|number| denied(&format!("{long}{number:08}"), 1));
        events
            .filter(|event| pending.put(event.clone(), begin, 0))
            .count()
    };
    let kept = put(&mut pending, 0);
    assert!(kept < all && pending.bytes <= BYTES_MAX, "{kept}");
    assert_eq!(pending.take(begin, false).events.len(), kept);
    // They are written: others may take their room, once in a window.
    assert!(put(&mut pending, all) > 0);
    assert!(pending.bytes <= BYTES_MAX && pending.joined.len() <= EVENTS_MAX);
    let bytes = pending.joined.values().map(|joined| joined.event.bytes());
    assert_eq!(pending.bytes, bytes.sum::<usize>());
}

#[test]
fn changes_are_never_joined_and_have_bytes_of_their_own() {
    let now = Instant::now();
    let mut pending = Pending::new(LIMITS, now);
    assert!(pending.has_room_for_changes() && !pending.has_changes());
    let mut kept = 0_usize;
    while pending.put(change("g"), now, i64::try_from(kept).unwrap()) {
        kept += 1;
    }
    assert!(pending.changes_bytes <= CHANGES_BYTES_MAX);
    assert!(!pending.has_room_for_changes() && pending.has_changes());
    let taken = pending.take(now, false);
    assert_eq!(taken.events.len(), kept);
    assert!(taken.events.iter().all(|due| due.count == 1));
    assert_eq!(taken.dropped, [(AuditClass::Admin, 1)].into());
    assert!(pending.has_room_for_changes());
}

#[test]
fn the_end_takes_what_would_have_waited() {
    let now = Instant::now();
    let mut pending = Pending::new(LIMITS, now);
    pending.put(denied("a", 1), now, 0);
    assert_eq!(due(&mut pending, now).len(), 1);
    pending.put(denied("a", 1), now, 0);
    assert_eq!(due(&mut pending, now).len(), 0);
    assert_eq!(pending.take(now, true).events.len(), 1);
}

fn of_data(name: &str) -> AuditEvent {
    let mut event = change(name);
    event.origin.api = "DeleteRecords";
    event
}

#[test]
fn changes_of_data_crowd_out_no_change_of_the_metadata() {
    let now = Instant::now();
    let mut pending = Pending::new(LIMITS, now);
    while pending.put(of_data("t"), now, 0) {}
    assert!(pending.data_bytes > DATA_BYTES_MAX / 2 && pending.data_bytes <= DATA_BYTES_MAX);
    assert!(pending.has_room_for_changes());
    assert!(pending.put(change("acl"), now, 0));
    assert_eq!(
        pending.take(now, false).dropped,
        [(AuditClass::Admin, 1)].into()
    );
    assert!(pending.put(of_data("t"), now, 0));
}

#[test]
fn a_change_gives_no_client_the_lines_of_another_second() {
    let begin = Instant::now();
    let mut pending = Pending::new(LIMITS, begin);
    let mut kept = 0;
    for number in 0..1000 {
        kept += usize::from(pending.put(denied(&number.to_string(), 1), begin, 0));
        pending.put(of_data("t"), begin, 0);
        pending.take(begin, false);
    }
    assert_eq!(kept, LIMITS.per_second.div_ceil(SHARES));
}

#[test]
fn events_are_in_their_order_whatever_the_clock_says() {
    let now = Instant::now();
    let mut pending = Pending::new(LIMITS, now);
    pending.put(change("first"), now, 9000);
    pending.put(denied("second", 1), now, 5000);
    pending.put(change("third"), now, 1000);
    let order = [row("first", 1), row("second", 1), row("third", 1)];
    assert_eq!(due(&mut pending, now), order);
}

#[test]
fn a_host_with_a_network_of_addresses_has_the_share_of_one() {
    let now = Instant::now();
    let mut pending = Pending::new(LIMITS, now);
    let from = |address: String| {
        let mut event = denied("a", 1);
        event.origin.address = address.parse().unwrap();
        event
    };
    let own = (0..1000).map(|number| from(format!("2001:db8::{number:x}")));
    let kept = own
        .filter(|event| pending.put(event.clone(), now, 0))
        .count();
    assert_eq!(kept, LIMITS.per_second.div_ceil(SHARES));
    assert!(pending.put(from("2001:db8:0:1::1".to_owned()), now, 0));
    assert!(pending.put(from("10.0.0.1".to_owned()), now, 0));
    assert_eq!(
        network("::ffff:10.0.0.1".parse().unwrap()),
        IpAddr::from([10, 0, 0, 1])
    );
}
