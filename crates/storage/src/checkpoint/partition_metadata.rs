//! `partition.metadata`: the id of the topic whose records lie in a partition's directory. It
//! prevents that a directory left over from a deleted topic is taken for that of a new topic of the
//! same name.

use std::path::Path;

use wire::types::{TopicId, uuid_from_base64};

use super::{MalformedFileError, text};

/// Name of the file.
pub const FILE: &str = "partition.metadata";

/// Name of the same file in a directory on a path of another tier, which holds only some of a
/// partition's segments.
pub const PART_FILE: &str = "tier.metadata";

/// Reads the file.
pub fn parse(file: &Path, bytes: &[u8]) -> Result<TopicId, MalformedFileError> {
    let mut lines = text(file, bytes)?.lines();
    let version = lines.next().unwrap_or_default();
    if !matches!(field(version, "version"), Some("0" | "1")) {
        return Err(MalformedFileError::new(file, 1, "`version: 0`", version));
    }
    let id = lines.next().unwrap_or_default();
    let topic_id = field(id, "topic_id")
        .and_then(uuid_from_base64)
        .map(TopicId)
        .filter(|id| *id != TopicId::ZERO)
        .ok_or_else(|| MalformedFileError::new(file, 2, "`topic_id:` and a topic's id", id))?;
    match lines.find(|line| !line.trim().is_empty()) {
        Some(rest) => Err(MalformedFileError::new(
            file,
            3,
            "the end of the file",
            rest,
        )),
        None => Ok(topic_id),
    }
}

/// Returns the bytes of the file, without a newline at the end, as Kafka writes it.
pub fn encode(topic_id: TopicId) -> Vec<u8> {
    format!("version: 0\ntopic_id: {topic_id}").into_bytes()
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (key, value) = line.split_once(':')?;
    (key.trim() == name).then(|| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_topic_id_is_taken() {
        let parse = |text: &str| parse(Path::new("f"), text.as_bytes()).map_err(|error| error.line);
        let id = parse("version: 0\ntopic_id: 5mYQsAMCQ8SRQvTvTqT5lw");
        assert_eq!(
            id.map(|id| id.to_string()),
            Ok("5mYQsAMCQ8SRQvTvTqT5lw".to_owned())
        );
        assert_eq!(
            id.map(encode),
            Ok(b"version: 0\ntopic_id: 5mYQsAMCQ8SRQvTvTqT5lw".to_vec())
        );
        assert_eq!(parse("version: 0\ntopic_id: 5mYQsAMCQ8SRQvTvTqT5lw\n"), id);
        assert_eq!(parse(""), Err(1));
        assert_eq!(
            parse("version: 7\ntopic_id: 5mYQsAMCQ8SRQvTvTqT5lw"),
            Err(1)
        );
        assert_eq!(parse("version: 0\n"), Err(2));
        assert_eq!(
            parse("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"),
            Err(2),
            "the zero id"
        );
        assert_eq!(
            parse("version: 0\ntopic_id: 5mYQsAMCQ8SRQvTvTqT5lw\nmore"),
            Err(3)
        );
    }
}
