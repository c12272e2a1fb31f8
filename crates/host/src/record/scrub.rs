//! What of the names and texts that were read may be disclosed.
//!
//! Pure. Invariants: of the files of other programs only what the facts follow from is kept: which
//! knobs they set, not to what; a card that is named by its hardware address gets another name,
//! the same one everywhere; files that people named get numbers.

use std::collections::BTreeMap;

use super::Entry;
use crate::facts::{boot, mounts, owners};

/// Beginning of the names of cards that are named by their hardware address, before its digits.
const BY_ADDRESS: &str = "enx";
const ADDRESS_DIGITS: usize = 12;
/// Files whose presence is the fact; they hold names of containers, and options of the
/// kernel.
const MARKS: &[&str] = &[
    ".dockerenv",
    "run/.containerenv",
    "run/ostree-booted",
    "etc/default/grub",
    "etc/kernelstub/configuration",
];

/// Returns what may be disclosed of the entries, by the name that it has then.
pub(super) fn disclosed(found: &BTreeMap<String, Entry>) -> BTreeMap<String, Entry> {
    let kept = found
        .iter()
        .filter_map(|(name, entry)| Some((name, of_entry(name, entry)?)));
    let mut connections = 0_usize;
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    for (name, entry) in kept {
        let name = if owners::is_of_manager(name) {
            connections += 1;
            owners::connection(connections)
        } else {
            name.clone()
        };
        entries.insert(name, entry);
    }
    let others = renamed(&entries);
    let rename = |text: &str| {
        others
            .iter()
            .fold(text.to_owned(), |text, (old, new)| text.replace(old, new))
    };
    entries
        .iter()
        .map(|(name, entry)| {
            let entry = match entry {
                Entry::Text(text) => Entry::Text(rename(text)),
                Entry::Link(target) => Entry::Link(rename(target)),
            };
            (rename(name), entry)
        })
        .collect()
}

/// Returns what is kept of an entry; none if nothing is.
fn of_entry(name: &str, entry: &Entry) -> Option<Entry> {
    let Entry::Text(text) = entry else {
        return Some(entry.clone());
    };
    let is_of_process = |file: &str| name.starts_with("proc/") && name.ends_with(file);
    Some(Entry::Text(match () {
        () if name == "proc/1/environ" || name.ends_with("boot_id") => return None,
        () if is_of_process("/comm") && !owners::is_program(text.trim()) => return None,
        () if MARKS.contains(&name) || name.ends_with("/loader.conf") => String::new(),
        () if name == "proc/cmdline" => boot::options(text).join(" ") + "\n",
        () if is_of_process("/cmdline") => owners::banned_of(text),
        () if name == "proc/cpuinfo" => lines(text, |line| !line.starts_with("Serial")),
        // Who knows the key can send packets that all come to one queue.
        () if name.ends_with("/rss_key") => "0".repeat(text.trim().len()) + "\n",
        () if name == "proc/self/mountinfo" => mounts::without_names(text),
        () if name.contains("/sysctl.") => owners::sysctls_of(text),
        () if name.ends_with(".link") => owners::links_of(text),
        () if name.ends_with("/tuned.conf") => owners::profile_of(text),
        () if owners::is_of_manager(name) => owners::settings_of(text),
        () if owners::cloud::is_of_cloud(name) => owners::cloud::told(text),
        () => text.clone(),
    }))
}

fn lines(text: &str, is_kept: impl Fn(&str) -> bool) -> String {
    let kept = text.lines().filter(|line| is_kept(line));
    kept.fold(String::new(), |all, line| all + line + "\n")
}

/// Returns the names of cards that hold an address, with those that stand for them.
fn renamed(entries: &BTreeMap<String, Entry>) -> BTreeMap<String, String> {
    let mut others = BTreeMap::new();
    for (name, entry) in entries {
        let (Entry::Text(text) | Entry::Link(text)) = entry;
        for found in by_address(name).into_iter().chain(by_address(text)) {
            let number = others.len() + 1;
            others
                .entry(found)
                .or_insert_with(|| format!("{BY_ADDRESS}{number:0ADDRESS_DIGITS$}"));
        }
    }
    others
}

/// Returns the names in a text that hold an address.
fn by_address(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(BY_ADDRESS) {
        let digits = text.get(at + BY_ADDRESS.len()..).unwrap_or_default();
        let digits: String = digits
            .chars()
            .take_while(char::is_ascii_hexdigit)
            .take(ADDRESS_DIGITS)
            .collect();
        if digits.len() == ADDRESS_DIGITS {
            found.push(format!("{BY_ADDRESS}{digits}"));
        }
    }
    found
}
