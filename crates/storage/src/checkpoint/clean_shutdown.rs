//! `.kafka_cleanshutdown`: present when a log directory was closed by a clean shutdown. The logs in
//! it need no recovery, and the file can name the broker's last registered epoch.

use std::path::Path;

use serde_json::Value;

use super::MalformedFileError;

/// Name of the file.
pub const FILE: &str = ".kafka_cleanshutdown";

/// Reads the file and returns the broker's last epoch, -1 if it had none.
///
/// The presence of the file is already a valid hint, so a caller may treat a malformed file as one
/// without an epoch, as Kafka does.
pub fn parse(file: &Path, bytes: &[u8]) -> Result<i64, MalformedFileError> {
    let found = String::from_utf8_lossy(bytes);
    let malformed = |expected| MalformedFileError::new(file, 1, expected, &found);
    let value: Value = serde_json::from_slice(bytes).map_err(|_| malformed("a JSON object"))?;
    if value.get("version").and_then(Value::as_i64) != Some(0) {
        return Err(malformed("\"version\":0"));
    }
    value
        .get("brokerEpoch")
        .and_then(Value::as_i64)
        .ok_or_else(|| malformed("\"brokerEpoch\" with a number"))
}

/// Returns the bytes of the file.
pub fn encode(broker_epoch: i64) -> Vec<u8> {
    format!("{{\"version\":0,\"brokerEpoch\":{broker_epoch}}}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_is_read_back() {
        let parse = |bytes: &[u8]| parse(Path::new("f"), bytes);
        assert_eq!([parse(&encode(7)), parse(&encode(-1))], [Ok(7), Ok(-1)]);
        assert_eq!(
            parse(b" {\"brokerEpoch\": 3, \"version\": 0, \"x\": [] }\n"),
            Ok(3)
        );
        for bad in [
            "",
            "[]",
            "{\"version\":1,\"brokerEpoch\":3}",
            "{\"version\":0}",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
