//! What the broker keeps for clients has a bound, and the code names it: a field that holds a map,
//! a set or a queue (or a list in a cell, or the sending end of an unbounded channel) names, after
//! `// Bounded:`, the constant, function or setting that keeps it small, and what is named exists.
//!
//! Readers and tests check that the named bound works. A field without a bound gives the reason,
//! after `// Unbounded:`. Borrowed collections belong to others and are not checked. Test code is
//! exempt.

use super::Finding;
use crate::source::Source;
use crate::source::fields::{Field, fields};

/// Crates that keep something for clients.
const CRATES: &[&str] = &[
    "crates/broker/src/",
    "crates/server/src/",
    "crates/storage/src/log/producer_state",
    "crates/storage/src/log/read",
    "crates/wire/src/",
];

/// Types that grow.
const COLLECTIONS: &[&str] = &[
    "BTreeMap<",
    "BTreeSet<",
    "BinaryHeap<",
    "HashMap<",
    "HashSet<",
    "UnboundedSender<",
    "VecDeque<",
];

/// Cells that make a list something that is kept.
const CELLS: &[&str] = &["Cell<", "Mutex<", "RwLock<"];

/// Files that list the settings.
const SETTINGS: &[&str] = &[
    "crates/server/src/config/keys",
    "crates/broker/src/topic_config",
];

/// Shortest reason that is accepted.
const REASON_MIN: usize = 20;

/// Returns the findings on all files.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let inside = |source: &&Source| CRATES.iter().any(|path| source.path.starts_with(path));
    let of_source = |source| {
        let kept = fields(Source::production(source)).into_iter().filter(grows);
        kept.filter_map(|field| {
            let place = format!("{}:{}", source.path, field.line + 1);
            let text = wrong(sources, source, &field)?;
            Some(Finding::new(place, text))
        })
        .collect::<Vec<_>>()
    };
    sources.iter().filter(inside).flat_map(of_source).collect()
}

fn grows(field: &Field<'_>) -> bool {
    let holds = |name: &str| {
        let mut places = field.of.match_indices(name);
        places.any(|(at, _)| !is_borrowed(&field.of[..at]))
    };
    let keeps_list = |cell: &str| {
        let mut inner = field.of.split(cell).skip(1);
        inner.any(|inner| inner.starts_with("Vec<"))
    };
    COLLECTIONS.iter().any(|name| holds(name)) || CELLS.iter().any(|cell| keeps_list(cell))
}

/// Returns whether a type is behind a reference, given the text before its last name.
fn is_borrowed(before: &str) -> bool {
    let is_path = |letter: char| letter.is_alphanumeric() || "_:".contains(letter);
    let before = before.trim_end_matches(is_path).trim_end();
    let named = before.trim_end_matches(is_path);
    let before = named.strip_suffix('\'').unwrap_or(before);
    before.trim_end().ends_with('&')
}

/// Returns what is wrong with the bound that the comments at a field name.
fn wrong(sources: &[Source], source: &Source, field: &Field<'_>) -> Option<String> {
    let said = said_at(source, field.line);
    if let Some((_, reason)) = said.split_once("Unbounded:") {
        let short = reason.trim().len() < REASON_MIN;
        return short.then(|| "`// Unbounded:` wants a reason".to_owned());
    }
    let Some((_, bound)) = said.split_once("Bounded:") else {
        return Some(format!(
            "`{}` can grow: say by what it is bounded: // Bounded: `CONSTANT`, `function` or `setting`",
            field.name
        ));
    };
    let mut names = bound.split('`').skip(1).step_by(2).peekable();
    if names.peek().is_none() {
        return Some(
            "`// Bounded:` names no constant, function or setting in backticks".to_owned(),
        );
    }
    let lost = names.find(|name| !exists(sources, source, name))?;
    Some(format!("`{lost}` is not to be found: it bounds nothing"))
}

/// Returns the comments directly above a field, and behind it.
fn said_at(source: &Source, line: usize) -> String {
    let lines: Vec<&str> = source.text.lines().collect();
    let above = lines[..line].iter().rev().map(|line| line.trim());
    let mut above: Vec<_> = above
        .take_while(|line| line.starts_with("//") || line.starts_with("#["))
        .filter_map(|line| line.strip_prefix("// "))
        .collect();
    above.reverse();
    let behind = lines[line].split_once("// ").map(|(_, said)| said);
    above.extend(behind);
    above.join(" ")
}

/// Returns whether `name` is a constant, function or method of the same file or of the file that
/// its path leads to, or a setting.
fn exists(sources: &[Source], here: &Source, name: &str) -> bool {
    let Some((path, last)) = name.rsplit_once("::") else {
        return defines(here, name) || is_setting(sources, name);
    };
    let (path, owner) = match path.rsplit_once("::").unwrap_or(("", path)) {
        (before, owner) if owner.starts_with(char::is_uppercase) => (before, Some(owner)),
        _ => (path, None),
    };
    sources.iter().any(|source| {
        (path.is_empty() || leads_to(path, source))
            && owner.is_none_or(|owner| has_word(&source.code, "impl", owner))
            && defines(source, last)
    })
}

fn is_setting(sources: &[Source], name: &str) -> bool {
    let written = format!("\"{name}\"");
    sources.iter().any(|source| {
        SETTINGS.iter().any(|path| source.path.starts_with(path)) && source.text.contains(&written)
    })
}

/// Returns whether a path of modules is the end of a file's own path.
fn leads_to(path: &str, source: &Source) -> bool {
    let path = path
        .trim_start_matches("crate::")
        .trim_start_matches("super::");
    let file = source
        .path
        .trim_start_matches("crates/")
        .trim_end_matches(".rs");
    let file = file
        .trim_end_matches("/lib")
        .replacen("/src", "", 1)
        .replace('/', "::");
    file == path || file.ends_with(&format!("::{path}"))
}

fn defines(source: &Source, name: &str) -> bool {
    let code = source.production();
    ["const ", "static ", "fn "].iter().any(|kind| {
        code.match_indices(kind).any(|(at, kind)| {
            let rest = code[at + kind.len()..].strip_prefix(name);
            rest.is_some_and(|rest| {
                !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_')
            })
        })
    })
}

/// Returns whether a line that starts with `keyword` has the word.
fn has_word(code: &str, keyword: &str, word: &str) -> bool {
    let parts = |line: &str| {
        line.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .any(|part| part == word)
    };
    code.lines()
        .any(|line| line.trim_start().starts_with(keyword) && parts(line))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::fixture;

    fn texts(path: &str, text: &str) -> Vec<String> {
        let sources = [
            fixture(path, text),
            fixture(
                "crates/broker/src/other/place.rs",
                "const ELSEWHERE_MAX: usize = 1;\nimpl Table {\n fn make_room() {}\n}\n",
            ),
            fixture(
                "crates/server/src/config/keys/network.rs",
                "Key::int(\"max.things\", \"1\")\n",
            ),
        ];
        check(&sources)
            .into_iter()
            .map(|finding| finding.text)
            .collect()
    }

    #[track_caller]
    fn found(text: &str, expect: usize) {
        let texts = texts("crates/broker/src/a.rs", text);
        assert_eq!(texts.len(), expect, "{text}: {texts:?}");
    }

    #[test]
    fn what_grows_without_a_bound_is_found() {
        found("struct A {\n    of: RefCell<BTreeMap<u8, u8>>,\n}\n", 1);
        found("struct A {\n    of: Mutex<Vec<u8>>,\n}\n", 1);
        found("struct A(HashSet<u8>);\n", 1);
        found("struct A {\n    a: Vec<mpsc::UnboundedSender<u8>>,\n}\n", 1);
        found(
            "struct A {\n    // Bounded: somehow.\n    of: VecDeque<u8>,\n}\n",
            1,
        );
        found(
            "struct A {\n    // Bounded: `A_MAX`.\n    of: VecDeque<u8>,\n}\n",
            1,
        );
        found(
            "struct A {\n    // Bounded: `other::place::GONE_MAX`.\n    of: VecDeque<u8>,\n}\n",
            1,
        );
        found(
            "struct A {\n    // Bounded: `no.such.setting`.\n    of: VecDeque<u8>,\n}\n",
            1,
        );
        found(
            "struct A {\n    // Unbounded: so.\n    of: VecDeque<u8>,\n}\n",
            1,
        );
        found(
            "struct A {\n    of: Option<(u8, &'a u8, BTreeMap<u8, u8>)>,\n}\n",
            1,
        );
    }

    #[test]
    fn bounds_that_exist_and_what_is_not_kept_are_not_found() {
        let max = "const A_MAX: usize = 1;\n";
        found(
            &format!("{max}struct A {{\n    // Bounded: `A_MAX`.\n    of: VecDeque<u8>,\n}}\n"),
            0,
        );
        found(
            &format!("{max}struct A {{\n    of: VecDeque<u8>, // Bounded: `A_MAX` of them.\n}}\n"),
            0,
        );
        for name in [
            "other::place::ELSEWHERE_MAX",
            "other::place::Table::make_room",
            "Table::make_room",
            "max.things",
        ] {
            found(
                &format!(
                    "struct A {{\n    /// What.\n    // Bounded: `{name}`\n    // or so.\n    of: VecDeque<u8>,\n}}\n"
                ),
                0,
            );
        }
        found(
            "struct A {\n    // Unbounded: the topics are as many as somebody made.\n    of: VecDeque<u8>,\n}\n",
            0,
        );
        found(
            "struct A<'a> {\n    a: &'a BTreeMap<u8, u8>,\n    b: Option<&'a std::collections::HashMap<u8, u8>>,\n    c: Vec<u8>,\n    d: [u8; 4],\n}\n",
            0,
        );
        found(
            "struct A;\n#[cfg(test)]\nmod tests {\n struct B {\n of: VecDeque<u8>,\n }\n}\n",
            0,
        );
        assert!(texts("crates/bench/src/a.rs", "struct A(HashSet<u8>);\n").is_empty());
    }
}
