//! The writing half of a connection under TLS: parts of replies to records, records to the socket.
//!
//! Up to [`SEALED_BYTES_MAX`] bytes are sealed at once, in the memory of the shard, and sent by one
//! system call. What the socket does not take is kept, and nothing further is sealed until it is
//! sent. Small parts share a record, and a large part begins with one, so that it is not copied
//! before it is sealed.
//!
//! Invariant: records leave in the order in which they were sealed, for they are numbered.

use std::io::{self, IoSlice};

use rustls::server::ServerConnectionData;
use rustls::unbuffered::{EncryptError, WriteTraffic};

use super::opening::TlsStream;
use super::outgoing::share;
use super::scratch::{RECORD_BYTES, SEALED_BYTES_MAX};

/// What was sealed.
#[derive(Clone, Copy, Default)]
struct Sealed {
    /// Bytes of the parts.
    plain: usize,
    /// Bytes of the records.
    records: usize,
}

/// Room for what rustls has to say at the end.
const FAREWELL_BYTES: usize = 1024;

impl TlsStream {
    /// Returns the bytes that are held until they are sent.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.outgoing.held_bytes()
    }

    /// See [`super::Transport::try_write_vectored`].
    pub(super) fn try_write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = self.send_or_seal(parts);
        self.recount();
        written
    }

    fn send_or_seal(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            if let Some(written) = self.send()? {
                return Ok(written);
            }
            if self.is_broken {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let scratch = self.scratch.clone();
            let mut bytes = scratch.bytes();
            // Bounded: `scratch::SCRATCH_BYTES` is many times as much.
            let (stage, records) = bytes.split_at_mut(RECORD_BYTES);
            let sealed = self.seal(parts, stage, records)?;
            // Bounded: what was sealed is there.
            let records = records.split_at(sealed.records).0;
            if !self.outgoing.is_empty() {
                // Something of TLS itself comes first.
                self.outgoing.append(records, sealed.plain);
                continue;
            }
            let sent = match self.socket.try_write(records) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                sent => sent?,
            };
            if sent == records.len() {
                return Ok(sealed.plain);
            }
            let written = share(sealed.plain, sent, records.len());
            let left = sealed.plain.saturating_sub(written);
            // Bounded: no more is sent than there is.
            self.outgoing.append(records.split_at(sent).1, left);
            if written > 0 {
                return Ok(written);
            }
        }
    }

    /// Sends what is sealed; returns how many bytes that writes, `None` if nothing is left to send.
    fn send(&mut self) -> io::Result<Option<usize>> {
        while !self.outgoing.is_empty() {
            let sent = self.socket.try_write(self.outgoing.unsent())?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            let written = self.outgoing.advance(sent);
            if written > 0 {
                return Ok(Some(written));
            }
        }
        Ok(None)
    }

    /// Seals the beginning of `parts` into `records`.
    fn seal(
        &mut self,
        parts: &[IoSlice<'_>],
        stage: &mut [u8],
        records: &mut [u8],
    ) -> io::Result<Sealed> {
        let sealed = self.with_traffic(|traffic| {
            let mut sealer = Sealer {
                traffic,
                records,
                sealed: Sealed::default(),
            };
            sealer.seal_parts(parts, stage).map(|()| sealer.sealed)
        })?;
        sealed.map_err(io::Error::other)
    }

    /// Says that nothing more comes, and ends the connection. What its socket does not take at once
    /// is lost.
    pub(super) fn close(mut self: Box<Self>) {
        if !self.is_broken {
            let mut farewell = [0; FAREWELL_BYTES];
            let said = self.with_traffic(|mut traffic| traffic.queue_close_notify(&mut farewell));
            if let Ok(Ok(len)) = said {
                // Bounded: what was written there.
                let farewell = farewell.split_at(len).0;
                self.outgoing.control().extend_from_slice(farewell);
            }
        }
        if !self.outgoing.is_empty() {
            let _ = self.socket.try_write(self.outgoing.unsent());
        }
    }
}

/// Seals into memory that has room for all of it.
struct Sealer<'a, 'b> {
    traffic: WriteTraffic<'a, ServerConnectionData>,
    records: &'b mut [u8],
    sealed: Sealed,
}

impl Sealer<'_, '_> {
    fn seal_parts(&mut self, parts: &[IoSlice<'_>], stage: &mut [u8]) -> Result<(), EncryptError> {
        let mut staged = 0_usize;
        for part in parts {
            let mut part: &[u8] = part;
            let room = SEALED_BYTES_MAX.saturating_sub(self.sealed.plain.saturating_add(staged));
            let whole = part.len().min(room) / RECORD_BYTES * RECORD_BYTES;
            if whole > 0 {
                // Bounded: a full stage is sealed below.
                self.seal(stage.split_at(staged).0)?;
                staged = 0;
                // Bounded: at most all of the part.
                let (now, later) = part.split_at(whole);
                self.seal(now)?;
                part = later;
            }
            while !part.is_empty() {
                let room =
                    SEALED_BYTES_MAX.saturating_sub(self.sealed.plain.saturating_add(staged));
                // Bounded: a full stage is sealed below.
                let free = stage.split_at_mut(staged).1;
                let count = part.len().min(free.len()).min(room);
                if count == 0 {
                    // Bounded: a full stage is sealed below.
                    return self.seal(stage.split_at(staged).0);
                }
                // Bounded: at most all of either.
                let (now, later) = part.split_at(count);
                // Bounded: the same.
                free.split_at_mut(count).0.copy_from_slice(now);
                part = later;
                staged = staged.saturating_add(count);
                if staged == stage.len() {
                    self.seal(stage)?;
                    staged = 0;
                }
            }
        }
        // Bounded: a full stage is sealed above.
        self.seal(stage.split_at(staged).0)
    }

    fn seal(&mut self, plain: &[u8]) -> Result<(), EncryptError> {
        if plain.is_empty() {
            return Ok(());
        }
        // Bounded: no more was written than there is.
        let room = self.records.split_at_mut(self.sealed.records).1;
        let count = self.traffic.encrypt(plain, room)?;
        self.sealed.records = self.sealed.records.saturating_add(count);
        self.sealed.plain = self.sealed.plain.saturating_add(plain.len());
        Ok(())
    }
}
