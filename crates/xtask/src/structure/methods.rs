//! Counts the methods of each type, and the files that hold them.
//!
//! It counts `impl Type {` and not the implementations of traits.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Source;

/// The methods of a type.
#[derive(Default, Debug)]
pub(super) struct Methods {
    pub(super) methods: usize,
    pub(super) files: BTreeSet<String>,
}

/// Returns the methods by `crate::Type`, the largest number first.
pub(super) fn of_types(sources: &[Source]) -> Vec<(String, Methods)> {
    let mut found: BTreeMap<String, Methods> = BTreeMap::new();
    for source in sources {
        let name = source.path.split('/').nth(1).unwrap_or_default();
        for (kind, methods) in of_source(source.production()) {
            let of = found.entry(format!("{name}::{kind}")).or_default();
            of.methods += methods;
            of.files.insert(source.path.clone());
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, of)| std::cmp::Reverse(of.methods));
    found
}

fn of_source(code: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("\nimpl") {
        let rest = &code[at + "\nimpl".len()..];
        let Some((head, body)) = rest.find('{').map(|at| rest.split_at(at)) else {
            continue;
        };
        let head = without_generics(head);
        if head.is_empty() || head.contains(" for ") {
            continue;
        }
        found.push((head, functions_directly_in(body)));
    }
    found
}

/// Returns the name of a type: `<'a, P: Platform> Reading<'a, P> where ..` is `Reading`.
fn without_generics(head: &str) -> &str {
    let head = head.trim_start();
    let mut depth = 0_usize;
    let mut start = 0;
    if head.starts_with('<') {
        for (at, letter) in head.char_indices() {
            match letter {
                '<' => depth += 1,
                '>' if !head[..at].ends_with('-') => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                start = at + 1;
                break;
            }
        }
    }
    let head = head[start..].trim();
    if head.contains(" for ") {
        return head;
    }
    head.split(['<', ' ', '\n']).next().unwrap_or_default()
}

fn functions_directly_in(body: &str) -> usize {
    let mut depth = 0_usize;
    let mut count = 0;
    for (at, letter) in body.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
            }
            'f' if depth == 1 && body[at..].starts_with("fn ") => {
                count += usize::from(body[..at].ends_with([' ', '\n', '\t']));
            }
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::of_source;

    #[test]
    fn methods_are_counted_and_those_of_traits_are_not() {
        let code = "\nimpl<P: Platform> Log<P> {\n fn a() { fn inner() {} }\n pub(crate) async fn b() {}\n}\n\
            impl<P> Drop for Log<P> { fn drop() {} }\nimpl Log2 {}\nimpl<'a, F: Fn() -> u8> R<'a, F> { fn c() {} }\n";
        assert_eq!(of_source(code), [("Log", 2), ("Log2", 0), ("R", 1)]);
    }
}
