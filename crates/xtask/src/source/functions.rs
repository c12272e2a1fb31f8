//! Finds the functions of a file.
//!
//! It expects masked code, in which comments and literals are blank.

use std::ops::Range;

/// Returns every function with a body: its name and its place, from `fn` to the closing brace.
pub(crate) fn functions(code: &str) -> Vec<(&str, Range<usize>)> {
    let mut found = Vec::new();
    for (at, name) in named(code) {
        if let Some(end) = body_end(code, at) {
            found.push((name, at..end + 1));
        }
    }
    found
}

/// Returns whether a function of that name exists, with or without a body.
pub(crate) fn is_declared(code: &str, name: &str) -> bool {
    named(code).any(|(_, found)| found == name)
}

fn named(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = code.match_indices("fn ");
    starts.filter_map(|(at, _)| {
        let starts_a_word = code[..at]
            .chars()
            .next_back()
            .is_none_or(|before| !is_name(before));
        let after = &code[at + "fn ".len()..];
        let name = &after[..after.find(|letter| !is_name(letter)).unwrap_or(after.len())];
        (starts_a_word && !name.is_empty()).then_some((at, name))
    })
}

/// Returns whether a letter may be part of a name.
pub(crate) fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Returns the place of the closing brace of the function that starts at `at`; `None` for a
/// function without a body.
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
