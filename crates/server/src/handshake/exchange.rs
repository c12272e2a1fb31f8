//! One handshake: bytes between a socket and rustls, until both sides have finished.
//!
//! Nothing is made for a connection before its first bytes are there, and nothing but a few bytes
//! for one that does not begin as TLS does. Invariants: what is received and not done with is
//! bounded by [`RECEIVED_BYTES_MAX`], what is to be sent by the chain of certificates; no plaintext
//! is opened beyond the record in which it may begin. Not here: how long it may take.

use std::sync::Arc;

use rustls::server::{ServerConfig, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use tokio::net::TcpStream;

use super::cause::{Failure, Spoken};
use crate::connection::control;

/// Bytes that tell what a peer speaks.
const FIRST_BYTES: usize = 4;

/// Room that is made to receive more: a first message mostly fits.
const RECEIVED_BYTES_STEP: usize = 2 << 10;

/// Most bytes of records that are not done with. rustls takes messages of up to 64 KiB, and needs
/// the records of a message until it is whole.
const RECEIVED_BYTES_MAX: usize = 80 << 10;

/// What there is after a handshake.
pub(super) struct Shaken {
    /// The state of TLS.
    pub(super) connection: UnbufferedServerConnection,
    /// Records that came behind the handshake.
    pub(super) records: Vec<u8>,
    /// Plaintext that came behind the handshake.
    pub(super) plain: Vec<u8>,
}

/// A handshake under way.
struct Exchange<'a> {
    socket: &'a TcpStream,
    connection: UnbufferedServerConnection,
    // Bounded: `RECEIVED_BYTES_MAX`.
    received: Vec<u8>,
    // Bounded: the chain of certificates, once.
    to_send: Vec<u8>,
    // Bounded: a record, with which the handshake is over.
    plain: Vec<u8>,
}

/// What comes next.
enum HandshakeStep {
    Again,
    Receive,
    Done,
}

/// Returns the first bytes of a connection, if it may speak TLS.
pub(super) async fn first_bytes(socket: &TcpStream) -> Result<Vec<u8>, Failure> {
    let mut received = Vec::new();
    while received.len() < FIRST_BYTES {
        if receive(socket, &mut received).await? == 0 {
            return Err(if received.is_empty() {
                Failure::Unused
            } else {
                Failure::Closed
            });
        }
    }
    match Spoken::of(&received) {
        Some(spoken) => Err(Failure::NotTls(spoken)),
        None => Ok(received),
    }
}

/// Completes the handshake that begins with `first`.
pub(super) async fn shake(
    socket: &TcpStream,
    first: Vec<u8>,
    config: Arc<ServerConfig>,
) -> Result<Shaken, Failure> {
    let mut exchange = Exchange {
        socket,
        connection: UnbufferedServerConnection::new(config).map_err(Failure::Tls)?,
        received: first,
        to_send: Vec::new(),
        plain: Vec::new(),
    };
    loop {
        match exchange.step() {
            Ok(HandshakeStep::Again) => {}
            Ok(HandshakeStep::Receive) => {
                exchange.send().await?;
                exchange.receive().await?;
            }
            Ok(HandshakeStep::Done) => {
                exchange.send().await?;
                return Ok(Shaken {
                    connection: exchange.connection,
                    records: exchange.received,
                    plain: exchange.plain,
                });
            }
            Err(failure) => {
                exchange.refuse();
                return Err(failure);
            }
        }
    }
}

impl Exchange<'_> {
    /// Lets rustls do the next thing with what was received.
    fn step(&mut self) -> Result<HandshakeStep, Failure> {
        let received = &mut self.received;
        let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(received);
        let next = match state.map_err(Failure::Tls)? {
            ConnectionState::EncodeTlsData(mut data) => {
                control(&mut data, &mut self.to_send);
                HandshakeStep::Again
            }
            ConnectionState::TransmitTlsData(data) => {
                // It is sent before anything is waited for.
                data.done();
                HandshakeStep::Again
            }
            ConnectionState::ReadTraffic(mut traffic) => {
                let record = traffic.next_record();
                if let Some(Ok(record)) = record {
                    discard = discard.saturating_add(record.discard);
                    self.plain.extend_from_slice(record.payload);
                }
                HandshakeStep::Again
            }
            ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) => {
                HandshakeStep::Receive
            }
            ConnectionState::PeerClosed | ConnectionState::Closed => return Err(Failure::Closed),
            _ => {
                let what = "a state that is not expected".into();
                return Err(Failure::Tls(rustls::Error::General(what)));
            }
        };
        let done = discard.min(self.received.len());
        self.received.drain(..done);
        if !self.connection.is_handshaking() && !self.connection.wants_write() {
            return Ok(HandshakeStep::Done);
        }
        Ok(next)
    }

    /// Sends all that is to be sent.
    async fn send(&mut self) -> Result<(), Failure> {
        let mut sent = 0_usize;
        while sent < self.to_send.len() {
            self.socket.writable().await.map_err(Failure::Socket)?;
            // Bounded: no more is sent than there is.
            match self.socket.try_write(self.to_send.split_at(sent).1) {
                Ok(count) => sent = sent.saturating_add(count),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(Failure::Socket(error)),
            }
        }
        self.to_send = Vec::new();
        Ok(())
    }

    async fn receive(&mut self) -> Result<(), Failure> {
        if self.received.len() >= RECEIVED_BYTES_MAX {
            return Err(Failure::TooLong);
        }
        match receive(self.socket, &mut self.received).await? {
            0 => Err(Failure::Closed),
            _ => Ok(()),
        }
    }

    /// Tells the peer why, if its socket takes that at once.
    fn refuse(&mut self) {
        while self.connection.wants_write() {
            // Each turn takes one thing out of what rustls has to say.
            let received = &mut self.received;
            let UnbufferedStatus { state, .. } = self.connection.process_tls_records(received);
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    control(&mut data, &mut self.to_send);
                }
                _ => break,
            }
        }
        if !self.to_send.is_empty() {
            let _ = self.socket.try_write(&self.to_send);
        }
    }
}

/// Receives what has come; returns 0 at the end of the peer.
async fn receive(socket: &TcpStream, into: &mut Vec<u8>) -> Result<usize, Failure> {
    loop {
        socket.readable().await.map_err(Failure::Socket)?;
        if into.len() == into.capacity() {
            into.reserve_exact(RECEIVED_BYTES_STEP.max(into.len()));
        }
        match socket.try_read_buf(into) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            received => return received.map_err(Failure::Socket),
        }
    }
}
