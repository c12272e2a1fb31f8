//! Listeners that speak TLS, from outside: who gets in, as whom, what strangers do, and keys that
//! change while the broker serves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

#[path = "running/broker.rs"]
mod running;

use running::{API_VERSIONS, Broker, PATIENCE, api_versions, line};

type Secured = StreamOwned<ClientConnection, TcpStream>;

/// An issuer of certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A key, and who it is for.
struct Issued {
    chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "tests");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, name: &str) -> Issued {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &*self.0).unwrap();
        Issued {
            pem: key.serialize_pem() + &certificate.pem(),
            chain: vec![certificate.der().clone()],
            key,
        }
    }

    /// A client that trusts, and that shows this key if there is one.
    fn client(&self, own: Option<&Issued>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.as_ref().der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let key: PrivateKeyDer<'static> =
                    PrivatePkcs8KeyDer::from(own.key.serialize_der()).into();
                builder
                    .with_client_auth_cert(own.chain.clone(), key)
                    .unwrap()
            }
        })
    }
}

/// A broker with a listener that speaks TLS (`broker.address`), and what it was started with.
struct World {
    dir: tempfile::TempDir,
    broker: Broker,
    authority: Authority,
}

/// Settings in which `{dir}` stands for the directory with `server.pem` and `ca.pem`.
fn start(protocol: &str, settings: &[&str]) -> World {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let at = |name: &str| dir.path().join(name);
    write_secret(&at("server.pem"), &authority.issue("server").pem);
    fs::write(at("ca.pem"), authority.0.pem()).unwrap();
    let place = dir.path().to_str().unwrap();
    let mut all = vec![
        "listeners=SAFE://127.0.0.1:0".to_owned(),
        format!("listener.security.protocol.map=SAFE:{protocol}"),
        "ssl.keystore.type=PEM".to_owned(),
        format!("ssl.keystore.location={place}/server.pem"),
    ];
    all.extend(settings.iter().map(|it| it.replace("{dir}", place)));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let data = dir.path().join("data");
    // These tests may run under nohup themselves, which what they start inherits.
    let broker = Broker::start_with(|| {
        let broker = running::command(&data, &all);
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP");
        command.arg(broker.get_program()).args(broker.get_args());
        command
    });
    World {
        dir,
        broker,
        authority,
    }
}

fn write_secret(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let next = path.with_extension("next");
    fs::write(&next, text).unwrap();
    fs::set_permissions(&next, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&next, path).unwrap();
}

impl World {
    /// A client that has done its handshake, as far as it sees.
    fn connect(&self, config: Arc<ClientConfig>) -> std::io::Result<Secured> {
        shake(self.broker.connect(), config)
    }

    fn trusting(&self) -> Secured {
        self.connect(self.authority.client(None)).unwrap()
    }

    /// Waits until the metrics have this line.
    fn wait_for(&self, line: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let metrics = self.broker.ask("GET", "/metrics").1;
            if metrics.lines().any(|it| it == line) {
                return;
            }
            assert!(Instant::now() < deadline, "no {line} in\n{metrics}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn shake(socket: TcpStream, config: Arc<ClientConfig>) -> std::io::Result<Secured> {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(config, name).unwrap();
    let mut stream = StreamOwned::new(connection, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
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

/// An answer without its length and correlation id; `None` at the end of the connection.
fn answer(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).ok()?;
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(len)).unwrap()];
    stream.read_exact(&mut answer).unwrap();
    Some(answer.split_off(4))
}

fn ask(stream: &mut Secured, request: &[u8]) -> Option<Vec<u8>> {
    stream.write_all(request).ok()?;
    stream.flush().ok()?;
    answer(stream)
}

fn serves(stream: &mut Secured) -> bool {
    ask(stream, &API_VERSIONS).is_some()
}

/// The error code of a `CreateTopics` 2 of one topic.
fn create(stream: &mut Secured, topic: &str) -> Option<i16> {
    let name = [
        &i16::try_from(topic.len()).unwrap().to_be_bytes()[..],
        topic.as_bytes(),
    ]
    .concat();
    let body = [
        &[0, 0, 0, 1][..],
        &name,
        &[0, 0, 0, 1, 0, 1],
        &[0; 8],
        &30_000_i32.to_be_bytes(),
        &[0],
    ];
    let answer = ask(stream, &request(19, 2, &body.concat()))?;
    Some(i16::from_be_bytes(
        *answer[10 + topic.len()..].first_chunk()?,
    ))
}

/// A connection from an address that has no seats of its own.
fn stranger(broker: &Broker, last: u8) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let from = SocketAddr::from(([127, 0, 0, last], 0));
    socket.bind(&from.into()).unwrap();
    socket.connect(&broker.address.into()).unwrap();
    let socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[test]
fn requests_and_large_answers_go_through_tls() {
    let world = start("SSL", &["auto.create.topics.enable=false"]);
    let mut client = world.trusting();
    assert!(serves(&mut client));
    assert_eq!(create(&mut client, "t"), Some(0));
    // Metadata of a hundred topics that there are not: more than a record, in both directions.
    let names = (b'0'..b'0' + 100).map(|first| {
        let name = format!("{first:03}{}", "x".repeat(200));
        [&[0, 203][..], name.as_bytes()].concat()
    });
    let body = [
        &100_i32.to_be_bytes()[..],
        &names.collect::<Vec<_>>().concat(),
    ]
    .concat();
    let told = ask(&mut client, &request(3, 1, &body)).unwrap();
    assert!(told.len() > 20_000, "{}", told.len());
    let again = ask(&mut client, &request(3, 1, &body)).unwrap();
    assert_eq!(again, told);
    world.wait_for(
        "kafka_server_socketservermetrics_connections{listener=\"SAFE\",\
         cipher=\"TLS_AES_256_GCM_SHA384\",protocol=\"TLSv1.3\"} 1",
    );
    drop(client);
    world.wait_for("kafka_server_socketservermetrics_connection_count{listener=\"SAFE\"} 0");
    world.wait_for("forebay_tls_record_bytes 0");
}

#[test]
fn a_plain_listener_beside_it_is_as_it_was() {
    let world = start(
        "SSL",
        &[
            "listeners=OPEN://127.0.0.1:0,SAFE://127.0.0.1:0",
            "listener.security.protocol.map=OPEN:PLAINTEXT,SAFE:SSL",
        ],
    );
    // The first listener is the open one here.
    api_versions(&world.broker.connect());
}

#[test]
fn a_certificate_says_who_a_client_is() {
    let world = start(
        "SSL",
        &[
            "ssl.client.auth=requested",
            "ssl.truststore.type=PEM",
            "ssl.truststore.location={dir}/ca.pem",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ada",
            "ssl.principal.mapping.rules=RULE:^CN=(a.*)$/$1/,RULE:^CN=b.*$/bob/",
        ],
    );
    let connect = |name: &str| {
        let own = world.authority.issue(name);
        world.connect(world.authority.client(Some(&own)))
    };
    assert_eq!(create(&mut connect("ada").unwrap(), "by-ada"), Some(0));
    assert_eq!(create(&mut connect("bobby").unwrap(), "by-bob"), Some(29));
    // A client without a certificate.
    assert_eq!(create(&mut world.trusting(), "by-nobody"), Some(29));
    // No rule is about this one: the connection ends, after a handshake that succeeded.
    let mut third = connect("carla").unwrap();
    assert!(!serves(&mut third));
    world.wait_for("forebay_tls_handshakes_failed_total{listener=\"SAFE\",cause=\"principal\"} 1");
    // One that others have issued.
    let other = Authority::new();
    let stranger = other.issue("ada");
    let refused = world.connect(world.authority.client(Some(&stranger)));
    assert!(!refused.is_ok_and(|mut client| serves(&mut client)));
    world.wait_for(
        "forebay_tls_handshakes_failed_total{listener=\"SAFE\",cause=\"certificate_unknown_issuer\"} 1",
    );
}

#[test]
fn a_login_under_tls_has_its_deadline_and_its_principal() {
    let mut world = start(
        "SASL_SSL",
        &[
            "authentication.timeout.ms=1500",
            "listener.name.safe.sasl.enabled.mechanisms=PLAIN",
            "listener.name.safe.plain.sasl.jaas.config=\
             org.apache.kafka.common.security.plain.PlainLoginModule required user_ada=\"pencil\";",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ada",
        ],
    );
    let mut client = world.trusting();
    assert!(ask(&mut client, &request(17, 1, b"\0\x05PLAIN")).is_some());
    let password = [&11_i32.to_be_bytes()[..], b"\0ada\0pencil"].concat();
    let code = ask(&mut client, &request(36, 0, &password)).unwrap();
    assert_eq!(code[..2], [0, 0]);
    assert_eq!(create(&mut client, "t"), Some(0));
    // One that only does its handshake, half a second late.
    let since = Instant::now();
    let socket = world.broker.connect();
    std::thread::sleep(Duration::from_millis(500));
    let mut late = shake(socket, world.authority.client(None)).unwrap();
    assert_eq!(answer(&mut late), None);
    let lasted = since.elapsed();
    let in_time = Duration::from_millis(1400)..Duration::from_secs(8);
    assert!(in_time.contains(&lasted), "{lasted:?}");
    let closed = line(&mut world.broker.log, "connection closed");
    assert_eq!(
        closed["reason"],
        "not logged in within authentication.timeout.ms"
    );
}

#[test]
fn who_speaks_no_tls_has_a_line_with_the_cause_and_few_have_lines() {
    let mut world = start("SSL", &[]);
    let mut http = world.broker.connect();
    http.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    let mut rest = Vec::new();
    let _ = http.read_to_end(&mut rest);
    assert_eq!(rest, b"");
    let failed = line(&mut world.broker.log, "TLS handshake failed");
    assert_eq!(
        failed["reason"],
        "the client speaks HTTP, and this listener TLS"
    );
    assert_eq!(failed["listener"], "SAFE");
    assert!(failed["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    for _ in 0..300 {
        let mut kafka = world.broker.connect();
        kafka.write_all(&API_VERSIONS).unwrap();
        let _ = kafka.read(&mut [0; 10]);
    }
    world.wait_for(
        "forebay_tls_handshakes_failed_total{listener=\"SAFE\",cause=\"kafka_plaintext\"} 300",
    );
    assert!(serves(&mut world.trusting()));
    world.broker.stop(Signal::TERM);
    let mut log = String::new();
    world.broker.log.read_to_string(&mut log).unwrap();
    let lines = log.matches("TLS handshake failed").count();
    assert!(lines > 0 && lines < 250, "{lines}");
}

#[test]
fn a_flood_of_strangers_lets_others_in_and_takes_bounded_memory() {
    let world = start("SSL", &["max.connections.unauthenticated=50"]);
    let mut held = Vec::new();
    for number in 0..500 {
        let mut client = stranger(&world.broker, 2);
        match number % 3 {
            0 => {}
            1 => client.write_all(b"\x16\x03\x01\x40\0").unwrap(),
            _ => {
                // The beginning of a greeting of 60,000 bytes.
                let _ = client.write_all(b"\x16\x03\x01\x40\0\x01\0\xea\x60");
                let _ = client.write_all(&[7; 10_000]);
            }
        }
        held.push(client);
    }
    world.wait_for("forebay_tls_handshakes_failed_total{listener=\"SAFE\",cause=\"crowded\"} 450");
    world.wait_for("forebay_tls_handshakes_pending 50");
    assert!(serves(&mut world.trusting()));
    drop(held);
    world.wait_for("forebay_tls_handshakes_pending 0");
}

#[test]
fn a_slow_handshake_ends_at_its_deadline() {
    let world = start("SSL", &["authentication.timeout.ms=1000"]);
    let since = Instant::now();
    let mut slow = world.broker.connect();
    slow.write_all(b"\x16\x03\x01\x40\0").unwrap();
    loop {
        assert!(since.elapsed() < PATIENCE, "it never ends");
        std::thread::sleep(Duration::from_millis(50));
        if slow.write_all(b"\x01").is_err() {
            break;
        }
    }
    assert!(since.elapsed() >= Duration::from_millis(900));
    world.wait_for("forebay_tls_handshakes_failed_total{listener=\"SAFE\",cause=\"timeout\"} 1");
}

#[test]
fn two_gigabytes_that_are_only_announced_take_nothing() {
    let world = start("SSL", &[]);
    let mut client = world.trusting();
    assert_eq!(ask(&mut client, &i32::MAX.to_be_bytes()), None);
    // The largest length that is allowed; the bytes after it do not come.
    let mut waiting = world.trusting();
    waiting.write_all(&104_857_600_i32.to_be_bytes()).unwrap();
    waiting.write_all(&[0; 8]).unwrap();
    waiting.flush().unwrap();
    assert!(serves(&mut world.trusting()));
    world.wait_for("forebay_request_memory_bytes 0");
}

#[test]
fn garbage_after_the_handshake_ends_the_connection_with_a_line() {
    let mut world = start("SSL", &[]);
    let mut client = world.trusting();
    assert!(serves(&mut client));
    client
        .sock
        .write_all(&[&[23, 3, 3, 0, 40][..], &[9; 40]].concat())
        .unwrap();
    let mut rest = Vec::new();
    let ended = client.sock.read_to_end(&mut rest);
    assert!(ended.is_ok() || ended.is_err_and(|it| it.kind() == ErrorKind::ConnectionReset));
    let closed = line(&mut world.broker.log, "connection closed");
    let reason = closed["reason"].as_str().unwrap();
    assert!(reason.starts_with("TLS: "), "{reason}");
}

#[test]
fn a_new_key_is_served_by_looks_and_by_a_signal_and_connections_live_on() {
    for interval in ["100", "3600000"] {
        let mut world = start("SSL", &[&format!("ssl.reload.interval.ms={interval}")]);
        let mut old = world.trusting();
        let before = old.conn.peer_certificates().unwrap().to_vec();
        write_secret(
            &world.dir.path().join("server.pem"),
            &world.authority.issue("server").pem,
        );
        if interval != "100" {
            let id = i32::try_from(world.broker.process.id()).unwrap();
            kill_process(Pid::from_raw(id).unwrap(), Signal::HUP).unwrap();
        }
        line(
            &mut world.broker.log,
            "new keys and certificates are in force",
        );
        let mut new = world.trusting();
        assert_ne!(new.conn.peer_certificates().unwrap(), before);
        assert!(serves(&mut old) && serves(&mut new));
        // What does not fit is not taken.
        fs::write(world.dir.path().join("server.pem"), "torn").unwrap();
        if interval != "100" {
            let id = i32::try_from(world.broker.process.id()).unwrap();
            kill_process(Pid::from_raw(id).unwrap(), Signal::HUP).unwrap();
        }
        line(
            &mut world.broker.log,
            "new keys and certificates are not taken: those before stay in force",
        );
        assert!(serves(&mut world.trusting()));
        world.wait_for("forebay_tls_reloads_total{listener=\"SAFE\",result=\"success\"} 1");
        assert!(world.broker.stop(Signal::TERM).success());
    }
}

#[test]
fn a_store_that_is_not_there_refuses_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "listeners=SAFE://127.0.0.1:0",
        "listener.security.protocol.map=SAFE:SSL",
        "ssl.keystore.type=PEM",
        "ssl.keystore.location=/nowhere/key.pem",
    ];
    let refused = running::command(&dir.path().join("data"), &settings)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert!(
        said.contains("ssl.keystore.location: /nowhere/key.pem"),
        "{said}"
    );
}
