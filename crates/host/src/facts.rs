//! What a host is: processors, memory, cards, disks, and who else sets its knobs. Read from a tree, so a recorded host
//! gives the same facts as the host itself.
//!
//! Invariants: nothing is guessed: what cannot be read is absent; nothing secret is read (no serials, no addresses).

pub mod block;
pub mod interrupts;
pub mod net;
pub mod owners;
pub mod topology;

use serde::Serialize;

use crate::root::Tree;

/// All facts.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Facts {
    /// Processors and memory.
    pub topology: topology::Topology,
    /// Network cards.
    pub nics: Vec<net::Nic>,
    /// Block devices.
    pub disks: Vec<block::Disk>,
    /// Who else sets knobs.
    pub owners: Vec<owners::Owner>,
}

impl Facts {
    /// Reads them.
    pub fn read(tree: &dyn Tree) -> Facts {
        Facts {
            topology: topology::Topology::read(tree),
            nics: net::all(tree),
            disks: block::all(tree),
            owners: owners::all(tree),
        }
    }

    /// What a plan is made for: processor, kernel, NUMA shape and the drivers of the cards. Two hosts that are the same in
    /// these have the same.
    pub fn fingerprint(&self) -> String {
        let topology = &self.topology;
        let nodes = topology.nodes.iter().map(|node| node.cpus.to_string());
        let drivers = self.nics.iter().filter_map(|nic| nic.driver.clone());
        let mut parts = vec![topology.processor.clone(), topology.kernel.clone()];
        parts.extend(nodes);
        parts.extend(drivers);
        format!(
            "sha256:{}",
            &crate::hex::sha256(&parts.join(
                "
"
            ))[..32]
        )
    }
}

#[cfg(test)]
mod tests;
