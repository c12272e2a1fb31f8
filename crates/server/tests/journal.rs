//! A broker with a journal, as a process: killed with records in the journal only, then recovered
//! without a broker, or by the next one; and what a start says of a journal that is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;

#[path = "running/broker.rs"]
mod running;

use running::{Broker, command};

/// Nothing lands by itself while a test runs, but for age.
const JOURNAL: &str = "journal.bytes=4194304";

fn forebay(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(arguments).output().unwrap()
}

fn ok(arguments: &[&str]) -> String {
    let output = forebay(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn client(broker: &Broker, arguments: &[&str]) -> String {
    let address = broker.address.to_string();
    ok(&[arguments, &["--brokers", &address]].concat())
}

/// Makes a topic, writes three records, and is killed at once.
fn killed(data: &Path, settings: &[&str]) {
    let mut broker = Broker::start(data, &[&[JOURNAL, "num.shards=2"], settings].concat());
    client(&broker, &["topic", "create", "cars", "-p", "2"]);
    let written = ["topic", "produce", "cars", "-p", "0", "-q", "a", "b", "c"];
    client(&broker, &written);
    let (_, metrics) = broker.ask("GET", "/metrics");
    let commits = metrics
        .lines()
        .find_map(|line| line.strip_prefix("forebay_storage_journal_commits_total "));
    assert!(commits.is_some_and(|commits| commits != "0"), "{commits:?}");
    assert!(!broker.stop(Signal::KILL).success());
}

fn values(broker: &Broker) -> String {
    client(broker, &["topic", "consume", "cars", "-p", "0", "-e"])
}

fn version_of(data: &Path) -> String {
    let text = fs::read_to_string(data.join("meta.properties")).unwrap();
    let version = text.lines().find(|line| line.starts_with("version="));
    version.unwrap().to_owned()
}

fn rings(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_ring = |path: &PathBuf| path.extension().is_some_and(|it| it == "ring");
    entries.filter(is_ring).collect()
}

#[test]
fn what_a_killed_broker_had_in_its_journal_is_recovered_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    killed(&data, &[]);
    assert_eq!(version_of(&data), "version=2");
    let path = data.to_str().unwrap();

    let shown = ok(&["journal", "show", path]);
    assert!(
        shown.contains(": counts") && shown.contains("commit "),
        "{shown}"
    );
    let lines = ok(&["journal", "show", path, "--format", "json"]);
    let rows: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(rows.iter().any(|row| row["kind"] == "part"), "{lines}");

    let recovered = ok(&["recover", path, "--format", "json"]);
    let recovered: Value = serde_json::from_str(&recovered).unwrap();
    assert_eq!(recovered[0]["whole"], true, "{recovered}");
    assert_eq!(recovered[0]["journals"].as_array().unwrap().len(), 2);
    assert_eq!(version_of(&data), "version=1");
    let again = ok(&["recover", path]);
    assert!(again.contains("no journal counts"), "{again}");
    ok(&["check", path]);

    let mut broker = Broker::start(&data, &["num.shards=1"]);
    assert_eq!(values(&broker), "a\nb\nc\n");
    assert!(broker.stop(Signal::TERM).success());
}

#[test]
fn the_next_broker_has_what_was_in_the_journal_and_a_clean_stop_leaves_nothing_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (data, fast) = (dir.path().join("data"), dir.path().join("fast"));
    let at = format!("journal.dir={}", fast.display());
    killed(&data, &[&at]);
    assert_eq!(rings(&fast).len(), 2);
    let mut broker = Broker::start(&data, &[JOURNAL, &at, "num.shards=1"]);
    assert_eq!(values(&broker), "a\nb\nc\n");
    let (_, ready) = broker.ask("GET", "/readyz");
    assert!(!ready.contains("journal"), "{ready}");
    assert_eq!(rings(&fast).len(), 1, "the other shard is no more");
    assert!(broker.stop(Signal::TERM).success());
    assert_eq!(version_of(&data), "version=1");
    fs::remove_dir_all(&fast).unwrap();
    let mut broker = Broker::start(&data, &[]);
    assert_eq!(values(&broker), "a\nb\nc\n");
    assert!(broker.stop(Signal::TERM).success());
}

#[test]
fn a_lost_journal_refuses_the_start_by_its_name_and_is_given_up_only_when_told() {
    let dir = tempfile::tempdir().unwrap();
    let (data, fast) = (dir.path().join("data"), dir.path().join("fast"));
    let at = format!("journal.dir={}", fast.display());
    killed(&data, &[&at]);
    let away = dir.path().join("away");
    fs::rename(&fast, &away).unwrap();
    let refused = command(&data, &[JOURNAL, &at]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    assert!(
        said.contains(fast.to_str().unwrap()) && said.contains("--forget-journals"),
        "{said}"
    );
    let file = dir.path().join("server.properties");
    let settings = format!("log.dirs={}\n{JOURNAL}\n{at}\n", data.display());
    fs::write(&file, settings).unwrap();
    let checked = forebay(&["config", "check", "--data", file.to_str().unwrap()]);
    let found = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(
        !checked.status.success() && found.contains("is not there"),
        "{found}"
    );
    let refused = forebay(&["recover", data.to_str().unwrap()]);
    assert!(!refused.status.success());
    let refused = forebay(&["metadata", "repair", data.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("forebay recover"), "{said}");
    // It is somewhere else now.
    let path = data.to_str().unwrap();
    ok(&["recover", path, "--journal-dir", away.to_str().unwrap()]);
    let broker = Broker::start(&data, &[]);
    assert_eq!(values(&broker), "a\nb\nc\n");
}

#[test]
fn a_journal_that_cannot_be_made_keeps_no_broker_from_serving() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let file = dir.path().join("file");
    fs::write(&file, b"not a directory").unwrap();
    let at = format!("journal.dir={}", file.display());
    let mut broker = Broker::start(&data, &[JOURNAL, &at]);
    let (_, ready) = broker.ask("GET", "/readyz");
    assert!(ready.contains("unused_journals"), "{ready}");
    client(&broker, &["topic", "create", "cars", "-p", "2"]);
    client(&broker, &["topic", "produce", "cars", "-p", "0", "-q", "a"]);
    assert!(broker.stop(Signal::TERM).success());
    assert_eq!(version_of(&data), "version=1");
}

fn copy_of(data: &Path) -> PathBuf {
    let copy = data.with_extension("copy");
    let mut command = Command::new("cp");
    let copied = command.arg("-a").arg(data).arg(&copy).status().unwrap();
    assert!(copied.success());
    copy
}

#[test]
fn who_recovers_a_copy_of_a_log_directory_takes_nothing_from_the_directory_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (data, fast) = (dir.path().join("data"), dir.path().join("fast"));
    let at = format!("journal.dir={}", fast.display());
    killed(&data, &[&at]);
    let copy = copy_of(&data);
    ok(&["recover", copy.to_str().unwrap()]);
    let mut broker = Broker::start(&copy, &["num.shards=1"]);
    assert_eq!(values(&broker), "a\nb\nc\n");
    assert!(broker.stop(Signal::TERM).success());
    let broker = Broker::start(&data, &[JOURNAL, &at]);
    assert_eq!(values(&broker), "a\nb\nc\n");
}

#[test]
fn the_journal_of_a_running_broker_is_not_read_or_written_through_a_copy_of_its_log_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (data, fast) = (dir.path().join("data"), dir.path().join("fast"));
    let at = format!("journal.dir={}", fast.display());
    let mut broker = Broker::start(&data, &[JOURNAL, &at]);
    client(&broker, &["topic", "create", "cars", "-p", "2"]);
    let copy = copy_of(&data);
    let refused = forebay(&["recover", copy.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("in use"),
        "{said}"
    );
    let refused = command(&copy, &[JOURNAL, &at]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("is it a copy"),
        "{said}"
    );
    let written = ["topic", "produce", "cars", "-p", "0", "-q", "a", "b", "c"];
    client(&broker, &written);
    assert!(!broker.stop(Signal::KILL).success());
    let broker = Broker::start(&data, &[JOURNAL, &at]);
    assert_eq!(values(&broker), "a\nb\nc\n");
}

#[test]
fn a_journal_that_was_mounted_elsewhere_is_found_by_the_settings() {
    let dir = tempfile::tempdir().unwrap();
    let (data, fast) = (dir.path().join("data"), dir.path().join("fast"));
    killed(&data, &[&format!("journal.dir={}", fast.display())]);
    let moved = dir.path().join("moved");
    fs::rename(&fast, &moved).unwrap();
    let at = format!("journal.dir={}", moved.display());
    let broker = Broker::start(&data, &[JOURNAL, &at, "num.shards=2"]);
    assert_eq!(values(&broker), "a\nb\nc\n");
}

#[test]
fn one_directory_that_cannot_be_recovered_keeps_none_of_the_others_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (dir.path().join("one"), dir.path().join("other"));
    for data in [&one, &other] {
        killed(data, &[]);
    }
    for ring in rings(&one) {
        // Both headers are damaged.
        fs::write(&ring, vec![1; 65_536]).unwrap();
    }
    let dirs = [one.to_str().unwrap(), other.to_str().unwrap()];
    let refused = forebay(&["recover", dirs[0], dirs[1]]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("journal show") && said.contains(dirs[0]),
        "{said}"
    );
    assert_eq!(version_of(&one), "version=2");
    assert_eq!(version_of(&other), "version=1");
    let shown = ok(&["journal", "show", dirs[0]]);
    assert!(shown.contains("not read"), "{shown}");
}
