//! Control records of the metadata log and of its snapshots.
//!
//! The key is `int16 0 | int16 type`. The value is the schema at version 0 without a version
//! prefix; its first field repeats the version. Transaction markers of data partitions are in
//! `batch`, not here.

use bytes::Bytes;
use uuid::Uuid;

use super::schema::schema;
use super::{DecodeError, Field, Form, Reader};

schema! {
    /// A leader begins its epoch.
    LeaderChange, versions 0..=1, flexible 0.. {
        /// Schema version of this record.
        version: i16 = 0, in 0..=1;
        /// The leader.
        leader_id: i32 = 0, in 0..=1;
        /// The quorum.
        voters: Vec<LeaderChangeVoter> = Vec::new(), in 0..=1;
        /// The voters that voted for the leader.
        granting_voters: Vec<LeaderChangeVoter> = Vec::new(), in 0..=1;
    }

    /// A voter, identified by its node.
    LeaderChangeVoter, versions 0..=1, flexible 0.. {
        /// The node.
        voter_id: i32 = 0, in 0..=1;
        /// Its metadata log directory.
        voter_directory_id: Uuid = Uuid::nil(), in 1..=1;
    }

    /// First record of a snapshot.
    SnapshotHeader, versions 0..=0, flexible 0.. {
        /// Schema version of this record.
        version: i16 = 0, in 0..=0;
        /// Append time of the last record that the snapshot contains.
        last_contained_log_timestamp: i64 = 0, in 0..=0;
    }

    /// The last record of a snapshot; a snapshot without it is incomplete.
    SnapshotFooter, versions 0..=0, flexible 0.. {
        /// Schema version of this record.
        version: i16 = 0, in 0..=0;
    }

    /// The level of the Raft protocol.
    KRaftVersion, versions 0..=0, flexible 0.. {
        /// Schema version of this record.
        version: i16 = 0, in 0..=0;
        /// 0: static voters; 1: voters in the log.
        kraft_version: i16 = 0, in 0..=0;
    }

    /// The voters, when the log defines them.
    Voters, versions 0..=0, flexible 0.. {
        /// Schema version of this record.
        version: i16 = 0, in 0..=0;
        /// The voters.
        voters: Vec<Voter> = Vec::new(), in 0..=0;
    }

    /// One voter.
    Voter, versions 0..=0, flexible 0.. {
        /// The node.
        voter_id: i32 = 0, in 0..=0;
        /// Its metadata log directory.
        voter_directory_id: Uuid = Uuid::nil(), in 0..=0;
        /// The endpoints where it listens.
        endpoints: Vec<VoterEndpoint> = Vec::new(), in 0..=0;
        /// Levels of the Raft protocol that it supports.
        kraft_version_feature: VersionRange = VersionRange::default(), in 0..=0;
    }

    /// One listener of a voter.
    VoterEndpoint, versions 0..=0, flexible 0.. {
        /// Listener name.
        name: String = String::new(), in 0..=0;
        /// Host.
        host: String = String::new(), in 0..=0;
        /// Port.
        port: u16 = 0, in 0..=0;
    }

    /// A range of levels.
    VersionRange, versions 0..=0, flexible 0.. {
        /// Lowest.
        min_supported_version: i16 = 0, in 0..=0;
        /// Highest.
        max_supported_version: i16 = 0, in 0..=0;
    }
}

/// A control record.
#[derive(Clone, PartialEq, Debug)]
pub enum ControlRecord {
    /// A leader begins its epoch.
    LeaderChange(LeaderChange),
    /// First record of a snapshot.
    SnapshotHeader(SnapshotHeader),
    /// Last record of a snapshot.
    SnapshotFooter(SnapshotFooter),
    /// Level of the Raft protocol.
    KRaftVersion(KRaftVersion),
    /// The voters.
    Voters(Voters),
    /// Any other type, which has no meaning in the metadata log.
    Other(i16),
}

const PLAIN: Form = Form {
    version: 0,
    flexible: true,
};

impl ControlRecord {
    /// Returns the type code of the key.
    pub const fn type_code(&self) -> i16 {
        match self {
            Self::LeaderChange(_) => 2,
            Self::SnapshotHeader(_) => 3,
            Self::SnapshotFooter(_) => 4,
            Self::KRaftVersion(_) => 5,
            Self::Voters(_) => 6,
            Self::Other(code) => *code,
        }
    }

    /// Returns the key and the value.
    pub fn encode(&self) -> (Bytes, Bytes) {
        let [high, low] = self.type_code().to_be_bytes();
        let mut value = Vec::with_capacity(32);
        match self {
            Self::LeaderChange(record) => record.write(&mut value, PLAIN),
            Self::SnapshotHeader(record) => record.write(&mut value, PLAIN),
            Self::SnapshotFooter(record) => record.write(&mut value, PLAIN),
            Self::KRaftVersion(record) => record.write(&mut value, PLAIN),
            Self::Voters(record) => record.write(&mut value, PLAIN),
            Self::Other(_) => {}
        }
        (Bytes::copy_from_slice(&[0, 0, high, low]), value.into())
    }

    /// Reads the key and the value of a record in a control batch.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Self, DecodeError> {
        let mut key = Reader::new(key);
        let (_, code) = (i16::read(&mut key, PLAIN)?, i16::read(&mut key, PLAIN)?);
        let mut input = Reader::new(value);
        let record = match code {
            2 => Self::LeaderChange(Field::read(&mut input, PLAIN)?),
            3 => Self::SnapshotHeader(Field::read(&mut input, PLAIN)?),
            4 => Self::SnapshotFooter(Field::read(&mut input, PLAIN)?),
            5 => Self::KRaftVersion(Field::read(&mut input, PLAIN)?),
            6 => Self::Voters(Field::read(&mut input, PLAIN)?),
            code => return Ok(Self::Other(code)),
        };
        input.finish()?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &[u8], value: &[u8], record: &ControlRecord) {
        assert_eq!(ControlRecord::decode(key, value).as_ref(), Ok(record));
        assert_eq!(
            record.encode(),
            (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value))
        );
    }

    #[test]
    fn control_records_are_those_of_kafka() {
        let node = LeaderChangeVoter {
            voter_id: 1,
            ..LeaderChangeVoter::default()
        };
        check(
            &[0, 0, 0, 2],
            &[0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 1, 0, 0],
            &ControlRecord::LeaderChange(LeaderChange {
                leader_id: 1,
                voters: vec![node.clone()],
                granting_voters: vec![node],
                ..LeaderChange::default()
            }),
        );
        check(
            &[0, 0, 0, 3],
            &[0; 11],
            &ControlRecord::SnapshotHeader(SnapshotHeader::default()),
        );
        check(
            &[0, 0, 0, 4],
            &[0; 3],
            &ControlRecord::SnapshotFooter(SnapshotFooter::default()),
        );
    }

    #[test]
    fn voters_round_trip() {
        let record = ControlRecord::Voters(Voters {
            version: 0,
            voters: vec![Voter {
                voter_id: 3000,
                voter_directory_id: Uuid::from_u128(7),
                endpoints: vec![VoterEndpoint {
                    name: "CONTROLLER".into(),
                    host: "localhost".into(),
                    port: 9093,
                }],
                kraft_version_feature: VersionRange {
                    min_supported_version: 0,
                    max_supported_version: 1,
                },
            }],
        });
        let (key, value) = record.encode();
        assert_eq!(ControlRecord::decode(&key, &value), Ok(record));
    }
}
