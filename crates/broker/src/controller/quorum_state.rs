//! `quorum-state`: the epoch of the metadata log and its leader, in the format of Kafka's Raft
//! client.
//!
//! One JSON object. Version 0 is for voters named in the configuration, version 1 for voters in the
//! log; a file keeps its version. The file is written before the first record of a new epoch, so an
//! epoch is never used twice.

use wire::types::{LeaderEpoch, NodeId};

/// Name of the file in the folder of the metadata log.
pub(crate) const FILE_NAME: &str = "quorum-state";

/// The parts of the file that a single node needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QuorumState {
    /// The epoch.
    pub(crate) epoch: LeaderEpoch,
    /// 1 if the voters are in the log.
    pub(crate) version: i32,
}

impl QuorumState {
    /// The state before the first epoch.
    pub(crate) const NEW: Self = Self {
        epoch: LeaderEpoch(0),
        version: 0,
    };

    /// Reads the file; `None` when it is not such a file.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let version = number(text, "data_version")?;
        if !matches!(version, 0 | 1) {
            return None;
        }
        // Before any election the epoch may be -1. The last possible epoch has no successor, so a
        // file with it is invalid.
        let epoch = number(text, "leaderEpoch")?.max(0);
        if epoch >= i32::MAX - 1 {
            return None;
        }
        let epoch = LeaderEpoch(epoch);
        Some(Self { epoch, version })
    }

    /// Returns the file's bytes, with `node` as leader and only voter.
    pub(crate) fn encode(self, node: NodeId) -> Vec<u8> {
        let (node, epoch) = (node.0, self.epoch.0);
        let text = if self.version == 0 {
            format!(
                "{{\"clusterId\":\"\",\"leaderId\":{node},\"leaderEpoch\":{epoch},\"votedId\":-1,\
                 \"appliedOffset\":0,\"currentVoters\":[{{\"voterId\":{node}}}],\"data_version\":0}}"
            )
        } else {
            format!(
                "{{\"leaderId\":{node},\"leaderEpoch\":{epoch},\"votedId\":-1,\
                 \"votedDirectoryId\":\"AAAAAAAAAAAAAAAAAAAAAA\",\"data_version\":1}}"
            )
        };
        text.into_bytes()
    }
}

/// Returns the value of a number field. The file has no nested field of the same name.
fn number(json: &str, field: &str) -> Option<i32> {
    let quoted = format!("\"{field}\"");
    let (_, after) = json.split_once(quoted.as_str())?;
    let value = after.trim_start().strip_prefix(':')?.trim_start();
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '-')?;
    value.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_that_of_kafka() {
        let kafka = "{\"clusterId\":\"\",\"leaderId\":1,\"leaderEpoch\":3,\"votedId\":-1,\"appliedOffset\":0,\
                     \"currentVoters\":[{\"voterId\":1}],\"data_version\":0}";
        let state = QuorumState {
            epoch: LeaderEpoch(3),
            version: 0,
        };
        assert_eq!(QuorumState::parse(kafka.as_bytes()), Some(state));
        assert_eq!(state.encode(NodeId(1)), kafka.as_bytes());
    }

    #[test]
    fn a_file_with_voters_in_the_log_keeps_its_version() {
        let state = QuorumState {
            epoch: LeaderEpoch(7),
            version: 1,
        };
        assert_eq!(QuorumState::parse(&state.encode(NodeId(3000))), Some(state));
    }

    #[test]
    fn what_is_not_such_a_file_is_refused() {
        for text in [
            "",
            "{}",
            "{\"leaderEpoch\":1,\"data_version\":2}",
            "\"leaderEpoch\":",
            "\u{0}",
            "{\"leaderEpoch\":2147483647,\"data_version\":0}",
        ] {
            assert_eq!(QuorumState::parse(text.as_bytes()), None, "{text}");
        }
    }
}
