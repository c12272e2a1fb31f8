//! What the firmware and the boot have decided: no knob changes it while the host runs.
//!
//! Invariant: reported, never proposed. How caches snoop (early, home) is not shown by Linux, so it
//! is known only where the machine's controller is named; that a package is divided into nodes is
//! seen by their number.

use serde::Serialize;

use super::loader::Loader;
use super::topology::Topology;
use crate::root::Tree;

const CPU: &str = "sys/devices/system/cpu";
/// Options of the kernel's command line that are shown; the others may hold secrets.
const OPTIONS: &[&str] = &[
    "isolcpus",
    "nohz_full",
    "rcu_nocbs",
    "mitigations",
    "idle",
    "processor.max_cstate",
    "intel_idle.max_cstate",
    "intel_pstate",
    "tsc",
    "skew_tick",
    "transparent_hugepage",
    "default_hugepagesz",
    "hugepages",
];

/// Decisions of firmware and boot.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Boot {
    /// Nodes of a package: more than one is sub-NUMA clustering, cluster on die, or NPS.
    pub nodes_per_package: usize,
    /// How caches of packages ask each other; none without a controller, because Linux does not
    /// show it.
    pub snoop: Option<String>,
    /// Known options of the kernel's command line.
    pub options: Vec<String>,
    /// What puts options there at the next start; none if it is not known.
    pub loader: Option<Loader>,
    /// States in which an idle CPU waits.
    pub idle: Vec<IdleState>,
    /// Faults of the processor without a mitigation.
    pub vulnerable: Vec<String>,
}

/// A state in which an idle CPU waits.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct IdleState {
    /// Its name.
    pub name: String,
    /// Microseconds until the CPU works again.
    pub latency_us: i64,
    /// Whether it is switched off.
    pub disabled: bool,
}

impl Boot {
    pub(super) fn read(tree: &dyn Tree, topology: &Topology) -> Boot {
        let command = tree.read("proc/cmdline").unwrap_or_default();
        Boot {
            nodes_per_package: topology.nodes_per_package(),
            snoop: tree.text("firmware-now/cpu.snoop"),
            options: options(&command),
            loader: Loader::read(tree),
            idle: idle(tree),
            vulnerable: vulnerable(tree),
        }
    }
}

/// Returns the known options of a command line.
pub(crate) fn options(command: &str) -> Vec<String> {
    // What follows a lone `--` is for the first process.
    let words = command
        .split_ascii_whitespace()
        .take_while(|word| *word != "--");
    let is_known = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default();
        OPTIONS.contains(&name)
    };
    words.filter(is_known).map(str::to_owned).collect()
}

fn idle(tree: &dyn Tree) -> Vec<IdleState> {
    let dir = format!("{CPU}/cpu0/cpuidle");
    let state = |name: String| {
        let of = |file: &str| format!("{dir}/{name}/{file}");
        Some(IdleState {
            name: tree.text(&of("name"))?,
            latency_us: tree.number(&of("latency"))?,
            disabled: tree.number(&of("disable")) == Some(1),
        })
    };
    tree.names(&dir).into_iter().filter_map(state).collect()
}

fn vulnerable(tree: &dyn Tree) -> Vec<String> {
    let dir = format!("{CPU}/vulnerabilities");
    let mut names = tree.names(&dir);
    names.retain(|name| {
        let text = tree.text(&format!("{dir}/{name}"));
        text.is_some_and(|text| text.starts_with("Vulnerable"))
    });
    names
}
