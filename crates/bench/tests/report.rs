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

use bench::outcome::{Interval, Run};
use bench::report;
use proptest::prelude::*;

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
fn a_limit_of_latency_bounds_no_rate() {
    let (page, _) = page(&samples::quick());
    let limits = page.split("<section id=\"limits\"").nth(1).unwrap();
    let row = limits
        .split("<tr>")
        .find(|row| row.contains("each synced"))
        .unwrap();
    assert!(row.contains("358 us / 6.19 ms / 15.4 ms"), "{row}");
    assert_eq!(page.matches("each synced").count(), 2, "the table only");
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
fn repetitions_of_one_load_are_one_cell() {
    let mut run = samples::quick();
    run.cells.retain(|cell| {
        cell.phase == "consume"
            && cell.parameters["record"] == "1000"
            && cell.parameters["producers"] == "4"
    });
    let (page, _) = page(&run);
    assert!(page.contains("Where kafka is faster: 1 of 1 cells"));
    assert!(page.contains("consume, disk, 4 producers, 1 kB records: "));
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
fn bursts_stand_beside_the_rule() {
    let (quiet, _) = page(&samples::quick());
    assert!(!quiet.contains("id=\"bursts\""));
    let (page, _) = page(&samples::bursts());
    let section = page.split("id=\"bursts\"").nth(1).unwrap();
    let rows: Vec<&str> = section.split("<tr>").skip(2).take(4).collect();
    let [first, _, slow, _] = rows.as_slice() else {
        panic!("two bursts on two targets");
    };
    // 20 GB free, 1.1 GB/s more than drains: 18 s, and here the tier has no end.
    assert!(
        first.contains(">forebay<") && first.contains("more than 60 s"),
        "{first}"
    );
    assert!(slow.contains(">kafka<"), "{slow}");
    // What was not in time from its first point on was taken in for no time, or one point.
    assert!(!slow.contains("more than 60"), "{slow}");
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
    report::write(&report::read(dir.path()).unwrap(), dir.path()).unwrap();
    let again = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    let first = page(&run).0;
    let differs = again
        .lines()
        .zip(first.lines())
        .find(|(one, two)| one != two);
    assert_eq!(differs, None);
}

fn drawn(dir: &std::path::Path) -> anyhow::Result<()> {
    report::write(&report::read(dir)?, dir)
}

#[track_caller]
fn refused(text: &str, says: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("run.json"), text).unwrap();
    let error = format!("{:#}", drawn(dir.path()).unwrap_err());
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
    let error = report::read(std::path::Path::new("no-such-directory")).unwrap_err();
    assert!(
        format!("{error:#}").contains("no-such-directory/run.json"),
        "{error:#}"
    );
}

/// The points of a drawing that are outside of it.
fn outside(svg: &str) -> Vec<(f64, f64)> {
    let attribute = |tag: &str, name: &str| -> Option<f64> {
        let after = tag.split(&format!(" {name}=\"")).nth(1)?;
        after.split('"').next()?.parse().ok()
    };
    let Some(size) = svg.split("viewBox=\"0 0 ").nth(1) else {
        return Vec::new();
    };
    let (width, height) = size.split('"').next().unwrap().split_once(' ').unwrap();
    let (width, height): (f64, f64) = (width.parse().unwrap(), height.parse().unwrap());
    let mut points = Vec::new();
    for tag in svg.split('<').skip(2) {
        let tag = tag.split('>').next().unwrap();
        for path in tag.split(" d=\"").skip(1) {
            let path = path.split('"').next().unwrap();
            let steps = path.split(['M', 'L', 'Z']).filter(|step| !step.is_empty());
            points.extend(steps.map(|step| {
                let (x, y) = step.split_once(' ').unwrap();
                (x.parse::<f64>().unwrap(), y.parse::<f64>().unwrap())
            }));
        }
        let corner = attribute(tag, "x").zip(attribute(tag, "y"));
        points.extend(corner);
        if let (Some((x, y)), Some(wide)) = (corner, attribute(tag, "width")) {
            points.push((x + wide, y));
        }
        points.extend(attribute(tag, "cx").zip(attribute(tag, "cy")));
    }
    // A tenth for rounding; the mark of a value at the edge reaches 4 beyond it.
    points
        .retain(|(x, y)| !((-0.1..=width + 0.1).contains(x) && (-0.1..=height + 0.1).contains(y)));
    points
}

#[test]
fn points_outside_are_found() {
    let svg =
        "<svg viewBox=\"0 0 10 10\"><path d=\"M0 0L11 5\"/><rect x=\"5\" y=\"1\" width=\"6\"/>";
    assert_eq!(outside(svg), [(11.0, 5.0), (11.0, 1.0)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_measured_is_drawn_inside_its_chart(
        figures in prop::collection::vec((any::<f64>(), any::<u64>(), any::<f64>()), 8),
        times in prop::collection::vec((any::<f64>(), any::<u64>(), any::<u64>(), any::<u64>()), 0..9),
        limit in any::<f64>(), producers in prop::collection::vec(0_u32..100, 8),
    ) {
        let mut run = samples::quick();
        run.cells.truncate(8);
        run.limits.truncate(1);
        run.limits[0].bytes_per_second = limit;
        for ((cell, (seconds, bytes, cpu)), producers) in run.cells.iter_mut().zip(figures).zip(producers) {
            cell.outcome.seconds = seconds;
            cell.outcome.produce.as_mut().unwrap().bytes = bytes;
            cell.outcome.broker.as_mut().unwrap().cpu_seconds = cpu;
            cell.parameters.insert("producers".to_owned(), producers.to_string());
            cell.outcome.intervals = times
                .iter()
                .map(|(at, produced, first, second)| Interval {
                    at: *at,
                    produced: *produced,
                    tier_bytes: vec![*first, *second],
                    ..Interval::default()
                })
                .collect();
        }
        let (page, _) = page(&run);
        for word in ["NaN", ">inf", "inf<", "\"inf", " inf", "-inf"] {
            prop_assert!(!page.contains(word), "{word}");
        }
        for svg in page.split("<svg").skip(1) {
            let svg = svg.split("</svg>").next().unwrap();
            prop_assert_eq!(outside(&format!("<svg{svg}")), [], "{}", svg);
        }
    }
}
