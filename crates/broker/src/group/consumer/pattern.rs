//! Regular expressions of subscriptions, in RE2's syntax.
//!
//! The engine's time is linear in the length of the text for every expression, and its memory is
//! bounded. Its syntax is RE2's except for `\Q...\E`, which Java's `Pattern.quote` produces and
//! which is translated here. An expression has to match the whole topic name.

use regex::{Regex, RegexBuilder};

/// Longest expression in bytes; parsing takes time before the compiled size is known, a second for
/// some megabytes.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Largest compiled expression, in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;
const _: () = assert!(
    TEXT_BYTES_MAX < COMPILED_BYTES_MAX,
    "an expression is larger when it is compiled"
);

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    /// Compiles `text`; the error is the reason why it does not compile.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("longer than {TEXT_BYTES_MAX} bytes"));
        }
        let unquoted = unquote(text);
        // First without the parentheses: `a)(b` does not compile by itself, but would within them.
        build(&unquoted).map_err(|error| describe(&error))?;
        let whole = format!("^(?:{unquoted})$");
        build(&whole).map(Self).map_err(|error| describe(&error))
    }

    /// Returns true for an expression that takes at most `compiled_bytes` bytes when compiled.
    pub(super) fn is_within(text: &str, compiled_bytes: usize) -> bool {
        let mut builder = RegexBuilder::new(&unquote(text));
        builder.size_limit(compiled_bytes).build().is_ok()
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

fn build(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .build()
}

/// Returns the last line of the engine's message: the reason; the other lines draw the expression.
fn describe(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

/// Replaces the text between `\Q` and `\E` by an expression for exactly that text.
fn unquote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        // Bounded: `find` returned this index.
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        if let Some(quoted) = escape.strip_prefix("\\Q") {
            let (literal, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
            out.push_str(&regex::escape(literal));
            rest = after;
        } else {
            // Copies the backslash and the character that it escapes.
            let length = escape.chars().take(2).map(char::len_utf8).sum(); // Bounded: two letters.
            // Bounded: the length of its first two characters.
            let (pair, after) = escape.split_at(length);
            out.push_str(pair);
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn the_whole_name_has_to_match() {
        for (pattern, name, matches) in [
            ("a.*", "abc", true),
            ("a", "ab", false),
            ("b", "ab", false),
            ("a|ab", "ab", true),
            ("foo-[0-9]+", "foo-12", true),
            (r"\Qa.b\E.*", "a.bc", true),
            (r"\Qa.b\E", "axb", false),
            (r"\Qa.b", "a.b", true),
            (r"\\Qa", "\\Qa", true),
            ("(?i)ABC", "abc", true),
        ] {
            let compiled = Pattern::compile(pattern).unwrap();
            assert_eq!(compiled.matches(name), matches, "{pattern} {name}");
        }
    }

    #[test]
    fn what_re2_refuses_is_refused() {
        for bad in ["(", "a)(b", "[a", "(?=a)b", r"(a)\1", "*", "a{1001}{1001}"] {
            assert!(Pattern::compile(bad).is_err(), "{bad}");
        }
        assert_eq!(Pattern::compile("(").unwrap_err(), "unclosed group");
    }

    #[test]
    fn a_long_expression_is_not_even_read() {
        let error = Pattern::compile(&"[a]".repeat(100_000)).unwrap_err();
        assert_eq!(error, "longer than 65536 bytes");
        let name = "a".repeat(249);
        assert!(Pattern::compile(&name).unwrap().matches(&name));
    }
}
