//! The audit file of a broker, from outside: what is in it, what is not, and what becomes of a
//! broker that cannot write it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

#[path = "running/broker.rs"]
mod running;

use running::{Broker, PATIENCE, command};

/// Appears wherever a client shows a secret.
const CANARY: &str = "c4n4ry-c4n4ry";
const AUTHORIZER: &str =
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
const SAFE: [&str; 4] = [
    "listeners=SAFE://127.0.0.1:0",
    "listener.security.protocol.map=SAFE:SASL_PLAINTEXT",
    "listener.name.safe.sasl.enabled.mechanisms=PLAIN",
    "listener.name.safe.plain.sasl.jaas.config=\
     org.apache.kafka.common.security.plain.PlainLoginModule required user_ada=\"pencil\";",
];

struct Audited {
    broker: Broker,
    dir: tempfile::TempDir,
}

impl Audited {
    fn start(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("audit")).unwrap();
        let broker = Self::broker(dir.path(), settings);
        Self { broker, dir }
    }

    fn broker(dir: &Path, settings: &[&str]) -> Broker {
        let path = format!("audit.path={}", dir.join("audit/audit.log").display());
        let settings = [settings, &[path.as_str()]].concat();
        Broker::start(&dir.join("data"), &settings)
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("audit/audit.log")
    }

    /// Runs a command of a client.
    fn run(&self, arguments: &[&str]) -> Output {
        let brokers = self.broker.address.to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(arguments).args(["--brokers", &brokers]);
        command.env("XDG_CONFIG_HOME", self.dir.path());
        command.output().unwrap()
    }

    fn ok(&self, arguments: &[&str]) {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
    }

    /// The lines, once there are as many that fit.
    fn lines(&self, count: usize, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let since = Instant::now();
        loop {
            let text = fs::read_to_string(self.path()).unwrap_or_default();
            let lines = text.lines().map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                line
            });
            let fitting: Vec<Value> = lines.filter(|line| fits(line)).collect();
            if fitting.len() >= count {
                return fitting;
            }
            assert!(since.elapsed() < PATIENCE, "{count} lines in\n{text}");
            sleep(Duration::from_millis(50));
        }
    }

    fn of_class(&self, class: &str, count: usize) -> Vec<Value> {
        self.lines(count, |line| line["class"] == class)
    }

    fn metric(&self, line: &str) -> bool {
        let (_, page) = self.broker.ask("GET", "/metrics");
        page.lines().any(|found| found == line)
    }

    fn wait_for(&self, what: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !what(self) {
            assert!(since.elapsed() < PATIENCE, "it does not come");
            sleep(Duration::from_millis(50));
        }
    }
}

/// A request with correlation id 7.
fn request(api: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let header = [
        &api.to_be_bytes()[..],
        &version.to_be_bytes(),
        &[0, 0, 0, 7],
        &[0, 0],
    ];
    let frame = [&header.concat(), body].concat();
    let len = i32::try_from(frame.len()).unwrap();
    [&len.to_be_bytes()[..], &frame].concat()
}

/// Logs in with this password, and waits for the end of the connection or for two answers.
fn login(broker: &Broker, password: &str) {
    let message = format!("\0ada\0{password}");
    let len = i32::try_from(message.len()).unwrap();
    let body = [&len.to_be_bytes()[..], message.as_bytes()].concat();
    let all = [request(17, 1, b"\0\x05PLAIN"), request(36, 0, &body)].concat();
    let mut socket = broker.connect();
    socket.write_all(&all).unwrap();
    for _ in 0..2 {
        let mut len = [0; 4];
        socket.read_exact(&mut len).unwrap();
        let len = usize::try_from(i32::from_be_bytes(len)).unwrap();
        socket.read_exact(&mut vec![0; len]).unwrap();
    }
}

#[test]
fn what_a_cluster_would_be_denied_is_enough_for_the_acls_that_it_needs() {
    let audited = Audited::start(&[AUTHORIZER, "authorizer.mode=log"]);
    let names: Vec<String> = (0..30).map(|number| format!("orders-{number}")).collect();
    for name in &names {
        audited.ok(&["topic", "create", name]);
    }
    let is_create = |line: &Value| line["class"] == "would_deny" && line["operation"] == "CREATE";
    let lines = audited.lines(names.len(), is_create);
    assert_eq!(lines[0]["principal"], "User:ANONYMOUS");
    assert_eq!(lines[0]["outcome"], "allowed");
    assert_eq!(
        (&lines[0]["listener"], &lines[0]["api"]),
        (&"PLAINTEXT".into(), &"CreateTopics".into())
    );
    let path = audited.path().display().to_string();
    let suggested = audited.run(&["acl", "suggest", &path, "--format", "json"]);
    let all: Value = serde_json::from_slice(&suggested.stdout).unwrap();
    let told = all["suggestions"][0]["forebay"].to_string();
    for name in &names {
        let option = format!("--topic {name}");
        assert!(told.contains(&option), "{option} is not in {told}");
    }
    assert_eq!(all["unsaid"], serde_json::json!({}));
    let prefix = [
        "acl",
        "suggest",
        &path,
        "--prefix",
        "topic:orders-",
        "--format",
        "json",
    ];
    let all: Value = serde_json::from_slice(&audited.run(&prefix).stdout).unwrap();
    let told = all["suggestions"][0]["forebay"].to_string();
    assert!(
        told.contains("--topic orders-") && !told.contains("orders-7"),
        "{told}"
    );
}

#[test]
fn logins_are_in_it_and_no_secret_is_and_a_kill_leaves_whole_lines() {
    let classes = "audit.classes=auth,auth_failure,admin";
    let settings = [&SAFE[..], &[classes, "audit.file.mode=0640"]].concat();
    let mut audited = Audited::start(&settings);
    login(&audited.broker, CANARY);
    login(&audited.broker, "pencil");
    let failed = audited.of_class("auth_failure", 1);
    assert_eq!(failed[0]["mechanism"], "PLAIN");
    assert_eq!(
        (&failed[0]["listener"], &failed[0]["address"]),
        (&"SAFE".into(), &"127.0.0.1".into())
    );
    assert!(failed[0].get("principal").is_none(), "it may be a password");
    let done = audited.of_class("auth", 1);
    assert_eq!(done[0]["principal"], "User:ada");
    let mode = fs::metadata(audited.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    audited.broker.stop(Signal::KILL);
    let text = fs::read_to_string(audited.path()).unwrap();
    assert!(text.ends_with('\n') && !text.contains(CANARY) && !text.contains("pencil"));
    // As if it had been killed within a line.
    let mut file = fs::File::options()
        .append(true)
        .open(audited.path())
        .unwrap();
    file.write_all(b"{\"class\":").unwrap();
    audited.broker = Audited::broker(audited.dir.path(), &settings);
    login(&audited.broker, "pencil");
    audited.broker.stop(Signal::TERM);
    let text = fs::read_to_string(audited.path()).unwrap();
    let (whole, torn): (Vec<&str>, Vec<&str>) = text
        .lines()
        .partition(|line| serde_json::from_str::<Value>(line).is_ok());
    assert_eq!((whole.len(), torn), (3, vec!["{\"class\":"]), "{text}");
}

#[test]
fn changes_by_administrators_are_in_it_with_what_has_changed() {
    let audited = Audited::start(&["audit.file.bytes=65536"]);
    audited.ok(&["topic", "create", "orders", "--partitions", "3"]);
    audited.ok(&["topic", "delete", "orders"]);
    let lines = audited.of_class("admin", 2);
    let told: Vec<String> = lines
        .iter()
        .map(|line| {
            assert_eq!(line["outcome"], "done");
            assert_eq!(line["principal"], "User:ANONYMOUS");
            let changes = line["changes"].as_array().unwrap().iter();
            let each = changes.map(|change| format!("{} {}", change["what"], change["target"]));
            each.collect::<Vec<_>>().join(", ").replace('"', "")
        })
        .collect();
    assert_eq!(
        told,
        [
            "create_topic orders, add_partitions orders",
            "delete_topic orders"
        ]
    );
}

#[test]
fn a_file_that_must_not_be_written_to_refuses_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let (victim, link) = (dir.path().join("victim"), dir.path().join("audit.log"));
    fs::write(&victim, "precious\n").unwrap();
    symlink(&victim, &link).unwrap();
    for (path, why) in [
        (&link, "symbolic link"),
        (&victim, "another program's file"),
    ] {
        let path = format!("audit.path={}", path.display());
        let output = command(&dir.path().join("data"), &[&path])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{said}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n");
    }
    // A disk that is not mounted refuses a start only if its file is required.
    let path = format!(
        "audit.path={}",
        dir.path().join("absent/audit.log").display()
    );
    let data = dir.path().join("other");
    let output = command(&data, &[&path, "audit.required=true"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("cannot be opened"),
        "{said}"
    );
    let broker = Broker::start(&data, &[&path]);
    let (_, page) = broker.ask("GET", "/readyz");
    assert!(page.contains("audit_file"), "{page}");
}

#[test]
fn links_that_lead_into_the_data_refuse_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    symlink(&data, dir.path().join("audit")).unwrap();
    let path = format!(
        "audit.path={}",
        dir.path().join("audit/audit.log").display()
    );
    let refused = command(&data, &[path.as_str()]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert!(
        said.contains(&path) && said.contains("links lead into"),
        "{said}"
    );
    assert!(!data.join("audit.log").exists());
}

#[test]
fn a_disk_that_is_gone_refuses_changes_if_they_must_be_written_and_nothing_else() {
    let audited = Audited::start(&["audit.required=true"]);
    audited.ok(&["topic", "create", "before"]);
    let (dir, away) = (
        audited.dir.path().join("audit"),
        audited.dir.path().join("away"),
    );
    fs::rename(&dir, &away).unwrap();
    audited.wait_for(|it| it.metric("forebay_audit_failing 1"));
    let refused = audited.run(&["topic", "create", "meanwhile"]);
    let told = [refused.stdout, refused.stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(
        !refused.status.success() && told.contains("POLICY_VIOLATION"),
        "{told}"
    );
    // Everything else is served.
    audited.ok(&["topic", "list"]);
    fs::rename(&away, &dir).unwrap();
    audited.wait_for(|it| it.metric("forebay_audit_failing 0"));
    audited.ok(&["topic", "create", "after"]);
    let made: Vec<String> = audited
        .of_class("admin", 2)
        .iter()
        .map(|line| line["changes"][0]["target"].to_string())
        .collect();
    assert_eq!(made, ["\"before\"", "\"after\""]);
}
