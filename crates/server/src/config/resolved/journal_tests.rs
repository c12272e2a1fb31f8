//! Journals in, and what is refused.

use std::path::Path;

use super::tests::{check_refused, check_warned, settings};
use super::*;

fn journal(text: &str) -> Option<JournalSettings> {
    settings(text).broker_options(NodeId(1), &[9092]).journal
}

#[test]
fn without_a_size_there_is_no_journal() {
    assert_eq!(journal(""), None);
    assert_eq!(journal("journal.bytes=0"), None);
    let why = "server.properties:1: journal.dir: has no effect: journal.bytes is 0, so there is no journal";
    check_warned("journal.dir=/fast", &[why]);
}

#[test]
fn a_journal_lies_in_its_log_directory_or_where_it_is_told() {
    let here = journal("journal.bytes=1048577\nlog.dirs=/a,/b").unwrap();
    assert_eq!(here.size.bytes(), 1 << 20, "whole blocks");
    assert_eq!(here.dirs, [None, None]);
    assert_eq!(here.rings_dir(1, Path::new("/b")), Path::new("/b"));
    let fast = journal("journal.bytes=1048576\nlog.dirs=/a,/b\njournal.dir=/fast").unwrap();
    assert_eq!(fast.dirs, [Some("/fast".into()), Some("/fast".into())]);
    let each = journal("journal.bytes=1048576\nlog.dirs=/a,/b\njournal.dir=/x,/b/../b").unwrap();
    assert_eq!(each.dirs, [Some("/x".into()), None]);
    assert_eq!(each.own_dir(0), Some(Path::new("/x")));
}

#[test]
fn what_is_not_landed_takes_half_of_the_memory_for_unwritten_bytes_at_most() {
    let unlanded = |text: &str| {
        let journal = journal(&format!("journal.bytes=1048576\n{text}")).unwrap();
        journal.options.unlanded_bytes_max
    };
    assert_eq!(unlanded(""), 64 << 20);
    assert_eq!(
        unlanded("journal.unlanded.bytes.max=99999999999999"),
        2 << 30
    );
    let two = "journal.unlanded.bytes.max=99999999999999\nlog.dirs=/a,/b";
    assert_eq!(unlanded(two), 1 << 30);
}

#[test]
fn journals_that_cannot_be_are_refused() {
    check_refused(
        "journal.bytes=4096",
        "server.properties:1: journal.bytes=4096: must be 0 or at least 1048576",
    );
    check_refused(
        "journal.bytes=1048576\nlog.dirs=/a,/b\njournal.dir=/x,/y,/z",
        "server.properties:3: journal.dir=/x,/y,/z: must be one directory, or 2: one for each of log.dirs",
    );
    check_refused(
        "journal.bytes=1048576\nlog.dirs=/a\njournal.dir=/a/ring",
        "server.properties:3: journal.dir=/a/ring: must not lie in a log directory, as /a/ring does",
    );
    check_refused(
        "journal.bytes=1048576\nstorage.tiers=one\nstorage.tier.one.paths=/a",
        "server.properties:1: journal.bytes=1048576: must be 0 with tiers: their logs do not use a journal yet",
    );
}
