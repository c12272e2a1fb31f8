//! Text from others, made fit for terminals and logs.
//!
//! Group ids, client ids, member metadata, topic names of other brokers, error messages: anybody chooses them. Written as
//! they are they can move the cursor, forge lines, hide or reorder what follows. What a reader could not see, or would see
//! elsewhere, is written as `\u{..}`: C0, DEL and C1 controls, bidirectional marks, line and paragraph separators,
//! characters without width. All else stays, so what is escaped can be searched for as it was said.
//!
//! Lives here because everything that shows such text (commands, server, broker, bench) depends on this crate, and on no
//! other that it shares.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// Shows a text with what cannot be seen written as `\u{..}`.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` gives columns their width; what is clean, nearly everything, is not copied.
        to.pad(&escaped(self.0))
    }
}

/// The text, with what cannot be seen written as `\u{..}`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escaped_but(text, |_| false)
}

/// As [`escaped`], for a page of lines: its line feeds and tabulators stay. For text that was put together from escaped
/// parts.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    escaped_but(text, |c| matches!(c, '\n' | '\t'))
}

fn escaped_but(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_hidden = |c: char| is_unseen(c) && !stays(c);
    if is_plain(text) || !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// True for printable ASCII, which nearly everything is; quickly seen.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// JSON that means the same, with what cannot be seen in its strings written as `\uXXXX`. Writers of JSON escape C0 only.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    // Outside of strings JSON is ASCII; C0 within them is escaped already.
    let is_hidden = |c: char| c >= '\x7f' && is_unseen(c);
    if json.bytes().all(|byte| byte < 0x7f) || !json.contains(is_hidden) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The longest beginning of a text that has at most so many bytes.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    // Bounded: no more than there is.
    let (cut, _) = text.split_at(text.floor_char_boundary(bytes_max));
    assert!(cut.len() <= bytes_max, "what is cut is within its bound");
    cut
}

/// True for what a reader of a terminal would not see, or what changes where and how the rest is seen.
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}'                    // soft hyphen
            | '\u{34f}'                 // joins graphemes
            | '\u{61c}'                 // Arabic letter mark
            | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}'     // fillers
            | '\u{180b}'..='\u{180f}'   // Mongolian selectors and separator
            | '\u{200b}'..='\u{200f}'   // without width; left-to-right and right-to-left marks
            | '\u{2028}'..='\u{202e}'   // line and paragraph separators; embeddings and overrides
            | '\u{2060}'..='\u{206f}'   // word joiner, invisible operators, isolates
            | '\u{feff}'                // byte order mark
            | '\u{fff0}'..='\u{fffb}'   // annotations
            | '\u{e0000}'..='\u{e0fff}' // tags, selectors
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_cannot_be_seen_is_spelt_out_and_the_rest_stays() {
        for (text, shown) in [
            ("orders", "orders"),
            (
                "gr\u{f6}\u{df}e \u{8eca} \u{1f697} \\",
                "gr\u{f6}\u{df}e \u{8eca} \u{1f697} \\",
            ),
            ("\x1b[2Jgone", "\\u{1b}[2Jgone"),
            ("a\nb\r\tc", "a\\u{a}b\\u{d}\\u{9}c"),
            ("\u{7f}\u{9b}1m", "\\u{7f}\\u{9b}1m"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("pay\u{200b}ments\u{2028}", "pay\\u{200b}ments\\u{2028}"),
        ] {
            assert_eq!(escaped(text), shown);
        }
        assert_eq!(escaped_lines("a\n\tb\x07"), "a\n\tb\\u{7}");
        assert_eq!(format!("{:8}|", Escaped("a\x07")), "a\\u{7}  |");
    }

    #[test]
    fn json_says_the_same_in_characters_that_can_be_seen() {
        let json = "{\n  \"a\": \"\u{9b}1m \u{e0041} \u{e4}\"\n}";
        assert_eq!(
            escaped_json(json),
            "{\n  \"a\": \"\\u009b1m \\udb40\\udc41 \u{e4}\"\n}"
        );
    }

    #[test]
    fn a_cut_falls_between_characters() {
        assert_eq!(cut("a\u{e4}", 2), "a");
        assert_eq!(cut("a\u{e4}", 3), "a\u{e4}");
        assert_eq!(cut("\u{e4}", 0), "");
    }

    proptest! {
        #[test]
        fn nothing_unseen_is_left(text in any::<String>(), tail in "[\\x00-\\u{2100}]{0,20}") {
            let text = text + &tail;
            prop_assert!(!escaped(&text).contains(is_unseen));
            prop_assert!(!escaped_lines(&text).contains(|c| !matches!(c, '\n' | '\t') && is_unseen(c)));
            prop_assert!(!escaped_json(&text).contains(|c| c >= '\x7f' && is_unseen(c)));
        }
    }
}
