//! Reports of made-up runs: whole, safe, and the same from the file as from memory.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test; figures of samples are rounded"
)]

#[path = "report/samples.rs"]
mod samples;

use bench::outcome::Run;
use bench::report;

fn page(run: &Run) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    report::write(run, dir.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    (read("report.html"), read("cells.csv"))
}

#[test]
fn no_page_prints_what_is_no_number_or_asks_for_anything_outside() {
    for (name, run) in samples::all() {
        let (page, cells) = page(&run);
        for word in ["NaN", ">inf", "inf<", " inf ", "infx", "-inf"] {
            assert!(!page.contains(word), "{name}: {word}");
            assert!(!cells.contains(&format!(",{word},")), "{name}: {word}");
        }
        for outside in ["http://", "https://", "src=\"", "@import", "url("] {
            assert!(!page.contains(outside), "{name}: {outside}");
        }
        assert!(page.ends_with("</html>\n"), "{name}");
        assert_eq!(
            page.matches("<svg").count(),
            page.matches("aria-label=\"").count() - page.matches("<nav").count(),
            "{name}: every drawing has a name"
        );
        assert_eq!(cells.lines().count(), run.cells.len() + 1, "{name}");
    }
}

#[test]
fn what_a_run_says_is_never_markup() {
    let (page, _) = page(&samples::hostile());
    assert_eq!(page.matches("<script>").count(), 1, "ours only");
    assert!(!page.contains("<img"));
    assert_eq!(
        page.matches("</title>").count(),
        1 + page.matches("<title>").count() - 1
    );
}

#[test]
fn where_we_lose_is_said() {
    let (page, _) = page(&samples::quick());
    assert!(page.contains("Where kafka is faster"), "{page}");
    assert!(
        page.contains("</b> consume, disk, 4 producers, 1 kB records: "),
        "by name"
    );
    assert!(!page.contains("kafka is faster in none"));
}

#[test]
fn a_run_that_ended_early_says_so_first() {
    let (page, cells) = page(&samples::partial());
    let notice = page.find("interrupted (^C) after 47 of 216 cells").unwrap();
    assert!(notice < page.find("<section").unwrap());
    assert!(page.contains("the broker stopped answering"));
    assert!(page.contains("REQUEST_TIMED_OUT"));
    assert!(page.contains("2 lost"));
    assert!(cells.contains("the broker stopped answering"));
}

#[test]
fn nothing_measured_is_said() {
    let (page, _) = page(&samples::empty());
    assert!(page.contains("No cell was measured"));
    assert!(page.contains("no space left on device"));
}

#[test]
fn a_target_alone_has_charts_but_no_ratios() {
    let (page, _) = page(&samples::alone());
    assert!(page.contains("nothing to compare it with"));
    assert!(page.contains("id=\"throughput\""));
    assert!(!page.contains("id=\"cells\""));
}

#[test]
fn tiers_are_drawn_under_the_curve() {
    let (page, _) = page(&samples::bursts());
    assert!(page.contains("on tiers of forebay"));
    assert!(page.contains("a t0 tier1"));
    assert!(!page.contains("on tiers of kafka"));
}

#[test]
fn a_large_run_is_not_a_large_page() {
    let (page, _) = page(&samples::cars());
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
}

#[test]
fn drawn_again_from_the_file_it_is_the_same() {
    let run = samples::quick();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("run.json"),
        serde_json::to_string(&run).unwrap(),
    )
    .unwrap();
    report::again(dir.path()).unwrap();
    let again = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    let first = page(&run).0;
    let differs = again
        .lines()
        .zip(first.lines())
        .find(|(one, two)| one != two);
    assert_eq!(differs, None);
}

#[track_caller]
fn refused(text: &str, says: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("run.json"), text).unwrap();
    let error = format!("{:#}", report::again(dir.path()).unwrap_err());
    for word in says {
        assert!(error.contains(word), "{error}");
    }
    assert!(!dir.path().join("report.html").exists());
}

#[test]
fn a_bad_file_is_named_with_its_field() {
    let good = serde_json::to_string(&samples::quick()).unwrap();
    let records = good.find("\"records\":").unwrap() + "\"records\":".len();
    let wrong = format!(
        "{}\"many\"{}",
        &good[..records],
        &good[good[records..].find(',').unwrap() + records..]
    );
    refused(
        &wrong,
        &["run.json", "cells[0].outcome.produce.records", "\"many\""],
    );
    refused(
        &good.replacen("\"version\":1", "\"version\":9", 1),
        &["run.json", "version: 9"],
    );
    refused(
        &good
            .replacen("\"hdr\"", "", 0)
            .replacen("HISTE", "HISTX", 1),
        &["cells[0].outcome.produce.latency"],
    );
    refused("", &["run.json", "EOF"]);
    refused("{\"version\":1", &["run.json"]);
    let error = report::again(std::path::Path::new("no-such-directory")).unwrap_err();
    assert!(
        format!("{error:#}").contains("no-such-directory/run.json"),
        "{error:#}"
    );
}
