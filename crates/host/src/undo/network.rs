//! Network namespaces of cards and network sysctls: the same name in another namespace is another
//! knob.

use super::UndoOutcome;
use crate::root::Tree;
use crate::transaction::Transaction;

/// Returns the namespace of this process; none if the kernel names none (a copy of a host).
pub(crate) fn name(tree: &dyn Tree) -> Option<String> {
    tree.link("proc/self/ns/net").ok()
}

/// Returns whether an item belongs to a network namespace.
pub(crate) fn has(item: &str) -> bool {
    item.starts_with("net.") || item.starts_with("sysctl.net.")
}

/// A namespace other than this process's.
pub(crate) struct OtherNamespace {
    name: String,
    here: String,
    is_gone: bool,
}

/// Returns the namespace of a transaction if it is not this one.
pub(crate) fn elsewhere(tree: &dyn Tree, transaction: &Transaction) -> Option<OtherNamespace> {
    let here = name(tree)?;
    let there = transaction.network.clone()?;
    (there != here).then(|| OtherNamespace {
        is_gone: is_gone(tree, &there),
        name: there,
        here,
    })
}

impl OtherNamespace {
    /// Returns the outcome of taking an item back from here.
    pub(super) fn outcome(&self) -> UndoOutcome {
        let OtherNamespace { name, here, .. } = self;
        let error = if self.is_gone {
            format!("its network namespace {name} is gone")
        } else {
            format!("it is of the network namespace {name}, and this is {here}")
        };
        if self.is_gone {
            UndoOutcome::Gone { error }
        } else {
            UndoOutcome::Refused { error }
        }
    }
}

/// Returns whether the namespace has no process and no mount.
fn is_gone(tree: &dyn Tree, network: &str) -> bool {
    // Without this file the answer is unknown.
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
