//! Other programs and files that set knobs on this host. A knob with another owner is not written:
//! two tools that undo each other are worse than none.

pub(crate) mod cloud;

use serde::Serialize;

use super::interrupts::{self, OfQueues};
use crate::root::Tree;

/// Directories of settings that are applied at every boot, in order of precedence.
const SYSCTL_DIRS: &[&str] = &["etc/sysctl.d", "run/sysctl.d", "usr/lib/sysctl.d"];

/// Directories of the files by which systemd sets cards when they appear.
const LINK_DIRS: &[&str] = &[
    "etc/systemd/network",
    "run/systemd/network",
    "usr/lib/systemd/network",
];
/// Beginnings of their lines, with the knobs.
const OF_LINKS: &[(&str, &str)] = &[
    ("RxBufferSize=", "rings"),
    ("TxBufferSize=", "rings"),
    ("CombinedChannels=", "channels"),
    ("RxChannels=", "channels"),
    ("TxChannels=", "channels"),
    ("RxCoalesceSec=", "coalescing"),
    ("TxCoalesceSec=", "coalescing"),
    ("UseAdaptiveRxCoalesce=", "coalescing"),
    ("GenericReceiveOffload=", "features"),
    ("GenericSegmentationOffload=", "features"),
    ("LargeReceiveOffload=", "features"),
    ("TCPSegmentationOffload=", "features"),
    ("RxFlowControl=", "pause"),
    ("TxFlowControl=", "pause"),
    ("TransmitQueueLength=", "tx_queue_len"),
];
/// The connections of `NetworkManager`.
const CONNECTIONS: &str = "etc/NetworkManager/system-connections";
/// Beginnings of their lines, with the knobs.
const OF_MANAGER: &[(&str, &str)] = &[
    ("ring-", "rings"),
    ("channels-", "channels"),
    ("coalesce-", "coalescing"),
    ("feature-", "features"),
    ("pause-", "pause"),
];
/// The units that start with the host.
const WANTS: &str = "etc/systemd/system/multi-user.target.wants";
/// Units of other tuners, which set knobs and end.
const UNITS: &[(&str, &[&str])] = &[
    (
        "redpanda-tuner.service",
        &[
            "*.irq",
            "*.rps_cpus",
            "*.xps_cpus",
            "*.governor",
            "*.scheduler",
            "*.nomerges",
            "sysctl.",
        ],
    ),
    (
        "perftune.service",
        &[
            "*.irq",
            "*.rps_cpus",
            "*.xps_cpus",
            "*.scheduler",
            "*.nomerges",
        ],
    ),
    ("set_irq_affinity.service", &["*.irq"]),
];

/// Programs that set knobs while they run, with their knobs (prefixes of ids, or suffixes after a
/// `*`).
const PROGRAMS: &[(&str, &[&str])] = &[
    ("irqbalance", &["*.irq"]),
    ("tuned", &[]),
    ("bpftune", &["sysctl.net."]),
    ("perftune.py", &["*.irq", "*.rps_cpus", "*.xps_cpus"]),
];

/// Where tuned looks for a profile, in order.
const PROFILES: &[&str] = &[
    "etc/tuned/profiles",
    "etc/tuned",
    "usr/lib/tuned/profiles",
    "usr/lib/tuned",
];
/// Limit on the profiles that are read.
const PROFILES_MAX: usize = 64;
/// The key of a profile for others that it is made of.
const INCLUDE: &str = "include";
/// Plugins of tuned, with their knobs.
const OF_PLUGINS: &[(&str, &[&str])] = &[
    ("cpu", &["cpu."]),
    ("disk", &["block."]),
    ("vm", &["mm.thp."]),
    (
        "net",
        &[
            "*.channels",
            "*.rings",
            "*.coalescing",
            "*.features",
            "*.pause",
            "*.tx_queue_len",
        ],
    ),
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
    for dir in LINK_DIRS {
        let files = tree.names(dir);
        let files = files.iter().filter(|name| name.ends_with(".link"));
        owners.extend(files.filter_map(|name| of_link(tree, &format!("{dir}/{name}"))));
    }
    let connections = tree.names(CONNECTIONS);
    owners.extend(
        connections
            .iter()
            .filter_map(|name| of_connection(tree, &format!("{CONNECTIONS}/{name}"))),
    );
    owners.extend(cloud::all(tree));
    for (unit, knobs) in UNITS {
        let wants = tree.names(WANTS);
        if wants.iter().any(|name| name == unit) {
            let knobs = knobs.iter().map(|knob| (*knob).to_owned()).collect();
            owners.push(Owner {
                name: (*unit).to_owned(),
                knobs,
            });
        }
    }
    owners
}

/// Returns whether a name is a file of connections, which may hold secrets.
pub(crate) fn is_of_manager(name: &str) -> bool {
    name.starts_with(CONNECTIONS)
}

/// Returns the lines of a connection that name its card and set it.
pub(crate) fn settings_of(text: &str) -> String {
    let mut section = "";
    let mut kept = String::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        let is_card = line.starts_with("interface-name=");
        if section == "[ethtool]" || is_card || line == "[connection]" {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Returns the name of a connection whose own name is not told.
pub(crate) fn connection(number: usize) -> String {
    format!("{CONNECTIONS}/{number}.nmconnection")
}

/// Returns the names of the sysctls in a file, without their values, which may be secrets.
pub(crate) fn sysctls_of(text: &str) -> String {
    let names = named(text);
    names.fold(String::new(), |all, name| all + &name + " =\n")
}

/// Returns the lines of a `.link` file that name its card and set it, without addresses.
pub(crate) fn links_of(text: &str) -> String {
    let is_told = |line: &&str| {
        line.starts_with("OriginalName=") || OF_LINKS.iter().any(|(key, _)| line.starts_with(key))
    };
    let kept = text.lines().map(str::trim).filter(is_told);
    kept.fold(String::new(), |all, line| all + line + "\n")
}

/// Returns the sections of a profile of tuned, the profiles that it includes, and the names of its
/// sysctls.
pub(crate) fn profile_of(text: &str) -> String {
    let mut section = "";
    let mut kept = String::new();
    for line in text.lines().map(str::trim) {
        let told = match line.split_once('=') {
            _ if line.starts_with('[') => {
                section = line;
                line.to_owned()
            }
            Some((key, value)) if key.trim() == INCLUDE => format!("{INCLUDE}={}", value.trim()),
            Some((name, _)) if section == "[sysctl]" => format!("{} =", name.trim()),
            _ => continue,
        };
        kept.push_str(&told);
        kept.push('\n');
    }
    kept
}

/// Returns the words of a command line that ban interrupts, in its form.
pub(crate) fn banned_of(command: &str) -> String {
    let mut words = String::new();
    for number in banned(command) {
        words.push_str("--banirq=");
        words.push_str(&number.to_string());
        words.push('\0');
    }
    words
}

/// Returns the interrupts that irqbalance was told to leave alone.
fn banned(command: &str) -> Vec<u32> {
    let mut words = command.split('\0');
    let mut banned = Vec::new();
    while let Some(word) = words.next() {
        let number = match word.strip_prefix("--banirq=") {
            Some(number) => Some(number),
            None if word == "--banirq" || word == "-i" => words.next(),
            None => None,
        };
        banned.extend(number.and_then(|number| number.parse::<u32>().ok()));
    }
    banned
}

/// Returns the knobs of irqbalance: all interrupts of queues, except those that it leaves alone.
fn of_irqbalance(tree: &dyn Tree, pid: &str) -> Vec<String> {
    let banned = banned(
        &tree
            .read(&format!("proc/{pid}/cmdline"))
            .unwrap_or_default(),
    );
    if banned.is_empty() {
        return vec!["*.irq".to_owned()];
    }
    let mut knobs = Vec::new();
    let all = interrupts::all(tree);
    for device in tree.names("sys/class/net") {
        let of_card = OfQueues::read(tree, &all, &device);
        let queues = of_card.each().into_iter();
        let taken = queues.filter(|(_, number)| !banned.contains(number));
        knobs.extend(taken.map(|(queue, _)| format!("net.{device}.{queue}.irq")));
    }
    knobs
}

/// Returns the owner of the settings of cards in a `.link` file of systemd.
fn of_link(tree: &dyn Tree, name: &str) -> Option<Owner> {
    let text = tree.text(name)?;
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.trim().split_once('='));
        lines.find_map(|(found, value)| (found.trim() == key).then(|| value.trim().to_owned()))
    };
    let card = value("OriginalName");
    let has =
        |(prefix, _): &&(&str, &str)| text.lines().any(|line| line.trim().starts_with(prefix));
    let knobs: Vec<String> = OF_LINKS
        .iter()
        .filter(has)
        .map(|(_, knob)| of_card(card.as_deref(), knob))
        .collect();
    let name = format!("/{name}");
    (!knobs.is_empty()).then_some(Owner { name, knobs })
}

/// Returns the owner of the settings of cards in a connection of `NetworkManager`.
fn of_connection(tree: &dyn Tree, name: &str) -> Option<Owner> {
    let text = settings_of(&tree.text(name)?);
    let card = text
        .lines()
        .find_map(|line| line.strip_prefix("interface-name="));
    let has = |(prefix, _): &&(&str, &str)| text.lines().any(|line| line.starts_with(prefix));
    let knobs: Vec<String> = OF_MANAGER
        .iter()
        .filter(has)
        .map(|(_, knob)| of_card(card, knob))
        .collect();
    let name = format!("/{name}");
    (!knobs.is_empty()).then_some(Owner { name, knobs })
}

/// Returns the id of a card's knob, or that of all cards.
fn of_card(card: Option<&str>, knob: &str) -> String {
    match card.filter(|card| !card.contains(['*', '?', ' '])) {
        Some(card) => format!("net.{card}.{knob}"),
        None => format!("*.{knob}"),
    }
}

fn programs(tree: &dyn Tree) -> Vec<Owner> {
    let mut running: Vec<(String, String)> = Vec::new();
    for pid in tree
        .names("proc")
        .iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    {
        let name = tree.text(&format!("proc/{pid}/comm"));
        running.extend(name.map(|name| (name, pid.clone())));
    }
    let mut owners = Vec::new();
    for (program, knobs) in PROGRAMS {
        let Some((_, pid)) = running.iter().find(|(name, _)| name == program) else {
            continue;
        };
        let mut knobs: Vec<String> = knobs.iter().map(|knob| (*knob).to_owned()).collect();
        if *program == "tuned" {
            knobs.extend(of_tuned(tree));
        }
        if *program == "irqbalance" {
            knobs = of_irqbalance(tree, pid);
        }
        let name = (*program).to_owned();
        owners.push(Owner { name, knobs });
    }
    owners
}

/// Returns the knobs that the active profile of tuned sets, and those that it includes: its
/// sysctls, and whole areas for its plugins.
fn of_tuned(tree: &dyn Tree) -> Vec<String> {
    let active = tree.text("etc/tuned/active_profile").unwrap_or_default();
    let mut profiles: Vec<String> = active.split_ascii_whitespace().map(str::to_owned).collect();
    let mut knobs = Vec::new();
    let mut at = 0;
    while let Some(profile) = profiles.get(at).cloned() {
        at += 1;
        let mut texts = PROFILES
            .iter()
            .filter_map(|dir| tree.text(&format!("{dir}/{profile}/tuned.conf")));
        let Some(text) = texts.next() else { continue };
        for more in of_profile(&text, &mut knobs) {
            // One that includes itself, by whatever way, is read once.
            if profiles.len() < PROFILES_MAX && !profiles.contains(&more) {
                profiles.push(more);
            }
        }
    }
    knobs
}

/// Adds the knobs of a profile; returns the profiles that it includes.
fn of_profile(text: &str, knobs: &mut Vec<String>) -> Vec<String> {
    let mut included = Vec::new();
    let mut section = "";
    for line in text.lines().map(str::trim) {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            section = name;
            let plugin = OF_PLUGINS.iter().find(|(plugin, _)| *plugin == section);
            let of_it = plugin.map_or(&[][..], |(_, of_it)| *of_it);
            knobs.extend(of_it.iter().map(|knob| (*knob).to_owned()));
        } else if let Some((name, value)) = line.split_once('=') {
            match (section, name.trim()) {
                ("main", INCLUDE) => {
                    let names = value.split([',', ' ']).map(str::trim);
                    included.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
                }
                ("sysctl", name) => knobs.push(format!("sysctl.{name}")),
                _ => {}
            }
        }
    }
    included
}

/// Returns the owner of the sysctls in a file.
fn of_file(tree: &dyn Tree, name: &str) -> Option<Owner> {
    let text = tree.text(name)?;
    let knobs: Vec<String> = named(&text).map(|name| format!("sysctl.{name}")).collect();
    let name = format!("/{name}");
    (!knobs.is_empty()).then_some(Owner { name, knobs })
}

/// Returns the names of the sysctls in the text of a file.
fn named(text: &str) -> impl Iterator<Item = String> + '_ {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    lines.filter_map(|line| {
        let (name, _) = line.split_once('=')?;
        Some(name.trim().trim_start_matches('-').replace('/', "."))
    })
}

/// Returns whether a program of this name sets knobs.
pub fn is_program(name: &str) -> bool {
    PROGRAMS.iter().any(|(program, _)| *program == name)
}
