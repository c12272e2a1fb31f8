//! Cards and sysctls of networks belong to a network namespace: the same name in another one is another knob.

use super::Outcome;
use crate::root::Tree;
use crate::transaction::Transaction;

/// The namespace of this process; none where the kernel names none (a copy of a host).
pub(crate) fn name(tree: &dyn Tree) -> Option<String> {
    tree.link("proc/self/ns/net").ok()
}

/// Whether an item belongs to one.
pub(crate) fn has(item: &str) -> bool {
    item.starts_with("net.") || item.starts_with("sysctl.net.")
}

/// Another namespace than this one.
pub(crate) struct Elsewhere {
    name: String,
    here: String,
    is_gone: bool,
}

/// The namespace in which a transaction was applied, where it is not this one.
pub(crate) fn elsewhere(tree: &dyn Tree, transaction: &Transaction) -> Option<Elsewhere> {
    let here = name(tree)?;
    let there = transaction.network.clone()?;
    (there != here).then(|| Elsewhere {
        is_gone: is_gone(tree, &there),
        name: there,
        here,
    })
}

impl Elsewhere {
    /// What comes of taking an item back from here.
    pub(super) fn outcome(&self) -> Outcome {
        let Elsewhere { name, here, .. } = self;
        let error = if self.is_gone {
            format!("its network namespace {name} is gone")
        } else {
            format!("it is of the network namespace {name}, and this is {here}")
        };
        if self.is_gone {
            Outcome::Gone { error }
        } else {
            Outcome::Refused { error }
        }
    }
}

/// Whether no process is in it, and it is bound to no name.
fn is_gone(tree: &dyn Tree, network: &str) -> bool {
    // Where that cannot be seen nothing is known.
    let Ok(mounts) = tree.read("proc/self/mountinfo") else {
        return false;
    };
    if mounts.contains(network) {
        return false;
    }
    let processes = tree.names("proc");
    let numbered = processes
        .iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    !numbered
        .filter_map(|pid| tree.link(&format!("proc/{pid}/ns/net")).ok())
        .any(|name| name == network)
}
