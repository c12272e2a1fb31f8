//! The names that a file uses of its crate: `use` trees and paths, without test code.
//!
//! This is not a parser: names made by macros, and globs of other files, are not found.

/// One imported name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Use {
    /// Whether the name is re-exported.
    pub(super) is_public: bool,
    /// The parts of its path; the last one is its name elsewhere.
    pub(super) path: Vec<String>,
}

/// Returns the code without the items that only tests compile.
pub(super) fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        let item = &rest[at + MARK.len()..];
        rest = &item[item_end(item)..];
    }
    out.push_str(rest);
    out
}

/// Returns the end of the item at the beginning.
fn item_end(item: &str) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in item.char_indices() {
        match letter {
            ';' | ',' if depth == 0 => return at + 1,
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => {
                depth = depth.saturating_sub(1);
                // `use a::{b};` continues after its brace.
                if depth == 0 && letter == '}' && !item[at + 1..].starts_with(';') {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    item.len()
}

/// Returns the `use` items of the code, and the code without them.
pub(super) fn split(code: &str) -> (Vec<Use>, String) {
    let mut uses = Vec::new();
    let mut body = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = find_use(rest) {
        let Some(end) = rest[at..].find(';').map(|end| at + end) else {
            break;
        };
        let before = rest[..at].trim_end();
        let is_public = before.ends_with("pub") || before.ends_with(')') && is_restricted(before);
        for path in expand(&rest[at + "use ".len()..end]) {
            uses.push(Use { is_public, path });
        }
        body.push_str(&rest[..at]);
        rest = &rest[end + 1..];
    }
    body.push_str(rest);
    (uses, body)
}

fn is_restricted(before: &str) -> bool {
    let open = before.rfind('(');
    open.is_some_and(|at| before[..at].ends_with("pub"))
}

fn find_use(code: &str) -> Option<usize> {
    let mut found = code.match_indices("use ").map(|(at, _)| at);
    found.find(|at| code[..*at].is_empty() || code[..*at].ends_with(['\n', ' ', '\t', '{', ';']))
}

/// Expands a tree: `a::{b, c as d}` is `a::b`, `a::c`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        let parts = path.split("::").map(|part| part.trim().to_owned());
        let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        return if parts.is_empty() {
            vec![]
        } else {
            vec![parts]
        };
    };
    let close = tree.rfind('}').unwrap_or(tree.len());
    let before = expand(&tree[..open]).pop().unwrap_or_default();
    let mut found = Vec::new();
    for part in branches(&tree[open + 1..close]) {
        for tail in expand(part) {
            found.push(before.iter().cloned().chain(tail).collect());
        }
    }
    found
}

/// Returns the parts between the commas outside of braces.
fn branches(inside: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut from = 0;
    let mut found = Vec::new();
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(&inside[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(&inside[from..]);
    found
}

/// Returns every path of two or more parts in the code.
pub(super) fn paths(code: &str) -> Vec<Vec<String>> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !is_name(bytes[at]) || at > 0 && (is_name(bytes[at - 1]) || bytes[at - 1] == b':') {
            at += 1;
            continue;
        }
        let mut parts = Vec::new();
        loop {
            let end = (at..bytes.len()).find(|at| !is_name(bytes[*at]));
            let end = end.unwrap_or(bytes.len());
            parts.push(code[at..end].to_owned());
            at = end;
            let goes_on = bytes[at..].starts_with(b"::");
            if !goes_on || !bytes.get(at + 2).is_some_and(|byte| is_name(*byte)) {
                break;
            }
            at += 2;
        }
        if parts.len() > 1 {
            found.push(parts);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{paths, split, without_tests};

    fn joined(paths: &[Vec<String>]) -> Vec<String> {
        paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn trees_are_taken_apart() {
        let code = "use std::io;\npub(crate) use crate::a::{b, c::{self, D as E}};\nfn f() { crate::x::y(); }\n";
        let (uses, body) = split(code);
        let all: Vec<_> = uses.iter().map(|one| one.path.clone()).collect();
        assert_eq!(
            joined(&all),
            [
                "std::io",
                "crate::a::b",
                "crate::a::c::self",
                "crate::a::c::D"
            ]
        );
        assert!(!uses[0].is_public && uses[1].is_public);
        assert_eq!(joined(&paths(&body)), ["crate::x::y"]);
    }

    #[test]
    fn tests_are_not_seen() {
        let code = "#[cfg(test)]\nuse a::{b};\nfn f() {}\n#[cfg(test)]\nmod tests { use c; }\nfn g() {}\n#[cfg(test)]\nmod t;\n";
        let left = without_tests(code);
        assert!(left.contains("fn f") && left.contains("fn g"));
        assert!(!left.contains("use") && !left.contains("mod"));
    }
}
