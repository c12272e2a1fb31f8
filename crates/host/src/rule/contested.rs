//! Contested settings: proposed as experiments, and only applied if named.

use super::{Confidence, Profile, RuleInput, RuleOutput, RuleReasons};

pub(super) fn propose(seen: &RuleInput, found: &mut RuleOutput) {
    if seen.profile != Profile::Latency {
        return;
    }
    let said = |why: &str| RuleReasons::new(Confidence::Experiment, "", why);
    if seen
        .knobs
        .get("mm.thp.enabled")
        .is_some_and(|(_, now)| now == "always")
    {
        let why =
            "huge pages save misses and cost stalls when they are made: others advise opposites";
        found
            .items
            .extend(seen.item("mm.thp.enabled", "madvise", said(why)));
    }
    let governors: Vec<&String> = seen
        .knobs
        .keys()
        .filter(|id| id.ends_with(".governor"))
        .collect();
    for id in governors {
        let why = "clocks that rise at once cost power, and heat lowers the highest";
        found.items.extend(seen.item(id, "performance", said(why)));
    }
    let why = "packets are handled by threads that the scheduler may move; on a CPU of the server that is harmful";
    for nic in crate::split::cards(&seen.facts) {
        found
            .items
            .extend(seen.item(&format!("net.{}.threaded", nic.name), 1, said(why)));
    }
}
