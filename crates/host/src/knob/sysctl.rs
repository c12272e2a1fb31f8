//! The known sysctls, each with bounds. The kernel itself accepts values such as `min_free_kbytes =
//! 1`.

use super::{Class, Form, Knob, Undo};
use crate::facts::machine;
use crate::root::Tree;

/// Upper bound of a socket buffer in bytes.
const BUFFER_MAX: i64 = 1 << 30;

/// A name, a form, and the other knob of a pair, which is written back if this one was 0.
type KnownSysctl = (&'static str, Form, Option<&'static str>);

/// Returns the known sysctls.
fn known() -> Vec<KnownSysctl> {
    let mut known = of_networks();
    known.extend(of_kernel());
    known
}

fn of_networks() -> Vec<KnownSysctl> {
    let number = Form::Number;
    vec![
        ("net.core.netdev_max_backlog", number(100, 1_000_000), None),
        ("net.core.netdev_budget", number(50, 10_000), None),
        ("net.core.netdev_budget_usecs", number(500, 100_000), None),
        ("net.core.somaxconn", number(16, 65_535), None),
        ("net.core.rmem_max", number(4_096, BUFFER_MAX), None),
        ("net.core.wmem_max", number(4_096, BUFFER_MAX), None),
        ("net.core.rmem_default", number(4_096, BUFFER_MAX), None),
        ("net.core.wmem_default", number(4_096, BUFFER_MAX), None),
        ("net.core.busy_poll", number(0, 1_000), None),
        ("net.core.busy_read", number(0, 1_000), None),
        (
            "net.core.rps_sock_flow_entries",
            Form::PowerOfTwo(1 << 20),
            None,
        ),
        ("net.ipv4.tcp_max_syn_backlog", number(128, 1 << 20), None),
        (
            "net.ipv4.tcp_rmem",
            Form::Numbers(3, 4_096, BUFFER_MAX),
            None,
        ),
        (
            "net.ipv4.tcp_wmem",
            Form::Numbers(3, 4_096, BUFFER_MAX),
            None,
        ),
        // In pages; in the first namespace alone.
        ("net.ipv4.tcp_mem", Form::Numbers(3, 4_096, 1 << 28), None),
        ("net.ipv4.tcp_congestion_control", Form::Word, None),
        ("net.core.default_qdisc", Form::Word, None),
        ("net.ipv4.tcp_slow_start_after_idle", number(0, 1), None),
        (
            "net.ipv4.tcp_notsent_lowat",
            number(4_096, i64::from(u32::MAX)),
            None,
        ),
        ("net.ipv4.tcp_fin_timeout", number(5, 120), None),
        ("net.ipv4.tcp_tw_reuse", number(0, 2), None),
        ("net.ipv4.tcp_mtu_probing", number(0, 2), None),
    ]
}

fn of_kernel() -> Vec<KnownSysctl> {
    let number = Form::Number;
    vec![
        ("vm.swappiness", number(0, 200), None),
        ("vm.dirty_ratio", number(1, 90), Some("vm.dirty_bytes")),
        (
            "vm.dirty_bytes",
            number(1 << 20, 1 << 40),
            Some("vm.dirty_ratio"),
        ),
        (
            "vm.dirty_background_ratio",
            number(1, 80),
            Some("vm.dirty_background_bytes"),
        ),
        (
            "vm.dirty_background_bytes",
            number(1 << 20, 1 << 40),
            Some("vm.dirty_background_ratio"),
        ),
        ("vm.dirty_expire_centisecs", number(100, 360_000), None),
        ("vm.dirty_writeback_centisecs", number(0, 360_000), None),
        ("vm.min_free_kbytes", number(16_384, 16 << 20), None),
        ("vm.watermark_scale_factor", number(1, 3_000), None),
        ("vm.max_map_count", number(65_530, 1 << 24), None),
        ("vm.nr_hugepages", number(0, 1 << 20), None),
        ("vm.zone_reclaim_mode", number(0, 7), None),
        ("kernel.numa_balancing", number(0, 1), None),
    ]
}

/// Share of the memory that may be kept free, and that may be huge pages: the kernel takes any
/// number, gives what it has, and has nothing left for the processes.
const FREE_SHARE: u64 = 20;
const HUGE_SHARE: u64 = 2;

/// Returns the form of a sysctl whose value is a share of this host's memory.
fn of_memory(tree: &dyn Tree, name: &str, form: Form) -> Form {
    let Form::Number(least, most) = form else {
        return form;
    };
    let memory_kib = || machine::kib(tree, "MemTotal");
    let bound = match name {
        "vm.min_free_kbytes" => memory_kib().map(|kib| kib / FREE_SHARE),
        "vm.nr_hugepages" => memory_kib()
            .zip(machine::kib(tree, "Hugepagesize"))
            .and_then(|(memory, page)| (memory / HUGE_SHARE).checked_div(page)),
        _ => None,
    };
    let bound = bound.and_then(|bound| i64::try_from(bound).ok());
    Form::Number(least, bound.map_or(most, |bound| most.min(bound)))
}

/// Returns the knob of a sysctl.
pub(super) fn find(tree: &dyn Tree, name: &str) -> Option<Knob> {
    let (_, form, pair) = known().into_iter().find(|(known, ..)| *known == name)?;
    let form = of_memory(tree, name, form);
    let mut knob = Knob::new(format!("sysctl.{name}"), file(name), form, Class::O);
    if let Some(pair) = pair {
        knob.undo = Undo::Pair(format!("sysctl.{pair}"));
    }
    Some(knob)
}

/// Returns all known knobs.
pub(super) fn all(tree: &dyn Tree) -> Vec<Knob> {
    let found = known().into_iter().map(|(name, ..)| find(tree, name));
    found.flatten().collect()
}

/// Returns the file of a sysctl.
pub(super) fn file(name: &str) -> String {
    format!("proc/sys/{}", name.replace('.', "/"))
}
