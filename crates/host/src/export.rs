//! Writes the confirmed changes in other formats: `sysctl.d`, `.link` files of systemd, a profile
//! of tuned, a script.
//!
//! For hosts that are only configured by such files: the files have no journal, no undo and no
//! verification. Pure. Invariant: items that a format cannot express are listed, never dropped
//! silently.

use std::fmt::Write as _;

use crate::apply::Change;
use crate::form::fields;
use crate::knob;
use crate::plan::BOOT;
use crate::root::Tree;

/// An export format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum ExportFormat {
    /// A profile of tuned.
    Tuned,
    /// A file for `/etc/sysctl.d`.
    #[value(name = "sysctl.d")]
    SysctlD,
    /// Files for `/etc/systemd/network`, concatenated.
    Link,
    /// A shell script.
    Script,
}

/// The exported text, and the items that it cannot express.
#[derive(Clone, PartialEq, Eq, serde::Serialize, Debug)]
pub struct ExportedText {
    /// The file.
    pub text: String,
    /// Ids of the items that are not in it.
    pub left_out: Vec<String>,
}

/// Writes changes in a format.
pub fn export(tree: &dyn Tree, changes: &[Change], form: ExportFormat) -> ExportedText {
    match form {
        ExportFormat::SysctlD => lines(changes, |change| {
            let name = change.item.strip_prefix("sysctl.")?;
            Some(format!("{name} = {}", change.want))
        }),
        ExportFormat::Tuned => tuned(tree, changes),
        ExportFormat::Link => link(changes),
        ExportFormat::Script => script(tree, changes),
    }
}

const HEAD: &str = "# Written by `forebay tune export`.\n";

fn lines(changes: &[Change], line: impl Fn(&Change) -> Option<String>) -> ExportedText {
    let mut text = HEAD.to_owned();
    let mut left_out = Vec::new();
    for change in changes {
        match line(change) {
            Some(line) => {
                let _ = writeln!(text, "{line}");
            }
            None => left_out.push(change.item.clone()),
        }
    }
    ExportedText { text, left_out }
}

/// Returns the path of a knob that is a file below `/`, and the text to write.
fn file(tree: &dyn Tree, change: &Change) -> Option<(String, String)> {
    let knob = knob::find(tree, &change.item)?;
    let is_file = knob.name.starts_with("proc/") || knob.name.starts_with("sys/");
    // An interrupt may have another number after the next boot.
    let is_kept = is_file && !knob.name.starts_with("proc/irq/");
    is_kept.then(|| (format!("/{}", knob.name), knob.form.text(&change.want)))
}

fn tuned(tree: &dyn Tree, changes: &[Change]) -> ExportedText {
    let mut sections = [("sysctl", String::new()), ("sysfs", String::new())];
    let mut options = String::new();
    let mut left_out = Vec::new();
    for change in changes {
        if let Some(option) = change.item.strip_prefix(BOOT) {
            let _ = write!(options, " +{option}={}", change.want);
        } else if let Some(name) = change.item.strip_prefix("sysctl.") {
            let _ = writeln!(sections[0].1, "{name} = {}", change.want);
        } else if let Some((path, text)) =
            file(tree, change).filter(|(path, _)| path.starts_with("/sys/"))
        {
            let _ = writeln!(sections[1].1, "{path} = {text}");
        } else {
            left_out.push(change.item.clone());
        }
    }
    let mut text = format!("{HEAD}[main]\nsummary=Settings kept by forebay tune\n");
    for (name, lines) in sections.iter().filter(|(_, lines)| !lines.is_empty()) {
        let _ = write!(text, "\n[{name}]\n{lines}");
    }
    if !options.is_empty() {
        // A name of its own, because of keys with the same name the last one counts.
        let _ = write!(text, "\n[bootloader]\ncmdline_forebay ={options}\n");
    }
    ExportedText { text, left_out }
}

/// The settings that systemd applies when a card appears: (knob, field, name in the file).
const OF_LINKS: &[(&str, &str, &str)] = &[
    ("rings", "rx", "RxBufferSize"),
    ("rings", "tx", "TxBufferSize"),
    ("channels", "rx", "RxChannels"),
    ("channels", "tx", "TxChannels"),
    ("channels", "other", "OtherChannels"),
    ("channels", "combined", "CombinedChannels"),
    ("coalescing", "rx_usecs", "RxCoalesceSec"),
    ("coalescing", "tx_usecs", "TxCoalesceSec"),
    ("coalescing", "rx_frames", "RxMaxCoalescedFrames"),
    ("coalescing", "tx_frames", "TxMaxCoalescedFrames"),
    ("coalescing", "adaptive_rx", "UseAdaptiveRxCoalesce"),
    ("coalescing", "adaptive_tx", "UseAdaptiveTxCoalesce"),
];

fn link(changes: &[Change]) -> ExportedText {
    let mut cards: Vec<(String, String)> = Vec::new();
    let mut left_out = Vec::new();
    for change in changes {
        let of_card = change
            .item
            .strip_prefix("net.")
            .and_then(|rest| rest.rsplit_once('.'));
        let lines = of_card.and_then(|(card, what)| Some((card, of_link(what, &change.want)?)));
        let Some((card, lines)) = lines else {
            left_out.push(change.item.clone());
            continue;
        };
        match cards.iter_mut().find(|(name, _)| name == card) {
            Some((_, text)) => text.push_str(&lines),
            None => cards.push((card.to_owned(), lines)),
        }
    }
    let mut text = HEAD.to_owned();
    for (card, lines) in cards {
        let _ = write!(
            text,
            "# 10-{card}.link\n[Match]\nOriginalName={card}\n\n[Link]\n{lines}"
        );
    }
    ExportedText { text, left_out }
}

fn of_link(what: &str, want: &str) -> Option<String> {
    let mut lines = String::new();
    if what == "tx_queue_len" {
        let _ = writeln!(lines, "TransmitQueueLength={want}");
        return Some(lines);
    }
    for (name, value) in fields(want)? {
        let (.., said) = OF_LINKS
            .iter()
            .find(|(knob, field, _)| *knob == what && *field == name)?;
        let value = match name.as_str() {
            "rx_usecs" | "tx_usecs" => format!("{value}us"),
            "adaptive_rx" | "adaptive_tx" => (value != 0).to_string(),
            _ => value.to_string(),
        };
        let _ = writeln!(lines, "{said}={value}");
    }
    (!lines.is_empty()).then_some(lines)
}

fn script(tree: &dyn Tree, changes: &[Change]) -> ExportedText {
    let exported = lines(changes, |change| {
        let of_card = change
            .item
            .strip_prefix("net.")
            .and_then(|rest| rest.rsplit_once('.'));
        if let Some((card, what @ ("rings" | "channels" | "coalescing"))) = of_card {
            let option = ["-G", "-L", "-C"][["rings", "channels", "coalescing"]
                .iter()
                .position(|one| *one == what)?];
            let mut words = String::new();
            for (name, value) in fields(&change.want)? {
                let value = match name.as_str() {
                    "adaptive_rx" | "adaptive_tx" if value != 0 => "on".to_owned(),
                    "adaptive_rx" | "adaptive_tx" => "off".to_owned(),
                    _ => value.to_string(),
                };
                let _ = write!(words, " {} {value}", name.replace('_', "-"));
            }
            return Some(format!("ethtool {option} {}{words}", quoted(card)));
        }
        let (path, text) = file(tree, change)?;
        Some(format!("echo {} > {}", quoted(&text), quoted(&path)))
    });
    ExportedText {
        text: format!("#!/bin/sh\nset -eu\n{}", exported.text),
        ..exported
    }
}

/// Returns a word quoted for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn changes() -> Vec<Change> {
        let all = [
            ("net.eth0.channels", "combined=4"),
            ("net.eth0.rings", "rx=1024"),
            ("net.eth0.coalescing", "adaptive_rx=0 rx_usecs=50"),
            ("net.eth0.rx-0.rps_cpus", "1-3"),
            ("net.eth0.rx-0.irq", "2"),
            ("sysctl.net.core.somaxconn", "4096"),
            ("block.it's.scheduler", "none"),
        ];
        let change = |(item, want): (&str, &str)| Change {
            item: item.to_owned(),
            want: want.to_owned(),
        };
        all.map(change).to_vec()
    }

    /// tuned edits the entries of loaders, the other forms do not.
    #[test]
    fn boot_options_are_for_tuned() {
        let change = |(item, want): (&str, &str)| Change {
            item: item.to_owned(),
            want: want.to_owned(),
        };
        let items = [("boot.nohz_full", "1-3"), ("boot.tsc", "reliable")];
        let changes = items.map(change);
        let exported = export(&Fake::default(), &changes, ExportFormat::Tuned);
        assert!(exported.left_out.is_empty(), "{exported:?}");
        let lines = "[bootloader]\ncmdline_forebay = +nohz_full=1-3 +tsc=reliable\n";
        assert!(exported.text.ends_with(lines), "{exported:?}");
        let script = export(&Fake::default(), &changes, ExportFormat::Script);
        assert_eq!(script.left_out, ["boot.nohz_full", "boot.tsc"]);
    }

    #[track_caller]
    fn check(form: ExportFormat, text: &str, left_out: &[&str]) {
        let exported = export(&Fake::default(), &changes(), form);
        assert_eq!(exported.text, text);
        assert_eq!(exported.left_out, left_out);
    }

    #[test]
    fn each_form_says_what_it_can_and_names_what_it_cannot() {
        check(
            ExportFormat::SysctlD,
            "# Written by `forebay tune export`.\nnet.core.somaxconn = 4096\n",
            &[
                "net.eth0.channels",
                "net.eth0.rings",
                "net.eth0.coalescing",
                "net.eth0.rx-0.rps_cpus",
                "net.eth0.rx-0.irq",
                "block.it's.scheduler",
            ],
        );
        check(
            ExportFormat::Link,
            "# Written by `forebay tune export`.\n# 10-eth0.link\n[Match]\nOriginalName=eth0\n\n[Link]\nCombinedChannels=4\n\
             RxBufferSize=1024\nUseAdaptiveRxCoalesce=false\nRxCoalesceSec=50us\n",
            &[
                "net.eth0.rx-0.rps_cpus",
                "net.eth0.rx-0.irq",
                "sysctl.net.core.somaxconn",
                "block.it's.scheduler",
            ],
        );
        check(
            ExportFormat::Tuned,
            "# Written by `forebay tune export`.\n[main]\nsummary=Settings kept by forebay tune\n\n[sysctl]\nnet.core.somaxconn = 4096\n\n\
             [sysfs]\n/sys/class/net/eth0/queues/rx-0/rps_cpus = e\n/sys/block/it's/queue/scheduler = none\n",
            &[
                "net.eth0.channels",
                "net.eth0.rings",
                "net.eth0.coalescing",
                "net.eth0.rx-0.irq",
            ],
        );
        check(
            ExportFormat::Script,
            "#!/bin/sh\nset -eu\n# Written by `forebay tune export`.\nethtool -L 'eth0' combined 4\nethtool -G 'eth0' rx 1024\n\
             ethtool -C 'eth0' adaptive-rx off rx-usecs 50\necho 'e' > '/sys/class/net/eth0/queues/rx-0/rps_cpus'\n\
             echo '4096' > '/proc/sys/net/core/somaxconn'\necho 'none' > '/sys/block/it'\\''s/queue/scheduler'\n",
            &["net.eth0.rx-0.irq"],
        );
    }
}
