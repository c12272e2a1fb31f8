//! How long files and functions are. Tests are not counted.

use super::{Finding, line_of};
use crate::source::Source;

const FILE_WARN: usize = 600;
const FILE_MAX: usize = 1000;
const FUNCTION_MAX: usize = 70;

/// A file or function beyond its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Oversized {
    /// `path` or `path::function`.
    pub(crate) name: String,
    /// Lines of production code.
    pub(crate) lines: usize,
    /// What would be allowed.
    pub(crate) limit: usize,
}

/// Files that grow towards their limit.
pub(super) fn warnings(sources: &[Source]) -> Vec<Finding> {
    let long = |source: &Source| {
        let lines = source.production().lines().count();
        (FILE_WARN < lines && lines <= FILE_MAX)
            .then(|| Finding::new(&source.path, format!("{lines} lines: time to split it")))
    };
    sources.iter().filter_map(long).collect()
}

/// Everything beyond its limit, in the order of the sources.
pub(super) fn oversized(sources: &[Source]) -> Vec<Oversized> {
    let mut found = Vec::new();
    for source in sources {
        let production = source.production();
        let lines = production.lines().count();
        if lines > FILE_MAX {
            found.push(Oversized {
                name: source.path.clone(),
                lines,
                limit: FILE_MAX,
            });
        }
        for (name, lines) in functions(production) {
            if lines > FUNCTION_MAX {
                let name = format!("{}::{name}", source.path);
                found.push(Oversized {
                    name,
                    lines,
                    limit: FUNCTION_MAX,
                });
            }
        }
    }
    found
}

/// The name and the length, signature to closing brace, of every function with a body.
fn functions(code: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let starts_a_word = code[..at]
            .chars()
            .next_back()
            .is_none_or(|before| !is_name(before));
        let after = &code[at + "fn ".len()..];
        let name = &after[..after.find(|letter| !is_name(letter)).unwrap_or(after.len())];
        if !starts_a_word || name.is_empty() {
            continue;
        }
        if let Some(end) = body_end(code, at) {
            found.push((name, line_of(code, end) - line_of(code, at) + 1));
        }
    }
    found
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The closing brace of the body of the function that starts at `at`; `None` for one without a body.
fn body_end(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut nested = 0_usize;
    for (offset, byte) in code[at..].bytes().enumerate() {
        match byte {
            b'(' | b'[' => nested += 1,
            b')' | b']' => nested = nested.checked_sub(1)?,
            b';' if depth == 0 && nested == 0 => return None,
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + offset);
                }
            }
            _ => {}
        }
    }
    None
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
