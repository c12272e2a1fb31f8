//! Which CPUs take a card's interrupts, and which are left to the server.
//!
//! Of each node with a card in use, one core of sixteen takes interrupts, and at least one of four. Pure.

use serde::Serialize;

use crate::cpus::Cpus;
use crate::facts::Facts;
use crate::facts::net::Nic;

/// One CPU of so many takes interrupts.
const SERVED_BY_ONE: usize = 16;
/// A node with fewer CPUs is not divided.
const CPUS_MIN: usize = 4;

/// The CPUs of a host, divided.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Split {
    /// Those that take interrupts of cards.
    pub interrupts: Cpus,
    /// Those of the server, those at the node of a card first in a list of their own.
    pub server: Cpus,
}

/// The cards that are worth it: up, with a device.
pub fn cards(facts: &Facts) -> impl Iterator<Item = &Nic> {
    facts
        .nics
        .iter()
        .filter(|nic| nic.up && nic.driver.is_some())
}

/// The CPUs for the interrupts of a card: at its node; at the first where that is not known. None where the node is too
/// small to be divided.
pub fn for_card(facts: &Facts, nic: &Nic) -> Option<Cpus> {
    let nodes = &facts.topology.nodes;
    let node = nodes
        .iter()
        .find(|node| Some(node.number) == nic.node)
        .or_else(|| nodes.first())?;
    if node.cpus.len() < CPUS_MIN {
        return None;
    }
    // Of each core the first thread, so that interrupts do not share a core with each other.
    let cores = node.cpus.and(&facts.topology.cores);
    let count = node
        .cpus
        .len()
        .div_ceil(SERVED_BY_ONE)
        .min(cores.len().max(1));
    Some(cores.iter().take(count).collect())
}

/// The whole host divided; none where it has no card in use or is too small.
pub fn split(facts: &Facts) -> Option<Split> {
    let mut interrupts = Cpus::default();
    for nic in cards(facts) {
        interrupts = interrupts.or(&for_card(facts, nic)?);
    }
    let server = facts.topology.online.without(&interrupts);
    (!interrupts.is_empty() && !server.is_empty()).then_some(Split { interrupts, server })
}
