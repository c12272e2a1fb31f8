//! What a hostile client does from outside, and that other clients notice nothing of it.

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

/// A connection from an address that has no seats of its own.
fn connect_from(address: [u8; 4], broker: &Broker) -> Option<socket2::Socket> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let from = std::net::SocketAddr::from((address, 0));
    socket.bind(&from.into()).unwrap();
    socket.connect(&broker.address.into()).ok()?;
    Some(socket)
}

#[test]
fn running_out_of_descriptors_is_over_when_the_connections_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let limited = Broker::start_with(|| {
        let mut command = std::process::Command::new("prlimit");
        let broker = running::command(
            dir.path(),
            &[
                "num.shards=2",
                "log.segment.bytes=1048576",
                "max.connections=100000",
            ],
        );
        command
            .arg("--nofile=300:300")
            .arg(broker.get_program())
            .args(broker.get_args());
        command
    });
    create(&limited, "before");
    let clients: Vec<_> = (0..400)
        .filter_map(|_| connect_from([127, 0, 0, 2], &limited))
        .collect();
    // While no other client gets in: logs roll, topics are made.
    for round in 0..4 {
        produce(&limited, "before", 700_000, 1);
        create(&limited, &format!("during-{round}"));
    }
    drop(clients);
    wait_for_connections(&limited, 0);
    create(&limited, "after");
    produce(&limited, "after", 700_000, 4);
    produce(&limited, "before", 700_000, 4);
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

/// `Produce` 3, acks=1, of one batch with one value of this size.
fn produce(broker: &Broker, topic: &str, bytes: usize, times: usize) {
    let mut socket = broker.connect();
    let batch = batch(bytes);
    let size = i32::try_from(batch.len()).unwrap().to_be_bytes();
    let partition = [&[0, 0, 0, 1][..], &[0; 4], &size, &batch].concat();
    let body = [
        &[0xff, 0xff, 0, 1][..],
        &30_000_i32.to_be_bytes(),
        &[0, 0, 0, 1],
    ]
    .concat();
    let produce = request(0, 3, &[&body, &text(topic), &partition]);
    for _ in 0..times {
        socket.write_all(&produce).unwrap();
        let answer = answer(&socket);
        let code = &answer[4 + 2 + topic.len() + 4 + 4..][..2];
        assert_eq!(code, [0, 0], "{answer:?}");
    }
}

/// A batch of one record.
fn batch(bytes: usize) -> Vec<u8> {
    let value = bytes::Bytes::from(vec![7; bytes]);
    let record = [&[0, 0, 0, 1][..], &varint(bytes), &value, &[0]].concat();
    let records = [&varint(record.len())[..], &record].concat();
    let mut batch = vec![0; 61];
    batch[16] = 2;
    batch[43..57].fill(0xff);
    batch[60] = 1;
    batch.extend_from_slice(&records);
    let len = i32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&len.to_be_bytes());
    let crc = wire::batch::crc_of(&batch).to_be_bytes();
    batch[17..21].copy_from_slice(&crc);
    batch
}

/// A length as a zigzag varint.
fn varint(value: usize) -> Vec<u8> {
    let (mut left, mut bytes) = (value * 2, Vec::new());
    while left > 127 {
        bytes.push(u8::try_from(left & 127 | 128).unwrap());
        left >>= 7;
    }
    bytes.push(u8::try_from(left).unwrap());
    bytes
}

/// A gauge without labels.
fn gauge(broker: &Broker, name: &str) -> usize {
    let metrics = broker.ask("GET", "/metrics").1;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim().parse().unwrap()
}

const BATCH_BYTES: usize = 90_000;

#[test]
fn readers_that_take_nothing_hold_no_more_memory_than_answers_may() {
    let dir = tempfile::tempdir().unwrap();
    let bound = 16 << 20;
    let broker = Broker::start(
        dir.path(),
        &[
            "num.shards=1",
            "log.cache.bytes=1048576",
            "socket.send.buffer.bytes=65536",
            &format!("queued.max.response.bytes={bound}"),
        ],
    );
    create(&broker, "t");
    produce(&broker, "t", BATCH_BYTES, 200);
    // There is more than it waits for.
    let fetch = waiting_fetch("t");
    let mut slow = Vec::new();
    for _ in 0..30 {
        let mut client = broker.connect();
        client.write_all(&fetch).unwrap();
        // Its answer has begun to come.
        client.read_exact(&mut [0; 4]).unwrap();
        slow.push(client);
    }
    let held = gauge(&broker, "forebay_response_memory_bytes ");
    // A first batch is given whole, though it be beyond the bound.
    let most = bound + slow.len() * BATCH_BYTES;
    assert!(held > bound / 4 && held <= most, "{held}");
    // A reader gets on meanwhile, and so does a producer.
    let mut reader = broker.connect();
    reader.write_all(&fetch).unwrap();
    assert!(answer(&reader).len() > BATCH_BYTES);
    produce(&broker, "t", BATCH_BYTES, 400);
    drop(slow);
    let deadline = Instant::now() + PATIENCE;
    while gauge(&broker, "forebay_response_memory_bytes ") > 0 {
        assert!(Instant::now() < deadline, "not given back in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}
