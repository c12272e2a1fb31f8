//! `forebay tier ...`: what the tiers hold and why, and orders to them, over a broker's admin endpoint.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};

use super::http::{ask, encode};
use crate::tiers::{Outcome, SegmentStatus, Status, TierStatus, parse_which};

/// Arguments of `forebay tier`.
#[derive(Debug, Args)]
pub(super) struct TierArgs {
    /// Admin endpoint of the broker.
    #[arg(
        long,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9644",
        global = true
    )]
    admin: String,
    /// How to show it.
    #[arg(long, value_enum, default_value_t = Format::Text, global = true)]
    format: Format,
    #[command(subcommand)]
    command: TierCommand,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs: the answer of the endpoint.
    Json,
}

#[derive(Debug, Subcommand)]
enum TierCommand {
    /// Shows each tier and path: room, fill, what moves, when it will be full.
    Status,
    /// Lists segments and where they are.
    Segments {
        /// Of this topic, or of this partition (TOPIC-PARTITION) only.
        which: Option<String>,
    },
    /// Says where each segment of a partition is and which rule keeps it there.
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
    /// Empties a path while the broker serves: nothing new is put on it, and what is there moves away.
    Drain {
        /// The directory, as it is in the settings.
        path: String,
        /// No more: the path is used again.
        #[arg(long)]
        stop: bool,
    },
    /// Reads sealed segments from their disks and checks every batch.
    Verify {
        /// Of this topic, or of this partition (TOPIC-PARTITION) only.
        which: Option<String>,
    },
}

impl TierArgs {
    /// Asks the broker and shows what it says.
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let (path, order) = self.command.request();
        let body = ask(&self.admin, &path, order)?;
        let is_text = self.format == Format::Text;
        let (text, code) = self.command.show(&body).context("the broker's answer")?;
        super::print(if is_text { &text } else { &body })?;
        Ok(code)
    }
}

impl TierCommand {
    /// What to ask for, and whether it is an order.
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

    /// The answer in words, and how the command ends.
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
                let outcome: Outcome = serde_json::from_str(body)?;
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

fn drained(path: &str, stop: bool, outcome: &Outcome) -> String {
    let mut text = if stop {
        format!("{path} is used again\n")
    } else {
        let (segments, bytes) = (outcome.segments, size(outcome.bytes));
        format!("{path} is drained: {segments} segments, {bytes} to move\n")
    };
    for problem in &outcome.problems {
        let _ = writeln!(text, "{problem}");
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
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        text,
        "\n{name} ({medium}{}, {durability}): {} of {} used, {segments} segments, {} to move down",
        if tier.emulated { " EMULATED" } else { "" },
        size(tier.used_bytes),
        size(tier.capacity_bytes),
        size(tier.backlog_bytes)
    );
    if let Some(seconds) = tier.seconds_to_full {
        let _ = writeln!(text, "  full in {seconds} s at the present slope");
    }
    if let Some(seconds) = tier.seconds_to_drain {
        let _ = writeln!(
            text,
            "  at the threshold in {seconds} s at the present slope"
        );
    }
    for path in &tier.paths {
        let _ = writeln!(
            text,
            "  {} {}: {} used, {} free, {} segments, {} down, {} up, {} reads, {} errors",
            path.path,
            path.state,
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
            let _ = writeln!(text, "    failed: {reason}");
        }
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
            "{topic}-{partition}\t{base_offset}\t{bytes}\t{tier}\t{path}\t{rule}"
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
            "{topic}-{partition} {base_offset}..{last} ({}) on {tier}, {path}\n  {why}",
            size(segment.bytes)
        );
        if !segment.why_kept.is_empty() {
            let _ = writeln!(text, "  {}", segment.why_kept);
        }
        if let Some(reason) = &segment.offline {
            let _ = writeln!(text, "  not served: {reason}");
        }
    }
    text
}

fn verified(outcome: &Outcome) -> (String, ExitCode) {
    let mut text = format!(
        "{} segments, {} read\n",
        outcome.segments,
        size(outcome.bytes)
    );
    for problem in &outcome.problems {
        let _ = writeln!(text, "{problem}");
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

/// Bytes for people.
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
    use super::*;

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
