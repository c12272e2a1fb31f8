//! Finds Rust files that cargo does not compile: no target begins with them, and no `mod` leads to
//! them.
//!
//! They become outdated, and tests in them prove nothing. Which files are targets is what cargo
//! says: with `autotests = false`, a file in `tests` is one only when the manifest names it.

use std::collections::BTreeSet;

use super::Finding;
use crate::source::Source;

/// Returns the files that are not reached from `roots`, the first files of cargo's targets.
pub(super) fn check(sources: &[Source], roots: &BTreeSet<String>) -> Vec<Finding> {
    let by_path = |path: &str| sources.iter().find(|source| source.path == path);
    let mut reached = BTreeSet::new();
    // Files to look into, each with the directory of its modules.
    let mut open: Vec<(&Source, String)> = Vec::new();
    let roots = sources.iter().filter(|source| roots.contains(&source.path));
    open.extend(roots.map(|source| (source, beside(&source.path).to_owned())));
    while let Some((source, directory)) = open.pop() {
        if !reached.insert(&source.path) {
            continue;
        }
        for name in modules(&source.code) {
            let inside = format!("{directory}/{name}");
            open.extend(by_path(&format!("{inside}.rs")).map(|module| (module, inside)));
        }
        // A file named by `#[path]` has its modules in its own directory, like mod.rs.
        for path in elsewhere(source) {
            open.extend(by_path(&path).map(|module| (module, beside(&path).to_owned())));
        }
    }
    let dead = |source: &&Source| !reached.contains(&source.path);
    sources
        .iter()
        .filter(dead)
        .map(|source| Finding::new(&source.path, "not compiled: no target, no `mod` leads here"))
        .collect()
}

/// Returns the directory of a file.
fn beside(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Returns the names in `mod name;`.
fn modules(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let before_semicolon = line.trim().strip_suffix(';')?;
        let (visibility, name) = before_semicolon.split_once("mod ").or(None)?;
        (visibility.is_empty() || visibility.starts_with("pub")).then_some(name.trim())
    })
}

/// Returns the files in `#[path = "file"]`, relative to the directory of the file that names them.
fn elsewhere(source: &Source) -> impl Iterator<Item = String> {
    let directory = source
        .path
        .rsplit_once('/')
        .map_or("", |(directory, _)| directory);
    let is_code = source
        .code
        .lines()
        .map(|line| line.trim_start().starts_with("#[path ="));
    source
        .text
        .lines()
        .zip(is_code)
        .filter(|(_, is_code)| *is_code)
        .filter_map(move |(line, _)| Some(format!("{directory}/{}", line.split('"').nth(1)?)))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::fixture;

    #[test]
    fn finds_the_file_nobody_names() {
        let sources = [
            fixture("crates/a/src/lib.rs", "pub(crate) mod foo;\n// mod gone;\n"),
            fixture("crates/a/src/foo.rs", "mod bar;\n"),
            fixture("crates/a/src/foo/bar.rs", ""),
            fixture("crates/a/src/gone.rs", "mod deeper;"),
            fixture("crates/a/src/gone/deeper.rs", ""),
            fixture("crates/a/tests/all.rs", "mod support;\n"),
            fixture("crates/a/tests/support.rs", ""),
            fixture(
                "crates/a/tests/log.rs",
                "#[path = \"log/reads.rs\"]\nmod reads;\n",
            ),
            fixture("crates/a/tests/log/reads.rs", "mod tail;\n"),
            fixture("crates/a/tests/log/tail.rs", ""),
            fixture("crates/a/tests/unnamed.rs", ""),
        ];
        let roots = [
            "crates/a/src/lib.rs",
            "crates/a/tests/all.rs",
            "crates/a/tests/log.rs",
        ];
        let places: Vec<_> = check(&sources, &roots.map(str::to_owned).into())
            .into_iter()
            .map(|finding| finding.place)
            .collect();
        assert_eq!(
            places,
            [
                "crates/a/src/gone.rs",
                "crates/a/src/gone/deeper.rs",
                "crates/a/tests/unnamed.rs",
            ]
        );
    }
}
