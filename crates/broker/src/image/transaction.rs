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
    /// [`Self::image`] gives.
    pub fn replay(
        &mut self,
        records: impl IntoIterator<Item = MetadataRecord>,
        applied: Applied,
    ) -> Result<(), ReplayError> {
        for record in records {
            match record {
                MetadataRecord::BeginTransaction(_) => self.before = Some(self.current.clone()),
                MetadataRecord::EndTransaction(_) => self.before = None,
                MetadataRecord::AbortTransaction(_) => {
                    if let Some(before) = self.before.take() {
                        self.current = before;
                    }
                }
                record => self.current.replay(record)?,
            }
        }
        self.current.advance(applied);
        if let Some(before) = &mut self.before {
            before.advance(applied);
        }
        Ok(())
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
