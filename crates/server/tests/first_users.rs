//! The first user of a cluster without a listener that asks for no login, and an operator whose
//! password is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;

#[path = "running/broker.rs"]
mod running;

use running::Broker;

const SAFE: [&str; 6] = [
    "listeners=SAFE://127.0.0.1:0",
    "listener.security.protocol.map=SAFE:SASL_PLAINTEXT",
    "listener.name.safe.sasl.enabled.mechanisms=SCRAM-SHA-512",
    "listener.name.safe.scram-sha-512.sasl.jaas.config=\
     org.apache.kafka.common.security.scram.ScramLoginModule required;",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:root",
];

/// A directory with the data of a broker, and files for its clients.
struct House(tempfile::TempDir);

impl House {
    fn data(&self) -> String {
        self.0.path().join("data").display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command
            .args(arguments)
            .env("XDG_CONFIG_HOME", self.0.path());
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().unwrap();
        let said = String::from_utf8([stdout, stderr].concat()).unwrap();
        (status.success(), said)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.display().to_string()
    }

    fn start(&self) -> Broker {
        Broker::start(Path::new(&self.data()), &SAFE)
    }

    /// Whom a broker knows by this password, or the words of its refusal.
    fn whoami(&self, broker: &Broker, password: &str) -> Result<String, String> {
        let module = "org.apache.kafka.common.security.scram.ScramLoginModule";
        let file = self.file(
            "client.properties",
            &format!(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n\
                 sasl.jaas.config={module} required username=\"root\" password=\"{password}\";\n"
            ),
        );
        let address = broker.address.to_string();
        let whoami = ["auth", "whoami", "-b", &address, "--command-config", &file];
        match self.run(&whoami) {
            (true, said) => Ok(said),
            (false, said) => Err(said),
        }
    }
}

#[test]
fn the_first_user_is_made_at_format_and_a_lost_password_is_replaced() {
    let house = House(tempfile::tempdir().unwrap());
    let (data, password) = (house.data(), house.file("password", "pencil\n"));
    let dirs = format!("log.dirs={data},{data}-2");
    let user = format!("SCRAM-SHA-512=[name=root,password-file={password}]");
    let format = [
        "format",
        "--cluster-id",
        "ours",
        "--add-scram",
        &user,
        &dirs,
    ];
    let (done, said) = house.run(&format);
    assert!(done && said.contains("user root: SCRAM-SHA-512"), "{said}");
    let (done, said) = house.run(&format);
    assert!(!done && said.contains("is formatted already"), "{said}");

    let mut broker = Broker::start(Path::new(&data), &[&SAFE[..], &[dirs.as_str()]].concat());
    let known = house.whoami(&broker, "pencil");
    assert!(
        known.as_ref().is_ok_and(|said| said.contains("User:root")),
        "{known:?}"
    );
    assert!(house.whoami(&broker, "pen").is_err());
    let other = house.file("password", "eraser\n");
    let set = [
        "user",
        "set",
        "root",
        "--data-dir",
        &data,
        "--password-file",
        &other,
    ];
    let (done, said) = house.run(&set);
    assert!(!done && said.contains("in use"), "{said}");
    broker.stop(Signal::TERM);

    let (done, said) = house.run(&set);
    assert!(done && said.contains("from the next start on"), "{said}");
    assert!(!said.contains("eraser"), "{said}");
    let broker = Broker::start(Path::new(&data), &[&SAFE[..], &[dirs.as_str()]].concat());
    assert!(house.whoami(&broker, "pencil").is_err());
    let known = house.whoami(&broker, "eraser");
    assert!(known.is_ok_and(|said| said.contains("User:root")));
}

#[test]
fn a_user_who_gets_in_again_after_a_kill_finds_the_topics_and_rights_of_before() {
    let house = House(tempfile::tempdir().unwrap());
    let (data, password) = (house.data(), house.file("password", "pencil\n"));
    let user = format!("SCRAM-SHA-512=[name=root,password-file={password}]");
    let dirs = format!("log.dirs={data}");
    assert!(house.run(&["format", "--add-scram", &user, &dirs]).0);
    let mut broker = house.start();
    assert!(house.whoami(&broker, "pencil").is_ok());
    let (address, file) = (
        broker.address.to_string(),
        house.0.path().join("client.properties"),
    );
    let as_root = ["-b", &address, "--command-config", file.to_str().unwrap()];
    let asked = |arguments: &[&str]| house.run(&[arguments, &as_root].concat());
    let (done, said) = asked(&["topic", "create", "orders"]);
    assert!(done, "{said}");
    let (done, said) = asked(&[
        "acl",
        "add",
        "--allow-principal",
        "User:ada",
        "--topic",
        "orders",
        "--consumer",
        "--group",
        "g",
    ]);
    assert!(done, "{said}");
    broker.stop(Signal::KILL);
    let other = house.file("password", "eraser\n");
    let (done, said) = house.run(&[
        "user",
        "set",
        "root",
        "--data-dir",
        &data,
        "--password-file",
        &other,
    ]);
    assert!(done, "{said}");
    let broker = house.start();
    assert!(house.whoami(&broker, "eraser").is_ok());
    let address = broker.address.to_string();
    let as_root = ["-b", &address, "--command-config", file.to_str().unwrap()];
    let asked = |arguments: &[&str]| house.run(&[arguments, &as_root].concat()).1;
    assert!(asked(&["topic", "list"]).contains("orders"));
    assert!(asked(&["acl", "list"]).contains("User:ada"));
}
