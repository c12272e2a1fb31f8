//! References in a value: `${provider:key}` and `${provider:path:key}`.
//!
//! The form is that of Kafka's `ConfigTransformer`: a reference ends at the first brace, the
//! provider at the first colon, the path at the second one. What has no colon is no reference.
//! Pure; the time is that of the length of the value.

/// A part of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece<'a> {
    /// Text that stays as it is.
    Text(&'a str),
    /// What is replaced.
    Reference(Reference<'a>),
}

/// A reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reference<'a> {
    /// All of it.
    pub(super) text: &'a str,
    /// The name of the provider.
    pub(super) provider: &'a str,
    /// The path, empty if there is none.
    pub(super) path: &'a str,
    /// The key.
    pub(super) key: &'a str,
}

/// Divides a value.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = first(rest);
        rest = after;
        Some(piece)
    })
}

fn first(text: &str) -> (Piece<'_>, &str) {
    let mut from = 0;
    while let Some(begin) = text.get(from..).and_then(|rest| rest.find("${")) {
        let begin = from + begin;
        // Bounded: where something was found.
        let (before, rest) = text.split_at(begin);
        // Without a brace at the end no other reference has one.
        let Some(end) = rest.find('}') else { break };
        let Some(reference) = rest.get(..=end).and_then(reference) else {
            // Nor has one that begins before this brace a colon.
            from = begin + end + 1;
            continue;
        };
        if begin > 0 {
            return (Piece::Text(before), rest);
        }
        let after = rest.get(reference.text.len()..).unwrap_or_default();
        return (Piece::Reference(reference), after);
    }
    (Piece::Text(text), "")
}

/// Returns the reference that a text is.
fn reference(text: &str) -> Option<Reference<'_>> {
    let inside = text.strip_prefix("${")?.strip_suffix('}')?;
    let (provider, rest) = inside.split_once(':')?;
    let (path, key) = rest.split_once(':').unwrap_or(("", rest));
    Some(Reference {
        text,
        provider,
        path,
        key,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_of_a_value_is_lost(text in "[${}:a\u{e9}]{0,40}") {
            let whole: String = pieces(&text)
                .map(|piece| match piece {
                    Piece::Text(text) => text,
                    Piece::Reference(reference) => reference.text,
                })
                .collect();
            prop_assert_eq!(whole, text);
        }
    }

    /// As a file of settings may have them; each looked for the end of all that follow.
    #[test]
    fn what_begins_like_references_is_gone_through_once() {
        let begin = std::time::Instant::now();
        for end in ["", "}", "}${env:N}"] {
            let text = "${".repeat(1 << 20) + end;
            let count = pieces(&text).count();
            assert_eq!(count, 1 + usize::from(end.ends_with("N}")), "{end}");
        }
        assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
    }

    #[test]
    fn references_stand_between_texts() {
        let check = |text: &str, expected: &[&str]| {
            let shown = pieces(text).map(|piece| match piece {
                Piece::Text(text) => text.to_owned(),
                Piece::Reference(it) => format!("{}|{}|{}", it.provider, it.path, it.key),
            });
            assert_eq!(shown.collect::<Vec<_>>(), expected, "{text}");
        };
        check("", &[]);
        check("abc", &["abc"]);
        check("${file:/p:k}", &["file|/p|k"]);
        check("${env:N}", &["env||N"]);
        check("a${env:N}b${env:M}", &["a", "env||N", "b", "env||M"]);
        check("${file:/p:k:l}", &["file|/p|k:l"]);
        check("${who}${env:N}", &["${who}", "env||N"]);
        check("$${env:N}}", &["$", "env||N", "}"]);
        check("${file:/p:k", &["${file:/p:k"]);
        check("\u{e9}${env:N}\u{e9}", &["\u{e9}", "env||N", "\u{e9}"]);
        check("${:}", &["||"]);
    }
}
