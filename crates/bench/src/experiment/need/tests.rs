//! Which experiments are refused, and the texts of the refusals.

use super::*;
use crate::experiment::choice::OnlyPatterns;
use crate::experiment::file::parse;
use crate::experiment::plan::plan;

const GB: u64 = 1_000_000_000;

fn experiment(device: &str, load: &str) -> Experiment {
    experiment_at("{ shape = \"unlimited\" }", device, load)
}

fn experiment_at(rate: &str, device: &str, load: &str) -> Experiment {
    let text = format!(
        "name = \"t\"\nabout = \"\"\nlimits = false\ntargets = [\"forebay\", \"kafka\"]\n\
         [[device]]\nname = \"d\"\n{device}\n[[phase]]\nname = \"produce\"\n[phase.load]\n{load}\n\
         topics = {{ count = 1, partitions = 1 }}\n\
         produce = {{ producers = 1, record = 1, batch_bytes = 1, acks = 1, in_flight_max = 1, rate = {rate} }}\n"
    );
    parse(&text, "t").unwrap()
}

fn refused(experiment: &Experiment, disk: u64, memory: u64) -> Option<String> {
    let actions = plan(experiment, &OnlyPatterns::default()).unwrap();
    let disk = [("d".to_owned(), disk)].into();
    refusal(experiment, &actions, &AvailableSpace { disk, memory })
}

#[test]
fn both_brokers_data_must_fit_at_once() {
    let experiment = experiment("kind = \"disk\"", "seconds = 10\nbytes_max = 2_000_000_000");
    let actions = plan(&experiment, &OnlyPatterns::default()).unwrap();
    assert_eq!(bytes_by_device(&actions)["d"], 4 * GB + 2 * BROKER_BYTES);
    assert_eq!(refused(&experiment, 5 * GB, 20 * GB), None);
    let why = refused(&experiment, 4 * GB, 20 * GB).unwrap();
    assert!(
        why.contains("device d: 4.4 GB of disk are needed, 4.0 GB are free"),
        "{why}"
    );
    assert!(why.contains("--set bytes_max="), "{why}");
}

#[test]
fn a_load_without_a_bound_is_taken_at_a_rate_that_a_machine_might_reach() {
    let experiment = experiment("kind = \"disk\"", "seconds = 10");
    assert!(refused(&experiment, 50 * GB, 20 * GB).is_some());
    assert_eq!(refused(&experiment, 70 * GB, 20 * GB), None);
}

#[test]
fn of_bursts_what_is_due_counts() {
    let rate = "{ shape = \"burst\", base = 1e8, peak = 1e9, length = 1, interval = 10 }";
    let experiment = experiment_at(rate, "kind = \"disk\"", "seconds = 20");
    let actions = plan(&experiment, &OnlyPatterns::default()).unwrap();
    let of_each = 18 * GB / 10 + 2 * GB;
    assert_eq!(bytes_by_device(&actions)["d"], 2 * (of_each + BROKER_BYTES));
}

#[test]
fn a_device_in_memory_counts_beside_the_brokers() {
    let device = "kind = \"memory\"\nsize = 8_000_000_000";
    let experiment = experiment(device, "seconds = 1\nbytes_max = 1_000_000_000");
    assert_eq!(refused(&experiment, 0, 11 * GB), None);
    let why = refused(&experiment, 0, 10 * GB).unwrap();
    assert!(why.contains("device d: its 8.0 GB in memory"), "{why}");
    assert!(why.contains("10.0 GB is available"), "{why}");
}

#[test]
fn a_device_must_have_room_for_what_is_written_to_it() {
    let device = "kind = \"limited\"\nsize = 3_000_000_000\nrate = 1";
    let experiment = experiment(device, "seconds = 1\nbytes_max = 2_000_000_000");
    let why = refused(&experiment, 100 * GB, 20 * GB).unwrap();
    assert!(why.contains("up to 4.4 GB are written at once"), "{why}");
}

#[test]
fn memory_for_the_brokers_is_asked_for_on_a_disk_too() {
    let experiment = experiment("kind = \"disk\"", "seconds = 1\nbytes_max = 1000");
    let why = refused(&experiment, 100 * GB, GB).unwrap();
    assert!(
        why.contains("memory: the brokers and the generator need 2.6 GB"),
        "{why}"
    );
}
