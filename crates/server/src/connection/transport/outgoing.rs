//! Records that are sealed and that the socket has not taken yet.
//!
//! They stand for bytes of replies. Each time the socket takes some, [`Outgoing::advance`] reports
//! the same share of these bytes as written, so that the timer of the connection sees the progress
//! of a slow peer. It reports the last byte of the replies with the last byte of the records.
//! Records that stand for nothing (alerts, new keys) are between them. Pure.

/// The records, in their order.
#[derive(Default, Debug)]
pub(super) struct Outgoing {
    // Bounded: the records of `scratch::SEALED_BYTES_MAX`, and those that stand for nothing.
    bytes: Vec<u8>,
    /// How many of `bytes` are sent.
    sent: usize,
    /// Bytes of replies that they stand for.
    stands_for: usize,
    /// How many of these were reported as written.
    told: usize,
}

impl Outgoing {
    /// Returns true if nothing is to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the memory that this takes.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns what is not sent.
    pub(super) fn unsent(&self) -> &[u8] {
        // Bounded: no more is sent than there is.
        self.bytes.split_at(self.sent).1
    }

    /// Returns where records that stand for nothing are appended.
    pub(super) fn control(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends sealed records that stand for `stands_for` bytes of replies.
    pub(super) fn append(&mut self, records: &[u8], stands_for: usize) {
        assert!(
            self.stands_for == 0,
            "what was sealed before is written first"
        );
        self.bytes.extend_from_slice(records);
        self.stands_for = stands_for;
    }

    /// Notes that `count` more bytes are sent; returns how many bytes of replies that writes.
    pub(super) fn advance(&mut self, count: usize) -> usize {
        self.sent = self.sent.saturating_add(count);
        assert!(self.sent <= self.bytes.len(), "what is sent was to be");
        if self.sent == self.bytes.len() {
            let rest = self.stands_for.saturating_sub(self.told);
            // The memory goes as well.
            *self = Self::default();
            return rest;
        }
        let due = share(self.stands_for, self.sent, self.bytes.len());
        // Less than before if something was appended meanwhile.
        let now = due.saturating_sub(self.told);
        self.told = self.told.saturating_add(now);
        now
    }
}

/// Returns how many of `stands_for` bytes are written when `sent` of `all` are sent: all of them at
/// the end only.
pub(super) fn share(stands_for: usize, sent: usize, all: usize) -> usize {
    if sent == all {
        return stands_for;
    }
    // Both are far below 32 bits.
    let part = (stands_for as u64).saturating_mul(sent as u64) / (all as u64).max(1);
    usize::try_from(part).unwrap_or(stands_for)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_that_stand_for_nothing_write_nothing() {
        let mut outgoing = Outgoing::default();
        outgoing.control().extend_from_slice(&[1; 30]);
        assert_eq!(outgoing.unsent().len(), 30);
        assert_eq!(outgoing.advance(10), 0);
        outgoing.append(&[2; 100], 50);
        // The first record is on its way, and the second has not begun.
        assert_eq!(outgoing.unsent().len(), 120);
        let mut written = 0;
        while !outgoing.is_empty() {
            written += outgoing.advance(10);
        }
        assert_eq!((written, outgoing.held_bytes()), (50, 0));
    }

    proptest! {
        #[test]
        fn every_byte_is_told_once_and_the_last_one_at_the_end(
            stands_for in 0..200_000_usize,
            overhead in 1..2000_usize,
            steps in proptest::collection::vec((1..50_000_usize, 0..3_usize), 1..50),
        ) {
            let mut outgoing = Outgoing::default();
            outgoing.append(&vec![7; stands_for + overhead], stands_for);
            let mut told = 0;
            for (step, appended) in steps {
                outgoing.control().extend_from_slice(&vec![0; appended]);
                let count = step.min(outgoing.unsent().len());
                told += outgoing.advance(count);
                if outgoing.is_empty() {
                    prop_assert_eq!(told, stands_for);
                    return Ok(());
                }
                prop_assert!(told < stands_for.max(1), "{} of {}", told, stands_for);
            }
            let rest = outgoing.unsent().len();
            prop_assert_eq!(told + outgoing.advance(rest), stands_for);
        }
    }
}
