//! Other programs and files that set knobs on this host. A knob with another owner is not written:
//! two tools that undo each other are worse than none.

use serde::Serialize;

use crate::root::Tree;

/// Directories of settings that are applied at every boot, in order of precedence.
const SYSCTL_DIRS: &[&str] = &["etc/sysctl.d", "run/sysctl.d", "usr/lib/sysctl.d"];

/// Programs that set knobs while they run, with their knobs (prefixes of ids, or suffixes after a
/// `*`).
const PROGRAMS: &[(&str, &[&str])] = &[
    ("irqbalance", &["*.irq"]),
    ("tuned", &[]),
    ("bpftune", &["sysctl.net."]),
    ("perftune.py", &["*.irq", "*.rps_cpus", "*.xps_cpus"]),
];

/// An owner and its knobs.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Owner {
    /// A program, or a file.
    pub name: String,
    /// The ids it owns: whole ids, prefixes that end in a dot, or suffixes after a `*`.
    pub knobs: Vec<String>,
}

impl Owner {
    /// Returns whether it owns a knob.
    pub fn has(&self, id: &str) -> bool {
        self.knobs.iter().any(|knob| match knob.strip_prefix('*') {
            Some(end) => id.ends_with(end),
            None if knob.ends_with('.') => id.starts_with(knob.as_str()),
            None => id == knob,
        })
    }
}

/// Returns all owners on this host.
pub(super) fn all(tree: &dyn Tree) -> Vec<Owner> {
    let mut owners = programs(tree);
    for dir in SYSCTL_DIRS {
        let files = tree.names(dir);
        let files = files.iter().filter(|name| name.ends_with(".conf"));
        owners.extend(files.filter_map(|name| of_file(tree, &format!("{dir}/{name}"))));
    }
    owners.extend(of_file(tree, "etc/sysctl.conf"));
    owners
}

fn programs(tree: &dyn Tree) -> Vec<Owner> {
    let mut running: Vec<String> = Vec::new();
    for pid in tree
        .names("proc")
        .iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    {
        running.extend(tree.text(&format!("proc/{pid}/comm")));
    }
    let mut owners = Vec::new();
    for (program, knobs) in PROGRAMS {
        if !running.iter().any(|name| name == program) {
            continue;
        }
        let mut knobs: Vec<String> = knobs.iter().map(|knob| (*knob).to_owned()).collect();
        if *program == "tuned" {
            knobs.extend(of_tuned(tree));
        }
        let name = (*program).to_owned();
        owners.push(Owner { name, knobs });
    }
    owners
}

/// Returns the knobs that the active profile of tuned sets: its sysctls, and whole areas for its
/// plugins.
fn of_tuned(tree: &dyn Tree) -> Vec<String> {
    let active = tree.text("etc/tuned/active_profile").unwrap_or_default();
    let mut knobs = Vec::new();
    for profile in active.split_ascii_whitespace() {
        let places = [
            format!("etc/tuned/{profile}/tuned.conf"),
            format!("usr/lib/tuned/{profile}/tuned.conf"),
        ];
        let Some(text) = places.iter().find_map(|place| tree.text(place)) else {
            continue;
        };
        let mut section = "";
        for line in text.lines().map(str::trim) {
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
            {
                section = name;
                match section {
                    "cpu" => knobs.push("cpu.".to_owned()),
                    "disk" => knobs.push("block.".to_owned()),
                    "vm" => knobs.push("mm.thp.".to_owned()),
                    _ => {}
                }
            } else if section == "sysctl"
                && let Some((name, _)) = line.split_once('=')
            {
                knobs.push(format!("sysctl.{}", name.trim()));
            }
        }
    }
    knobs
}

/// Returns the owner of the sysctls in a file.
fn of_file(tree: &dyn Tree, name: &str) -> Option<Owner> {
    let text = tree.text(name)?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let named = lines.filter_map(|line| {
        Some(
            line.split_once('=')?
                .0
                .trim()
                .trim_start_matches('-')
                .replace('/', "."),
        )
    });
    let knobs: Vec<String> = named.map(|name| format!("sysctl.{name}")).collect();
    let name = format!("/{name}");
    (!knobs.is_empty()).then_some(Owner { name, knobs })
}

/// Returns whether a program of this name sets knobs.
pub fn is_program(name: &str) -> bool {
    PROGRAMS.iter().any(|(program, _)| *program == name)
}
