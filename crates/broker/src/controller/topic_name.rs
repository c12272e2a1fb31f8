//! What a topic may be called.

use crate::image::Image;

const TOPIC_NAME_BYTES_MAX: usize = 249;

/// Why `name` cannot be a topic's name.
pub(crate) fn invalid(name: &str) -> Option<String> {
    let reason = if name.is_empty() {
        "the empty string is not allowed".to_owned()
    } else if name == "." || name == ".." {
        format!("'{name}' is not allowed")
    } else if name.encode_utf16().count() > TOPIC_NAME_BYTES_MAX {
        format!(
            "the length of '{name}' is longer than the max allowed length {TOPIC_NAME_BYTES_MAX}"
        )
    } else if !name
        .bytes()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-'))
    {
        format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' \
             and '-'"
        )
    } else {
        return None;
    };
    Some(format!("Topic name is invalid: {reason}"))
}

/// An existing topic whose name differs from `name` only in dots and underscores: their metrics would
/// have one name.
pub(crate) fn colliding<'a>(image: &'a Image, name: &str) -> Option<&'a str> {
    if !name.contains(['.', '_']) {
        return None;
    }
    let mut names = image.topics().map(|topic| topic.name.as_ref());
    names.find(|existing| is_same_metric(existing, name))
}

fn is_same_metric(a: &str, b: &str) -> bool {
    let unified = |c: u8| if c == b'.' { b'_' } else { c };
    a.len() == b.len() && a.bytes().map(unified).eq(b.bytes().map(unified))
}

#[cfg(test)]
mod tests {
    use super::invalid;

    #[test]
    fn names_are_ascii_words_of_bounded_length() {
        for good in ["a", "A.b_c-9", "__consumer_offsets", &"x".repeat(249)] {
            assert_eq!(invalid(good), None, "{good}");
        }
        assert_eq!(
            invalid("..").as_deref(),
            Some("Topic name is invalid: '..' is not allowed")
        );
        assert_eq!(
            invalid("a b").as_deref(),
            Some(
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII \
                 alphanumerics, '.', '_' and '-'"
            )
        );
        assert!(invalid(&"x".repeat(250)).is_some() && invalid("").is_some());
    }
}
