//! Rules for topic names.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::image::Image;

use super::quoted;

const TOPIC_NAME_BYTES_MAX: usize = 249;

/// Returns why `name` cannot be a topic's name; `None` if it can.
pub(crate) fn invalid(name: &str) -> Option<String> {
    let reason = if name.is_empty() {
        "the empty string is not allowed".to_owned()
    } else if name == "." || name == ".." {
        format!("'{name}' is not allowed")
    } else if name.len() > TOPIC_NAME_BYTES_MAX
        && name.encode_utf16().count() > TOPIC_NAME_BYTES_MAX
    {
        format!(
            "the length of '{}' is longer than the max allowed length {TOPIC_NAME_BYTES_MAX}",
            quoted(name)
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

/// The existing topics, by the name that their metrics have.
pub(crate) struct MetricNames<'a> {
    image: &'a Image,
    /// Built on first use.
    // Bounded: lives with one request, and borrows from the image of metadata (`of`).
    topics: OnceCell<HashMap<String, &'a str>>,
}

impl<'a> MetricNames<'a> {
    pub(crate) fn of(image: &'a Image) -> Self {
        Self {
            image,
            topics: OnceCell::new(),
        }
    }

    /// Returns an existing topic whose name differs from `name` only in dots and underscores, so
    /// that their metrics would have the same name.
    pub(crate) fn colliding(&self, name: &str) -> Option<&'a str> {
        if !name.contains(['.', '_']) {
            return None;
        }
        let topics = self.topics.get_or_init(|| {
            let mut topics = HashMap::new();
            for topic in self.image.topics() {
                let name = topic.name.as_ref();
                topics.entry(metric_name(name)).or_insert(name);
            }
            topics
        });
        topics.get(&metric_name(name)).copied()
    }
}

fn metric_name(topic: &str) -> String {
    topic.replace('.', "_")
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
