//! What a hostile client does from outside, and what everybody else notices of it: nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[path = "running/broker.rs"]
mod running;

use running::{Broker, PATIENCE, api_versions};

/// A request: length, header, body.
fn request(api: i16, version: i16, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let header = [
        &api.to_be_bytes()[..],
        &version.to_be_bytes(),
        &[0, 0, 0, 7],
        &[0, 0],
    ]
    .concat();
    let len = i32::try_from(header.len() + body.len()).unwrap();
    [&len.to_be_bytes()[..], &header, &body].concat()
}

fn text(text: &str) -> Vec<u8> {
    let len = i16::try_from(text.len()).unwrap();
    [&len.to_be_bytes()[..], text.as_bytes()].concat()
}

/// An answer without its length and correlation id.
fn answer(mut socket: &TcpStream) -> Vec<u8> {
    let mut len = [0; 4];
    socket.read_exact(&mut len).unwrap();
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(len)).unwrap()];
    socket.read_exact(&mut answer).unwrap();
    answer.split_off(4)
}

/// `CreateTopics` 2, one partition.
fn create(broker: &Broker, topic: &str) {
    let mut socket = broker.connect();
    let one = [
        &[0, 0, 0, 1][..],
        &text(topic),
        &[0, 0, 0, 1, 0, 1],
        &[0; 8],
    ]
    .concat();
    let create = request(19, 2, &[&one, &30_000_i32.to_be_bytes(), &[0]]);
    socket.write_all(&create).unwrap();
    let answer = answer(&socket);
    let code = &answer[answer.len() - 4..][..2];
    assert_eq!(code, [0, 0], "{answer:?}");
}

/// `Fetch` 4 from offset 0 of partition 0, that waits until there is a megabyte.
fn waiting_fetch(topic: &str) -> Vec<u8> {
    let waits = [
        (-1_i32).to_be_bytes(),
        i32::MAX.to_be_bytes(),
        (1_i32 << 20).to_be_bytes(),
        i32::MAX.to_be_bytes(),
    ];
    let partition = [&[0, 0, 0, 1][..], &[0; 4], &[0; 8], &i32::MAX.to_be_bytes()].concat();
    request(
        1,
        4,
        &[
            &waits.concat(),
            &[0],
            &[0, 0, 0, 1],
            &text(topic),
            &partition,
        ],
    )
}

/// Waits until the broker has that many connections.
fn wait_for_connections(broker: &Broker, count: usize) {
    let line = format!(
        "kafka_server_socketservermetrics_connection_count{{listener=\"PLAINTEXT\"}} {count}\n"
    );
    let deadline = Instant::now() + PATIENCE;
    loop {
        let metrics = broker.ask("GET", "/metrics").1;
        if metrics.contains(&line) {
            return;
        }
        assert!(Instant::now() < deadline, "not {count} connections in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn clients_that_send_a_long_fetch_and_close_are_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), &["num.shards=2"]);
    create(&broker, "t");
    let fetch = waiting_fetch("t");
    let clients: Vec<TcpStream> = std::iter::repeat_with(|| {
        let mut client = broker.connect();
        client.write_all(&fetch).unwrap();
        client
    })
    .take(200)
    .collect();
    wait_for_connections(&broker, 200);
    drop(clients);
    wait_for_connections(&broker, 0);
}

#[test]
fn connections_that_only_announce_a_large_request_keep_nobody_from_being_served() {
    let dir = tempfile::tempdir().unwrap();
    let small = "queued.max.request.bytes=104857600";
    let broker = Broker::start(dir.path(), &[small]);
    let mut sleepy = Vec::new();
    for _ in 0..75 {
        let mut client = broker.connect();
        let announced = 104_857_600_i32.to_be_bytes();
        client
            .write_all(&[&announced[..], &[0; 8]].concat())
            .unwrap();
        sleepy.push(client);
    }
    wait_for_connections(&broker, 75);
    api_versions(&broker.connect());
    create(&broker, "served");
    let metrics = broker.ask("GET", "/metrics").1;
    assert!(
        metrics.contains("forebay_request_memory_bytes 0\n"),
        "{metrics}"
    );
}
