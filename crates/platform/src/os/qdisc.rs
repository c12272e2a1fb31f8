//! Counters of the queues in which packets wait to be sent (qdiscs), through rtnetlink: the kernel
//! shows them nowhere else.
//!
//! Invariant: bytes of the kernel are parsed by checked lengths; only the queue at the root of each
//! device is returned, which counts for the queues below it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// `RTM_NEWQDISC` and `RTM_GETQDISC`.
const NEW_QDISC: u16 = 36;
const GET_QDISC: u16 = 38;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_DUMP: u16 = 0x301;
const HEAD_BYTES: usize = 16;
/// `struct tcmsg`.
const BODY_BYTES: usize = 20;
/// `TC_H_ROOT`.
const ROOT: u32 = 0xffff_ffff;
/// `TCA_KIND`, `TCA_STATS2`, `TCA_STATS_QUEUE`.
const KIND: u16 = 1;
const STATS: u16 = 7;
const STATS_OF_QUEUE: u16 = 3;
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Limit on the messages of one dump.
const MESSAGES_MAX: usize = 65_536;

/// The queue at the root of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Qdisc {
    /// The kernel's index of the device.
    pub device: u32,
    /// Its kind, such as `mq` and `pfifo_fast`.
    pub kind: String,
    /// Packets it has dropped.
    pub drops: u32,
    /// How often it had to wait.
    pub overlimits: u32,
}

/// Returns the queues of all devices of this network namespace.
pub fn all() -> io::Result<Vec<Qdisc>> {
    let socket: OwnedFd = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // Without a protocol it is rtnetlink.
        None,
    )?;
    let mut request = Vec::new();
    request.extend(
        u32::try_from(HEAD_BYTES + BODY_BYTES)
            .unwrap_or(0)
            .to_ne_bytes(),
    );
    request.extend(GET_QDISC.to_ne_bytes());
    request.extend(REQUEST_DUMP.to_ne_bytes());
    request.resize(HEAD_BYTES + BODY_BYTES, 0);
    send(socket.as_fd(), &request, SendFlags::empty())?;
    let mut found = Vec::new();
    let mut buffer = vec![0_u8; ANSWER_BYTES_MAX];
    assert_eq!(request.len(), HEAD_BYTES + BODY_BYTES, "a head and a body");
    for _ in 0..MESSAGES_MAX {
        let (length, _) = recv(socket.as_fd(), &mut buffer[..], RecvFlags::empty())?;
        if !take(&buffer[..length.min(ANSWER_BYTES_MAX)], &mut found)? {
            return Ok(found);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Takes the queues of an answer; returns whether more follow.
fn take(mut answer: &[u8], found: &mut Vec<Qdisc>) -> io::Result<bool> {
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
            NEW_QDISC if body.len() >= BODY_BYTES && word(body, 12) == ROOT => {
                found.push(qdisc(word(body, 4), &body[BODY_BYTES..]));
            }
            _ => {}
        }
        answer = &answer[length.next_multiple_of(4).min(answer.len())..];
    }
    Ok(true)
}

fn qdisc(device: u32, attributes: &[u8]) -> Qdisc {
    let kind = attribute(attributes, KIND).unwrap_or_default();
    let kind = kind.split(|byte| *byte == 0).next().unwrap_or_default();
    let stats = attribute(attributes, STATS).unwrap_or_default();
    // `gnet_stats_queue`: length, bytes, drops, requeues, overlimits.
    let queue = attribute(stats, STATS_OF_QUEUE).unwrap_or_default();
    Qdisc {
        device,
        kind: String::from_utf8_lossy(kind).into_owned(),
        drops: word(queue, 8),
        overlimits: word(queue, 16),
    }
}

/// Returns the payload of an attribute.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    const NESTED: u16 = 0x8000;
    while attributes.len() >= 4 {
        let length = usize::from(short(attributes, 0));
        if length < 4 || length > attributes.len() {
            return None;
        }
        if short(attributes, 2) & !NESTED == wanted {
            return Some(&attributes[4..length]);
        }
        attributes = &attributes[length.next_multiple_of(4).min(attributes.len())..];
    }
    None
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_ne_bytes)
}

fn short(bytes: &[u8], at: usize) -> u16 {
    let two = bytes.get(at..at + 2).and_then(|two| two.try_into().ok());
    two.map_or(0, u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute_bytes(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + payload.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(parent: u32) -> Vec<u8> {
        let queue: Vec<u8> = [1_u32, 2, 77, 4, 5]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let stats = attribute_bytes(STATS_OF_QUEUE, &queue);
        let mut body = vec![0_u8; BODY_BYTES];
        body[4..8].copy_from_slice(&3_u32.to_ne_bytes());
        body[12..16].copy_from_slice(&parent.to_ne_bytes());
        body.extend(attribute_bytes(KIND, b"pfifo_fast\0"));
        body.extend(attribute_bytes(STATS, &stats));
        let mut bytes = u32::try_from(HEAD_BYTES + body.len())
            .unwrap()
            .to_ne_bytes()
            .to_vec();
        bytes.extend(NEW_QDISC.to_ne_bytes());
        bytes.resize(HEAD_BYTES, 0);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn the_queue_at_the_root_counts() {
        let answer = [message(ROOT), message(0x1_0000)].concat();
        let mut found = Vec::new();
        assert!(take(&answer, &mut found).unwrap());
        let expect = Qdisc {
            device: 3,
            kind: "pfifo_fast".to_owned(),
            drops: 77,
            overlimits: 5,
        };
        assert_eq!(found, [expect]);
    }

    #[test]
    fn an_answer_that_is_cut_is_an_error_or_nothing() {
        let whole = message(ROOT);
        for end in 0..whole.len() {
            let mut found = Vec::new();
            let more = take(&whole[..end], &mut found);
            assert!(more.is_err() || found.is_empty(), "{end}");
        }
    }

    #[test]
    fn this_kernel_answers() {
        // Without any device but the loopback the list may be empty.
        assert!(all().is_ok(), "{:?}", all());
    }
}
