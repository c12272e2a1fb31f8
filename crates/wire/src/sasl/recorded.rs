//! Reads the files of what Kafka 4.3's own classes made of texts. Each line has a text in hex, a
//! space, and the result, in which all text is in hex too.

use std::fmt::Write as _;

/// Returns the texts with the results.
pub(super) fn lines(golden: &str) -> impl Iterator<Item = (Vec<u8>, &str)> {
    golden.lines().map(|line| {
        let (text, result) = line.split_once(' ').unwrap();
        let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        let bytes = (0..text.len()).step_by(2).map(byte);
        (bytes.collect(), result)
    })
}

/// Returns a text as a result has it.
pub(super) fn hex(text: &str) -> String {
    let mut shown = String::new();
    for byte in text.bytes() {
        let _ = write!(shown, "{byte:02x}");
    }
    shown
}

/// Returns keys and values, in order, as a result has them.
pub(super) fn pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut shown = String::new();
    for (key, value) in pairs {
        let _ = write!(shown, " {}={}", hex(key), hex(value));
    }
    shown
}
