//! Replays a log with metadata transactions: the records of an open transaction are not visible,
//! and an abort undoes them.
//!
//! States: outside (`before` is `None`) and inside a transaction (`before` is the image at its
//! begin).

use wire::records::metadata::MetadataRecord;

use super::{Image, ImagePosition, ReplayError};

/// An image that is being built from a log.
#[derive(Clone, Debug)]
pub struct Replayer {
    current: Image,
    before: Option<Image>,
}

impl Replayer {
    /// Continues from `image`.
    pub const fn new(image: Image) -> Self {
        Self {
            current: image,
            before: None,
        }
    }

    /// Applies the records of one batch; `applied` is the last of them. Publish only
    /// [`Self::image`].
    ///
    /// Records that do not fit are skipped, at run time as at a start; `unfit` gets the index in
    /// the batch and the error of each.
    pub fn replay(
        &mut self,
        records: impl IntoIterator<Item = MetadataRecord>,
        applied: ImagePosition,
        mut unfit: impl FnMut(usize, ReplayError),
    ) {
        for (place, record) in records.into_iter().enumerate() {
            match record {
                MetadataRecord::BeginTransaction(_) => {
                    // A transaction that was begun and never ended did not take effect.
                    let before = self.before.take().unwrap_or_else(|| self.current.clone());
                    self.current = before.clone();
                    self.before = Some(before);
                }
                MetadataRecord::EndTransaction(_) => self.before = None,
                MetadataRecord::AbortTransaction(_) => {
                    if let Some(before) = self.before.take() {
                        self.current = before;
                    }
                }
                record => {
                    if let Err(error) = self.current.replay(record) {
                        unfit(place, error);
                    }
                }
            }
        }
        self.advance(applied);
    }

    /// Sets the position in the log.
    pub fn advance(&mut self, applied: ImagePosition) {
        self.current.advance(applied);
        if let Some(before) = &mut self.before {
            before.advance(applied);
        }
    }

    /// Makes the index of ACLs ready, once for all that was replayed.
    pub fn settle(&mut self) {
        self.current.settle();
        if let Some(before) = &mut self.before {
            before.settle();
        }
    }

    /// Returns the visible image, without an open transaction.
    pub fn image(&self) -> &Image {
        self.before.as_ref().unwrap_or(&self.current)
    }

    /// Returns true inside a transaction.
    pub const fn in_transaction(&self) -> bool {
        self.before.is_some()
    }
}
