//! Queues of block devices. `write_cache` is only reported, because the device may lie about
//! durability.

use super::{Class, Form, Knob, is_plain};
use crate::root::Tree;

const SCHEDULERS: &[&str] = &["none", "mq-deadline", "kyber", "bfq"];
const NAMES: &[&str] = &[
    "scheduler",
    "nr_requests",
    "read_ahead_kb",
    "nomerges",
    "rq_affinity",
    "wbt_lat_usec",
    "max_sectors_kb",
];

/// Returns the knob of `DEVICE.NAME`.
pub(super) fn find(rest: &str) -> Option<Knob> {
    let (device, name) = rest.rsplit_once('.')?;
    let form = match name {
        "scheduler" => Form::Choice(SCHEDULERS),
        "nr_requests" | "max_sectors_kb" => Form::Number(4, 65_536),
        "read_ahead_kb" => Form::Number(0, 65_536),
        "nomerges" | "rq_affinity" => Form::Number(0, 2),
        "wbt_lat_usec" => Form::Number(0, 1_000_000),
        _ => return None,
    };
    let file = format!("sys/block/{device}/queue/{name}");
    is_plain(device).then(|| Knob::new(format!("block.{rest}"), file, form, Class::O))
}

/// Returns the knobs of all devices that hold data, without loop devices and disks in memory.
pub(super) fn all(tree: &dyn Tree) -> Vec<Knob> {
    let mut knobs = Vec::new();
    for device in tree.names("sys/block") {
        let made_up = ["loop", "ram", "zram", "nbd", "sr"];
        if made_up.iter().any(|prefix| device.starts_with(prefix)) {
            continue;
        }
        knobs.extend(
            NAMES
                .iter()
                .filter_map(|name| find(&format!("{device}.{name}"))),
        );
    }
    knobs
}
