//! Cards: full rings, idle queues, interrupts on distant CPUs or on the server's CPUs, backlogs.

use super::{Advice, Confidence, RuleInput, RuleOutput, RuleReasons};
use crate::facts::net::Nic;
use crate::split;

/// Share of squeezed turns above which a larger budget pays; packets come in bursts, so a few are
/// normal.
const SQUEEZED_SHARE: f64 = 0.01;
/// Share of a CPU spent on packets above which the server lacks it.
const SOFTIRQ_SHARE: f64 = 0.10;
/// Largest useful ring; a larger one costs more in the caches than it saves.
const RING_MAX: u32 = 8_192;
const IMBALANCE: f64 = 0.5;
/// The file of the server's CPUs.
const OF_SERVER: &str = "process.cpus";
/// The CPUs of the broker that runs.
const RUNNING: &str = "server.cpus";
/// Kinds of queues that hold as many packets as the card's `tx_queue_len`; the others drop on
/// purpose.
const BY_LENGTH: &[&str] = &["pfifo_fast", "pfifo"];
/// Longest useful queue: a longer one is delay.
const QUEUE_LENGTH_MAX: i64 = 10_000;

pub(super) fn propose(seen: &RuleInput, found: &mut RuleOutput) {
    for nic in split::cards(&seen.facts) {
        ring(seen, nic, found);
        let queues = channels(seen, nic, found);
        interrupts(seen, nic, queues, found);
        steering(seen, nic, found);
        spread(seen, nic, queues, found);
        sending(seen, nic, found);
    }
    backlog(seen, found);
    budget(seen, found);
    server_cpus(seen, found);
}

fn ring(seen: &RuleInput, nic: &Nic, found: &mut RuleOutput) {
    let name = &nic.name;
    let drops = seen.of(&format!("net.{name}.ring_drops"));
    if drops <= 0.0 {
        return;
    }
    if nic.cloud {
        found.advice.push(Advice {
            about: format!("net.{name}"),
            text: format!(
                "{drops} packets were dropped by the card of a cloud provider: that is the allowance of the instance, not \
                 the ring; a larger instance has a larger one"
            ),
        });
        return;
    }
    let Some((now, most)) = nic.rx_ring else {
        return;
    };
    let want = now.saturating_mul(2).min(most).min(RING_MAX);
    let fields = toml::Table::from_iter([("rx".to_owned(), toml::Value::from(want))]);
    let why = format!(
        "{drops} packets found no room in a ring of {now} (most: {most}); doubled, since a longer one costs caches"
    );
    let said = RuleReasons::new(Confidence::High, format!("net.{name}.ring_drops > 0"), why);
    found
        .items
        .extend(seen.item(&format!("net.{name}.rings"), fields, said));
}

/// Proposes fewer channels if there are more queues than CPUs at the card's node and most are idle;
/// returns the new number of queues.
fn channels(seen: &RuleInput, nic: &Nic, found: &mut RuleOutput) -> Option<usize> {
    let (now, _) = nic.combined?;
    let cpus = split::for_card(&seen.facts, nic)?;
    let name = &nic.name;
    let imbalance = seen.of(&format!("net.{name}.imbalance"));
    let near = seen
        .facts
        .topology
        .nodes
        .iter()
        .find(|node| Some(node.number) == nic.node);
    let near = near.map_or(seen.facts.topology.online.len(), |node| node.cpus.len());
    if imbalance < IMBALANCE || (now as usize) <= near || nic.cloud {
        return None;
    }
    let want = i64::try_from(cpus.len()).unwrap_or(1);
    let fields = toml::Table::from_iter([("combined".to_owned(), toml::Value::from(want))]);
    let why = format!(
        "{now} queues for {near} CPUs at its node, and interrupts are uneven ({imbalance:.2}); {want} CPUs take them"
    );
    let said = RuleReasons::new(
        Confidence::Medium,
        format!("net.{name}.imbalance >= {IMBALANCE}"),
        why,
    );
    let item = seen.item(&format!("net.{name}.channels"), fields, said)?;
    found.items.push(item);
    Some(cpus.len())
}

/// Moves interrupts to the CPUs reserved for them, if they slow the server down.
fn interrupts(seen: &RuleInput, nic: &Nic, queues: Option<usize>, found: &mut RuleOutput) {
    let softirq = seen.of("cpu.softirq_share_max");
    let Some(cpus) = split::for_card(&seen.facts, nic) else {
        return;
    };
    if softirq < SOFTIRQ_SHARE {
        return;
    }
    let at = nic.node.map_or_else(
        || "at no known node".to_owned(),
        |node| format!("at node {node}"),
    );
    let cpus: Vec<usize> = cpus.iter().collect();
    for (turn, one) in nic.interrupts.iter().enumerate() {
        // Queues that the change of channels removes lose their interrupts with it.
        if queues.is_some_and(|queues| turn >= queues) {
            break;
        }
        let want = cpus[turn % cpus.len()].to_string();
        let why = format!(
            "the card is {at}, and packets take {:.0} % of a CPU that the server uses",
            softirq * 100.0
        );
        let said = RuleReasons::new(
            Confidence::Medium,
            format!("cpu.softirq_share_max >= {SOFTIRQ_SHARE}"),
            why,
        );
        found
            .items
            .extend(seen.item(&format!("net.{}.{}.irq", nic.name, one.queue), want, said));
    }
}

/// Gives the server the CPUs that take no interrupts, by the file that it reads at its start;
/// without such a file the operator is advised.
fn server_cpus(seen: &RuleInput, found: &mut RuleOutput) {
    if seen.of("cpu.softirq_share_max") < SOFTIRQ_SHARE {
        return;
    }
    let split = split::split(&seen.facts);
    if let Some(split) = &split {
        let why = format!(
            "CPUs {} take the cards' interrupts; the broker that runs moves to the others",
            split.interrupts
        );
        let evidence = format!("cpu.softirq_share_max >= {SOFTIRQ_SHARE}");
        let said = RuleReasons::new(Confidence::Medium, evidence, why);
        found
            .items
            .extend(seen.item(RUNNING, split.server.to_string(), said));
    }
    if let Some(split) = &split
        && seen.knobs.contains_key(OF_SERVER)
    {
        let why = format!(
            "CPUs {} take the cards' interrupts; the server starts on the others",
            split.interrupts
        );
        let evidence = format!("cpu.softirq_share_max >= {SOFTIRQ_SHARE}");
        let said = RuleReasons::new(Confidence::Medium, evidence, why);
        found
            .items
            .extend(seen.item(OF_SERVER, split.server.to_string(), said));
        return;
    }
    let text = match split {
        Some(split) => format!(
            "start the broker with process.cpus={}: CPUs {} take the cards' interrupts",
            split.server, split.interrupts
        ),
        None => "packets take more than 10 % of a CPU, but the nodes are too small to be divided: an experiment has to \
                 show whether a CPU without the server helps"
            .to_owned(),
    };
    let about = "process.cpus".to_owned();
    found.advice.push(Advice { about, text });
}

/// Proposes software steering of packets if there are few queues and many CPUs.
fn steering(seen: &RuleInput, nic: &Nic, found: &mut RuleOutput) {
    let cpus = seen.facts.topology.online.len();
    if nic.rx_queues == 0 || nic.rx_queues * 4 >= cpus {
        return;
    }
    let node = seen
        .facts
        .topology
        .nodes
        .iter()
        .find(|node| Some(node.number) == nic.node);
    let near = node.map_or(&seen.facts.topology.online, |node| &node.cpus);
    for queue in 0..nic.rx_queues {
        let why = format!(
            "{} queues for {cpus} CPUs: one CPU handles what all could",
            nic.rx_queues
        );
        let evidence = format!("net.{}.rx_queues < {}", nic.name, cpus.div_ceil(4));
        let said = RuleReasons::new(Confidence::Medium, evidence, why);
        found.items.extend(seen.item(
            &format!("net.{}.rx-{queue}.rps_cpus", nic.name),
            near.to_string(),
            said,
        ));
    }
}

/// Spreads packets over all queues again, if a table set by hand leaves some of them out.
fn spread(seen: &RuleInput, nic: &Nic, queues: Option<usize>, found: &mut RuleOutput) {
    let id = format!("net.{}.rss", nic.name);
    let Some((_, now)) = seen.knobs.get(&id) else {
        return;
    };
    let uneven = seen.of(&format!("net.{}.imbalance", nic.name));
    // A change of channels makes the kernel spread again.
    if queues.is_some() || uneven < IMBALANCE || nic.rx_queues < 2 {
        return;
    }
    let want = format!("equal={}", nic.rx_queues);
    let why = format!(
        "interrupts of its {} queues are uneven ({uneven:.2}), and the table sends packets by {now:?}",
        nic.rx_queues
    );
    let evidence = format!("net.{}.imbalance >= {IMBALANCE}", nic.name);
    let said = RuleReasons::new(Confidence::Medium, evidence, why);
    found.items.extend(seen.item(&id, want, said));
}

/// Lengthens the queue in which packets wait to be sent, if it was full.
fn sending(seen: &RuleInput, nic: &Nic, found: &mut RuleOutput) {
    let name = &nic.name;
    let dropped = seen.of(&format!("net.{name}.qdisc_drops"));
    let by_length = nic
        .qdisc
        .as_deref()
        .is_some_and(|kind| BY_LENGTH.contains(&kind));
    let id = format!("net.{name}.tx_queue_len");
    if dropped <= 0.0 || !by_length {
        return;
    }
    let Some(now) = seen.number(&id) else { return };
    let want = now.saturating_mul(2).min(QUEUE_LENGTH_MAX);
    let why = format!("{dropped} packets found the queue of {now} full before they were sent");
    let said = RuleReasons::new(
        Confidence::Medium,
        format!("net.{name}.qdisc_drops > 0"),
        why,
    );
    found.items.extend(seen.item(&id, want, said));
}

fn backlog(seen: &RuleInput, found: &mut RuleOutput) {
    let dropped = seen.of("softnet.dropped");
    let id = "sysctl.net.core.netdev_max_backlog";
    if dropped > 0.0
        && let Some(now) = seen.number(id)
    {
        let why = format!("{dropped} packets found a CPU's backlog of {now} full");
        let said = RuleReasons::new(Confidence::High, "softnet.dropped > 0", why);
        found
            .items
            .extend(seen.item(id, now.saturating_mul(4), said));
    }
}

fn budget(seen: &RuleInput, found: &mut RuleOutput) {
    let share = seen.of("softnet.squeezed_share");
    if share <= SQUEEZED_SHARE {
        return;
    }
    for id in [
        "sysctl.net.core.netdev_budget",
        "sysctl.net.core.netdev_budget_usecs",
    ] {
        let Some(now) = seen.number(id) else { continue };
        let why = format!(
            "a CPU had to stop before its packets were handled in {:.1} % of its turns",
            share * 100.0
        );
        let said = RuleReasons::new(
            Confidence::Medium,
            format!("softnet.squeezed_share > {SQUEEZED_SHARE}"),
            why,
        );
        found
            .items
            .extend(seen.item(id, now.saturating_mul(2), said));
    }
}
