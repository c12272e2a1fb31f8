//! Offset checkpoints: one offset for every partition of a log directory.
//!
//! Four files have this form: the recovery point of each log, the log start offset of each log
//! whose start is past its first segment, each high watermark, and the offset up to which each log
//! was compacted.

use std::path::Path;
use std::sync::Arc;

use wire::types::{Offset, TopicPartition};

use super::{MalformedFileError, lines};

/// Offsets below which each log is durable; recovery starts there.
pub const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
/// Log start offsets.
pub const LOG_STARTS: &str = "log-start-offset-checkpoint";
/// High watermarks.
pub const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
/// Offsets below which each log was compacted; only logs that ever were.
pub const COMPACTED: &str = "cleaner-offset-checkpoint";

/// Reads an offset checkpoint, in the order of the file.
///
/// A partition that occurs twice is an error.
pub fn parse(
    file: &Path,
    bytes: &[u8],
) -> Result<Vec<(TopicPartition, Offset)>, MalformedFileError> {
    let mut seen = std::collections::HashSet::new();
    let mut offsets = Vec::new();
    for entry in lines::entries(file, bytes)? {
        let (partition, offset) = one(&entry)?;
        if !seen.insert(partition.clone()) {
            return Err(entry.malformed("each partition once"));
        }
        offsets.push((partition, offset));
    }
    Ok(offsets)
}

/// Returns the valid entries, each judged on its own, and what is wrong with the others.
///
/// An empty file has no entries and no errors: Kafka leaves such files.
pub fn parse_lines(
    file: &Path,
    bytes: &[u8],
) -> (Vec<(TopicPartition, Offset)>, Vec<MalformedFileError>) {
    let mut seen = std::collections::HashSet::new();
    let (mut offsets, mut damage) = (Vec::new(), Vec::new());
    if bytes.is_empty() {
        return (offsets, damage);
    }
    let (entries, frame) = lines::entries_of(file, bytes);
    damage.extend(frame);
    for entry in entries {
        match entry.and_then(|entry| Ok((one(&entry)?, entry))) {
            Ok(((partition, offset), entry)) => {
                if seen.insert(partition.clone()) {
                    offsets.push((partition, offset));
                } else {
                    damage.push(entry.malformed("each partition once"));
                }
            }
            Err(error) => damage.push(error),
        }
    }
    (offsets, damage)
}

fn one(entry: &lines::Entry<'_>) -> Result<(TopicPartition, Offset), MalformedFileError> {
    let [topic, partition, offset] = entry.fields("topic, partition and offset")?;
    let partition = TopicPartition {
        topic: Arc::from(topic),
        partition: entry.number(partition, 0, "a partition from 0 on")?,
    };
    let offset = Offset(entry.number(offset, 0, "an offset from 0 on")?);
    Ok((partition, offset))
}

/// Returns the bytes of an offset checkpoint.
pub fn encode(offsets: &[(TopicPartition, Offset)]) -> Vec<u8> {
    lines::file(
        offsets
            .iter()
            .map(|(tp, offset)| format!("{} {} {offset}", tp.topic, tp.partition)),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expect: &str) {
        let found = match parse(Path::new("f"), text.as_bytes()) {
            Ok(offsets) => format!("{}", offsets.len()),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expect, "{text:?}");
    }

    #[test]
    fn errors_name_the_line() {
        check("0\n2\na 0 1\nb-c.d 12 9223372036854775807\n", "2");
        check("0\n0\n", "0");
        check("", "f, line 1: expected the version, 0, found \"\"");
        check("1\n0\n", "f, line 1: expected the version, 0, found \"1\"");
        check(
            "0\nx\n",
            "f, line 2: expected the number of entries, found \"x\"",
        );
        check(
            "0\n2\na 0 1\n",
            "f, line 2: expected the number of entries that follow, found \"1 entries\"",
        );
        check(
            "0\n2\na 0 1\nb 0\n",
            "f, line 4: expected topic, partition and offset, found \"b 0\"",
        );
        check(
            "0\n1\na 0 -1\n",
            "f, line 3: expected an offset from 0 on, found \"a 0 -1\"",
        );
        check(
            "0\n1\na x 1\n",
            "f, line 3: expected a partition from 0 on, found \"a x 1\"",
        );
        check(
            "0\n2\na 0 1\na 0 2\n",
            "f, line 4: expected each partition once, found \"a 0 2\"",
        );
    }

    #[test]
    fn one_bad_line_leaves_the_others() {
        let lines = |bytes: &[u8]| {
            let (offsets, damage) = parse_lines(Path::new("f"), bytes);
            let offsets: Vec<_> = offsets.iter().map(|(_, offset)| offset.0).collect();
            (offsets, damage.iter().map(|at| at.line).collect::<Vec<_>>())
        };
        assert_eq!(lines(b"0\n2\na 0 1\nb 0 2\n"), (vec![1, 2], vec![]));
        assert_eq!(
            lines(b"0\n3\na 0 1\nt 0 -5\nb 0 2\n"),
            (vec![1, 2], vec![4])
        );
        assert_eq!(lines(b"0\n2\na 0 1\n\xff\xfe 0 3\n"), (vec![1], vec![4]));
        assert_eq!(lines(b"0\n7\na 0 1\na 0 2\n"), (vec![1], vec![2, 4]));
        assert_eq!(lines(b"0\nx\na 0 1\n"), (vec![1], vec![2]));
        assert_eq!(lines(b"9\n1\na 0 1\n"), (vec![], vec![1]), "another format");
        assert_eq!(lines(b""), (vec![], vec![]));
    }

    #[test]
    fn bytes_that_are_no_text_are_named_by_line() {
        let error = parse(Path::new("f"), b"0\n1\na 0 \xff\n").unwrap_err();
        assert_eq!(error.line, 3);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(entries: Vec<(u8, u16, u32)>) {
            let mut offsets: Vec<_> = entries
                .iter()
                .map(|(topic, partition, offset)| {
                    let topic = Arc::from(format!("topic.{topic}_x-y"));
                    let partition = i32::from(*partition);
                    (TopicPartition { topic, partition }, Offset(i64::from(*offset)))
                })
                .collect();
            offsets.sort();
            offsets.dedup_by(|a, b| a.0 == b.0);
            prop_assert_eq!(parse(Path::new("f"), &encode(&offsets)), Ok(offsets));
        }

        #[test]
        fn any_bytes_parse_or_fail(bytes: Vec<u8>) {
            let _ = parse(Path::new("f"), &bytes);
        }
    }
}
