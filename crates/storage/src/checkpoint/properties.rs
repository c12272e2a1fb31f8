//! Java's properties format: comments, and lines of key and value with their escapes.
//!
//! Parsing follows Java: `#` and `!` begin comments; `=`, `:` or white space ends the key; a
//! backslash at the end of a line joins the next one; `\t \n \r \f \uXXXX` are escapes, and any
//! other escaped character is itself. [`parse`] refuses a key that occurs twice, where Java takes
//! the last: files written by programs have no such key.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::{MalformedFileError, text};

/// Keys and values with the line on which each begins, in the order of the file.
pub type Entries = Vec<Entry>;

/// One key and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The line it begins on, from 1.
    pub line: usize,
    /// The key, unescaped.
    pub key: String,
    /// The value, unescaped.
    pub value: String,
}

/// Reads a properties file in which each key occurs once.
pub fn parse(file: &Path, bytes: &[u8]) -> Result<Entries, MalformedFileError> {
    let entries = parse_all(file, bytes)?;
    let mut keys = BTreeSet::new();
    for entry in &entries {
        if !keys.insert(&entry.key) {
            return Err(MalformedFileError::new(
                file,
                entry.line,
                "each key once",
                &entry.key,
            ));
        }
    }
    Ok(entries)
}

/// Reads a properties file with every occurrence of every key.
pub fn parse_all(file: &Path, bytes: &[u8]) -> Result<Entries, MalformedFileError> {
    let mut entries: Entries = Vec::new();
    let mut lines = text(file, bytes)?.lines().zip(1_usize..);
    while let Some((first, line)) = lines.next() {
        let first = first.trim_start();
        if first.is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = first.to_owned();
        while continues(&logical) {
            logical.pop();
            let Some((next, _)) = lines.next() else { break };
            logical.push_str(next.trim_start());
        }
        let (key, value) = split(&logical);
        let unescaped = unescape(key).zip(unescape(value));
        let Some((key, value)) = unescaped else {
            return Err(MalformedFileError::new(
                file,
                line,
                "four hex digits after \\u",
                // Not the value, which may be a secret.
                key,
            ));
        };
        entries.push(Entry { line, key, value });
    }
    Ok(entries)
}

/// Returns one line `key=value`, escaped.
pub fn encode_entry(key: &str, value: &str) -> String {
    format!("{}={}\n", escape(key, true), escape(value, false))
}

/// Returns true when the line ends with an odd number of backslashes.
fn continues(line: &str) -> bool {
    line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

/// Splits a line into key and value, both still escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|c: char| {
        let ends = !escaped && (matches!(c, '=' | ':') || is_blank(c));
        escaped = c == '\\' && !escaped;
        ends
    });
    // Bounded: where something was found.
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, rest.trim_start_matches(is_blank))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

fn unescape(text: &str) -> Option<String> {
    // Escapes are UTF-16 units; a surrogate pair makes one character.
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let c = match (c, c == '\\') {
            (_, false) => c,
            (_, true) => match chars.next() {
                None => break,
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\x0c',
                Some('u') => {
                    let digits = chars.as_str().get(..4)?;
                    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                        return None;
                    }
                    units.push(u16::from_str_radix(digits, 16).ok()?);
                    chars.nth(3);
                    continue;
                }
                Some(other) => other,
            },
        };
        units.extend(c.encode_utf16(&mut [0; 2]).iter());
    }
    String::from_utf16(&units).ok()
}

fn escape(text: &str, is_key: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (i, c) in text.chars().enumerate() {
        match c {
            ' ' if is_key || i == 0 => escaped.push_str("\\ "),
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\x0c' => escaped.push_str("\\f"),
            '\\' | '=' | ':' | '#' | '!' => escaped.extend(['\\', c]),
            ' '..='~' => escaped.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a String cannot fail.
                    let _ = write!(escaped, "\\u{unit:04X}");
                }
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expect: &[(&str, &str)]) {
        let entries = parse(Path::new("f"), text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        let found: Vec<_> = entries
            .iter()
            .map(|e| (e.key.as_str(), e.value.as_str()))
            .collect();
        assert_eq!(found, expect, "{text:?}");
    }

    #[test]
    fn lines_are_read_as_java_reads_them() {
        check(
            "# c\n! c\n\n  a=1\nb : 2\nc 3\nd\n",
            &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "")],
        );
        check("a\\ b\\=c=d e ", &[("a b=c", "d e ")]);
        check("path=C\\:\\\\x\\ty", &[("path", "C:\\x\ty")]);
        check(
            "long=one \\\n   two\\\\\nnext=3",
            &[("long", "one two\\"), ("next", "3")],
        );
        check("u=\\u00e9\\uD83D\\uDE00", &[("u", "\u{e9}\u{1f600}")]);
        check("a=1\r\nb=2\r\n", &[("a", "1"), ("b", "2")]);
    }

    #[test]
    fn errors_name_the_line() {
        let line = |text: &str| parse(Path::new("f"), text.as_bytes()).map_err(|error| error.line);
        assert_eq!(line("# c\na=\\u12"), Err(2));
        assert_eq!(line("a=\\uD800"), Err(1), "half a pair");
        assert_eq!(line("a=1\nb=2\na=3\n"), Err(3));
    }

    #[test]
    fn an_error_shows_no_value() {
        for text in ["a.password=hun\\ter\\u2", "a.password hun\\ter\\u2"] {
            let error = parse(Path::new("f"), text.as_bytes()).unwrap_err();
            assert_eq!(error.found, "a.password");
            assert!(!error.to_string().contains("hun"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(key in "\\PC{1,12}", value: String) {
            let entries = parse(Path::new("f"), encode_entry(&key, &value).as_bytes());
            prop_assert_eq!(entries, Ok(vec![Entry { line: 1, key, value }]));
        }

        #[test]
        fn any_bytes_parse_or_fail(bytes: Vec<u8>) {
            let _ = parse(Path::new("f"), &bytes);
        }
    }
}
