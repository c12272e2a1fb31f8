//! A double of a controller's service, and what is refused.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;
use crate::knob;
use crate::root::{Root, Tree as _};

/// The state of the double.
#[derive(Debug)]
struct Double {
    now: Value,
    next: Value,
    registry: Value,
    etag: u64,
    times: Value,
    messages: Value,
    /// Another client changes the settings just before each change.
    raced: bool,
    seen: Vec<String>,
}

const BIOS: &str = "/redfish/v1/Systems/1/Bios";
const LOGIN_SENT: &str = "Basic cm9vdDpzZWNyZXQ=";

impl Double {
    fn new() -> Double {
        let value = |name: &str| json!({ "ValueName": name });
        let attribute = |name: &str, values: &[&str]| {
            json!({ "AttributeName": name, "Type": "Enumeration", "ReadOnly": false,
                    "Value": values.iter().map(|name| value(name)).collect::<Vec<_>>() })
        };
        Double {
            now: json!({ "SnoopMode": "EarlySnoop", "ProcCStates": "Enabled", "SubNumaCluster": "Disabled", "WorkloadProfile": "Custom" }),
            next: json!({}),
            registry: json!({ "Attributes": [
                    attribute("SnoopMode", &["EarlySnoop", "HomeSnoop", "ClusterOnDie"]),
                    attribute("ProcCStates", &["Enabled", "Disabled"]),
                    attribute("SubNumaCluster", &["Enabled", "Disabled"]),
                ],
                "Dependencies": [{ "DependencyFor": "ProcCStates", "Dependency": {
                    "MapFrom": [{ "MapFromAttribute": "WorkloadProfile", "MapFromCondition": "NEQ", "MapFromValue": "Custom" }],
                    "MapToAttribute": "ProcCStates", "MapToProperty": "ReadOnly", "MapToValue": true } }] }),
            etag: 1,
            times: json!(["OnReset", "AtMaintenanceWindowStart"]),
            messages: json!([]),
            raced: false,
            seen: Vec::new(),
        }
    }

    /// Restarts the host: what is staged comes into effect, or it does not, with messages.
    fn restart(&mut self, well: bool) {
        if well {
            for (name, value) in self.next.as_object().unwrap().clone() {
                self.now[name] = value;
            }
        } else {
            self.messages =
                json!([{ "Message": "the setting cannot be applied", "Severity": "Critical" }]);
        }
        self.next = json!({});
    }

    fn answer(&mut self, head: &str, body: &str) -> (u16, Value) {
        let mut words = head.split_whitespace();
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        self.seen.push(format!("{method} {path}"));
        let header = |name: &str| {
            let mut lines = head.lines();
            lines.find_map(|line| {
                line.to_ascii_lowercase()
                    .starts_with(name)
                    .then(|| line.split_once(": ").unwrap().1.to_owned())
            })
        };
        if header("authorization:").as_deref() != Some(LOGIN_SENT) {
            return (401, Value::Null);
        }
        match (method, path) {
            ("GET", "/redfish/v1/Systems") => (
                200,
                json!({ "Members": [{ "@odata.id": "/redfish/v1/Systems/1" }] }),
            ),
            ("GET", "/redfish/v1/Systems/1") => (200, json!({ "Bios": { "@odata.id": BIOS } })),
            ("GET", BIOS) => (
                200,
                json!({ "Attributes": self.now, "AttributeRegistry": "BiosRegistry.1", "@Redfish.Settings": {
                    "SettingsObject": { "@odata.id": format!("{BIOS}/Settings") },
                    "SupportedApplyTimes": self.times, "Messages": self.messages } }),
            ),
            ("GET", "/redfish/v1/Registries/BiosRegistry.1") => {
                (200, json!({ "Location": [{ "Uri": "/registry.json" }] }))
            }
            ("GET", "/registry.json") => (200, json!({ "RegistryEntries": self.registry })),
            ("GET", "/redfish/v1/Systems/1/Bios/Settings") => (
                200,
                json!({ "Attributes": self.next, "@odata.etag": format!("\"{}\"", self.etag) }),
            ),
            ("PATCH", "/redfish/v1/Systems/1/Bios/Settings") => {
                self.etag += u64::from(self.raced);
                if header("if-match:") != Some(format!("\"{}\"", self.etag)) {
                    return (412, Value::Null);
                }
                let body: Value = serde_json::from_str(body).unwrap();
                assert_eq!(body["@Redfish.SettingsApplyTime"]["ApplyTime"], "OnReset");
                for (name, value) in body["Attributes"].as_object().unwrap() {
                    self.next[name] = value.clone();
                }
                self.etag += 1;
                (202, Value::Null)
            }
            _ => (
                404,
                json!({ "error": { "@Message.ExtendedInfo": [{ "Message": "no such resource" }] } }),
            ),
        }
    }
}

/// Serves until the process of the tests ends; returns its port.
fn serve(double: &Arc<Mutex<Double>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let double = Arc::clone(double);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            one(&double, stream.unwrap());
        }
    });
    port
}

fn one(double: &Mutex<Double>, mut stream: impl Read + Write) {
    let (mut asked, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&asked).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.parse().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                let (status, answer) = double.lock().unwrap().answer(head, body);
                let answer = if answer.is_null() {
                    String::new()
                } else {
                    answer.to_string()
                };
                let length = answer.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{answer}"
                );
                return;
            }
        }
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return,
            Ok(read) => asked.extend(&part[..read]),
        }
    }
}

fn place_of(port: u16, login: &str) -> place::RedfishPlace {
    place::place(
        &format!("url = \"http://127.0.0.1:{port}\"\n"),
        Some(login.to_owned()),
        Path::new("/x"),
    )
    .unwrap()
}

fn machine(double: Double) -> (Root, Arc<Mutex<Double>>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let double = Arc::new(Mutex::new(double));
    let firmware = Firmware::at(place_of(serve(&double), "root:secret"));
    (Root::with_firmware(dir.path(), Some(firmware)), double, dir)
}

#[test]
fn a_value_is_staged_and_comes_into_effect_at_the_next_start() {
    let (root, double, _dir) = machine(Double::new());
    let ids: Vec<String> = knob::all(&root).into_iter().map(|knob| knob.id).collect();
    assert_eq!(
        ids,
        [
            "firmware.cpu.c_states",
            "firmware.cpu.numa_per_socket",
            "firmware.cpu.snoop"
        ]
    );
    let knob = knob::find(&root, "firmware.cpu.snoop").unwrap();
    assert_eq!(
        root.read("firmware/cpu.snoop").unwrap(),
        "[early] home cluster-on-die\n"
    );
    knob.write(&root, "home").unwrap();
    assert_eq!(knob.read(&root).unwrap(), "home");
    assert_eq!(
        root.text("firmware-now/cpu.snoop").unwrap(),
        "early",
        "nothing is in effect before the start"
    );
    assert_eq!(
        double.lock().unwrap().next,
        json!({ "SnoopMode": "HomeSnoop" })
    );
    double.lock().unwrap().restart(true);
    knob.write(&root, "home").unwrap();
    assert_eq!(root.text("firmware-now/cpu.snoop").unwrap(), "home");
}

#[test]
fn settings_that_failed_are_reported_in_the_controllers_words() {
    let (root, double, dir) = machine(Double::new());
    knob::find(&root, "firmware.cpu.snoop")
        .unwrap()
        .write(&root, "home")
        .unwrap();
    double.lock().unwrap().restart(false);
    let port = place_of(serve(&double), "root:secret");
    let root = Root::with_firmware(dir.path(), Some(Firmware::at(port)));
    assert_eq!(
        root.read("firmware/cpu.snoop").unwrap(),
        "[early] home cluster-on-die\n"
    );
    assert_eq!(root.text(SAID).unwrap(), "the setting cannot be applied");
}

#[track_caller]
fn refused(double: Double, name: &str, value: &str, why: &str) {
    let (root, double, _dir) = machine(double);
    let knob = knob::find(&root, &format!("firmware.{name}")).unwrap();
    let error = knob.write(&root, value).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
    assert!(!error.contains("secret"), "{error}");
    let next = double.lock().unwrap().next.clone();
    assert_eq!(next, json!({}), "nothing was staged");
}

#[test]
fn what_the_registry_does_not_allow_is_refused() {
    let changed = |change: fn(&mut Double)| {
        let mut double = Double::new();
        change(&mut double);
        double
    };
    refused(
        Double::new(),
        "cpu.snoop",
        "fast",
        "none of the values of SnoopMode: early, home, cluster-on-die",
    );
    refused(
        Double::new(),
        "cpu.prefetch.hardware",
        "on",
        "has none of ProcHwPrefetcher",
    );
    refused(
        changed(|double| double.registry["Attributes"][0]["ReadOnly"] = json!(true)),
        "cpu.snoop",
        "home",
        "SnoopMode is read-only",
    );
    refused(
        changed(|double| double.now["WorkloadProfile"] = json!("Latency")),
        "cpu.c_states",
        "off",
        "depends on WorkloadProfile",
    );
    refused(
        changed(|double| double.times = json!(["Immediate"])),
        "cpu.snoop",
        "home",
        "not at the next start",
    );
    refused(
        changed(|double| double.raced = true),
        "cpu.snoop",
        "home",
        "changed by somebody else",
    );
    refused(
        changed(|double| {
            double.registry["Dependencies"][0]["Dependency"]["MapFrom"][0]["MapFromCondition"] =
                json!("GTR");
        }),
        "cpu.c_states",
        "off",
        "depends on",
    );
}

#[test]
fn a_login_that_is_refused_is_not_shown() {
    let double = Arc::new(Mutex::new(Double::new()));
    let dir = tempfile::tempdir().unwrap();
    let firmware = Firmware::at(place_of(serve(&double), "root:wrong-secret"));
    assert!(!format!("{firmware:?}").contains("wrong-secret"));
    let root = Root::with_firmware(dir.path(), Some(firmware));
    let error = root.read("firmware/cpu.snoop").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn a_place_says_what_is_wrong_with_it() {
    let login = || Some("u:p".to_owned());
    let digest = "ab".repeat(32);
    for (text, login, why) in [
        (
            "url = \"http://10.0.0.5\"".to_owned(),
            login(),
            "without TLS",
        ),
        (
            "url = \"https://10.0.0.5\"".to_owned(),
            login(),
            "fingerprint",
        ),
        (
            "url = \"https://10.0.0.5\"\nfingerprint = \"sha256:ab\"".to_owned(),
            login(),
            "no digest",
        ),
        (
            "url = \"ftp://10.0.0.5\"".to_owned(),
            login(),
            "not like https",
        ),
        (
            "url = \"https://u:p@10.0.0.5\"".to_owned(),
            login(),
            "not like https",
        ),
        (
            format!("url = \"https://10.0.0.5\"\nfingerprint = \"{digest}\""),
            None,
            "neither a file",
        ),
        (
            format!("url = \"https://10.0.0.5\"\nfingerprint = \"{digest}\""),
            Some("u".to_owned()),
            "USER:PASSWORD",
        ),
        (
            "url = \"https://10.0.0.5\"\npassword = \"p\"".to_owned(),
            login(),
            "unknown field",
        ),
    ] {
        let error = format!(
            "{:#}",
            place::place(&text, login, Path::new("/x")).unwrap_err()
        );
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_login_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let (file, login) = (dir.path().join("redfish.toml"), dir.path().join("login"));
    std::fs::write(&login, "root:secret\n").unwrap();
    let text = "url = \"http://127.0.0.1\"\nlogin = \"login\"\n";
    for (mode, is_taken) in [(0o644, false), (0o600, true)] {
        std::fs::set_permissions(&login, std::fs::Permissions::from_mode(mode)).unwrap();
        let found = place::place(text, None, &file);
        assert_eq!(found.is_ok(), is_taken, "{found:?}");
    }
}

/// Behind TLS, with a certificate that no authority has signed.
#[test]
fn only_a_service_with_the_known_certificate_gets_the_login() {
    use rustls::pki_types::PrivateKeyDer;
    use sha2::Digest as _;
    let made = rcgen::generate_simple_self_signed(vec!["bmc".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let digest = sha2::Sha256::digest(&certificate);
    let digest: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let digest = digest.join(":");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = Arc::new(
        config
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap(),
    );
    let double = Arc::new(Mutex::new(Double::new()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = Arc::clone(&double);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(session, stream.unwrap());
            one(&serving, &mut stream);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    let read = |digest: &str| {
        let text = format!("url = \"https://127.0.0.1:{port}\"\nfingerprint = \"{digest}\"\n");
        let place = place::place(&text, Some("root:secret".to_owned()), Path::new("/x")).unwrap();
        let root = Root::with_firmware("/nowhere", Some(Firmware::at(place)));
        root.read("firmware/cpu.snoop")
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        read(&digest),
        Ok("[early] home cluster-on-die\n".to_owned())
    );
    let asked = double.lock().unwrap().seen.len();
    let other = read(&"00".repeat(32)).unwrap_err();
    assert!(other.contains("another fingerprint"), "{other}");
    assert_eq!(
        double.lock().unwrap().seen.len(),
        asked,
        "nothing was sent to it"
    );
}
