//! `--watch`: a command that looks again and again, until Ctrl-C or for a number of times.
//!
//! On a terminal an answer takes the place of the one before, and has as many lines as the
//! terminal. Elsewhere answers follow each other, in JSON one a line, and the watch ends with their
//! reader.
//!
//! Invariants: the first look has to succeed. A later one that fails is reported on standard error,
//! and the next one begins with a new connection. The exit code is that of the last look.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde::Serialize;

use crate::ask::Cluster;
use crate::moment;
use crate::outcome::exit_code;
use crate::show::{self, Format, say};
use crate::stop::Stop;
use crate::target::ChosenTarget;
use crate::terminal;

/// Options of a command that can look again.
#[derive(Debug, Args)]
#[allow(clippy::struct_field_names, reason = "the option is called --watch")]
pub(crate) struct Watch {
    /// Looks again and again, until Ctrl-C.
    #[arg(short, long)]
    watch: bool,
    /// How long to wait between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, requires = "watch",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    /// Ends after this many looks.
    #[arg(long, value_name = "COUNT", requires = "watch",
          value_parser = clap::value_parser!(u64).range(1..))]
    times: Option<u64>,
}

impl Watch {
    /// Looks and shows what `look` returns, once or for as long as asked.
    ///
    /// Returns a failure if the last look failed, or if `is_good` refuses its answer.
    pub(crate) fn run<T: Serialize>(
        &self,
        target: &ChosenTarget,
        mut look: impl FnMut(&mut Cluster) -> anyhow::Result<T>,
        text: impl Fn(&T) -> String,
        is_good: impl Fn(&T) -> bool,
    ) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let first = look(&mut cluster)?;
        let mut good = is_good(&first);
        if !self.watch {
            target.format.show(&first, || text(&first))?;
            return Ok(exit_code(!good));
        }
        let stop = Stop::on_signal()?;
        let mut connected = Some(cluster);
        let mut looks = 1_u64;
        let mut is_read = show_one(target.format, &first, &text)?;
        while is_read && self.times.is_none_or(|times| looks < times) {
            if stop.wait(Duration::from_secs(self.every)) {
                break;
            }
            looks = looks.saturating_add(1);
            match again(target, &mut connected, &mut look) {
                Ok(answer) => {
                    good = is_good(&answer);
                    is_read = show_one(target.format, &answer, &text)?;
                }
                Err(error) => {
                    good = false;
                    connected = None;
                    say(&format!("{error:#}"));
                }
            }
        }
        Ok(exit_code(!good))
    }
}

/// Looks over the connection that there is, or over a new one.
fn again<T>(
    target: &ChosenTarget,
    connected: &mut Option<Cluster>,
    look: &mut impl FnMut(&mut Cluster) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let cluster = match connected {
        Some(cluster) => cluster,
        None => connected.insert(target.cluster()?),
    };
    look(cluster)
}

/// Shows one of many answers; returns false if their reader is gone.
fn show_one<T: Serialize>(
    format: Format,
    answer: &T,
    text: &impl Fn(&T) -> String,
) -> anyhow::Result<bool> {
    if format == Format::Json {
        return show::print_json(answer);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let text = format!("{}\n{}", moment::utc(i64::try_from(now)?), text(answer));
    match terminal::size() {
        Some(size) => show::replace(&within(&text, size.rows)),
        None => show::print(&(text + "\n")),
    }
}

/// Returns the first lines, and how many more there are, so that the cursor stays below them.
fn within(text: &str, rows: usize) -> String {
    let count = text.lines().count();
    let room = rows.saturating_sub(1).max(1);
    if count <= room {
        return text.to_owned();
    }
    let shown = room.saturating_sub(1);
    let more = format!("... {} more lines\n", count.saturating_sub(shown));
    let lines = text.lines().take(shown).chain([more.as_str()]);
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_the_terminal_is_counted() {
        let text = "1\n2\n3\n4\n";
        assert_eq!(within(text, 5), text);
        assert_eq!(within(text, 4), "1\n2\n... 2 more lines\n");
        assert_eq!(within(text, 3), "1\n... 3 more lines\n");
        for rows in 0..9 {
            assert!(within(text, rows).lines().count() < rows.max(3), "{rows}");
        }
    }
}
