//! Namespaces of persistent memory, as the kernel shows them.
//!
//! Invariant: reported, never written: another mode makes a new namespace, without its content.

use serde::Serialize;

use crate::root::Tree;

const DEVICES: &str = "sys/bus/nd/devices";

/// A namespace.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Namespace {
    /// Its name, such as `namespace0.0`.
    pub name: String,
    /// How it can be used: `fsdax` (files are mapped), `devdax`, `sector`, `raw`.
    pub mode: Option<String>,
    /// Its size in bytes.
    pub bytes: Option<u64>,
    /// Its NUMA node.
    pub node: Option<usize>,
    /// Its block device.
    pub disk: Option<String>,
}

/// Returns all namespaces that have a size.
pub(super) fn all(tree: &dyn Tree) -> Vec<Namespace> {
    let names = tree.names(DEVICES);
    let namespaces = names.iter().filter(|name| name.starts_with("namespace"));
    let namespace = |name: &String| {
        let text = |file: &str| tree.text(&format!("{DEVICES}/{name}/{file}"));
        let bytes: Option<u64> = text("size").and_then(|size| size.parse().ok());
        Namespace {
            name: name.clone(),
            mode: text("mode").map(|mode| of_kernel(&mode).to_owned()),
            bytes,
            node: text("numa_node").and_then(|node| node.parse().ok()),
            disk: tree
                .names(&format!("{DEVICES}/{name}/block"))
                .into_iter()
                .next(),
        }
    };
    let found = namespaces.map(namespace);
    // One without a size is where the next could be made.
    found.filter(|one| one.bytes != Some(0)).collect()
}

/// Returns the name that tools give to a mode of the kernel.
fn of_kernel(mode: &str) -> &str {
    match mode {
        "memory" => "fsdax",
        "dax" => "devdax",
        "safe" => "sector",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn namespaces_are_shown_as_tools_name_them() {
        let fake = Fake::new(&[
            ("sys/bus/nd/devices/namespace0.0/mode", "memory"),
            ("sys/bus/nd/devices/namespace0.0/size", "135289372672"),
            ("sys/bus/nd/devices/namespace0.0/numa_node", "1"),
            ("sys/bus/nd/devices/namespace0.0/block/pmem0/size", "1"),
            ("sys/bus/nd/devices/namespace1.0/size", "0"),
            ("sys/bus/nd/devices/region0/size", "135289372672"),
        ]);
        let expect = Namespace {
            name: "namespace0.0".to_owned(),
            mode: Some("fsdax".to_owned()),
            bytes: Some(135_289_372_672),
            node: Some(1),
            disk: Some("pmem0".to_owned()),
        };
        assert_eq!(all(&fake), [expect]);
    }
}
