//! The checks, run one after the other; each returns findings, and any finding fails the run.
//!
//! A check is a function from sources or metadata to findings, without I/O, so that each is tested
//! on small fixtures.

mod bounds;
mod dead;
mod edges;
mod files;
mod licences;
mod lints;
mod paths;
mod ratchet;
mod sizes;
mod structure;
mod sums;
mod way;
mod wording;
mod words;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::metadata::Metadata;
use crate::source;
use crate::structure::path::PAGE;
use ratchet::Ratchet;

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// A file, a `file:line`, or the name of a crate.
    place: String,
    text: String,
}

impl Finding {
    fn new(place: impl Into<String>, text: impl Into<String>) -> Finding {
        Finding {
            place: place.into(),
            text: text.into(),
        }
    }
}

const RATCHET: &str = "crates/xtask/ratchet.txt";
const STRUCTURE: &str = "crates/xtask/structure.txt";
const WORDING: &str = "crates/xtask/wording.txt";

/// Runs every check on the workspace from which this binary was built.
pub(crate) fn run(shrink: bool) -> anyhow::Result<ExitCode> {
    let root = workspace()?;
    let sources = source::read_all(&root)?;
    let metadata = Metadata::load(&root)?;
    let ratchet_text = std::fs::read_to_string(root.join(RATCHET)).context(RATCHET)?;
    let oversized = sizes::oversized(&sources);

    for warning in sizes::warnings(&sources) {
        eprintln!("tidy: warning: {}: {}", warning.place, warning.text);
    }
    let ratchet = Ratchet::parse(&ratchet_text)?;
    let structure_text = std::fs::read_to_string(root.join(STRUCTURE)).context(STRUCTURE)?;
    let structure = structure::parse(&structure_text).context(STRUCTURE)?;
    let measured = structure::measure(&sources);
    let wording_text = std::fs::read_to_string(root.join(WORDING)).context(WORDING)?;
    let wording = wording::parse(&wording_text).context(WORDING)?;
    let counted = wording::count(&sources, &wording::hits(&sources, &pages(&root)?));
    if shrink {
        let text = wording::shrunk(&wording_text, &wording, &counted);
        std::fs::write(root.join(WORDING), text)?;
        let text = structure::shrunk(&structure_text, &structure, &measured);
        std::fs::write(root.join(STRUCTURE), text)?;
        std::fs::write(
            root.join(RATCHET),
            ratchet.shrunk(&ratchet_text, &oversized),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut findings = ratchet.compare(&oversized);
    findings.extend(structure::compare(&structure, &measured));
    findings.extend(wording::compare(&wording, &counted));
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    findings.extend(way::check(&page, &sources).context(PAGE)?);
    findings.extend(edges::check(&metadata));
    findings.extend(licences::check(&metadata));
    findings.extend(dead::check(&sources, &metadata.roots()));
    findings.extend(bounds::check(&sources));
    findings.extend(paths::check(&sources));
    findings.extend(sources.iter().flat_map(words::check_source));
    findings.extend(sources.iter().flat_map(files::check));
    findings.extend(sources.iter().flat_map(sums::check));
    let workspace_lints =
        std::fs::read_to_string(root.join("clippy.toml")).context("clippy.toml")?;
    for path in tracked(&root)? {
        if let Ok(text) = std::fs::read_to_string(root.join(&path)) {
            findings.extend(words::check_text(&path, &text));
            if path.starts_with("crates/") && path.ends_with("/clippy.toml") {
                findings.extend(lints::check(&workspace_lints, &path, &text));
            }
        }
    }

    findings.sort();
    for finding in &findings {
        eprintln!("tidy: {}: {}", finding.place, finding.text);
    }
    eprintln!("tidy: {} files, {} findings", sources.len(), findings.len());
    Ok(if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints every place that the ratchet on wording counts.
pub(crate) fn print_words() -> anyhow::Result<ExitCode> {
    let root = workspace()?;
    let sources = source::read_all(&root)?;
    let mut out = std::io::stdout().lock();
    for hit in wording::hits(&sources, &pages(&root)?) {
        writeln!(out, "{}", hit.line())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the pages whose wording counts, with their texts.
fn pages(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let paths = tracked(root)?.into_iter();
    let paths = paths.filter(|path| wording::is_page(path));
    let read = |path: String| {
        let text = std::fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
        Ok((path, text))
    };
    paths.map(read).collect()
}

/// Returns the root of the workspace from which this binary was built.
pub(crate) fn workspace() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here
        .ancestors()
        .nth(2)
        .context("xtask lives two levels below the workspace")?
        .to_owned())
}

/// Returns the files that git tracks or would add: those of a clone, without build products.
fn tracked(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("running git ls-files")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?
        .lines()
        .map(str::to_owned)
        .collect())
}

/// Returns the line number of a byte, counted from 1.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Makes a source for the fixtures of the checks' tests.
#[cfg(test)]
fn fixture(path: &str, text: &str) -> source::Source {
    source::Source::new(path, text)
}
