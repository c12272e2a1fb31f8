//! Limits the length of files and functions.
//!
//! Comments count, tests do not.

use std::ops::Range;

use super::Finding;
use crate::source::{self, Source};

const FILE_WARN: usize = 600;
const FILE_MAX: usize = 1000;
const FUNCTION_MAX: usize = 70;

/// A file or function beyond its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OversizedItem {
    /// `path` or `path::function`.
    pub(crate) name: String,
    /// Number of lines of production code.
    pub(crate) lines: usize,
    /// The limit.
    pub(crate) limit: usize,
}

/// Returns the files that come close to their limit.
pub(super) fn warnings(sources: &[Source]) -> Vec<Finding> {
    let long = |source: &Source| {
        let lines = source.production().lines().count();
        (FILE_WARN < lines && lines <= FILE_MAX)
            .then(|| Finding::new(&source.path, format!("{lines} lines: time to split it")))
    };
    sources.iter().filter_map(long).collect()
}

/// Returns everything beyond its limit, in the order of the sources.
pub(super) fn oversized(sources: &[Source]) -> Vec<OversizedItem> {
    let mut found = Vec::new();
    for source in sources {
        let production = source.production();
        let lines = production.lines().count();
        if lines > FILE_MAX {
            found.push(OversizedItem {
                name: source.path.clone(),
                lines,
                limit: FILE_MAX,
            });
        }
        for (name, lines) in functions(production) {
            if lines > FUNCTION_MAX {
                let name = format!("{}::{name}", source.path);
                found.push(OversizedItem {
                    name,
                    lines,
                    limit: FUNCTION_MAX,
                });
            }
        }
    }
    found
}

/// Returns the name and the length, from signature to closing brace, of every function with a body.
fn functions(code: &str) -> Vec<(&str, usize)> {
    let found = source::functions::functions(code).into_iter();
    let lines = |place: Range<usize>| code[place].matches('\n').count() + 1;
    found.map(|(name, place)| (name, lines(place))).collect()
}

#[cfg(test)]
mod tests {
    use super::{functions, oversized, warnings};
    use crate::tidy::fixture;

    #[test]
    fn functions_are_measured() {
        let code = "trait T { fn none(&self) -> [u8; 2]; }\nfn one() {}\nfn three(\n) -> u8 {\n}\n";
        assert_eq!(functions(code), [("one", 1), ("three", 3)]);
    }

    #[test]
    fn limits() {
        let body = "    ();\n".repeat(69);
        let text = format!(
            "//! x\nfn long() {{\n{body}}}\nfn fits() {{\n{}}}\n",
            "    ();\n".repeat(68)
        );
        let found = oversized(&[fixture("crates/a/src/lib.rs", &text)]);
        let names: Vec<_> = found
            .iter()
            .map(|one| (one.name.as_str(), one.lines))
            .collect();
        assert_eq!(names, [("crates/a/src/lib.rs::long", 71)]);
        assert!(oversized(&[fixture("crates/a/tests/x.rs", &text)]).is_empty());
        let file = fixture("crates/a/src/big.rs", &"//\n".repeat(1001));
        assert_eq!(oversized(&[file]).len(), 1);
        assert_eq!(
            warnings(&[fixture("crates/a/src/big.rs", &"//\n".repeat(601))]).len(),
            1
        );
    }
}
