//! The client commands, as a person calls them, against a broker that serves.
//!
//! `tests/clients/test_cli.py` has the same commands against other brokers too.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

#[path = "running/broker.rs"]
mod running;

use running::Broker;

/// A broker, and a directory of profiles that holds one with the address of the broker.
struct Cluster {
    broker: Broker,
    dir: tempfile::TempDir,
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(arguments).env("XDG_CONFIG_HOME", dir);
    command
}

impl Cluster {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let broker = Broker::start(&dir.path().join("data"), &[]);
        let cluster = Self { broker, dir };
        let brokers = format!("brokers={}", cluster.broker.address);
        cluster.ok(&["profile", "set", "test", &brokers]);
        cluster
    }

    fn run(&self, arguments: &[&str]) -> Output {
        command(self.dir.path(), arguments).output().unwrap()
    }

    /// What the command printed; it must have succeeded.
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--format", "json"]].concat();
        serde_json::from_str(&self.ok(&arguments)).unwrap()
    }

    /// What the command said on both streams; it must have failed with this exit code.
    fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        said
    }

    fn names(&self, arguments: &[&str]) -> Vec<String> {
        let listed = self.json(arguments);
        let names = listed.as_array().unwrap().iter();
        names
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    }

    fn write(&self, topic: &str, values: &[&str]) {
        let produce = ["topic", "produce", topic, "-p", "0", "-q"];
        let arguments = [&produce[..], values].concat();
        self.ok(&arguments);
    }

    fn start_offset(&self, topic: &str) -> i64 {
        let described = self.json(&["topic", "describe", topic]);
        described[0]["partitions"][0]["start_offset"]
            .as_i64()
            .unwrap()
    }
}

#[test]
fn patterns_select_and_what_they_select_is_deleted_only_when_told() {
    let cluster = Cluster::start();
    cluster.ok(&["topics", "create", "cars-1", "cars-22", "trucks", "-p", "1"]);
    assert_eq!(
        cluster.names(&["topics", "list", "cars*"]),
        ["cars-1", "cars-22"]
    );
    assert_eq!(
        cluster.names(&["topic", "list", "/cars-[0-9]/"]),
        ["cars-1"]
    );
    assert_eq!(
        cluster.names(&["topic", "describe", "/.*s/", "cars-1"]),
        ["cars-1", "trucks"]
    );
    assert!(
        cluster
            .refused(2, &["topic", "list", "/(/"])
            .contains("unclosed group")
    );
    assert!(
        cluster
            .refused(1, &["topic", "describe", "x*"])
            .contains("no topic matches x*")
    );

    let planned = cluster.run(&["topic", "delete", "cars*"]);
    let said = String::from_utf8(planned.stderr).unwrap();
    assert!(
        planned.status.success() && said.contains("--execute"),
        "{said}"
    );
    let planned = cluster.json(&["topic", "delete", "cars*"]);
    assert_eq!(planned[0], json!({"name": "cars-1", "done": false}));
    assert_eq!(cluster.names(&["topic", "list"]).len(), 3);
    cluster.ok(&["topic", "delete", "cars*", "--execute"]);
    assert_eq!(cluster.names(&["topic", "list"]), ["trucks"]);
    cluster.ok(&["topic", "delete", "cars*", "--if-exists", "--execute"]);
    // A name is as explicit as --execute.
    cluster.ok(&["topic", "delete", "trucks"]);
    assert!(cluster.names(&["topic", "list"]).is_empty());
}

#[test]
fn a_topic_is_trimmed_only_when_told_and_gets_more_partitions() {
    let cluster = Cluster::start();
    cluster.ok(&["topic", "create", "cars", "-p", "2"]);
    cluster.write("cars", &["0", "1", "2", "3", "4"]);

    let shown = cluster.json(&["topic", "trim", "cars", "-o", "-2"]);
    let expected =
        json!({"topic": "cars", "partition": 0, "from": 0, "to": 3, "end": 5, "executed": false});
    assert_eq!(shown[0], expected);
    assert_eq!(shown[1]["to"], 0, "nothing is in the other partition");
    assert_eq!(cluster.start_offset("cars"), 0);
    let text = cluster.ok(&["topic", "trim", "cars", "-o", "3", "-p", "0", "--execute"]);
    assert!(text.contains("3 offsets deleted"), "{text}");
    assert_eq!(cluster.start_offset("cars"), 3);
    assert_eq!(
        cluster.ok(&["topic", "consume", "cars", "-o", "oldest", "-e"]),
        "3\n4\n"
    );
    let text = cluster.ok(&["topic", "trim", "cars", "-o", "1", "--execute"]);
    assert!(text.contains("nothing to delete"), "{text}");
    cluster.ok(&["topic", "trim", "c*", "-o", "newest", "--execute"]);
    assert_eq!(cluster.start_offset("cars"), 5);
    cluster.write("cars", &["5", "6"]);
    let beyond = cluster.refused(1, &["topic", "trim", "cars", "-o", "8", "--execute"]);
    assert!(beyond.contains("ends at 7; -o end deletes all"), "{beyond}");
    assert_eq!(cluster.start_offset("cars"), 5);
    let missing = cluster.refused(1, &["topic", "trim", "cars", "-o", "end", "-p", "7"]);
    assert!(
        missing.contains("topic cars has no partition 7"),
        "{missing}"
    );
    let wrong = cluster.refused(2, &["topic", "trim", "cars", "-o", "middle"]);
    assert!(wrong.contains("middle"), "{wrong}");

    let text = cluster.ok(&["topic", "add-partitions", "cars", "-n", "3", "--dry-run"]);
    assert!(text.contains("would have 5 partitions, before 2"), "{text}");
    cluster.ok(&["topic", "add-partitions", "cars", "-n", "3"]);
    let described = cluster.json(&["topic", "describe", "cars"]);
    assert_eq!(described[0]["partitions"].as_array().unwrap().len(), 5);
    let missing = cluster.refused(1, &["topic", "add-partitions", "not", "-n", "1"]);
    assert!(missing.contains("UNKNOWN_TOPIC_OR_PARTITION"), "{missing}");
}

#[test]
fn what_fails_is_told_and_hides_nothing_else() {
    let cluster = Cluster::start();
    let create = ["topic", "create", "cars", "trucks", "cars"];
    let tried = cluster.json(&[&create[..], &["--dry-run"]].concat());
    let would = |name: &str| json!({"name": name, "done": false});
    assert_eq!(tried, json!([would("cars"), would("trucks")]));
    cluster.ok(&[&create[..], &["-p", "3"]].concat());

    let both = cluster.run(&["topic", "describe", "bikes", "cars", "--format", "json"]);
    assert_eq!(both.status.code(), Some(1));
    let described: Value = serde_json::from_slice(&both.stdout).unwrap();
    assert_eq!(described[0]["name"], "cars");
    let said = String::from_utf8(both.stderr).unwrap();
    assert!(
        said.contains("topic bikes: UNKNOWN_TOPIC_OR_PARTITION"),
        "{said}"
    );

    let alter = [
        "topic",
        "alter",
        "cars",
        "-s",
        "retention.ms=86400000",
        "-p",
        "1",
    ];
    let would = cluster.refused(1, &[&alter[..], &["--dry-run"]].concat());
    assert!(
        would.contains("settings would be changed; partitions: INVALID_PARTITIONS"),
        "{would}"
    );
    let partly = cluster.refused(1, &alter);
    assert!(
        partly.contains("settings changed; partitions: INVALID_PARTITIONS"),
        "{partly}"
    );
    let described = cluster.json(&["topic", "describe", "cars"]);
    assert_eq!(described[0]["settings"][0]["value"], "86400000");

    let config = ["cluster", "config", "log.retention.ms"];
    assert_eq!(cluster.names(&config), ["log.retention.ms"]);
    let missing = cluster.refused(1, &[&config[..], &["log.retentio.ms"]].concat());
    assert!(
        missing.contains("broker 1 has no setting log.retentio.ms"),
        "{missing}"
    );
    assert!(missing.contains("log.retention.ms"), "{missing}");
    cluster.refused(2, &[&config[..], &["--set", "log.retention.ms=1"]].concat());
}

#[test]
fn the_lag_of_groups_is_watched_and_their_positions_are_deleted() {
    let cluster = Cluster::start();
    cluster.ok(&["topic", "create", "cars", "-p", "1"]);
    cluster.write("cars", &["0", "1", "2", "3", "4"]);
    cluster.ok(&["topic", "consume", "cars", "-g", "readers", "-n", "2"]);
    let lag = cluster.json(&["group", "lag"]);
    assert_eq!(
        (&lag[0]["name"], &lag[0]["lag"]),
        (&json!("readers"), &json!(3))
    );
    let partition =
        json!({"topic": "cars", "partition": 0, "position": 2, "end_offset": 5, "lag": 3});
    assert_eq!(lag[0]["partitions"][0], partition);
    assert!(cluster.ok(&["groups", "lag", "read*"]).contains("3 in 0"));
    assert_eq!(cluster.json(&["group", "lag", "-t", "other*"]), json!([]));
    let missing = cluster.refused(1, &["group", "lag", "writers"]);
    assert!(missing.contains("writers  does not exist"), "{missing}");

    let twice = [
        "group", "lag", "--watch", "--every", "1", "--times", "2", "--format", "json",
    ];
    let lines = cluster.ok(&twice);
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines, [lag.clone(), lag]);

    let delete = ["group", "offset-delete", "readers", "-t"];
    let missing = cluster.refused(1, &[&delete[..], &["cars:4"]].concat());
    assert!(
        missing.contains("no position in partition cars-4"),
        "{missing}"
    );
    let deleted = cluster.ok(&[&delete[..], &["cars"]].concat());
    assert!(deleted.contains("deleted, was 2"), "{deleted}");
    assert!(!cluster.ok(&["group", "lag", "-p"]).contains("readers"));
}

#[test]
fn ctrl_c_ends_a_watch_cleanly() {
    let cluster = Cluster::start();
    let watch = ["cluster", "health", "--watch", "--every", "3600"];
    let mut process = command(cluster.dir.path(), &watch)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("PARTITIONS") {
        line.clear();
        assert_ne!(
            shown.read_line(&mut line).unwrap(),
            0,
            "it has shown nothing"
        );
    }
    let id = i32::try_from(process.id()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

#[test]
fn a_watch_goes_on_without_the_broker() {
    let mut cluster = Cluster::start();
    let watch = ["group", "lag", "--watch", "--every", "1", "--timeout", "1"];
    let mut process = command(cluster.dir.path(), &watch);
    let process = process.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = process.spawn().unwrap();
    let mut shown = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    shown.read_line(&mut line).unwrap();
    cluster.broker.stop(Signal::KILL);
    let mut said = BufReader::new(process.stderr.take().unwrap());
    for _ in 0..2 {
        line.clear();
        said.read_line(&mut line).unwrap();
        assert!(line.contains(&cluster.broker.address.to_string()), "{line}");
    }
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn a_watch_ends_when_nobody_reads_it_any_more() {
    let cluster = Cluster::start();
    let watch = ["group", "lag", "--watch", "--every", "1"];
    let mut process = command(cluster.dir.path(), &watch)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(process.stdout.take().unwrap());
    shown.read_line(&mut String::new()).unwrap();
    drop(shown);
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

#[test]
fn quotas_are_set_shown_and_removed() {
    let cluster = Cluster::start();
    let alice = ["--user", "alice", "--client-id", "app"];
    let rate = ["-s", "producer_byte_rate=1048576"];
    let alter = ["quota", "alter"];
    let would = cluster.ok(&[&alter[..], &alice, &rate, &["--dry-run"]].concat());
    assert!(would.contains("user=alice, client-id=app"), "{would}");
    assert_eq!(cluster.json(&["quotas", "list"]), json!([]));
    cluster.ok(&[&alter[..], &alice, &rate].concat());
    cluster.ok(&[
        &alter[..],
        &["--default", "user", "-s", "request_percentage=50"],
    ]
    .concat());

    let all = cluster.json(&["quota", "describe"]);
    assert_eq!(all.as_array().unwrap().len(), 2);
    let of_alice = cluster.json(&["quota", "describe", "--user", "alice"]);
    let user = json!({"type": "user", "name": "alice"});
    let entity = json!([user, {"type": "client-id", "name": "app"}]);
    assert_eq!(
        of_alice,
        json!([{"entity": entity, "values": {"producer_byte_rate": 1_048_576.0}}])
    );
    let strict = cluster.json(&["quota", "describe", "--user", "alice", "--strict"]);
    assert_eq!(strict, json!([]), "hers is for one client id");
    let any = cluster.json(&["quota", "describe", "--any", "user"]);
    assert_eq!(any, all);
    assert!(
        cluster
            .ok(&["quota", "describe", "--default", "user"])
            .contains("user (default)")
    );

    let unset = ["--unset", "producer_byte_rate"];
    cluster.ok(&[&alter[..], &alice, &unset].concat());
    assert_eq!(
        cluster.json(&["quota", "describe", "--user", "alice"]),
        json!([])
    );
    let unknown = cluster.refused(1, &["quota", "alter", "--user", "bob", "-s", "beans=1"]);
    assert!(unknown.contains("beans"), "{unknown}");
    assert!(
        cluster
            .refused(1, &["quota", "alter", "-s", "a=1"])
            .contains("--user")
    );
}

#[test]
fn a_subscription_to_client_metrics_from_its_making_to_its_end() {
    let cluster = Cluster::start();
    assert!(cluster.names(&["client-metrics", "list"]).is_empty());
    cluster.ok(&[
        "client-metrics",
        "alter",
        "slow",
        "-s",
        "interval.ms=60000",
        "-s",
        "metrics=a.,b.",
    ]);
    assert_eq!(cluster.names(&["client-metrics", "list"]), ["slow"]);
    let described = cluster.json(&["client-metrics", "describe"]);
    let settings = described[0]["settings"].as_array().unwrap();
    let interval = settings
        .iter()
        .find(|one| one["name"] == "interval.ms")
        .unwrap();
    assert_eq!(interval["value"], "60000");
    let missing = cluster.refused(1, &["client-metrics", "describe", "fast", "slow"]);
    assert!(missing.contains("NAME  slow"), "{missing}");
    assert!(
        missing.contains("subscription fast does not exist"),
        "{missing}"
    );
    let missing = cluster.refused(1, &["client-metrics", "delete", "fast"]);
    assert!(missing.contains("RESOURCE_NOT_FOUND"), "{missing}");
    cluster.ok(&["client-metrics", "delete", "s*"]);
    assert_eq!(cluster.names(&["client-metrics", "list"]), ["slow"]);
    cluster.ok(&["client-metrics", "delete", "s*", "--execute"]);
    assert!(cluster.names(&["client-metrics", "list"]).is_empty());
}

#[test]
fn the_cluster_its_directories_and_its_features() {
    let cluster = Cluster::start();
    cluster.ok(&["topic", "create", "cars", "trucks", "-p", "2"]);
    cluster.write("cars", &["x"]);
    let health = cluster.json(&["cluster", "health"]);
    assert_eq!(
        (&health["healthy"], &health["problems"]),
        (&json!(true), &json!([]))
    );
    assert!(
        cluster
            .ok(&["cluster", "health"])
            .starts_with("HEALTH      healthy\n")
    );

    let dirs = cluster.json(&["logdirs", "describe", "car*"]);
    let partitions = dirs[0]["partitions"].as_array().unwrap();
    assert_eq!(partitions.len(), 2);
    assert!(partitions.iter().all(|one| one["topic"] == "cars"));
    assert!(dirs[0]["total_bytes"].as_i64() > dirs[0]["usable_bytes"].as_i64());
    assert!(cluster.ok(&["logdir", "describe"]).contains("in service"));
    assert!(cluster.ok(&["logdir", "describe", "-p"]).contains("trucks"));
    let missing = cluster.refused(1, &["logdir", "describe", "--broker", "77,1"]);
    assert!(
        missing.contains("no broker 77") && missing.contains("in service"),
        "{missing}"
    );

    let features = cluster.json(&["features", "describe"]);
    let level = features["metadata.version"]["level"].as_i64().unwrap();
    assert!(
        level > 0
            && level
                <= features["metadata.version"]["supported_max"]
                    .as_i64()
                    .unwrap()
    );
    let high = cluster.refused(
        1,
        &["feature", "upgrade", "metadata.version=32000", "--dry-run"],
    );
    assert!(high.contains("metadata.version"), "{high}");
    cluster.refused(2, &["feature", "upgrade", "metadata.version=new"]);
}

#[test]
fn a_profile_holds_the_admin_address() {
    let cluster = Cluster::start();
    let admin = format!("admin={}", cluster.broker.admin);
    cluster.ok(&["profile", "set", "test", &admin]);
    // Without tiers the endpoint says so: it was asked.
    let said = cluster.run(&["tier", "status"]);
    let said = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
    assert!(!said.contains("cannot reach"), "{said}");
    cluster.ok(&["profile", "set", "gone", "admin=127.0.0.1:1"]);
    let said = cluster.refused(1, &["tier", "status", "--profile", "gone"]);
    assert!(
        said.contains("cannot reach the admin endpoint at 127.0.0.1:1"),
        "{said}"
    );
}

#[test]
fn records_are_written_to_a_reader_that_goes() {
    let cluster = Cluster::start();
    cluster.ok(&["topic", "create", "cars", "-p", "1"]);
    let produce = ["topic", "produce", "cars"];
    let mut process = command(cluster.dir.path(), &produce);
    let process = process.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = process.spawn().unwrap();
    drop(process.stdout.take());
    process.stdin.take().unwrap().write_all(b"0\n1\n").unwrap();
    assert!(process.wait().unwrap().success());
    assert_eq!(cluster.ok(&["topic", "consume", "cars", "-e"]), "0\n1\n");
}
