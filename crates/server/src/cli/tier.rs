//! `forebay tier ...`: what the tiers hold and why, and orders to them, over a broker's admin
//! endpoint.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};

use wire::text::{EscapedText, escaped_json};

use super::format::Format;
use super::http::{ask, encode};
use crate::tiers::{SegmentStatus, Status, TierOutcome, TierStatus, parse_which};

/// Arguments of `forebay tier`.
#[derive(Debug, Args)]
pub(super) struct TierArgs {
    #[command(flatten)]
    admin: cli::AdminArgs,
    /// Output format; JSON is the response of the endpoint.
    #[arg(long, value_enum, default_value_t = Format::Text, global = true)]
    format: Format,
    #[command(subcommand)]
    command: TierCommand,
}

#[derive(Debug, Subcommand)]
enum TierCommand {
    /// Shows each tier and path: capacity, fill, moves, and when it will be full.
    Status,
    /// Lists segments and where they are.
    Segments {
        /// Only of this topic, or of this partition (TOPIC-PARTITION).
        which: Option<String>,
    },
    /// Shows where each segment of a partition is and which rule keeps it there.
    Why {
        /// The partition.
        #[arg(value_name = "TOPIC-PARTITION")]
        which: String,
    },
    /// Asks for the sealed segments of a topic or partition to be moved to a tier.
    Move {
        /// The topic, or the partition (TOPIC-PARTITION).
        which: String,
        /// Name of the tier.
        tier: String,
        /// Only the segment that begins at this offset.
        #[arg(long, value_name = "OFFSET")]
        base: Option<i64>,
    },
    /// Empties a path while the broker serves: it gets no new segments, and its segments move away.
    Drain {
        /// The directory, as it is in the settings.
        path: String,
        /// Ends the drain: the path is used again.
        #[arg(long)]
        stop: bool,
    },
    /// Reads sealed segments from their disks and checks every batch.
    Verify {
        /// Only of this topic, or of this partition (TOPIC-PARTITION).
        which: Option<String>,
    },
}

impl TierArgs {
    /// Sends the command to the broker and prints the response.
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let (path, order) = self.command.request();
        let body = ask(&self.admin.target()?, &path, order)?;
        let is_text = self.format == Format::Text;
        let (text, code) = self.command.show(&body).context("the broker's answer")?;
        let shown = if is_text {
            text.into()
        } else {
            escaped_json(&body)
        };
        super::print(&shown)?;
        Ok(code)
    }
}

impl TierCommand {
    /// Returns the path to request, and whether it is an order.
    fn request(&self) -> (String, bool) {
        match self {
            Self::Status => ("/tiers".into(), false),
            Self::Segments { which } => (segments(which.as_deref()), false),
            Self::Why { which } => (segments(Some(which)), false),
            Self::Move { which, tier, base } => {
                let mut path = format!("/tiers/move?to={}{}", encode(tier), of(which));
                if let Some(base) = base {
                    let _ = write!(path, "&base={base}");
                }
                (path, true)
            }
            Self::Drain { path, stop } => (
                format!("/tiers/drain?path={}&stop={stop}", encode(path)),
                true,
            ),
            Self::Verify { which } => {
                let which = which.as_deref().map(of).unwrap_or_default();
                (
                    format!("/tiers/verify?{}", which.trim_start_matches('&')),
                    true,
                )
            }
        }
    }

    /// Returns the response as text, and the exit code of the command.
    fn show(&self, body: &str) -> anyhow::Result<(String, ExitCode)> {
        let text = match self {
            Self::Status => status(&serde_json::from_str(body)?),
            Self::Segments { .. } => list(&serde_json::from_str::<Vec<_>>(body)?),
            Self::Why { which } => {
                let segments: Vec<SegmentStatus> = serde_json::from_str(body)?;
                anyhow::ensure!(
                    !segments.is_empty(),
                    "no segments of {which} on this broker"
                );
                why(&segments)
            }
            Self::Move { tier, .. } => {
                let outcome: TierOutcome = serde_json::from_str(body)?;
                format!(
                    "{} sealed segments will move to {tier} when it has room\n",
                    outcome.segments
                )
            }
            Self::Drain { path, stop } => drained(path, *stop, &serde_json::from_str(body)?),
            Self::Verify { .. } => return Ok(verified(&serde_json::from_str(body)?)),
        };
        Ok((text, ExitCode::SUCCESS))
    }
}

fn drained(path: &str, stop: bool, outcome: &TierOutcome) -> String {
    let mut text = if stop {
        format!("{path} is used again\n")
    } else {
        let (segments, bytes) = (outcome.segments, size(outcome.bytes));
        format!("{path} is drained: {segments} segments, {bytes} to move\n")
    };
    for problem in &outcome.problems {
        let _ = writeln!(text, "{}", EscapedText(problem));
    }
    text
}

fn segments(which: Option<&str>) -> String {
    let which = which.map(of).unwrap_or_default();
    format!("/tiers/segments?{}", which.trim_start_matches('&'))
}

fn of(which: &str) -> String {
    match parse_which(which) {
        (topic, Some(partition)) => format!("&topic={}&partition={partition}", encode(&topic)),
        (topic, None) => format!("&topic={}", encode(&topic)),
    }
}

fn status(status: &Status) -> String {
    let mut text = match status.threshold {
        Some(threshold) => format!(
            "moves down above {}%, up below {}%, {}% reserved\n",
            percent(threshold),
            percent(threshold - status.hysteresis),
            percent(status.reserve)
        ),
        None => "movement is off (storage.migrate.threshold=-1)\n".to_owned(),
    };
    for tier in &status.tiers {
        show_tier(&mut text, tier);
    }
    text
}

fn show_tier(text: &mut String, tier: &TierStatus) {
    let TierStatus {
        name,
        medium,
        durability,
        segments,
        ..
    } = tier;
    // Writing to a `String` cannot fail, here and below.
    let _ = writeln!(
        text,
        "\n{} ({}{}, {}): {}, {segments} segments, {} to move down",
        EscapedText(name),
        EscapedText(medium),
        if tier.emulated { " EMULATED" } else { "" },
        EscapedText(durability),
        fill(tier),
        size(tier.backlog_bytes)
    );
    if let Some(seconds) = tier.seconds_to_full {
        let _ = writeln!(
            text,
            "  full in {seconds} s, if it fills as in the last 10 s"
        );
    }
    if let Some(seconds) = tier.seconds_to_drain {
        let _ = writeln!(
            text,
            "  at the threshold in {seconds} s, if it empties as in the last 10 s"
        );
    }
    for path in &tier.paths {
        let _ = writeln!(
            text,
            "  {} {}: {} used, {} free, {} segments, {} down, {} up, {} reads, {} errors",
            EscapedText(&path.path),
            EscapedText(&path.state),
            size(path.used_bytes),
            size(path.free_bytes),
            path.segments,
            size(path.moved_down_bytes),
            size(path.moved_up_bytes),
            path.reads,
            path.move_errors
        );
        if path.pooled_bytes > 0 {
            let pooled = size(path.pooled_bytes);
            let _ = writeln!(text, "    {pooled} of that in files made in advance");
        }
        if path.emulated {
            text.push_str("    EMULATED: not persistent memory, nothing on it is durable\n");
        }
        if let Some(reason) = &path.failed {
            let _ = writeln!(text, "    failed: {}", EscapedText(reason));
        }
    }
}

/// Returns the fill of a tier in words.
fn fill(tier: &TierStatus) -> String {
    let used = size(tier.used_bytes);
    match tier.capacity_bytes {
        0 => format!("{used} used, no path takes more"),
        capacity if tier.paths.iter().any(|path| path.state != "open") => {
            format!("{used} used, its open paths may hold {}", size(capacity))
        }
        capacity if tier.used_bytes >= capacity => format!("full, {used} used"),
        capacity => format!("{used} of {} used", size(capacity)),
    }
}

fn list(segments: &[SegmentStatus]) -> String {
    let mut text = String::new();
    for segment in segments {
        let SegmentStatus {
            topic,
            partition,
            base_offset,
            tier,
            path,
            rule,
            ..
        } = segment;
        let bytes = size(segment.bytes);
        let _ = writeln!(
            text,
            "{}-{partition}\t{base_offset}\t{bytes}\t{}\t{}\t{}",
            EscapedText(topic),
            EscapedText(tier),
            EscapedText(path),
            EscapedText(rule)
        );
    }
    text
}

fn why(segments: &[SegmentStatus]) -> String {
    let mut text = String::new();
    for segment in segments {
        let SegmentStatus {
            topic,
            partition,
            base_offset,
            tier,
            path,
            why,
            ..
        } = segment;
        let last = segment.next_offset.saturating_sub(1).max(*base_offset);
        let _ = writeln!(
            text,
            "{}-{partition} {base_offset}..{last} ({}) on {}, {}\n  {}",
            EscapedText(topic),
            size(segment.bytes),
            EscapedText(tier),
            EscapedText(path),
            EscapedText(why)
        );
        if !segment.why_kept.is_empty() {
            let _ = writeln!(text, "  {}", EscapedText(&segment.why_kept));
        }
        if let Some(reason) = &segment.offline {
            let _ = writeln!(text, "  not served: {}", EscapedText(reason));
        }
    }
    text
}

fn verified(outcome: &TierOutcome) -> (String, ExitCode) {
    let mut text = format!(
        "{} segments, {} read\n",
        outcome.segments,
        size(outcome.bytes)
    );
    for problem in &outcome.problems {
        let _ = writeln!(text, "{}", EscapedText(problem));
    }
    let sound = outcome.problems.is_empty();
    text.push_str(if sound {
        "all sound\n"
    } else {
        "damaged segments are not served any more\n"
    });
    let code = if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    (text, code)
}

#[expect(clippy::cast_possible_truncation, reason = "a share of a hundred")]
fn percent(part: f64) -> i64 {
    (part * 100.0).round() as i64
}

/// Formats bytes for people.
#[expect(clippy::cast_precision_loss, reason = "shown to one decimal")]
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut units = UNITS.into_iter();
    let mut unit = units.next().unwrap_or_default();
    for next in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::text::is_unseen;

    use super::*;
    use crate::tiers::PathStatus;

    fn path(name: &str, state: &str) -> PathStatus {
        let zeros = r#"{"path":"","emulated":false,"state":"","failed":null,"capacity_bytes":0,"used_bytes":0,
            "pooled_bytes":0,"free_bytes":0,"segments":0,"reads":0,"read_bytes":0,"appended_bytes":0,
            "moved_down_segments":0,"moved_down_bytes":0,"moved_up_segments":0,"moved_up_bytes":0,"move_errors":0,
            "arriving_bytes":0,"leaving_bytes":0}"#;
        PathStatus {
            path: name.into(),
            state: state.into(),
            failed: Some(name.into()),
            ..serde_json::from_str(zeros).unwrap()
        }
    }

    fn tier(name: &str, used_bytes: u64, capacity_bytes: u64, state: &str) -> TierStatus {
        TierStatus {
            name: name.into(),
            medium: name.into(),
            emulated: false,
            durability: name.into(),
            read_bytes_per_second: None,
            write_bytes_per_second: None,
            capacity_bytes,
            used_bytes,
            pooled_bytes: 0,
            reserve_bytes: 0,
            backlog_bytes: 0,
            segments: 1,
            fill_bytes_per_second: 0,
            seconds_to_full: None,
            seconds_to_drain: None,
            paths: vec![path(name, state)],
        }
    }

    #[test]
    fn a_drained_tier_is_not_more_than_full() {
        let shown = |used, capacity, state| fill(&tier("t", used, capacity, state));
        assert_eq!(shown(512, 1024, "open"), "512 B of 1.0 KiB used");
        assert_eq!(shown(1024, 1024, "open"), "full, 1.0 KiB used");
        assert_eq!(
            shown(31 << 20, 0, "draining"),
            "31.0 MiB used, no path takes more"
        );
        assert_eq!(
            shown(31 << 20, 1024, "draining"),
            "31.0 MiB used, its open paths may hold 1.0 KiB"
        );
    }

    proptest! {
        #[test]
        fn what_a_broker_says_forges_no_line_and_moves_no_cursor(said in "[\\x00-\\u{2100}]{1,12}") {
            let lines = |said: &str| {
                let segment = SegmentStatus {
                    topic: said.into(),
                    partition: 0,
                    base_offset: 0,
                    next_offset: 1,
                    bytes: 1,
                    tier: said.into(),
                    path: said.into(),
                    sealed_ms: None,
                    arrived_ms: 0,
                    read_ms: None,
                    rule: said.into(),
                    why: said.into(),
                    until_ms: None,
                    kept: said.into(),
                    why_kept: said.into(),
                    kept_until_ms: None,
                    offline: Some(said.into()),
                };
                let all = Status {
                    threshold: None,
                    hysteresis: 0.0,
                    reserve: 0.0,
                    bytes_per_second: None,
                    tiers: vec![tier(said, 1, 2, said)],
                };
                let outcome = TierOutcome {
                    problems: vec![said.into()],
                    ..TierOutcome::default()
                };
                let segments = [segment];
                let text = status(&all) + &list(&segments) + &why(&segments) + &verified(&outcome).0;
                text + &drained("/dir", false, &outcome)
            };
            let text = lines(&said);
            prop_assert!(!text.contains(|c| !matches!(c, '\n' | '\t') && is_unseen(c)), "{:?}", text);
            prop_assert_eq!(text.matches('\n').count(), lines("x").matches('\n').count());
            prop_assert_eq!(text.matches('\t').count(), lines("x").matches('\t').count());
        }
    }

    #[test]
    fn sizes_are_shown_with_their_unit() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(10 << 30), "10.0 GiB");
        assert_eq!(size(u64::MAX), "16384.0 PiB");
    }

    #[test]
    fn requests_name_topic_and_partition() {
        let path = |command: TierCommand| command.request().0;
        let which = Some("a b-3".to_owned());
        assert_eq!(
            path(TierCommand::Segments { which }),
            "/tiers/segments?topic=a%20b&partition=3"
        );
        let drain = TierCommand::Drain {
            path: "/d&e".into(),
            stop: false,
        };
        assert_eq!(path(drain), "/tiers/drain?path=/d%26e&stop=false");
        assert_eq!(path(TierCommand::Verify { which: None }), "/tiers/verify?");
    }
}
