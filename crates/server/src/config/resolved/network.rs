//! Typed settings of sockets, connections and request memory.

use std::net::IpAddr;
use std::time::Duration;

use super::super::problem::Problem;
use super::super::values::Values;
use super::{milliseconds, size};
use crate::machine::Machine;

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
    /// Connections waiting to be accepted.
    pub backlog: i32,
    /// Connections in all.
    pub connections_max: usize,
    /// Connections from one address.
    pub connections_per_ip_max: usize,
    /// The same, for certain addresses.
    pub connections_per_ip_overrides: Vec<(IpAddr, usize)>,
    /// Idle connections are closed after this; `None` never.
    pub idle_max: Option<Duration>,
    /// Requests and responses under way must make progress within this.
    pub stall_max: Duration,
}

impl NetworkSettings {
    pub(super) fn resolve(values: &Values, machine: &Machine, problems: &mut Vec<Problem>) -> Self {
        let buffer = |name| Some(values.int(name)).filter(|bytes| *bytes > 0).map(size);
        Self {
            send_buffer_bytes: buffer("socket.send.buffer.bytes"),
            receive_buffer_bytes: buffer("socket.receive.buffer.bytes"),
            request_bytes_max: size(values.int("socket.request.max.bytes")),
            queued_bytes_max: queued_bytes_max(values, machine, problems),
            backlog: i32::try_from(values.int("socket.listen.backlog.size")).unwrap_or(i32::MAX),
            connections_max: size(values.int("max.connections")),
            connections_per_ip_max: size(values.int("max.connections.per.ip")),
            connections_per_ip_overrides: overrides(values, problems),
            idle_max: Some(values.int("connections.max.idle.ms"))
                .filter(|idle| *idle >= 0)
                .map(milliseconds),
            stall_max: milliseconds(values.int("socket.stall.timeout.ms")),
        }
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

fn overrides(values: &Values, problems: &mut Vec<Problem>) -> Vec<(IpAddr, usize)> {
    const KEY: &str = "max.connections.per.ip.overrides";
    let mut read = Vec::new();
    for item in values.list(KEY) {
        let pair = item.rsplit_once(':').and_then(|(address, count)| {
            let address = address.trim_start_matches('[').trim_end_matches(']');
            Some((address.parse().ok()?, count.trim().parse().ok()?))
        });
        match pair {
            Some(pair) => read.push(pair),
            None => problems.push(values.problem(KEY, format!("{item} must be address:count"))),
        }
    }
    read
}
