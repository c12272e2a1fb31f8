//! What a run comes to: `report.html` to be looked at and `cells.csv` to be calculated with, from `run.json`.
//!
//! Invariants: the page is one file that needs nothing from outside and no script to be read; every ratio is of
//! pairs; where we lose is shown as clearly as where we win; no text of a run is ever markup; nothing that is
//! not a number is printed as one. It measures nothing and knows no broker.

mod cost;
mod csv;
mod facts;
mod headline;
mod heat;
mod limits;
mod pairs;
mod parameter;
mod percentile;
mod study;
mod surge;
mod sweep;
mod timeline;
mod whole;

use std::path::Path;

use anyhow::Context as _;

use crate::outcome::Run;

/// The form of `run.json` that this version reads.
const VERSION: u32 = 1;

/// Writes `report.html` and `cells.csv` into a directory.
pub fn write(run: &Run, dir: &Path) -> anyhow::Result<()> {
    let page = whole::of(run)?;
    let cells = csv::of(run)?;
    for (name, text) in [("report.html", page), ("cells.csv", cells)] {
        let path = dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The bursts of a phase, of its first measurement: for how long each was taken in (none: to its end), and how long its
/// bytes took to leave the first tier (none: not before the next, or the end), in seconds.
pub fn bursts_of(run: &Run, phase: &str) -> Vec<(Option<f64>, Option<f64>)> {
    surge::measured(run, phase)
}

/// Reads the `run.json` of a directory. An error names the file and the field.
pub fn read(dir: &Path) -> anyhow::Result<Run> {
    let path = dir.join("run.json");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> anyhow::Result<Run> {
    let mut source = serde_json::Deserializer::from_str(text);
    let run: Run = serde_path_to_error::deserialize(&mut source).map_err(|error| {
        let field = error.path().to_string();
        let error = anyhow::Error::new(error.into_inner());
        // The path is "." where the text is no JSON at all.
        if field == "." {
            error
        } else {
            error.context(field)
        }
    })?;
    source.end().context("something follows the run")?;
    anyhow::ensure!(
        run.version == VERSION,
        "version: {} is unknown to this forebay, which reads {VERSION}",
        run.version
    );
    Ok(run)
}
