//! Bytes through a transport, without and with TLS: whatever parts they are in, and whatever room
//! there is for them.

use std::future::poll_fn;
use std::time::Duration;

use bytes::BytesMut;
use prometheus_client::metrics::gauge::Gauge;
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::harness::{Between, Client, blocking_pair, pair};
use super::*;

#[expect(
    clippy::needless_pass_by_value,
    reason = "closures are written in the call"
)]
fn run(scenario: impl AsyncFn(Client, Transport, &Gauge)) {
    for between in Between::ALL {
        run_between(between, &scenario);
    }
}

fn run_between(between: Between, scenario: &impl AsyncFn(Client, Transport, &Gauge)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let held = Gauge::default();
        let (client, transport, _) = pair(between, Scratch::new(held.clone())).await;
        let scenario = scenario(client, transport, &held);
        let done = tokio::time::timeout(Duration::from_mins(1), scenario).await;
        assert!(done.is_ok(), "it hangs: {between:?}");
    });
}

/// Returns bytes, each unlike its neighbours.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

/// Reads `len` bytes, with room for `room` at a time.
async fn read(transport: &mut Transport, len: usize, room: usize) -> Vec<u8> {
    let mut all = Vec::new();
    // 0 is never the value of the socket (`SO_RCVLOWAT`), so the first read sets that.
    let mut wakes_at = 0;
    while all.len() < len {
        let mut some = BytesMut::with_capacity(room);
        let missing = len - all.len();
        let read = poll_fn(|cx| {
            let mut into = (&mut some).limit(room.min(missing));
            transport.poll_read(cx, &mut into, missing, &mut wakes_at)
        });
        let read = read.await.unwrap();
        assert_ne!(read, 0, "it ends after {} bytes", all.len());
        assert_eq!(read, some.len());
        all.extend_from_slice(&some);
    }
    all
}

/// Writes parts of these lengths, as replies are written; returns the most that was held.
async fn write(transport: &mut Transport, bytes: &[u8], lens: &[usize]) -> usize {
    let (mut written, mut held) = (0, 0);
    while written < bytes.len() {
        poll_fn(|cx| transport.poll_write_ready(cx)).await.unwrap();
        let mut parts = Vec::new();
        let mut at = 0;
        for len in lens {
            let end = at + len;
            if end > written {
                parts.push(IoSlice::new(&bytes[at.max(written)..end]));
            }
            at = end;
        }
        parts.truncate(64);
        match transport.try_write_vectored(&parts) {
            Ok(count) => written += count,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        held = held.max(transport.unsent_bytes());
    }
    held
}

const SHAPES: [&[usize]; 7] = [
    &[1],
    &[16_384],
    &[100, 240_000],
    &[16_383, 16_385, 1, 16_384, 2, 40_000],
    &[300_000, 1, 300_000],
    &[7; 500],
    &[5, 131_072, 5, 131_067, 9],
];

#[test]
fn parts_of_all_shapes_arrive_in_their_order() {
    run(async |mut client, mut transport, held| {
        for lens in SHAPES {
            let sent = bytes(lens.iter().sum());
            let mut got = vec![0; sent.len()];
            let (_, read) = tokio::join!(
                write(&mut transport, &sent, lens),
                client.read_exact(&mut got)
            );
            read.unwrap();
            assert!(got == sent, "{lens:?}");
            assert_eq!(held.get(), 0, "{lens:?}");
        }
    });
}

#[test]
fn a_slow_reader_gets_everything_and_holds_little() {
    run(async |mut client, mut transport, held| {
        SockRef::from(transport.socket())
            .set_send_buffer_size(10_000)
            .unwrap();
        let lens = [100_000; 20];
        let sent = bytes(2_000_000);
        let mut got = Vec::new();
        let reading = async {
            while got.len() < 2_000_000 {
                let mut some = [0; 3000];
                let count = client.read(&mut some).await.unwrap();
                got.extend_from_slice(&some[..count]);
                tokio::task::yield_now().await;
            }
        };
        let (most, ()) = tokio::join!(write(&mut transport, &sent, &lens), reading);
        assert!(got == sent);
        assert!(most < 150_000, "{most}");
        assert_eq!(held.get(), 0);
    });
}

#[test]
fn reading_with_little_room_loses_nothing_and_keeps_little() {
    run(async |mut client, mut transport, held| {
        for (len, piece, room) in [
            (50_000, 1000, 7),
            (200_000, 200_000, 1),
            (200_000, 16_384, 16_384),
            (400_000, 1, 100_000),
            (1_000_000, 100_000, 300_000),
        ] {
            let len = if piece == 1 { len / 100 } else { len };
            let sent = bytes(len);
            let writing = async {
                for piece in sent.chunks(piece) {
                    client.write_all(piece).await.unwrap();
                    client.flush().await.unwrap();
                }
            };
            let ((), got) = tokio::join!(writing, read(&mut transport, len, room));
            assert!(got == sent, "{len} {piece} {room}");
            assert_eq!(held.get(), 0, "{len} {piece} {room}");
        }
    });
}

#[test]
fn an_end_that_is_declared_comes_after_what_was_sent_and_leaves_the_other_half_open() {
    run(async |mut client, mut transport, _| {
        client.write_all(b"last").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(read(&mut transport, 4, 100).await, b"last");
        let mut some = BytesMut::with_capacity(10);
        let end = poll_fn(|cx| transport.poll_read(cx, &mut some, 1, &mut 1)).await;
        assert_eq!(end.unwrap(), 0);
        assert!(transport.peer_has_ended());
        write(&mut transport, b"answer", &[6]).await;
        transport.close();
        let mut rest = Vec::new();
        // An error, unless the end is declared here as well.
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"answer");
    });
}

#[test]
fn keys_may_be_exchanged_in_the_middle() {
    run_between(Between::Tls13, &async |mut client, mut transport, held| {
        for round in 1..4 {
            let Client::Tls(stream) = &mut client else {
                unreachable!("with TLS")
            };
            stream.get_mut().1.refresh_traffic_keys().unwrap();
            let sent = bytes(20_000 * round);
            client.write_all(&sent).await.unwrap();
            client.flush().await.unwrap();
            assert!(read(&mut transport, sent.len(), 100_000).await == sent);
            // The answer begins with new keys, too.
            write(&mut transport, &sent, &[sent.len()]).await;
            let mut got = vec![0; sent.len()];
            client.read_exact(&mut got).await.unwrap();
            assert!(got == sent);
        }
        assert_eq!(held.get(), 0);
    });
}

/// Returns the most bytes that are received in one turn of a task that reads, the first turn apart,
/// from a client that sends new keys again and again.
fn most_in_one_turn(times: usize, plain: usize, len: usize) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (client, mut transport) = blocking_pair(Between::Tls13).await;
        SockRef::from(transport.socket())
            .set_recv_buffer_size(1 << 20)
            .unwrap();
        let all = client.send_new_keys(times, plain, len) as u64;
        let (mut before, mut turns) = (0, Vec::new());
        while before < all {
            // As much as one call can receive is there.
            let left = all - before;
            let waits = async {
                while (unread_bytes(transport.socket()) as u64) < left.min(150_000) {
                    tokio::task::yield_now().await;
                }
            };
            // The system may hold less.
            let _ = tokio::time::timeout(Duration::from_secs(1), waits).await;
            // All that one turn of a task reads.
            poll_fn(|cx| {
                let mut some = BytesMut::with_capacity(400_000);
                while let Poll::Ready(read) = transport.poll_read(cx, &mut some, 1, &mut 1) {
                    // Its end, when everything has come.
                    if read.unwrap() == 0 {
                        break;
                    }
                }
                Poll::Ready(())
            })
            .await;
            let come = transport.come_bytes(0, 0);
            turns.push(come - before);
            before = come;
            // What is readable is seen by others' turns.
            tokio::task::yield_now().await;
        }
        turns.into_iter().skip(1).max().unwrap()
    })
}

#[test]
fn records_with_hardly_any_plaintext_leave_the_shard_to_others() {
    let most = most_in_one_turn(1, 1, 600_000);
    assert!(most <= 60_000, "{most} bytes in one turn");
}

#[test]
fn new_keys_behind_plaintext_leave_the_shard_to_others() {
    let most = most_in_one_turn(6, 20_000, 200_000);
    assert!(most <= 100_000, "{most} bytes in one turn");
}

#[test]
fn a_connection_is_small() {
    assert!(size_of::<TlsStream>() < 4096, "{}", size_of::<TlsStream>());
    assert!(
        size_of::<Transport>() <= 64,
        "a connection without TLS pays nothing for it"
    );
}
