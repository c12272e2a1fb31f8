//! A snapshot that is taken piece by piece while producers go on writing.
//!
//! Making it in one go takes the thread tens of milliseconds where many producers are known.
//!
//! Invariants: the snapshot holds each producer as it was when it was begun, because
//! [`SnapshotTaking::before_change`] keeps what is about to change and was not copied yet;
//! producers are in the order of their ids. It ends, whatever producers come meanwhile: when it has
//! as many as there were, and in one piece once more than twice as many were looked at, or more is
//! kept than there may be producers. Not here: what the snapshot is for, and when its pieces are
//! taken.

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
    /// How many producers it has.
    producers: usize,
    /// How many were looked at, with those that are not in it.
    looked_at: usize,
    /// The producers up to this one are in `encoder`.
    copied: Option<ProducerId>,
    /// What producers were that have changed since, in so far as they are not copied; `None` is one
    /// that was not known.
    // Bounded: `producer_state::PRODUCERS_CEILING`, by `keeps_too_much`.
    kept: BTreeMap<ProducerId, Option<ProducerSnapshot>>,
    encoder: Encoder,
}

impl SnapshotTaking {
    /// Begins a snapshot of `producers` producers as of `at`.
    pub(super) fn begin(at: Offset, producers: usize) -> Self {
        Self {
            at,
            producers,
            looked_at: 0,
            copied: None,
            kept: BTreeMap::new(),
            encoder: Encoder::new(producers),
        }
    }

    /// Keeps a producer that is about to change, to come, or to go.
    pub(super) fn before_change(&mut self, id: ProducerId, producer: Option<&Producer>) {
        if !self.is_complete() && self.copied.is_none_or(|copied| id > copied) {
            self.kept
                .entry(id)
                .or_insert_with(|| producer.map(|producer| producer.snapshot(id)));
        }
    }

    /// Returns true when it has all of its producers.
    fn is_complete(&self) -> bool {
        self.encoder.producers() == self.producers
    }

    /// Returns true when the rest is to be copied at once, rather than more be kept for it.
    pub(super) fn keeps_too_much(&self) -> bool {
        self.kept.len() > PRODUCERS_CEILING
    }

    /// Copies `most` producers or more; returns true when there are others left.
    pub(super) fn copy(&mut self, producers: &BTreeMap<ProducerId, Producer>, most: usize) -> bool {
        if self.is_complete() {
            return false;
        }
        // Others may come behind `copied` as fast as pieces are taken.
        let is_overtaken = self.looked_at > self.producers.saturating_mul(2);
        let most = if is_overtaken { usize::MAX } else { most };
        self.looked_at = self.looked_at.saturating_add(most);
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
        assert!(
            last.is_none_or(|last| self.copied.is_none_or(|copied| copied < last)),
            "each piece is further on"
        );
        self.copied = last;
        // Those of a piece, not a walk over all that is kept.
        while let Some(first) = self.kept.first_entry() {
            if last.is_some_and(|last| *first.key() > last) {
                break;
            }
            first.remove();
        }
        !self.is_complete()
    }

    /// Returns the offset and the bytes of the file, once all is copied.
    pub(super) fn finish(self) -> SnapshotProgress {
        assert!(self.is_complete(), "those that went were kept");
        SnapshotProgress::Taken(self.at, self.encoder.finish())
    }
}
