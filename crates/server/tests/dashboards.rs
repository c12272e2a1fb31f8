//! docs/dashboards.md, the table of the names that public dashboards and alert rules ask for, held
//! to what a broker serves; and the forms in which it serves them.
//!
//! promtool is run where it is installed; where it is not, a line says so and the rest is checked.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

#[path = "running/broker.rs"]
mod running;

use running::{Broker, PATIENCE};

/// The rows of the table: a name, and what serves it.
fn table() -> Vec<(String, String)> {
    let page = page_of_docs();
    let rows = page.lines().filter_map(|line| {
        let (name, here) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((name.to_owned(), here.strip_suffix(" |")?.to_owned()))
    });
    rows.collect()
}

fn page_of_docs() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/dashboards.md");
    std::fs::read_to_string(path).unwrap()
}

/// Runs a command of `forebay` against the broker, with these lines as its input.
fn client(broker: &Broker, arguments: &[&str], input: &str) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command
        .args(arguments)
        .args(["--brokers", &broker.address.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // A command that reads nothing may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait().unwrap().success()
}

/// A broker that has taken records, given them to a group, and refused something.
fn busy(dir: &std::path::Path) -> Broker {
    let broker = Broker::start(dir, &["group.initial.rebalance.delay.ms=0"]);
    assert!(client(
        &broker,
        &["topic", "create", "orders", "-p", "2"],
        ""
    ));
    // Clients without a quota are not measured.
    let quota = [
        "quota",
        "alter",
        "--default",
        "client-id",
        "--set=producer_byte_rate=1000000000",
        "--set=consumer_byte_rate=1000000000",
        "--set=request_percentage=1000",
    ];
    assert!(client(&broker, &quota, ""));
    assert!(client(
        &broker,
        &["topic", "produce", "orders"],
        "a\nb\nc\n"
    ));
    let read = [
        "topic", "consume", "orders", "--group", "readers", "--num", "3",
    ];
    assert!(client(&broker, &read, ""));
    assert!(!client(&broker, &["topic", "describe", "nosuch"], ""));
    broker
}

/// The head and the page of a request with this `Accept`.
fn page(broker: &Broker, accept: &str) -> (String, String) {
    let mut socket = TcpStream::connect(broker.admin).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        socket,
        "GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: {accept}\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// The name of a sample.
fn sample(line: &str) -> &str {
    line.split(['{', ' ']).next().unwrap()
}

#[test]
fn every_name_that_the_table_says_is_served_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let broker = busy(dir.path());
    let (_, text) = broker.ask("GET", "/metrics");
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let served: BTreeSet<&str> = samples.map(sample).collect();
    let mut count = 0;
    for (name, here) in table() {
        if here == "served" {
            assert!(served.contains(name.as_str()), "{name} is not in\n{text}");
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
    for line in [
        "kafka_topic_partitions{topic=\"orders\"} 2",
        "kafka_consumergroup_lag_sum{consumergroup=\"readers\",topic=\"orders\"} 0",
        "kafka_server_brokertopicmetrics_messagesinpersec{topic=\"orders\"} 3",
        "kafka_server_kafkaserver_brokerstate 3",
        "forebay_groups_left_out 0",
    ] {
        assert!(
            text.lines().any(|has| has == line),
            "{line} is not in\n{text}"
        );
    }
    let error = "error=\"UNKNOWN_TOPIC_OR_PARTITION\"";
    assert!(text.contains(error), "{text}");
    let free = "forebay_log_dir_free_bytes{dir=";
    assert!(text.contains(free), "{text}");
}

#[test]
fn the_counts_over_the_table_are_those_of_its_rows() {
    let page = page_of_docs();
    let all = page.lines().find(|line| line.starts_with("| all together"));
    let cells = all.unwrap().split('|').map(str::trim);
    let told: Vec<usize> = cells.filter_map(|cell| cell.parse().ok()).collect();
    let rows = table();
    let of = |starts: &[&str]| {
        let is = |here: &str| starts.iter().any(|start| here.starts_with(start));
        rows.iter().filter(|(_, here)| is(here)).count()
    };
    let counted = [
        rows.len(),
        of(&["served"]),
        of(&["ours"]),
        of(&["not applicable", "not ours"]),
        of(&["not measured"]),
    ];
    assert_eq!(told, counted);
    assert_eq!(counted[0], counted[1..].iter().sum::<usize>());
    let names: BTreeSet<&String> = rows.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), rows.len(), "a name is there twice");
}

/// The numbers of a row of a table.
fn numbers(row: &str) -> Vec<usize> {
    let cells = row.split('|').map(str::trim);
    cells.filter_map(|cell| cell.parse().ok()).collect()
}

#[test]
fn the_counts_of_each_dashboard_add_up_and_the_summary_follows_from_them() {
    let page = page_of_docs();
    let rows: Vec<_> = page
        .lines()
        .filter(|line| numbers(line).len() == 5)
        .collect();
    assert!(rows.len() > 10, "{}", rows.len());
    for row in &rows {
        let counts = numbers(row);
        assert_eq!(counts[0], counts[1..].iter().sum::<usize>(), "{row}");
    }
    for asked_by in [
        "Strimzi, JMX exporter: `strimzi-kafka.json`",
        "Confluent: `kafka-cluster-kraft.json`",
    ] {
        let begins = |start: &str| format!("| {start}{asked_by} |");
        let summary = page.lines().find(|line| line.starts_with(&begins("of ")));
        let row = rows.iter().find(|row| row.starts_with(&begins("")));
        let (summary, row) = (summary.unwrap(), row.unwrap());
        let (summary, counts) = (numbers(summary), numbers(row));
        assert_eq!(
            summary,
            [counts[0] - counts[3], counts[1] + counts[2]],
            "{row}"
        );
    }
}

/// What is ours instead is a metric that there is.
#[test]
fn the_table_names_only_metrics_that_are_documented() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    for (name, here) in table() {
        let Some(ours) = here
            .strip_prefix("ours: ")
            .filter(|ours| !ours.starts_with("the same"))
        else {
            continue;
        };
        let words = ours.split(|one: char| !(one.is_ascii_alphanumeric() || one == '_'));
        let named = words.filter(|word| word.starts_with("kafka_") || word.starts_with("forebay_"));
        for word in named {
            assert!(
                docs.contains(&format!("| `{word}` |")),
                "{name}: {word} is not in docs/metrics.md"
            );
        }
    }
}

/// Checks that each family has one type, stands together, and has each sample once; returns the
/// samples.
fn sound(text: &str, samples_of: impl Fn(&str, &str) -> Vec<String>) -> BTreeSet<&str> {
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let (mut seen, mut mine) = (BTreeSet::new(), Vec::new());
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').unwrap();
            assert!(kinds.insert(name, kind).is_none(), "{name} is there twice");
            mine = samples_of(name, kind);
        } else if !line.starts_with('#') {
            let name = sample(line);
            assert!(mine.iter().any(|one| one == name), "{line} is in no family");
            let (series, _) = line.rsplit_once(' ').unwrap();
            assert!(seen.insert(series), "{series} is there twice");
        }
    }
    seen
}

#[test]
fn both_formats_are_sound_and_have_the_same_samples() {
    let dir = tempfile::tempdir().unwrap();
    let broker = busy(dir.path());
    let of_histogram = |name: &str| {
        ["_bucket", "_sum", "_count"]
            .map(|end| format!("{name}{end}"))
            .to_vec()
    };
    let as_text = |name: &str, kind: &str| match kind {
        "histogram" => of_histogram(name),
        _ => vec![name.to_owned()],
    };
    let (_, before) = page(&broker, "text/plain");
    let before = sound(&before, as_text);
    let (head, open) = page(
        &broker,
        "application/openmetrics-text;version=1.0.0,*/*;q=0.2",
    );
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(open.ends_with("# EOF\n"), "{open}");
    let in_open = sound(&open, |name, kind| match kind {
        "counter" => vec![format!("{name}_total")],
        "info" => vec![format!("{name}_info")],
        "histogram" => of_histogram(name),
        _ => vec![name.to_owned()],
    });
    let (head, text) = page(&broker, "text/plain");
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(!text.contains("# EOF") && !text.contains(" unknown\n") && !text.contains(" info\n"));
    let in_text = sound(&text, as_text);
    // A series may begin between two scrapes.
    let lost: Vec<_> = before.difference(&in_open).collect();
    assert!(lost.is_empty(), "OpenMetrics leaves out {lost:?}");
    let lost: Vec<_> = in_open.difference(&in_text).collect();
    assert!(lost.is_empty(), "the text leaves out {lost:?}");
    let promtool = std::env::var("PROMTOOL").unwrap_or("promtool".into());
    let mut command = Command::new(promtool);
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    match command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        Ok(mut child) => {
            child
                .stdin
                .take()
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
            let output = child.wait_with_output().unwrap();
            // 3: it reads all of it, and would name some metrics otherwise than Kafka does.
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 3)), "{output:?}");
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("SKIPPED: promtool is not installed");
        }
        Err(error) => panic!("{error}"),
    }
}
