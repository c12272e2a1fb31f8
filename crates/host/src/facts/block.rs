//! Block devices that hold data.

use serde::Serialize;

use crate::root::Tree;

/// A device.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// Whether it is a rotating disk.
    pub rotational: bool,
    /// Its NUMA node.
    pub node: Option<usize>,
    /// The active scheduler.
    pub scheduler: Option<String>,
    /// The write cache that it reports, possibly falsely.
    pub write_cache: Option<String>,
}

pub(super) fn all(tree: &dyn Tree) -> Vec<Disk> {
    let names = tree.names("sys/block");
    let made_up = ["loop", "ram", "zram", "nbd", "sr"];
    let real = names
        .iter()
        .filter(|name| !made_up.iter().any(|prefix| name.starts_with(prefix)));
    real.map(|name| disk(tree, name)).collect()
}

fn disk(tree: &dyn Tree, name: &str) -> Disk {
    let queue = format!("sys/block/{name}/queue");
    let scheduler = tree.text(&format!("{queue}/scheduler"));
    let chosen = |text: String| crate::form::Form::Word.canonical(&text);
    Disk {
        name: name.to_owned(),
        rotational: tree.number(&format!("{queue}/rotational")) == Some(1),
        node: tree
            .number(&format!("sys/block/{name}/device/numa_node"))
            .and_then(|node| usize::try_from(node).ok()),
        scheduler: scheduler.and_then(chosen),
        write_cache: tree.text(&format!("{queue}/write_cache")),
    }
}
