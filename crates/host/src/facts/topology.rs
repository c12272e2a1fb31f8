//! Processors, nodes and memory.

use serde::{Serialize, Serializer};

use super::mounts;
use crate::cpus::Cpus;
use crate::root::Tree;

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";

/// Processors and memory.
#[derive(Clone, PartialEq, Default, Serialize, Debug)]
pub struct Topology {
    /// The processor's name.
    pub processor: String,
    /// Release of the kernel.
    pub kernel: String,
    /// CPUs that are online.
    pub online: Cpus,
    /// Number of packages.
    pub packages: usize,
    /// NUMA nodes; a single one if the kernel shows none.
    pub nodes: Vec<Node>,
    /// The first CPU of each core.
    pub cores: Cpus,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Microseconds since the start of the host.
    #[serde(skip)]
    pub uptime_us: Option<u64>,
    /// Whether the host is a virtual machine.
    pub virtual_machine: bool,
    /// Whether this is inside a container.
    pub container: bool,
}

/// A NUMA node with its CPUs.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Node {
    /// Its number.
    pub number: usize,
    /// Its CPUs.
    pub cpus: Cpus,
}

impl Serialize for Cpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Topology {
    pub(super) fn read(tree: &dyn Tree) -> Topology {
        let cpuinfo = tree.read("proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let mut found = cpuinfo.lines().filter_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim().to_owned())
            });
            found.next()
        };
        let online = online(tree).unwrap_or_default();
        let of = |cpu: usize, name: &str| tree.text(&format!("{CPU}/cpu{cpu}/topology/{name}"));
        let mut packages: Vec<String> = online
            .iter()
            .filter_map(|cpu| of(cpu, "physical_package_id"))
            .collect();
        packages.sort();
        packages.dedup();
        let is_first = |cpu: &usize| {
            let siblings = of(*cpu, "thread_siblings_list").and_then(|list| Cpus::from_list(&list));
            siblings
                .and_then(|siblings| siblings.and(&online).iter().next())
                .is_none_or(|first| first == *cpu)
        };
        Topology {
            processor: field("model name").unwrap_or_default(),
            kernel: tree.text("proc/sys/kernel/osrelease").unwrap_or_default(),
            packages: packages.len().max(1),
            nodes: nodes(tree, &online),
            cores: online.iter().filter(is_first).collect(),
            memory_bytes: memory(tree),
            uptime_us: uptime(tree),
            virtual_machine: field("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            container: is_container(tree),
            online,
        }
    }

    /// Returns the nodes per package; more than one means SNC, COD or NPS.
    pub fn nodes_per_package(&self) -> usize {
        self.nodes.len() / self.packages.max(1)
    }

    /// Returns the node of a CPU.
    pub fn node_of(&self, cpu: usize) -> Option<usize> {
        let node = self.nodes.iter().find(|node| node.cpus.contains(cpu))?;
        Some(node.number)
    }
}

/// Returns the CPUs that are online.
pub(crate) fn online(tree: &dyn Tree) -> Option<Cpus> {
    cpus(tree, &format!("{CPU}/online"))
}

fn cpus(tree: &dyn Tree, name: &str) -> Option<Cpus> {
    Cpus::from_list(&tree.text(name)?)
}

fn nodes(tree: &dyn Tree, online: &Cpus) -> Vec<Node> {
    let mut nodes = Vec::new();
    for name in tree.names(NODE) {
        let Some(number) = name
            .strip_prefix("node")
            .and_then(|number| number.parse().ok())
        else {
            continue;
        };
        let cpus = cpus(tree, &format!("{NODE}/{name}/cpulist"))
            .unwrap_or_default()
            .and(online);
        // A memory-only node has no CPU.
        if !cpus.is_empty() {
            nodes.push(Node { number, cpus });
        }
    }
    if nodes.is_empty() {
        let cpus = online.clone();
        nodes.push(Node { number: 0, cpus });
    }
    nodes
}

fn uptime(tree: &dyn Tree) -> Option<u64> {
    let text = tree.text("proc/uptime")?;
    let (seconds, parts) = text.split(' ').next()?.split_once('.')?;
    let (seconds, hundredths): (u64, u64) = (seconds.parse().ok()?, parts.parse().ok()?);
    seconds
        .checked_mul(1_000_000)?
        .checked_add(hundredths.checked_mul(10_000)?)
}

fn memory(tree: &dyn Tree) -> u64 {
    let meminfo = tree.read("proc/meminfo").unwrap_or_default();
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes =
        total.and_then(|total| total.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0).saturating_mul(1_024)
}

/// The kernel's name for the initial PID namespace.
const FIRST_PIDS: &str = "pid:[4026531836]";

/// Beginnings of variables that container engines give the first process.
const OF_ENGINES: &[&str] = &["container=", "KUBERNETES_SERVICE_HOST="];

/// Returns whether this is a container: it has a container engine's mark and its own PID namespace.
///
/// The mark alone does not suffice, because an image may contain it. Engines that leave no mark
/// make `/proc/sys` read-only, unless the container is privileged.
pub(crate) fn is_container(tree: &dyn Tree) -> bool {
    if tree
        .link("proc/self/ns/pid")
        .is_ok_and(|name| name == FIRST_PIDS)
    {
        return false;
    }
    let marks = [".dockerenv", "run/.containerenv"];
    let environ = tree.read("proc/1/environ").unwrap_or_default();
    let is_of_engine = |name: &str| OF_ENGINES.iter().any(|begin| name.starts_with(begin));
    marks.iter().any(|mark| tree.read(mark).is_ok())
        || environ.split('\0').any(is_of_engine)
        || mounts::are_settings_read_only(tree)
}
