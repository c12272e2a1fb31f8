//! The order of actions, compared as a list of words.

use super::*;
use crate::experiment::{file, find};

fn experiment(text: &str) -> Experiment {
    file::parse(text, "test").unwrap()
}

const LOADS: &str = r#"
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

fn two_targets(more: &str) -> Experiment {
    let head = "name = \"t\"\nabout = \"\"\nlimits = false\ntargets = [\"forebay\", \"kafka\"]\n";
    experiment(&format!("{head}{more}{LOADS}"))
}

fn words(action: &Action) -> String {
    match action {
        Action::Attach(device) => format!("attach {}", device.name),
        Action::Limits { device } => format!("limits {device}"),
        Action::Start { target, cold } => {
            format!("start {target}{}", if *cold { " cold" } else { "" })
        }
        Action::Warm { target, .. } => format!("warm {target}"),
        Action::Create { target, topics } => format!("create {target} {}", topics.prefix),
        Action::Measure(planned) => format!(
            "{} {} {} #{}",
            planned.phase,
            planned.target,
            planned.parameters.get("record").map_or("", String::as_str),
            planned.repetition
        ),
        Action::Delete { target, topics } => format!("delete {target} {}", topics.prefix),
        Action::Stop { target } => format!("stop {target}"),
        Action::Detach => "detach".to_owned(),
    }
}

fn planned(experiment: &Experiment) -> Vec<String> {
    let actions = plan(experiment, &OnlyPatterns::default()).unwrap();
    actions.iter().map(words).collect()
}

#[test]
fn what_is_measured_on_one_is_measured_on_the_other_at_once() {
    let experiment = two_targets("");
    assert_eq!(
        planned(&experiment),
        [
            "attach disk",
            "start forebay",
            "start kafka",
            "create forebay bench-1",
            "create kafka bench-1",
            "produce forebay 100 #0",
            "produce kafka 100 #0",
            "consume forebay 100 #0",
            "consume kafka 100 #0",
            "delete forebay bench-1",
            "delete kafka bench-1",
            "create forebay bench-2",
            "create kafka bench-2",
            "produce kafka 200 #0",
            "produce forebay 200 #0",
            "consume kafka 200 #0",
            "consume forebay 200 #0",
            "delete forebay bench-2",
            "delete kafka bench-2",
            "stop forebay",
            "stop kafka",
            "detach",
        ]
    );
}

#[test]
fn who_is_first_changes_with_each_repetition() {
    let experiment = two_targets("repetitions = 4\n");
    let firsts: Vec<_> = planned(&experiment)
        .into_iter()
        .filter(|words| words.starts_with("produce") && words.contains(" 100 "))
        .step_by(2)
        .collect();
    assert_eq!(
        firsts,
        [
            "produce forebay 100 #0",
            "produce kafka 100 #1",
            "produce forebay 100 #2",
            "produce kafka 100 #3",
        ]
    );
}

#[test]
fn a_cold_measurement_has_a_broker_of_its_own_and_comes_first() {
    let mut experiment = two_targets("");
    let mut cold = experiment.phase[0].clone();
    (cold.name, cold.cold) = ("cold".to_owned(), true);
    cold.sweep.clear();
    experiment.phase.truncate(1);
    experiment.phase[0].sweep.clear();
    experiment.phase.push(cold);
    assert_eq!(
        planned(&experiment),
        [
            "attach disk",
            "start forebay cold",
            "create forebay bench-1",
            "cold forebay  #0",
            "stop forebay",
            "start kafka cold",
            "create kafka bench-1",
            "cold kafka  #0",
            "stop kafka",
            "start forebay",
            "start kafka",
            "create forebay bench-2",
            "create kafka bench-2",
            "produce forebay  #0",
            "produce kafka  #0",
            "delete forebay bench-2",
            "delete kafka bench-2",
            "stop forebay",
            "stop kafka",
            "detach",
        ]
    );
}

#[test]
fn every_warm_broker_is_warmed_up_before_any_is_measured() {
    let mut experiment = two_targets("");
    experiment.warm.push(experiment.phase[0].load.clone());
    let actions = planned(&experiment);
    let at = |words: &str| actions.iter().position(|action| action == words).unwrap();
    assert!(at("start kafka") < at("warm forebay"));
    assert!(at("warm kafka") < at("create forebay bench-1"));
}

#[test]
fn a_broker_that_nothing_is_measured_on_is_not_started() {
    let mut experiment = two_targets("");
    experiment.phase[0].targets = Some(vec!["forebay".to_owned()]);
    assert!(
        !planned(&experiment)
            .iter()
            .any(|words| words.contains("kafka"))
    );
}

#[test]
fn only_what_fits_the_filter_is_measured_and_what_it_reads_is_written() {
    let experiment = two_targets("");
    let only = OnlyPatterns::parse(&["consume/record=200".to_owned()], &experiment).unwrap();
    let actions = plan(&experiment, &only).unwrap();
    let measured: Vec<_> = measurements(&actions)
        .map(|planned| {
            (
                planned.phase.as_str(),
                planned.parameters["record"].as_str(),
            )
        })
        .collect();
    assert_eq!(
        measured,
        [
            ("produce", "200"),
            ("produce", "200"),
            ("consume", "200"),
            ("consume", "200")
        ]
    );
}

#[test]
fn a_reader_uses_the_topics_of_its_writer_which_it_neither_makes_nor_deletes() {
    let experiment = two_targets("");
    let actions = plan(&experiment, &OnlyPatterns::default()).unwrap();
    let loads: Vec<_> = measurements(&actions).take(4).collect();
    assert!(
        loads
            .iter()
            .all(|planned| planned.load.topics == loads[0].load.topics)
    );
    assert!(loads[0].load.topics.existing);
    assert_eq!(
        loads.iter().map(|p| p.reads).collect::<Vec<_>>(),
        [false, false, true, true]
    );
}

#[test]
fn a_filter_that_fits_nothing_is_an_error() {
    let experiment = two_targets("");
    let only = OnlyPatterns::parse(&["produce/record=300".to_owned()], &experiment).unwrap();
    assert!(plan(&experiment, &only).is_err());
    assert!(OnlyPatterns::parse(&["write".to_owned()], &experiment).is_err());
    assert!(OnlyPatterns::parse(&["produce/size=1".to_owned()], &experiment).is_err());
}

#[test]
fn the_car_experiment_measures_every_combination_within_forty_minutes() {
    let experiment = find("car-ingest").unwrap();
    let actions = plan(&experiment, &OnlyPatterns::default()).unwrap();
    let count = |phase: &str| measurements(&actions).filter(|p| p.phase == phase).count();
    // 5 numbers of producers, 4 sizes, 3 devices, 2 brokers.
    for phase in ["produce", "consume", "both"] {
        assert_eq!(count(phase), 5 * 4 * 3 * 2);
    }
    let seconds: f64 = actions
        .iter()
        .map(|action| estimate(action, &experiment))
        .sum();
    assert!(seconds < 40.0 * 60.0, "{seconds}");
}

#[test]
fn the_quick_experiment_takes_less_than_five_minutes() {
    let experiment = find("quick").unwrap();
    let actions = plan(&experiment, &OnlyPatterns::default()).unwrap();
    let seconds: f64 = actions
        .iter()
        .map(|action| estimate(action, &experiment))
        .sum();
    assert!(seconds < 5.0 * 60.0, "{seconds}");
}

#[test]
fn sockets_are_measured_with_each_combination_of_one_phase_once() {
    let experiment = find("car-ingest").unwrap();
    let actions = plan(&experiment, &OnlyPatterns::default()).unwrap();
    let sent = without_broker(&actions);
    assert_eq!(sent.len(), 20);
    assert!(sent.iter().all(|planned| planned.phase == "produce"));
    let latency = find("latency").unwrap();
    assert_eq!(
        without_broker(&plan(&latency, &OnlyPatterns::default()).unwrap()),
        []
    );
}
