//! A connection under TLS after its handshake, and its reading half: records from the socket, their
//! plaintext to the reader. The writing half is in `transport/sealing.rs`.
//!
//! Records are received into the memory of the shard, many at a time, opened there one by one, and
//! copied to where the reader wants them. Between two calls a connection keeps the beginning of a
//! record that is not whole, and the end of one for which the reader had no room; mostly neither.
//!
//! Invariants: rustls sees each byte once and in order, together with those before it that it still
//! needs; nothing behind the end that the peer has declared is opened; what is kept is bounded by
//! [`KEPT_BYTES_MAX`], whatever a peer sends. An end of the socket without that declaration is an
//! end all the same: what was cut off is a frame that is not whole, which is never handled.

use std::io;

use bytes::{BufMut, Bytes};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, InsufficientSizeError, UnbufferedStatus,
    WriteTraffic,
};
use tokio::net::TcpStream;

use super::outgoing::Outgoing;
use super::scratch::{
    HeldCount, KEPT_BYTES_MAX, OVERHEAD_BYTES_MAX, OVERHEAD_BYTES_MIN, PIECE_BYTES, RECORD_BYTES,
    Scratch, WIRE_RECORD_BYTES,
};
use crate::metrics::SecuredCount;

/// Bytes that are received at once: at least, and while a connection is young.
const RECEIVED_BYTES_MIN: usize = 4 << 10;
const RECEIVED_BYTES_FIRST: usize = 32 << 10;

/// Bytes for the reader after which one byte more is received at once.
const GIVEN_BYTES_FOR_MORE: usize = 32;

/// Bytes of records without plaintext, of those that are received at once, beyond which fewer are
/// received next.
const BARREN_BYTES_FEW: usize = 4 << 10;

/// Bytes of records that gave the reader nothing, after which other tasks have their turn: new keys
/// take much time for few bytes, and the turns of the reader end by what it reads.
const BARREN_BYTES_MAX: usize = WIRE_RECORD_BYTES;

/// A connection whose handshake is complete, on its way to its shard.
pub struct Secured {
    /// The state of TLS.
    pub(crate) connection: UnbufferedServerConnection,
    /// Records that came behind the handshake.
    // Bounded: what a handshake receives at once.
    pub(crate) records: Vec<u8>,
    /// Plaintext that came behind the handshake.
    // Bounded: a record.
    pub(crate) plain: Vec<u8>,
    /// Its place in the count of connections.
    pub(crate) count: SecuredCount,
}

/// Both directions of a connection under TLS.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each answers a question of its own"
)]
pub struct TlsStream {
    pub(super) socket: TcpStream,
    pub(super) connection: UnbufferedServerConnection,
    pub(super) scratch: Scratch,
    /// Received: what rustls still needs, and what it has not seen if `is_behind`.
    kept: Vec<u8>,
    /// Where in `kept` that begins.
    start: usize,
    /// True if `kept` may have whole records that are not opened.
    is_behind: bool,
    /// True if rustls needs nothing of `kept` but what it has not seen.
    is_between_records: bool,
    /// Opened, and not taken by the reader.
    plain: Bytes,
    /// True if nothing comes after what is here.
    is_over: bool,
    /// True if a record was not what TLS allows: nothing further is opened or sealed.
    pub(super) is_broken: bool,
    pub(super) outgoing: Outgoing,
    /// Bytes received since the connection began.
    received_bytes: u64,
    /// Bytes of records that gave the reader nothing, since others had their turn.
    barren_bytes: usize,
    /// Bytes that may be received at once, because all of them are opened in one turn: fewer after
    /// many such bytes, and slowly more after others.
    at_once: usize,
    pub(super) held: HeldCount,
    _count: SecuredCount,
}

/// What a step of rustls was.
enum Opened {
    /// A record for the reader, and how many bytes of it the reader took.
    Plaintext(usize),
    /// Something else: there may be more.
    Other,
    /// Nothing more can be opened before more comes.
    Waits,
    /// The peer has declared its end.
    End,
}

impl TlsStream {
    /// Takes charge of a connection whose handshake is complete.
    pub fn new(socket: TcpStream, secured: Secured, scratch: Scratch) -> Self {
        let held = scratch.count();
        let mut stream = Self {
            socket,
            connection: secured.connection,
            scratch,
            is_behind: !secured.records.is_empty(),
            is_between_records: false,
            kept: secured.records,
            start: 0,
            plain: Bytes::from(secured.plain),
            is_over: false,
            is_broken: false,
            outgoing: Outgoing::default(),
            received_bytes: 0,
            barren_bytes: 0,
            at_once: RECEIVED_BYTES_FIRST,
            held,
            _count: secured.count,
        };
        stream.recount();
        stream
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Returns true if a call of [`TlsStream::take`] has something to say.
    pub(super) fn has_more(&self) -> bool {
        self.is_behind || self.is_over || !self.plain.is_empty()
    }

    /// Returns true if the reader has taken everything, and nothing more comes.
    pub(super) fn has_ended(&self) -> bool {
        self.is_over && !self.is_behind && self.plain.is_empty()
    }

    /// Returns true if other tasks are to have their turn before more is received; asked again it
    /// is false, for they had it.
    pub(super) fn passes_turn(&mut self) -> bool {
        let passes = self.barren_bytes > BARREN_BYTES_MAX;
        if passes {
            self.barren_bytes = 0;
        }
        passes
    }

    /// Returns true if the peer has to send the rest of a record.
    pub(super) fn is_within_record(&self) -> bool {
        !self.is_behind && !self.is_over && self.start < self.kept.len()
    }

    /// Returns how many bytes have been received, and how many at least are still to be received
    /// until `missing` bytes can be taken.
    pub(super) fn come_bytes(&self, missing: usize) -> (u64, usize) {
        (self.received_bytes, self.missing_records(missing))
    }

    /// Returns how many bytes of records at least have to come until `missing` bytes can be taken;
    /// 0 if nothing more comes.
    ///
    /// Never too many: a socket that waited for more than the peer sends would not wake the task.
    pub(super) fn missing_records(&self, missing: usize) -> usize {
        if self.is_over {
            return 0;
        }
        let opened = missing.saturating_sub(self.plain.len());
        let records = opened / RECORD_BYTES;
        let least = opened.saturating_add(records.saturating_mul(OVERHEAD_BYTES_MIN));
        least.saturating_sub(self.kept.len().saturating_sub(self.start))
    }

    /// Takes what is here: plaintext that is left, else that of records which were received before.
    pub(super) fn take(&mut self, into: &mut impl BufMut) -> io::Result<usize> {
        if !self.plain.is_empty() {
            let count = self.plain.len().min(into.chunk_mut().len());
            // Bounded: at most all of it.
            into.put_slice(&self.plain.split_to(count));
            if self.plain.is_empty() {
                // The memory goes as well.
                self.plain = Bytes::new();
                self.recount();
            }
            return Ok(count);
        }
        if !self.is_behind {
            return Ok(0);
        }
        let mut kept = std::mem::take(&mut self.kept);
        // Bounded: the start of what is kept.
        let (at, read) = self.open_counted(kept.split_at_mut(self.start).1, into);
        self.start = self.start.saturating_add(at);
        self.kept = kept;
        self.settle();
        read
    }

    /// Receives what the socket has, about as much as `into` has room for, and opens it.
    ///
    /// It is called when [`TlsStream::take`] has taken everything.
    pub(super) fn receive(&mut self, into: &mut impl BufMut) -> io::Result<usize> {
        let scratch = self.scratch.clone();
        let mut bytes = scratch.bytes();
        let have = self.kept.len().saturating_sub(self.start);
        let wanted = records_of(into.chunk_mut().len())
            .max(have.saturating_add(RECEIVED_BYTES_MIN))
            .min(have.saturating_add(self.at_once))
            .min(bytes.len());
        // Bounded: what is kept leaves room, see `scratch.rs`.
        let (here, room) = bytes.split_at_mut(have);
        // Bounded: the start of what is kept.
        here.copy_from_slice(self.kept.split_at(self.start).1);
        // Bounded: `wanted` is more than is kept, and no more than there is.
        let room = room.split_at_mut(wanted.saturating_sub(have)).0;
        let received = self.socket.try_read(room)?;
        if received == 0 {
            self.is_over = true;
            // The beginning of a record is of no use any more.
            self.keep(&[]);
            return Ok(0);
        }
        self.received_bytes = self.received_bytes.saturating_add(received as u64);
        // Bounded: it was received there.
        let all = bytes.split_at_mut(have.saturating_add(received)).0;
        let (at, read) = self.open_counted(all, into);
        // Bounded: no more is done with than there is.
        self.keep(all.split_at(at).1);
        read
    }

    /// Keeps `rest` for the next call.
    fn keep(&mut self, rest: &[u8]) {
        self.kept.clear();
        self.start = 0;
        self.kept.extend_from_slice(rest);
        self.settle();
    }

    /// Gives memory back that nothing is in, and counts the rest.
    fn settle(&mut self) {
        if self.start >= self.kept.len() {
            self.kept = Vec::new();
            self.start = 0;
        }
        self.recount();
    }

    pub(super) fn recount(&mut self) {
        let here = self.kept.capacity().saturating_add(self.plain.len());
        self.held
            .is(here.saturating_add(self.outgoing.held_bytes()));
    }

    /// Opens the records in `bytes`, and counts those of their bytes that give the reader nothing.
    ///
    /// Nothing opened is left from before.
    fn open_counted(
        &mut self,
        bytes: &mut [u8],
        into: &mut impl BufMut,
    ) -> (usize, io::Result<usize>) {
        let (at, read) = self.open(bytes, into);
        let given = self
            .plain
            .len()
            .saturating_add(*read.as_ref().unwrap_or(&0));
        let barren = at.saturating_sub(given);
        self.barren_bytes = self.barren_bytes.saturating_add(barren);
        self.at_once = if barren > BARREN_BYTES_FEW {
            (self.at_once / 2).max(RECEIVED_BYTES_MIN)
        } else {
            let more = given / GIVEN_BYTES_FOR_MORE;
            self.at_once.saturating_add(more).min(PIECE_BYTES)
        };
        (at, read)
    }

    /// Opens the records in `bytes`, as far as `into` has room; returns how many bytes are done
    /// with, and how many were taken.
    fn open(&mut self, bytes: &mut [u8], into: &mut impl BufMut) -> (usize, io::Result<usize>) {
        let (mut at, mut read) = (0_usize, 0_usize);
        let mut room = into.chunk_mut().len();
        self.is_behind = false;
        while room > 0 {
            // Bounded: no more is done with than there is.
            let left = bytes.split_at_mut(at).1;
            let (done, opened) = self.step(left, into, room);
            at = at.saturating_add(done).min(bytes.len());
            self.is_between_records = matches!(opened, Ok(Opened::Plaintext(_)));
            match opened {
                Ok(Opened::Plaintext(count)) => {
                    read = read.saturating_add(count);
                    room = room.saturating_sub(count);
                }
                Ok(Opened::Other) => {}
                Ok(Opened::Waits) => {
                    if bytes.len().saturating_sub(at) > KEPT_BYTES_MAX {
                        return (bytes.len(), Err(self.fails(&too_long())));
                    }
                    return (at, Ok(read));
                }
                Ok(Opened::End) => {
                    self.is_over = true;
                    return (bytes.len(), Ok(read));
                }
                Err(error) => return (bytes.len(), Err(self.fails(&error))),
            }
        }
        self.is_behind = at < bytes.len();
        (at, Ok(read))
    }

    /// Lets rustls do the next thing with `bytes`; returns how many of them are done with.
    fn step(
        &mut self,
        bytes: &mut [u8],
        into: &mut impl BufMut,
        room: usize,
    ) -> (usize, Result<Opened, rustls::Error>) {
        let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(bytes);
        let opened = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                let record = traffic.next_record();
                match record {
                    Some(Ok(record)) => {
                        discard = discard.saturating_add(record.discard);
                        let count = record.payload.len().min(room);
                        // Bounded: at most all of it.
                        let (now, later) = record.payload.split_at(count);
                        into.put_slice(now);
                        if !later.is_empty() {
                            self.plain = Bytes::copy_from_slice(later);
                        }
                        Ok(Opened::Plaintext(count))
                    }
                    Some(Err(error)) => Err(error),
                    None => Ok(Opened::Other),
                }
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                control(&mut data, self.outgoing.control());
                Ok(Opened::Other)
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                // It is in its place among what is sent.
                data.done();
                Ok(Opened::Other)
            }
            Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => {
                Ok(Opened::Waits)
            }
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(Opened::End),
            Ok(_) => Err(unexpected()),
            Err(error) => Err(error),
        };
        (discard, opened)
    }

    /// Ends everything because of what the peer has sent; an alert tells the peer so when the
    /// connection is closed.
    pub(super) fn fails(&mut self, error: &rustls::Error) -> io::Error {
        self.is_broken = true;
        self.is_over = true;
        self.is_behind = false;
        while self.connection.wants_write() {
            // Each turn takes one thing out of what rustls has to say.
            let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    control(&mut data, self.outgoing.control());
                }
                _ => break,
            }
        }
        io::Error::new(io::ErrorKind::InvalidData, error.clone())
    }

    /// Calls `with` as soon as rustls takes plaintext to seal. What it has to say before goes to
    /// what is sent.
    pub(super) fn with_traffic<T>(
        &mut self,
        with: impl FnOnce(WriteTraffic<'_, ServerConnectionData>) -> T,
    ) -> io::Result<T> {
        // Whole records that are kept are for the reader; else rustls is shown what is kept, for it
        // may need that.
        let is_lent = !(self.is_behind && self.is_between_records);
        let (mut kept, mut at) = if is_lent {
            (std::mem::take(&mut self.kept), self.start)
        } else {
            (Vec::new(), 0)
        };
        let done = loop {
            // Bounded: no more is done with than there is.
            let needed = kept.split_at_mut(at).1;
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(needed);
            at = at.saturating_add(discard);
            match state {
                Ok(ConnectionState::WriteTraffic(traffic)) => break Ok(with(traffic)),
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    control(&mut data, self.outgoing.control());
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    let record = traffic.next_record();
                    if let Some(Ok(record)) = record {
                        at = at.saturating_add(record.discard);
                        self.plain = Bytes::from([&self.plain, record.payload].concat());
                    }
                }
                Ok(ConnectionState::PeerClosed) => self.is_over = true,
                Ok(_) => break Err(unexpected()),
                Err(error) => break Err(error),
            }
            at = at.min(kept.len());
        };
        if is_lent {
            self.start = at.min(kept.len());
            self.kept = kept;
            self.settle();
        }
        done.map_err(|error| self.fails(&error))
    }
}

/// Appends to `to` what rustls has to say, other than plaintext.
pub(crate) fn control(data: &mut EncodeTlsData<'_, ServerConnectionData>, to: &mut Vec<u8>) {
    let start = to.len();
    loop {
        // Bounded: the length before.
        match data.encode(to.split_at_mut(start).1) {
            Ok(_) | Err(EncodeError::AlreadyEncoded) => return,
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                to.resize(start.saturating_add(required_size), 0);
            }
        }
    }
}

/// Returns how many bytes records of so much plaintext may take, with one that is not whole.
fn records_of(plain: usize) -> usize {
    let overhead = (plain / RECORD_BYTES).saturating_mul(OVERHEAD_BYTES_MAX);
    plain
        .saturating_add(overhead)
        .saturating_add(WIRE_RECORD_BYTES)
}

fn too_long() -> rustls::Error {
    rustls::InvalidMessage::HandshakePayloadTooLarge.into()
}

/// There is no early data, as it is never offered; what a later rustls may add is not known.
fn unexpected() -> rustls::Error {
    rustls::Error::General("a state that is not expected".into())
}
