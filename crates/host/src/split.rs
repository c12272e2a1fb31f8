//! Divides the CPUs of a host between the interrupts of its cards and the server.
//!
//! On each node with a card in use, one core per sixteen CPUs handles interrupts; a node with fewer
//! than four CPUs is not divided. Pure.

use serde::Serialize;

use crate::cpus::Cpus;
use crate::facts::Facts;
use crate::facts::net::Nic;

/// Number of CPUs per CPU that handles interrupts.
const SERVED_BY_ONE: usize = 16;
/// Smallest number of CPUs of a node that is divided.
const CPUS_MIN: usize = 4;

/// The divided CPUs of a host.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Split {
    /// The CPUs that handle interrupts of cards.
    pub interrupts: Cpus,
    /// The CPUs of the server.
    pub server: Cpus,
}

/// Returns the cards in use: up, with a device.
pub fn cards(facts: &Facts) -> impl Iterator<Item = &Nic> {
    facts
        .nics
        .iter()
        .filter(|nic| nic.up && nic.driver.is_some())
}

/// Returns the CPUs for the interrupts of a card: at its node, or at the first one if its node is
/// unknown.
///
/// None if the node is too small to be divided.
pub fn for_card(facts: &Facts, nic: &Nic) -> Option<Cpus> {
    let nodes = &facts.topology.nodes;
    let node = nodes
        .iter()
        .find(|node| Some(node.number) == nic.node)
        .or_else(|| nodes.first())?;
    if node.cpus.len() < CPUS_MIN {
        return None;
    }
    // Only the first thread of each core, so that two interrupts never share a core. Lists of
    // siblings that contradict each other leave a node without a first thread.
    let mut cores = node.cpus.and(&facts.topology.cores);
    if cores.is_empty() {
        cores = node.cpus.clone();
    }
    let count = node.cpus.len().div_ceil(SERVED_BY_ONE).min(cores.len());
    Some(cores.iter().take(count).collect())
}

/// Divides the whole host; none if it has no card in use or is too small.
pub fn split(facts: &Facts) -> Option<Split> {
    let mut interrupts = Cpus::default();
    for nic in cards(facts) {
        interrupts = interrupts.or(&for_card(facts, nic)?);
    }
    let server = facts.topology.online.without(&interrupts);
    (!interrupts.is_empty() && !server.is_empty()).then_some(Split { interrupts, server })
}
