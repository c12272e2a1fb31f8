//! Metadata records: the records of `__cluster_metadata` other than control records.
//!
//! Framing: `uvarint 1 | uvarint key | uvarint version | body`. The body always has the compact
//! form, and nothing may follow it. The cluster's `metadata.version` ([`MetadataVersion`])
//! determines which version is written. Records of functions that the broker does not serve
//! (tokens) are [`MetadataRecord::Opaque`]: their key is known and their body is kept as bytes, so
//! the log of a Kafka cluster survives a takeover. Any other key is an error, because the broker
//! must not continue a log that it does not fully understand.

mod schemas;

use bytes::Bytes;

pub use schemas::*;

use super::schema::ascend;
use super::{DecodeError, Field, Form, Reader, write_unsigned_varint};

const FRAME_VERSION: u32 = 1;
/// Keys of the records that are kept without being decoded; version 0 is the only known version of
/// each.
const OPAQUE: [i16; 3] = [10, 21, 26];

/// The level of the feature `metadata.version`: which records, and which versions of them, a
/// cluster writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MetadataVersion(pub i16);

impl MetadataVersion {
    /// Name of the feature.
    pub const FEATURE: &str = "metadata.version";
    /// Kafka 3.3, the first release without `ZooKeeper`; the lowest level that Kafka 4 accepts.
    pub const V3_3: Self = Self(7);
    /// Brokers announce their log directories, and partitions name theirs.
    pub const V3_7_DIRECTORIES: Self = Self(17);
    /// Group protocols are a separate feature.
    pub const V4_0_GROUPS: Self = Self(22);
    /// Eligible leader replicas.
    pub const V4_0_ELR: Self = Self(23);
    /// Kafka 4.3.
    pub const V4_3: Self = Self(30);
}

macro_rules! records {
    ($(
        $(#[$meta:meta])*
        $variant:ident($record:ident) = $key:literal, written $written:expr;
    )*) => {
        /// One record of the metadata log.
        #[derive(Clone, PartialEq, Debug)]
        pub enum MetadataRecord {
            $($(#[$meta])* $variant($record),)*
            /// A record that is kept without being decoded.
            Opaque(OpaqueRecord),
        }

        $(impl From<$record> for MetadataRecord {
            fn from(record: $record) -> Self {
                Self::$variant(record)
            }
        })*

        const _: () = {
            const KEYS: &[i16] = &[$($key),*];
            assert!(ascend(KEYS), "the table is in the order of the keys");
            assert!(ascend(&OPAQUE), "the table is in the order of the keys");
            let mut keys = KEYS;
            while let [key, rest @ ..] = keys {
                let mut opaque: &[i16] = &OPAQUE;
                while let [other, others @ ..] = opaque {
                    assert!(*key != *other, "what is understood is not kept as bytes");
                    opaque = others;
                }
                keys = rest;
            }
        };

        impl MetadataRecord {
            /// Returns the record's key.
            pub const fn key(&self) -> i16 {
                match self {
                    $(Self::$variant(_) => $key,)*
                    Self::Opaque(opaque) => opaque.key,
                }
            }

            /// Returns the version in which a cluster at `level` writes the record.
            pub fn version(&self, level: MetadataVersion) -> i16 {
                match self {
                    $(Self::$variant(_) => {
                        let written: fn(MetadataVersion) -> i16 = $written;
                        written(level)
                    })*
                    Self::Opaque(opaque) => opaque.version,
                }
            }

            fn write_body(&self, out: &mut Vec<u8>, form: Form) {
                match self {
                    $(Self::$variant(record) => record.write(out, form),)*
                    Self::Opaque(opaque) => out.extend_from_slice(&opaque.body),
                }
            }

            fn read_body(
                key: i16,
                version: i16,
                input: &mut Reader<'_>,
            ) -> Result<Self, DecodeError> {
                match key {
                    $($key if $record::VERSIONS.contains(&version) => {
                        Ok(Self::$variant($record::read(input, $record::form(version))?))
                    })*
                    key if OPAQUE.contains(&key) && version == 0 => {
                        let body = Bytes::copy_from_slice(input.take(input.remaining())?);
                        Ok(Self::Opaque(OpaqueRecord { key, version, body }))
                    }
                    $($key)|* => Err(DecodeError::Version { key, version }),
                    key if OPAQUE.contains(&key) => Err(DecodeError::Version { key, version }),
                    key => Err(DecodeError::Key(key)),
                }
            }
        }
    };
}

records! {
    /// A broker started: a new incarnation.
    RegisterBroker(RegisterBrokerRecord) = 0, written register_broker_version;
    /// A broker was removed permanently.
    UnregisterBroker(UnregisterBrokerRecord) = 1, written |_| 0;
    /// A topic was created.
    Topic(TopicRecord) = 2, written |_| 0;
    /// A partition was created, or is described in a snapshot.
    Partition(PartitionRecord) = 3, written partition_version;
    /// A setting was set or removed.
    Config(ConfigRecord) = 4, written |_| 0;
    /// The state of a partition changed.
    PartitionChange(PartitionChangeRecord) = 5, written partition_version;
    /// A broker lost its session (logs before 3.3).
    FenceBroker(FenceBrokerRecord) = 7, written |_| 0;
    /// A broker began to serve (logs before 3.3).
    UnfenceBroker(UnfenceBrokerRecord) = 8, written |_| 0;
    /// A topic was deleted.
    RemoveTopic(RemoveTopicRecord) = 9, written |_| 0;
    /// A user's SCRAM credential was set.
    UserScramCredential(UserScramCredentialRecord) = 11, written |_| 0;
    /// A feature's level was finalized.
    FeatureLevel(FeatureLevelRecord) = 12, written |_| 0;
    /// A client quota was set or removed.
    ClientQuota(ClientQuotaRecord) = 14, written |_| 0;
    /// A block of producer ids was allocated.
    ProducerIds(ProducerIdsRecord) = 15, written |_| 0;
    /// A broker's registration changed.
    BrokerRegistrationChange(BrokerRegistrationChangeRecord) = 17, written change_version;
    /// An ACL was added.
    AccessControlEntry(AccessControlEntryRecord) = 18, written |_| 0;
    /// An ACL was removed.
    RemoveAccessControlEntry(RemoveAccessControlEntryRecord) = 19, written |_| 0;
    /// No change; controllers write it so that the log advances.
    NoOp(NoOpRecord) = 20, written |_| 0;
    /// A user's SCRAM credential was removed.
    RemoveUserScramCredential(RemoveUserScramCredentialRecord) = 22, written |_| 0;
    /// A metadata transaction begins.
    BeginTransaction(BeginTransactionRecord) = 23, written |_| 0;
    /// A metadata transaction takes effect.
    EndTransaction(EndTransactionRecord) = 24, written |_| 0;
    /// A metadata transaction is undone.
    AbortTransaction(AbortTransactionRecord) = 25, written |_| 0;
    /// A controller started.
    RegisterController(RegisterControllerRecord) = 27, written |_| 0;
    /// The eligible leader replicas of one topic, or of all topics, were cleared.
    ClearElr(ClearElrRecord) = 28, written |_| 0;
}

/// A record whose meaning is not known here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpaqueRecord {
    /// Record key.
    pub key: i16,
    /// Schema version.
    pub version: i16,
    /// Everything after the frame.
    pub body: Bytes,
}

impl MetadataRecord {
    /// Returns the value of the log record, as a cluster at `level` writes it.
    pub fn encode(&self, level: MetadataVersion) -> Bytes {
        let version = self.version(level);
        let mut out = Vec::with_capacity(64);
        write_unsigned_varint(&mut out, FRAME_VERSION);
        for number in [self.key(), version] {
            let number = u32::try_from(number).expect("keys and versions are not negative");
            write_unsigned_varint(&mut out, number);
        }
        self.write_body(
            &mut out,
            Form {
                version,
                flexible: true,
            },
        );
        out.into()
    }

    /// Reads the value of a log record.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        match input.unsigned_varint()? {
            FRAME_VERSION => {}
            other => return Err(DecodeError::Frame(other)),
        }
        let mut number =
            || i16::try_from(input.unsigned_varint()?).map_err(|_| DecodeError::Varint);
        let (key, version) = (number()?, number()?);
        let record = Self::read_body(key, version, &mut input)?;
        input.finish()?;
        Ok(record)
    }
}

fn register_broker_version(level: MetadataVersion) -> i16 {
    match level {
        MetadataVersion(30..) => 4,
        MetadataVersion(17..) => 3,
        MetadataVersion(8..) => 2,
        _ => 1,
    }
}

fn partition_version(level: MetadataVersion) -> i16 {
    match level {
        MetadataVersion(23..) => 2,
        MetadataVersion(17..) => 1,
        _ => 0,
    }
}

fn change_version(level: MetadataVersion) -> i16 {
    match level {
        MetadataVersion(30..) => 3,
        MetadataVersion(17..) => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
