//! What an answer to a batch means: pure.
//!
//! An idempotent producer numbers its records, and a broker appends a batch only where it follows
//! the one before. So a batch whose fate is not known is sent again as it was: the broker tells the
//! second copy from a first. What matters is whether the batch is the **first** of its partition
//! that is not settled:
//!
//! - Another one that is "out of order" waits for those before it, which are sent again.
//! - The first one that is out of order, or whose producer the broker does not know, follows a
//!   batch that the broker does not have (any more). Neither it nor any batch after it can have
//!   been appended, so the partition begins again: next epoch, sequence 0.

use wire::types::ErrorCode;

use crate::error::{ClientError, Refusal};

/// What a broker answered to a batch, or why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum BatchAnswer {
    /// It is in the log, at this offset if that is known.
    Written {
        offset: Option<i64>,
        append_time: Option<i64>,
    },
    /// The broker refused it.
    Refused(Refusal),
    /// The client cannot know whether it is in the log.
    Unknown(ClientError),
    /// It was not sent, and never will be.
    Failed(ClientError),
}

/// Whether the broker can tell a batch from a copy of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sequence {
    /// It has no sequence.
    None,
    /// It has one.
    Idempotent,
    /// It has one, and belongs to a transaction.
    Transactional,
}

/// What is known of the batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Circumstances {
    /// No batch of the partition before it is open.
    pub(super) is_first: bool,
    pub(super) sequence: Sequence,
    pub(super) records: usize,
    /// It may be sent again.
    pub(super) may_retry: bool,
}

/// What becomes of the batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is written.
    Written {
        offset: Option<i64>,
        append_time: Option<i64>,
    },
    /// It is sent again, as it is. `is_moved`: to another leader, perhaps.
    Again { is_moved: bool, error: ClientError },
    /// The partition begins again, and then it is sent again.
    Anew(ClientError),
    /// It is divided.
    Split(ClientError),
    /// It fails.
    Fails(ClientError),
    /// It fails, and so does everything that this producer has.
    Fatal(ClientError),
}

/// Judges an answer.
pub(super) fn verdict(answered: BatchAnswer, batch: Circumstances) -> Verdict {
    let refusal = match answered {
        BatchAnswer::Written {
            offset,
            append_time,
        } => {
            return Verdict::Written {
                offset,
                append_time,
            };
        }
        BatchAnswer::Unknown(error) => return again(true, error, batch),
        BatchAnswer::Failed(error) => return Verdict::Fails(error),
        BatchAnswer::Refused(refusal) => refusal,
    };
    let code = refusal.code;
    let error = ClientError::Refused(refusal);
    match code {
        // An earlier copy is in the log, older than what the broker remembers offsets of.
        ErrorCode::DuplicateSequenceNumber => Verdict::Written {
            offset: None,
            append_time: None,
        },
        ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId
            if batch.sequence != Sequence::None =>
        {
            out_of_order(error, batch)
        }
        ErrorCode::InvalidProducerEpoch if batch.sequence == Sequence::Idempotent => {
            out_of_order(error, batch)
        }
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge if batch.records > 1 => {
            Verdict::Split(error)
        }
        ErrorCode::ProducerFenced
        | ErrorCode::InvalidProducerEpoch
        | ErrorCode::TransactionalIdAuthorizationFailed
        | ErrorCode::ClusterAuthorizationFailed => Verdict::Fatal(error),
        _ if code.is_retriable() => again(says_leader_moved(code), error, batch),
        _ => Verdict::Fails(error),
    }
}

fn again(is_moved: bool, error: ClientError, batch: Circumstances) -> Verdict {
    if batch.may_retry {
        Verdict::Again { is_moved, error }
    } else {
        Verdict::Fails(error)
    }
}

fn out_of_order(error: ClientError, batch: Circumstances) -> Verdict {
    if !batch.is_first {
        return again(false, error, batch);
    }
    if batch.sequence == Sequence::Transactional || !batch.may_retry {
        // A part of the transaction is lost: it cannot be committed.
        return Verdict::Fails(error);
    }
    Verdict::Anew(error)
}

/// Returns true for errors after which another broker may lead the partition.
fn says_leader_moved(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotLeaderOrFollower
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::KafkaStorageError
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::NetworkException
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: Circumstances = Circumstances {
        is_first: true,
        sequence: Sequence::Idempotent,
        records: 3,
        may_retry: true,
    };

    fn judged(code: ErrorCode, batch: Circumstances) -> Verdict {
        verdict(BatchAnswer::Refused(code.into()), batch)
    }

    #[test]
    fn only_the_first_batch_that_is_out_of_order_begins_anew() {
        for code in [
            ErrorCode::OutOfOrderSequenceNumber,
            ErrorCode::UnknownProducerId,
            ErrorCode::InvalidProducerEpoch,
        ] {
            assert!(matches!(judged(code, BATCH), Verdict::Anew(_)), "{code:?}");
            let later = Circumstances {
                is_first: false,
                ..BATCH
            };
            let again = judged(code, later);
            assert!(
                matches!(
                    again,
                    Verdict::Again {
                        is_moved: false,
                        ..
                    }
                ),
                "{code:?}"
            );
        }
    }

    #[test]
    fn a_transaction_with_a_lost_part_fails() {
        let transactional = Circumstances {
            sequence: Sequence::Transactional,
            ..BATCH
        };
        let lost = judged(ErrorCode::OutOfOrderSequenceNumber, transactional);
        assert!(matches!(lost, Verdict::Fails(_)));
        let fenced = judged(ErrorCode::InvalidProducerEpoch, transactional);
        assert!(matches!(fenced, Verdict::Fatal(_)));
    }

    #[test]
    fn a_second_copy_is_written() {
        let written = Verdict::Written {
            offset: None,
            append_time: None,
        };
        assert_eq!(judged(ErrorCode::DuplicateSequenceNumber, BATCH), written);
    }

    #[test]
    fn what_passes_is_tried_again_while_it_may_be() {
        let moved = judged(ErrorCode::NotLeaderOrFollower, BATCH);
        assert!(matches!(moved, Verdict::Again { is_moved: true, .. }));
        let few = judged(ErrorCode::NotEnoughReplicas, BATCH);
        assert!(matches!(
            few,
            Verdict::Again {
                is_moved: false,
                ..
            }
        ));
        let over = Circumstances {
            may_retry: false,
            ..BATCH
        };
        let late = ClientError::timed_out("a:1", "Produce");
        let fails = verdict(BatchAnswer::Unknown(late.clone()), over);
        assert_eq!(fails, Verdict::Fails(late));
        let invalid = judged(ErrorCode::InvalidRecord, BATCH);
        assert!(matches!(invalid, Verdict::Fails(_)));
    }

    #[test]
    fn a_batch_that_is_too_large_is_divided_until_it_is_a_record() {
        let large = judged(ErrorCode::MessageTooLarge, BATCH);
        assert!(matches!(large, Verdict::Split(_)));
        let one = Circumstances {
            records: 1,
            ..BATCH
        };
        let large = judged(ErrorCode::MessageTooLarge, one);
        assert!(matches!(large, Verdict::Fails(_)));
    }
}
