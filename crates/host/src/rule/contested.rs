//! Contested settings: proposed as experiments, and only applied if named.
//!
//! Huge pages are not among them: the broker has small pages only, whatever the setting is, unless
//! a tier is mapped persistent memory, and then its mappings have huge ones by their own alignment.

use super::{Advice, Confidence, Profile, RuleInput, RuleOutput, RuleReasons};

pub(super) fn propose(seen: &RuleInput, found: &mut RuleOutput) {
    if seen.profile == Profile::Throughput {
        return;
    }
    let said = |why: &str| RuleReasons::new(Confidence::Experiment, "", why);
    if seen.profile == Profile::Keyed && seen.facts.topology.nodes.len() > 1 {
        let why =
            "pages that are moved between nodes take time, and an index is used from all of them";
        let balancing = seen.item("sysctl.kernel.numa_balancing", 0, said(why));
        found.items.extend(balancing);
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
    idle(seen, found);
    snoop(seen, found);
    ticks(seen, found);
    for nic in crate::split::cards(&seen.facts) {
        let why = "packets of a flow are merged before the protocols see them: fewer turns, and a delay for small ones";
        let off = toml::Table::from_iter([("gro".to_owned(), toml::Value::from(0))]);
        let id = format!("net.{}.features", nic.name);
        let has =
            |(_, now): &(crate::knob::Knob, String)| now.split(' ').any(|field| field == "gro=1");
        if seen.knobs.get(&id).is_some_and(has) {
            found.items.extend(seen.item(&id, off, said(why)));
        }
    }
    let why = "packets are handled by threads that the scheduler may move; on a CPU of the server that is harmful";
    for nic in crate::split::cards(&seen.facts) {
        found
            .items
            .extend(seen.item(&format!("net.{}.threaded", nic.name), 1, said(why)));
    }
}

/// Latency of an idle state, in microseconds, from which a request notices it.
const NOTICED_US: i64 = 50;
/// Bound on the time in which a CPU works again: the shallow states remain.
const WAKES_IN_US: i64 = 20;

/// Keeps the server's CPUs out of deep idle states.
fn idle(seen: &RuleInput, found: &mut RuleOutput) {
    let states = seen.facts.boot.idle.iter().filter(|state| !state.disabled);
    let Some(deepest) = states
        .map(|state| state.latency_us)
        .max()
        .filter(|us| *us >= NOTICED_US)
    else {
        return;
    };
    let server = crate::split::split(&seen.facts).map(|split| split.server);
    for cpu in server
        .unwrap_or_else(|| seen.facts.topology.online.clone())
        .iter()
    {
        let why = format!(
            "an idle CPU takes up to {deepest} us to work again; shallow states cost power, and the boost of the others"
        );
        let said = RuleReasons::new(Confidence::Experiment, "", why);
        found
            .items
            .extend(seen.item(&format!("cpu.cpu{cpu}.latency_us"), WAKES_IN_US, said));
    }
}

/// Says how the snoop mode, which costs a restart, would be tried.
fn snoop(seen: &RuleInput, found: &mut RuleOutput) {
    let id = "firmware.cpu.snoop";
    let (true, Some(now)) = (seen.knobs.contains_key(id), &seen.facts.boot.snoop) else {
        return;
    };
    let text = format!(
        "it is {now}: early snoop answers sooner on idle sockets, home snoop loses less on busy ones; a plan of its own, \
         on half of the hosts of each site (fleet assign), shows which is better here"
    );
    found.advice.push(Advice {
        about: id.to_owned(),
        text,
    });
}

/// Says how the kernel's ticks would be kept off the server's CPUs, which costs a restart.
fn ticks(seen: &RuleInput, found: &mut RuleOutput) {
    let boot = &seen.facts.boot;
    let Some(split) = crate::split::split(&seen.facts) else {
        return;
    };
    if boot
        .options
        .iter()
        .any(|option| option.starts_with("nohz_full"))
    {
        return;
    }
    let option = format!("nohz_full={}", split.server);
    let how = crate::facts::loader::how(boot.loader, &option);
    let text = format!(
        "a CPU with one busy thread is interrupted by no tick, and each change between threads costs more; as an item of a plan \
         (boot.nohz_full) it is checked, on half of the hosts of each site (fleet assign) it is compared: {how}"
    );
    found.advice.push(Advice {
        about: "boot.nohz_full".to_owned(),
        text,
    });
}
