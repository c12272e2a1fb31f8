//! `moved.metadata` in the directory of a partition that has just moved from another log directory:
//! what was known of the log there.
//!
//! While the file exists, a folder of the same partition in the source directory is the old copy.
//! The positions in this file are as valid as those in the checkpoints of the new directory, which
//! may not name the log yet.

use std::path::Path;

use wire::types::{Offset, Uuid, uuid_from_base64, uuid_to_base64};

use super::{MalformedFileError, text};

/// Name of the file.
pub const FILE: &str = "moved.metadata";

/// The content of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MovedLog {
    /// The id of the log directory that the log came from.
    pub from: Uuid,
    /// The offset below which everything was durable.
    pub recovery_point: Offset,
    /// The log start offset.
    pub log_start: Offset,
    /// The offset up to which the log was compacted, if it ever was.
    pub compacted: Option<Offset>,
    /// The move that wrote the file; `None` once the rest of its content is not needed any more.
    pub id: Option<Uuid>,
}

impl MovedLog {
    /// Returns what the file has to say once the checkpoints of the directory contain the log.
    pub fn only_from(from: Uuid) -> Self {
        Self {
            from,
            recovery_point: Offset::ZERO,
            log_start: Offset::ZERO,
            compacted: None,
            id: None,
        }
    }
}

/// Reads the file.
pub fn parse(file: &Path, bytes: &[u8]) -> Result<MovedLog, MalformedFileError> {
    let lines: Vec<&str> = text(file, bytes)?.lines().collect();
    let field = |line: usize, name: &'static str| {
        let found = lines.get(line).copied().unwrap_or_default();
        let value = found.split_once(": ").filter(|(key, _)| *key == name);
        value
            .map(|(_, value)| value)
            .ok_or_else(|| MalformedFileError::new(file, line + 1, name, found))
    };
    let offset = |line: usize, name: &'static str| {
        let value = field(line, name)?;
        let parsed = value.parse().ok().filter(|offset| *offset >= -1_i64);
        parsed.ok_or_else(|| MalformedFileError::new(file, line + 1, name, value))
    };
    if field(0, "version")? != "0" {
        return Err(MalformedFileError::new(
            file,
            1,
            "version: 0",
            lines.first().copied().unwrap_or_default(),
        ));
    }
    let id = |line: usize, name: &'static str, expected: &'static str| {
        let value = field(line, name)?;
        let parsed = uuid_from_base64(value);
        parsed.ok_or_else(|| MalformedFileError::new(file, line + 1, expected, value))
    };
    let compacted = offset(4, "compacted")?;
    Ok(MovedLog {
        from: id(1, "from_directory", "a directory's id")?,
        recovery_point: Offset(offset(2, "recovery_point")?),
        log_start: Offset(offset(3, "log_start")?),
        compacted: (compacted >= 0).then_some(Offset(compacted)),
        id: match lines.get(5) {
            Some(_) => Some(id(5, "move", "the id of a move")?),
            None => None,
        },
    })
}

/// Returns the bytes of the file.
pub fn encode(moved: &MovedLog) -> Vec<u8> {
    let compacted = moved.compacted.map_or(-1, |offset| offset.0);
    let id = moved.id.map(|id| format!("move: {}\n", uuid_to_base64(id)));
    format!(
        "version: 0\nfrom_directory: {}\nrecovery_point: {}\nlog_start: {}\ncompacted: {compacted}\n{}",
        uuid_to_base64(moved.from),
        moved.recovery_point.0,
        moved.log_start.0,
        id.unwrap_or_default()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else_is() {
        let moved = MovedLog {
            from: Uuid::from_u128(7),
            recovery_point: Offset(12),
            log_start: Offset(3),
            compacted: None,
            id: Some(Uuid::from_u128(8)),
        };
        for compacted in [None, Some(Offset(0)), Some(Offset(9))] {
            for id in [None, moved.id] {
                let moved = MovedLog {
                    compacted,
                    id,
                    ..moved
                };
                assert_eq!(parse(Path::new("f"), &encode(&moved)), Ok(moved));
            }
        }
        let whole = String::from_utf8(encode(&moved)).unwrap();
        for (broken, line) in [
            (whole.replace("version: 0", "version: 1"), 1),
            (
                whole.replace("from_directory: AAAA", "from_directory: !"),
                2,
            ),
            (whole.replace("12", "-2"), 3),
            (whole.replace("log_start: 3", "start: 3"), 4),
            (whole.replace("move: AAAA", "move: !"), 6),
            (String::new(), 1),
        ] {
            let error = parse(Path::new("f"), broken.as_bytes()).unwrap_err();
            assert_eq!(error.line, line, "{broken}");
        }
    }
}
