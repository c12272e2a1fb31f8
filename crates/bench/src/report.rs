//! The report of a run: from `run.json`, it writes `report.html` for reading and `cells.csv` for
//! calculations.
//!
//! Invariants: the page is one file that loads nothing and can be read without scripts; every ratio
//! is of pairs; results in which Forebay loses are as visible as those in which it wins; text of a
//! run is never markup; non-finite values are never printed as numbers. It measures nothing and
//! connects to no broker.

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
pub use surge::MeasuredBurst;

/// The version of `run.json` that this program reads.
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

/// Returns the bursts of a phase's first measurement.
pub fn bursts_of(run: &Run, phase: &str) -> Vec<MeasuredBurst> {
    surge::measured(run, phase)
}

/// Reads the `run.json` of a directory; an error names the file and the field.
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
        // The path is "." if the text is not JSON.
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
