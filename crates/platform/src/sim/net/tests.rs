//! The simulated network behaves like one: order, waiting, ends and faults.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::runtime::run_simulated;
use crate::task;

const SECOND: Duration = Duration::from_secs(1);

fn soon() -> Instant {
    Instant::now() + 10 * SECOND
}

/// A network with a connection to its only host: the client's end and the host's.
async fn pair(delay: Duration) -> (SimNet, SimStream, SimStream) {
    let net = SimNet::new(delay);
    let listener = net.listen("a", 1);
    let client = net.connect("a", 1, soon()).await.unwrap();
    let server = listener.accept().await;
    std::mem::forget(listener);
    (net, client, server)
}

#[test]
fn bytes_arrive_in_order_after_the_delay_and_then_the_end() {
    let simulated = run_simulated(async {
        let (_, mut client, mut server) = pair(SECOND).await;
        let began = Instant::now();
        client.write_all(b"one").await.unwrap();
        client.write_all(b"two").await.unwrap();
        drop(client);
        let mut all = Vec::new();
        server.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"onetwo");
        assert_eq!(began.elapsed(), SECOND);
        let error = server.write_all(b"late").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    });
    simulated.unwrap();
}

#[test]
fn a_writer_waits_for_a_reader() {
    let simulated = run_simulated(async {
        let (_, mut client, mut server) = pair(Duration::ZERO).await;
        let many = vec![7; 1 << 20];
        let writing = task::spawn(async move {
            client.write_all(&many).await.unwrap();
        });
        task::yield_now().await;
        assert!(!writing.is_finished());
        let mut all = Vec::new();
        server.read_to_end(&mut all).await.unwrap();
        assert_eq!(all.len(), 1 << 20);
        writing.await.unwrap();
    });
    simulated.unwrap();
}

#[test]
fn hosts_refuse_or_are_silent() {
    let simulated = run_simulated(async {
        let net = SimNet::default();
        let refused = net.connect("a", 1, soon()).await.err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let listener = net.listen("a", 1);
        net.silence("a", 1, true);
        let began = Instant::now();
        let late = net.connect("a", 1, soon()).await.err().unwrap();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), 10 * SECOND);
        net.silence("a", 1, false);
        assert!(net.connect("a", 1, soon()).await.is_ok());
        drop(listener);
        assert!(net.connect("a", 1, soon()).await.is_err());
    });
    simulated.unwrap();
}

#[test]
fn streams_stall_drip_and_break() {
    let simulated = run_simulated(async {
        let (net, mut client, mut server) = pair(Duration::ZERO).await;
        assert_eq!(net.open("a", 1), 1);
        net.stall("a", 1, Towards::Host, true);
        client.write_all(b"abc").await.unwrap();
        let mut byte = [0; 1];
        let stalled = task::timeout(SECOND, server.read_exact(&mut byte)).await;
        assert!(stalled.is_err());
        net.pace(
            "a",
            1,
            Towards::Host,
            Some(Pace {
                bytes: 1,
                every: SECOND,
            }),
        );
        net.stall("a", 1, Towards::Host, false);
        let began = Instant::now();
        let mut three = [0; 3];
        server.read_exact(&mut three).await.unwrap();
        assert_eq!((&three, began.elapsed()), (b"abc", 2 * SECOND));
        client.write_all(b"lost").await.unwrap();
        net.reset("a", 1);
        let error = server.read(&mut three).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(client.write_all(b"more").await.is_err());
        assert_eq!(net.open("a", 1), 0);
    });
    simulated.unwrap();
}
