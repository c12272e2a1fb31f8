//! The path of a request through the files, as a page of `docs/` describes it: how many files a
//! reader must open, how often the path returns to one, and in how many of them the header of a
//! batch is parsed from its bytes.
//!
//! A line is `<file>::<function>`, indented below the function whose body names it. Invariant: a
//! page without faults names existing functions, each named by the one above it. This module does
//! not find what the page leaves out.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};

use crate::source::Source;
use crate::source::functions::{functions, is_declared, is_name};

/// The path of the page.
pub(crate) const PAGE: &str = "docs/produce.path";

const INDENT: usize = 2;
const PARSE: &str = "BatchHeader::parse";

/// One function on the path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    file: String,
    function: String,
    /// The step above it, whose function calls it.
    caller: Option<usize>,
}

/// The length of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Figures {
    /// Number of files.
    pub(crate) files: usize,
    /// How often the path comes back to a file that it has left.
    pub(crate) returns: usize,
    /// Number of files that parse a header.
    pub(crate) parses: usize,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            files,
            returns,
            parses,
        } = self;
        write!(f, "{files} files, {returns} returns, {parses} parse")
    }
}

/// Parses the steps of a page.
pub(crate) fn parse(page: &str) -> anyhow::Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let text = line.trim_start();
        let depth = (line.len() - text.len()) / INDENT;
        let (file, function) = text.split_once("::").with_context(|| line.to_owned())?;
        ensure!(depth <= open.len(), "indented too far: {line}");
        open.truncate(depth);
        steps.push(Step {
            file: format!("crates/{file}"),
            function: function.to_owned(),
            caller: open.last().copied(),
        });
        open.push(steps.len() - 1);
    }
    Ok(steps)
}

/// Returns the figures that the page claims: the first line that begins with `# = `.
pub(crate) fn claimed(page: &str) -> &str {
    let mut lines = page.lines();
    lines
        .find_map(|line| line.strip_prefix("# = "))
        .unwrap_or("nothing")
}

/// Returns what is wrong on the page, each with the file it is about.
pub(crate) fn faults(steps: &[Step], sources: &[Source]) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    for step in steps {
        let Step { file, function, .. } = step;
        let Some(source) = sources.iter().find(|source| source.path == *file) else {
            faults.push((file.clone(), format!("is not there: {PAGE}")));
            continue;
        };
        if !is_declared(source.production(), function) {
            let text = format!("has no function `{function}`: {PAGE}");
            faults.push((file.clone(), text));
        }
        let Some(caller) = step.caller.and_then(|at| steps.get(at)) else {
            continue;
        };
        let named = sources.iter().filter(|source| source.path == caller.file);
        if !named
            .into_iter()
            .any(|source| names(source, caller, function))
        {
            let text = format!("`{}` does not name `{function}`: {PAGE}", caller.function);
            faults.push((caller.file.clone(), text));
        }
    }
    faults
}

/// Returns whether the body of a step has a name.
///
/// For a function that a macro writes it looks in the whole file, because the rows of the macro are
/// elsewhere in it.
fn names(source: &Source, step: &Step, name: &str) -> bool {
    let code = source.production();
    let own = functions(code).into_iter();
    let mut own = own.filter(|(function, _)| *function == step.function);
    own.any(|(_, place)| {
        let body = &code[place];
        has_word(if body.contains('$') { code } else { body }, name)
    })
}

fn has_word(code: &str, word: &str) -> bool {
    let mut found = code.match_indices(word);
    found.any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

/// Returns the length of the path.
pub(crate) fn figures(steps: &[Step], sources: &[Source]) -> Figures {
    let mut rooms: Vec<&str> = Vec::new();
    for file in steps.iter().map(|step| step.file.as_str()) {
        if rooms.last() != Some(&file) {
            rooms.push(file);
        }
    }
    let files: BTreeSet<&str> = rooms.iter().copied().collect();
    let reads = |source: &&Source| {
        let mut lines = source.production().lines();
        files.contains(source.path.as_str())
            && lines.any(|line| line.contains(PARSE) && !line.contains("debug_assert"))
    };
    Figures {
        files: files.len(),
        returns: rooms.len() - files.len(),
        parses: sources.iter().filter(reads).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, claimed, faults, figures, parse};
    use crate::source::Source;

    const PAGE: &str = "# head\n# = 2 files\na/src/x.rs::f\n  b/src/y.rs::g\n  a/src/x.rs::h\n";

    fn sources(f: &str) -> Vec<Source> {
        let x = format!("//! x\nfn f() {{ {f} }}\nfn h() {{ BatchHeader::parse(b) }}\n");
        let y = "//! y\ntrait Y { fn g(&self); }\n";
        vec![
            Source::new("crates/a/src/x.rs", &x),
            Source::new("crates/b/src/y.rs", y),
        ]
    }

    #[test]
    fn files_and_returns_are_counted() {
        let steps = parse(PAGE).unwrap();
        let sources = sources("y.g(); self.h()");
        assert_eq!(faults(&steps, &sources), []);
        let expected = Figures {
            files: 2,
            returns: 1,
            parses: 1,
        };
        assert_eq!(figures(&steps, &sources), expected);
        assert_eq!(claimed(PAGE), "2 files");
    }

    #[test]
    fn a_page_that_is_not_so_is_found() {
        let steps = parse(PAGE).unwrap();
        assert_eq!(faults(&steps, &sources("y.g_2(); self.h()")).len(), 1);
        assert_eq!(faults(&steps, &sources("y.g()")).len(), 1);
        assert_eq!(faults(&steps, &sources("")[..1]).len(), 2);
        let other = PAGE.replace("::h", "::k");
        assert_eq!(
            faults(&parse(&other).unwrap(), &sources("g(); h()")).len(),
            2
        );
        assert!(parse("a/src/x.rs::f\n    b/src/y.rs::g\n").is_err());
    }
}
