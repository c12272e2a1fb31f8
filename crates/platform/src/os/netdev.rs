//! Which queue of a card is polled by what: the queues, the NAPI contexts that poll them, and the
//! interrupt and the thread of each context, through the kernel's `netdev` family of generic
//! netlink.
//!
//! Drivers name interrupts as they please; this map is the kernel's own. Kernels before 6.7 have no
//! such family, and several drivers tell no interrupts: then the names are all there is. Invariant:
//! what is not told is absent, not 0.

use std::io;

use rustix::net::netlink::GENERIC;

use super::netlink::{self, Extent, attribute, attribute_bytes, short, word};

/// `GENL_ID_CTRL` and `CTRL_CMD_GETFAMILY`, of the family that knows the others.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
/// `CTRL_ATTR_FAMILY_ID` and `CTRL_ATTR_FAMILY_NAME`.
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const NAME: &[u8] = b"netdev\0";
/// `struct genlmsghdr`.
const BODY_BYTES: usize = 4;
/// `NETDEV_CMD_QUEUE_GET` and `NETDEV_CMD_NAPI_GET`.
const QUEUE_GET: u8 = 10;
const NAPI_GET: u8 = 11;
/// `NETDEV_A_QUEUE_..`: the number, the device, the direction, the context.
const QUEUE_ID: u16 = 1;
const QUEUE_DEVICE: u16 = 2;
const QUEUE_TYPE: u16 = 3;
const QUEUE_NAPI: u16 = 4;
/// `NETDEV_QUEUE_TYPE_RX`.
const RECEIVES: u32 = 0;
/// `NETDEV_A_NAPI_..`: the device, the number, the interrupt, the thread.
const NAPI_DEVICE: u16 = 1;
const NAPI_ID: u16 = 2;
const NAPI_IRQ: u16 = 3;
const NAPI_PID: u16 = 4;
/// Limit on the queues of a card.
const QUEUES_MAX: usize = 16_384;

/// A queue and what polls it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PolledQueue {
    /// Whether it is for sent packets; otherwise it is for received ones.
    pub sends: bool,
    /// Its number among the queues of its direction.
    pub number: u32,
    /// Its context; none if the driver does not tell.
    pub napi: Option<u32>,
    /// The interrupt of its context.
    pub irq: Option<u32>,
    /// The thread that runs its context, if a thread does.
    pub thread: Option<u32>,
}

/// A context of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Napi {
    id: u32,
    irq: Option<u32>,
    thread: Option<u32>,
}

/// Returns the queues of a device, by its index: those for received packets first.
pub fn queues(device: u32) -> io::Result<Vec<PolledQueue>> {
    let family = family()?;
    let mut contexts: Vec<Napi> = Vec::new();
    let of_device = attribute_bytes(NAPI_DEVICE, &device.to_ne_bytes());
    dump(family, NAPI_GET, &of_device, &mut |attributes| {
        contexts.extend(napi(attributes, device));
    })?;
    let mut found: Vec<PolledQueue> = Vec::new();
    let of_device = attribute_bytes(QUEUE_DEVICE, &device.to_ne_bytes());
    dump(family, QUEUE_GET, &of_device, &mut |attributes| {
        if found.len() < QUEUES_MAX {
            found.extend(queue(attributes, device, &contexts));
        }
    })?;
    assert!(found.len() <= QUEUES_MAX, "no card has more queues");
    found.sort_unstable();
    Ok(found)
}

/// Returns the number that the kernel gave the family at its start.
fn family() -> io::Result<u16> {
    let mut found = None;
    let body = body_bytes(GET_FAMILY, &attribute_bytes(FAMILY_NAME, NAME));
    netlink::ask(
        Some(GENERIC),
        CONTROL,
        Extent::One,
        &body,
        &mut |_, body| {
            let id = body
                .get(BODY_BYTES..)
                .and_then(|of| attribute(of, FAMILY_ID));
            found = id.map(|id| short(id, 0));
        },
    )?;
    found.ok_or_else(|| io::ErrorKind::Unsupported.into())
}

fn dump(
    family: u16,
    command: u8,
    attributes: &[u8],
    takes: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    let body = body_bytes(command, attributes);
    netlink::ask(
        Some(GENERIC),
        family,
        Extent::All,
        &body,
        &mut |kind, body| {
            if let Some(attributes) = body.get(BODY_BYTES..).filter(|_| kind == family) {
                takes(attributes);
            }
        },
    )
}

/// Returns a command of the first version, and its attributes.
fn body_bytes(command: u8, attributes: &[u8]) -> Vec<u8> {
    let mut body = vec![command, 1, 0, 0];
    body.extend(attributes);
    assert!(
        body.len() >= BODY_BYTES,
        "a command is before its attributes"
    );
    body
}

fn number(attributes: &[u8], wanted: u16) -> Option<u32> {
    attribute(attributes, wanted)
        .filter(|bytes| bytes.len() >= 4)
        .map(|bytes| word(bytes, 0))
}

fn napi(attributes: &[u8], device: u32) -> Option<Napi> {
    (number(attributes, NAPI_DEVICE)? == device).then_some(())?;
    Some(Napi {
        id: number(attributes, NAPI_ID)?,
        irq: number(attributes, NAPI_IRQ).filter(|irq| *irq > 0),
        thread: number(attributes, NAPI_PID).filter(|pid| *pid > 0),
    })
}

fn queue(attributes: &[u8], device: u32, contexts: &[Napi]) -> Option<PolledQueue> {
    (number(attributes, QUEUE_DEVICE)? == device).then_some(())?;
    let id = number(attributes, QUEUE_NAPI);
    let of_it = contexts.iter().find(|context| Some(context.id) == id);
    Some(PolledQueue {
        sends: number(attributes, QUEUE_TYPE)? != RECEIVES,
        number: number(attributes, QUEUE_ID)?,
        napi: id,
        irq: of_it.and_then(|context| context.irq),
        thread: of_it.and_then(|context| context.thread),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(of: &[(u16, u32)]) -> Vec<u8> {
        let bytes = of
            .iter()
            .map(|(kind, value)| attribute_bytes(*kind, &value.to_ne_bytes()));
        bytes.flatten().collect()
    }

    #[test]
    fn a_queue_has_the_interrupt_of_its_context() {
        let context = attributes(&[(NAPI_DEVICE, 3), (NAPI_ID, 515), (NAPI_IRQ, 41)]);
        let contexts = [napi(&context, 3).unwrap()];
        assert_eq!(napi(&context, 4), None, "of another device");
        let of = |napi: u32| {
            let bytes = attributes(&[
                (QUEUE_ID, 7),
                (QUEUE_TYPE, 1),
                (QUEUE_NAPI, napi),
                (QUEUE_DEVICE, 3),
            ]);
            queue(&bytes, 3, &contexts).unwrap()
        };
        let expect = PolledQueue {
            sends: true,
            number: 7,
            napi: Some(515),
            irq: Some(41),
            thread: None,
        };
        assert_eq!(of(515), expect);
        assert_eq!((of(516).irq, of(516).napi), (None, Some(516)));
    }

    #[test]
    fn attributes_that_are_cut_give_nothing() {
        let whole = attributes(&[(QUEUE_DEVICE, 3), (QUEUE_TYPE, 0), (QUEUE_ID, 1)]);
        for end in 0..whole.len() {
            assert_eq!(queue(&whole[..end], 3, &[]), None, "{end}");
        }
        assert!(queue(&whole, 3, &[]).is_some());
    }

    #[test]
    fn this_kernel_answers_or_has_no_such_family() {
        match queues(1) {
            // The loopback has no context of its own.
            Ok(found) => assert!(found.iter().all(|queue| queue.irq.is_none()), "{found:?}"),
            Err(error) => assert!(family().is_err(), "{error}"),
        }
    }
}
