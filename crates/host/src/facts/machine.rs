//! Facts on the machine that a measured figure is of, as text: `forebay bench` stores them with its
//! results.
//!
//! Facts that cannot be read are left out. Not here: facts from which rules conclude, which are
//! types ([`super::Facts`]).

use std::path::Path;

use crate::form::Form;
use crate::root::Tree;

/// Returns the facts as (name, value), in display order.
pub fn facts(tree: &dyn Tree) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.push((name.to_owned(), value));
        }
    };
    let cpuinfo = tree.text("proc/cpuinfo").unwrap_or_default();
    add("processor", after(&cpuinfo, "model name", ':'));
    add("cores", cores(&cpuinfo));
    add("instruction sets", instruction_sets(&cpuinfo));
    add("memory", memory(tree));
    add("swap", swap(tree));
    add("NUMA nodes", numa_nodes(tree));
    add("kernel", kernel(tree));
    add("operating system", os(tree));
    add("virtualisation", Some(virtualisation(tree, &cpuinfo)));
    add(
        "congestion control",
        tree.text("proc/sys/net/ipv4/tcp_congestion_control")
            .map(|name| congestion(&name)),
    );
    add(
        "transparent huge pages",
        chosen(tree, "sys/kernel/mm/transparent_hugepage/enabled"),
    );
    add(
        "frequency governor",
        tree.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    );
    facts
}

/// Returns the default congestion control, with its effect on loopback measurements.
fn congestion(name: &str) -> String {
    match name.trim() {
        "bbr" => "bbr (the generator's own connections within this machine use cubic, because bbr sends at the \
                  pace of a timer there; brokers answer by the default)"
            .to_owned(),
        name => name.to_owned(),
    }
}

/// Returns the disk and file system of a directory: device, file system, options.
pub fn directory(tree: &dyn Tree, dir: &Path) -> Option<String> {
    let mounts = tree.text("proc/self/mountinfo")?;
    let best = mounts
        .lines()
        .filter_map(mount)
        .filter(|mount| dir.starts_with(&mount.at))
        .max_by_key(|mount| mount.at.len())?;
    let disk = disk_of(tree, &best.number).unwrap_or_default();
    Some(format!(
        "{}, {} ({}){disk}",
        best.source, best.kind, best.options
    ))
}

struct Mount {
    number: String,
    at: String,
    kind: String,
    source: String,
    options: String,
}

/// Parses a line of mountinfo: fields up to a lone dash, then kind, source, options.
fn mount(line: &str) -> Option<Mount> {
    let (before, behind) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(2);
    let number = before.next()?.to_owned();
    let at = before.nth(1)?.replace("\\040", " ");
    let mut behind = behind.split(' ');
    Some(Mount {
        number,
        at,
        kind: behind.next()?.to_owned(),
        source: behind.next()?.to_owned(),
        options: behind.next().unwrap_or_default().to_owned(),
    })
}

/// Describes the disk under a file system; for a partition, its disk.
fn disk_of(tree: &dyn Tree, number: &str) -> Option<String> {
    let device = format!("sys/dev/block/{number}");
    let is_disk = |dir: &String| tree.read(&format!("{dir}/queue/rotational")).is_ok();
    // A partition has no queue; in the tree of devices it is below its disk.
    let of_partition = || {
        let link = tree.link(&device).ok()?;
        let disk = link.rsplit('/').nth(1)?;
        Some(format!("sys/block/{disk}"))
    };
    let disk = Some(device.clone())
        .filter(is_disk)
        .or_else(|| of_partition().filter(is_disk))?;
    let kind = match tree.number(&format!("{disk}/queue/rotational"))? {
        1 => "rotational",
        _ => "not rotational",
    };
    let of = |name: &str| tree.text(&format!("{disk}/{name}")).unwrap_or_default();
    let parts = [of("device/model"), kind.to_owned(), of("queue/write_cache")];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    Some(format!(", {}", parts.join(", ")))
}

fn after(text: &str, name: &str, separator: char) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(
        line.split_once(separator)?
            .1
            .trim()
            .trim_matches('"')
            .to_owned(),
    )
}

fn cores(cpuinfo: &str) -> Option<String> {
    let count = cpuinfo
        .lines()
        .filter(|l| l.starts_with("processor"))
        .count();
    (count > 0).then(|| count.to_string())
}

fn instruction_sets(cpuinfo: &str) -> Option<String> {
    let flags = after(cpuinfo, "flags", ':')?;
    let wanted = ["sse4_2", "pclmulqdq", "avx2", "avx512f", "vpclmulqdq"];
    let found: Vec<_> = wanted
        .into_iter()
        .filter(|flag| flags.split(' ').any(|one| one == *flag))
        .collect();
    Some(found.join(" "))
}

/// Returns a line of the kernel's account of memory.
pub(crate) fn kib(tree: &dyn Tree, name: &str) -> Option<u64> {
    let meminfo = tree.text("proc/meminfo")?;
    let value = after(&meminfo, name, ':')?;
    value.split(' ').next()?.parse().ok()
}

/// Returns the bytes of memory that can be allocated without swapping.
pub fn memory_available(tree: &dyn Tree) -> Option<u64> {
    Some(kib(tree, "MemAvailable")?.saturating_mul(1024))
}

fn memory(tree: &dyn Tree) -> Option<String> {
    let kib = kib(tree, "MemTotal")?;
    Some(format!("{:.1} GiB", kib as f64 / (1024.0 * 1024.0)))
}

fn swap(tree: &dyn Tree) -> Option<String> {
    let kib = kib(tree, "SwapTotal")?;
    (kib > 0).then(|| format!("{:.1} GiB", kib as f64 / (1024.0 * 1024.0)))
}

fn numa_nodes(tree: &dyn Tree) -> Option<String> {
    let numbered = |name: &str| {
        let number = name.strip_prefix("node");
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let names = tree.names("sys/devices/system/node");
    let nodes = names.iter().filter(|name| numbered(name)).count();
    (nodes > 1).then(|| nodes.to_string())
}

fn kernel(tree: &dyn Tree) -> Option<String> {
    let kind = tree.text("proc/sys/kernel/ostype")?;
    Some(format!(
        "{kind} {}",
        tree.text("proc/sys/kernel/osrelease")?
    ))
}

fn os(tree: &dyn Tree) -> Option<String> {
    after(&tree.text("etc/os-release")?, "PRETTY_NAME", '=')
}

fn virtualisation(tree: &dyn Tree, cpuinfo: &str) -> String {
    let flags = after(cpuinfo, "flags", ':').unwrap_or_default();
    let hypervisor = flags.split(' ').any(|flag| flag == "hypervisor");
    let product = tree.text("sys/class/dmi/id/product_name");
    let container = [".dockerenv", "run/.containerenv"]
        .iter()
        .any(|mark| tree.read(mark).is_ok());
    let mut parts = Vec::new();
    if hypervisor {
        parts.push(product.map_or_else(
            || "a virtual machine".to_owned(),
            |name| format!("a virtual machine ({name})"),
        ));
    }
    if container {
        parts.push("in a container".to_owned());
    }
    if parts.is_empty() {
        parts.push("none seen".to_owned());
    }
    parts.join(", ")
}

/// Returns the chosen one of a list of words.
fn chosen(tree: &dyn Tree, name: &str) -> Option<String> {
    Form::Word.canonical(&tree.text(name)?)
}

#[cfg(test)]
mod tests;
