//! Bad input, each with its key and what is allowed.

use super::*;

const SOUND: &str = r#"
name = "mine"
[[load]]
name = "a"
peak = "2 GB/s"
base = "100 MB/s"
burst = { length = "60 s", interval = "20 min" }
retention = "1 d"
"#;

#[track_caller]
fn said(text: &str) -> String {
    Scenario::read("mine.toml", text, &[])
        .unwrap_err()
        .to_string()
}

#[test]
fn what_is_sound_is_read() {
    let scenario = Scenario::read("mine.toml", SOUND, &[]).unwrap();
    let load = &scenario.load[0];
    // 2 GB/s for a twentieth of the time, 0.1 GB/s for the rest.
    assert!((load.average().0 - 0.195e9).abs() < 1.0);
    for (name, text) in SHIPPED {
        Scenario::variants(name, text, &[]).unwrap_or_else(|problem| panic!("{problem}"));
    }
}

#[test]
fn rates_are_divided_by_what_compression_saves() {
    let set = ["load.compression=4".to_owned()];
    let scenario = Scenario::read("mine.toml", SOUND, &set).unwrap();
    assert!((scenario.load[0].peak().0 - 0.5e9).abs() < 1.0);
}

#[test]
fn what_contradicts_itself_is_refused_with_its_line() {
    for (from, to, expect) in [
        (
            "peak = \"2 GB/s\"",
            "peak = \"240\"",
            "mine.toml:5: load[0].peak: \"240\": 240 of what?",
        ),
        (
            "peak = \"2 GB/s\"",
            "peak = \"-2 GB/s\"",
            "load[0].peak: \"-2 GB/s\": allowed: 0 to 10^24",
        ),
        ("peak = \"2 GB/s\"", "peak = \"NaN GB/s\"", "load[0].peak"),
        ("peak = \"2 GB/s\"", "peak = nan", "load[0].peak"),
        (
            "peak = \"2 GB/s\"",
            "peak = \"0 GB/s\"",
            "load[0].peak: allowed: more than nothing",
        ),
        ("peak = \"2 GB/s\"", "peak = \"1e30 GB/s\"", "load[0].peak"),
        (
            "peak = \"2 GB/s\"",
            "peek = \"2 GB/s\"",
            "mine.toml:5: load[0].peek: \"peek\" is not known here; do you mean peak?",
        ),
        (
            "base = \"100 MB/s\"",
            "base = \"3 GB/s\"",
            "mine.toml:6: load[0].base: 3 GB/s is above the peak of 2 GB/s",
        ),
        (
            "60 s",
            "30 min",
            "mine.toml:7: load[0].burst.length: 30 min is longer than the interval of 20 min",
        ),
        (
            "1 d",
            "forever",
            "load[0].retention: \"forever\" needs an object store",
        ),
        (
            "1 d",
            "sometimes",
            "load[0].retention: \"sometimes\": allowed: a time",
        ),
        (
            "name = \"a\"",
            "name = \"a\"\nreplication = 30",
            "load[0].replication: 30 is not allowed; allowed: 1 to 9",
        ),
        (
            "name = \"a\"",
            "name = \"a\"\nfan_out = -1.0",
            "load[0].fan_out: -1 is not allowed",
        ),
        (
            "name = \"a\"",
            "name = \"a\"\nmessages = \"1 /s\"",
            "load[0].messages: write peak or messages, not both",
        ),
        (
            "name = \"a\"",
            "name = \"a\"\ncatch_up = { rate = \"1 GB/s\", age = \"2 d\" }",
            "load[0].catch_up.age: 2 d is more than is kept",
        ),
        (
            "name = \"mine\"",
            "name = \"mine\"\ngoals = { fill = 1.5 }",
            "mine.toml:3: goals.fill: 1.5 is not allowed; allowed: 0.01 to 1",
        ),
        (
            "name = \"mine\"",
            "name = \"mine\"\ngoals = { threshold = 3.0 }",
            "goals.threshold: 3 is not allowed; allowed: 0.05 to 0.95, or -1",
        ),
        (
            "name = \"mine\"",
            "name = \"mine\"\ngoals = { survive = \"site\" }",
            "goals.survive: \"site\" needs fleet.sites of 2 or more",
        ),
        (
            "name = \"mine\"",
            "name = \"mine\"\ngoals = { survive = \"planet\" }",
            "goals.survive: \"planet\": allowed: 0 to 8, \"rack\", \"site\"",
        ),
    ] {
        assert!(SOUND.contains(from));
        let said = said(&SOUND.replace(from, to));
        assert!(said.contains(expect), "{said}");
    }
    let without = SOUND.replace("base = \"100 MB/s\"\n", "");
    assert!(
        said(&without).contains("load[0].base: a burst needs base"),
        "{}",
        said(&without)
    );
    assert!(said("name = \"x\"\nload = []\n").contains("at least one [[load]]"));
}

#[test]
fn a_share_of_a_load_is_linear_and_growth_keeps_what_retention_says() {
    let set = [
        "load.retention=10 TB".to_owned(),
        "load.partitions=7".to_owned(),
    ];
    let scenario = Scenario::read("mine.toml", SOUND, &set).unwrap();
    let (half, double) = (scenario.load[0].share(0.5), scenario.load[0].grown(2.0));
    assert_eq!(half.kept().unwrap().0.to_bits(), 5e12_f64.to_bits());
    assert_eq!(half.partitions, Some(4));
    assert_eq!(double.kept().unwrap().0.to_bits(), 10e12_f64.to_bits());
    assert_eq!(double.peak().0.to_bits(), 4e9_f64.to_bits());
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_scenario_or_a_problem(text in "[a-z\\[\\]=\"0-9 \\n./]{0,200}") {
        let read = Scenario::read("any", &text, &[]);
        proptest::prop_assert!(read.is_ok() || read.is_err_and(|problem| !problem.to_string().is_empty()));
    }
}

#[test]
fn a_change_gives_a_burst_to_a_load_without_one() {
    let text = "name = \"x\"\n[[load]]\nname = \"l\"\npeak = \"1 GB/s\"\nretention = \"1 d\"\n";
    let set = [
        "load.base=1 MB/s",
        "load.burst.length=60 s",
        "load.burst.interval=20 min",
    ];
    let set: Vec<String> = set.iter().map(|pair| (*pair).to_owned()).collect();
    let scenario = Scenario::read("x.toml", text, &set).unwrap();
    let burst = scenario.load[0].burst.unwrap();
    assert_eq!((burst.length.0, burst.interval.0), (60.0, 1200.0));
    let said = Scenario::read("x.toml", text, &["load.other.peak=1 GB/s".to_owned()]);
    assert!(
        said.unwrap_err()
            .to_string()
            .contains("there is no other there")
    );
}
