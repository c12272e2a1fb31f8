//! The facts on a host: processors, memory, cards, disks, and other owners of its knobs. They are
//! read from a tree, so that a recorded host gives the same facts as the host itself.
//!
//! Invariants: nothing is guessed: a fact that cannot be read is absent; nothing secret is read (no
//! serial numbers, no addresses).

pub mod block;
pub mod boot;
pub mod interrupts;
pub mod limits;
pub mod loader;
pub mod machine;
pub mod mounts;
pub mod net;
pub mod owners;
pub mod pmem;
pub mod queues;
pub mod topology;

use serde::Serialize;

use crate::root::Tree;

/// All facts.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Facts {
    /// Processors and memory.
    pub topology: topology::Topology,
    /// What firmware and boot have decided.
    pub boot: boot::Boot,
    /// Network cards.
    pub nics: Vec<net::Nic>,
    /// Block devices.
    pub disks: Vec<block::Disk>,
    /// File systems on block devices.
    pub mounts: Vec<mounts::Mount>,
    /// Namespaces of persistent memory.
    pub pmem: Vec<pmem::Namespace>,
    /// Limits of the broker that runs.
    pub limits: Vec<limits::Limit>,
    /// Other programs and files that set knobs.
    pub owners: Vec<owners::Owner>,
}

impl Facts {
    /// Reads all facts.
    pub fn read(tree: &dyn Tree) -> Facts {
        let topology = topology::Topology::read(tree);
        Facts {
            boot: boot::Boot::read(tree, &topology),
            topology,
            nics: net::all(tree),
            disks: block::all(tree),
            mounts: mounts::all(tree),
            pmem: pmem::all(tree),
            limits: limits::all(tree),
            owners: owners::all(tree),
        }
    }

    /// Returns the identity of the hosts that a plan fits.
    ///
    /// It is a digest of processor, kernel, NUMA shape and the drivers of the cards.
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
