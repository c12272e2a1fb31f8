//! `-p PARTITION,..`: only some partitions of a topic.
//!
//! A partition that the topic does not have is an error.

use anyhow::bail;
use wire::messages::metadata_response::MetadataResponseTopic;

/// Leaves only these partitions in the metadata of a topic; all of them, if there are none here.
pub(super) fn keep(topic: &mut MetadataResponseTopic, wanted: &[i32]) -> anyhow::Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    for index in wanted {
        let mut there = topic.partitions.iter();
        if !there.any(|one| one.partition_index == *index) {
            let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
            bail!("topic {name} has no partition {index}");
        }
    }
    let partitions = &mut topic.partitions;
    partitions.retain(|one| wanted.contains(&one.partition_index));
    Ok(())
}

#[cfg(test)]
mod tests {
    use wire::messages::TopicName;
    use wire::messages::metadata_response::MetadataResponsePartition;

    use super::*;
    use crate::ask::text;

    fn kept(wanted: &[i32]) -> Result<Vec<i32>, String> {
        let partition = MetadataResponsePartition::default;
        let partition = |index: i32| partition().with_partition_index(index);
        let mut topic = MetadataResponseTopic::default()
            .with_name(Some(TopicName(text("cars"))))
            .with_partitions([2, 0, 1].map(partition).to_vec());
        keep(&mut topic, wanted).map_err(|error| error.to_string())?;
        let partitions = topic.partitions.iter();
        Ok(partitions.map(|one| one.partition_index).collect())
    }

    #[test]
    fn partitions_that_there_are_can_be_chosen() {
        assert_eq!(kept(&[]), Ok(vec![2, 0, 1]));
        assert_eq!(kept(&[1, 2, 1]), Ok(vec![2, 1]));
        let missing = Err("topic cars has no partition 3".to_owned());
        assert_eq!(kept(&[0, 3]), missing);
    }
}
