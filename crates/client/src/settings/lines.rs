//! A file of properties as Kafka's tools read it: keys and values, and the lines they are on.
//!
//! The lines are Java's ([`wire::properties`]). As with Kafka's tools, which call `Properties.load`
//! on the bytes, they are ISO-8859-1: characters beyond it are written `\uXXXX`.
//!
//! Invariant: no error shows a value or a key, which may be a part of a password. Pure. Not here:
//! files, and what properties mean.

use wire::properties;
use wire::sasl::Secret;

/// How a text begins that an editor has marked as UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A property of a file.
pub struct GivenProperty {
    /// The line on which it begins, from 1.
    pub line: usize,
    /// Its key, which may be a part of a password that has a line of its own.
    pub key: String,
    /// Its value.
    pub value: Secret<String>,
}

/// Why bytes are no properties.
#[derive(Debug, thiserror::Error)]
pub enum PropertiesError {
    /// Java takes the mark for a part of the first key, which then has no effect.
    #[error("it begins with a byte order mark: write it again without one")]
    ByteOrderMark,
    /// A `\u` that is no character.
    #[error("line {0}: \\u has no four hex digits that make a character")]
    Escape(usize),
}

/// Returns the properties of a file with these bytes.
pub fn each_property(bytes: &[u8]) -> Result<Vec<GivenProperty>, PropertiesError> {
    if bytes.starts_with(BYTE_ORDER_MARK) {
        return Err(PropertiesError::ByteOrderMark);
    }
    let letters = bytes.iter().copied().map(char::from);
    let text = Secret::new(letters.collect::<String>());
    let entries = properties::parse(text.expose());
    let entries = entries.map_err(|error| PropertiesError::Escape(error.line))?;
    let given = entries.into_iter().map(|entry| GivenProperty {
        line: entry.line,
        key: entry.key,
        value: Secret::new(entry.value),
    });
    Ok(given.collect())
}

/// Returns a warning if a line that is no comment has characters beyond ASCII in UTF-8.
pub fn warning_of_utf8(bytes: &[u8]) -> Option<String> {
    first_beyond_latin(bytes).map(|line| {
        format!(
            "line {line} seems to be UTF-8; as by Kafka's tools it is read as ISO-8859-1: write the \
             characters beyond ASCII as \\uXXXX"
        )
    })
}

fn first_beyond_latin(bytes: &[u8]) -> Option<usize> {
    let is_beyond = |line: &[u8]| {
        let line = line.trim_ascii_start();
        !line.starts_with(b"#")
            && !line.starts_with(b"!")
            && !line.is_ascii()
            && std::str::from_utf8(line).is_ok()
    };
    let lines = bytes.split(|&byte| byte == b'\n').zip(1..);
    lines
        .filter(|(line, _)| is_beyond(line))
        .map(|(_, line)| line)
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    fn properties(bytes: &[u8]) -> Vec<(String, String)> {
        let given = each_property(bytes).unwrap().into_iter();
        given
            .map(|one| (one.key, one.value.expose().clone()))
            .collect()
    }

    #[test]
    fn bytes_are_letters_as_kafkas_tools_take_them() {
        let latin = b"sasl.password=caf\xe9\n# \xc3\xa9\nb=\\u20ac\n";
        let wanted = [pair("sasl.password", "caf\u{e9}"), pair("b", "\u{20ac}")];
        assert_eq!(properties(latin), wanted);
        assert_eq!(first_beyond_latin(latin), None, "a comment may be UTF-8");
        let utf8 = "a=1\nsasl.password=caf\u{e9}\n".as_bytes();
        let wanted = [pair("a", "1"), pair("sasl.password", "caf\u{c3}\u{a9}")];
        assert_eq!(properties(utf8), wanted);
        assert_eq!(first_beyond_latin(utf8), Some(2));
        assert_eq!(warning_of_utf8(b"a=1\n"), None);
    }

    #[test]
    fn what_cannot_be_read_is_said_without_secrets() {
        let marked = each_property(b"\xef\xbb\xbfsecurity.protocol=SASL_SSL\n");
        assert!(matches!(marked, Err(PropertiesError::ByteOrderMark)));
        let broken = each_property(b"a=1\nhunt\\u12=er2\n").err().unwrap();
        let shown = format!("{broken} {broken:?}");
        assert!(
            shown.contains("line 2") && !shown.contains("hunt"),
            "{shown}"
        );
    }
}
