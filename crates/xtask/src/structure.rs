//! Figures of the structure of the code: asserts per thousand lines, methods of the largest types,
//! circles of files (dependency cycles), and the path of a Produce request through them.
//!
//! `cargo xtask structure` prints them. They count production code: no tests, no comments, no blank
//! lines. This module does not judge the figures; the ratchets of `tidy` keep them from becoming
//! worse.

pub(crate) mod asserts;
mod circles;
mod graph;
mod methods;
pub(crate) mod path;
mod uses;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::source::{self, Source};
pub(crate) use circles::circles;

/// Types with fewer methods than this are not printed.
const METHODS_PRINTED_MIN: usize = 40;
const CIRCLES_PRINTED_MAX: usize = 4;

/// Prints the figures of every crate.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let root = crate::tidy::workspace()?;
    let sources = source::read_all(&root)?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "crate        lines  asserts  of constants  per 1,000  circles of files"
    )?;
    for (name, sources) in by_crate(&sources) {
        let lines: usize = sources.iter().map(|source| asserts::lines(source)).sum();
        let count: usize = sources.iter().map(|source| asserts::count(source)).sum();
        let constant = sources.iter().map(|source| asserts::of_constants(source));
        let constant: usize = constant.sum();
        let sizes = circles(&sources);
        let sizes = sizes.iter().take(CIRCLES_PRINTED_MAX);
        let sizes: Vec<String> = sizes.map(|files| files.len().to_string()).collect();
        writeln!(
            out,
            "{name:<11}{lines:>7}{count:>9}{constant:>14}{:>11}  {}",
            asserts::per_thousand(count, lines),
            sizes.join(" ")
        )?;
    }
    writeln!(out, "\nmethods  files  type")?;
    for (kind, found) in methods::of_types(&sources) {
        if found.methods >= METHODS_PRINTED_MIN {
            writeln!(out, "{:>7}{:>7}  {kind}", found.methods, found.files.len())?;
        }
    }
    writeln!(out, "\ncircles")?;
    for (name, sources) in by_crate(&sources) {
        for files in circles(&sources) {
            writeln!(out, "{name}: {}", files.join(" "))?;
        }
    }
    let page = std::fs::read_to_string(root.join(path::PAGE)).context(path::PAGE)?;
    let way = path::figures(&path::parse(&page)?, &sources);
    writeln!(out, "\nthe way of a Produce ({}): {way}", path::PAGE)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the production sources by crate.
pub(crate) fn by_crate(sources: &[Source]) -> BTreeMap<&str, Vec<&Source>> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        if let Some(name) = source.path.split('/').nth(1) {
            crates.entry(name).or_default().push(source);
        }
    }
    crates
}
