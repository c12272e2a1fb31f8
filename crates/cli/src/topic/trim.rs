//! `forebay topic trim`: deletes the records before a position (`DeleteRecords`).
//!
//! Invariant: nothing is deleted without `--execute`, and nothing from the position on. A partition
//! that fails is an error of its row: the others are trimmed.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::metadata_response::MetadataResponseTopic;
use wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse, TopicName};

use super::{partitions, selected};
use crate::ask::{Cluster, EARLIEST, Failure, LATEST, Offsets, PartitionKey, check, text};
use crate::names::Name;
use crate::outcome;
use crate::position::{Bounds, Position};
use crate::show::{Table, or_dash};
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Trim {
    /// Names of the topics, or patterns: 'cars*', '/cars-[0-9]+/'.
    #[arg(required = true)]
    names: Vec<Name>,
    /// The new start; the records before it are deleted: OFFSET, -COUNT (COUNT before the end),
    /// @TIME (milliseconds since 1970 or a date), end (all records).
    #[arg(short, long, allow_hyphen_values = true)]
    offset: Position,
    /// Only these partitions.
    #[arg(short, long, value_delimiter = ',')]
    partitions: Vec<i32>,
    /// Deletes the records; without it the command shows what it would do.
    #[arg(long)]
    execute: bool,
}

/// A partition, its start before the trim and the start after it.
#[derive(PartialEq, Eq, Debug, Serialize)]
struct TrimmedPartition {
    topic: String,
    partition: i32,
    /// An offset is `None` where the error is that it is not known.
    from: Option<i64>,
    to: Option<i64>,
    end: Option<i64>,
    executed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The new start of each partition, or why it has none.
type NewStarts = BTreeMap<PartitionKey, Result<i64, Failure>>;

impl Trim {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let names = selected::some(&mut cluster, &self.names)?.names;
        let mut topics = cluster.topics(&names)?;
        for topic in &mut topics {
            partitions::keep(topic, &self.partitions)?;
        }
        let starts = cluster.offsets(&topics, EARLIEST, 0);
        let ends = cluster.offsets(&topics, LATEST, 0);
        let times = match self.offset {
            Position::At(time) => cluster.offsets(&topics, time, 0),
            _ => Offsets::new(),
        };
        let planned = starts.iter().map(|(place, start)| {
            let end = ends.get(place).unwrap_or(&Err(Failure::LeftOut));
            let to = wanted(self.offset, start, end, times.get(place));
            (TrimmedPartition::planned(place, start, end, &to), to)
        });
        let mut planned: Vec<_> = planned.collect();
        if self.execute {
            let moved = planned.iter().filter_map(|(row, to)| {
                let to = *to.as_ref().ok()?;
                let place = (row.topic.clone(), row.partition);
                (row.from < Some(to)).then_some((place, to))
            });
            let started = delete(&mut cluster, &topics, &moved.collect());
            for (row, _) in &mut planned {
                let started = started.get(&(row.topic.clone(), row.partition));
                if let Some(started) = started {
                    row.became(started);
                }
            }
        }
        let trimmed: Vec<_> = planned.into_iter().map(|(row, _)| row).collect();
        target.format.show(&trimmed, || table(&trimmed))?;
        if !self.execute {
            outcome::say_planned();
        }
        let failed = trimmed.iter().any(|one| one.error.is_some());
        Ok(outcome::exit_code(failed))
    }
}

/// Returns the offset at which a partition is to start.
///
/// A time that is later than the last record would delete everything: it is refused, and so is an
/// offset beyond the end, as by Kafka.
fn wanted(
    position: Position,
    start: &Result<i64, Failure>,
    end: &Result<i64, Failure>,
    by_time: Option<&Result<i64, Failure>>,
) -> Result<i64, Failure> {
    let (start, end) = (start.clone()?, end.clone()?);
    let bounds = Bounds { start, end };
    if start >= end {
        return Ok(start);
    }
    if matches!(position, Position::Offset(offset) if offset > end) {
        let reason = format!("the partition ends at {end}; -o end deletes all");
        return Err(Failure::Unsafe(reason));
    }
    let by_time = by_time.cloned().transpose()?;
    let to = position.within(bounds, by_time);
    to.ok_or_else(|| Failure::Unsafe("no record is as recent; -o end deletes all".to_owned()))
}

/// Asks the leader of each partition to delete what is before the offset.
fn delete(
    cluster: &mut Cluster,
    topics: &[MetadataResponseTopic],
    wanted: &BTreeMap<PartitionKey, i64>,
) -> NewStarts {
    let mut by_leader: BTreeMap<i32, BTreeMap<&str, Vec<DeleteRecordsPartition>>> = BTreeMap::new();
    for topic in topics {
        let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
        for partition in &topic.partitions {
            let index = partition.partition_index;
            if let Some(&offset) = wanted.get(&(name.to_owned(), index)) {
                let start = DeleteRecordsPartition::default()
                    .with_partition_index(index)
                    .with_offset(offset);
                let of_leader = by_leader.entry(partition.leader_id.0).or_default();
                of_leader.entry(name).or_default().push(start);
            }
        }
    }
    let mut started = NewStarts::new();
    for (leader, topics) in by_leader {
        let topics = topics.into_iter().map(|(name, partitions)| {
            DeleteRecordsTopic::default()
                .with_name(TopicName(text(name)))
                .with_partitions(partitions)
        });
        let request = DeleteRecordsRequest::default()
            .with_topics(topics.collect())
            .with_timeout_ms(cluster.within_ms());
        let broker = cluster.broker(leader);
        let answer = broker.and_then(|broker| broker.ask_newest(&request));
        started.extend(answered(&request, answer));
    }
    started
}

/// Returns what a leader answered for each of its partitions, or why it did not.
fn answered(
    request: &DeleteRecordsRequest,
    answer: anyhow::Result<DeleteRecordsResponse>,
) -> NewStarts {
    let places = request.topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|one| (topic.name.0.to_string(), one.partition_index))
    });
    let told = answer.map(|answer| {
        answer.topics.into_iter().flat_map(|topic| {
            let name = topic.name;
            topic.partitions.into_iter().map(move |one| {
                let start = check(one.error_code, None).map(|()| one.low_watermark);
                ((name.0.to_string(), one.partition_index), start)
            })
        })
    });
    crate::ask::each_answer(places, told)
}

fn table(trimmed: &[TrimmedPartition]) -> String {
    let mut table = Table::headed(&["TOPIC", "PARTITION", "START", "NEW-START", "END", "STATUS"]);
    for one in trimmed {
        table.row([
            one.topic.clone(),
            one.partition.to_string(),
            or_dash(one.from),
            or_dash(one.to),
            or_dash(one.end),
            one.status(),
        ]);
    }
    table.render()
}

impl TrimmedPartition {
    fn planned(
        place: &PartitionKey,
        start: &Result<i64, Failure>,
        end: &Result<i64, Failure>,
        to: &Result<i64, Failure>,
    ) -> Self {
        let known = |offset: &Result<i64, Failure>| offset.as_ref().ok().copied();
        Self {
            topic: place.0.clone(),
            partition: place.1,
            from: known(start),
            to: known(to),
            end: known(end),
            executed: false,
            error: to.as_ref().err().map(ToString::to_string),
        }
    }

    /// Takes in the leader's answer.
    fn became(&mut self, started: &Result<i64, Failure>) {
        match started {
            Ok(start) => match self.to.replace(*start) {
                Some(planned) if *start < planned => {
                    self.error = Some(format!("starts at {start}, not at {planned}"));
                }
                _ => self.executed = true,
            },
            Err(failure) => {
                // A leader that is silent, or that waited in vain for the followers, may have
                // deleted the records nevertheless.
                self.to = None;
                self.error = Some(failure.to_string());
            }
        }
    }

    fn status(&self) -> String {
        let offsets = self.to.zip(self.from);
        let count = offsets.map_or(0, |(to, from)| to.saturating_sub(from));
        match &self.error {
            Some(error) => error.clone(),
            None if self.executed => format!("{count} offsets deleted"),
            None if count <= 0 => "nothing to delete".to_owned(),
            None => format!("{count} offsets would be deleted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::messages::delete_records_response::{
        DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
    };
    use wire::types::ErrorCode;

    use super::*;

    #[test]
    fn a_time_after_the_last_record_deletes_nothing() {
        let at = Position::At(1_700_000_000_000);
        let wanted = |end: i64, found: i64| wanted(at, &Ok(3), &Ok(end), Some(&Ok(found)));
        assert_eq!(wanted(9, 5), Ok(5));
        assert!(wanted(9, -1).unwrap_err().to_string().contains("-o end"));
        assert_eq!(wanted(3, -1), Ok(3), "there is nothing to delete");
        let all = super::wanted(Position::End, &Ok(3), &Ok(9), None);
        assert_eq!(all, Ok(9));
        let unknown = super::wanted(at, &Ok(3), &Ok(9), Some(&Err(Failure::LeftOut)));
        assert_eq!(unknown, Err(Failure::LeftOut));
    }

    #[test]
    fn an_offset_beyond_the_end_deletes_nothing() {
        let wanted = |offset: i64, end: i64| {
            let position = Position::Offset(offset);
            wanted(position, &Ok(3), &Ok(end), None)
        };
        assert_eq!(wanted(9, 9), Ok(9));
        let refused = wanted(10, 9).unwrap_err().to_string();
        assert_eq!(refused, "the partition ends at 9; -o end deletes all");
        assert_eq!(wanted(10, 3), Ok(3), "there is nothing to delete");
        assert_eq!(wanted(1, 9), Ok(3), "it is deleted already");
    }

    #[test]
    fn a_row_tells_only_what_the_leader_is_known_to_have_done() {
        let place = ("cars".to_owned(), 0);
        let became = |started: Result<i64, Failure>| {
            let mut row = TrimmedPartition::planned(&place, &Ok(0), &Ok(9), &Ok(4));
            row.became(&started);
            (row.to, row.executed, row.status())
        };
        assert_eq!(became(Ok(4)), (Some(4), true, "4 offsets deleted".into()));
        let further = (Some(6), true, "6 offsets deleted".into());
        assert_eq!(became(Ok(6)), further);
        let less = (Some(2), false, "starts at 2, not at 4".into());
        assert_eq!(became(Ok(2)), less);
        // The followers do not follow in time: the leader has deleted the records.
        let late = ErrorCode::RequestTimedOut.into();
        assert_eq!(became(Err(late)), (None, false, "REQUEST_TIMED_OUT".into()));
    }

    #[test]
    fn a_leader_that_fails_is_the_error_of_its_partitions() {
        let start = |index: i32| DeleteRecordsPartition::default().with_partition_index(index);
        let cars = DeleteRecordsTopic::default()
            .with_name(TopicName(text("cars")))
            .with_partitions(vec![start(0), start(1)]);
        let request = DeleteRecordsRequest::default().with_topics(vec![cars]);
        let started = DeleteRecordsPartitionResult::default().with_low_watermark(4);
        let cars = DeleteRecordsTopicResult::default()
            .with_name(TopicName(text("cars")))
            .with_partitions(vec![started]);
        let answer = DeleteRecordsResponse::default().with_topics(vec![cars]);
        let started: Vec<_> = answered(&request, Ok(answer)).into_values().collect();
        assert_eq!(started, [Ok(4), Err(Failure::LeftOut)]);

        let lost = answered(&request, Err(anyhow::anyhow!("no answer")));
        let place = ("cars".to_owned(), 0);
        let mut row = TrimmedPartition::planned(&place, &Ok(0), &Ok(9), &Ok(4));
        assert_eq!(row.status(), "4 offsets would be deleted");
        row.became(lost.get(&place).unwrap());
        assert_eq!((row.to, row.executed), (None, false), "nobody knows");
        assert_eq!(row.status(), "no answer");
    }
}
