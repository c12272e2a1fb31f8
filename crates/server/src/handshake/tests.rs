//! Handshakes over real sockets: those that work, and what strangers do instead.

use std::cell::RefCell;
use std::rc::Rc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tls::reload::AllowedChanges;
use tls::{
    ClientAuth, Password, PrincipalRules, ServerTlsSettings, Setting, StoreSettings, TlsNames,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;

use super::*;
use crate::admission::{Admission, Descriptors};
use crate::config::Settings;
use crate::connection::{Scratch, TlsStream};
use crate::metrics::Metrics;

/// What a listener serves with, and a client that trusts it.
struct Keys {
    tls: Arc<ServerTls>,
    client: Arc<ClientConfig>,
}

fn keys() -> Keys {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let given = |name: &str, value: String| Some(Setting::new(name, Password::new(value)));
    let stores = StoreSettings {
        keystore_type: Some(Setting::new("ssl.keystore.type", "PEM".to_owned())),
        keystore_key: given("ssl.keystore.key", own.signing_key.serialize_pem()),
        keystore_certificate_chain: given("ssl.keystore.certificate.chain", own.cert.pem()),
        ..StoreSettings::default()
    };
    let settings = ServerTlsSettings {
        stores,
        names: TlsNames::default(),
        client_auth: Setting::new("ssl.client.auth", ClientAuth::None),
        principal_rules: PrincipalRules::default(),
        allowed_changes: AllowedChanges::default(),
    };
    let tls = ServerTls::open(&settings).unwrap().tls;
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone()).unwrap();
    Keys {
        tls: Arc::new(tls),
        client: trusting(roots),
    }
}

fn trusting(roots: RootCertStore) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(client)
}

/// A thread of handshakes, without the thread.
struct World {
    begin: mpsc::UnboundedSender<Unsecured>,
    listener: TcpListener,
    door: Arc<Door>,
    in_force: watch::Sender<Arc<ServerTls>>,
    admission: Admission,
    metrics: Metrics,
    known: Rc<RefCell<mpsc::UnboundedReceiver<SecuredConnection>>>,
    known_to: mpsc::UnboundedSender<SecuredConnection>,
    client: Arc<ClientConfig>,
}

fn world(time_max: Duration, strangers_max: usize) -> World {
    let metrics = Metrics::new();
    let counts = metrics.register(TlsMetrics::register);
    let (begin, begun) = mpsc::unbounded_channel();
    tokio::task::spawn_local(serve(begun, counts, std::future::pending()));
    let Keys { tls, client } = keys();
    let (in_force, seen) = watch::channel(tls);
    let limits = Settings::defaults().network.connections;
    let admission = Admission::new(limits, None, Descriptors::default());
    let (known_to, known) = mpsc::unbounded_channel();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    World {
        begin,
        listener: TcpListener::from_std(socket).unwrap(),
        door: Arc::new(Door {
            tls: seen,
            time_max,
            names_clients: true,
            audit: Audit::default(),
        }),
        in_force,
        admission: admission.with_strangers_max(strangers_max),
        metrics,
        known: Rc::new(RefCell::new(known)),
        known_to,
        client,
    }
}

impl World {
    /// Connects a client whose handshake has begun on this side.
    async fn connect(&self) -> TcpStream {
        let at = self.listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(at), self.listener.accept());
        let (socket, peer) = accepted.unwrap();
        let listener: Arc<str> = "OUT".into();
        let known_to = self.known_to.clone();
        let unsecured = Unsecured {
            socket: socket.into_std().unwrap(),
            peer,
            stranger: self.admission.stranger(&listener, peer.ip()),
            listener,
            door: Arc::clone(&self.door),
            since: Instant::now(),
            then: Box::new(move |known| drop(known_to.send(known))),
        };
        self.begin.send(unsecured).ok().unwrap();
        client.unwrap()
    }

    /// Does a handshake as a client that trusts.
    async fn shake(&self) -> tokio_rustls::client::TlsStream<TcpStream> {
        let client = self.connect().await;
        let connector = TlsConnector::from(Arc::clone(&self.client));
        let name = ServerName::try_from("localhost").unwrap();
        connector.connect(name, client).await.unwrap()
    }

    async fn known(&self) -> SecuredConnection {
        let known = Rc::clone(&self.known);
        let next = poll_fn(move |cx| known.borrow_mut().poll_recv(cx));
        next.await.unwrap()
    }

    /// Waits until `count` handshakes have failed for this cause.
    async fn failed(&self, cause: &str, count: usize) {
        let line = format!(
            "forebay_tls_handshakes_failed_total{{listener=\"OUT\",cause=\"{cause}\"}} {count}\n"
        );
        while !self.metrics.text().contains(&line) {
            tokio::task::yield_now().await;
        }
    }
}

fn run(scenario: impl AsyncFnOnce()) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let done = tokio::time::timeout(Duration::from_mins(1), scenario()).await;
        assert!(done.is_ok(), "it hangs");
    });
}

const LONG: Duration = Duration::from_mins(1);

/// Returns what the server sends until it closes.
async fn rest(mut client: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = client.read_to_end(&mut rest).await;
    rest
}

#[test]
fn who_speaks_something_else_is_closed_and_counted_by_what_it_is() {
    run(async || {
        let world = world(LONG, 100);
        for (first, cause) in [
            (&b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n"[..], "http"),
            (
                b"\0\0\0\x1b\0\x12\0\x03\0\0\0\x01\0\x05admin",
                "kafka_plaintext",
            ),
            (b"SSH-2.0-OpenSSH_9.9\r\n", "not_tls"),
        ] {
            let mut client = world.connect().await;
            client.write_all(first).await.unwrap();
            // Not an alert of TLS: a client of Kafka would take it for a length.
            assert_eq!(rest(client).await, b"", "{cause}");
            world.failed(cause, 1).await;
        }
        drop(world.connect().await);
        world.failed("unused", 1).await;
        let mut client = world.connect().await;
        client.write_all(b"\x16").await.unwrap();
        drop(client);
        world.failed("closed", 1).await;
    });
}

#[test]
fn garbage_in_the_form_of_a_handshake_is_refused_with_an_alert() {
    run(async || {
        let world = world(LONG, 100);
        // A message of two bytes that is said to be a greeting.
        let mut client = world.connect().await;
        client
            .write_all(b"\x16\x03\x01\0\x06\x01\0\0\x02\x07\x07")
            .await
            .unwrap();
        let said = rest(client).await;
        assert_eq!(said.first(), Some(&21), "{said:?}");
        world.failed("protocol", 1).await;
        // A message that is said to have 16 MB.
        let mut client = world.connect().await;
        client
            .write_all(b"\x16\x03\x01\0\x04\x01\xff\xff\xff")
            .await
            .unwrap();
        rest(client).await;
        world.failed("too_long", 1).await;
    });
}

#[test]
fn a_greeting_in_thousands_of_pieces_takes_no_more_memory_than_a_greeting_may() {
    run(async || {
        let world = world(LONG, 100);
        let mut client = world.connect().await;
        // A message of 60,000 bytes; each byte comes in a record of its own.
        client
            .write_all(b"\x16\x03\x01\0\x04\x01\0\xea\x60")
            .await
            .unwrap();
        let piece = b"\x16\x03\x01\0\x01\x07".repeat(1000);
        while client.write_all(&piece).await.is_ok() {
            tokio::task::yield_now().await;
        }
        world.failed("too_long", 1).await;
    });
}

#[test]
fn a_handshake_that_is_not_over_in_time_is_given_up_whatever_comes() {
    run(async || {
        let world = world(Duration::from_millis(150), 100);
        let silent = world.connect().await;
        let mut slow = world.connect().await;
        let began = Instant::now();
        let slowly = async {
            // One byte of a greeting after the other.
            slow.write_all(b"\x16\x03\x01\x02\0").await.unwrap();
            while slow.write_all(b"\x01").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        slowly.await;
        assert!(began.elapsed() < Duration::from_secs(5));
        assert_eq!(rest(silent).await, b"");
        world.failed("timeout", 2).await;
    });
}

#[test]
fn a_flood_of_handshakes_that_wait_ends_the_oldest_and_lets_the_others_in() {
    run(async || {
        let world = world(LONG, 100);
        let mut waiting = Vec::new();
        for _ in 0..500 {
            waiting.push(world.connect().await);
        }
        world.failed("crowded", 400).await;
        // It is from the same address, and newer than they are.
        let client = world.shake().await;
        let known = world.known().await;
        assert_eq!(
            client.get_ref().0.local_addr().unwrap(),
            known.socket.peer_addr().unwrap()
        );
        assert_eq!(known.principal, Some(Principal::anonymous()));
    });
}

#[test]
fn what_comes_with_the_end_of_the_handshake_is_not_lost() {
    run(async || {
        let world = world(LONG, 100);
        let mut client = world.shake().await;
        client.write_all(b"early").await.unwrap();
        client.flush().await.unwrap();
        let SecuredConnection {
            socket, secured, ..
        } = world.known().await;
        let socket = TcpStream::from_std(socket).unwrap();
        let stream = TlsStream::new(socket, secured, Scratch::new(Gauge::default()));
        let mut transport = crate::connection::Transport::Tls(Box::new(stream));
        let mut got = Vec::with_capacity(100);
        let read = poll_fn(|cx| transport.poll_read(cx, &mut got, 1, &mut 1)).await;
        assert_eq!((read.unwrap(), &got[..]), (5, &b"early"[..]));
        let text = world.metrics.text();
        let agreed = "kafka_server_socketservermetrics_connections{listener=\"OUT\",\
                      cipher=\"TLS_AES_256_GCM_SHA384\",protocol=\"TLSv1.3\"} 1\n";
        assert!(text.contains(agreed), "{text}");
        assert!(text.contains("forebay_tls_handshakes_total{listener=\"OUT\",kind=\"full\"} 1\n"));
        drop(transport);
        let gone = agreed.replace("} 1", "} 0");
        assert!(world.metrics.text().contains(&gone));
    });
}

#[test]
fn a_client_that_does_not_trust_says_so() {
    run(async || {
        let world = world(LONG, 100);
        let client = world.connect().await;
        let mut others = RootCertStore::empty();
        let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        others.add(other.cert.der().clone()).unwrap();
        let connector = TlsConnector::from(trusting(others));
        let name = ServerName::try_from("localhost").unwrap();
        assert!(connector.connect(name, client).await.is_err());
        world.failed("refused_by_client", 1).await;
    });
}

#[test]
fn a_handshake_takes_the_set_that_is_in_force_when_the_client_speaks() {
    run(async || {
        let mut world = world(LONG, 100);
        let before = world.connect().await;
        let next = keys();
        world.in_force.send_replace(next.tls);
        let old = std::mem::replace(&mut world.client, next.client);
        drop(world.shake().await);
        world.known().await;
        let connector = TlsConnector::from(old);
        let name = ServerName::try_from("localhost").unwrap();
        assert!(
            connector.connect(name, before).await.is_err(),
            "it is served with the new one"
        );
    });
}
