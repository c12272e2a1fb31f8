//! The answers that are ready and not yet written to the socket, to count how long sending takes.
//!
//! Invariant: an answer is forgotten as soon as its own last byte is written, whatever was queued
//! behind it. A peer that reads steadily but slowly, and always has more to read, therefore leaves
//! no more here than what is unwritten. A request without an answer (Produce with `acks=0`) leaves
//! nothing.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::metrics::RequestKind;

/// The answers of one connection that are not written, in their order.
pub(super) struct UnsentAnswers<K = RequestKind> {
    // Bounded: each has bytes that are unwritten, and a request begins only while at most
    // `conversation::UNWRITTEN_BYTES_MAX` are.
    answers: VecDeque<Answer<K>>,
}

struct Answer<K> {
    kind: K,
    ready: Instant,
    /// What the connection will have written when the answer's last byte is, in bytes.
    end: u64,
}

impl<K> UnsentAnswers<K> {
    pub(super) fn new() -> Self {
        Self {
            answers: VecDeque::new(),
        }
    }

    /// Notes an answer that was queued at `ready`, and ends where `end` bytes are written.
    pub(super) fn push(&mut self, kind: K, ready: Instant, end: u64) {
        assert!(
            self.answers.back().is_none_or(|last| last.end < end),
            "answers are queued in their order, and have bytes"
        );
        self.answers.push_back(Answer { kind, ready, end });
    }

    /// Returns the first answer that is whole among the first `written_bytes`.
    pub(super) fn next_sent(&mut self, written_bytes: u64) -> Option<(K, Instant)> {
        let sent = self.answers.front()?.end <= written_bytes;
        let answer = if sent { self.answers.pop_front() } else { None };
        answer.map(|answer| (answer.kind, answer.ready))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_always_behind_leaves_only_what_is_unwritten() {
        let (mut unsent, now) = (UnsentAnswers::new(), Instant::now());
        let mut sent = Vec::new();
        for number in 0..10_000_u64 {
            unsent.push(number, now, (number + 1) * 50);
            // All but the last answer and a half are written: something is always pending.
            let written = ((number + 1) * 50).saturating_sub(75);
            while let Some((number, _)) = unsent.next_sent(written) {
                sent.push(number);
            }
            assert!(unsent.answers.len() <= 2, "{}", unsent.answers.len());
        }
        assert!(
            sent.into_iter().eq(0..9_998),
            "each is counted once, in order"
        );
    }

    #[test]
    fn an_answer_is_sent_with_its_last_byte() {
        let (mut unsent, now) = (UnsentAnswers::new(), Instant::now());
        unsent.push("Fetch", now, 100);
        assert_eq!(unsent.next_sent(99), None);
        assert_eq!(unsent.next_sent(100), Some(("Fetch", now)));
        assert_eq!(unsent.next_sent(100), None);
    }
}
