//! Java's properties format, as files of bytes: UTF-8, and errors that name the file.
//!
//! Parsing follows Java ([`wire::properties`] reads the text). [`parse`] refuses a key that occurs
//! twice, where Java takes the last: files written by programs have no such key.

use std::collections::BTreeSet;
use std::path::Path;

pub use wire::properties::{Entry, encode_entry};

use super::{MalformedFileError, text};

/// Keys and values with the line on which each begins, in the order of the file.
pub type Entries = Vec<Entry>;

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
    wire::properties::parse(text(file, bytes)?).map_err(|error| {
        // Not the value, which may be a secret.
        MalformedFileError::new(file, error.line, "four hex digits after \\u", &error.key)
    })
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
