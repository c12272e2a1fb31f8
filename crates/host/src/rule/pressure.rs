//! Waiting for memory and disks, by the kernel's account (PSI): no knob makes up for what is
//! lacking, so it is said.

use super::{Advice, RuleInput, RuleOutput};

/// Share of the time since the start in which all tasks that could work waited.
const FULL_SHARE: f64 = 0.01;

pub(super) fn propose(seen: &RuleInput, found: &mut RuleOutput) {
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
