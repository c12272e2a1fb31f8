//! The bytes in each log directory of a broker, by `DescribeLogDirs`: shows over the wire how much
//! data is on which tier.

use std::path::Path;

use wire::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};

use super::client::Client;
use super::security::Security;

/// A connection for the requests.
#[derive(Debug)]
pub struct LogDirs {
    client: Client,
    version: i16,
}

impl LogDirs {
    /// Connects to a broker (`host:port`).
    pub async fn connect(bootstrap: &str, security: &Security) -> anyhow::Result<Self> {
        let client = Client::connect_any(bootstrap, security).await?;
        let version = client.version::<DescribeLogDirsRequest>(4)?;
        Ok(Self { client, version })
    }

    /// Returns the bytes of all partitions under each of these directories.
    pub async fn bytes(&mut self, dirs: &[&Path]) -> anyhow::Result<Vec<u64>> {
        let all = DescribeLogDirsRequest::default().with_topics(None);
        let answer = self.client.ask(self.version, &all).await?;
        Ok(under(&answer, dirs))
    }
}

fn under(answer: &DescribeLogDirsResponse, dirs: &[&Path]) -> Vec<u64> {
    let mut bytes = vec![0; dirs.len()];
    for result in &answer.results {
        let at = Path::new(result.log_dir.as_str());
        let Some(index) = dirs.iter().position(|dir| at.starts_with(dir)) else {
            continue;
        };
        let partitions = result.topics.iter().flat_map(|topic| &topic.partitions);
        let sizes = partitions.filter_map(|it| u64::try_from(it.partition_size).ok());
        bytes[index] += sizes.sum::<u64>();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use wire::StrBytes;
    use wire::messages::describe_log_dirs_response::{
        DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
    };

    use super::*;

    #[test]
    fn bytes_count_for_the_tier_whose_directory_they_are_in() {
        let result = |dir: &str, sizes: &[i64]| {
            let partitions = sizes
                .iter()
                .map(|size| DescribeLogDirsPartition::default().with_partition_size(*size));
            let topic = DescribeLogDirsTopic::default().with_partitions(partitions.collect());
            DescribeLogDirsResult::default()
                .with_log_dir(StrBytes::from_string(dir.to_owned()))
                .with_topics(vec![topic])
        };
        let answer = DescribeLogDirsResponse::default().with_results(vec![
            result("/fast/a", &[10, 5, -1]),
            result("/fast/b", &[1]),
            result("/fastest", &[100]),
            result("/bulk", &[7]),
        ]);
        let dirs = [Path::new("/fast"), Path::new("/bulk"), Path::new("/none")];
        assert_eq!(under(&answer, &dirs), [16, 7, 0]);
    }
}
