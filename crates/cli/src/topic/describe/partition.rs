//! A partition as `forebay topic describe` shows it.
//!
//! An offset that is not known is none; the error tells why.

use serde::Serialize;
use wire::messages::BrokerId;
use wire::messages::metadata_response::MetadataResponsePartition;

use crate::ask::Offsets;
use crate::show::{list, or_dash};

pub(super) const HEAD: [&str; 8] = [
    "PARTITION",
    "LEADER",
    "EPOCH",
    "REPLICAS",
    "ISR",
    "OFFLINE",
    "START",
    "END",
];

#[derive(Debug, Serialize)]
pub(super) struct Partition {
    #[serde(rename = "partition")]
    pub(super) index: i32,
    leader: Option<i32>,
    leader_epoch: i32,
    replicas: Vec<i32>,
    isr: Vec<i32>,
    offline: Vec<i32>,
    start_offset: Option<i64>,
    end_offset: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Partition {
    pub(super) fn of(
        topic: &str,
        partition: &MetadataResponsePartition,
        starts: &Offsets,
        ends: &Offsets,
    ) -> Self {
        let place = (topic.to_owned(), partition.partition_index);
        let found = |offsets: &Offsets| offsets.get(&place)?.as_ref().ok().copied();
        let refused =
            |offsets: &Offsets| offsets.get(&place)?.as_ref().err().map(ToString::to_string);
        let ids = |nodes: &[BrokerId]| nodes.iter().map(|node| node.0).collect();
        Self {
            index: partition.partition_index,
            leader: (partition.leader_id.0 >= 0).then_some(partition.leader_id.0),
            leader_epoch: partition.leader_epoch,
            replicas: ids(&partition.replica_nodes),
            isr: ids(&partition.isr_nodes),
            offline: ids(&partition.offline_replicas),
            start_offset: found(starts),
            end_offset: found(ends),
            error: refused(ends).or_else(|| refused(starts)),
        }
    }

    /// Returns the cells below [`HEAD`].
    pub(super) fn cells(&self) -> [String; 8] {
        // Where no offset is known, the error is shown once.
        let of_start = self.error.clone().filter(|_| self.end_offset.is_some());
        let shown = |offset: Option<i64>, error: Option<String>| {
            or_dash(offset.map(|offset| offset.to_string()).or(error))
        };
        [
            self.index.to_string(),
            or_dash(self.leader),
            self.leader_epoch.to_string(),
            list(&self.replicas),
            list(&self.isr),
            list(&self.offline),
            shown(self.start_offset, of_start),
            shown(self.end_offset, self.error.clone()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use wire::types::ErrorCode;

    use super::*;
    use crate::ask::Failure;

    #[test]
    fn an_offset_that_is_not_known_has_its_error() {
        let lost = || Err(Failure::NotAsked("no answer".into()));
        let refused = || Err(ErrorCode::LeaderNotAvailable.into());
        let check = |start, end, cells: [&str; 2], error: Option<&str>| {
            let offsets = |offset| Offsets::from([(("cars".to_owned(), 3), offset)]);
            let partition = MetadataResponsePartition::default().with_partition_index(3);
            let partition = Partition::of("cars", &partition, &offsets(start), &offsets(end));
            assert_eq!(partition.cells()[6..], cells);
            assert_eq!(partition.error.as_deref(), error);
        };
        check(Ok(2), Ok(7), ["2", "7"], None);
        check(lost(), Ok(7), ["no answer", "7"], Some("no answer"));
        check(Ok(2), lost(), ["2", "no answer"], Some("no answer"));
        let none = "LEADER_NOT_AVAILABLE";
        check(lost(), refused(), ["-", none], Some(none));
    }
}
