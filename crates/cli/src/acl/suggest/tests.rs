//! From the bytes of a log to the lines that are shown.

use super::*;

fn line(principal: &str, operation: &str, resource: &str, name: &str, unsaid: u64) -> String {
    format!(
        "2026-11-28T07:00:00Z  INFO broker::access::denials: would_deny: a client does what ACLs \
         deny, because authorizer.mode is log principal={principal:?} address=10.0.0.1 \
         operation={operation} resource_type={resource} name={name:?} rule=no ACL for the \
         resource unsaid={unsaid}\n"
    )
}

fn read(log: &str) -> SuggestedAcls {
    let mut logs = ReadLogs::default();
    logs.take(log.as_bytes(), false).unwrap();
    logs.suggestions(&[], false)
}

#[test]
fn what_was_asked_for_is_proposed_for_both_tools() {
    let log = line("User:ada", "READ", "TOPIC", "orders", 0)
        + "something else\n"
        + &line("User:ada", "READ", "GROUP", "it's", 3);
    let all = read(&log);
    let [one] = &all.suggestions[..] else {
        panic!("{all:?}");
    };
    assert_eq!((one.lines, one.host.as_str()), (2, "*"));
    assert_eq!(
        one.forebay,
        ["forebay acl add --allow-principal User:ada --topic orders --group 'it'\\''s' --consumer"]
    );
    assert!(one.kafka[0].ends_with("--topic orders --group 'it'\\''s' --consumer"));
    assert_eq!(all.unsaid["READ GROUP"], 3);
    let told = warnings(&all);
    assert!(
        told.iter().any(|told| told.contains("3 denials")),
        "{told:?}"
    );
}

#[test]
fn what_would_open_more_than_was_asked_for_is_left_out() {
    let log = [
        line("User:eve", "READ", "GROUP", "*", 0),
        line("User:*", "READ", "GROUP", "g", 0),
        line("User:eve", "READ", "GROUP", &"g".repeat(200), 0),
        line(
            "User:eve",
            "READ",
            "GROUP",
            "a\nforebay acl add --cluster",
            0,
        ),
        line("User:eve", "FLY", "GROUP", "g", 0),
    ];
    let all = read(&log.concat());
    assert!(all.suggestions.is_empty(), "{:?}", all.suggestions);
    assert_eq!(all.left_out.len(), 5, "{:?}", all.left_out);
    assert!(all.left_out.iter().all(|told| !told.contains('\n')));
    assert!(warnings(&all)[0].contains("no line"));
}

#[test]
fn a_line_without_end_is_passed_over() {
    let mut log = "x".repeat(300_000) + &line("User:eve", "READ", "GROUP", "g", 0);
    log += &line("User:ada", "READ", "GROUP", "g", 0);
    let all = read(&log);
    assert_eq!(all.suggestions.len(), 1);
    assert_eq!(all.suggestions[0].principal, "User:ada");
    // The last line of a file that is being written.
    let log = line("User:ada", "READ", "GROUP", "g", 0);
    assert_eq!(read(log.trim_end()).suggestions.len(), 1);
}
