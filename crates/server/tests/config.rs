//! `forebay config check` and `forebay config show`, on files and directories as a Kafka leaves
//! them, through the built binary; and what a start says of the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use storage::checkpoint::meta_properties::MetaProperties;
use storage::checkpoint::{meta_properties, partition_metadata};
use tempfile::TempDir;
use wire::batch::BatchBuilder;
use wire::records::metadata::{
    AccessControlEntryRecord, ConfigRecord, FeatureLevelRecord, MetadataRecord, MetadataVersion,
    PartitionRecord, TopicRecord, UserScramCredentialRecord,
};
use wire::types::{LeaderEpoch, NodeId, Offset, TimestampMs, TopicId, Uuid};

#[path = "running/broker.rs"]
mod running;

/// A directory with files of settings, and log directories.
struct SettingsDir(TempDir);

impl SettingsDir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), self.filled(text)).unwrap();
    }

    /// Puts the directory in the place of `AT`.
    fn filled(&self, text: &str) -> String {
        text.replace("AT", self.0.path().to_str().unwrap())
    }

    /// Runs a command; gives its exit code and what it said, with `AT` for the directory.
    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let arguments = arguments.iter().map(|argument| self.filled(argument));
        let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(arguments)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        let at = self.0.path().to_str().unwrap();
        (output.status.code().unwrap(), said.replace(at, "AT"))
    }

    /// Checks a file of this text; gives the exit code, and the findings as group and text.
    fn check(&self, text: &str, options: &[&str]) -> (i32, Vec<(String, String)>) {
        self.write("f", text);
        let file = &["config", "check", "AT/f", "--format", "json"];
        let (code, said) = self.run(&[file, options].concat());
        (code, findings(&said))
    }
}

/// The findings of all files of a report, each as its group, and place, key and text.
fn findings(report: &str) -> Vec<(String, String)> {
    let (json, _) = report.split_at(report.rfind("}\n").unwrap() + 2);
    let report: Value = serde_json::from_str(json).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let files = report["files"].as_array().unwrap().iter();
    let findings = files.flat_map(|file| file["findings"].as_array().unwrap());
    let findings = findings.map(|one| {
        let place = text(&one["place"]);
        let said = format!("{place}: {}: {}", text(&one["key"]), text(&one["what"]));
        (text(&one["group"]), said)
    });
    findings.collect()
}

/// Checks that a file has exactly this finding, with this exit code under `--strict`.
#[track_caller]
fn check_one(text: &str, code: i32, group: &str, what: &str) {
    let found = SettingsDir::new().check(text, &["--strict"]);
    assert_eq!(found, (code, vec![(group.into(), what.into())]), "{text}");
}

const ALLOWED_TO_ALL: &str =
    "there is no authorizer: every client may do everything, whatever ACLs there are";
const STANDARD: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

#[test]
fn each_sort_of_setting_falls_into_its_group() {
    let changes = |text: &str, what: &str| check_one(text, 3, "changes", what);
    changes(
        "default.replication.factor=3",
        "AT/f:1: default.replication.factor: topics whose creator gives no number of replicas, and \
         topics that are created by use, are refused (INVALID_REPLICATION_FACTOR): one node holds \
         one replica",
    );
    changes(
        "min.insync.replicas=2",
        "AT/f:1: min.insync.replicas: a partition has one replica, so this node alone confirms acks=all",
    );
    changes(
        "group.coordinator.rebalance.protocols=classic,consumer,share",
        "AT/f:1: group.coordinator.rebalance.protocols: share groups are not served: their \
         consumers are refused",
    );
    for key in ["super.users=User:a", "allow.everyone.if.no.acl.found=false"] {
        let name = key.split('=').next().unwrap();
        changes(key, &format!("AT/f:1: {name}: {ALLOWED_TO_ALL}"));
    }
    changes(
        "zookeeper.connect=zk:2181",
        "AT/f:1: zookeeper.connect: a broker with ZooKeeper keeps its topics there and not in \
         log.dirs: a start here knows none of them",
    );
    changes(
        "log.dirs=/d\nmetadata.log.dir=/m",
        "AT/f:2: metadata.log.dir: the metadata log is looked for in log.dirs only: what is in \
         this directory is not found",
    );
    changes(
        "log.retention.hrs=5",
        "AT/f:1: log.retention.hrs: unknown key, is log.retention.hours meant?",
    );
    let refuses = |text: &str, what: &str| check_one(text, 1, "refuses", what);
    refuses(
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
        &format!("AT/f:1: authorizer.class.name: must be empty or {STANDARD}"),
    );
    changes(
        &format!("authorizer.class.name={STANDARD}"),
        "AT/f:1: authorizer.class.name: no listener asks for a login, and no client can be a super \
         user: nobody may do anything but what ACLs permit to User:ANONYMOUS",
    );
    let nothing = |text: &str, what: &str| check_one(text, 0, "no-effect", what);
    // No listener is to speak TLS.
    nothing(
        "ssl.client.auth=required",
        "AT/f:1: ssl.client.auth: has no effect: no listener maps to SSL or SASL_SSL",
    );
    nothing(
        "num.io.threads=8",
        "AT/f:1: num.io.threads: has no effect: threads are shards, see num.shards",
    );
    nothing(
        "inter.broker.protocol.version=3.9",
        "AT/f:1: inter.broker.protocol.version: has no effect: Kafka 4 has no such setting any more",
    );
}

#[test]
fn a_file_that_is_refused_is_told_everything_in_one_go_with_advice() {
    let place = SettingsDir::new();
    place.write(
        "f",
        "num.io.threads=8\nauthorizer.class.name=x.Y\ndefault.replication.factor=3\nsuper.users=User:a\n",
    );
    let (code, said) = place.run(&["config", "check", "AT/f"]);
    assert_eq!(code, 1, "{said}");
    assert_eq!(
        said,
        "AT/f: refuses to start (1):\n  \
         AT/f:2: authorizer.class.name=x.Y: must be empty or \
         org.apache.kafka.metadata.authorizer.StandardAuthorizer\n      \
         write org.apache.kafka.metadata.authorizer.StandardAuthorizer, which decides by the ACLs in \
         the metadata; other classes cannot be loaded (docs/security-now.md)\n\
         AT/f: changes what your clients see (1):\n  \
         AT/f:3: default.replication.factor: topics whose creator gives no number of replicas, and \
         topics that are created by use, are refused (INVALID_REPLICATION_FACTOR): one node holds \
         one replica\n      \
         set it to 1, or take it out\n\
         AT/f: no effect (1):\n  \
         AT/f:1: num.io.threads: has no effect: threads are shards, see num.shards\n\
         AT/f: refused (refuses to start: 1, changes what your clients see: 1, no effect: 1)\n"
    );
}

#[test]
fn several_files_are_judged_each_by_itself() {
    let place = SettingsDir::new();
    place.write("good", "num.partitions=3\n");
    place.write("clients", "min.insync.replicas=2\n");
    let (code, said) = place.run(&["config", "check", "AT/good", "AT/clients"]);
    assert!(
        code == 0 && said.starts_with("AT/good: sound\nAT/clients: "),
        "{said}"
    );
    let strict = ["config", "check", "--strict", "AT/good", "AT/clients"];
    assert_eq!(place.run(&strict).0, 3);
    let (code, said) = place.run(&["config", "check", "AT/gone", "AT/good"]);
    assert_eq!(code, 1);
    assert!(
        said.contains("AT/good: sound\n") && said.contains("forebay: AT/gone: "),
        "{said}"
    );
    let json = ["config", "check", "AT/gone", "AT/good", "--format", "json"];
    let (_, said) = place.run(&json);
    assert!(
        said.contains("\"unreadable\"") && said.contains("\"sound\""),
        "{said}"
    );
    let (code, _) = place.run(&["config", "check"]);
    assert_eq!(code, 2);
}

#[test]
fn a_file_without_any_setting_is_told_so() {
    let (code, found) = SettingsDir::new().check("a b c\nthe: quick\n", &["--strict"]);
    assert_eq!(code, 3);
    let none =
        "AT/f:1: (not shown): no line of this file is a setting: a start would take the defaults";
    let changes: Vec<_> = found
        .iter()
        .filter(|(group, _)| group == "changes")
        .collect();
    assert_eq!(changes, [&("changes".to_owned(), none.to_owned())]);
}

fn feature(name: &str, level: i16) -> MetadataRecord {
    let record = FeatureLevelRecord {
        name: name.into(),
        feature_level: level,
    };
    record.into()
}

fn topic(name: &str, id: u128, replicas: &[i32]) -> [MetadataRecord; 2] {
    let topic_id = Uuid::from_u128(id);
    let topic = TopicRecord {
        name: name.into(),
        topic_id,
    };
    let partition = PartitionRecord {
        topic_id,
        partition_id: 0,
        replicas: replicas.to_vec(),
        isr: vec![1],
        leader: 1,
        ..PartitionRecord::default()
    };
    [topic.into(), partition.into()]
}

/// `User:a` may read topic `orders`, or something that this type of resource means.
fn acl(resource_type: i8) -> MetadataRecord {
    let record = AccessControlEntryRecord {
        id: Uuid::from_u128(7),
        resource_type,
        resource_name: "orders".into(),
        pattern_type: 3,
        principal: "User:a".into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
    };
    record.into()
}

/// Key and value.
type KeyAndValue = (Option<Vec<u8>>, Option<Vec<u8>>);

fn segment(records: &[KeyAndValue]) -> Vec<u8> {
    let mut batch = BatchBuilder::new(Offset(0), LeaderEpoch(1));
    for (key, value) in records {
        batch.add(TimestampMs(0), key.as_deref(), value.as_deref(), &[]);
    }
    batch.finish().unwrap().to_vec()
}

fn write_log(dir: &Path, folder: &str, id: TopicId, bytes: &[u8]) {
    let folder = dir.join(folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("00000000000000000000.log"), bytes).unwrap();
    let metadata = partition_metadata::encode(id);
    fs::write(folder.join(partition_metadata::FILE), metadata).unwrap();
}

fn format(dir: &Path, id: u128) {
    fs::create_dir_all(dir).unwrap();
    let meta = MetaProperties {
        cluster_id: "c".into(),
        node_id: NodeId(1),
        directory_id: Some(Uuid::from_u128(id)),
        journal: None,
    };
    let bytes = meta_properties::encode(&meta, TimestampMs(0));
    fs::write(dir.join(meta_properties::FILE), bytes).unwrap();
}

/// Makes a log directory of node 1 with these metadata.
fn directory(dir: &Path, records: &[MetadataRecord]) {
    format(dir, 1000);
    let level = MetadataVersion::V4_3;
    let levels = [
        feature(MetadataVersion::FEATURE, level.0),
        feature("group.version", 1),
    ];
    let records = levels.iter().chain(records);
    let records = records.map(|record| (None, Some(record.encode(level).to_vec())));
    let bytes = segment(&records.collect::<Vec<_>>());
    write_log(dir, "__cluster_metadata-0", TopicId::METADATA, &bytes);
}

/// All files below a directory with their bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

fn changes(said: &str) -> (String, String) {
    ("changes".into(), said.into())
}

#[test]
fn data_that_would_not_be_served_or_enforced_is_named_and_only_read() {
    let place = SettingsDir::new();
    let user = UserScramCredentialRecord {
        name: "a".into(),
        mechanism: 1,
        ..UserScramCredentialRecord::default()
    };
    let remote = ConfigRecord {
        resource_type: 2,
        resource_name: "old".into(),
        name: "remote.storage.enable".into(),
        value: Some("true".into()),
    };
    let records = [
        vec![
            acl(2),
            user.into(),
            remote.into(),
            feature("share.version", 1),
        ],
        topic("old", 1, &[1]).to_vec(),
        topic("orders", 2, &[1, 2]).to_vec(),
        topic("far", 3, &[2, 3]).to_vec(),
        topic("__share_group_state", 4, &[1]).to_vec(),
    ];
    directory(&place.path("d"), &records.concat());
    let before = files(&place.path("d"));
    let (code, found) = place.check("log.dirs=AT/d\n", &["--data"]);
    assert_eq!(files(&place.path("d")), before);
    assert_eq!(code, 0);
    assert_eq!(
        found,
        [
            changes(
                "AT/d: acls: ACLs are kept and not enforced: every client may do everything (1, such \
                 as User:a allowed on orders)"
            ),
            changes(
                "AT/d: users: users are kept and nobody is asked for a password: every client is \
                 ANONYMOUS (1, such as a)"
            ),
            changes(
                "AT/d: share-groups: share groups were used and are not served: their consumers are \
                 refused (1, such as topic __share_group_state)"
            ),
            changes(
                "AT/d: remote-storage: topics have records in remote storage, which are not served: \
                 only what is in log.dirs is (1, such as old)"
            ),
            changes(
                "AT/d: other-replicas: partitions have replicas on other brokers: this one serves its \
                 own alone, and copies nothing to them (1, such as orders-0)"
            ),
            changes(
                "AT/d: not-here: partitions have no replica on this broker: they are not served (1, \
                 such as far-0)"
            ),
            (
                "no-effect".into(),
                "AT/d: features: kept, and clients are not told of them: share.version=1".into()
            ),
        ]
    );
    let (code, said) = place.run(&["config", "check", "AT/f", "--data", "--strict"]);
    assert_eq!(code, 3);
    let facts =
        "AT/f: node 1 of cluster c, metadata.version 30, 4 topics, 0 logs in 1 log directories\n";
    assert!(said.starts_with(facts), "{said}");
    // Without the option, the directories are not read.
    assert_eq!(place.check("log.dirs=AT/d\n", &["--strict"]), (0, vec![]));
}

#[test]
fn acls_of_data_are_enforced_where_an_authorizer_is_set_or_refuse_the_start() {
    let place = SettingsDir::new();
    let text = format!(
        "log.dirs=AT/d\nauthorizer.class.name={STANDARD}\nallow.everyone.if.no.acl.found=true\n"
    );
    directory(&place.path("d"), &[acl(2)]);
    assert_eq!(place.check(&text, &["--data", "--strict"]), (0, vec![]));
    directory(&place.path("d"), &[acl(99)]);
    let (code, found) = place.check(&text, &["--data"]);
    let refused = "AT/d: acls: ACLs that cannot be enforced (1): an ACL on \"orders\" has the \
                   resourceType 99, which is not known here";
    assert_eq!((code, found), (1, vec![("refuses".into(), refused.into())]));
    // Without authorizer it is one that is not enforced, like any other.
    let (code, found) = place.check("log.dirs=AT/d\n", &["--data"]);
    assert_eq!(code, 0);
    assert!(found[0].1.starts_with("AT/d: acls: "), "{found:?}");
}

#[test]
fn share_and_streams_groups_are_found_in_the_log_of_groups() {
    let place = SettingsDir::new();
    let dir = place.path("d");
    directory(&dir, &topic("__consumer_offsets", 1, &[1]));
    let group = |kind: u8, name: &str, value: Option<&[u8]>| {
        let length = u8::try_from(name.len()).unwrap();
        let key = [&[0, kind, 0, length][..], name.as_bytes()].concat();
        (Some(key), value.map(<[u8]>::to_vec))
    };
    let bytes = segment(&[
        group(11, "workers", Some(b"v")),
        group(11, "gone", Some(b"v")),
        group(2, "classic", Some(b"v")),
        group(17, "join", Some(b"v")),
        group(11, "gone", None),
    ]);
    write_log(
        &dir,
        "__consumer_offsets-0",
        TopicId(Uuid::from_u128(1)),
        &bytes,
    );
    let (_, found) = place.check("log.dirs=AT/d\n", &["--data"]);
    assert_eq!(
        found,
        [
            changes(
                "AT/d: share-groups: share groups were used and are not served: their consumers are \
                 refused (1, such as workers)"
            ),
            changes(
                "AT/d: streams-groups: streams groups were used and are not served: their members \
                 are refused (1, such as join)"
            ),
        ]
    );
}

#[test]
fn data_that_a_start_refuses_are_refused() {
    let place = SettingsDir::new();
    directory(&place.path("d"), &[acl(2)]);
    let refused = |settings: &str, text: &str| {
        let (code, found) = place.check(settings, &["--data"]);
        let (group, said) = found.first().unwrap();
        assert!(
            code == 1 && group == "refuses" && said.contains(text),
            "{code} {said}"
        );
    };
    refused(
        "log.dirs=AT/d\nnode.id=2\n",
        "AT/d belongs to node 1, not 2",
    );
    refused(
        "log.dirs=AT/d,AT/empty\n",
        "no meta.properties found in AT/empty",
    );
    assert!(!place.path("empty").exists());
    let log = place.path("d/__cluster_metadata-0/00000000000000000000.log");
    let mut bytes = fs::read(&log).unwrap();
    let at = bytes.windows(6).position(|it| it == b"User:a").unwrap();
    bytes[at] ^= 1;
    // A damaged batch at the end is what a crash leaves; one with whole batches behind it is not.
    let bytes = [bytes.clone(), fs::read(&log).unwrap()].concat();
    fs::write(&log, bytes).unwrap();
    refused("log.dirs=AT/d\n", "AT/d: metadata: ");
}

#[test]
fn data_that_cannot_be_looked_at_are_no_verdict() {
    let place = SettingsDir::new();
    fs::create_dir_all(place.path("d/meta.properties")).unwrap();
    place.write("f", "log.dirs=AT/d\nmin.insync.replicas=2\n");
    let (code, said) = place.run(&["config", "check", "AT/f", "--data", "--strict"]);
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("forebay: cannot look at everything: "),
        "{said}"
    );
    assert!(said.contains("min.insync.replicas"), "{said}");
    assert!(
        said.contains("AT/f: unseen (changes what your clients see: 1)"),
        "{said}"
    );
}

#[test]
fn each_verdict_has_its_exit_code() {
    let place = SettingsDir::new();
    directory(&place.path("d"), &[]);
    let verdict = |settings: &str, expect: &str, code: i32| {
        place.write("f", settings);
        let ran = ["config", "check", "AT/f", "--data", "--format", "json"];
        let (found, said) = place.run(&ran);
        let (json, _) = said.split_at(said.rfind("}\n").unwrap() + 2);
        let report: Value = serde_json::from_str(json).unwrap();
        let file = &report["files"][0];
        assert_eq!((&file["verdict"], found), (&expect.into(), code), "{said}");
        assert_eq!(
            file["error"].is_null(),
            ["sound", "refused"].contains(&expect)
        );
    };
    verdict("log.dirs=AT/d", "sound", 0);
    verdict("log.dirs=AT/d\nnode.id=2", "refused", 1);
    verdict("a=\\u12", "unreadable", 1);
    verdict("log.dirs=AT/missing", "unseen", 2);
}

#[test]
fn a_wrong_name_of_the_directories_does_not_make_it_look_at_others() {
    let place = SettingsDir::new();
    directory(&place.path("d"), &[acl(2)]);
    let node = "log.dirs=AT/d\nnode.id=x\n";
    let tiers = "log.dirs=AT/d\nstorage.tiers=a,a\n";
    for text in [node, tiers] {
        place.write("f", text);
        let (code, said) = place.run(&["config", "check", "AT/f", "--data"]);
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains("forebay: the directories were not looked at: "),
            "{said}"
        );
        assert!(
            !said.contains("acls") && !said.contains("new-cluster"),
            "{said}"
        );
    }
}

#[test]
fn a_directory_that_was_formatted_and_never_started_is_a_new_cluster() {
    let place = SettingsDir::new();
    format(&place.path("d"), 1000);
    write_log(
        &place.path("d"),
        "__cluster_metadata-0",
        TopicId::METADATA,
        &[],
    );
    let new =
        "AT/d: new-cluster: there are no metadata: a start begins a new cluster, without topics";
    let found = place.check("log.dirs=AT/d\n", &["--data", "--strict"]);
    assert_eq!(found, (3, vec![changes(new)]));
    // Beside logs of topics it is metadata that were lost.
    write_log(
        &place.path("d"),
        "orders-0",
        TopicId(Uuid::from_u128(7)),
        &[],
    );
    let (code, found) = place.check("log.dirs=AT/d\n", &["--data"]);
    assert_eq!((code, found[0].0.as_str()), (1, "refuses"));
}

#[test]
fn what_a_broker_is_writing_is_no_damage_while_it_runs() {
    let place = SettingsDir::new();
    let dir = place.path("d");
    directory(&dir, &[]);
    let log = dir.join("__cluster_metadata-0/00000000000000000000.log");
    let torn = [fs::read(&log).unwrap(), vec![1; 30]].concat();
    fs::write(&log, torn).unwrap();
    let stopped = place.check("log.dirs=AT/d\n", &["--data", "--strict"]);
    assert_eq!(stopped.0, 3, "{stopped:?}");
    let lock = platform::lock::DirLock::acquire(&dir).unwrap();
    let (code, found) = place.check("log.dirs=AT/d\n", &["--data", "--strict"]);
    drop(lock);
    let none = |key: &str, what: &str| ("no-effect".to_owned(), format!("AT/d: {key}: {what}"));
    let running = "a broker uses the directories: what it is writing may be missed";
    let torn = "a broker is writing it, at offset 2: 30 bytes are no batch";
    let expect = vec![none("running", running), none("metadata", torn)];
    assert_eq!((code, found), (0, expect));
}

#[test]
fn a_segment_that_cannot_be_read_takes_nothing_from_the_others() {
    let place = SettingsDir::new();
    let dir = place.path("d");
    directory(&dir, &topic("__consumer_offsets", 1, &[1]));
    let workers = (Some(b"\0\x0b\0\x07workers".to_vec()), Some(b"v".to_vec()));
    let id = TopicId(Uuid::from_u128(1));
    write_log(&dir, "__consumer_offsets-0", id, &segment(&[workers]));
    fs::create_dir(dir.join("__consumer_offsets-0/00000000000000000009.log")).unwrap();
    let (code, found) = place.check("log.dirs=AT/d\n", &["--data"]);
    assert_eq!(code, 2);
    let said: Vec<_> = found.iter().map(|(_, said)| said.as_str()).collect();
    assert!(
        said[0].contains("00000000000000000009.log: unread: "),
        "{said:?}"
    );
    assert!(said[1].ends_with("(1, such as workers)"), "{said:?}");
}

#[test]
fn directories_that_are_not_there_are_a_new_cluster_and_are_not_made() {
    let place = SettingsDir::new();
    let (code, found) = place.check("log.dirs=AT/d\n", &["--data", "--strict"]);
    let new =
        "AT/d: new-cluster: there are no metadata: a start begins a new cluster, without topics";
    assert_eq!((code, found), (2, vec![changes(new)]));
    assert!(!place.path("d").exists());
}

fn dynamic(broker: &str, name: &str, value: &str) -> MetadataRecord {
    let record = ConfigRecord {
        resource_type: 4,
        resource_name: broker.into(),
        name: name.into(),
        value: Some(value.into()),
    };
    record.into()
}

#[test]
fn keys_and_certificates_are_opened_with_the_data() {
    let place = SettingsDir::new();
    let pem = include_bytes!("../../tls/tests/golden/self-signed.pem");
    fs::write(place.path("k.pem"), pem).unwrap();
    let text = "listeners=SSL://127.0.0.1:9093\nlog.dirs=AT/d\nssl.keystore.type=PEM\n\
                ssl.keystore.location=AT/k.pem\nsecrets.permissions=strict\n";
    place.write("f", text);
    let mode = |mode: u32| {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(place.path("k.pem"), mode).unwrap();
    };
    mode(0o600);
    let (_, said) = place.run(&["config", "check", "--data", "AT/f"]);
    assert!(!said.contains("ssl."), "{said}");
    mode(0o644);
    let (code, said) = place.run(&["config", "check", "--data", "AT/f"]);
    assert_eq!(code, 1, "{said}");
    let what = "AT/f:4: ssl.keystore.location: AT/k.pem: others than its owner may read this key \
                (mode 0644)";
    assert!(said.contains(what) && said.contains("chmod 600"), "{said}");
    fs::remove_file(place.path("k.pem")).unwrap();
    let (code, said) = place.run(&["config", "check", "--data", "AT/f"]);
    assert!(
        code == 1 && said.contains("AT/k.pem: there is no such file"),
        "{said}"
    );
    let (code, said) = place.run(&["config", "check", "AT/f"]);
    assert_eq!((code, said.as_str()), (0, "AT/f: sound\n"));
}

/// The lines of a table, with one blank between cells.
fn cells(table: &str) -> Vec<String> {
    let lines = table.lines();
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.map(|words| words.join(" ")).collect()
}

#[test]
fn values_in_force_are_shown_with_where_they_come_from() {
    let place = SettingsDir::new();
    let all = dynamic("", "log.cleaner.threads", "2");
    let own = dynamic("1", "message.max.bytes", "77");
    directory(&place.path("d"), &[all, own]);
    let text = "log.dirs=AT/d\nlog.cleaner.threads=4\nmessage.max.bytes=99\nssl.key.password=x\n";
    place.write("f", text);
    let show = [
        "config",
        "show",
        "--config",
        "AT/f",
        "--given",
        "num.shards=2",
    ];
    let (code, said) = place.run(&show);
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        cells(&said),
        [
            "log.cleaner.threads 4 AT/f:2",
            "log.dirs AT/d AT/f:1",
            "message.max.bytes 99 AT/f:3",
            "num.shards 2 command line",
            "ssl.key.password (hidden) AT/f:4 (not used: no listener maps to SSL or SASL_SSL)",
        ]
    );
    let named = ["--data", "log.cleaner.threads", "message.max.bytes"];
    let (_, said) = place.run(&[&show[..], &named].concat());
    assert_eq!(
        cells(&said),
        [
            "log.cleaner.threads 2 metadata, all brokers (in the place of the value of AT/f:2)",
            "message.max.bytes 77 metadata, broker 1 (in the place of the value of AT/f:3)",
        ]
    );
    let (_, said) = place.run(&["config", "show", "--format", "json", "num.partitions"]);
    let shown: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(shown[0]["value"], "1");
    assert_eq!(
        (&shown[0]["from"], &shown[0]["given"]),
        (&"default".into(), &false.into())
    );
    let (code, said) = place.run(&["config", "show", "AT/f"]);
    assert!(
        code == 1 && said.contains("a file goes after --config"),
        "{said}"
    );
    let (code, said) = place.run(&["config", "show", "num.shards=0"]);
    assert!(
        code == 1 && said.contains("num.shards=0: must be"),
        "{said}"
    );
    // The finding names the file whose value is in force.
    let (_, found) = place.check(text, &["--data"]);
    let in_force = "AT/f:2: log.cleaner.threads: a dynamic value is in force in its place (metadata, all brokers)";
    assert!(
        found.contains(&("no-effect".into(), in_force.into())),
        "{found:?}"
    );
    let (_, said) = place.run(&["config", "check", "AT/f", "--data"]);
    let shows = "`forebay config show --config AT/f --data log.cleaner.threads` shows it";
    assert!(said.contains(shows), "{said}");
    // One line for a key; none for a setting whose dynamic value `show` does not heed either.
    let port = dynamic("1", "num.partitions", "7");
    let own = dynamic("1", "message.max.bytes", "77");
    directory(&place.path("d"), &[port, own]);
    let text = "log.dirs=AT/d\nnum.partitions=2\nmessage.max.bytes=1\nmessage.max.bytes=2\n";
    let (_, found) = place.check(text, &["--data"]);
    let in_force = found.iter().filter(|(_, said)| said.contains("in force"));
    let in_force: Vec<_> = in_force.map(|(_, said)| said.as_str()).collect();
    let own =
        "AT/f:4: message.max.bytes: a dynamic value is in force in its place (metadata, broker 1)";
    assert_eq!(in_force, [own]);
}

/// The lines of a start and of the stop after it.
fn log_of(dir: &Path, settings: &[&str]) -> Vec<Value> {
    let mut process = running::command(dir, settings).spawn().unwrap();
    let log = BufReader::new(process.stderr.take().unwrap());
    let id = Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap();
    let mut lines = Vec::new();
    for line in log.lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap_or_default();
        if line["message"] == "ready" {
            kill_process(id, Signal::TERM).unwrap();
        }
        lines.push(line);
    }
    assert!(process.wait().unwrap().success(), "{lines:#?}");
    lines
}

#[test]
fn a_start_says_once_what_changes_for_clients_and_counts_the_rest() {
    let place = SettingsDir::new();
    let state = topic("__share_group_state", 4, &[1]);
    directory(&place.path("d"), &[vec![acl(2)], state.to_vec()].concat());
    let file = place.path("f");
    let settings = [
        "default.replication.factor=3",
        "num.io.threads=8",
        "--config",
        file.to_str().unwrap(),
    ];
    place.write("f", "num.network.threads=3\nmetric.reporters=x\n");
    let lines = log_of(&place.path("d"), &settings);
    let warned = lines.iter().filter(|line| line["level"] == "WARN");
    let about = |line: &Value| {
        let about = [&line["key"], &line["kind"]]
            .into_iter()
            .find_map(Value::as_str);
        about.map(str::to_owned)
    };
    let warned: Vec<_> = warned.filter_map(about).collect();
    assert_eq!(
        warned,
        [
            "default.replication.factor",
            "num.io.threads",
            "acls",
            "share-groups"
        ]
    );
    let counted = lines.iter().filter(|line| {
        line["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("settings without effect"))
    });
    let counted: Vec<_> = counted.map(|line| line["count"].as_u64()).collect();
    assert_eq!(counted, [Some(2)]);
    let acls = lines.iter().find(|line| line["kind"] == "acls").unwrap();
    assert_eq!(acls["example"], "User:a allowed on orders");
    assert!(
        acls["advice"]
            .as_str()
            .unwrap()
            .contains("docs/security-now.md")
    );
}
