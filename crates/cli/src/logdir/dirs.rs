//! The log directories of a broker, as it describes them (`DescribeLogDirs`).
//!
//! Sizes are in bytes. A directory that failed has an error; Kafka tells no partitions of it, our
//! broker does.

use anyhow::{Context as _, ensure};
use serde::Serialize;
use wire::messages::describe_log_dirs_response::DescribeLogDirsResult;
use wire::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};

use crate::ask::{Cluster, check};

/// A log directory, or a broker that did not tell any.
#[derive(Debug, Serialize)]
pub(crate) struct LogDir {
    pub(crate) broker: i32,
    /// `None` if the broker did not tell any.
    pub(crate) dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Of the file system; `None` if the broker is too old to tell.
    pub(super) total_bytes: Option<i64>,
    /// What is free of it.
    pub(super) usable_bytes: Option<i64>,
    pub(super) partitions: Vec<Replica>,
}

/// A partition's log in a directory.
#[derive(PartialEq, Eq, Debug, Serialize)]
pub(super) struct Replica {
    pub(super) topic: String,
    #[serde(rename = "partition")]
    pub(super) index: i32,
    pub(super) size_bytes: i64,
    /// Offsets that this log lacks: behind the high watermark, or, for a log that moves, behind the
    /// other one.
    pub(super) offset_lag: i64,
    /// Whether the log moves to this directory.
    pub(super) is_future: bool,
}

/// Returns the log directories of a broker.
pub(crate) fn of_broker(cluster: &mut Cluster, id: i32) -> anyhow::Result<Vec<LogDir>> {
    let request = DescribeLogDirsRequest::default().with_topics(None);
    let answer = cluster.broker(id)?.ask_newest(&request)?;
    answered(id, answer).with_context(|| format!("log directories of broker {id}"))
}

fn answered(id: i32, answer: DescribeLogDirsResponse) -> anyhow::Result<Vec<LogDir>> {
    check(answer.error_code, None)?;
    // Every broker has one. Versions without an error code tell none to who may not see them.
    ensure!(!answer.results.is_empty(), "none in the answer");
    let mut dirs: Vec<_> = answer
        .results
        .into_iter()
        .map(|result| LogDir::of(id, result))
        .collect();
    dirs.sort_by(|one, other| one.dir.cmp(&other.dir));
    Ok(dirs)
}

impl LogDir {
    fn of(broker: i32, result: DescribeLogDirsResult) -> Self {
        let refused = check(result.error_code, None).err();
        let mut partitions = Vec::new();
        for topic in result.topics {
            let replicas = topic.partitions.iter().map(|one| Replica {
                topic: topic.name.0.to_string(),
                index: one.partition_index,
                size_bytes: one.partition_size,
                offset_lag: one.offset_lag,
                is_future: one.is_future_key,
            });
            partitions.extend(replicas);
        }
        partitions.sort_by(|one, other| {
            let key = |one: &Replica| (one.index, one.is_future);
            (&one.topic, key(one)).cmp(&(&other.topic, key(other)))
        });
        let known = |bytes: i64| (bytes >= 0).then_some(bytes);
        Self {
            broker,
            dir: Some(result.log_dir.to_string()),
            error: refused.map(|refusal| refusal.to_string()),
            total_bytes: known(result.total_bytes),
            usable_bytes: known(result.usable_bytes),
            partitions,
        }
    }

    /// Makes what is known of a broker that did not tell its directories.
    pub(super) fn unknown(broker: i32, error: &anyhow::Error) -> Self {
        Self {
            broker,
            dir: None,
            error: Some(format!("{error:#}")),
            total_bytes: None,
            usable_bytes: None,
            partitions: Vec::new(),
        }
    }

    /// Returns the size of all logs in the directory.
    pub(super) fn size_bytes(&self) -> i64 {
        let sizes = self.partitions.iter().map(|one| one.size_bytes);
        sizes.fold(0, i64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use wire::messages::TopicName;
    use wire::messages::describe_log_dirs_response::{
        DescribeLogDirsPartition, DescribeLogDirsTopic,
    };

    use super::*;
    use crate::ask::text;

    #[test]
    fn a_directory_has_the_size_of_its_logs_and_its_error() {
        let log = |index: i32, size: i64| {
            DescribeLogDirsPartition::default()
                .with_partition_index(index)
                .with_partition_size(size)
        };
        let topic = DescribeLogDirsTopic::default()
            .with_name(TopicName(text("cars")))
            .with_partitions(vec![log(1, i64::MAX), log(0, 7)]);
        let whole = DescribeLogDirsResult::default()
            .with_topics(vec![topic])
            .with_total_bytes(100)
            .with_usable_bytes(40);
        let dir = LogDir::of(1, whole);
        assert_eq!(dir.size_bytes(), i64::MAX);
        assert_eq!(dir.partitions.iter().map(|one| one.index).sum::<i32>(), 1);
        assert_eq!(dir.partitions.first().map(|one| one.size_bytes), Some(7));
        assert_eq!((dir.total_bytes, dir.usable_bytes), (Some(100), Some(40)));
        assert_eq!(dir.error, None);

        let failed = DescribeLogDirsResult::default().with_error_code(56);
        let failed = LogDir::of(1, failed);
        assert_eq!(failed.error.as_deref(), Some("KAFKA_STORAGE_ERROR"));
        assert_eq!((failed.total_bytes, failed.usable_bytes), (None, None));
    }

    #[test]
    fn a_broker_without_a_directory_has_not_answered() {
        let answer = DescribeLogDirsResponse::default;
        let none = answered(1, answer()).unwrap_err();
        assert_eq!(none.to_string(), "none in the answer");
        let refused = answered(1, answer().with_error_code(31)).unwrap_err();
        assert_eq!(refused.to_string(), "CLUSTER_AUTHORIZATION_FAILED");
        let dir = |name: &str| DescribeLogDirsResult::default().with_log_dir(text(name));
        let two = answer().with_results(vec![dir("/b"), dir("/a")]);
        let dirs = answered(1, two).unwrap().into_iter();
        let dirs: Vec<_> = dirs.filter_map(|one| one.dir).collect();
        assert_eq!(dirs, ["/a", "/b"]);
    }
}
