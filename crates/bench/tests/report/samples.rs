//! Made-up runs, the same every time: all that a report must be able to show, and what it must
//! survive.
//!
//! The figures come from formulas; none was measured.

use bench::latency::histogram;
use bench::outcome::{
    Cell, Interval, Latency, Limit, LimitLatency, LoadOutcome, RecordCheckResult, Run, Side, Surge,
    TargetFacts, Usage,
};

/// All of them, by name.
pub fn all() -> Vec<(&'static str, Run)> {
    vec![
        ("cars", cars()),
        ("quick", quick()),
        ("bursts", bursts()),
        ("partial", partial()),
        ("alone", alone()),
        ("empty", empty()),
        ("hostile", hostile()),
    ]
}

/// The sample that is kept as a file: a whole sweep.
pub fn cars() -> Run {
    serde_json::from_str(include_str!("../fixtures/run.json")).expect("the sample is a run")
}

/// A few loads, three repetitions, one device.
pub fn quick() -> Run {
    let mut run = frame(
        "quick",
        "Five minutes: small and large records, written and read, beside Apache Kafka. A made-up sample: the figures were drawn from formulas, not measured.",
    );
    let loads = [
        ("produce", "1000", "1", [0.34e9, 0.13e9]),
        ("produce", "1000", "4", [0.62e9, 0.21e9]),
        ("produce", "240000", "1", [1.15e9, 0.33e9]),
        ("produce", "240000", "4", [1.71e9, 0.44e9]),
        ("consume", "1000", "1", [0.62e9, 0.71e9]),
        ("consume", "1000", "4", [0.86e9, 0.98e9]),
        ("consume", "240000", "1", [1.9e9, 1.88e9]),
        ("consume", "240000", "4", [2.4e9, 2.1e9]),
        ("both", "240000", "4", [0.93e9, 0.3e9]),
    ];
    for repetition in 0..2 {
        for (number, (phase, record, producers, rates)) in loads.into_iter().enumerate() {
            for (target, rate) in ["forebay", "kafka"].into_iter().zip(rates) {
                // Up to 6 % to either side, different for each, the same every time.
                let turn = f64::from(repetition) * 2.1 + number as f64 * 1.3 + rate / 1e9;
                let mut cell = cell(phase, target, "disk", rate * (1.0 + 0.06 * turn.sin()), 3.0);
                cell.repetition = repetition;
                parameter(&mut cell, "record", record);
                parameter(&mut cell, "producers", producers);
                run.cells.push(cell);
            }
        }
    }
    for rate in ["20000000", "100000000"] {
        for target in ["forebay", "kafka"] {
            let mut cell = cell("paced", target, "disk", rate.parse().expect("a rate"), 4.0);
            parameter(&mut cell, "rate", rate);
            run.cells.push(cell);
        }
    }
    run.limits = vec![
        limit("socket sink", "", "1000", 2.9e9),
        limit("socket sink", "", "240000", 3.4e9),
        limit("fio write", "disk", "", 1.68e9),
        limit("fio read", "disk", "", 1.43e9),
        Limit {
            latency: Some(LimitLatency {
                p50_us: 358.0,
                p99_us: 6193.0,
                p999_us: 15_400.0,
            }),
            ..limit("fio write, each synced", "disk", "", 0.1e9)
        },
    ];
    run
}

/// Bursts on a broker with two tiers, half an hour of curves.
pub fn bursts() -> Run {
    let mut run = frame(
        "bursts",
        "A low base load, two bursts of a minute, readers reading along; the first tier holds 40 GB.",
    );
    for target in ["forebay", "kafka"] {
        let mut cell = cell("burst", target, "tiered", 0.35e9, 1800.0);
        let (mut first, mut second) = (0.0_f64, 0.0_f64);
        let drain = 0.3e9;
        cell.outcome.intervals = (-20..1800)
            .map(|second_of_run| {
                let at = f64::from(second_of_run);
                let bursting = (640.0..700.0).contains(&at) || (1340.0..1400.0).contains(&at);
                let wanted = if bursting { 1.4e9 } else { 0.2e9 };
                let rate = if target == "kafka" {
                    f64::min(wanted, 0.45e9)
                } else {
                    wanted
                };
                first += rate;
                let moved = first.clamp(0.0, drain * f64::from(u8::from(first > 20e9)));
                first -= moved;
                second += moved;
                Interval {
                    at: at + 1.0,
                    produced: rate as u64,
                    consumed: (rate * 0.98) as u64,
                    p50_us: 900,
                    p99_us: 4_000,
                    tier_bytes: if target == "forebay" {
                        vec![first as u64, second as u64]
                    } else {
                        Vec::new()
                    },
                    ..Interval::default()
                }
            })
            .collect();
        cell.surge = Some(Surge {
            base: 0.2e9,
            peak: 1.4e9,
            length: 60.0,
            interval: 700.0,
            first_tier: (target == "forebay").then_some(40e9),
            threshold: None,
            drain: Some(drain),
        });
        run.cells.push(cell);
    }
    run.emulated = vec![
        "tiered: the first tier is memory, the second a loop device held to 300 MB/s".to_owned(),
    ];
    run
}

/// Ended in the middle of the sweep, with errors, lost records and a cell that was aborted.
pub fn partial() -> Run {
    let mut run = cars();
    run.cells.truncate(47);
    run.aborted = Some("interrupted (^C) after 47 of 216 cells".to_owned());
    run.cells[46].outcome.aborted = Some("the broker stopped answering".to_owned());
    run.cells[12]
        .outcome
        .errors
        .insert("REQUEST_TIMED_OUT".to_owned(), 1_204);
    run.cells[13].outcome.verified = Some(RecordCheckResult {
        acknowledged: 1_000_000,
        read: 999_998,
        lost: 2,
        ..RecordCheckResult::default()
    });
    run.cells[20].outcome.consume = None;
    run.cells[20].outcome.broker = None;
    run.cells[21].outcome.intervals.clear();
    run
}

/// One target: nothing to compare with.
pub fn alone() -> Run {
    let mut run = cars();
    run.cells
        .retain(|cell| cell.target == "forebay" && cell.device != "disk");
    run.order = vec!["forebay".to_owned()];
    run.targets.retain(|name, _| name == "forebay");
    run.limits.clear();
    run
}

/// Ended before the first cell.
pub fn empty() -> Run {
    let mut run = frame("empty", "");
    run.targets.clear();
    run.order.clear();
    run.machine.clear();
    run.command.clear();
    run.aborted = Some("no space left on device".to_owned());
    run
}

/// Texts that would be markup, names that are far too long, figures that are none.
pub fn hostile() -> Run {
    let markup = "</title></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&";
    let long = "a-target-with-a-name-that-nobody-would-ever-give-to-one-but-might";
    let mut run = frame(markup, markup);
    markup.clone_into(&mut run.command);
    run.machine = vec![(markup.to_owned(), markup.to_owned())];
    run.emulated = vec![markup.to_owned()];
    run.order = vec![markup.to_owned(), long.to_owned()];
    run.targets.insert(
        markup.to_owned(),
        TargetFacts {
            version: markup.to_owned(),
            command: "x".repeat(400),
            durability: markup.to_owned(),
        },
    );
    for (number, producers) in ["1", "2", "1e300", "many", "-5"].into_iter().enumerate() {
        for target in [markup, long] {
            let mut cell = cell(
                markup,
                target,
                markup,
                1e9,
                [1.0, 0.0, f64::NAN, -3.0, 1e-300][number],
            );
            parameter(&mut cell, markup, producers);
            parameter(
                &mut cell,
                "record",
                ["1", "18446744073709551615", "0", "240000", "1000"][number],
            );
            parameter(&mut cell, "producers", producers);
            cell.outcome.errors.insert(markup.to_owned(), 1);
            cell.outcome.intervals.push(Interval {
                at: f64::INFINITY,
                ..Interval::default()
            });
            run.cells.push(cell);
        }
    }
    for value in [f64::NAN, f64::INFINITY, 0.0, 1e300] {
        run.limits.push(limit(markup, "", "1000", value));
    }
    run
}

fn frame(experiment: &str, about: &str) -> Run {
    let facts = |version: &str, command: &str, durability: &str| TargetFacts {
        version: version.to_owned(),
        command: command.to_owned(),
        durability: durability.to_owned(),
    };
    Run {
        version: 1,
        experiment: experiment.to_owned(),
        about: about.to_owned(),
        started_ms: 1_790_000_000_000,
        command: format!("forebay bench run {experiment} --out results"),
        machine: [
            ("processor", "Intel(R) Xeon(R) Processor @ 2.60GHz"),
            ("cores", "2"),
            ("memory", "23.5 GiB"),
            ("kernel", "Linux 6.18.44"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        emulated: Vec::new(),
        targets: [
            (
                "forebay".to_owned(),
                facts(
                    "0.1.0",
                    "forebay serve log.dirs=/var/tmp/forebay-bench",
                    "synced before the acknowledgement",
                ),
            ),
            (
                "kafka".to_owned(),
                facts(
                    "4.3.0",
                    "java -Xmx1G .. kafka.Kafka server.properties",
                    "not synced: the page cache (as shipped)",
                ),
            ),
        ]
        .into(),
        order: vec!["forebay".to_owned(), "kafka".to_owned()],
        ..Run::default()
    }
}

fn parameter(cell: &mut Cell, name: &str, value: &str) {
    cell.parameters.insert(name.to_owned(), value.to_owned());
}

fn limit(name: &str, device: &str, record: &str, rate: f64) -> Limit {
    let mut limit = Limit {
        name: name.to_owned(),
        device: device.to_owned(),
        bytes_per_second: rate,
        command: format!("measure {name}"),
        ..Limit::default()
    };
    if !record.is_empty() {
        limit
            .parameters
            .insert("record".to_owned(), record.to_owned());
    }
    limit
}

/// A cell at a rate; latencies and processor time follow from it.
fn cell(phase: &str, target: &str, device: &str, rate: f64, seconds: f64) -> Cell {
    let length = if seconds.is_finite() && seconds > 0.5 {
        seconds
    } else {
        1.0
    };
    let bytes = (rate * length) as u64;
    let reads = phase.contains("consume");
    let slow = if target == "forebay" {
        1.0
    } else if reads {
        0.8
    } else {
        4.0
    };
    let mut latencies = histogram();
    for value in 0..20_000_u32 {
        // A long tail: one of a thousand is fifty times the median.
        let share = f64::from(value) / 20_000.0;
        let value = slow * 300.0 * (1e9 / rate.max(1e6)).powf(0.3) / (1.0 - share).powf(0.5);
        latencies.saturating_record(value as u64);
    }
    let side = Side {
        records: bytes / 1_000,
        bytes,
        wire_bytes: bytes + bytes / 50,
        requests: bytes / 1_000_000,
        latency: Latency::of(&latencies),
    };
    let intervals = (1..=(length.min(60.0) * 2.0) as u32).map(|number| Interval {
        at: f64::from(number) / 2.0,
        produced: if reads {
            0
        } else {
            (rate / 2.0 * (1.0 + 0.06 * f64::from(number).sin())) as u64
        },
        consumed: if reads {
            (rate / 2.0 * (1.0 + 0.04 * f64::from(number).cos())) as u64
        } else {
            0
        },
        p50_us: 900,
        p99_us: 8_000,
        ..Interval::default()
    });
    Cell {
        phase: phase.to_owned(),
        target: target.to_owned(),
        device: device.to_owned(),
        outcome: LoadOutcome {
            started_ms: 1_790_000_000_000,
            seconds,
            produce: (!reads).then(|| side.clone()),
            consume: (reads || ["burst", "both"].contains(&phase)).then_some(side),
            intervals: intervals.collect(),
            broker: Some(Usage {
                cpu_seconds: bytes as f64 / 1e9 * 0.28 * slow,
                resident_bytes_max: (260e6 * slow) as u64,
                ..Usage::default()
            }),
            client: Some(Usage {
                cpu_seconds: 0.1,
                ..Usage::default()
            }),
            ..LoadOutcome::default()
        },
        ..Cell::default()
    }
}
