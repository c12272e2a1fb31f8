//! Dumps of the kernel through netlink: a request, and messages of attributes until the last one.
//!
//! Invariant: bytes of the kernel are parsed by checked lengths: an answer that is cut is an error
//! or gives nothing, never a panic.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NLM_F_REQUEST`, and with it `NLM_F_DUMP`.
const REQUEST: u16 = 0x1;
const REQUEST_DUMP: u16 = 0x301;
/// Length of the head of a message.
pub(super) const HEAD_BYTES: usize = 16;
/// Length of the head of an attribute.
const ATTRIBUTE_BYTES: usize = 4;
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Limit on the answers to one request.
const ANSWERS_MAX: usize = 65_536;

/// Whether one message is asked for, or all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extent {
    /// One message answers.
    One,
    /// Messages follow each other until the last.
    All,
}

/// Asks the kernel; `takes` gets the kind and the body of each message of the answer.
pub(super) fn ask(
    protocol: Option<Protocol>,
    message: u16,
    extent: Extent,
    body: &[u8],
    takes: &mut dyn FnMut(u16, &[u8]),
) -> io::Result<()> {
    let socket: OwnedFd = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // Without a protocol it is rtnetlink.
        protocol,
    )?;
    let length = HEAD_BYTES.saturating_add(body.len());
    let flags = match extent {
        Extent::One => REQUEST,
        Extent::All => REQUEST_DUMP,
    };
    let mut request = Vec::with_capacity(length);
    request.extend(u32::try_from(length).unwrap_or(0).to_ne_bytes());
    request.extend(message.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.resize(HEAD_BYTES, 0);
    request.extend(body);
    assert_eq!(request.len(), length, "a head and a body");
    send(socket.as_fd(), &request, SendFlags::empty())?;
    let mut buffer = vec![0_u8; ANSWER_BYTES_MAX];
    for _ in 0..ANSWERS_MAX {
        let (length, _) = recv(socket.as_fd(), &mut buffer[..], RecvFlags::empty())?;
        let more = take(&buffer[..length.min(ANSWER_BYTES_MAX)], takes)?;
        if !more || extent == Extent::One {
            return Ok(());
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Takes the messages of an answer; returns whether more follow.
pub(super) fn take(mut answer: &[u8], takes: &mut dyn FnMut(u16, &[u8])) -> io::Result<bool> {
    while answer.len() >= HEAD_BYTES {
        let length = usize::try_from(word(answer, 0)).unwrap_or(0);
        if length < HEAD_BYTES || length > answer.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        assert!(length <= answer.len(), "a message is within its answer");
        let (message, body) = (short(answer, 4), &answer[HEAD_BYTES..length]);
        match message {
            DONE => return Ok(false),
            ERROR => {
                let code = i32::from_ne_bytes(word(body, 0).to_ne_bytes());
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            message => takes(message, body),
        }
        answer = &answer[length.next_multiple_of(4).min(answer.len())..];
    }
    Ok(true)
}

/// Returns the payload of an attribute.
pub(super) fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    /// Marks of nested attributes and of the byte order.
    const MARKS: u16 = 0xc000;
    while attributes.len() >= ATTRIBUTE_BYTES {
        let length = usize::from(short(attributes, 0));
        if length < ATTRIBUTE_BYTES || length > attributes.len() {
            return None;
        }
        if short(attributes, 2) & !MARKS == wanted {
            return Some(&attributes[ATTRIBUTE_BYTES..length]);
        }
        attributes = &attributes[length.next_multiple_of(4).min(attributes.len())..];
    }
    None
}

/// Returns the bytes of an attribute.
pub(super) fn attribute_bytes(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(ATTRIBUTE_BYTES.saturating_add(payload.len())).unwrap_or(0);
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    assert!(bytes.len() >= ATTRIBUTE_BYTES, "an attribute has a head");
    bytes
}

/// Returns a number of four bytes; 0 beyond the end.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_ne_bytes)
}

/// Returns a number of two bytes; 0 beyond the end.
pub(super) fn short(bytes: &[u8], at: usize) -> u16 {
    let two = bytes.get(at..at + 2).and_then(|two| two.try_into().ok());
    two.map_or(0, u16::from_ne_bytes)
}

/// Returns the bytes of a message, for tests of what is parsed.
#[cfg(test)]
pub(super) fn message_bytes(kind: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEAD_BYTES + body.len()).unwrap();
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.resize(HEAD_BYTES, 0);
    bytes.extend(body);
    bytes
}
