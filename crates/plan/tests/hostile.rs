//! What a hostile user, or one who only mistypes, can write into a plan: it is refused with its
//! key, in little time.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;

use plan::catalogue::{Catalogue, Month};
use plan::load::Scenario;
use plan::search::{Problem, UnfinishedSearch};

const SOUND: &str =
    "name = \"x\"\n[[load]]\nname = \"l\"\npeak = \"1 GB/s\"\nretention = \"1 d\"\n";

/// A plan with a server and a device of its own; a key that is given takes the place of the one
/// there.
fn own(server: &str, device: &str) -> String {
    let merged = |plain: &[&str], given: &str| {
        let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
        let is_given = |line: &str| given.lines().any(|other| key(other) == key(line));
        let kept: Vec<&str> = plain
            .iter()
            .copied()
            .filter(|line| !is_given(line))
            .collect();
        format!("{}\n{given}\n", kept.join("\n"))
    };
    let server = merged(
        &[
            "id = \"big\"",
            "cores = 64",
            "watts = 500",
            "slots = { s = 20 }",
            "memory = [\"128 GB\"]",
            "network = \"100 Gb/s\"",
            "price = { usd = 100, date = \"2026-11\" }",
        ],
        server,
    );
    let device = merged(
        &[
            "id = \"d\"",
            "class = \"flash\"",
            "slot = \"s\"",
            "capacity = \"10 TB\"",
            "read = \"1 GB/s\"",
            "write = \"1 GB/s\"",
            "watts = 5",
            "price = { usd = 1, date = \"2026-11\" }",
        ],
        device,
    );
    format!(
        "{SOUND}[cost]\nkwh_usd = 0.1\nrack_unit_month_usd = 100\n[[catalogue.server]]\n{server}[[catalogue.device]]\n{device}"
    )
}

#[track_caller]
fn refused(text: &str, expect: &str) {
    match Scenario::read("mine.toml", text, &[]) {
        Ok(_) => panic!("was read, though {expect}"),
        Err(problem) => {
            let said = problem.to_string();
            assert!(said.contains(expect), "{said}\nwithout {expect}");
        }
    }
}

#[test]
fn a_plans_own_entries_are_checked_as_those_of_a_catalogue_are() {
    Scenario::read("mine.toml", &own("", ""), &[]).unwrap();
    for (server, device, expect) in [
        (
            "price = { usd = -5, date = \"2026-11\" }",
            "",
            "-5 is no price",
        ),
        (
            "price = { usd = nan, date = \"2026-11\" }",
            "",
            "NaN is no price",
        ),
        (
            "price = { usd = inf, date = \"2026-11\" }",
            "",
            "inf is no price",
        ),
        (
            "price = { usd = 1, date = \"2026-11\", history = [[\"2025-06\", -1]] }",
            "",
            "-1 is no price",
        ),
        ("cores = -5", "", "catalogue.server[0].cores: -5"),
        ("cores = nan", "", "catalogue.server[0].cores: NaN"),
        ("speed = inf", "", "catalogue.server[0].speed: inf"),
        ("watts = -1e300", "", "catalogue.server[0].watts"),
        ("watts = nan", "", "catalogue.server[0].watts"),
        ("rack_units = -3", "", "catalogue.server[0].rack_units"),
        ("memory = []", "", "catalogue.server[0].memory"),
        ("memory = [\"0 B\"]", "", "catalogue.server[0].memory"),
        ("network = \"0 B/s\"", "", "catalogue.server[0].network"),
        ("", "capacity = \"0 B\"", "catalogue.device[0].capacity"),
        ("", "read = \"0 B/s\"", "catalogue.device[0].read"),
        ("", "write = \"0 B/s\"", "catalogue.device[0].write"),
        ("", "iops = nan", "catalogue.device[0].iops"),
        ("", "watts = -2", "catalogue.device[0].watts"),
        ("", "dwpd = -1.0", "catalogue.device[0].dwpd"),
        ("", "dwpd_years = 0.0", "catalogue.device[0].dwpd_years"),
        (
            "",
            "amplification = 0.0",
            "catalogue.device[0].amplification",
        ),
        ("", "id = \"\\u001b[2J\"", "catalogue.device[0].id"),
        ("", "id = \"\"", "catalogue.device[0].id"),
    ] {
        refused(&own(server, device), expect);
    }
    let object = format!(
        "{SOUND}[[catalogue.object]]\nid = \"o\"\nobject = \"0 B\"\nput_thousand_usd = 0.1\n"
    );
    refused(&object, "catalogue.object[0].object");
    let object = format!("{SOUND}[[catalogue.object]]\nid = \"o\"\nput_thousand_usd = nan\n");
    refused(&object, "catalogue.object[0].put_thousand_usd");
    let nic = format!("{SOUND}[[catalogue.nic]]\nid = \"n\"\nrate = \"1 Gb/s\"\nwatts = -1\n");
    refused(&nic, "catalogue.nic[0].watts");
}

#[test]
fn an_entry_that_is_there_twice_is_refused() {
    let text = own("", "")
        + "[[catalogue.device]]\nid = \"d\"\nclass = \"flash\"\nslot = \"s\"\ncapacity = \"1 TB\"\nread = \"1 GB/s\"\nwrite = \"1 GB/s\"\n";
    refused(&text, "\"d\" is there twice");
}

#[test]
fn counts_that_nobody_has_are_refused() {
    for (key, expect) in [
        ("partitions = 0", "load[0].partitions"),
        ("partitions = 4000000000", "load[0].partitions"),
        ("consumers = 4000000000", "load[0].consumers"),
    ] {
        refused(&format!("{SOUND}{key}\n"), expect);
    }
    refused(
        &own("slots = { s = 60000 }", ""),
        "catalogue.server[0].slots",
    );
    let amounts = vec!["\"128 GB\""; 5000].join(", ");
    refused(
        &own(&format!("memory = [{amounts}]"), ""),
        "catalogue.server[0].memory",
    );
    let mut text = SOUND.to_owned();
    for at in 0..1000 {
        // Writing to a text cannot fail.
        let _ = write!(text, "[[variant]]\nname = \"v{at}\"\nset = []\n");
    }
    refused(&text, "variant");
}

#[test]
fn variants_that_would_write_the_same_files_are_refused() {
    let text = format!(
        "{SOUND}[[variant]]\nname = \"a b\"\nset = []\n[[variant]]\nname = \"A-b\"\nset = []\n"
    );
    refused(&text, "variant[1].name");
}

#[test]
fn loads_that_would_be_the_same_topic_are_refused() {
    let text = format!(
        "{SOUND}[[load]]\nname = \"a b\"\npeak = \"1 GB/s\"\nretention = \"1 d\"\n[[load]]\nname = \"a-b\"\npeak = \"1 GB/s\"\nretention = \"1 d\"\n"
    );
    refused(&text, "load[2].name");
}

#[test]
fn names_do_not_steer_terminals() {
    refused(&SOUND.replace("\"x\"", "\"\\u001b]0;x\\u0007\""), "name");
    refused(&SOUND.replace("\"l\"", "\"\\u001b[2J\""), "load[0].name");
}

#[test]
fn a_key_that_goes_too_deep_is_refused() {
    // Each step was a call inside the one before: a request of this size ended the process.
    let key = "a.".repeat(100_000);
    let set = [format!("{key}a=1")];
    let said = Scenario::read("mine.toml", SOUND, &set)
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("too deep"),
        "{}",
        said.get(said.len() - 100..).unwrap()
    );
    assert!(said.len() < 1000, "{} bytes of complaint", said.len());
}

#[test]
fn an_unknown_key_costs_no_more_time_than_it_has_letters() {
    // What follows the backtick was taken for a known key, and compared letter by letter, for
    // minutes.
    let key = format!("{}`,`{}", "a".repeat(400_000), "b".repeat(400_000));
    for text in [
        format!("{SOUND}\"{key}\" = 1\n"),
        format!("{SOUND}latency = \"{key}\"\n"),
    ] {
        let said = Scenario::read("mine.toml", &text, &[]).unwrap_err();
        let said = said.to_string();
        assert!(said.len() < 4000, "{} bytes of complaint", said.len());
    }
}

#[test]
fn a_retention_that_no_topic_can_have_is_refused() {
    let text = SOUND.replace("\"1 d\"", "\"1e20 s\"");
    refused(&text, "load[0].retention");
}

/// Places for this number of devices of three kinds; each fits.
fn wide(places: u32) -> String {
    let mut text = own(&format!("slots = {{ s = {places}, t = {places} }}"), "");
    for at in 0..40 {
        let (class, slot) = if at % 2 == 0 {
            ("flash", "s")
        } else {
            ("disk", "t")
        };
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            "[[catalogue.device]]\nid = \"x{at}\"\nclass = \"{class}\"\nslot = \"{slot}\"\ncapacity = \"10 TB\"\nread = \"1 GB/s\"\nwrite = \"1 GB/s\"\n"
        );
    }
    text
}

#[test]
fn more_mixes_than_are_looked_at_are_counted_without_being_kept() {
    // 20 x 20 pairs of devices, a million counts of each: kept in a list they were more memory than
    // a machine has.
    let scenario = Scenario::read("mine.toml", &wide(1000), &[]).unwrap();
    let mut catalogue = Catalogue::shipped().unwrap();
    catalogue.overlay(scenario.catalogue.clone());
    let software = catalogue.software("forebay").unwrap();
    let problem = Problem::new(
        &scenario,
        &catalogue,
        software,
        Month::new(2026, 11).unwrap(),
    );
    assert!(problem.mixes() > 4_000_000);
    assert_eq!(problem.best().unwrap_err(), UnfinishedSearch::TooMany);
}
