//! Makes text from outside safe to show in terminals and logs.
//!
//! Other parties choose group ids, client ids, member metadata, topic names of other brokers and
//! error messages. Unescaped, such text can move the cursor, forge lines, and hide or reorder what
//! follows. This module writes characters that are invisible, or that change where other characters
//! appear, as `\u{..}`: C0, DEL and C1 controls, bidirectional marks, line and paragraph
//! separators, and zero-width characters. All other characters stay, so a search for the original
//! text finds it.
//!
//! It lives in this crate because all users (commands, server, broker, bench) depend on this crate
//! and share no other.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// Displays a text with its invisible characters written as `\u{..}`.
#[derive(Clone, Copy, Debug)]
pub struct EscapedText<'a>(pub &'a str);

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` applies the column width. Clean text, which is the common case, is not copied.
        to.pad(&escaped(self.0))
    }
}

/// Returns the text with its invisible characters written as `\u{..}`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escaped_but(text, |_| false)
}

/// Does the same as [`escaped`], but keeps line feeds and tabs.
///
/// For multi-line text assembled from escaped parts.
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

/// Returns true for printable ASCII: a cheap test for the common case.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Returns equivalent JSON with the invisible characters in its strings written as `\uXXXX`.
///
/// JSON writers escape only C0 controls.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    // Outside of strings JSON is ASCII, and C0 controls within strings are already escaped.
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

/// Returns the longest prefix of `text` that has at most `bytes_max` bytes.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    // Bounded: `floor_char_boundary` returns at most the length of the text.
    let (cut, _) = text.split_at(text.floor_char_boundary(bytes_max));
    assert!(cut.len() <= bytes_max, "what is cut is within its bound");
    cut
}

/// Returns true for a character that a terminal does not show, or that changes where or how other
/// characters appear.
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
        assert_eq!(format!("{:8}|", EscapedText("a\x07")), "a\\u{7}  |");
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
