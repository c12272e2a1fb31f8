//! A connection under TLS, with rustls' unbuffered interface: records are received many at a time
//! and opened where they lie, and many are sealed before the socket takes them.
//!
//! rustls' buffered reader takes 4096 bytes a call, which would make the generator and not the
//! broker the limit of a measurement.
//!
//! Invariants: rustls sees each byte once and in order, together with those before it that it still
//! needs; bytes that [`TlsSocket::try_write_vectored`] took are sent before any that it takes
//! later; memory is bounded by two buffers and one write. Beyond a fault of TLS nothing is read or
//! sent.

use std::io::{self, ErrorKind, IoSlice};
use std::mem::take;
use std::sync::Arc;

use anyhow::Context as _;
use client::ClientError;
use rustls::ClientConfig;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus, WriteTraffic,
};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;

use super::ready::{is_blocked, read_some};

/// Bytes of records that are received at once: at first, and at most.
const RECEIVED_BYTES_MIN: usize = 32 << 10;
const RECEIVED_BYTES_MAX: usize = 256 << 10;
/// Plaintext that is sealed before the socket gets it.
const SEALED_BYTES_MAX: usize = 256 << 10;
/// Plaintext of a record, and what may be around it.
const RECORD_BYTES: usize = 16 << 10;
const OVERHEAD_BYTES: usize = 64;

/// What an end of the connection means while hands are shaken. It may also be a broker that has as
/// many connections as it may have.
const ENDED: &str = "the broker has closed the connection in the handshake of TLS, as one does that \
                     speaks no TLS there";

/// A connection under TLS.
pub(crate) struct TlsSocket {
    socket: TcpStream,
    connection: UnbufferedClientConnection,
    /// Received and not done with: from `start` to `end`.
    // Bounded: `RECEIVED_BYTES_MAX`.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    /// True if there may be whole records in `incoming`.
    is_behind: bool,
    /// Opened and not taken, from `taken` on.
    // Bounded: what `incoming` holds.
    plain: Vec<u8>,
    taken: usize,
    is_over: bool,
    /// Sealed and not sent, from `sent` on.
    // Bounded: `SEALED_BYTES_MAX` and its overhead, and one message of rustls.
    outgoing: Vec<u8>,
    sent: usize,
}

/// What a step of rustls was.
enum Step {
    /// A record for the reader, and how many bytes of it the reader took.
    Plaintext(usize),
    /// There may be more.
    Other,
    /// Nothing more before more comes.
    Waits,
    /// Nothing more before what is sealed is sent and answered.
    Shakes,
    End,
}

impl TlsSocket {
    /// Shakes hands with the server of this name.
    pub(super) async fn connect(
        socket: TcpStream,
        host: &str,
        config: Arc<ClientConfig>,
    ) -> anyhow::Result<Self> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.with_context(|| format!("{host:?} is no name for a certificate"))?;
        let mut stream = Self {
            socket,
            connection: UnbufferedClientConnection::new(config, name)?,
            incoming: vec![0; RECEIVED_BYTES_MIN],
            start: 0,
            end: 0,
            is_behind: true,
            plain: Vec::new(),
            taken: 0,
            is_over: false,
            outgoing: Vec::new(),
            sent: 0,
        };
        let shaken = stream.shake().await;
        match shaken {
            Ok(()) => Ok(stream),
            // Only the words of an error of TLS say which side has to change what.
            Err(error) if is_of_tls(&error) => {
                Err(ClientError::io(host, "the handshake of TLS", &error).into())
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(anyhow::Error::new(error).context(ENDED))
            }
            Err(error) => Err(anyhow::Error::new(error).context("the handshake of TLS")),
        }
    }

    async fn shake(&mut self) -> io::Result<()> {
        loop {
            match self.step(&mut []) {
                Ok(Step::Waits) => {
                    self.is_behind = self.start < self.end;
                    return self.flush().await;
                }
                Ok(Step::Plaintext(_) | Step::Other) => {}
                Ok(Step::Shakes) => {
                    self.flush().await?;
                    self.socket.readable().await?;
                    match self.receive() {
                        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                        Ok(_) => {}
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(Step::End) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) => {
                    // The alert, if there is one: the socket has room for it.
                    let _ = self.try_flush();
                    return Err(error);
                }
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        while !self.try_flush()? {
            self.socket.writable().await?;
        }
        Ok(())
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Returns true if a read has something to say without the socket.
    pub(super) fn has_more(&self) -> bool {
        self.taken < self.plain.len() || self.is_behind || self.is_over
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    pub(super) fn try_read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            let left = self.plain.len() - self.taken;
            if left > 0 {
                let count = left.min(into.len());
                into[..count].copy_from_slice(&self.plain[self.taken..self.taken + count]);
                self.taken += count;
                return Ok(count);
            }
            self.plain.clear();
            self.taken = 0;
            let read = self.open(into)?;
            if read > 0 || self.is_over {
                return Ok(read);
            }
            if self.receive()? == 0 {
                self.is_over = true;
                return Ok(0);
            }
        }
    }

    /// Opens the records that are there, as far as there is room.
    fn open(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while self.is_behind && read < into.len() && self.plain.is_empty() {
            match self.step(&mut into[read..])? {
                Step::Plaintext(count) => read += count,
                Step::Other => {}
                Step::Waits | Step::Shakes => self.is_behind = false,
                Step::End => {
                    self.is_behind = false;
                    self.is_over = true;
                }
            }
        }
        Ok(read)
    }

    /// Receives what the socket has, behind what is not done with.
    fn receive(&mut self) -> io::Result<usize> {
        if self.start > 0 {
            self.incoming.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.incoming.len() {
            if self.end >= RECEIVED_BYTES_MAX {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "a record without end",
                ));
            }
            self.incoming.resize(self.end * 2, 0);
        }
        let received = read_some(&self.socket, &mut self.incoming[self.end..])?;
        self.end += received;
        self.is_behind |= received > 0;
        // A connection that carries much gets larger reads.
        if self.end == self.incoming.len() && self.end < RECEIVED_BYTES_MAX {
            self.incoming.resize(self.end * 2, 0);
        }
        Ok(received)
    }

    /// Lets rustls do the next thing with what was received.
    fn step(&mut self, into: &mut [u8]) -> io::Result<Step> {
        let received = &mut self.incoming[self.start..self.end];
        let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(received);
        let step = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => match traffic.next_record() {
                Some(Ok(record)) => {
                    discard += record.discard;
                    let count = record.payload.len().min(into.len());
                    let (now, later) = record.payload.split_at(count);
                    into[..count].copy_from_slice(now);
                    self.plain.extend_from_slice(later);
                    Ok(Step::Plaintext(count))
                }
                Some(Err(error)) => Err(error),
                None => Ok(Step::Other),
            },
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                encode(&mut data, &mut self.outgoing);
                Ok(Step::Other)
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                // It is in its place among what is sent.
                data.done();
                Ok(Step::Other)
            }
            Ok(ConnectionState::WriteTraffic(_)) => Ok(Step::Waits),
            Ok(ConnectionState::BlockedHandshake) => Ok(Step::Shakes),
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(Step::End),
            Ok(_) => Err(unexpected()),
            Err(error) => Err(error),
        };
        self.start = (self.start + discard).min(self.end);
        step.map_err(|error| self.fails(error))
    }

    /// Ends everything because of what the server has sent; an alert tells it so.
    fn fails(&mut self, error: rustls::Error) -> io::Error {
        self.is_over = true;
        self.is_behind = false;
        while self.connection.wants_write() {
            // Each turn takes one thing out of what rustls has to say.
            let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut data, &mut self.outgoing);
                }
                _ => break,
            }
        }
        io::Error::new(ErrorKind::InvalidData, error)
    }

    pub(super) fn try_write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.try_flush()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut outgoing = take(&mut self.outgoing);
        let sealed = self.with_traffic(|traffic| seal(traffic, parts, &mut outgoing));
        // What rustls had to say before goes before the records.
        let mut before = take(&mut self.outgoing);
        if before.is_empty() {
            self.outgoing = outgoing;
        } else {
            before.append(&mut outgoing);
            self.outgoing = before;
        }
        let taken = sealed?.map_err(|error| self.fails(error))?;
        self.try_flush()?;
        Ok(taken)
    }

    /// Calls `with` as soon as rustls takes plaintext to seal.
    fn with_traffic<T>(
        &mut self,
        with: impl FnOnce(&mut WriteTraffic<'_, ClientConnectionData>) -> T,
    ) -> io::Result<T> {
        let done = loop {
            let received = &mut self.incoming[self.start..self.end];
            let UnbufferedStatus { mut discard, state } =
                self.connection.process_tls_records(received);
            let other = match state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let done = with(&mut traffic);
                    self.start = (self.start + discard).min(self.end);
                    break done;
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut data, &mut self.outgoing);
                    Ok(())
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    Ok(())
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => match traffic.next_record() {
                    Some(Ok(record)) => {
                        discard += record.discard;
                        self.plain.extend_from_slice(record.payload);
                        Ok(())
                    }
                    Some(Err(error)) => Err(error),
                    None => Ok(()),
                },
                Ok(ConnectionState::PeerClosed) => {
                    self.is_over = true;
                    Ok(())
                }
                Ok(_) => Err(unexpected()),
                Err(error) => Err(error),
            };
            self.start = (self.start + discard).min(self.end);
            other.map_err(|error| self.fails(error))?;
        };
        Ok(done)
    }

    pub(super) fn try_flush(&mut self) -> io::Result<bool> {
        while self.has_unsent() {
            let rest = &self.outgoing[self.sent..];
            let wanted = rest.len();
            match self.socket.try_write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    self.sent += sent;
                    if sent < wanted {
                        is_blocked(&self.socket, tokio::io::Interest::WRITABLE);
                        return Ok(false);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Says that nothing more is sent, as far as the socket takes it.
    pub(crate) fn close(&mut self) {
        let mut word = Vec::new();
        let close = |traffic: &mut WriteTraffic<'_, ClientConnectionData>| {
            word.resize(RECORD_BYTES, 0);
            let length = traffic.queue_close_notify(&mut word);
            word.truncate(length.unwrap_or(0));
        };
        if self.with_traffic(close).is_ok() {
            self.outgoing.extend_from_slice(&word);
            // The end of the connection follows, which says the same.
            let _ = self.try_flush();
        }
    }
}

/// Seals plaintext into records, up to [`SEALED_BYTES_MAX`]; returns how much of it.
fn seal(
    traffic: &mut WriteTraffic<'_, ClientConnectionData>,
    parts: &[IoSlice<'_>],
    to: &mut Vec<u8>,
) -> Result<usize, rustls::Error> {
    let mut taken = 0;
    let mut gathered = Vec::new();
    let mut sealing = |plain: &[u8]| {
        let start = to.len();
        let mut room = plain.len() + OVERHEAD_BYTES * (plain.len() / RECORD_BYTES + 1);
        loop {
            to.resize(start + room, 0);
            match traffic.encrypt(plain, &mut to[start..]) {
                Ok(length) => {
                    to.truncate(start + length);
                    return Ok(());
                }
                Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                    room = required_size.max(room + 1);
                }
                Err(EncryptError::EncryptExhausted) => return Err(rustls::Error::EncryptError),
            }
        }
    };
    for part in parts {
        let mut rest: &[u8] = part;
        while !rest.is_empty() && taken < SEALED_BYTES_MAX {
            // Small parts (heads of frames) share a record with what follows.
            let whole = rest.len() / RECORD_BYTES * RECORD_BYTES;
            if gathered.is_empty() && whole > 0 {
                let whole = whole.min(SEALED_BYTES_MAX);
                sealing(&rest[..whole])?;
                (taken, rest) = (taken + whole, &rest[whole..]);
                continue;
            }
            let some = rest.len().min(RECORD_BYTES - gathered.len());
            gathered.extend_from_slice(&rest[..some]);
            (taken, rest) = (taken + some, &rest[some..]);
            if gathered.len() == RECORD_BYTES {
                sealing(&gathered)?;
                gathered.clear();
            }
        }
    }
    if !gathered.is_empty() {
        sealing(&gathered)?;
    }
    Ok(taken)
}

/// Appends what rustls has to say, other than plaintext.
fn encode(data: &mut EncodeTlsData<'_, ClientConnectionData>, to: &mut Vec<u8>) {
    let start = to.len();
    loop {
        match data.encode(&mut to[start..]) {
            Ok(_) | Err(EncodeError::AlreadyEncoded) => return,
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                to.resize(start + required_size, 0);
            }
        }
    }
}

fn is_of_tls(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>)
}

/// What a later rustls may add is not known.
fn unexpected() -> rustls::Error {
    rustls::Error::General("a state that is not expected".into())
}

impl std::fmt::Debug for TlsSocket {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = to.debug_struct("TlsSocket");
        shown.field("socket", &self.socket).finish_non_exhaustive()
    }
}
