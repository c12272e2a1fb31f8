//! Creates, grows and deletes topics; also creates topics without a description, which clients ask
//! for by name or the broker itself needs.
//!
//! Invariant: one request for missing topics creates no more partitions than one creation may ask
//! for. Internal topics, which have as many partitions as the settings say, do not count.

use std::collections::BTreeMap;

use wire::records::metadata::{MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicRecord};
use wire::types::{ErrorCode, TopicId, Uuid};

use crate::image::{ResourceType, TopicImage};
use crate::names::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC, is_internal};
use crate::rests::{DECISION, Rests};

use super::bounds::check_settings;
use super::configs::{Change, change_settings, check_texts};
use super::placement::{active, check_manual, new_partition, place};
use super::topic_name::{self, MetricNames};
use super::{RECORDS_PER_REQUEST_MAX, Refusal, Rules, too_large};

/// A topic to create.
pub(crate) struct NewTopic<'a> {
    pub(crate) name: &'a str,
    /// -1 for the default, or if there is an assignment.
    pub(crate) partitions: i32,
    /// -1 for the default, or if there is an assignment.
    pub(crate) replication_factor: i16,
    /// Partition index and its brokers, when the user chose them.
    pub(crate) assignment: Vec<(i32, Vec<i32>)>,
    pub(crate) settings: Vec<(&'a str, Option<&'a str>)>,
}

/// A topic that passed all checks.
#[derive(Debug, PartialEq)]
pub(crate) struct CheckedTopic {
    pub(crate) id: Uuid,
    pub(crate) partitions: i32,
    pub(crate) replication_factor: i16,
    // Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) records: Vec<MetadataRecord>,
}

/// Replicas and in-sync replicas of each partition.
type ReplicaAssignments = Vec<(Vec<i32>, Vec<i32>)>;

impl Rules<'_> {
    /// Decides on one new topic; `names` holds the existing ones.
    pub(crate) fn create_topic(
        &self,
        topic: &NewTopic<'_>,
        names: &MetricNames<'_>,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<CheckedTopic, Refusal> {
        self.check_new_name(topic.name, names)?;
        let settings = self.new_settings(topic)?;
        let assigned = self.assign(topic)?;
        let id = super::topic_id(random);
        let factor = assigned.first().map_or(0, |(replicas, _)| replicas.len());
        let name = topic.name.to_owned();
        let mut records: Vec<MetadataRecord> = vec![TopicRecord { name, topic_id: id }.into()];
        let changes = settings.iter().map(|(name, value)| Change {
            name: name.clone(),
            value: Some(value.clone()),
        });
        records.extend(change_settings(
            self.image,
            ResourceType::TOPIC,
            topic.name,
            changes,
        ));
        let partitions = (0..).zip(assigned).map(|(index, (replicas, isr))| {
            MetadataRecord::from(new_partition(self.image, id, index, replicas, isr))
        });
        let before = records.len();
        records.extend(partitions);
        Ok(CheckedTopic {
            id,
            partitions: i32::try_from(records.len() - before).unwrap_or(i32::MAX),
            replication_factor: i16::try_from(factor).unwrap_or(i16::MAX),
            settings,
            records,
        })
    }

    fn check_new_name(&self, name: &str, names: &MetricNames<'_>) -> Result<(), Refusal> {
        let invalid =
            |message: String| Err(Refusal::new(ErrorCode::InvalidTopicException, message));
        if self.image.topic_by_name(name).is_some() {
            return Err(Refusal::new(
                ErrorCode::TopicAlreadyExists,
                format!("Topic '{name}' already exists."),
            ));
        }
        if let Some(other) = names.colliding(name) {
            return invalid(format!(
                "Topic '{name}' collides with existing topic: {other}"
            ));
        }
        topic_name::invalid(name).map_or(Ok(()), invalid)
    }

    fn new_settings(&self, topic: &NewTopic<'_>) -> Result<BTreeMap<String, String>, Refusal> {
        let refuse = |message: String| Err(Refusal::new(ErrorCode::InvalidConfig, message));
        for (name, value) in &topic.settings {
            check_texts(name, *value)?;
        }
        let nulls = topic.settings.iter().filter(|(_, value)| value.is_none());
        let nulls: Vec<_> = nulls.map(|(name, _)| *name).collect();
        if !nulls.is_empty() {
            return refuse(format!(
                "Null value not supported for topic configs: {}",
                nulls.join(",")
            ));
        }
        let text =
            |(name, value): &(&str, Option<&str>)| Some(((*name).to_owned(), (*value)?.to_owned()));
        let settings: BTreeMap<_, _> = topic.settings.iter().filter_map(text).collect();
        if !settings.is_empty() {
            check_settings(self.image, false, settings.iter())?;
        }
        match crate::topic_config::validate(&settings, self.image, self.options) {
            Ok(()) => Ok(settings),
            Err(error) => refuse(error.0),
        }
    }

    /// Returns the replicas and in-sync replicas of each partition.
    fn assign(&self, topic: &NewTopic<'_>) -> Result<ReplicaAssignments, Refusal> {
        if !topic.assignment.is_empty() {
            return self.assign_manually(topic);
        }
        if topic.replication_factor < -1 || topic.replication_factor == 0 {
            return Err(Refusal::new(
                ErrorCode::InvalidReplicationFactor,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            ));
        }
        if topic.partitions < -1 || topic.partitions == 0 {
            return Err(Refusal::new(
                ErrorCode::InvalidPartitions,
                "Number of partitions was set to an invalid non-positive value.",
            ));
        }
        let count = default_of(topic.partitions, -1, self.options.num_partitions);
        let factor = default_of(
            topic.replication_factor,
            -1,
            self.options.default_replication_factor,
        );
        let placed = place(self.image, 0, count, factor).map_err(|refusal| {
            let reason = refusal.message.unwrap_or_default();
            let message = format!("Unable to replicate the partition {factor} time(s): {reason}");
            Refusal::new(refusal.code, message)
        })?;
        Ok(placed
            .into_iter()
            .map(|replicas| (replicas.clone(), replicas))
            .collect())
    }

    fn assign_manually(&self, topic: &NewTopic<'_>) -> Result<ReplicaAssignments, Refusal> {
        let refuse = |code, message: String| Err(Refusal::new(code, message));
        let unless = "A manual partition assignment was specified, but";
        if topic.replication_factor != -1 {
            let message = format!("{unless} replication factor was not set to -1.");
            return refuse(ErrorCode::InvalidRequest, message);
        }
        if topic.partitions != -1 {
            let message = format!("{unless} numPartitions was not set to -1.");
            return refuse(ErrorCode::InvalidRequest, message);
        }
        let mut assigned = BTreeMap::new();
        let mut factor = None;
        for (index, replicas) in &topic.assignment {
            if assigned.contains_key(index) {
                return refuse(
                    ErrorCode::InvalidReplicaAssignment,
                    format!("Found multiple manual partition assignments for partition {index}"),
                );
            }
            check_manual(self.image, replicas, factor)?;
            factor = Some(replicas.len());
            assigned.insert(*index, (replicas.clone(), self.in_sync(*index, replicas)?));
        }
        if !assigned.keys().copied().eq((0..).take(assigned.len())) {
            return refuse(
                ErrorCode::InvalidReplicaAssignment,
                "partitions should be a consecutive 0-based integer sequence".into(),
            );
        }
        Ok(assigned.into_values().collect())
    }

    fn in_sync(&self, index: i32, replicas: &[i32]) -> Result<Vec<i32>, Refusal> {
        let isr = active(self.image, replicas);
        if isr.is_empty() {
            return Err(Refusal::new(
                ErrorCode::InvalidReplicaAssignment,
                format!(
                    "All brokers specified in the manual partition assignment for partition \
                     {index} are fenced or \
                     in controlled shutdown."
                ),
            ));
        }
        Ok(isr)
    }

    /// Decides on more partitions for a topic.
    pub(crate) fn grow_topic(
        &self,
        name: &str,
        count: i32,
        assignment: Option<Vec<Vec<i32>>>,
    ) -> Result<Vec<PartitionRecord>, Refusal> {
        let Some(topic) = self.image.topic_by_name(name) else {
            return Err(ErrorCode::UnknownTopicOrPartition.into());
        };
        let existing = topic.partition_count();
        let refuse = |message| Err(Refusal::new(ErrorCode::InvalidPartitions, message));
        if count == existing {
            return refuse(format!("Topic already has {existing} partition(s)."));
        }
        if count < existing {
            return refuse(format!(
                "The topic {name} currently has {existing} partition(s); {count} would not be an \
                 increase."
            ));
        }
        let additional = count - existing;
        let assigned = if let Some(chosen) = assignment {
            self.grow_manually(topic, existing, additional, chosen)?
        } else {
            let factor = topic
                .partitions
                .values()
                .next()
                .map_or(1, |p| p.replicas.len());
            let factor = i16::try_from(factor).unwrap_or(i16::MAX);
            let placed = place(self.image, existing, additional, factor)?;
            placed
                .into_iter()
                .map(|replicas| (replicas.clone(), replicas))
                .collect()
        };
        let record =
            |(index, (replicas, isr))| new_partition(self.image, topic.id.0, index, replicas, isr);
        Ok((existing..).zip(assigned).map(record).collect())
    }

    fn grow_manually(
        &self,
        topic: &TopicImage,
        existing: i32,
        additional: i32,
        chosen: Vec<Vec<i32>>,
    ) -> Result<ReplicaAssignments, Refusal> {
        if i32::try_from(chosen.len()) != Ok(additional) {
            return Err(Refusal::new(
                ErrorCode::InvalidReplicaAssignment,
                format!(
                    "Attempted to add {additional} additional partition(s), but only {} \
                     assignment(s) were specified.",
                    chosen.len()
                ),
            ));
        }
        let factor = topic
            .partitions
            .values()
            .next()
            .map(|partition| partition.replicas.len());
        let assign = |(index, replicas): (i32, Vec<i32>)| {
            check_manual(self.image, &replicas, factor)?;
            let isr = self.in_sync(index, &replicas)?;
            Ok((replicas, isr))
        };
        (existing..).zip(chosen).map(assign).collect()
    }

    /// Returns the record that deletes an existing topic.
    pub(crate) fn delete_topic(id: TopicId) -> RemoveTopicRecord {
        RemoveTopicRecord { topic_id: id.0 }
    }
}

/// Returns the records of topics that are missing, and the refusals of those that cannot be
/// created.
pub(crate) async fn create_all_missing<'a>(
    rules: Rules<'_>,
    names: &'a [String],
    random: &mut dyn FnMut() -> u64,
) -> (Vec<MetadataRecord>, Vec<(&'a str, Refusal)>) {
    let (mut records, mut refused) = (Vec::new(), Vec::new());
    let mut rests = Rests::new();
    let taken = MetricNames::of(rules.image);
    let weight = partitions_of_each(rules);
    let mut room = RECORDS_PER_REQUEST_MAX;
    for name in names {
        let is_internal = is_internal(name);
        if !is_internal && weight > room && rules.image.topic_by_name(name).is_none() {
            refused.push((name.as_str(), too_large()));
            rests.item().await;
            continue;
        }
        let made = match create_missing(rules, name, &taken, random) {
            Ok(more) => {
                let made = more.len();
                records.extend(more);
                made
            }
            Err(refusal) => {
                refused.push((name, refusal));
                0
            }
        };
        if made > 0 && !is_internal {
            room = room.saturating_sub(weight);
        }
        rests.items(DECISION.max(made)).await;
    }
    (records, refused)
}

/// Returns the partition count of a topic without a description.
pub(crate) fn partitions_of_each(rules: Rules<'_>) -> usize {
    // A count of 0 is refused later, which is work too.
    usize::try_from(rules.options.num_partitions).map_or(1, |partitions| partitions.max(1))
}

/// Returns the records of a topic without a description; empty if it exists.
///
/// An internal topic gets the settings that Kafka gives it, any other the defaults.
fn create_missing(
    rules: Rules<'_>,
    name: &str,
    names: &MetricNames<'_>,
    random: &mut dyn FnMut() -> u64,
) -> Result<Vec<MetadataRecord>, Refusal> {
    if rules.image.topic_by_name(name).is_some() {
        return Ok(Vec::new());
    }
    let segment_bytes = rules.options.group.offsets_segment_bytes.to_string();
    let transaction = &rules.options.transaction;
    let transaction_segment_bytes = transaction.segment_bytes.to_string();
    let (partitions, settings) = if name == TRANSACTIONS_TOPIC {
        let settings = vec![
            ("compression.type", Some("uncompressed")),
            ("cleanup.policy", Some("compact")),
            ("segment.bytes", Some(transaction_segment_bytes.as_str())),
            ("unclean.leader.election.enable", Some("false")),
        ];
        (transaction.partitions, settings)
    } else if name == OFFSETS_TOPIC {
        let settings = vec![
            ("compression.type", Some("producer")),
            ("cleanup.policy", Some("compact")),
            ("segment.bytes", Some(segment_bytes.as_str())),
        ];
        (rules.options.group.offsets_partitions, settings)
    } else if is_internal(name) {
        return Err(ErrorCode::InvalidTopicException.into());
    } else {
        (-1, Vec::new())
    };
    let topic = NewTopic {
        name,
        partitions,
        replication_factor: -1,
        assignment: Vec::new(),
        settings,
    };
    Ok(rules.create_topic(&topic, names, random)?.records)
}

fn default_of<T: PartialEq + Copy>(value: T, unset: T, default: T) -> T {
    if value == unset { default } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{options, random, started};
    use crate::rests::PIECE;
    use crate::rests::tests::rested;

    #[test]
    fn of_many_names_no_more_partitions_are_made_than_a_creation_may_ask_for() {
        let (image, mut options) = (started(), options());
        options.num_partitions = 50;
        let rules = Rules {
            image: &image,
            options: &options,
        };
        let mut names: Vec<String> = (0..10_000).map(|number| format!("t{number}")).collect();
        names.push(OFFSETS_TOPIC.to_owned());
        let (rests, (records, refused)) = rested(create_all_missing(rules, &names, &mut random()));
        let own = usize::try_from(options.group.offsets_partitions).unwrap();
        let is_partition =
            |record: &&MetadataRecord| matches!(record, MetadataRecord::Partition(_));
        let partitions = records.iter().filter(is_partition).count();
        assert_eq!(partitions, RECORDS_PER_REQUEST_MAX + own);
        assert_eq!(refused.len(), 10_000 - RECORDS_PER_REQUEST_MAX / 50);
        let policy = ErrorCode::PolicyViolation;
        assert!(refused.iter().all(|(_, refusal)| refusal.code == policy));
        assert!(rests >= partitions / PIECE, "{rests} rests");
    }
}
