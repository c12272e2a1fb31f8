//! Rules on text: the `//!` at the top, names without a meaning, ASCII, the width of comments,
//! `TODO(#123)`, ignored tests, paths that exist on one machine only.
//!
//! Recorded samples of other programs are exempt from the rules on words and paths.

use super::{Finding, line_of};
use crate::source::Source;

/// Names of files, modules and types that do not describe their content.
const SAYS_NOTHING: &[&str] = &[
    "common", "utils", "util", "helpers", "misc", "manager", "impls", "base", "core", "v2", "new",
    "data", "info",
];

/// The widest comment line; rustfmt keeps code within it, but does not wrap comments.
const COLUMNS_MAX: usize = 100;

/// Directories in which developers keep their clones: a path below them works on one machine only.
const MACHINES: &[&str] = &["/home/", "/root/", "/Users/", "/work/", "/workspace/"];

/// Directories whose files are recorded samples of the outside world.
const RECORDED: &[&str] = &["golden", "fixtures", "corpus"];

/// Returns the findings on one Rust file.
pub(super) fn check_source(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !source.text.starts_with("//!") {
        findings.push(Finding::new(
            &source.path,
            "does not start with //! (what it is, invariants, what it does not do)",
        ));
    }
    let stem = source
        .path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .trim_end_matches(".rs");
    if stem == "mod" {
        findings.push(Finding::new(
            &source.path,
            "mod.rs: the front page of foo/ is foo.rs",
        ));
    }
    if SAYS_NOTHING.contains(&stem) {
        findings.push(Finding::new(
            &source.path,
            format!("{stem} says nothing: name what is inside"),
        ));
    }
    for (number, line) in source.text.lines().enumerate() {
        if line.trim_start().starts_with("//") && line.len() > COLUMNS_MAX {
            let text = format!(
                "a comment of {} columns: wrap it at {COLUMNS_MAX}",
                line.len()
            );
            findings.push(Finding::new(
                format!("{}:{}", source.path, number + 1),
                text,
            ));
        }
    }
    let mut at_line = |at: usize, text: String| {
        findings.push(Finding::new(
            format!("{}:{}", source.path, line_of(&source.text, at)),
            text,
        ));
    };
    if let Some((at, letter)) = source
        .text
        .char_indices()
        .find(|(_, letter)| !letter.is_ascii())
    {
        at_line(at, format!("{letter:?} is not ASCII"));
    }
    for keyword in ["struct ", "enum ", "trait ", "type ", "mod "] {
        for name in declared(&source.code, keyword) {
            if SAYS_NOTHING.contains(&name.1.to_ascii_lowercase().as_str()) {
                at_line(name.0, format!("{} says nothing: name what it is", name.1));
            }
        }
    }
    for (at, _) in source.code.match_indices("#[ignore") {
        at_line(at, "an ignored test is no test".to_owned());
    }
    findings
}

/// Returns the names that follow a keyword, with their positions.
pub(super) fn declared<'a>(
    code: &'a str,
    keyword: &'a str,
) -> impl Iterator<Item = (usize, &'a str)> {
    code.match_indices(keyword).filter_map(move |(at, _)| {
        let starts_a_word = code[..at]
            .chars()
            .next_back()
            .is_none_or(|before| before.is_whitespace() || before == ')');
        let rest = &code[at + keyword.len()..];
        let end = rest
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .unwrap_or(rest.len());
        starts_a_word.then_some((at, &rest[..end]))
    })
}

/// Returns whether a file is a recorded sample of another program.
pub(super) fn is_recorded(path: &str) -> bool {
    path.split('/').any(|part| RECORDED.contains(&part))
}

/// Returns the findings on any text file of the project.
pub(super) fn check_text(path: &str, text: &str) -> Vec<Finding> {
    if path == "crates/xtask/src/tidy/words.rs" || is_recorded(path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = || format!("{path}:{}", number + 1);
        if let Some(machine) = MACHINES.iter().find(|machine| starts_a_path(line, machine)) {
            findings.push(Finding::new(
                place(),
                format!("{machine} is a path of somebody's machine"),
            ));
        }
        if !is_code(path) {
            continue;
        }
        let words = || line.split(|letter: char| !letter.is_ascii_alphanumeric());
        if words().any(|word| word == "FIXME" || word == "XXX") {
            findings.push(Finding::new(
                place(),
                "FIXME never merges: fix it, or TODO(#issue)",
            ));
        }
        if words().any(|word| word == "TODO") && !line.contains("TODO(#") {
            findings.push(Finding::new(place(), "TODO(#issue), not a bare one"));
        }
    }
    findings
}

fn is_code(path: &str) -> bool {
    ["rs", "py", "js", "go", "toml", "sh"]
        .iter()
        .any(|extension| path.ends_with(&format!(".{extension}")))
}

/// Returns whether the line has an absolute path with this prefix, which is not a part of a longer
/// path or address.
fn starts_a_path(line: &str, prefix: &str) -> bool {
    line.match_indices(prefix).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|letter| {
            !(letter.is_ascii_alphanumeric() || "._-/}~*$<>)".contains(letter))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{check_source, check_text};
    use crate::tidy::fixture;

    #[track_caller]
    fn check(path: &str, text: &str, expect: usize) {
        let findings = check_source(&fixture(path, text));
        assert_eq!(findings.len(), expect, "{findings:?}");
    }

    #[test]
    fn sources() {
        check(
            "crates/a/src/lib.rs",
            "//! Good.\nstruct Database;\nmod news;\n",
            0,
        );
        check("crates/a/src/lib.rs", "struct Log;\n", 1);
        check("crates/a/src/utils.rs", "//! x\n", 1);
        check("crates/a/src/foo/mod.rs", "//! x\n", 1);
        check("crates/a/src/lib.rs", "//! na\u{ef}ve\n", 1);
        check(
            "crates/a/src/lib.rs",
            "//! x\nstruct Manager {}\nmod core;\n",
            2,
        );
        check(
            "crates/a/src/lib.rs",
            "//! x\n// struct Manager {}\n#[test]\n#[ignore]\nfn f() {}\n",
            1,
        );
        for (columns, expect) in [(100, 0), (101, 1)] {
            let comment = format!("    // {}", "x".repeat(columns - 7));
            check(
                "crates/a/src/lib.rs",
                &format!("//! x\n{comment}\n"),
                expect,
            );
        }
    }

    #[test]
    fn texts() {
        for (text, expect) in [
            ("let x = \"/home/me/x\";", 1),
            ("https://example.org/home/me", 0),
            ("// TODO(#12): later", 0),
            ("// TODO: later", 1),
            ("// FIXME", 1),
            ("// METHOD_TODOS", 0),
        ] {
            assert_eq!(
                check_text("crates/a/src/lib.rs", text).len(),
                expect,
                "{text}"
            );
        }
        assert_eq!(check_text("README.md", "TODO list").len(), 0);
        assert_eq!(check_text("README.md", "see /root/x").len(), 1);
    }
}
