//! The interface of a check of every record: numbers on the way out, records on the way in.
//!
//! The generator does not know how the check works. It asks for one [`Numbering`] per producer and
//! one [`ConsumerCheck`] per consumer of each group. One task uses each of these; several threads
//! share the [`Verification`] that creates them. Records of one producer and place are numbered in
//! the order in which they are sent; batches are never reused while a check is on.

use std::fmt;

use crate::outcome::RecordCheckResult;

/// A partition of the load: the indexes of its topic and partition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PartitionPlace {
    /// Index of the topic within the load.
    pub topic: u32,
    /// Index of the partition within the topic.
    pub partition: u32,
}

impl fmt::Display for PartitionPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic {} partition {}", self.topic, self.partition)
    }
}

/// A check of every record of a load.
pub trait Verification: Send + Sync {
    /// Returns the bytes that a value needs at least to carry its number.
    fn value_bytes_min(&self) -> usize;

    /// Returns the numbering for the producer with this index (over all hosts).
    fn numbering(&self, producer: u32) -> Box<dyn Numbering>;

    /// Returns the check for a consumer of a group; called again on every reconnect.
    ///
    /// Its indexes count over all hosts.
    fn checking(&self, group: u32, consumer: u32) -> Box<dyn ConsumerCheck>;

    /// Returns the result; called once, after every producer and consumer has ended.
    fn verified(&self) -> RecordCheckResult;
}

/// Numbers the records of one producer.
pub trait Numbering {
    /// Returns the number of the first record to a place; the next ones follow without a gap.
    ///
    /// Called once per place, before its first record.
    fn first_number(&mut self, place: PartitionPlace) -> u64;

    /// Writes the number of a record into its value, which already contains the payload.
    fn number(&mut self, place: PartitionPlace, number: u64, value: &mut [u8]);

    /// Notes that `count` records from number `first` were acknowledged from `base_offset` on (-1:
    /// not reported).
    fn acknowledged(&mut self, place: PartitionPlace, first: u64, count: u32, base_offset: i64);

    /// Notes that these records were given up without an acknowledgement: they may or may not be
    /// stored.
    fn given_up(&mut self, place: PartitionPlace, first: u64, count: u32);
}

/// Checks what one consumer of a group reads.
pub trait ConsumerCheck {
    /// Receives a consumed record; offsets of a place ascend, except after an error.
    fn read(
        &mut self,
        place: PartitionPlace,
        offset: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    );
}
