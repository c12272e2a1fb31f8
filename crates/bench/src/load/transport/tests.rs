//! Bytes through TLS: as they were sent, whatever their sizes, and within bounds.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use client::SettingsBuilder;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion, version};

use super::*;

const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

/// A server with TLS for one connection, on a thread of its own, and a client that trusts it.
struct Pair {
    address: String,
    tls: Tls,
    server: JoinHandle<Vec<u8>>,
}

type Secured = StreamOwned<ServerConnection, std::net::TcpStream>;

fn serve(
    version: &'static SupportedProtocolVersion,
    talk: impl FnOnce(&mut Secured) -> Vec<u8> + Send + 'static,
) -> Pair {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key.into())
        .unwrap();
    // A client that closes and has not read them would reset the connection.
    config.send_tls13_tickets = 0;
    let mut builder = SettingsBuilder::new("localhost").unwrap();
    builder.set("security.protocol", "SSL").unwrap();
    builder.set("ssl.ca.pem", &own.cert.pem()).unwrap();
    let tls = builder.finish().unwrap().client.tls.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let connection = ServerConnection::new(Arc::new(config)).unwrap();
        talk(&mut StreamOwned::new(connection, socket))
    });
    Pair {
        address,
        tls,
        server,
    }
}

async fn connect(pair: &Pair) -> Transport {
    let socket = TcpStream::connect(&pair.address).await.unwrap();
    Transport::secured(socket, "localhost", &pair.tls)
        .await
        .unwrap()
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| ((at / 7) ^ at) as u8).collect()
}

#[tokio::test]
async fn what_is_sent_arrives_in_order_both_ways() {
    const BYTES: usize = 3_000_000;
    for version in VERSIONS {
        let pair = serve(version, |stream| {
            let mut read = vec![0; BYTES];
            stream.read_exact(&mut read).unwrap();
            // More records than the client receives at once, of many sizes, with new keys between.
            for (part, number) in read.chunks(70_001).zip(0..) {
                stream.write_all(part).unwrap();
                if number % 5 == 0 {
                    let _ = stream.conn.refresh_traffic_keys();
                }
            }
            stream.flush().unwrap();
            read
        });
        let mut transport = connect(&pair).await;
        let sent = bytes(BYTES);
        // As a lane does: heads, bodies and tails, as far as the socket takes them.
        let mut written = 0;
        while written < sent.len() {
            let rest = &sent[written..];
            let (head, rest) = rest.split_at(rest.len().min(61));
            let (body, tail) = rest.split_at(rest.len().min(240_000));
            let parts = [head, body, &tail[..tail.len().min(3)]].map(IoSlice::new);
            match transport.try_write_vectored(&parts) {
                Ok(some) => written += some,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    poll_fn(|context| transport.poll_write_ready(context))
                        .await
                        .unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
        transport.write_all(&[]).await.unwrap();
        assert!(!transport.has_unsent());
        let mut back = vec![0; BYTES];
        let (first, rest) = back.split_at_mut(5);
        transport.read_exact(first).await.unwrap();
        transport.read_exact(rest).await.unwrap();
        assert!(back == sent, "{version:?}");
        assert!(pair.server.join().unwrap() == sent, "{version:?}");
    }
}

#[tokio::test]
async fn a_slow_reader_holds_the_writer_back() {
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let pair = serve(&version::TLS13, move |stream| {
        stream.conn.complete_io(&mut stream.sock).unwrap();
        gone.recv().unwrap();
        let mut read = Vec::new();
        // The client ends without a word of TLS.
        let _ = stream.read_to_end(&mut read);
        read
    });
    let mut transport = connect(&pair).await;
    let part = bytes(100_000);
    let mut taken = 0_usize;
    let blocked = loop {
        match transport.try_write_vectored(&[IoSlice::new(&part)]) {
            Ok(some) => taken += some,
            Err(error) => break error,
        }
        assert!(taken < 100_000_000, "the writer is never held back");
    };
    assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
    assert!(transport.has_unsent());
    go.send(()).unwrap();
    transport.write_all(&[]).await.unwrap();
    drop(transport);
    assert_eq!(pair.server.join().unwrap().len(), taken);
}

#[tokio::test]
async fn a_server_that_ends_or_lies_is_told_of_in_words() {
    let ends = serve(&version::TLS13, |stream| {
        stream.write_all(b"last").unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        Vec::new()
    });
    let mut transport = connect(&ends).await;
    let mut word = [0; 4];
    transport.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"last");
    let end = transport.read_exact(&mut word).await.unwrap_err();
    assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
    ends.server.join().unwrap();

    let lies = serve(&version::TLS13, |stream| {
        stream.conn.complete_io(&mut stream.sock).unwrap();
        stream.sock.write_all(b"HTTP/1.1 400 no\r\n\r\n").unwrap();
        Vec::new()
    });
    let mut transport = connect(&lies).await;
    let error = transport.read_exact(&mut word).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert_eq!(transport.try_read(&mut word).unwrap(), 0);
    lies.server.join().unwrap();

    let stranger = serve(&version::TLS13, |stream| {
        let _ = stream.conn.complete_io(&mut stream.sock);
        Vec::new()
    });
    // A client that trusts another server.
    let other = serve(&version::TLS13, |_| Vec::new());
    let socket = TcpStream::connect(&stranger.address).await.unwrap();
    let refused = Transport::secured(socket, "localhost", &other.tls)
        .await
        .unwrap_err();
    let refused = format!("{refused:#}");
    assert!(refused.contains("ssl.truststore.location"), "{refused}");
    drop(TcpStream::connect(&other.address).await.unwrap());
    for ended in [other, stranger] {
        ended.server.join().unwrap();
    }
}
