//! A snapshot that is taken piece by piece while producers go on writing.
//!
//! Making it in one go takes the thread tens of milliseconds where many producers are known.
//!
//! Invariants: the snapshot holds each producer as it was when it was begun, because
//! [`SnapshotTaking::before_change`] keeps what is about to change and was not copied yet;
//! producers are in the order of their ids. A snapshot for which more is kept than there may be
//! producers is given up. Not here: what the snapshot is for, and when its pieces are taken.

use std::collections::BTreeMap;
use std::ops::Bound;

use wire::types::{Offset, ProducerId};

use super::snapshot::Encoder;
use super::{PRODUCERS_CEILING, Producer, ProducerSnapshot};

/// What is known of a snapshot after a piece of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SnapshotProgress {
    /// None is being taken.
    None,
    /// There are more pieces.
    More,
    /// These are the bytes of the file of the snapshot at this offset.
    Taken(Offset, Vec<u8>),
}

/// A snapshot that is being taken.
#[derive(Clone, Debug)]
pub(super) struct SnapshotTaking {
    at: Offset,
    /// The producers up to this one are in `encoder`.
    copied: Option<ProducerId>,
    /// What producers were that have changed since, in so far as they are not copied; `None` is one
    /// that was not known.
    // Bounded: `producer_state::PRODUCERS_CEILING`, by `is_given_up`.
    kept: BTreeMap<ProducerId, Option<ProducerSnapshot>>,
    encoder: Encoder,
}

impl SnapshotTaking {
    /// Begins a snapshot of `producers` producers as of `at`.
    pub(super) fn begin(at: Offset, producers: usize) -> Self {
        Self {
            at,
            copied: None,
            kept: BTreeMap::new(),
            encoder: Encoder::new(producers),
        }
    }

    /// Keeps a producer that is about to change, to come, or to go.
    pub(super) fn before_change(&mut self, id: ProducerId, producer: Option<&Producer>) {
        if self.copied.is_none_or(|copied| id > copied) {
            self.kept
                .entry(id)
                .or_insert_with(|| producer.map(|producer| producer.snapshot(id)));
        }
    }

    /// Returns true when the snapshot is not worth what is kept for it.
    pub(super) fn is_given_up(&self) -> bool {
        self.kept.len() > PRODUCERS_CEILING
    }

    /// Copies `most` producers or more; returns true when there are others left.
    pub(super) fn copy(&mut self, producers: &BTreeMap<ProducerId, Producer>, most: usize) -> bool {
        let after = self.copied.map_or(Bound::Unbounded, Bound::Excluded);
        let last = producers.range((after, Bound::Unbounded)).nth(most);
        let last = last.map(|(id, _)| *id);
        let upto = last.map_or(Bound::Unbounded, Bound::Included);
        let mut kept = self.kept.range((after, upto)).peekable();
        for (&id, producer) in producers.range((after, upto)) {
            while let Some((_, before)) = kept.next_if(|(kept, _)| **kept < id) {
                self.encoder.add_all(before.as_slice());
            }
            match kept.next_if(|(kept, _)| **kept == id) {
                Some((_, before)) => self.encoder.add_all(before.as_slice()),
                None => self.encoder.add(&producer.snapshot(id)),
            }
        }
        for (_, before) in kept {
            self.encoder.add_all(before.as_slice());
        }
        match last {
            Some(last) => {
                assert!(
                    self.copied.is_none_or(|copied| copied < last),
                    "each piece is further on"
                );
                self.kept.retain(|id, _| *id > last);
                self.copied = Some(last);
                true
            }
            None => false,
        }
    }

    /// Returns the offset and the bytes of the file, once all is copied.
    pub(super) fn finish(self) -> SnapshotProgress {
        SnapshotProgress::Taken(self.at, self.encoder.finish())
    }
}
