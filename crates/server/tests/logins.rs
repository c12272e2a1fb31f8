//! Listeners that ask for a login, from outside: how long and how much a stranger may hold, and
//! what is pipelined behind a login.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;

#[path = "running/broker.rs"]
mod running;

use running::{Broker, PATIENCE, line};

const SAFE: [&str; 4] = [
    "listeners=SAFE://127.0.0.1:0",
    "listener.security.protocol.map=SAFE:SASL_PLAINTEXT",
    "listener.name.safe.sasl.enabled.mechanisms=PLAIN",
    "listener.name.safe.plain.sasl.jaas.config=\
     org.apache.kafka.common.security.plain.PlainLoginModule required user_ada=\"pencil\";",
];
const HANDSHAKE: i16 = 17;
const AUTHENTICATE: i16 = 36;
const VERSIONS: i16 = 18;

fn start(dir: &tempfile::TempDir, settings: &[&str]) -> Broker {
    Broker::start(dir.path(), &[&SAFE[..], settings].concat())
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

fn handshake() -> Vec<u8> {
    request(HANDSHAKE, 1, b"\0\x05PLAIN")
}

fn password(text: &str) -> Vec<u8> {
    let message = format!("\0ada\0{text}");
    let len = i32::try_from(message.len()).unwrap();
    let body = [&len.to_be_bytes()[..], message.as_bytes()].concat();
    request(AUTHENTICATE, 0, &body)
}

fn versions() -> Vec<u8> {
    request(VERSIONS, 0, &[])
}

/// An answer without its length and correlation id; `None` at the end of the connection.
fn answer(mut socket: &TcpStream) -> Option<Vec<u8>> {
    let mut len = [0; 4];
    socket.read_exact(&mut len).ok()?;
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(len)).unwrap()];
    socket.read_exact(&mut answer).unwrap();
    Some(answer.split_off(4))
}

fn code(answer: Option<Vec<u8>>) -> Option<i16> {
    Some(i16::from_be_bytes(*answer?.first_chunk().unwrap()))
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

/// Sends pieces with pauses until the broker ends the connection; returns how long that took.
fn lasts(mut socket: &TcpStream, piece: &[u8], pause: Duration) -> Duration {
    let since = Instant::now();
    socket.set_write_timeout(Some(pause)).unwrap();
    loop {
        assert!(since.elapsed() < PATIENCE, "it never ends");
        match socket.write_all(piece) {
            Ok(()) => std::thread::sleep(pause),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return since.elapsed(),
        }
    }
}

#[test]
fn a_client_that_does_not_log_in_is_cut_off_whatever_it_sends_or_does_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = start(&dir, &["authentication.timeout.ms=1000"]);
    let in_time = Duration::from_millis(900)..Duration::from_secs(5);
    let silent = broker.connect();
    let since = Instant::now();
    assert_eq!(answer(&silent), None);
    assert!(in_time.contains(&since.elapsed()), "{:?}", since.elapsed());
    let closed = line(&mut broker.log, "connection closed");
    assert_eq!(
        closed["reason"],
        "not logged in within authentication.timeout.ms"
    );
    // One byte of a frame after the other.
    let slow = broker.connect();
    (&slow).write_all(&1000_i32.to_be_bytes()).unwrap();
    let lasted = lasts(&slow, b"x", Duration::from_millis(50));
    assert!(in_time.contains(&lasted), "{lasted:?}");
    // Questions that may be asked again, and answers that are not read.
    let unread = broker.connect();
    let again = request(VERSIONS, 99, &[0]).repeat(1000);
    let lasted = lasts(&unread, &again, Duration::from_millis(50));
    assert!(in_time.contains(&lasted), "{lasted:?}");
}

#[test]
fn frames_of_a_login_have_a_bound_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = start(&dir, &["sasl.server.max.receive.size=1000"]);
    let socket = broker.connect();
    (&socket).write_all(&1001_i32.to_be_bytes()).unwrap();
    assert_eq!(answer(&socket), None);
    let closed = line(&mut broker.log, "connection closed");
    assert_eq!(
        closed["reason"],
        "frame of 1001 bytes is larger than the maximum of 1000"
    );
    // Who is logged in may send more.
    let socket = broker.connect();
    let long = request(VERSIONS, 0, &[0; 2000]);
    let all = [handshake(), password("pencil"), long].concat();
    (&socket).write_all(&all).unwrap();
    for _ in 0..3 {
        assert_eq!(code(answer(&socket)), Some(0));
    }
}

#[test]
fn what_is_pipelined_behind_a_login_is_answered_if_it_succeeds_and_not_if_it_fails() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(&dir, &[]);
    for (text, expected) in [("pencil", Some(0)), ("pen", Some(58))] {
        let socket = broker.connect();
        let all = [
            versions(),
            handshake(),
            password(text),
            versions(),
            versions(),
        ];
        (&socket).write_all(&all.concat()).unwrap();
        assert_eq!(code(answer(&socket)), Some(0));
        assert_eq!(code(answer(&socket)), Some(0));
        assert_eq!(code(answer(&socket)), expected);
        let further = expected.filter(|code| *code == 0);
        assert_eq!(code(answer(&socket)), further);
        assert_eq!(code(answer(&socket)), further);
    }
}

#[test]
fn strangers_do_not_hold_the_seats_of_a_listener() {
    let dir = tempfile::tempdir().unwrap();
    let bound = "listener.name.safe.max.connections=10";
    let mut broker = start(&dir, &[bound]);
    let held: Vec<_> = (0..9).map(|_| stranger(&broker, 2)).collect();
    let closed = line(&mut broker.log, "connection closed");
    assert_eq!(
        closed["reason"],
        "not logged in, and too many are not (max.connections.unauthenticated)"
    );
    let socket = stranger(&broker, 3);
    (&socket)
        .write_all(&[handshake(), password("pencil")].concat())
        .unwrap();
    assert_eq!(code(answer(&socket)), Some(0));
    assert_eq!(code(answer(&socket)), Some(0));
    // It stays, whichever clients come after it.
    let more: Vec<_> = (0..3).map(|_| stranger(&broker, 2)).collect();
    (&socket).write_all(&versions()).unwrap();
    assert_eq!(code(answer(&socket)), Some(0));
    drop((held, more));
}

#[test]
fn a_stop_does_not_wait_for_the_delay_of_a_failed_login() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = start(&dir, &["connection.failed.authentication.delay.ms=60000"]);
    let socket = broker.connect();
    (&socket)
        .write_all(&[handshake(), password("pen")].concat())
        .unwrap();
    assert_eq!(code(answer(&socket)), Some(0));
    std::thread::sleep(Duration::from_millis(200));
    let since = Instant::now();
    assert!(broker.stop(Signal::TERM).success());
    assert!(since.elapsed() < Duration::from_secs(10));
}
