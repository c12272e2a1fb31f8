//! Network cards: channels, rings, the spread over queues and its hash, coalescing, features, pause
//! frames, interrupts, polling threads, packet steering, the limit of bytes in a queue.

use super::{Class, Form, Knob, is_plain};
use crate::facts::interrupts::{self, OfQueues};
use crate::root::Tree;

const CHANNELS: &[&str] = &["rx", "tx", "other", "combined"];
const RINGS: &[&str] = &["rx", "tx"];
const PAUSE: &[&str] = &["autoneg", "rx", "tx"];
const FEATURES: &[&str] = &["gro", "gro_hw", "gso", "lro", "rxhash", "tso"];
/// Whether the ports of a flow count for its queue, beside the addresses.
const HASH_FIELDS: &[&str] = &["tcp4_ports", "tcp6_ports", "udp4_ports", "udp6_ports"];
const COALESCING: &[&str] = &[
    "rx_usecs",
    "rx_frames",
    "tx_usecs",
    "tx_frames",
    "adaptive_rx",
    "adaptive_tx",
];

const OF_DEVICE: &[&str] = &[
    "channels",
    "rings",
    "rss",
    "rss_key",
    "rss_fields",
    "coalescing",
    "features",
    "pause",
    "threaded",
    "napi_defer_hard_irqs",
    "gro_flush_timeout",
    "tx_queue_len",
];
/// Beside its interrupt.
const OF_RECEIVE: &[&str] = &["rps_cpus", "rps_flow_cnt"];
const OF_SEND: &[&str] = &["xps_cpus", "bql_max"];

/// Returns the knob of `DEVICE.NAME` or `DEVICE.QUEUE.NAME`.
pub(super) fn find(tree: &dyn Tree, rest: &str) -> Option<Knob> {
    let (before, name) = rest.rsplit_once('.')?;
    let id = format!("net.{rest}");
    if OF_DEVICE.contains(&name) {
        let (file, form, class) = of_device(before, name)?;
        return is_plain(before).then(|| Knob::new(id, file, form, class));
    }
    let (device, queue) = before.rsplit_once('.')?;
    if !is_plain(device) || !is_plain(queue) {
        return None;
    }
    let in_queue = format!("sys/class/net/{device}/queues/{queue}/{name}");
    let (file, form) = match name {
        "rps_cpus" | "xps_cpus" => (in_queue, Form::Mask),
        "cpus" => {
            let thread = queue.strip_prefix("napi-")?;
            let _: usize = thread.parse().ok()?;
            (format!("napi/{device}/{thread}"), Form::List)
        }
        "rps_flow_cnt" => (in_queue, Form::PowerOfTwo(1 << 20)),
        "bql_max" => {
            let limits = format!("sys/class/net/{device}/queues/{queue}/byte_queue_limits");
            (format!("{limits}/limit_max"), Form::Number(1_514, 1 << 31))
        }
        "irq" => {
            let number = interrupts::of_queue(tree, device, queue)?;
            return Some(of_interrupt(id, number));
        }
        _ => return None,
    };
    Some(Knob::new(id, file, form, Class::O))
}

fn of_device(device: &str, name: &str) -> Option<(String, Form, Class)> {
    let own = format!("sys/class/net/{device}/{name}");
    let card = format!("ethtool/{device}/{name}");
    Some(match name {
        "channels" => (card, Form::Fields(CHANNELS, 1024), Class::L),
        "rings" => (card, Form::Fields(RINGS, 65_536), Class::L),
        "rss" => (card, Form::Spread(1024), Class::F),
        "rss_key" => (card, Form::Word, Class::F),
        "rss_fields" => (card, Form::Fields(HASH_FIELDS, 1), Class::F),
        "coalescing" => (card, Form::Fields(COALESCING, 100_000), Class::O),
        "features" => (card, Form::Fields(FEATURES, 1), Class::F),
        "pause" => (card, Form::Fields(PAUSE, 1), Class::L),
        "threaded" => (own, Form::Number(0, 1), Class::O),
        "napi_defer_hard_irqs" => (own, Form::Number(0, 1_000), Class::O),
        "gro_flush_timeout" => (own, Form::Number(0, 10_000_000), Class::O),
        "tx_queue_len" => (own, Form::Number(100, 100_000), Class::O),
        _ => return None,
    })
}

/// Returns the knob of a queue's interrupt.
fn of_interrupt(id: String, number: u32) -> Knob {
    let file = format!("proc/irq/{number}/smp_affinity_list");
    Knob::new(id, file, Form::List, Class::O)
}

/// Returns the knobs of all devices except the loopback.
pub(super) fn all(tree: &dyn Tree) -> Vec<Knob> {
    let interrupts = interrupts::all(tree);
    let mut knobs = Vec::new();
    for device in tree.names("sys/class/net") {
        if device == "lo" {
            continue;
        }
        let mut ids: Vec<String> = OF_DEVICE
            .iter()
            .map(|name| format!("{device}.{name}"))
            .collect();
        // Threads exist only if they poll the card.
        if tree.number(&format!("sys/class/net/{device}/threaded")) == Some(1) {
            let threads = tree.names(&format!("napi/{device}"));
            ids.extend(threads.iter().map(|at| format!("{device}.napi-{at}.cpus")));
        }
        knobs.extend(ids.iter().filter_map(|id| find(tree, id)));
        let of_card = OfQueues::read(tree, &interrupts, &device);
        for queue in tree.names(&format!("sys/class/net/{device}/queues")) {
            let receives = queue.starts_with("rx-");
            let number = of_card.number(&queue).filter(|_| receives);
            let irq =
                number.map(|number| of_interrupt(format!("net.{device}.{queue}.irq"), number));
            knobs.extend(irq);
            let names = if receives { OF_RECEIVE } else { OF_SEND };
            let ids = names.iter().map(|name| format!("{device}.{queue}.{name}"));
            knobs.extend(ids.filter_map(|id| find(tree, &id)));
        }
    }
    knobs
}
