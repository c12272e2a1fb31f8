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
    /// The devices that it is made of, down to those that are made of none (of a volume or an
    /// array).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
}

/// Limit on how deep devices are made of each other.
const DEPTH_MAX: usize = 8;
/// Limit on the devices that one is made of.
const LEAVES_MAX: usize = 256;

/// Adds the devices that one is made of, down to the last.
fn leaves(tree: &dyn Tree, name: &str, depth: usize, found: &mut Vec<String>) {
    let below = tree.names(&format!("sys/block/{name}/slaves"));
    for one in below {
        let is_made_of_none = tree.names(&format!("sys/block/{one}/slaves")).is_empty();
        if is_made_of_none || depth >= DEPTH_MAX {
            if found.len() < LEAVES_MAX && !found.contains(&one) {
                found.push(one);
            }
        } else {
            leaves(tree, &one, depth + 1, found);
        }
    }
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
    let mut on = Vec::new();
    leaves(tree, name, 0, &mut on);
    Disk {
        on,
        name: name.to_owned(),
        rotational: tree.number(&format!("{queue}/rotational")) == Some(1),
        node: tree
            .number(&format!("sys/block/{name}/device/numa_node"))
            .and_then(|node| usize::try_from(node).ok()),
        scheduler: scheduler.and_then(chosen),
        write_cache: tree.text(&format!("{queue}/write_cache")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn a_volume_is_shown_with_the_disks_below_it() {
        let fake = Fake::new(&[
            ("sys/block/dm-0/slaves/md0/size", "1"),
            ("sys/block/dm-0/queue/rotational", "0"),
            ("sys/block/md0/slaves/nvme0n1/size", "1"),
            ("sys/block/md0/slaves/nvme1n1p2/size", "1"),
            ("sys/block/nvme0n1/queue/rotational", "0"),
            // One that is below itself does not hold the look.
            ("sys/block/dm-9/slaves/dm-9/size", "1"),
        ]);
        let on = |name: &str| {
            let found = all(&fake).into_iter().find(|disk| disk.name == name);
            found.unwrap().on
        };
        assert_eq!(on("dm-0"), ["nvme0n1", "nvme1n1p2"]);
        assert_eq!(on("nvme0n1"), Vec::<String>::new());
        assert_eq!(on("dm-9"), ["dm-9"]);
    }
}
