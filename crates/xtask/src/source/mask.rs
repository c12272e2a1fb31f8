//! Blanks out comments, strings and character literals.
//!
//! Invariant: every line break stays where it is.

/// Replaces every byte of a comment or a literal by a space.
pub(super) fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let Some(end) = literal_or_comment(bytes, at) else {
            out.push(if bytes[at].is_ascii() {
                bytes[at]
            } else {
                b'_'
            });
            at += 1;
            continue;
        };
        out.extend(
            bytes[at..end]
                .iter()
                .map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }),
        );
        at = end;
    }
    String::from_utf8(out).expect("only ASCII was pushed")
}

/// Returns the end of the comment or literal that begins at `at`, if there is one.
fn literal_or_comment(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return Some(find(bytes, at, b"\n").unwrap_or(bytes.len()));
    }
    if rest.starts_with(b"/*") {
        return Some(block_comment(bytes, at));
    }
    let inside_a_name = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest[0] {
        b'"' => Some(quoted(bytes, at + 1, b'"')),
        b'\'' => character(bytes, at),
        b'r' | b'b' | b'c' if !inside_a_name => prefixed(bytes, at),
        _ => None,
    }
}

fn block_comment(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// Returns the end of a quoted literal whose content starts at `at`.
fn quoted(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Returns the end of `'x'` or `'\n'`, but not of a lifetime, which is no literal.
fn character(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at + 1..)?;
    match rest.first()? {
        b'\\' => Some(quoted(bytes, at + 1, b'\'')),
        first => {
            let width = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            (rest.get(width) == Some(&b'\'')).then_some(at + width + 2)
        }
    }
}

/// Returns the end of `r"..."`, `r#"..."#`, `b"..."`, `br#"..."#`, `c"..."` or `b'x'`.
fn prefixed(bytes: &[u8], at: usize) -> Option<usize> {
    let letters = bytes[at..]
        .iter()
        .take(2)
        .take_while(|byte| b"rbc".contains(byte))
        .count();
    let raw = bytes[at..at + letters].contains(&b'r');
    let open = at + letters;
    let hashes = bytes[open..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    match bytes.get(open + hashes)? {
        b'"' if raw => {
            let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
            Some(
                find(bytes, open + hashes + 1, &close).map_or(bytes.len(), |end| end + close.len()),
            )
        }
        b'"' if hashes == 0 => Some(quoted(bytes, open + 1, b'"')),
        b'\'' if hashes == 0 && bytes[at] == b'b' => Some(quoted(bytes, open + 1, b'\'')),
        _ => None,
    }
}

fn find(bytes: &[u8], from: usize, wanted: &[u8]) -> Option<usize> {
    bytes
        .get(from..)?
        .windows(wanted.len())
        .position(|window| window == wanted)
        .map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(mask(text), expect);
    }

    #[test]
    fn comments_go() {
        check("a // fn {\nb", "a        \nb");
        check("a /* { /* } */ \n */ b", "a              \n    b");
    }

    #[test]
    fn literals_go() {
        check(r#"f("a\"{", '{', '\'')"#, "f(      ,    ,     )");
        check("f(r#\"}\"{\"#, b\"{\", b'{')", "f(        ,     ,     )");
    }

    #[test]
    fn lifetimes_and_names_stay() {
        check(
            "fn f<'a>(x: &'a str, bar: u8) {}",
            "fn f<'a>(x: &'a str, bar: u8) {}",
        );
        check("let r#fn = 1;", "let r#fn = 1;");
    }
}
