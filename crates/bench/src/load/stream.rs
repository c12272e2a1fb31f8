//! Reads a connection as far as its user parses it, and skips the rest.
//!
//! Skipped bytes are copied into one reused buffer, since any real client must copy them; or, on
//! request, they never leave the kernel (`MSG_TRUNC`). Invariant: memory is two buffers of fixed
//! size, whatever arrives.

use std::io::{self, ErrorKind};

use super::transport::Transport;

/// Most bytes that can be peeked at the same time.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes per read after a long skip, when little is parsed and much skipped.
const SHORT_READ_BYTES: usize = 2 << 10;
/// Bytes discarded per call.
const DISCARD_BYTES: usize = 1 << 20;

/// How bytes are skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SkipMode {
    /// The kernel discards them.
    Discard,
    /// They are copied into one reused buffer, as by any real client.
    Copy,
}

/// A connection with a read buffer.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Transport,
    skipping: SkipMode,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    read_at_once: usize,
    /// Receives skipped bytes, never read; with `Discard` never written either.
    trash: Vec<u8>,
    taken: u64,
}

impl Stream {
    pub(crate) fn new(socket: impl Into<Transport>, skipping: SkipMode) -> Self {
        let trash_bytes = match skipping {
            SkipMode::Discard => DISCARD_BYTES,
            SkipMode::Copy => 4 * BUFFER_BYTES,
        };
        Self {
            socket: socket.into(),
            skipping,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            read_at_once: BUFFER_BYTES,
            trash: vec![0; trash_bytes],
            taken: 0,
        }
    }

    /// Returns the socket, for writing.
    pub(crate) fn socket(&mut self) -> &mut Transport {
        &mut self.socket
    }

    /// Returns the bytes taken or skipped so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the next `bytes` bytes without taking them; at most 64 KB.
    pub(crate) async fn peek(&mut self, bytes: usize) -> io::Result<&[u8]> {
        if bytes > BUFFER_BYTES {
            return Err(io::Error::other("more than fits is to be looked at"));
        }
        while self.end - self.start < bytes {
            self.read_more(bytes).await?;
        }
        Ok(&self.buffer[self.start..self.start + bytes])
    }

    /// Returns the buffered bytes.
    pub(crate) fn here(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes `bytes` of the buffered bytes.
    pub(crate) fn take_here(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.end - self.start);
        self.consume(bytes);
    }

    /// Extends the buffered bytes by one read of as much as fits.
    pub(crate) async fn more(&mut self) -> io::Result<()> {
        self.read_at_once = BUFFER_BYTES;
        let here = self.end - self.start;
        self.read_more((here + 1).min(BUFFER_BYTES)).await
    }

    /// Returns whether bytes are buffered.
    pub(crate) fn has_more(&self) -> bool {
        self.end > self.start
    }

    /// Waits for the next byte; returns false if the peer has closed the connection.
    pub(crate) async fn has_next(&mut self) -> io::Result<bool> {
        match self.peek(1).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes the next `N` bytes.
    pub(crate) async fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.peek(N).await?);
        self.consume(N);
        Ok(bytes)
    }

    /// Appends the next `bytes` bytes to `out`.
    pub(crate) async fn take_into(&mut self, bytes: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let mut missing = bytes;
        while missing > 0 {
            if !self.has_more() {
                self.read_at_once = BUFFER_BYTES;
                self.read_more(1).await?;
            }
            let some = missing.min(self.end - self.start);
            out.extend_from_slice(&self.buffer[self.start..self.start + some]);
            self.consume(some);
            missing -= some;
        }
        Ok(())
    }

    /// Skips the next `bytes` bytes.
    pub(crate) async fn skip(&mut self, bytes: usize) -> io::Result<()> {
        let here = bytes.min(self.end - self.start);
        self.consume(here);
        let mut missing = bytes - here;
        self.read_at_once = if missing > 0 {
            SHORT_READ_BYTES
        } else {
            BUFFER_BYTES
        };
        while missing > 0 {
            let thrown = self.throw_away(missing).await?;
            self.taken += thrown as u64;
            missing -= thrown;
        }
        Ok(())
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.taken += bytes as u64;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    async fn read_more(&mut self, need: usize) -> io::Result<()> {
        if self.start + need > BUFFER_BYTES {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let wanted = need.max(self.read_at_once);
        let until = (self.start + wanted).clamp(self.end + 1, BUFFER_BYTES);
        loop {
            self.socket.readable().await?;
            match self.socket.try_read(&mut self.buffer[self.end..until]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    self.end += bytes;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn throw_away(&mut self, bytes: usize) -> io::Result<usize> {
        let some = bytes.min(self.trash.len());
        loop {
            self.socket.readable().await?;
            let trash = &mut self.trash[..some];
            let thrown = match self.skipping {
                SkipMode::Discard => self.socket.try_discard(trash),
                SkipMode::Copy => self.socket.try_read(trash),
            };
            match thrown {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn what_is_looked_at_is_what_was_sent_whatever_is_skipped() {
        for skipping in [SkipMode::Discard, SkipMode::Copy] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let sent: Vec<u8> = (0..3_000_000u32).map(|at| ((at / 7) ^ at) as u8).collect();
            let sending = sent.clone();
            let sender = tokio::spawn(async move {
                let mut socket = TcpStream::connect(address).await.unwrap();
                socket.write_all(&sending).await.unwrap();
            });
            let (socket, _) = listener.accept().await.unwrap();
            let mut stream = Stream::new(socket, skipping);
            let mut at = 0;
            for skip in [0, 10, 5_000, 900_000, 70_000, 1, 1_500_000] {
                stream.skip(skip).await.unwrap();
                at += skip;
                assert_eq!(stream.peek(61).await.unwrap(), &sent[at..at + 61]);
                assert_eq!(stream.take::<4>().await.unwrap(), sent[at..at + 4]);
                at += 4;
                let mut copied = Vec::new();
                stream.take_into(70_000, &mut copied).await.unwrap();
                assert_eq!(copied, sent[at..at + 70_000]);
                at += 70_000;
                assert_eq!(stream.taken(), at as u64);
            }
            let rest = sent.len() - at;
            stream.skip(rest).await.unwrap();
            assert!(!stream.has_next().await.unwrap());
            sender.await.unwrap();
        }
    }
}
