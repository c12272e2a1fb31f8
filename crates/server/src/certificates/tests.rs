//! Sets that change on disk while they are in force.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use tls::reload::AllowedChanges;
use tls::{ClientAuth, PrincipalRules, Setting, StoreSettings, TlsNames};

use super::*;
use crate::metrics::Metrics;

const EVERY: Duration = Duration::from_secs(10);

/// Key and chain for a host, as one file.
pub(super) fn pem_for(host: &str) -> String {
    let own = rcgen::generate_simple_self_signed(vec![host.to_owned()]).unwrap();
    own.signing_key.serialize_pem() + &own.cert.pem()
}

pub(super) fn pem() -> String {
    pem_for("localhost")
}

pub(super) fn listeners(file: &Path) -> BTreeMap<String, ServerTlsSettings> {
    let stores = StoreSettings {
        keystore_type: Some(Setting::new("ssl.keystore.type", "PEM".to_owned())),
        keystore_location: Some(Setting::new("ssl.keystore.location", file.to_path_buf())),
        ..StoreSettings::default()
    };
    let settings = ServerTlsSettings {
        stores,
        names: TlsNames::default(),
        client_auth: Setting::new("ssl.client.auth", ClientAuth::None),
        principal_rules: PrincipalRules::default(),
        allowed_changes: AllowedChanges::default(),
    };
    BTreeMap::from([("OUT".to_owned(), settings)])
}

/// A broker's settings that say this of the listener.
fn set(values: &[(&'static str, &Path)]) -> BTreeMap<String, StoreValues> {
    let one = |(name, path): &(&'static str, &Path)| {
        (*name, wire::sasl::Secret::new(path.display().to_string()))
    };
    BTreeMap::from([("out".to_owned(), values.iter().map(one).collect())])
}

struct World {
    certificates: Certificates,
    in_force: watch::Receiver<Arc<ServerTls>>,
    metrics: Metrics,
    counts: TlsMetrics,
}

fn world(file: &Path) -> World {
    let mut certificates = Certificates::open(listeners(file), EVERY).unwrap();
    let in_force = certificates.in_force().remove("OUT").unwrap();
    let metrics = Metrics::new();
    let counts = metrics.register(TlsMetrics::register);
    certificates.show(&counts);
    World {
        certificates,
        in_force,
        metrics,
        counts,
    }
}

impl World {
    /// Looks, and returns whether another set is in force than before.
    fn look(&mut self, look: Look) -> bool {
        let before = self.in_force.borrow_and_update().clone();
        // Long after anything was written.
        let now = Times {
            up_ms: 0,
            wall_ms: i64::MAX,
        };
        self.certificates.look(look, now, &self.counts);
        let now = self.in_force.borrow_and_update().clone();
        !Arc::ptr_eq(&before, &now)
    }

    fn reloads(&self, result: &str) -> bool {
        let line = format!("forebay_tls_reloads_total{{listener=\"OUT\",result=\"{result}\"}} 1\n");
        self.metrics.text().contains(&line)
    }
}

#[test]
fn a_set_is_taken_when_its_files_are_others_and_whole() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key.pem");
    fs::write(&file, pem()).unwrap();
    let mut world = world(&file);
    assert!(!world.look(Look::Timely), "nothing is another");
    assert!(!world.look(Look::Asked), "nor if somebody asks");
    let next = pem();
    // Half of it is written.
    fs::write(&file, &next[..next.len() / 2]).unwrap();
    assert!(!world.look(Look::Timely));
    assert!(world.reloads("failure") && !world.reloads("success"));
    fs::write(&file, &next).unwrap();
    assert!(world.look(Look::Timely));
    assert!(world.reloads("success"));
    assert!(!world.look(Look::Timely), "it is in force");
}

#[test]
fn files_that_are_gone_leave_the_set_in_force_until_they_are_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key.pem");
    fs::write(&file, pem()).unwrap();
    let mut world = world(&file);
    fs::remove_file(&file).unwrap();
    assert!(!world.look(Look::Timely) && !world.look(Look::Asked));
    fs::write(&file, pem()).unwrap();
    assert!(world.look(Look::Timely));
}

#[test]
fn a_set_for_another_host_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key.pem");
    fs::write(&file, pem()).unwrap();
    let mut world = world(&file);
    fs::write(&file, pem_for("elsewhere")).unwrap();
    assert!(!world.look(Look::Timely));
    assert!(world.reloads("failure"));
    // A timely look does not read it again; a look that an operator asks for does.
    assert!(!world.look(Look::Timely));
    assert!(world.reloads("failure"));
    assert!(!world.look(Look::Asked));
    assert!(!world.reloads("failure"), "two by now");
    fs::write(&file, pem()).unwrap();
    assert!(world.look(Look::Timely));
}

/// Lines of the log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_operator_who_asks_is_answered_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key.pem");
    let first = pem();
    fs::write(&file, &first).unwrap();
    let mut world = world(&file);
    let lines = Lines::default();
    let to = lines.clone();
    let log = tracing_subscriber::fmt().with_writer(move || to.clone());
    tracing::subscriber::with_default(log.finish(), || {
        fs::write(&file, "no key").unwrap();
        for look in [Look::Timely, Look::Timely, Look::Asked, Look::Asked] {
            assert!(!world.look(look));
        }
        fs::write(&file, &first).unwrap();
        for look in [Look::Timely, Look::Asked] {
            assert!(!world.look(look));
        }
    });
    let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert_eq!(lines.matches("are not taken").count(), 3, "{lines}");
    assert_eq!(lines.matches("in force already").count(), 1, "{lines}");
}

#[tokio::test(start_paused = true)]
async fn files_that_are_not_read_in_time_are_told_of() {
    let lines = Lines::default();
    let to = lines.clone();
    let log = tracing_subscriber::fmt().with_writer(move || to.clone());
    let _log = tracing::subscriber::set_default(log.finish());
    let hangs_for = |time| tokio::time::sleep(time);
    in_time_or_said(hangs_for(LONG_LOOK / 2)).await;
    assert!(lines.0.lock().unwrap().is_empty());
    in_time_or_said(hangs_for(LONG_LOOK * 5 / 2)).await;
    let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert_eq!(
        lines.matches("have not been read yet").count(),
        2,
        "{lines}"
    );
}

#[test]
fn a_set_that_is_not_whole_refuses_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key.pem");
    let whole = pem();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let refused = Certificates::open(listeners(&file), EVERY).unwrap_err();
    assert_eq!(refused.file, Some(file));
}

#[tokio::test(start_paused = true)]
async fn it_is_looked_at_each_time_and_when_it_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key.pem");
    fs::write(&file, pem()).unwrap();
    let World {
        certificates,
        mut in_force,
        counts,
        ..
    } = world(&file);
    let (ask, asked) = mpsc::channel(1);
    let keeping = tokio::spawn(certificates.keep(asked, None, watch::Sender::new(false), counts));
    in_force.borrow_and_update();
    fs::write(&file, pem()).unwrap();
    in_force.changed().await.unwrap();
    fs::write(&file, pem()).unwrap();
    ask.send(()).await.unwrap();
    in_force.changed().await.unwrap();
    drop(ask);
    keeping.await.unwrap();
    // What was in force last stays so.
    drop(in_force.borrow().config());
}

#[test]
fn values_of_clients_stand_before_those_of_the_start_until_they_are_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("key.pem"), dir.path().join("other.pem"));
    fs::write(&file, pem()).unwrap();
    fs::write(&other, pem()).unwrap();
    let mut world = world(&file);
    let first = world.in_force.borrow().clone();
    world
        .certificates
        .learn(&set(&[("ssl.keystore.location", &other)]));
    assert!(world.look(Look::Set));
    assert!(!world.look(Look::Set), "it is in force");
    // From now on that file counts, and no longer the other one.
    fs::write(&file, pem()).unwrap();
    assert!(!world.look(Look::Timely));
    fs::write(&other, pem()).unwrap();
    assert!(world.look(Look::Timely));
    // One that does not fit leaves the one before in force.
    world
        .certificates
        .learn(&set(&[("ssl.keystore.location", &dir.path().join("none"))]));
    assert!(!world.look(Look::Set) && world.reloads("failure"));
    world.certificates.learn(&BTreeMap::new());
    assert!(world.look(Look::Set), "that of the start");
    assert!(!Arc::ptr_eq(&first, &world.in_force.borrow()));
}
