//! A connection that sends whatever bytes it is given and reads whole answers.

use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use wire::kafka::Api;

use crate::make::{self, Aim};
use crate::words::Words;

/// Longest wait for an answer in a conversation that must go on.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often a wait is looked at.
const TICK: Duration = Duration::from_millis(20);
/// The correlation id of the question behind the question.
const BEHIND: i32 = 2;

pub(crate) struct Connection {
    socket: TcpStream,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// An answer (or none, where none is given), and the connection goes on.
    Answered(Duration),
    /// The connection was closed.
    Refused(Duration),
    /// Nothing yet.
    Waits,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { socket })
    }

    /// The same connection once more.
    pub(crate) fn copy(&self) -> Result<Self> {
        self.socket.try_clone().map(|socket| Self { socket })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.write_all(bytes)
    }

    /// The next frame.
    pub(crate) fn receive(&mut self) -> Result<Vec<u8>> {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length)).map_err(Error::other)?;
        let mut frame = vec![0; length];
        self.socket.read_exact(&mut frame)?;
        Ok(frame)
    }

    /// Asks something sensible; the body of the answer.
    pub(crate) fn ask(&mut self, api: Api, version: i16, words: &Words) -> Result<Bytes> {
        let body = make::body(api, version, &Aim::Plain, words);
        self.send(&make::frame(api, version, 1, &body))?;
        let answer = self.receive()?;
        let head = 4 + usize::try_from(api.response_header_version(version)).unwrap_or(0);
        let body = answer.get(head..).ok_or(ErrorKind::UnexpectedEof)?;
        Ok(Bytes::copy_from_slice(body))
    }

    /// Sends a frame, and a small question behind it, whose answer says that the frame has been
    /// dealt with: not every request is answered. The time counts from the last byte sent.
    pub(crate) fn fate_of(&mut self, frame: &[u8], limit: Duration) -> Fate {
        let behind = make::frame(Api::ApiVersions, 0, BEHIND, &[]);
        let written = self.send(frame).and_then(|()| self.send(&behind));
        let begun = Instant::now();
        if written.is_err() {
            return Fate::Refused(begun.elapsed());
        }
        self.fate(begun, limit)
    }

    /// Goes on waiting.
    pub(crate) fn fate(&mut self, begun: Instant, limit: Duration) -> Fate {
        let mut reader = Frames::default();
        let mut buffer = vec![0; 1 << 20];
        let _ = self.socket.set_read_timeout(Some(TICK));
        let fate = loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => break Fate::Refused(begun.elapsed()),
                Ok(count) => {
                    if reader.has_ended(&buffer[..count]) {
                        break Fate::Answered(begun.elapsed());
                    }
                }
                Err(error) if is_timeout(&error) => {}
                Err(_) => break Fate::Refused(begun.elapsed()),
            }
            if begun.elapsed() > limit {
                break Fate::Waits;
            }
        };
        let _ = self.socket.set_read_timeout(Some(PATIENCE));
        fate
    }
}

fn is_timeout(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Looks for the answer to the question behind, and keeps nothing.
#[derive(Default)]
struct Frames {
    /// Length and correlation id of the frame that comes.
    head: Vec<u8>,
    /// Bytes of it that are still to come.
    left: usize,
}

impl Frames {
    fn has_ended(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            if self.left == 0 {
                let more = (8 - self.head.len()).min(bytes.len());
                self.head.extend(&bytes[..more]);
                bytes = &bytes[more..];
                let (Some(length), Some(id)) = (self.head.first_chunk(), self.head.last_chunk())
                else {
                    return false;
                };
                if self.head.len() < 8 {
                    return false;
                }
                self.left = (u32::from_be_bytes(*length) as usize).saturating_sub(4);
                let id = i32::from_be_bytes(*id);
                self.head.clear();
                if id == BEHIND {
                    return true;
                }
            }
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];
        }
        false
    }
}
