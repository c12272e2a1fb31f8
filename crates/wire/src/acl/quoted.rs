//! Texts that clients chose, in quotes: one text in a line cannot be taken for several, nor for
//! words of the line.
//!
//! Quotes and backslashes within have a backslash before them, and what cannot be seen is written
//! as `\u{..}`, so two texts never look the same.

use std::fmt::{self, Write as _};

use crate::text::is_unseen;

/// Displays a text in quotes.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuotedText<'a>(pub(super) &'a str);

impl fmt::Display for QuotedText<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_char('"')?;
        for letter in self.0.chars() {
            match letter {
                '"' | '\\' => write!(to, "\\{letter}")?,
                hidden if is_unseen(hidden) => write!(to, "\\u{{{:x}}}", u32::from(hidden))?,
                other => to.write_char(other)?,
            }
        }
        to.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_where_its_quotes_do() {
        for (text, shown) in [
            ("orders", r#""orders""#),
            ("", r#""""#),
            ("a b", r#""a b""#),
            (r#"a" to "b"#, r#""a\" to \"b""#),
            (r"a\", r#""a\\""#),
            ("a\x1b\u{202e}", r#""a\u{1b}\u{202e}""#),
            // Not taken for the letter that it spells.
            (r"a\u{1b}", r#""a\\u{1b}""#),
            ("\u{e4}", "\"\u{e4}\""),
        ] {
            assert_eq!(QuotedText(text).to_string(), shown);
        }
    }
}
