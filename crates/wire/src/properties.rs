//! Java's properties format as text: comments, and lines of key and value with their escapes.
//!
//! Parsing follows Java: `#` and `!` begin comments; `=`, `:` or white space ends the key; a
//! backslash at the end of a line joins the next one; `\t \n \r \f \uXXXX` are escapes, and any
//! other escaped character is itself. Every occurrence of a key is an entry.
//!
//! Invariant: no error holds a value, which may be a password. Not here: which bytes are which
//! characters (Java's clients take ISO-8859-1, this broker's own files are UTF-8), and which keys
//! may occur twice.

use std::fmt::Write as _;

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

/// An escape that makes no character.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: \\u has no four hex digits that make a character")]
pub struct EscapeError {
    /// The line on which the entry begins, from 1.
    pub line: usize,
    /// The key of the entry as it was written.
    pub key: String,
}

/// Reads all entries, in the order of the text.
pub fn parse(text: &str) -> Result<Vec<Entry>, EscapeError> {
    let mut entries = Vec::new();
    // To Java a carriage return alone ends a line, too.
    let lines = text.lines().zip(1_usize..);
    let mut lines = lines.flat_map(|(whole, line)| whole.split('\r').map(move |part| (part, line)));
    while let Some((first, line)) = lines.next() {
        let first = first.trim_start_matches(is_blank);
        if first.is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = first.to_owned();
        while continues(&logical) {
            logical.pop();
            let Some((next, _)) = lines.next() else { break };
            logical.push_str(next.trim_start_matches(is_blank));
        }
        let (key, value) = split(&logical);
        let Some((key, value)) = unescape(key).zip(unescape(value)) else {
            let key = key.to_owned();
            return Err(EscapeError { line, key });
        };
        entries.push(Entry { line, key, value });
    }
    Ok(entries)
}

/// Returns one line `key=value`, escaped.
pub fn encode_entry(key: &str, value: &str) -> String {
    let line = format!("{}={}", escape(key, true), escape(value, false));
    assert!(!line.contains(['\n', '\r']), "an entry is one line");
    line + "\n"
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
    // A line without a separator is a key.
    // Bounded: `find` returns an index of a character of `line`.
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
    assert!(
        escaped.is_ascii(),
        "whatever reads it takes it for the same"
    );
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_java_takes_for_blank_or_an_end_is_so() {
        let text = "a=x\\\n\u{a0}y\n\u{85}b=1\rc=2\r\nd=3\\\r\n \t4";
        let read = parse(text).unwrap();
        let read: Vec<_> = read
            .iter()
            .map(|one| (one.line, one.key.as_str(), one.value.as_str()))
            .collect();
        let wanted = [
            (1, "a", "x\u{a0}y"),
            (3, "\u{85}b", "1"),
            (3, "c", "2"),
            (4, "d", "34"),
        ];
        assert_eq!(read, wanted);
    }

    fn check(text: &str, expect: &[(&str, &str)]) {
        let entries = parse(text).unwrap_or_else(|error| panic!("{error}"));
        let found: Vec<_> = entries
            .iter()
            .map(|entry| (entry.key.as_str(), entry.value.as_str()))
            .collect();
        assert_eq!(found, expect, "{text:?}");
    }

    #[test]
    fn lines_are_read_as_java_reads_them() {
        check(
            "# a comment\n! another\n\n  a=b \nc : d\ne f g\nlonely\n\\=x\\:y = z\n",
            &[
                ("a", "b "),
                ("c", "d"),
                ("e", "f g"),
                ("lonely", ""),
                ("=x:y", "z"),
            ],
        );
        check("a=1\na=2\r\n", &[("a", "1"), ("a", "2")]);
    }

    #[test]
    fn a_line_goes_on_and_signs_are_escaped() {
        check(
            "jaas=Module required \\\n    username=\"ada\" \\\n  password=\"a\\\\b\";\nb=\\u0041\\t",
            &[
                (
                    "jaas",
                    "Module required username=\"ada\" password=\"a\\b\";",
                ),
                ("b", "A\t"),
            ],
        );
        check("a=b\\", &[("a", "b")]);
        check("a=b\\\\\nc=d", &[("a", "b\\"), ("c", "d")]);
    }

    #[test]
    fn an_escape_that_is_no_character_is_no_other_password() {
        check("a=\\uD83D\\uDE00", &[("a", "\u{1f600}")]);
        for wrong in ["\\uD83D", "\\u00", "\\u00zz", "\\u+041"] {
            let error = parse(&format!("#\na=hun\\ter{wrong}")).unwrap_err();
            assert_eq!((error.line, error.key.as_str()), (2, "a"), "{wrong}");
            assert!(!format!("{error} {error:?}").contains("hun"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(key in "\\PC{1,12}", value: String) {
            let entries = parse(&encode_entry(&key, &value));
            prop_assert_eq!(entries, Ok(vec![Entry { line: 1, key, value }]));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = parse(&text);
        }
    }
}
