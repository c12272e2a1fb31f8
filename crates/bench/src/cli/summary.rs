//! The outcome of a load as text for a terminal.

use std::fmt::Write as _;

use wire::text::EscapedText;

use crate::latency::Percentiles;
use crate::outcome::{Interval, LoadOutcome, Side};

/// Returns one line of progress.
pub(super) fn interval(interval: &Interval, seconds: f64) -> String {
    let mut line = format!("{:>7.1} s", interval.at);
    for (what, bytes) in [("written", interval.produced), ("read", interval.consumed)] {
        if bytes > 0 {
            let _ = write!(line, "  {what} {:>9}/s", amount(bytes as f64 / seconds));
        }
    }
    if interval.p99_us > 0 {
        let (p50, p99) = (time(interval.p50_us), time(interval.p99_us));
        let _ = write!(line, "  p50 {p50}  p99 {p99}");
    }
    if interval.at <= 0.0 {
        line.push_str("  (warm-up)");
    }
    line
}

/// Returns the whole outcome.
pub(super) fn outcome(outcome: &LoadOutcome) -> anyhow::Result<String> {
    let mut text = format!("counted for {:.2} s\n", outcome.seconds);
    for (what, side) in [("written", &outcome.produce), ("read", &outcome.consume)] {
        if let Some(side) = side {
            text.push_str(&one_side(what, side, outcome.seconds)?);
        }
    }
    if let Some(client) = &outcome.client {
        let sides = [&outcome.produce, &outcome.consume];
        let bytes: u64 = sides.into_iter().flatten().map(|side| side.bytes).sum();
        let _ = write!(text, "client   {:.2} CPU-s", client.cpu_seconds);
        if bytes > 0 {
            let per_gb = client.cpu_seconds / (bytes as f64 / 1e9);
            let _ = write!(text, ", {per_gb:.3} CPU-s/GB");
        }
        let _ = writeln!(
            text,
            ", {} resident",
            amount(client.resident_bytes_max as f64)
        );
    }
    if let Some(verified) = &outcome.verified {
        let _ = writeln!(
            text,
            "checked  {} acknowledged, {} read, {} lost, {} twice, {} out of order, {} damaged",
            verified.acknowledged,
            verified.read,
            verified.lost,
            verified.duplicated,
            verified.disordered,
            verified.damaged
        );
    }
    for (error, count) in &outcome.errors {
        let _ = writeln!(text, "error    {count} x {}", EscapedText(error));
    }
    if let Some(why) = &outcome.aborted {
        let _ = writeln!(text, "ended before its time: {}", EscapedText(why));
    }
    Ok(text)
}

fn one_side(what: &str, side: &Side, seconds: f64) -> anyhow::Result<String> {
    let per_second = |count: u64| count as f64 / seconds.max(1e-9);
    let mut text = format!(
        "{what:<8} {} in {} records and {} requests: {}/s, {:.0} records/s\n",
        amount(side.bytes as f64),
        side.records,
        side.requests,
        amount(per_second(side.bytes)),
        per_second(side.records)
    );
    let at = Percentiles::of(&side.latency.histogram()?);
    if at.count > 0 {
        let _ = writeln!(
            text,
            "         latency p50 {}, p90 {}, p99 {}, p99.9 {}, p99.99 {}, max {}",
            time(at.p50),
            time(at.p90),
            time(at.p99),
            time(at.p99_9),
            time(at.p99_99),
            time(at.max)
        );
    }
    Ok(text)
}

fn amount(bytes: f64) -> String {
    let (factor, unit) = match bytes {
        bytes if bytes >= 1e9 => (1e9, "GB"),
        bytes if bytes >= 1e6 => (1e6, "MB"),
        bytes if bytes >= 1e3 => (1e3, "KB"),
        _ => return format!("{bytes:.0} B"),
    };
    format!("{:.2} {unit}", bytes / factor)
}

fn time(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{:.2} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency;
    use crate::outcome::{Latency, RecordCheckResult, Usage};

    #[test]
    fn an_outcome_reads_as_it_is() {
        let mut histogram = latency::histogram();
        histogram.saturating_record_n(1_500, 100);
        let whole = LoadOutcome {
            seconds: 2.0,
            produce: Some(Side {
                records: 100,
                bytes: 24_000_000,
                wire_bytes: 24_100_000,
                requests: 50,
                latency: Latency::of(&histogram),
            }),
            client: Some(Usage {
                cpu_seconds: 0.12,
                resident_bytes_max: 12_000_000,
                ..Usage::default()
            }),
            errors: [("produce: RequestTimedOut".to_owned(), 3)].into(),
            verified: Some(RecordCheckResult {
                acknowledged: 100,
                read: 99,
                lost: 1,
                ..RecordCheckResult::default()
            }),
            aborted: Some("stopped".to_owned()),
            ..LoadOutcome::default()
        };
        let expected = "\
counted for 2.00 s
written  24.00 MB in 100 records and 50 requests: 12.00 MB/s, 50 records/s
         latency p50 1.50 ms, p90 1.50 ms, p99 1.50 ms, p99.9 1.50 ms, p99.99 1.50 ms, max 1.50 ms
client   0.12 CPU-s, 5.000 CPU-s/GB, 12.00 MB resident
checked  100 acknowledged, 99 read, 1 lost, 0 twice, 0 out of order, 0 damaged
error    3 x produce: RequestTimedOut
ended before its time: stopped
";
        assert_eq!(outcome(&whole).unwrap(), expected);
    }

    #[test]
    fn progress_is_one_line() {
        let now = Interval {
            at: 3.0,
            produced: 50_000_000,
            p50_us: 900,
            p99_us: 12_000,
            ..Interval::default()
        };
        let expected = "    3.0 s  written 100.00 MB/s  p50 900 us  p99 12.00 ms";
        assert_eq!(interval(&now, 0.5), expected);
    }
}
