//! What a broker does not do: write while it is idle, and talk about each log after a kill.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

#[path = "running/broker.rs"]
mod running;

use running::{Broker, PATIENCE, command};

/// Checkpoints every 200 ms: what the default does in minutes, a test sees in seconds.
const OFTEN: &str = "replica.high.watermark.checkpoint.interval.ms=200";
/// For how long the broker is watched: 40 checkpoints.
const WATCHED: Duration = Duration::from_secs(8);

fn client(broker: &Broker, arguments: &[&str], input: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command
        .args(arguments)
        .args(["--brokers", &broker.address.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut sent = child.stdin.take().unwrap();
    sent.write_all(input.as_bytes()).unwrap();
    drop(sent);
    assert!(child.wait().unwrap().success(), "{arguments:?}");
}

/// All files and directories below one, with what changes when a program writes to them: number,
/// length, and the times of the last change of the bytes and of the rest.
fn places(dir: &Path, into: &mut BTreeMap<PathBuf, [i64; 6]>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        // A file that is renamed meanwhile is a change, which the next look shows.
        let Ok(about) = fs::metadata(&path) else {
            continue;
        };
        let number = about.ino().cast_signed();
        let len = about.size().cast_signed();
        let modified = [about.mtime(), about.mtime_nsec()];
        let changed = [about.ctime(), about.ctime_nsec()];
        let row = [
            number,
            len,
            modified[0],
            modified[1],
            changed[0],
            changed[1],
        ];
        into.insert(path.clone(), row);
        if about.is_dir() {
            places(&path, into);
        }
    }
}

fn look(dir: &Path) -> BTreeMap<PathBuf, [i64; 6]> {
    let mut all = BTreeMap::new();
    places(dir, &mut all);
    all
}

/// The bytes that a process has given to disks.
fn written_bytes(broker: &Broker) -> u64 {
    let path = format!("/proc/{}/io", broker.process.id());
    let text = fs::read_to_string(path).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.unwrap().parse().unwrap()
}

#[test]
fn an_idle_broker_of_two_thousand_partitions_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), &[OFTEN]);
    client(&broker, &["topic", "create", "many", "-p", "2000"], "");
    client(&broker, &["topic", "produce", "many"], "a\nb\nc\n");
    let begun = Instant::now();
    let mut before = look(dir.path());
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = look(dir.path());
        if now == before {
            break;
        }
        before = now;
        assert!(begun.elapsed() < 4 * PATIENCE, "it never comes to rest");
    }
    assert!(before.len() > 2000, "{}", before.len());
    let written = written_bytes(&broker);
    std::thread::sleep(WATCHED);
    let after = look(dir.path());
    let changed: Vec<_> = after
        .iter()
        .filter(|&(path, row)| before.get(path) != Some(row))
        .collect();
    assert!(changed.is_empty(), "{changed:?}");
    assert_eq!(after.len(), before.len());
    assert_eq!(written_bytes(&broker) - written, 0);
}

/// A broker, and the lines of its log up to `ready`.
fn start(dir: &Path) -> (Broker, Vec<Value>) {
    let mut process = command(dir, &[]).spawn().unwrap();
    let mut log = BufReader::new(process.stderr.take().unwrap());
    let mut lines: Vec<Value> = Vec::new();
    while lines.last().is_none_or(|last| last["message"] != "ready") {
        let mut text = String::new();
        assert_ne!(log.read_line(&mut text).unwrap(), 0, "{lines:?}");
        lines.push(serde_json::from_str(&text).unwrap());
    }
    let of = |message: &str| {
        lines
            .iter()
            .find(|line| line["message"] == message)
            .unwrap()
    };
    let port = u16::try_from(of("listening")["port"].as_u64().unwrap()).unwrap();
    let broker = Broker {
        process,
        log,
        address: ([127, 0, 0, 1], port).into(),
        admin: of("ready")["admin"].as_str().unwrap().parse().unwrap(),
    };
    (broker, lines)
}

fn messages(lines: &[Value]) -> Vec<&str> {
    let messages = lines.iter().map(|line| line["message"].as_str().unwrap());
    messages.collect()
}

#[test]
fn a_start_after_a_kill_says_one_line_more_than_one_after_a_clean_stop() {
    let dir = tempfile::tempdir().unwrap();
    let (mut broker, _) = start(dir.path());
    client(&broker, &["topic", "create", "many", "-p", "40"], "");
    // The keys spread the records over all partitions.
    let lines: Vec<_> = (0..1000).map(|key| format!("{key}:value")).collect();
    let records = lines.join("\n");
    let produce = ["topic", "produce", "many", "-K:", "-q"];
    client(&broker, &produce, &records);
    assert!(broker.stop(Signal::TERM).success());
    let (mut broker, clean) = start(dir.path());
    client(&broker, &produce, &records);
    broker.stop(Signal::KILL);
    let (_broker, killed) = start(dir.path());
    let mut more = messages(&killed);
    for message in messages(&clean) {
        let at = more.iter().position(|one| *one == message);
        more.remove(at.unwrap_or_else(|| panic!("{message:?} is not in {killed:?}")));
    }
    let summary = "unclean stop: the logs were recovered, no bytes of records were dropped";
    assert_eq!(more, [summary], "{killed:?}");
    let line = killed.iter().find(|line| line["message"] == summary);
    assert!(line.unwrap()["logs"].as_u64().unwrap() >= 40, "{line:?}");
}
