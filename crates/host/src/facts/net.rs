//! Network cards: driver, node, queues, interrupts, rings.

use serde::Serialize;

use super::interrupts::{self, Interrupt, OfQueues};
use crate::cpus::Cpus;
use crate::form::fields;
use crate::root::{Tree, last};

/// Drivers of the cards of cloud providers, whose drops are due to an allowance, not to a full
/// ring.
const OF_CLOUDS: &[&str] = &["ena", "gve", "mana", "virtio_net", "hv_netvsc"];

/// A card.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// Its driver; none without a device (bridges, tunnels, veth).
    pub driver: Option<String>,
    /// Whether it is a card of a cloud provider.
    pub cloud: bool,
    /// Its NUMA node; none if unknown (-1 occurs).
    pub node: Option<usize>,
    /// Whether it is up.
    pub up: bool,
    /// Speed in megabits per second.
    pub speed: Option<u32>,
    /// Number of receive queues.
    pub rx_queues: usize,
    /// Number of transmit queues.
    pub tx_queues: usize,
    /// The kind of the queue in which packets wait to be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qdisc: Option<String>,
    /// Its interrupts by queue, with the allowed CPUs.
    pub interrupts: Vec<QueueInterrupt>,
    /// Entries of a receive ring as (current, maximum).
    pub rx_ring: Option<(u32, u32)>,
    /// Channels that both send and receive, as (current, maximum).
    pub combined: Option<(u32, u32)>,
}

/// The interrupt of a queue.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct QueueInterrupt {
    /// The name of the queue, such as `rx-0` or `tx-3`.
    pub queue: String,
    /// CPUs on which it is allowed.
    pub cpus: Cpus,
    /// How often it occurred since the start of the host.
    pub times: u64,
}

/// Returns all cards except the loopback.
pub(super) fn all(tree: &dyn Tree) -> Vec<Nic> {
    let names = tree.names("sys/class/net");
    let interrupts = interrupts::all(tree);
    let cards = names
        .iter()
        .filter(|name| *name != "lo" && *name != "bonding_masters");
    cards.map(|name| nic(tree, &interrupts, name)).collect()
}

fn nic(tree: &dyn Tree, all: &[Interrupt], name: &str) -> Nic {
    let dir = format!("sys/class/net/{name}");
    let driver = tree.link(&format!("{dir}/device/driver")).ok();
    let driver = driver.map(|link| last(&link).to_owned());
    let queues = tree.names(&format!("{dir}/queues"));
    let count = |prefix: &str| {
        queues
            .iter()
            .filter(|queue| queue.starts_with(prefix))
            .count()
    };
    Nic {
        cloud: driver
            .as_deref()
            .is_some_and(|driver| OF_CLOUDS.contains(&driver)),
        driver,
        node: tree
            .number(&format!("{dir}/device/numa_node"))
            .and_then(|node| usize::try_from(node).ok()),
        up: tree
            .text(&format!("{dir}/operstate"))
            .is_some_and(|state| state == "up"),
        speed: tree
            .number(&format!("{dir}/speed"))
            .and_then(|speed| u32::try_from(speed).ok()),
        rx_queues: count("rx-"),
        tx_queues: count("tx-"),
        interrupts: of_queues(tree, all, name),
        qdisc: qdisc(tree, name),
        rx_ring: pair(tree, &format!("ethtool/{name}/rings"), "rx"),
        combined: pair(tree, &format!("ethtool/{name}/channels"), "combined"),
        name: name.to_owned(),
    }
}

fn of_queues(tree: &dyn Tree, all: &[Interrupt], name: &str) -> Vec<QueueInterrupt> {
    let of_card = OfQueues::read(tree, all, name);
    let one = |(queue, number): (String, u32)| {
        let allowed = tree.text(&format!("proc/irq/{number}/smp_affinity_list"));
        // The kernel tells of interrupts that its own table names otherwise.
        let counted = of_card
            .named(number)
            .or_else(|| all.iter().find(|one| one.number == number));
        let counts = counted.map_or(&[][..], |one| one.counts.as_slice());
        QueueInterrupt {
            queue,
            cpus: allowed
                .and_then(|list| Cpus::from_list(&list))
                .unwrap_or_default(),
            times: counts
                .iter()
                .fold(0_u64, |all, (_, times)| all.saturating_add(*times)),
        }
    };
    of_card.all().into_iter().map(one).collect()
}

/// Returns the kind of the queue in which packets wait to be sent.
fn qdisc(tree: &dyn Tree, name: &str) -> Option<String> {
    let text = tree.read("qdisc/all").ok()?;
    let mut lines = text.lines().map(|line| line.split_ascii_whitespace());
    let mut of_it = lines.find_map(|mut words| (words.next()? == name).then_some(words))?;
    of_it.next().map(str::to_owned)
}

/// Returns a field and its maximum.
fn pair(tree: &dyn Tree, name: &str, field: &str) -> Option<(u32, u32)> {
    let fields = fields(&tree.text(name)?)?;
    let value = |wanted: &str| {
        let found = fields.iter().find(|(name, _)| name == wanted)?;
        u32::try_from(found.1).ok()
    };
    let most = value(&format!("{field}_max"))?;
    Some((value(field)?, most)).filter(|_| most > 0)
}
