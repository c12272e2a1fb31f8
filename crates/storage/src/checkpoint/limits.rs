//! `checkpoint-limits` in a partition's directory: upper bounds on what the checkpoint files of the
//! log directory say about one log.
//!
//! The checkpoint files cover all logs and are written only at intervals. After a log was
//! truncated, or was found shorter than they say, they still name a recovery point and a log start
//! offset beyond its end until they are written again. Records appended meanwhile must not be
//! judged by those values. This file is removed when the checkpoint files are correct again.

use std::path::Path;

use wire::types::Offset;

use super::{MalformedFileError, text};

/// Name of the file.
pub const FILE: &str = "checkpoint-limits";

/// The upper bounds on what the checkpoint files say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The offset below which the log need not be checked.
    pub recovery_point: Offset,
    /// The log start offset.
    pub log_start: Offset,
}

/// Reads the file.
pub fn parse(file: &Path, bytes: &[u8]) -> Result<Limits, MalformedFileError> {
    let mut lines = text(file, bytes)?.lines();
    let version = lines.next().unwrap_or_default();
    if field(version, "version") != Some("0") {
        return Err(MalformedFileError::new(file, 1, "`version: 0`", version));
    }
    let mut offset = |number, name, expected| {
        let line = lines.next().unwrap_or_default();
        let value = field(line, name).and_then(|value| value.parse().ok());
        let offset = value.filter(|offset| *offset >= 0).map(Offset);
        offset.ok_or_else(|| MalformedFileError::new(file, number, expected, line))
    };
    Ok(Limits {
        recovery_point: offset(2, "recovery_point", "`recovery_point:` and an offset")?,
        log_start: offset(3, "log_start", "`log_start:` and an offset")?,
    })
}

/// Returns the bytes of the file.
pub fn encode(limits: Limits) -> Vec<u8> {
    let Limits {
        recovery_point,
        log_start,
    } = limits;
    format!("version: 0\nrecovery_point: {recovery_point}\nlog_start: {log_start}\n").into_bytes()
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (key, value) = line.split_once(':')?;
    (key.trim() == name).then(|| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let parse = |text: &[u8]| parse(Path::new("f"), text).map_err(|error| error.line);
        let limits = Limits {
            recovery_point: Offset(57),
            log_start: Offset(4),
        };
        assert_eq!(parse(&encode(limits)), Ok(limits));
        assert_eq!(parse(b""), Err(1));
        assert_eq!(parse(b"version: 1\n"), Err(1));
        assert_eq!(parse(b"version: 0\nrecovery_point: -1\n"), Err(2));
        assert_eq!(parse(b"version: 0\nrecovery_point: 7\n"), Err(3));
        assert_eq!(
            parse(b"version: 0\nrecovery_point: 7\nlog_start: x"),
            Err(3)
        );
    }
}
