//! Java's properties syntax: text to `(line, key, value)`.
//!
//! What it knows: comments (`#`, `!`), `=`, `:` or white space between key and value, continuation lines (an odd number
//! of backslashes at the end), the escapes `\t \n \r \f \uXXXX` (surrogate pairs too) and `\c` for any other character.
//! Invariant: never panics, on any text. A broken `\u` is the only thing that is an error.

use std::iter::Peekable;
use std::str::Chars;

/// One setting of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Property {
    /// Line on which it begins, from 1.
    pub line: usize,
    /// Key, unescaped.
    pub key: String,
    /// Value, unescaped.
    pub value: String,
}

/// A `\u` that is not followed by four hexadecimal digits, or half a surrogate pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadEscape {
    /// Line on which the setting begins, from 1.
    pub line: usize,
}

/// Reads all settings, in their order.
pub fn parse(text: &str) -> Result<Vec<Property>, BadEscape> {
    let mut properties = Vec::new();
    let mut lines = text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .enumerate();
    while let Some((index, first)) = lines.next() {
        let mut logical = skip_blanks(first).to_owned();
        if logical.is_empty() || logical.starts_with(['#', '!']) {
            continue;
        }
        while ends_open(&logical) {
            logical.pop();
            match lines.next() {
                Some((_, next)) => logical.push_str(skip_blanks(next)),
                None => break,
            }
        }
        let line = index + 1;
        let (key, value) = split(&logical);
        let unescaped = |text| unescape(text).ok_or(BadEscape { line });
        properties.push(Property {
            line,
            key: unescaped(key)?,
            value: unescaped(value)?,
        });
    }
    Ok(properties)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches(is_blank)
}

/// True when the line goes on: its last backslash is not itself escaped.
fn ends_open(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Cuts at the first separator that is not escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let mut end = line.len();
    for (at, c) in line.char_indices() {
        if !escaped && (is_blank(c) || c == '=' || c == ':') {
            end = at;
            break;
        }
        escaped = c == '\\' && !escaped;
    }
    let (key, rest) = line.split_at(end);
    let rest = skip_blanks(rest);
    (
        key,
        skip_blanks(rest.strip_prefix(['=', ':']).unwrap_or(rest)),
    )
}

fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\x0c'),
            Some('u') => plain.push(unicode(&mut chars)?),
            Some(other) => plain.push(other),
            None => {}
        }
    }
    Some(plain)
}

/// What follows `\u`: four digits, and for a high surrogate the low one as `\uXXXX` too.
fn unicode(chars: &mut Peekable<Chars<'_>>) -> Option<char> {
    let high = four_digits(chars)?;
    if !(0xd800..0xdc00).contains(&high) {
        return char::from_u32(high);
    }
    (chars.next()? == '\\' && chars.next()? == 'u').then_some(())?;
    let low = four_digits(chars)?;
    (0xdc00..0xe000).contains(&low).then_some(())?;
    char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))
}

fn four_digits(chars: &mut Peekable<Chars<'_>>) -> Option<u32> {
    (0..4).try_fold(0, |sum, _| Some(sum * 16 + chars.next()?.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expect: &[(usize, &str, &str)]) {
        let parsed = parse(text).unwrap();
        let got: Vec<_> = parsed
            .iter()
            .map(|p| (p.line, p.key.as_str(), p.value.as_str()))
            .collect();
        assert_eq!(got, expect, "{text:?}");
    }

    #[test]
    fn separators_are_equals_colon_or_white_space() {
        check(
            "a=1\nb:2\nc 3\nd = 4\ne\t:\t5\n",
            &[
                (1, "a", "1"),
                (2, "b", "2"),
                (3, "c", "3"),
                (4, "d", "4"),
                (5, "e", "5"),
            ],
        );
        check("a==1\nb=: 2", &[(1, "a", "=1"), (2, "b", ": 2")]);
        check("alone\nempty=", &[(1, "alone", ""), (2, "empty", "")]);
    }

    #[test]
    fn comments_and_blank_lines_are_skipped() {
        check(
            "# a=1\n  ! b=2\n\n \t\nc=3 # not a comment\r\n",
            &[(5, "c", "3 # not a comment")],
        );
    }

    #[test]
    fn a_backslash_at_the_end_goes_on_with_the_next_line() {
        check(
            "listeners=A://:1,\\\n   B://:2\nx=1",
            &[(1, "listeners", "A://:1,B://:2"), (3, "x", "1")],
        );
        check("a=1\\\\\nb=2", &[(1, "a", "1\\"), (2, "b", "2")]);
        check("a=1\\", &[(1, "a", "1")]);
    }

    #[test]
    fn escapes_are_resolved() {
        check(r"k\=\:\ ey=\tA\u0041\\\q", &[(1, "k=: ey", "\tAA\\q")]);
        check(r"k=\ud83d\ude00", &[(1, "k", "\u{1f600}")]);
    }

    #[test]
    fn a_broken_unicode_escape_names_its_line() {
        for bad in [
            r"k=\u00g0",
            r"k=\u00",
            r"k=\ud83d",
            r"k=\udc00",
            r"k=\ud83d\u0041",
        ] {
            assert_eq!(
                parse(&format!("# first\n{bad}")),
                Err(BadEscape { line: 2 }),
                "{bad}"
            );
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = parse(&text);
        }

        #[test]
        fn never_panics_on_text_full_of_syntax(text in r"[\\ud8=: \n\r#!a0\t]{0,60}") {
            let _ = parse(&text);
        }

        #[test]
        fn plain_pairs_come_back(key in "[a-z.]{1,20}", value in "[a-zA-Z0-9/_,.-]{0,40}") {
            let parsed = parse(&format!("{key} = {value}\n")).unwrap();
            prop_assert_eq!(parsed, vec![Property { line: 1, key, value }]);
        }
    }
}
