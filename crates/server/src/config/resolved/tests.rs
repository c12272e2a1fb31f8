//! Settings in, typed values or named problems out.

use std::path::Path;

use proptest::prelude::*;

use super::*;

fn machine() -> Machine {
    Machine {
        host_name: "here".into(),
        cores: 2,
        memory_bytes: 8 << 30,
    }
}

pub(super) fn resolve(text: &str) -> Result<ResolvedSettings, Vec<Problem>> {
    let mut raw = RawSettings::default();
    raw.add_bytes(Path::new("server.properties"), text.as_bytes())
        .unwrap();
    raw.settle_in(&|_| None);
    Settings::resolve(&raw, &machine())
}

pub(super) fn settings(text: &str) -> Settings {
    resolve(text)
        .unwrap_or_else(|problems| panic!("{text}: {problems:?}"))
        .settings
}

/// Checks that `text` has exactly this problem.
pub(super) fn check_refused(text: &str, expect: &str) {
    let problems = resolve(text).expect_err(text);
    let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(said, [expect], "{text}");
}

pub(super) fn check_warned(text: &str, expect: &[&str]) {
    let said: Vec<_> = resolve(text)
        .unwrap()
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(said, expect, "{text}");
}

#[test]
fn nothing_given_is_the_embedded_defaults() {
    let settings = settings("");
    assert_eq!(
        settings.listeners,
        [Address::parse("PLAINTEXT://127.0.0.1:9092").unwrap()]
    );
    assert_eq!(settings.advertised, settings.listeners);
    assert_eq!(settings.log_dirs, [PathBuf::from("forebay-data")]);
    assert_eq!(settings.node_id, None);
    assert_eq!(settings.shards, 2);
    assert_eq!(settings.network.queued_bytes_max, 2 << 30);
    assert_eq!(settings.log_cache_bytes, 2 << 30);
    assert_eq!(settings.admin_listener, Some(("127.0.0.1".into(), 9644)));
    let broker = settings.broker_options(NodeId(7), &[9092]);
    assert_eq!((broker.node_id, broker.endpoints.len()), (NodeId(7), 1));
    assert_eq!(broker.group.offsets_retention, Duration::from_hours(7 * 24));
}

#[test]
fn the_file_that_kafka_ships_is_accepted() {
    let resolved = resolve(
        "process.roles=broker,controller\nnode.id=1\n\
         controller.quorum.bootstrap.servers=localhost:9093\n\
         listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n\
         inter.broker.listener.name=PLAINTEXT\n\
         advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n\
         num.network.threads=3\nlog.dirs=/tmp/kraft-combined-logs\nlog.retention.hours=168\n",
    )
    .unwrap();
    let settings = resolved.settings;
    assert_eq!(settings.node_id, Some(1));
    assert_eq!(
        settings.listeners,
        [Address::parse("PLAINTEXT://:9092").unwrap()]
    );
    assert_eq!(
        settings.advertised,
        [Address::parse("PLAINTEXT://localhost:9092").unwrap()]
    );
    let warned: Vec<_> = resolved.warnings.iter().map(|w| w.key.as_str()).collect();
    assert_eq!(warned, ["num.network.threads"]);
}

#[test]
fn a_wrong_value_names_key_value_rule_and_place() {
    check_refused(
        "# first\nnum.partitions=0",
        "server.properties:2: num.partitions=0: must be a whole number, at least 1",
    );
    check_refused(
        "offsets.topic.compression.codec=9",
        "server.properties:1: offsets.topic.compression.codec=9: \
         must be a whole number from 0 to 4",
    );
    check_refused(
        "durability=yes",
        "server.properties:1: durability=yes: must be one of synced, replicated",
    );
    check_refused(
        "log.preallocate=1",
        "server.properties:1: log.preallocate=1: must be true or false",
    );
    check_refused(
        "log.cleanup.policy=delete,shrink",
        "server.properties:1: log.cleanup.policy=delete,shrink: \
         must be a list of some of compact, delete",
    );
    check_refused(
        "message.max.bytes=3000000000",
        "server.properties:1: message.max.bytes=3000000000: must be a whole number, at least 0",
    );
    check_refused(
        "authorizer.class.name=acme.Doorman",
        "server.properties:1: authorizer.class.name=acme.Doorman: must be empty or \
         org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let problems = resolve("num.partitions=x\nlog.segment.bytes=1\nlisteners=nowhere").unwrap_err();
    let keys: Vec<_> = problems.iter().map(|p| p.key.as_str()).collect();
    assert_eq!(keys, ["log.segment.bytes", "num.partitions", "listeners"]);
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    check_refused(
        "queued.max.request.bytes=1000",
        "server.properties:1: queued.max.request.bytes=1000: must be -1 or at least \
         socket.request.max.bytes=104857600",
    );
    check_refused(
        "node.id=1\nbroker.id=2",
        "server.properties:2: broker.id=2: must be left out or equal node.id=1",
    );
    check_refused(
        "group.max.session.timeout.ms=10",
        "server.properties:1: group.max.session.timeout.ms=10: must be at least \
         group.min.session.timeout.ms=6000",
    );
}

#[test]
fn listeners_that_cannot_be_served_are_refused() {
    check_refused(
        "listeners=IN://:9093\nlistener.security.protocol.map=IN:TLS",
        "server.properties:2: listener.security.protocol.map=IN:TLS: listener IN maps to TLS, which \
         is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
    );
    check_refused(
        "listeners=PLAINTEXT://0.0.0.0:9092",
        "default: advertised.listeners=: must say where PLAINTEXT is reached: \
         0.0.0.0 is no address to connect to",
    );
    check_refused(
        "process.roles=broker",
        "server.properties:1: process.roles=broker: must be broker,controller: a node \
         under separate controllers is not there yet",
    );
}

#[test]
fn one_listener_may_have_its_own_bounds() {
    let text = "listener.name.plaintext.max.connections=7";
    let limits = settings(text).network.connections;
    assert_eq!(limits.of_listener("PLAINTEXT").unwrap().max, 7);
    assert_eq!(limits.of_listener("OTHER"), None);
    check_refused(
        "listener.name.plaintext.max.connections=-7",
        "server.properties:1: listener.name.plaintext.max.connections=-7: must be a whole number, at least 0",
    );
}

#[test]
fn an_empty_host_is_advertised_by_the_name_of_the_machine() {
    let settings = settings("listeners=PLAINTEXT://:0");
    assert_eq!(settings.advertised[0].host, "here");
    let endpoints = settings.broker_options(NodeId(1), &[4711]).endpoints;
    assert_eq!(
        (endpoints[0].host.as_str(), endpoints[0].port),
        ("here", 4711)
    );
}

#[test]
fn the_inter_broker_listener_comes_first() {
    let settings = settings(
        "listeners=A://h:1,B://h:2\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT\n\
         inter.broker.listener.name=b",
    );
    let names: Vec<_> = settings
        .listeners
        .iter()
        .map(|l| l.listener.as_str())
        .collect();
    assert_eq!(names, ["B", "A"]);
    assert_eq!(settings.advertised, settings.listeners);
}

#[test]
fn what_has_no_effect_is_said_once_with_the_reason() {
    check_warned(
        "log.dirz=/x",
        &["server.properties:1: log.dirz: unknown key, is log.dirs meant?"],
    );
    check_warned(
        "wholly.other=1",
        &["server.properties:1: wholly.other: unknown key"],
    );
    check_warned(
        "ssl.client.auth=none",
        &[
            "server.properties:1: ssl.client.auth: has no effect: no listener maps to SSL or SASL_SSL",
        ],
    );
    check_warned(
        "num.io.threads=8",
        &["server.properties:1: num.io.threads: has no effect: threads are shards, see num.shards"],
    );
    check_warned(
        "num.partitions=1\nnum.partitions=2",
        &["server.properties:1: num.partitions: is given again further down, which wins"],
    );
}

#[test]
fn what_is_overridden_has_no_impact() {
    check_warned(
        "zookeeper.connect=zk:2181\nzookeeper.connect=",
        &[
            "server.properties:1: zookeeper.connect: is given again further down, which wins",
            "server.properties:2: zookeeper.connect: has no effect: there is no ZooKeeper in a \
             cluster of Kafka 4",
        ],
    );
}

#[test]
fn two_texts_of_one_directory_are_one_directory() {
    for text in ["/d", "/d/", "//d/.", "/e/../d"] {
        check_warned(&format!("log.dirs=/d\nmetadata.log.dir={text}"), &[]);
    }
    let other = resolve("log.dirs=/d\nmetadata.log.dir=/d/e").unwrap();
    assert_eq!(other.warnings.len(), 1);
    let relative = "log.dirs=data\nmetadata.log.dir=./data/";
    check_warned(relative, &[]);
}

#[test]
fn cpus_are_a_list() {
    assert!(!settings("").confined);
    assert!(settings("process.cpus=0").confined);
    let problems = resolve("process.cpus=3-1").unwrap_err();
    let said = problems[0].to_string();
    assert!(said.contains("must be a list of CPUs"), "{said}");
}

#[test]
fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
    let mut raw = RawSettings::default();
    raw.add_bytes(
        Path::new("f"),
        b"num.partitions=1\nlog.dirs=/file\nbroker.rack=file",
    )
    .unwrap();
    let environment = [
        ("FOREBAY_LOG_DIRS", "/env"),
        ("FOREBAY_NUM_PARTITIONS", "2"),
        ("HOME", "/h"),
    ];
    raw.add_environment(
        environment
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
    );
    raw.add_arguments(&["num.partitions=3".into()]).unwrap();
    let settings = Settings::resolve(&raw, &machine()).unwrap().settings;
    assert_eq!(settings.log_dirs, [PathBuf::from("/env")]);
    let broker = settings.broker_options(NodeId(1), &[1]);
    assert_eq!(
        (broker.num_partitions, broker.rack.as_deref()),
        (3, Some("file"))
    );
    assert_eq!(broker.static_settings["num.partitions"], "3");

    raw.add_arguments(&["num.partitions=none".into()]).unwrap();
    let problems = Settings::resolve(&raw, &machine()).unwrap_err();
    assert_eq!(problems[0].origin.to_string(), "command line");
    assert!(raw.add_arguments(&["nonsense".into()]).is_err());
}

proptest! {
    #[test]
    fn no_file_makes_it_panic(bytes in any::<Vec<u8>>()) {
        let mut raw = RawSettings::default();
        if raw.add_bytes(Path::new("f"), &bytes).is_ok() {
            let _ = Settings::resolve(&raw, &machine());
        }
    }

    #[test]
    fn no_value_of_a_known_key_makes_it_panic(
        at in 0..keys::all().count(), value in "[-0-9a-zA-Z:/,.\\[\\]]{0,30}"
    ) {
        let key = keys::all().nth(at).unwrap().name;
        let mut raw = RawSettings::default();
        raw.add_arguments(&[format!("{key}={value}")]).unwrap();
        let _ = Settings::resolve(&raw, &machine());
    }
}
