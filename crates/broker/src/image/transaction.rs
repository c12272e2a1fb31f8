//! Replaying a log with metadata transactions: between begin and end nothing may be seen, and an
//! abort undoes it.
//!
//! States: outside (`before` is `None`) and inside a transaction (`before` is the image as it was
//! at its begin).

use wire::records::metadata::MetadataRecord;

use super::{Applied, Image, ReplayError};

/// An image being made from a log.
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

    /// Applies the records of one batch, of which `applied` is the last. Publish only what
    /// [`Self::image`] gives. Records that do not fit are passed over, at run time as at a start; `unfit` is told which
    /// (its place in the batch) and why.
    pub fn replay(
        &mut self,
        records: impl IntoIterator<Item = MetadataRecord>,
        applied: Applied,
        mut unfit: impl FnMut(usize, ReplayError),
    ) {
        for (place, record) in records.into_iter().enumerate() {
            match record {
                MetadataRecord::BeginTransaction(_) => {
                    // One that was begun and never ended did not take effect.
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

    /// Notes how far the log was applied.
    pub fn advance(&mut self, applied: Applied) {
        self.current.advance(applied);
        if let Some(before) = &mut self.before {
            before.advance(applied);
        }
    }

    /// What may be seen: without the transaction that is open, if one is.
    pub fn image(&self) -> &Image {
        self.before.as_ref().unwrap_or(&self.current)
    }

    /// True inside a transaction.
    pub const fn in_transaction(&self) -> bool {
        self.before.is_some()
    }
}
