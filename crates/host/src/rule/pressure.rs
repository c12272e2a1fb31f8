//! What is lacking: memory and disks, by the kernel's account of waiting (PSI), and descriptors of
//! the broker. No knob makes up for it, so it is advice.

use super::{Advice, RuleInput, RuleOutput};

/// Share of the time since the start in which all tasks that could work waited.
const FULL_SHARE: f64 = 0.01;

/// Fewer open files than this are fewer clients and partitions than a broker is for.
const FILES_MIN: u64 = 65_536;

/// Advises a larger limit of open files for the next start of the broker.
fn files(seen: &RuleInput, found: &mut RuleOutput) {
    let mut limits = seen.facts.limits.iter();
    let files = limits.find(|limit| limit.name == "LimitNOFILE");
    let Some(soft) = files.and_then(|limit| limit.soft) else {
        return;
    };
    if soft < FILES_MIN {
        found.advice.push(Advice {
            about: "limits.nofile".to_owned(),
            text: format!(
                "the broker that runs may have {soft} files and connections: LimitNOFILE=1048576 in its unit (systemctl edit), and \
                 a restart of it"
            ),
        });
    }
}

pub(super) fn propose(seen: &RuleInput, found: &mut RuleOutput) {
    files(seen, found);
    let lacking = [
        (
            "memory",
            "less of it for others, or more of it: an experiment of any knob would measure the lack of it",
        ),
        (
            "io",
            "the disks are at their limit: their queues hide that from no one",
        ),
    ];
    for (resource, what) in lacking {
        let share = seen.of(&format!("pressure.{resource}.full_share"));
        if share >= FULL_SHARE {
            found.advice.push(Advice {
                about: format!("pressure.{resource}"),
                text: format!(
                    "in {:.1} % of the time everything that could work waited for {resource}: {what}",
                    share * 100.0
                ),
            });
        }
    }
}
