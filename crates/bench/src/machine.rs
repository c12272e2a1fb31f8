//! Facts on the machine, without which a measured figure means nothing.
//!
//! Reads `/proc`, `/sys` and `/etc` below a root, which tests replace by recorded files. Facts that
//! cannot be read are left out.

use std::path::Path;

/// Returns the facts as (name, value), in display order.
pub fn facts(root: &Path) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.push((name.to_owned(), value));
        }
    };
    let cpuinfo = text(root, "proc/cpuinfo").unwrap_or_default();
    add("processor", after(&cpuinfo, "model name", ':'));
    add("cores", cores(&cpuinfo));
    add("instruction sets", instruction_sets(&cpuinfo));
    add("memory", memory(root));
    add("swap", swap(root));
    add("NUMA nodes", numa_nodes(root));
    add("kernel", kernel(root));
    add("operating system", os(root));
    add("virtualisation", Some(virtualisation(root, &cpuinfo)));
    add(
        "congestion control",
        text(root, "proc/sys/net/ipv4/tcp_congestion_control").map(|name| congestion(&name)),
    );
    add(
        "transparent huge pages",
        chosen(root, "sys/kernel/mm/transparent_hugepage/enabled"),
    );
    add(
        "frequency governor",
        text(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
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
pub fn directory(root: &Path, dir: &Path) -> Option<String> {
    let mounts = text(root, "proc/self/mountinfo")?;
    let best = mounts
        .lines()
        .filter_map(mount)
        .filter(|mount| dir.starts_with(&mount.at))
        .max_by_key(|mount| mount.at.len())?;
    let disk = disk_of(root, &best.number).unwrap_or_default();
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
fn disk_of(root: &Path, number: &str) -> Option<String> {
    let device = root.join("sys/dev/block").join(number);
    let queue = [device.join("queue"), device.join("../queue")]
        .into_iter()
        .find(|queue| queue.is_dir())?;
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let rotational = read(&queue.join("rotational"))?;
    let kind = if rotational.trim() == "1" {
        "rotational"
    } else {
        "not rotational"
    };
    let cache = read(&queue.join("write_cache")).unwrap_or_default();
    let model = read(&queue.join("../device/model")).unwrap_or_default();
    let parts = [model.trim(), kind, cache.trim()];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    Some(format!(", {}", parts.join(", ")))
}

fn text(root: &Path, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(root.join(name)).ok()?;
    Some(text.trim().to_owned())
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

fn kib(root: &Path, name: &str) -> Option<u64> {
    let meminfo = text(root, "proc/meminfo")?;
    let value = after(&meminfo, name, ':')?;
    value.split(' ').next()?.parse().ok()
}

/// Returns the bytes of memory that can be allocated without swapping.
pub fn memory_available(root: &Path) -> Option<u64> {
    Some(kib(root, "MemAvailable")? * 1024)
}

fn memory(root: &Path) -> Option<String> {
    let kib = kib(root, "MemTotal")?;
    Some(format!("{:.1} GiB", kib as f64 / (1024.0 * 1024.0)))
}

fn swap(root: &Path) -> Option<String> {
    let kib = kib(root, "SwapTotal")?;
    (kib > 0).then(|| format!("{:.1} GiB", kib as f64 / (1024.0 * 1024.0)))
}

fn numa_nodes(root: &Path) -> Option<String> {
    let entries = std::fs::read_dir(root.join("sys/devices/system/node")).ok()?;
    let numbered = |name: &str| {
        let number = name.strip_prefix("node");
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let nodes = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| numbered(name))
        .count();
    (nodes > 1).then(|| nodes.to_string())
}

fn kernel(root: &Path) -> Option<String> {
    let kind = text(root, "proc/sys/kernel/ostype")?;
    Some(format!(
        "{kind} {}",
        text(root, "proc/sys/kernel/osrelease")?
    ))
}

fn os(root: &Path) -> Option<String> {
    after(&text(root, "etc/os-release")?, "PRETTY_NAME", '=')
}

fn virtualisation(root: &Path, cpuinfo: &str) -> String {
    let flags = after(cpuinfo, "flags", ':').unwrap_or_default();
    let hypervisor = flags.split(' ').any(|flag| flag == "hypervisor");
    let product = text(root, "sys/class/dmi/id/product_name");
    let container = root.join(".dockerenv").exists() || root.join("run/.containerenv").exists();
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

/// Returns the bracketed one of a list of choices.
fn chosen(root: &Path, name: &str) -> Option<String> {
    let text = text(root, name)?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests;
