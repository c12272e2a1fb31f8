//! What `--set` changes and what it refuses.

use super::*;
use crate::experiment::find;
use crate::experiment::sweep::loads;

fn quick(pairs: &[&str]) -> anyhow::Result<Experiment> {
    let mut experiment = find("quick").unwrap();
    for pair in pairs {
        set(&mut experiment, pair)?;
    }
    Ok(experiment)
}

fn phase<'a>(experiment: &'a Experiment, name: &str) -> &'a Phase {
    experiment
        .phase
        .iter()
        .find(|phase| phase.name == name)
        .unwrap()
}

#[test]
fn a_field_is_set_in_every_phase_that_has_it() {
    let experiment = quick(&["seconds=1.5", "produce.linger_ms=7"]).unwrap();
    assert!(
        experiment
            .phase
            .iter()
            .all(|phase| phase.load.seconds == 1.5)
    );
    let produce = phase(&experiment, "produce").load.produce.as_ref().unwrap();
    assert_eq!(produce.linger_ms, 7.0);
    assert!(experiment.warm.iter().all(|load| load.seconds != 1.5));
}

#[test]
fn a_sweep_gets_other_values_by_its_name_or_its_field() {
    let experiment = quick(&["record=[500, 600]", "produce.producers=3"]).unwrap();
    let points = loads(phase(&experiment, "produce")).unwrap();
    let parameters: Vec<_> = points
        .iter()
        .map(|p| {
            (
                p.parameters["record"].as_str(),
                p.parameters["producers"].as_str(),
            )
        })
        .collect();
    assert_eq!(parameters, [("500", "3"), ("600", "3")]);
}

#[test]
fn repetitions_are_everybodys() {
    let experiment = quick(&["repetitions=5"]).unwrap();
    assert_eq!(experiment.repetitions, 5);
    assert!(
        experiment
            .phase
            .iter()
            .all(|phase| phase.repetitions.is_none())
    );
}

#[test]
fn targets_and_devices_are_set_by_their_names() {
    let pairs = [
        "target.kafka.settings.num.io.threads=2",
        "device.disk.path=/mnt/x",
    ];
    let experiment = quick(&pairs).unwrap();
    assert_eq!(experiment.target["kafka"].settings["num.io.threads"], "2");
    assert_eq!(
        experiment.device[0].path.as_deref(),
        Some("/mnt/x".as_ref())
    );
}

#[test]
fn what_would_change_nothing_is_refused() {
    for (pair, expected) in [
        ("seconds", "write key=value"),
        ("second=1", "allowed: "),
        ("produce.batch=1", "batch_bytes"),
        ("device.tape.size=1", "only disk"),
        ("device.disk.speed=1", "allowed: size"),
        ("target.redpanda.binary=x", "only forebay, kafka"),
        ("repetitions=many", "invalid type"),
    ] {
        let error = format!("{:#}", quick(&[pair]).unwrap_err());
        assert!(
            error.contains(pair) && error.contains(expected),
            "{pair}: {error}"
        );
    }
}
