//! The producers about which the coordinator is being asked before their first batch of a
//! transaction is appended here (Kafka's verification guards, KIP-890).
//!
//! Between the coordinator's answer and the append, the transaction may end: its marker is then
//! already in the log, and a batch after it would open a transaction that the coordinator does not
//! know and never ends. So the append takes a guard before it asks; the marker invalidates the
//! guard; and a batch that would open a transaction is appended only with a valid guard. Invariant:
//! a valid guard was taken after the last marker of its producer. Bounded: if there are too many
//! guards, the oldest becomes invalid, and its batch is refused.

use std::collections::BTreeMap;

use platform::Platform;
use wire::batch::BatchHeader;
use wire::types::{ErrorCode, ProducerId};

use super::Partition;
use crate::error::AppendError;

/// Maximum producers about which the coordinator is being asked, in one partition.
const ASKED_MAX: usize = 1024;

/// Proves that no marker ended a transaction of the producer since the guard was taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Guard(u64);

/// Why a transactional batch may be appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TransactionProof {
    /// No check is required, by the settings.
    Unasked,
    /// Its transaction was open here when the batch arrived.
    Open,
    /// The coordinator knows the transaction, as long as this guard is valid.
    By(Guard),
}

/// The guards of one partition.
#[derive(Debug, Default)]
pub(super) struct VerificationGuards {
    next: u64,
    // Bounded: `ASKED_MAX`.
    asked: BTreeMap<ProducerId, (i16, Guard)>,
    // Bounded: `ASKED_MAX`.
    by_age: BTreeMap<Guard, ProducerId>,
}

impl VerificationGuards {
    /// Takes a guard for a producer; concurrent requests of the same producer share it.
    pub(super) fn ask(&mut self, producer: ProducerId, epoch: i16) -> Guard {
        match self.asked.get(&producer) {
            Some((known, guard)) if *known == epoch => return *guard,
            _ => self.end(producer),
        }
        if self.asked.len() >= ASKED_MAX
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.asked.remove(&oldest);
        }
        self.next += 1;
        let guard = Guard(self.next);
        self.asked.insert(producer, (epoch, guard));
        self.by_age.insert(guard, producer);
        self.check();
        guard
    }

    /// Invalidates the guard of a producer, because its marker is in the log, or its transaction is
    /// open now.
    pub(super) fn end(&mut self, producer: ProducerId) {
        if let Some((_, guard)) = self.asked.remove(&producer) {
            self.by_age.remove(&guard);
        }
        self.check();
    }

    /// Checks the invariants that hold between calls.
    fn check(&self) {
        let (asked, aged) = (self.asked.len(), self.by_age.len());
        assert_eq!(asked, aged, "each producer that is asked for has an age");
        assert!(asked <= ASKED_MAX, "the oldest guard has gone");
    }

    /// Returns true if the guard is still valid.
    pub(super) fn stands(&self, producer: ProducerId, epoch: i16, guard: Guard) -> bool {
        self.asked.get(&producer) == Some(&(epoch, guard))
    }
}

impl<P: Platform> Partition<P> {
    /// Returns true if the producer has an open transaction here, in this epoch.
    pub(crate) fn is_in_transaction(&self, producer_id: ProducerId, epoch: i16) -> bool {
        self.log
            .producer_states()
            .is_in_transaction(producer_id, epoch)
    }

    pub(crate) fn knows_producer(&self, producer_id: ProducerId) -> bool {
        self.log.producer_states().knows_producer(producer_id)
    }

    /// Registers that the coordinator is about to be asked about a producer.
    pub(crate) fn ask_for(&self, producer_id: ProducerId, epoch: i16) -> Guard {
        self.verifying.borrow_mut().ask(producer_id, epoch)
    }

    /// Checks that a transactional batch may be appended by its proof.
    pub(super) fn check_verified(
        &self,
        header: &BatchHeader,
        verified: TransactionProof,
    ) -> Result<(), AppendError> {
        let (id, epoch) = (header.producer_id, header.producer_epoch);
        let stands = match verified {
            _ if !header.is_transactional() => true,
            TransactionProof::Unasked => true,
            TransactionProof::By(guard) if self.verifying.borrow().stands(id, epoch, guard) => true,
            TransactionProof::Open | TransactionProof::By(_) => self.is_in_transaction(id, epoch),
        };
        if stands {
            return Ok(());
        }
        Err(AppendError {
            message: Some("the transaction has ended meanwhile".to_owned()),
            ..ErrorCode::InvalidTxnState.into()
        })
    }

    /// Notes that a batch was appended: it may have opened a transaction, which needs no guard.
    pub(super) fn note_opened(&self, header: &BatchHeader) {
        if header.is_transactional() {
            self.verifying.borrow_mut().end(header.producer_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ProducerId = ProducerId(7);

    /// A coordinator, a partition and a producer with two batches in flight, in every order of
    /// their steps.
    #[derive(Clone, Debug, Default)]
    struct World {
        /// The coordinator has the partition in an open transaction.
        coordinated: bool,
        /// A marker is decided but not written.
        marker: bool,
        /// The partition has a transaction open.
        open: bool,
        batches: [Batch; 2],
        steps: Vec<(usize, &'static str)>,
    }

    #[derive(Clone, Copy, Debug, Default)]
    struct Batch {
        verified: Option<TransactionProof>,
        answered: Option<bool>,
        appended: bool,
    }

    #[derive(Clone, Copy)]
    enum Step {
        Come(usize),
        Verify(usize),
        Append(usize),
        Add,
        Decide,
        Mark,
    }

    /// Makes the step, if it is possible; the guards are those of the partition.
    fn step(world: &mut World, guards: &mut VerificationGuards, step: Step) -> bool {
        match step {
            Step::Come(at) if world.batches[at].verified.is_none() => {
                let verified = if world.open {
                    TransactionProof::Open
                } else {
                    TransactionProof::By(guards.ask(ID, 0))
                };
                world.batches[at].verified = Some(verified);
            }
            Step::Verify(at)
                if matches!(world.batches[at].verified, Some(TransactionProof::By(_)))
                    && world.batches[at].answered.is_none() =>
            {
                world.batches[at].answered = Some(world.coordinated && !world.marker);
            }
            Step::Append(at) => {
                let batch = &mut world.batches[at];
                let asked =
                    batch.answered == Some(true) || batch.verified == Some(TransactionProof::Open);
                if !asked || batch.appended {
                    return false;
                }
                batch.appended = true;
                let stands = match batch.verified {
                    Some(TransactionProof::By(guard)) => guards.stands(ID, 0, guard),
                    _ => false,
                };
                if world.open || stands {
                    world.open = true;
                    guards.end(ID);
                }
            }
            Step::Add if !world.coordinated && !world.marker => world.coordinated = true,
            Step::Decide if world.coordinated && !world.marker => world.marker = true,
            Step::Mark if world.marker => {
                (world.open, world.marker, world.coordinated) = (false, false, false);
                guards.end(ID);
            }
            _ => return false,
        }
        true
    }

    const STEPS: [Step; 9] = [
        Step::Come(0),
        Step::Come(1),
        Step::Verify(0),
        Step::Verify(1),
        Step::Append(0),
        Step::Append(1),
        Step::Add,
        Step::Decide,
        Step::Mark,
    ];

    #[test]
    fn in_no_order_of_steps_does_a_transaction_open_that_the_coordinator_does_not_know() {
        let mut rng = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            let (mut world, mut guards) = (World::default(), VerificationGuards::default());
            for _ in 0..24 {
                rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let chosen = usize::try_from(rng >> 33).unwrap() % STEPS.len();
                if step(&mut world, &mut guards, STEPS[chosen]) {
                    world.steps.push((chosen, "made"));
                }
                assert!(!world.open || world.coordinated, "hangs after {world:?}");
            }
        }
    }

    #[test]
    fn a_batch_whose_transaction_goes_on_is_appended() {
        let mut guards = VerificationGuards::default();
        let guard = guards.ask(ID, 3);
        assert_eq!(guards.ask(ID, 3), guard, "shared by those who ask at once");
        assert!(guards.stands(ID, 3, guard));
        assert_ne!(guards.ask(ID, 4), guard);
        assert!(!guards.stands(ID, 3, guard));
    }

    #[test]
    fn guards_are_bounded_and_the_oldest_goes() {
        let mut guards = VerificationGuards::default();
        let first = guards.ask(ProducerId(0), 0);
        let all: Vec<_> = (1..5000).map(|id| guards.ask(ProducerId(id), 0)).collect();
        assert_eq!(
            (guards.asked.len(), guards.by_age.len()),
            (ASKED_MAX, ASKED_MAX)
        );
        assert!(!guards.stands(ProducerId(0), 0, first));
        assert!(guards.stands(ProducerId(4999), 0, all[4998]));
    }
}
