//! Frames from a real socket, without and with TLS, with a slow peer.

use std::future::poll_fn;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::super::budget::Budget;
use super::super::harness::{Between, BlockingClient, blocking_pair};
use super::*;

/// Longer than the read-ahead, shorter than what sockets hold.
const FRAME_BYTES: usize = 200_000;

fn run(scenario: impl AsyncFn(FrameReader, Transport, BlockingClient)) {
    for between in Between::ALL {
        run_between(between, &scenario);
    }
}

fn run_between(between: Between, scenario: &impl AsyncFn(FrameReader, Transport, BlockingClient)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (client, transport) = blocking_pair(between).await;
        let reader = FrameReader::new(account(1 << 20), Buffers::new(1 << 20), 1 << 20);
        scenario(reader, transport, client).await;
    });
}

fn account(bytes_max: usize) -> Rc<Account> {
    Budget::new(bytes_max, 1 << 20).account(Ipv4Addr::LOCALHOST.into())
}

/// Returns the first `sent` bytes of a frame, including its length.
fn beginning(sent: usize) -> Vec<u8> {
    let mut bytes = i32::try_from(FRAME_BYTES).unwrap().to_be_bytes().to_vec();
    bytes.resize(sent, 7);
    bytes
}

async fn frame(
    reader: &mut FrameReader,
    socket: &mut Transport,
) -> Result<Option<Frame>, ReadError> {
    poll_fn(|cx| reader.poll_frame(cx, socket)).await
}

#[test]
fn bytes_that_wait_in_the_socket_count_as_progress_and_take_no_buffer() {
    run(async |mut reader, mut socket, mut client| {
        client.send(&beginning(60_000));
        let come = poll_fn(|cx| {
            let frame = reader.poll_frame(cx, &mut socket);
            assert!(frame.is_pending(), "it is not whole");
            if reader.come_bytes(&socket) < 60_000 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(reader.read_bytes)
        });
        assert!(come.await <= AHEAD_BYTES as u64);
        assert!(matches!(reader.state, FrameState::Coming { .. }));
        client.send(&beginning(FRAME_BYTES + PREFIX_BYTES)[60_000..]);
        let whole = frame(&mut reader, &mut socket).await.unwrap().unwrap();
        assert_eq!(whole.bytes, vec![7; FRAME_BYTES]);
        let come = reader.come_bytes(&socket);
        assert!(come >= (FRAME_BYTES + PREFIX_BYTES) as u64, "{come}");
    });
}

#[test]
fn what_has_come_does_not_become_less_when_a_frame_waits_for_memory() {
    run(async |_, mut socket, mut client| {
        let budget = Budget::new(1 << 20, 1 << 20);
        let other = budget.account(Ipv4Addr::new(10, 0, 0, 1).into());
        let mut held = Vec::new();
        while let Some(taken) = other.try_take(100_000) {
            held.push(taken);
        }
        let account = budget.account(Ipv4Addr::LOCALHOST.into());
        let mut reader = FrameReader::new(account, Buffers::new(1 << 20), 1 << 20);
        // As much as the socket holds while it is not read.
        let len = 100_000_i32;
        let all = PREFIX_BYTES + usize::try_from(len).unwrap();
        client.send(&i32::to_be_bytes(len));
        client.send(&beginning(all)[PREFIX_BYTES..]);
        let mut before = 0;
        let waits = poll_fn(|cx| {
            assert!(reader.poll_frame(cx, &mut socket).is_pending());
            let come = reader.come_bytes(&socket);
            assert!(come >= before, "{come} after {before}");
            before = come;
            if !matches!(reader.state, FrameState::Granting { .. }) || come < all as u64 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(come)
        });
        let waits = tokio::time::timeout(Duration::from_mins(1), waits);
        // Under TLS there is more than the frame.
        assert!(waits.await.unwrap() >= all as u64, "of {all}");
        assert!(!reader.is_within_frame(&socket));
        drop(held);
        assert!(frame(&mut reader, &mut socket).await.unwrap().is_some());
        assert!(reader.come_bytes(&socket) >= all as u64);
    });
}

#[test]
fn the_end_of_the_peer_within_a_large_frame_is_noticed() {
    for (sent, looked_before, with_a_word) in [
        (60_000, true, true),
        (60_000, false, true),
        (60_000, true, false),
        (190_000, true, true),
    ] {
        run(async |mut reader, mut socket, mut client| {
            client.send(&beginning(sent));
            if looked_before {
                let look =
                    poll_fn(|cx| Poll::Ready(reader.poll_frame(cx, &mut socket).is_pending()));
                assert!(look.await);
            }
            if with_a_word {
                client.end();
            } else {
                client.cut();
            }
            let ended = frame(&mut reader, &mut socket).await;
            let missing = FRAME_BYTES + PREFIX_BYTES - sent;
            assert!(
                matches!(ended, Err(ReadError::Truncated { missing: m }) if m == missing),
                "{ended:?}"
            );
        });
    }
}

#[test]
fn a_large_frame_that_lies_whole_in_the_read_ahead_waits_for_nothing() {
    run(async |mut reader, mut socket, mut client| {
        let len = AHEAD_BYTES + 1000;
        let whole = PREFIX_BYTES + len;
        // Memory that is used again may be larger than what was asked for.
        reader.ahead.reserve(2 * whole);
        client.send(&i32::try_from(len).unwrap().to_be_bytes());
        client.send(&vec![7; len]);
        // Until the socket says that it has nothing.
        let all = poll_fn(|cx| {
            loop {
                let (ahead, wakes_at) = (&mut reader.ahead, &mut reader.wakes_at);
                match socket.poll_read(cx, ahead, 1, wakes_at) {
                    Poll::Ready(read) => assert!(read.unwrap() > 0),
                    Poll::Pending if ahead.len() == whole => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        all.await;
        let read = frame(&mut reader, &mut socket);
        let read = tokio::time::timeout(Duration::from_mins(1), read).await;
        let read = read.expect("nothing more comes").unwrap().unwrap();
        assert_eq!(read.bytes, vec![7; len]);
    });
}

#[test]
fn a_small_frame_behind_a_large_one_is_not_waited_for_in_vain() {
    run(async |mut reader, mut socket, mut client| {
        client.send(&beginning(FRAME_BYTES + PREFIX_BYTES));
        frame(&mut reader, &mut socket).await.unwrap().unwrap();
        let none = poll_fn(|cx| Poll::Ready(reader.poll_frame(cx, &mut socket).is_pending()));
        assert!(none.await);
        client.send(&[0, 0, 0, 1, 9]);
        let small = frame(&mut reader, &mut socket).await.unwrap().unwrap();
        assert_eq!(&small.bytes[..], [9]);
    });
}

#[test]
fn a_frame_that_is_larger_than_its_memory_comes_in_pieces_and_whole() {
    const LEN: usize = 9 << 20;
    for (budget_bytes, frames) in [(1 << 20, 2), (64 << 20, 3)] {
        run(async |_, mut socket, mut client| {
            let budget = Budget::new(budget_bytes, LEN);
            let account = budget.account(Ipv4Addr::LOCALHOST.into());
            let mut reader = FrameReader::new(account, Buffers::new(64 << 20), LEN);
            let sender = std::thread::spawn(move || {
                let frame: Vec<u8> = (0..LEN).map(|at| u8::try_from(at % 251).unwrap()).collect();
                for _ in 0..frames {
                    let length = i32::try_from(LEN).unwrap().to_be_bytes();
                    client.send(&length);
                    client.send(&frame);
                }
                frame
            });
            let mut read = Vec::new();
            for _ in 0..frames {
                let frame = frame(&mut reader, &mut socket).await.unwrap().unwrap();
                assert_eq!(budget.used_bytes(), LEN);
                read.push(frame.bytes.clone());
            }
            assert_eq!(budget.used_bytes(), 0);
            let sent = sender.join().unwrap();
            assert!(read.iter().all(|frame| frame == &sent));
        });
    }
}

#[test]
fn memory_is_taken_for_what_has_come_and_not_for_what_is_announced() {
    run(async |_, mut socket, mut client| {
        let budget = Budget::new(64 << 20, 32 << 20);
        let account = budget.account(Ipv4Addr::LOCALHOST.into());
        let mut reader = FrameReader::new(account, Buffers::new(0), 32 << 20);
        let announced = 32 << 20;
        client.send(&i32::to_be_bytes(announced));
        let sent = 5 << 20;
        let sender = std::thread::spawn(move || {
            client.send(&vec![7; sent]);
            client
        });
        let come = poll_fn(|cx| {
            assert!(reader.poll_frame(cx, &mut socket).is_pending());
            if reader.come_bytes(&socket) < sent as u64 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        });
        come.await;
        assert!(
            budget.used_bytes() <= sent + (2 << 20),
            "{}",
            budget.used_bytes()
        );
        drop(sender.join().unwrap());
    });
}

#[test]
fn others_have_their_turn_within_a_frame_that_comes_as_fast_as_it_is_read() {
    // The system decides which bytes come together, and with TLS a test cannot see it from outside.
    run_between(
        Between::Plain,
        &async |mut reader, mut socket, mut client| {
            client.send(&beginning(190_000));
            while !matches!(reader.state, FrameState::Large { .. }) || reader.since_turn < 100_000 {
                let look =
                    poll_fn(|cx| Poll::Ready(reader.poll_frame(cx, &mut socket).is_pending()));
                assert!(look.await, "it is not whole");
                tokio::task::yield_now().await;
            }
            client.send(&beginning(FRAME_BYTES + PREFIX_BYTES)[190_000..]);
            while reader.come_bytes(&socket) < (FRAME_BYTES + PREFIX_BYTES) as u64 {
                tokio::task::yield_now().await;
            }
            // As after this many bytes.
            reader.since_turn = TURN_BYTES;
            let read_before = reader.read_bytes;
            let look = poll_fn(|cx| Poll::Ready(reader.poll_frame(cx, &mut socket).is_pending()));
            assert!(look.await, "it is not read to its end in the same turn");
            assert_eq!(reader.read_bytes, read_before);
            let whole = frame(&mut reader, &mut socket).await.unwrap().unwrap();
            assert_eq!(whole.bytes, vec![7; FRAME_BYTES]);
        },
    );
}
