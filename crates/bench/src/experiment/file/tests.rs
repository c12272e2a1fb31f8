//! The errors of invalid files: the file, the line, the allowed values.

use super::*;
use crate::experiment::SHIPPED;

const SOUND: &str = r#"
name = "tiny"
about = "Two targets, one phase."
targets = ["forebay", "mine"]

[target.mine]
kind = "address"
address = "127.0.0.1:9092"

[[device]]
name = "ram"
kind = "memory"
size = 1_000_000

[[phase]]
name = "produce"
[phase.load]
seconds = 1
topics = { count = 1, partitions = 2 }
produce = { producers = 1, record = 100, batch_bytes = 1000, acks = 1, in_flight_max = 1 }
[[phase.sweep]]
name = "record"
set = ["produce.record"]
values = [100, 200]

[[phase]]
name = "consume"
reads = "produce"
[phase.load]
seconds = 1
topics = { count = 1, partitions = 2 }
consume = { consumers = 1, from = "earliest", max_bytes = 1000, partition_max_bytes = 1000 }
"#;

fn refused(from: &str, to: &str) -> String {
    assert!(SOUND.contains(from), "{from}");
    let text = SOUND.replacen(from, to, 1);
    parse(&text, "tiny.toml").unwrap_err().to_string()
}

#[test]
fn the_shipped_ones_are_sound() {
    for (name, text) in SHIPPED {
        let experiment = parse(text, name).unwrap();
        assert_eq!(experiment.name, *name);
        let first = experiment.targets.first().unwrap();
        assert_eq!(experiment.target[first].kind, TargetKind::Forebay, "{name}");
    }
}

#[test]
fn known_targets_need_no_description() {
    let experiment = parse(SOUND, "tiny.toml").unwrap();
    assert_eq!(experiment.target["forebay"].kind, TargetKind::Forebay);
    assert_eq!(experiment.target["mine"].kind, TargetKind::Address);
    assert!(!experiment.target.contains_key("kafka"));
}

#[test]
fn without_a_device_it_is_the_disk_as_it_is() {
    let text = SOUND.replacen(
        "[[device]]\nname = \"ram\"\nkind = \"memory\"\nsize = 1_000_000\n",
        "",
        1,
    );
    let experiment = parse(&text, "tiny.toml").unwrap();
    assert_eq!(experiment.device[0].kind, DeviceKind::Disk);
}

#[test]
fn an_unknown_key_is_said_with_its_line_and_those_there_are() {
    let error = refused("seconds = 1\n", "secs = 1\n");
    assert!(
        error.contains("tiny.toml") && error.contains("line 18"),
        "{error}"
    );
    assert!(
        error.contains("`secs`") && error.contains("`seconds`"),
        "{error}"
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_said_with_its_line() {
    let error = refused("kind = \"memory\"", "kind = \"tape\"");
    assert!(error.contains("line 12"), "{error}");
    assert!(error.contains("`limited`"), "{error}");
}

#[test]
fn a_sweep_over_a_field_that_is_not_there_names_those_that_are() {
    let error = refused("[\"produce.record\"]", "[\"produce.size\"]");
    assert!(
        error.starts_with("tiny.toml:22: phase produce: sweep record"),
        "{error}"
    );
    assert!(
        error.contains("size") && error.contains("batch_bytes"),
        "{error}"
    );
}

#[test]
fn a_sweep_over_a_part_that_is_not_there_is_refused() {
    let error = refused("[\"produce.record\"]", "[\"consume.groups\"]");
    assert!(error.contains("no consume"), "{error}");
}

#[test]
fn a_swept_value_of_the_wrong_kind_is_refused() {
    let error = refused("values = [100, 200]", "values = [100, \"big\"]");
    assert!(
        error.starts_with("tiny.toml:22: phase produce: sweep record"),
        "{error}"
    );
}

#[test]
fn names_must_exist() {
    let error = refused(
        "targets = [\"forebay\", \"mine\"]",
        "targets = [\"forebay\", \"yours\"]",
    );
    assert!(
        error.starts_with("tiny.toml:4: targets: yours is neither"),
        "{error}"
    );
    let error = refused("reads = \"produce\"", "reads = \"write\"");
    assert!(
        error.starts_with("tiny.toml:28: phase consume: reads: there is no phase"),
        "{error}"
    );
    let error = refused(
        "name = \"consume\"\n",
        "name = \"consume\"\ndevices = [\"disk\"]\n",
    );
    assert!(
        error.contains("there is no device disk, only ram"),
        "{error}"
    );
}

#[test]
fn a_device_says_what_its_kind_needs() {
    let error = refused("kind = \"memory\"", "kind = \"limited\"");
    assert!(
        error.starts_with("tiny.toml:11: device ram: kind limited needs"),
        "{error}"
    );
}

#[test]
fn two_phases_of_one_name_are_refused() {
    let error = refused("name = \"consume\"", "name = \"produce\"");
    assert!(error.contains("the name produce is there twice"), "{error}");
}
