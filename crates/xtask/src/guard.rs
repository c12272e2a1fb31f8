//! Guards the hot paths: counts the instructions of each, and compares them with the recorded
//! count.
//!
//! Counts are of the `release` build of `broker/examples/paths.rs` under valgrind's callgrind: the
//! difference between a run and one with twice the repetitions, so that preparation does not count.
//! They repeat to a fraction of a percent, whatever else the machine does. They differ with the
//! compiler, the C library, valgrind and AVX2, so a record names all of them, and counts are
//! compared only with a record of the same environment. Valgrind's processor has no AVX-512, so
//! code for it is not measured. Time, memory and waiting are not measured either: `forebay bench`
//! measures those.

mod measure;
mod record;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, ensure};

use measure::{PATHS, Paths};
use record::{Record, Row, Verdict};

/// The file of records, the newest last.
const FILE: &str = "docs/benchmarks/instructions.csv";
/// The path that is also run with a slowdown built in.
const CANARY: &str = "produce-240kb";

/// Compares the counts with the records, or records them.
pub(crate) fn run(recording: bool) -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join(FILE);
    let paths = Paths::build(&root)?;
    let environment = measure::environment()?;
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let mut record = Record::parse(&text).with_context(|| FILE.to_owned())?;
    let (date, commit) = measure::head(&root)?;
    let mut slower = 0;
    for path in &PATHS {
        let row = Row {
            date: date.clone(),
            commit: commit.clone(),
            environment: environment.clone(),
            path: path.name.to_owned(),
            unit: path.unit.name().to_owned(),
            instructions: paths.count(path, false)?,
        };
        let verdict = record.judge(&row);
        eprintln!("guard: {}", verdict.tell(&row));
        slower += i32::from(matches!(verdict, Verdict::Slower { .. }));
        if path.name == CANARY {
            let planted = Row {
                instructions: paths.count(path, true)?,
                ..row.clone()
            };
            let known = Record::of(row.clone()).judge(&planted);
            ensure!(
                matches!(known, Verdict::Slower { .. }),
                "a slowdown was planted in {CANARY} and nobody noticed: the guard is broken"
            );
        }
        if recording {
            record.add(row);
        }
    }
    if recording {
        std::fs::create_dir_all(file.parent().context("a folder")?)?;
        std::fs::write(&file, record.text())?;
        eprintln!("guard: recorded in {FILE}");
        return Ok(ExitCode::SUCCESS);
    }
    if slower > 0 {
        eprintln!(
            "guard: {slower} paths take more instructions than recorded in {FILE}. Find out why (callgrind_annotate); if it \
             must be, `cargo xtask guard --record` and commit the file, and say why in the message."
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
