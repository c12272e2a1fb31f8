//! What polls each queue of a card, as the kernel tells it (`netdev/DEVICE` in the tree): its
//! interrupt and its thread.
//!
//! Where the kernel or the driver does not tell, the names of interrupts are all there is
//! ([`super::interrupts`]).

use serde::Serialize;

use crate::root::Tree;

/// A queue, by the kernel's map.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct PolledQueue {
    /// Its name, such as `rx-0` or `tx-3`.
    pub queue: String,
    /// The number of what polls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub napi: Option<u32>,
    /// Its interrupt, which can change and must not be stored.
    #[serde(skip)]
    pub irq: Option<u32>,
    /// The thread that polls it.
    #[serde(skip)]
    pub thread: Option<u32>,
}

/// Returns the queues of a card; none if the kernel does not tell.
pub fn of_device(tree: &dyn Tree, device: &str) -> Vec<PolledQueue> {
    let text = tree.read(&format!("netdev/{device}")).unwrap_or_default();
    text.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<PolledQueue> {
    let mut words = line.split_ascii_whitespace();
    let queue = words.next()?.to_owned();
    let fields: Vec<(&str, &str)> = words.filter_map(|word| word.split_once('=')).collect();
    let field = |name: &str| {
        let found = fields.iter().find(|(field, _)| *field == name)?;
        found.1.parse().ok()
    };
    Some(PolledQueue {
        queue,
        napi: field("napi"),
        irq: field("irq"),
        thread: field("thread"),
    })
}
