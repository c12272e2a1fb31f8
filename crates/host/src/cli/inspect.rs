//! `inspect`: shows this host, its drops, and every knob with its value and owner.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::show::{say, table};
use super::{CommandPlace, Exit};
use crate::boot;
use crate::counter::{Counters, DropPlace};
use crate::drop_reason::Tracer;
use crate::facts::Facts;
use crate::facts::boot::{Boot, IdleState};
use crate::facts::mounts::Mount;
use crate::facts::pmem::Namespace;
use crate::firmware;
use crate::journal::store::transactions;
use crate::knob::{self, Class};
use crate::root::Tree;
use crate::watch::{self, Verdict};

#[derive(Serialize)]
struct Inspection {
    fingerprint: String,
    #[serde(flatten)]
    facts: Facts,
    drops: Vec<Drops>,
    /// What drivers counted under names that sound like lost packets and are not known.
    unknown: BTreeMap<String, u64>,
    counters: Counters,
    /// Why packets were dropped while it looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasons: Option<Vec<ReasonCount>>,
    knobs: Vec<ShownKnob>,
}

#[derive(Serialize)]
struct ReasonCount {
    reason: String,
    /// The place in the kernel.
    location: String,
    count: u64,
}

#[derive(Serialize)]
struct Drops {
    place: DropPlace,
    count: u64,
}

#[derive(Serialize)]
struct ShownKnob {
    id: String,
    /// The canonical value; absent if the knob's text has no known form.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    class: Class,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// The transaction of ours that it is in effect by.
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<String>,
}

pub(super) fn run(place: &CommandPlace, reasons: Option<Duration>) -> anyhow::Result<Exit> {
    let reasons = reasons.map(|time| traced(place, time)).transpose()?;
    // A controller that does not answer is not one without settings.
    if let Err(error) = place.root.list(firmware::DIR)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        say(&format!("the settings of the firmware: {error}"));
    }
    let facts = Facts::read(&place.root);
    let counters = Counters::read(&place.root);
    // A user who may not read the journals sees no transactions.
    let ours = transactions(&place.state).unwrap_or_default();
    let ours = watch::look(&place.root, &boot::id(&place.root), &ours);
    let shown = |knob: knob::Knob| ShownKnob {
        transaction: ours
            .iter()
            .find(|one| one.item == knob.id && one.verdict == Verdict::Same)
            .map(|one| one.transaction.clone()),
        value: value(&place.root, &knob),
        class: knob.class,
        owner: facts
            .owners
            .iter()
            .find(|owner| owner.has(&knob.id))
            .map(|owner| owner.name.clone()),
        id: knob.id,
    };
    let drops = counters.drops().into_iter();
    let inspected = Inspection {
        fingerprint: facts.fingerprint(),
        knobs: knob::all(&place.root).into_iter().map(shown).collect(),
        drops: drops.map(|(place, count)| Drops { place, count }).collect(),
        unknown: counters.unknown(),
        reasons,
        counters,
        facts,
    };
    place.format.show(&inspected, || text(&inspected))?;
    Ok(Exit::Done)
}

/// Returns the value to show: what is inspected is sent to others.
fn value(tree: &dyn Tree, knob: &knob::Knob) -> Option<String> {
    let value = knob.read(tree).ok()?;
    Some(if knob::is_secret(&knob.id) {
        "not shown".to_owned()
    } else {
        value
    })
}

/// Counts for a time why packets are dropped, the most frequent first.
fn traced(place: &CommandPlace, time: Duration) -> anyhow::Result<Vec<ReasonCount>> {
    anyhow::ensure!(
        place.root.is_this_machine(),
        "--reasons: the kernel of a copy drops nothing"
    );
    let mut tracer = Tracer::start()?;
    let until = boot::now_ms().saturating_add(u64::try_from(time.as_millis())?);
    while boot::now_ms() < until {
        boot::wait_ms(until.saturating_sub(boot::now_ms()));
    }
    let found = tracer.take().into_iter();
    let reason = |((reason, location), count)| ReasonCount {
        reason,
        location,
        count,
    };
    let mut found: Vec<ReasonCount> = found.map(reason).collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.count));
    Ok(found)
}

/// Returns the reasons as text; empty unless they were asked for.
fn reasons(inspected: &Inspection) -> String {
    let Some(reasons) = &inspected.reasons else {
        return String::new();
    };
    let row = |one: &ReasonCount| {
        vec![
            format!("  {}", one.reason),
            one.location.clone(),
            one.count.to_string(),
        ]
    };
    "dropped while it looked, why and where\n".to_owned()
        + &table(&reasons.iter().map(row).collect::<Vec<_>>())
}

fn text(inspected: &Inspection) -> String {
    let facts = &inspected.facts;
    let disk = |disk: &crate::facts::block::Disk| {
        let kind = if disk.rotational { "turns" } else { "solid" };
        let scheduler = disk.scheduler.clone().unwrap_or_default();
        let cache = disk.write_cache.clone().unwrap_or_default();
        let on = disk.on.join(" ");
        let on = if on.is_empty() {
            on
        } else {
            format!("on {on}")
        };
        vec![disk.name.clone(), kind.to_owned(), scheduler, cache, on]
    };
    let mount = |mount: &Mount| {
        vec![
            format!("  {}", mount.disk),
            mount.kind.clone(),
            mount.options.join(","),
        ]
    };
    let dropped = |drops: &Drops| {
        let place = serde_json::to_value(drops.place).ok();
        let place = place.and_then(|place| Some(place.as_str()?.replace('_', " ")));
        vec![
            format!("  {}", place.unwrap_or_default()),
            drops.count.to_string(),
        ]
    };
    let knob = |shown: &ShownKnob| {
        let value = shown.value.clone().unwrap_or_else(|| "?".to_owned());
        let owner = shown.owner.as_ref();
        let owner = owner.map_or_else(String::new, |owner| format!("set by {owner}"));
        let ours = shown.transaction.as_ref();
        let owner = ours.map_or(owner, |id| format!("ours, transaction {id}"));
        vec![
            format!("  {}", shown.id),
            value,
            format!("{:?}", shown.class),
            owner,
        ]
    };
    [
        table(&host(inspected)),
        table(&facts.nics.iter().map(nic).collect::<Vec<_>>()),
        table(&facts.disks.iter().map(disk).collect::<Vec<_>>()),
        titled(
            "file systems",
            &facts.mounts.iter().map(mount).collect::<Vec<_>>(),
        ),
        titled(
            "persistent memory (another mode erases it)",
            &facts.pmem.iter().map(namespace).collect::<Vec<_>>(),
        ),
        "dropped since the start\n".to_owned()
            + &table(&inspected.drops.iter().map(dropped).collect::<Vec<_>>()),
        unknown(&inspected.unknown),
        reasons(inspected),
        "knobs\n".to_owned() + &table(&inspected.knobs.iter().map(knob).collect::<Vec<_>>()),
    ]
    .into_iter()
    .filter(|part| !part.is_empty())
    .collect::<Vec<_>>()
    .join("\n")
}

/// Returns rows with a title; empty without any.
fn titled(title: &str, rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    format!("{title}\n{}", table(rows))
}

fn namespace(one: &Namespace) -> Vec<String> {
    let unknown = || "?".to_owned();
    vec![
        format!("  {}", one.name),
        one.mode.clone().unwrap_or_else(unknown),
        one.bytes
            .map_or_else(unknown, |bytes| format!("{bytes} bytes")),
        one.node
            .map_or_else(|| "node unknown".to_owned(), |node| format!("node {node}")),
        one.disk.clone().unwrap_or_default(),
    ]
}

/// Returns the counters of drivers that may be drops; empty without any.
fn unknown(counters: &BTreeMap<String, u64>) -> String {
    if counters.is_empty() {
        return String::new();
    }
    let row = |(name, count): (&String, &u64)| vec![format!("  {name}"), count.to_string()];
    let rows: Vec<_> = counters.iter().map(row).collect();
    "counted by drivers, not known whether elsewhere, too\n".to_owned() + &table(&rows)
}

fn host(inspected: &Inspection) -> Vec<Vec<String>> {
    let topology = &inspected.facts.topology;
    let pair = |name: &str, value: String| vec![name.to_owned(), value];
    let (cpus, cores, packages) = (&topology.online, topology.cores.len(), topology.packages);
    let mut host = vec![
        pair("host", inspected.fingerprint.clone()),
        pair("processor", topology.processor.clone()),
        pair("kernel", topology.kernel.clone()),
        pair(
            "CPUs",
            format!("{cpus} in {cores} cores, packages: {packages}"),
        ),
    ];
    for node in &topology.nodes {
        host.push(pair("node", format!("{}: CPUs {}", node.number, node.cpus)));
    }
    if topology.virtual_machine {
        host.push(pair("virtual", "a hypervisor is underneath".to_owned()));
    }
    host.extend(decided(&inspected.facts.boot));
    host
}

/// Returns what no knob changes while the host runs.
fn decided(boot: &Boot) -> Vec<Vec<String>> {
    let pair = |name: &str, value: String| vec![name.to_owned(), value];
    let nodes = match boot.nodes_per_package {
        0 | 1 => "one for each package".to_owned(),
        many => format!("{many} for each package (SNC, CoD or NPS of the firmware)"),
    };
    let snoop = boot.snoop.clone();
    let snoop = snoop.unwrap_or_else(|| "unknown: Linux does not show it".to_owned());
    let mut rows = vec![pair("nodes", nodes), pair("snoop mode", snoop)];
    let idle = |state: &IdleState| {
        let off = if state.disabled { ", off" } else { "" };
        format!("{} ({} us{off})", state.name, state.latency_us)
    };
    let idle: Vec<String> = boot.idle.iter().map(idle).collect();
    let lists = [
        ("boot options", boot.options.join(" ")),
        ("idle states", idle.join(", ")),
        ("not mitigated", boot.vulnerable.join(", ")),
    ];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    rows.extend(lists.map(|(name, list)| pair(name, list)));
    rows
}

fn nic(nic: &crate::facts::net::Nic) -> Vec<String> {
    let driver = nic.driver.clone().unwrap_or_else(|| "no device".to_owned());
    let node = nic
        .node
        .map_or_else(|| "node unknown".to_owned(), |node| format!("node {node}"));
    let ring = nic
        .rx_ring
        .map_or_else(String::new, |(now, most)| format!("ring {now} of {most}"));
    let up = if nic.up { "up" } else { "down" };
    let queues = format!("{} rx, {} tx queues", nic.rx_queues, nic.tx_queues);
    vec![nic.name.clone(), driver, node, up.to_owned(), queues, ring]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn the_key_of_a_cards_hash_is_not_shown() {
        let fake = Fake::new(&[
            ("ethtool/eth0/rss_key", "6d5a6d5a"),
            ("proc/sys/vm/swappiness", "60"),
        ]);
        let shown = |id: &str| value(&fake, &knob::find(&fake, id).unwrap());
        assert_eq!(shown("net.eth0.rss_key").as_deref(), Some("not shown"));
        assert_eq!(shown("sysctl.vm.swappiness").as_deref(), Some("60"));
    }
}
