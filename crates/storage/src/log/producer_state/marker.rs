//! The record of a control batch that ends a transaction.
//!
//! Key: version (i16) and type (i16: 0 abort, 1 commit); value: version (i16) and epoch of the
//! transaction coordinator (i32). Later versions may append fields, which are ignored. Other types
//! of control records are no transaction markers.

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionOutcome {
    /// Its records do not count.
    Abort,
    /// Its records count.
    Commit,
}

/// A transaction marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndMarker {
    /// How the transaction ended.
    pub outcome: TransactionOutcome,
    /// Epoch of the transaction coordinator that wrote the marker.
    pub coordinator_epoch: i32,
}

impl EndMarker {
    /// Reads the key and value of a control record; `None` when it is not a transaction marker.
    pub fn parse(key: &[u8], value: &[u8]) -> Option<Self> {
        let outcome = match *key.first_chunk::<4>()? {
            [version, _, 0, 0] if version < 0x80 => TransactionOutcome::Abort,
            [version, _, 0, 1] if version < 0x80 => TransactionOutcome::Commit,
            _ => return None,
        };
        let [version, _, a, b, c, d] = *value.first_chunk::<6>()?;
        (version < 0x80).then_some(Self {
            outcome,
            coordinator_epoch: i32::from_be_bytes([a, b, c, d]),
        })
    }

    /// Returns the key and value of its control record, in version 0.
    pub fn encode(&self) -> ([u8; 4], [u8; 6]) {
        let [a, b, c, d] = self.coordinator_epoch.to_be_bytes();
        let outcome = u8::from(self.outcome == TransactionOutcome::Commit);
        ([0, 0, 0, outcome], [0, 0, a, b, c, d])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_told_from_other_control_records() {
        let value = [0, 0, 0, 0, 0, 7];
        let parse = |key: &[u8]| EndMarker::parse(key, &value).map(|marker| marker.outcome);
        assert_eq!(parse(&[0, 0, 0, 0]), Some(TransactionOutcome::Abort));
        assert_eq!(parse(&[0, 0, 0, 1]), Some(TransactionOutcome::Commit));
        assert_eq!(parse(&[0, 0, 0, 2]), None, "a leader change");
        assert_eq!(parse(&[0, 0, 0]), None);
        assert_eq!(EndMarker::parse(&[0; 4], &value[..5]), None);
        let marker = EndMarker::parse(&[0; 4], &value);
        assert_eq!(marker.map(|marker| marker.coordinator_epoch), Some(7));
        for outcome in [TransactionOutcome::Abort, TransactionOutcome::Commit] {
            let marker = EndMarker {
                outcome,
                coordinator_epoch: 0x0102_0304,
            };
            let (key, value) = marker.encode();
            assert_eq!(EndMarker::parse(&key, &value), Some(marker));
        }
    }
}
