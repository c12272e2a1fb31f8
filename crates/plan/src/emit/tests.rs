//! The outputs contain what the answer reports, and nothing that breaks their readers.

use super::*;
use crate::answer::{Depth, solve};
use crate::catalogue::{Catalogue, Month};
use crate::load::Scenario;

fn planned(name: &str, set: &[&str]) -> Plan {
    let set: Vec<String> = set.iter().map(|pair| (*pair).to_owned()).collect();
    let text = crate::load::shipped(name).unwrap();
    let scenario = Scenario::read(name, text, &set).unwrap();
    let today = Month::new(2026, 11).unwrap();
    solve(
        &scenario,
        None,
        &Catalogue::shipped().unwrap(),
        today,
        Depth::Whole,
    )
    .unwrap()
}

#[test]
fn each_scenario_gives_all_files() {
    for (name, _) in crate::load::SHIPPED {
        let plan = planned(name, &[]);
        let files = files(&plan);
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            [
                "plan.json",
                "report.html",
                "server.properties",
                "topics.sh",
                "verify.toml",
                "tune.toml"
            ],
            "{name}"
        );
        for (file, text) in &files {
            assert!(
                text.is_ascii() && !text.contains("NaN") && !text.contains("inf\n"),
                "{name}: {file}"
            );
        }
        for file in ["verify.toml", "tune.toml"] {
            let (_, text) = files.iter().find(|(known, _)| *known == file).unwrap();
            text.parse::<toml::Table>()
                .unwrap_or_else(|error| panic!("{name}: {file}: {error}\n{text}"));
        }
    }
}

#[test]
fn the_report_reads_without_a_script_and_nothing_in_it_is_markup() {
    let mut plan = planned("burst", &[]);
    plan.name = "</title><script>x</script>".to_owned();
    plan.notes.push("<img src=x>".to_owned());
    let page = report::page(&plan);
    assert!(!page.contains("<script>x") && !page.contains("<img"));
    for part in [
        "id=\"answer\"",
        "On plain Kafka",
        "What is used",
        "percent full",
        "What each price does",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for outside in ["http://", "https://", "@import"] {
        let ours = page.replace("servernews.ru", "");
        assert!(!ours.contains(outside), "{outside}");
    }
}

#[test]
fn an_infeasible_load_has_a_report_that_says_why() {
    let plan = planned("burst", &["goals.threshold=0.5", "given.brokers=1"]);
    let files = files(&plan);
    assert_eq!(files.len(), 2);
    assert!(
        files[1]
            .1
            .contains("Nothing in the catalogue carries this load")
    );
    assert!(files[1].1.contains("60 s where 44.7 s is allowed"));
}

#[test]
fn properties_name_tiers_threshold_and_mover() {
    let plan = planned("burst", &[]);
    let text = properties::file(&plan, plan.chosen.as_ref().unwrap());
    for line in [
        "storage.tiers=fast,bulk",
        "storage.tier.fast.paths=/mnt/fast0/forebay",
        "storage.tier.fast.capacity=670000000000",
        "storage.tier.fast.medium=dax",
        "storage.migrate.threshold=0.3284",
        "storage.migrate.bytes.per.second=500000000",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn an_experiment_shrinks_times_and_capacities_and_keeps_rates() {
    let plan = planned("burst", &[]);
    let chosen = plan.chosen.as_ref().unwrap();
    let scaled = experiment::scaled(chosen, 0.01);
    assert!((scaled.peak.0 - 80e6).abs() < 1.0 && (scaled.base.0 - 1e6).abs() < 1.0);
    let (length, interval) = scaled.burst.unwrap();
    assert!((length.0 - 3.0).abs() < 1e-9 && (interval.0 - 60.0).abs() < 1e-9);
    let text = experiment::file(&plan, chosen, 0.01);
    assert!(text.contains("rate = 5000000"), "{text}");
    // 670 GB x 0.01 x 0.05.
    assert!(text.contains("capacity = 335000000"), "{text}");
}

#[test]
fn an_experiment_begins_its_bursts_at_the_threshold() {
    let plan = planned("burst", &[]);
    let chosen = plan.chosen.as_ref().unwrap();
    let text = experiment::file(&plan, chosen, 0.01);
    // 670 GB x 0.3284 x 0.01 x 0.05, at 80 MB/s.
    for part in ["warmup_seconds = 1.375\n", "warmup = 80000000 }"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // Bursts that only the page cache absorbs have no first tier to fill.
    let steady = planned("linkedin", &[]);
    let scaled = experiment::scaled(steady.chosen.as_ref().unwrap(), 0.01);
    assert!(scaled.fill.0.abs() < f64::MIN_POSITIVE, "{:?}", scaled.fill);
}

#[test]
fn moves_have_a_bound_of_their_own_only_below_that_of_the_device() {
    let bound = "storage.migrate.bytes.per.second";
    let plan = planned("burst", &[]);
    let chosen = plan.chosen.as_ref().unwrap();
    // A device that is held to the rate is the bound; the disk as it is has none.
    assert!(!experiment::file(&plan, chosen, 0.01).contains(bound));
    assert!(experiment::file(&plan, chosen, 1.0).contains(bound));
    let mut spared = chosen.clone();
    spared.mover = chosen.mover.map(|mover| mover * 0.5);
    let text = experiment::file(&plan, &spared, 0.01);
    assert!(
        text.contains(&format!("\"{bound}\" = \"2500000\"")),
        "{text}"
    );
}

#[test]
fn a_topic_keeps_a_name_that_is_one() {
    assert_eq!(topic_name("cars; rm -rf /"), "cars--rm--rf--");
    assert_eq!(topic_name(".."), "load");
    assert_eq!(comment("a\nb=c"), "a b=c");
}
