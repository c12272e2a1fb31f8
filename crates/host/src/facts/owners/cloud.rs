//! What cloud-init sets: sysctls and cards that its files name, in whatever way (`write_files`,
//! `runcmd`, `bootcmd`).
//!
//! Invariant: only names of knobs leave these files, which hold keys and passwords.

use super::Owner;
use crate::root::Tree;

const DIR: &str = "etc/cloud/cloud.cfg.d";
const FILES: &[&str] = &[
    "etc/cloud/cloud.cfg",
    "var/lib/cloud/instance/cloud-config.txt",
];
/// Where this file is, cloud-init does nothing.
const DISABLED: &str = "etc/cloud/cloud-init.disabled";
/// Areas of sysctls.
const AREAS: &[&str] = &["net.", "vm.", "kernel."];
const PROC: &str = "/proc/sys/";
/// Options of ethtool that set a card, with the knobs.
const OF_ETHTOOL: &[(&str, &str)] = &[
    ("-G", "rings"),
    ("--set-ring", "rings"),
    ("-L", "channels"),
    ("--set-channels", "channels"),
    ("-C", "coalescing"),
    ("--coalesce", "coalescing"),
    ("-K", "features"),
    ("--features", "features"),
    ("--offload", "features"),
    ("-A", "pause"),
    ("--pause", "pause"),
    ("-X", "rss"),
    ("--set-rxfh-indir", "rss"),
];

/// Returns whether a name is one of cloud-init's files.
pub(crate) fn is_of_cloud(name: &str) -> bool {
    FILES.contains(&name) || name.starts_with(DIR)
}

/// Returns the knobs that a text names, a line for each, in a form that names the same knobs.
pub(crate) fn told(text: &str) -> String {
    let line = |knob: String| {
        if let Some(name) = knob.strip_prefix("sysctl.") {
            return format!("{name}\n");
        }
        let of_card = knob
            .strip_prefix("net.")
            .and_then(|rest| rest.rsplit_once('.'));
        let (card, what) = of_card.unwrap_or_default();
        let option = OF_ETHTOOL.iter().find(|(_, knob)| *knob == what);
        option.map_or_else(String::new, |(option, _)| {
            format!("ethtool {option} {card}\n")
        })
    };
    knobs(text).into_iter().map(line).collect()
}

/// Returns cloud-init's files that set knobs.
pub(super) fn all(tree: &dyn Tree) -> Vec<Owner> {
    if tree.read(DISABLED).is_ok() {
        return Vec::new();
    }
    let names = tree.names(DIR);
    let in_dir = names.iter().filter(|name| name.ends_with(".cfg"));
    let files = FILES.iter().map(|file| (*file).to_owned());
    let files = files.chain(in_dir.map(|name| format!("{DIR}/{name}")));
    let owner = |file: String| {
        let knobs = knobs(&tree.text(&file)?);
        let name = format!("cloud-init (/{file})");
        (!knobs.is_empty()).then_some(Owner { name, knobs })
    };
    files.filter_map(owner).collect()
}

/// Returns the ids of the knobs that a text names.
fn knobs(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
    {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-./@".contains(letter);
        let words: Vec<&str> = line
            .split(|letter: char| !is_part(letter))
            .filter(|word| !word.is_empty())
            .collect();
        let of_card = |three: &[&str]| {
            let [program, option, card] = three else {
                return None;
            };
            let (_, knob) = OF_ETHTOOL.iter().find(|(known, _)| known == option)?;
            program
                .ends_with("ethtool")
                .then(|| format!("net.{card}.{knob}"))
        };
        let of_sysctls = words.iter().filter_map(|word| {
            let name = word.strip_prefix(PROC).unwrap_or(word).replace('/', ".");
            let is_known = AREAS.iter().any(|area| name.starts_with(area));
            (is_known && !name.ends_with('.')).then(|| format!("sysctl.{name}"))
        });
        for id in of_sysctls.chain(words.windows(3).filter_map(of_card)) {
            if !found.contains(&id) {
                found.push(id);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const CONFIG: &str = "#cloud-config\n# vm.dirty_ratio: not this\npassword: secret\nwrite_files:\n\
        - path: /etc/sysctl.d/99-x.conf\n  content: |\n    net.core.somaxconn=65535\n\
        runcmd:\n - [ sysctl, -w, \"vm.swappiness=1\" ]\n - echo 3 > /proc/sys/kernel/numa_balancing\n\
         - ethtool -G ens5 rx 8192\n";

    #[test]
    fn what_its_files_name_is_its_own_and_nothing_else_is_told() {
        let fake = Fake::new(&[("etc/cloud/cloud.cfg.d/90-x.cfg", CONFIG)]);
        let owners = all(&fake);
        assert_eq!(
            owners[0].name,
            "cloud-init (/etc/cloud/cloud.cfg.d/90-x.cfg)"
        );
        assert_eq!(
            owners[0].knobs,
            [
                "sysctl.net.core.somaxconn",
                "sysctl.vm.swappiness",
                "sysctl.kernel.numa_balancing",
                "net.ens5.rings",
            ]
        );
        assert!(!told(CONFIG).contains("secret"));
        assert_eq!(knobs(&told(CONFIG)), owners[0].knobs);
        fake.set(DISABLED, "");
        assert!(all(&fake).is_empty());
    }
}
