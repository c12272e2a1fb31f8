//! What a log answers about its producers beside their batches: markers, transactions, known ids,
//! and expiry.
//!
//! It does not: judge a batch, which an append does (`Log::check_producer`).

use platform::Platform;
use platform::clock::Reading;
use wire::batch::BatchHeader;
use wire::types::ProducerId;

use super::producer_state::{EndMarker, ProducerError};
use crate::log::views::LogProducers;

impl<P: Platform> LogProducers<'_, P> {
    /// Judges a transaction marker by what its producer did before.
    pub fn check_marker(
        self,
        header: &BatchHeader,
        marker: EndMarker,
    ) -> Result<(), ProducerError> {
        self.producers.borrow().check_marker(header, marker)
    }

    /// Returns true when the producer has a transaction open here, in this epoch.
    pub fn is_in_transaction(self, producer_id: ProducerId, epoch: i16) -> bool {
        let producers = self.producers.borrow();
        producers.is_in_transaction(producer_id, epoch)
    }

    /// Returns true when the log has batches or markers of the producer, or had them until
    /// recently.
    pub fn knows_producer(self, producer_id: ProducerId) -> bool {
        self.producers.borrow().knows(producer_id)
    }

    /// Returns the largest id below `limit` of a known producer.
    pub fn largest_producer_below(self, limit: ProducerId) -> Option<ProducerId> {
        self.producers.borrow().largest_below(limit)
    }

    /// Returns the memory of the known producers, about.
    pub fn bytes(self) -> usize {
        self.producers.borrow().bytes()
    }

    /// Forgets producers that have been idle for too long; returns how many.
    pub fn expire_producers(self, now: impl Into<Reading>) -> usize {
        let expiration_ms = self.options.borrow().producer_id_expiration_ms;
        self.producers.borrow_mut().expire(now, expiration_ms)
    }
}
