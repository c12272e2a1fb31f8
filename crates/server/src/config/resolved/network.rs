//! Typed settings of sockets, connections and request memory.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::node_config::{ConnectionLimits, ListenerLimits, creation_rate, parse_overrides};

use super::super::address::Address;
use super::super::problem::Problem;
use super::super::values::Values;
use super::broker_options::windows;
use super::{milliseconds, size};
use crate::machine::Machine;

/// Least memory of responses, unless it is set.
const ANSWERS_BYTES_MIN: usize = 64 << 20;

/// Sockets, connections, request memory.
#[derive(Clone, Debug)]
pub struct NetworkSettings {
    /// Send buffer; `None` leaves it to the system.
    pub send_buffer_bytes: Option<usize>,
    /// Receive buffer; `None` leaves it to the system.
    pub receive_buffer_bytes: Option<usize>,
    /// Largest request.
    pub request_bytes_max: usize,
    /// Memory of all requests together. At least `request_bytes_max`.
    pub queued_bytes_max: usize,
    /// Memory of all responses together.
    pub answers_bytes_max: usize,
    /// Connections waiting to be accepted.
    pub backlog: i32,
    /// Limits on connections, until the metadata changes them.
    pub connections: ConnectionLimits,
    /// Connections that may be not logged in, at listeners that ask for it.
    pub strangers_max: usize,
    /// Time after which an idle connection is closed; `None` never.
    pub idle_max: Option<Duration>,
    /// Requests and responses in progress must make progress within this time.
    pub stall_max: Duration,
}

impl NetworkSettings {
    pub(super) fn resolve(
        values: &Values,
        listeners: &[Address],
        machine: &Machine,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let buffer = |name| Some(values.int(name)).filter(|bytes| *bytes > 0).map(size);
        Self {
            send_buffer_bytes: buffer("socket.send.buffer.bytes"),
            receive_buffer_bytes: buffer("socket.receive.buffer.bytes"),
            request_bytes_max: size(values.int("socket.request.max.bytes")),
            queued_bytes_max: queued_bytes_max(values, machine, problems),
            answers_bytes_max: match values.int("queued.max.response.bytes") {
                -1 => (machine.memory_bytes / 8).max(ANSWERS_BYTES_MIN),
                bytes => size(bytes),
            },
            backlog: i32::try_from(values.int("socket.listen.backlog.size")).unwrap_or(i32::MAX),
            connections: connections(values, listeners, problems),
            strangers_max: size(values.int("max.connections.unauthenticated")),
            idle_max: Some(values.int("connections.max.idle.ms"))
                .filter(|idle| *idle >= 0)
                .map(milliseconds),
            stall_max: milliseconds(values.int("socket.stall.timeout.ms")),
        }
    }

    /// Returns the memory that a shard has for bytes that are not written: one may own all the logs
    /// that are written to.
    pub fn unwritten_bytes_max(&self) -> usize {
        self.queued_bytes_max.saturating_mul(2)
    }
}

fn queued_bytes_max(values: &Values, machine: &Machine, problems: &mut Vec<Problem>) -> usize {
    let largest = values.int("socket.request.max.bytes");
    let queued = values.int("queued.max.request.bytes");
    if queued == -1 {
        return size(largest).max(machine.memory_bytes / 4);
    }
    if queued < largest {
        let allowed = format!("must be -1 or at least socket.request.max.bytes={largest}");
        problems.push(values.problem("queued.max.request.bytes", allowed));
    }
    size(queued)
}

fn connections(
    values: &Values,
    listeners: &[Address],
    problems: &mut Vec<Problem>,
) -> ConnectionLimits {
    const OVERRIDES: &str = "max.connections.per.ip.overrides";
    let overrides = values.string(OVERRIDES);
    let overrides = parse_overrides(&overrides).unwrap_or_else(|entry| {
        let allowed = format!("{entry} must be address:count");
        problems.push(values.problem(OVERRIDES, allowed));
        BTreeMap::new()
    });
    ConnectionLimits {
        all_max: size(values.int("max.connections")),
        per_address_max: size(values.int("max.connections.per.ip")),
        overrides,
        rate: creation_rate(&values.string("max.connection.creation.rate")),
        rate_per_address: None,
        address_rates: BTreeMap::new(),
        windows: windows(values, "quota.window.num", "quota.window.size.seconds"),
        listeners: ListenerLimits::of(listeners.iter().map(|it| it.listener.as_str()), |name| {
            values.of_listener(name)
        }),
    }
}
