//! Keys and values of `__transaction_state`: the state of each transactional id.
//!
//! The framing is that of `__consumer_offsets`: type or version in 16 bits, then the schema. Kafka
//! writes version 0 of the value while `transaction.version` is 0, and version 1 with its tagged
//! fields from 1 on; this module reads both. A null value is a tombstone: the transactional id has
//! expired.

use bytes::Bytes;

use super::schema::schema;
use super::{DecodeError, Field, Form, Reader};

schema! {
    /// The key of a transactional id.
    TransactionLogKey, versions 0..=0, flexible 1.. {
        /// The transactional id.
        transactional_id: String = String::new(), in 0..=0;
    }

    /// The state of a transactional id.
    TransactionLogValue, versions 0..=1, flexible 1.. {
        /// Its producer id.
        producer_id: i64 = -1, in 0..=1;
        /// The producer id before this one, -1 for none.
        previous_producer_id: i64 = -1, in 1..=1, tag 0;
        /// The producer id that replaces the current one when the transaction is complete, -1 for
        /// none.
        next_producer_id: i64 = -1, in 1..=1, tag 1;
        /// Epoch of the producer.
        producer_epoch: i16 = -1, in 0..=1;
        /// The transaction timeout in milliseconds.
        timeout_ms: i32 = 0, in 0..=1;
        /// State: 0 empty, 1 ongoing, 2 prepare commit, 3 prepare abort, 4 complete commit, 5
        /// complete abort.
        status: i8 = 0, in 0..=1;
        /// The partitions in the transaction; null in state 0.
        partitions: Option<Vec<TransactionPartitions>> = None, in 0..=1;
        /// When the value was written, in milliseconds since 1970.
        last_update_ms: i64 = -1, in 0..=1;
        /// When the transaction began, -1 without a transaction.
        start_ms: i64 = -1, in 0..=1;
        /// Version of the transaction protocol that the client used.
        client_version: i16 = 0, in 1..=1, tag 2;
        /// The epoch that replaces the current one when the transaction is complete, -1 for none.
        next_producer_epoch: i16 = -1, in 1..=1, tag 3;
    }

    /// Partitions of one topic in a transaction.
    TransactionPartitions, versions 0..=1, flexible 1.. {
        /// The topic's name.
        topic: String = String::new(), in 0..=1;
        /// Indexes of the partitions.
        partitions: Vec<i32> = Vec::new(), in 0..=1;
    }
}

const TRANSACTIONAL_ID: i16 = 0;

impl TransactionLogKey {
    /// Returns the key's bytes.
    pub fn encode(&self) -> Bytes {
        framed(TRANSACTIONAL_ID, self, Self::form(0))
    }

    /// Reads a key; `None` for an unknown type, which the caller must leave unchanged.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut input = Reader::new(bytes);
        let form = Self::form(0);
        if i16::read(&mut input, form)? != TRANSACTIONAL_ID {
            return Ok(None);
        }
        let key = Self::read(&mut input, form)?;
        input.finish()?;
        Ok(Some(key))
    }
}

impl TransactionLogValue {
    /// Returns the value's bytes in `version`.
    pub fn encode(&self, version: i16) -> Bytes {
        framed(version, self, Self::form(version))
    }

    /// Reads a value of any version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let version = i16::read(&mut input, Self::form(0))?;
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::Version {
                key: TRANSACTIONAL_ID,
                version,
            });
        }
        let value = Self::read(&mut input, Self::form(version))?;
        input.finish()?;
        Ok(value)
    }
}

fn framed(prefix: i16, value: &impl Field, form: Form) -> Bytes {
    let mut out = Vec::with_capacity(64);
    prefix.write(&mut out, form);
    value.write(&mut out, form);
    out.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> TransactionLogValue {
        TransactionLogValue {
            producer_id: 4001,
            producer_epoch: 2,
            timeout_ms: 60_000,
            status: 1,
            partitions: Some(vec![TransactionPartitions {
                topic: "t".into(),
                partitions: vec![0, 3],
            }]),
            last_update_ms: 7,
            start_ms: 6,
            ..TransactionLogValue::default()
        }
    }

    #[test]
    fn version_0_has_no_tagged_fields() {
        let mut written = value();
        written.next_producer_id = 9;
        written.client_version = 2;
        let read = TransactionLogValue::decode(&written.encode(0)).unwrap();
        assert_eq!(read, value(), "what the version lacks is at its default");
        assert_eq!(
            TransactionLogValue::decode(&written.encode(1)),
            Ok(written),
            "and is kept by the version that has it"
        );
    }

    #[test]
    fn the_layout_is_the_schema_of_kafka() {
        let bytes = value().encode(0);
        let expect: &[u8] = &[
            0, 0, // version
            0, 0, 0, 0, 0, 0, 0x0f, 0xa1, // producer id
            0, 2, // epoch
            0, 0, 0xea, 0x60, // timeout
            1,    // ongoing
            0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, // t-0, t-3
            0, 0, 0, 0, 0, 0, 0, 7, // updated
            0, 0, 0, 0, 0, 0, 0, 6, // begun
        ];
        assert_eq!(&bytes[..], expect);
        let key = TransactionLogKey {
            transactional_id: "id".into(),
        };
        assert_eq!(&key.encode()[..], &[0, 0, 0, 2, b'i', b'd']);
        assert_eq!(TransactionLogKey::decode(&key.encode()), Ok(Some(key)));
        assert_eq!(TransactionLogKey::decode(&[0, 9, 1, 2]), Ok(None));
    }

    #[test]
    fn an_unknown_version_is_named() {
        let found = TransactionLogValue::decode(&[0, 2, 0]);
        assert_eq!(found, Err(DecodeError::Version { key: 0, version: 2 }));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = TransactionLogValue::decode(&bytes);
            let _ = TransactionLogKey::decode(&bytes);
        }
    }
}
