//! Counters of the queues in which packets wait to be sent (qdiscs), through rtnetlink: the kernel
//! shows them nowhere else.
//!
//! Invariant: bytes of the kernel are parsed by checked lengths; only the queue at the root of each
//! device is returned, which counts for the queues below it.

use std::io;

use super::netlink::{self, Extent, attribute, word};

/// `RTM_NEWQDISC` and `RTM_GETQDISC`.
const NEW_QDISC: u16 = 36;
const GET_QDISC: u16 = 38;
/// `struct tcmsg`.
const BODY_BYTES: usize = 20;
/// `TC_H_ROOT`.
const ROOT: u32 = 0xffff_ffff;
/// `TCA_KIND`, `TCA_STATS2`, `TCA_STATS_QUEUE`.
const KIND: u16 = 1;
const STATS: u16 = 7;
const STATS_OF_QUEUE: u16 = 3;

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
    let mut found = Vec::new();
    let mut takes = |kind: u16, body: &[u8]| found.extend(of_message(kind, body));
    netlink::ask(None, GET_QDISC, Extent::All, &[0; BODY_BYTES], &mut takes)?;
    Ok(found)
}

/// Returns the queue of a message, if it is at the root of its device.
fn of_message(kind: u16, body: &[u8]) -> Option<Qdisc> {
    let attributes = body.get(BODY_BYTES..)?;
    (kind == NEW_QDISC && word(body, 12) == ROOT).then(|| qdisc(word(body, 4), attributes))
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

#[cfg(test)]
mod tests {
    use super::super::netlink::{attribute_bytes, message_bytes, take};
    use super::*;

    /// Returns the queues of an answer, and whether more follow.
    fn taken(answer: &[u8]) -> io::Result<(Vec<Qdisc>, bool)> {
        let mut found = Vec::new();
        let more = take(answer, &mut |kind, body| {
            found.extend(of_message(kind, body));
        })?;
        Ok((found, more))
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
        message_bytes(NEW_QDISC, &body)
    }

    #[test]
    fn the_queue_at_the_root_counts() {
        let answer = [message(ROOT), message(0x1_0000)].concat();
        let (found, more) = taken(&answer).unwrap();
        assert!(more);
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
            let found = taken(&whole[..end]);
            assert!(found.is_err() || found.unwrap().0.is_empty(), "{end}");
        }
    }

    #[test]
    fn this_kernel_answers() {
        // Without any device but the loopback the list may be empty.
        assert!(all().is_ok(), "{:?}", all());
    }
}
