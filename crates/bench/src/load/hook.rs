//! What a check of every record hangs on: numbers going out, records coming in.
//!
//! The generator knows nothing of how a check is made. It asks for one [`Numbering`] per producer and one
//! [`Checking`] per consumer of each group; each is used by one task only, the [`Verification`] they come
//! from by several threads. Records of one producer and place are numbered in the order in which they are
//! sent; batches are never reused while a check is on.

use std::fmt;

use crate::outcome::Verified;

/// A partition of the load: which of its topics, which partition of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Index of the topic within the load.
    pub topic: u32,
    /// Index of the partition within the topic.
    pub partition: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic {} partition {}", self.topic, self.partition)
    }
}

/// A check of every record of a load.
pub trait Verification: Send + Sync {
    /// Bytes a value must have at least to carry its number.
    fn value_bytes_min(&self) -> usize;

    /// The writing end for the producer with this index (over all hosts).
    fn numbering(&self, producer: u32) -> Box<dyn Numbering>;

    /// The reading end for a consumer of a group; asked again whenever that connects anew. Its indexes count
    /// over all hosts.
    fn checking(&self, group: u32, consumer: u32) -> Box<dyn Checking>;

    /// What was found; called once, after every producer and consumer has ended.
    fn verified(&self) -> Verified;
}

/// Numbers the records of one producer.
pub trait Numbering {
    /// Number that the first record to a place gets; those behind it follow without a gap. Asked once for
    /// each place, before its first record.
    fn first_number(&mut self, place: Place) -> u64;

    /// Writes the number of a record into its value, which holds its payload already.
    fn number(&mut self, place: Place, number: u64, value: &mut [u8]);

    /// The `count` records from number `first` on are acknowledged, stored from this offset on (-1: the
    /// broker did not say).
    fn acknowledged(&mut self, place: Place, first: u64, count: u32, base_offset: i64);

    /// These records were given up without an acknowledgement: they may be stored or not.
    fn given_up(&mut self, place: Place, first: u64, count: u32);
}

/// Checks what one consumer of a group reads.
pub trait Checking {
    /// A record was read. Offsets of a place ascend, save after an error.
    fn read(&mut self, place: Place, offset: i64, key: Option<&[u8]>, value: Option<&[u8]>);
}
