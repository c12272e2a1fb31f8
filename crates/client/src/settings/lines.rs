//! The lines of a file of properties, as Java reads them: `key=value`, `key: value` or `key value`,
//! comments after `#` or `!`, a backslash at the end of a line goes on in the next one and
//! otherwise escapes. The text is UTF-8.
//!
//! Pure. Not here: files, and what properties mean.

use std::str::Chars;

/// Returns keys and values; fails with the number of the line, from 1, whose escapes are none.
pub fn each_property(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut found = Vec::new();
    let mut lines = text.lines().zip(1_usize..);
    while let Some((line, number)) = lines.next() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut whole = line.to_owned();
        while goes_on(&whole) {
            whole.pop();
            let next = lines.next().map_or("", |(next, _)| next);
            whole.push_str(next.trim_start());
        }
        let (key, value) = divided(&whole);
        let pair = unescaped(key).zip(unescaped(value));
        found.push(pair.ok_or(number)?);
    }
    Ok(found)
}

/// Returns true if a line ends with a backslash that is not itself escaped.
fn goes_on(line: &str) -> bool {
    let bare = line.trim_end_matches('\\');
    (line.len() - bare.len()) % 2 == 1
}

/// Divides a line at the first sign or space that is not escaped.
fn divided(line: &str) -> (&str, &str) {
    let mut is_escaped = false;
    let end = line.find(|letter: char| {
        let ends = !is_escaped && (matches!(letter, '=' | ':') || letter.is_ascii_whitespace());
        is_escaped = letter == '\\' && !is_escaped;
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start())
}

/// Returns a text without its escapes; `None` if one is no character. Escapes are UTF-16: two
/// surrogates make one character.
fn unescaped(text: &str) -> Option<String> {
    let mut units = Vec::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let plain = match letter {
            '\\' => match letters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => {
                    units.push(unit(&mut letters)?);
                    continue;
                }
                Some(other) => other,
                None => break,
            },
            plain => plain,
        };
        units.extend(plain.encode_utf16(&mut [0; 2]).iter());
    }
    String::from_utf16(&units).ok()
}

fn unit(letters: &mut Chars<'_>) -> Option<u16> {
    (0..4).try_fold(0, |unit, _| {
        let digit = u16::try_from(letters.next()?.to_digit(16)?).ok()?;
        Some(unit << 4 | digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn lines_are_read_as_java_reads_them() {
        let text = "# a comment\n! another\n\n  a=b \nc : d\ne f g\nlonely\n\\=x\\:y = z\n";
        let wanted = [
            pair("a", "b "),
            pair("c", "d"),
            pair("e", "f g"),
            pair("lonely", ""),
            pair("=x:y", "z"),
        ];
        assert_eq!(each_property(text).unwrap(), wanted);
    }

    #[test]
    fn a_line_goes_on_and_signs_are_escaped() {
        let text = "jaas=Module required \\\n    username=\"ada\" \\\n  password=\"a\\\\b\";\nb=\\u0041\\t";
        let wanted = [
            pair(
                "jaas",
                "Module required username=\"ada\" password=\"a\\b\";",
            ),
            pair("b", "A\t"),
        ];
        assert_eq!(each_property(text).unwrap(), wanted);
        assert_eq!(each_property("a=b\\").unwrap(), [pair("a", "b")]);
        assert_eq!(
            each_property("a=b\\\\\nc=d").unwrap(),
            [pair("a", "b\\"), pair("c", "d")]
        );
    }

    #[test]
    fn an_escape_that_is_no_character_is_no_other_password() {
        assert_eq!(
            each_property("a=\\uD83D\\uDE00").unwrap(),
            [pair("a", "\u{1f600}")]
        );
        for wrong in ["\\uD83D", "\\u00", "\\u00zz", "\\u+041"] {
            assert_eq!(each_property(&format!("#\na={wrong}")), Err(2), "{wrong}");
        }
    }
}
