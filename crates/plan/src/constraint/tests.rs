//! Each constraint on a mix that is easy to compute by hand.

use super::*;
use crate::catalogue::{Catalogue, Month};
use crate::load::Scenario;
use crate::search::Problem;

const LOAD: &str = r#"
name = "hand"
[[load]]
name = "a"
peak = "2 GB/s"
base = "200 MB/s"
burst = { length = "100 s", interval = "1100 s" }
average = "300 MB/s"
size = "240 KB"
batch = "960 KB"
retention = "24 h"
replication = 2
fan_out = 2
[goals]
survive = 1
fill = 1.0
nic = 1.0
disk = 1.0
cpu = 1.0
recovery = "10 h"
[hardware]
servers = ["s"]
devices = ["fast", "bulk"]
tiers = 2
[[catalogue.server]]
id = "s"
cores = 10
slots = { f = 1, b = 2 }
memory = ["10 GB"]
network = "10 GB/s"
[[catalogue.device]]
id = "fast"
class = "flash"
slot = "f"
capacity = "400 GB"
read = "5 GB/s"
write = "5 GB/s"
dwpd = 1
[[catalogue.device]]
id = "bulk"
class = "disk"
slot = "b"
capacity = "20 TB"
read = "500 MB/s"
write = "500 MB/s"
iops = 100
"#;

/// Returns the uses of five brokers, four of them at work, with two bulk devices each.
fn used(set: &[&str], constraint: Constraint) -> Use {
    let set: Vec<String> = set.iter().map(|pair| (*pair).to_owned()).collect();
    let scenario = Scenario::read("hand", LOAD, &set).unwrap();
    let mut catalogue = Catalogue::shipped().unwrap();
    catalogue.overlay(scenario.catalogue.clone());
    let software = catalogue.software("forebay").unwrap().clone();
    let problem = Problem::new(
        &scenario,
        &catalogue,
        &software,
        Month::new(2026, 11).unwrap(),
    );
    let choice = crate::search::all_choices(&problem).pop().unwrap();
    let mix = problem.mix(&choice).unwrap();
    assert_eq!(mix.bulk.count, 2);
    let flows = problem.flows(1);
    let fit = problem.fit(&flows, &mix, 5);
    fit.uses()
        .into_iter()
        .find(|(known, _)| *known == constraint)
        .unwrap()
        .1
}

#[track_caller]
fn check(set: &[&str], constraint: Constraint, expect: f64, allowed: f64) {
    let found = used(set, constraint);
    let near = |one: f64, other: f64| {
        (one - other).abs() <= other.abs() * 1e-6 || one.to_bits() == other.to_bits()
    };
    assert!(
        near(found.used, expect) && near(found.allowed, allowed),
        "{found:?}"
    );
}

#[test]
fn network_and_devices() {
    check(&[], Constraint::NetworkIn, 2e9 * 2.0 / 4.0, 10e9);
    check(&[], Constraint::NetworkOut, 2e9 * 3.0 / 4.0, 10e9);
    // 1 GB/s in of 5, and 0.15 GB/s down of 5.
    check(&[], Constraint::FastDisk, 0.2 + 0.03, 1.0);
    check(&[], Constraint::BulkDisk, 0.15, 1.0);
    // Late readers use the slow devices too: 1 GB/s of four brokers.
    check(
        &["load.catch_up={ rate = \"1 GB/s\", age = \"1 h\" }"],
        Constraint::BulkDisk,
        0.15 + 0.25,
        1.0,
    );
}

#[test]
fn bursts_and_gaps() {
    // 1 GB/s in, 1 GB/s out (two devices): nothing accumulates.
    check(&[], Constraint::Burst, 100.0, f64::INFINITY);
    check(&[], Constraint::Gap, 0.0, 1000.0);
    // 3 GB/s in and 1 out: 2 x 100 s = 200 GB of the 200 in half of the tier; gone at 1 - 0.1 GB/s.
    check(&["load.peak=6 GB/s"], Constraint::Burst, 100.0, 100.0);
    check(&["load.peak=6 GB/s"], Constraint::Gap, 200.0 / 0.9, 1000.0);
    // The base is not below the drain.
    check(
        &["load.peak=6 GB/s", "load.base=2 GB/s"],
        Constraint::Gap,
        f64::INFINITY,
        1000.0,
    );
    // A longer burst lowers the threshold: 150 s x 2 GB/s need 300 GB of 400 free.
    check(
        &["load.peak=6 GB/s", "load.burst.length=150 s"],
        Constraint::Burst,
        150.0,
        150.0,
    );
    // The newest records raise it again, so less is free.
    check(
        &[
            "load.peak=6 GB/s",
            "load.burst.length=150 s",
            "load.newest=2000 s",
        ],
        Constraint::Burst,
        150.0,
        50.0,
    );
    check(&["load.newest=400 s"], Constraint::FastRoom, 60e9, 200e9);
}

#[test]
fn room_endurance_memory_and_processors() {
    let gib = 1_073_741_824.0;
    // Two copies of a day of 300 MB/s and of three active segments (2 GB/s by 1.04 GB/s a
    // partition: two).
    let stored = (0.3e9 * 86_400.0 * 2.0 + 4.0 * gib) / 4.0;
    check(&[], Constraint::Room, stored, 40e12 + 200e9);
    check(
        &[],
        Constraint::FastEndurance,
        0.15e9 * 86_400.0,
        400e9 * 5.0 / 3.0,
    );
    check(&[], Constraint::BulkEndurance, 0.0, f64::INFINITY);
    let cpu = (2.0 * 2.0 * 0.526 + 2.0 * 3.0 * 0.28) / 4.0;
    let found = used(&[], Constraint::Processor);
    assert!(
        (found.used / cpu - 1.0).abs() < 0.1 && found.allowed.to_bits() == 10_f64.to_bits(),
        "{found:?}"
    );
    let memory = 2e9 / 4.0 + 4.0 * 256e3 / 4.0 + 28.0 * 1_048_576.0;
    check(&[], Constraint::Memory, memory, 9e9);
    check(&[], Constraint::Partitions, 1.0, 4000.0);
    check(&[], Constraint::Copies, 2.0, 5.0);
    // The data of one broker of five, over the rate that its devices have left.
    let bytes = 0.3e9 * 86_400.0 * 2.0 / 5.0;
    check(&[], Constraint::Recovery, bytes / (1e9 - 0.15e9), 36_000.0);
}

#[test]
fn nothing_moves() {
    let off = "goals.threshold=-1";
    // 1.5 times the capacity of four first tiers is kept: a third goes to disks of 1 GB/s.
    check(
        &[off, "load.retention=1.2 TB"],
        Constraint::Steady,
        1e9,
        3e9,
    );
    check(
        &[off, "load.retention=0.8 TB"],
        Constraint::Steady,
        1e9,
        5e9,
    );
    check(
        &[off, "load.retention=1.6 TB"],
        Constraint::Steady,
        1e9,
        2e9,
    );
}

#[test]
fn keyed_records() {
    let keyed = "load.keyed={ keys = 1e9, lookups = \"1 K/s\", hit_locality = 0.5 }";
    check(&[keyed], Constraint::Lookups, 500.0 / 4.0, 200.0);
    let index = 15e9 * 2.0 / 4.0;
    let memory = 2e9 / 4.0 + 4.0 * 256e3 / 4.0 + 28.0 * 1_048_576.0 + index;
    check(&[keyed], Constraint::Memory, memory, 9e9);
    let on_pmem = "load.keyed={ keys = 1e9, lookups = \"1 K/s\", index_in = \"pmem\" }";
    check(&[on_pmem], Constraint::Index, index, 0.0);
}

#[test]
fn what_was_not_measured_near_is_not_checked() {
    check(&["load.latency=10 ms"], Constraint::Latency, 3.7e-3, 10e-3);
    check(
        &["load.latency=10 ms", "load.peak=20 GB/s"],
        Constraint::Latency,
        0.0,
        10e-3,
    );
}
