//! Which producers are being asked for at the coordinator, before their first batch of a transaction is appended here
//! (Kafka's verification guards, KIP-890).
//!
//! Between the coordinator's answer and the append the transaction may end: its marker is then in the log already, and a
//! batch behind it would open a transaction that nobody knows of and nobody ends. So whoever asks takes a guard first; the
//! marker clears it; and a batch that would open a transaction is appended only under a guard that stands. Invariant: a
//! guard that stands was taken after the last marker of its producer. Bounded: the oldest guard goes when there are too
//! many, and its batch is refused.

use std::collections::BTreeMap;

use wire::types::ProducerId;

/// Producers that are asked for at the same time, in one partition.
const ASKED_MAX: usize = 1024;

/// What says that nothing has ended a transaction since it was taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Guard(u64);

/// What a batch of a transaction rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verified {
    /// Nothing: it is not asked for, by the settings.
    Unasked,
    /// Its transaction was open here when it came in.
    Open,
    /// The coordinator knows the transaction, as far as this guard stands.
    By(Guard),
}

/// The guards of one partition.
#[derive(Debug, Default)]
pub(super) struct Verifying {
    next: u64,
    // Bounded: `ASKED_MAX`.
    asked: BTreeMap<ProducerId, (i16, Guard)>,
    // Bounded: `ASKED_MAX`.
    by_age: BTreeMap<Guard, ProducerId>,
}

impl Verifying {
    /// Begins to ask for a producer; who asks for the same one meanwhile shares the guard.
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

    /// A marker of the producer is in the log, or its transaction is open now: no guard of it stands any more.
    pub(super) fn end(&mut self, producer: ProducerId) {
        if let Some((_, guard)) = self.asked.remove(&producer) {
            self.by_age.remove(&guard);
        }
        self.check();
    }

    /// What holds between calls.
    fn check(&self) {
        let (asked, aged) = (self.asked.len(), self.by_age.len());
        assert_eq!(asked, aged, "each producer that is asked for has an age");
        assert!(asked <= ASKED_MAX, "the oldest guard has gone");
    }

    /// True when nothing has come between the asking and now.
    pub(super) fn stands(&self, producer: ProducerId, epoch: i16, guard: Guard) -> bool {
        self.asked.get(&producer) == Some(&(epoch, guard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ProducerId = ProducerId(7);

    /// A coordinator, a partition and a producer that has two batches on their way, in every order of their steps.
    #[derive(Clone, Debug, Default)]
    struct World {
        /// The coordinator has the partition in an open transaction.
        coordinated: bool,
        /// The marker that is decided and not written.
        marker: bool,
        /// The partition has a transaction open.
        open: bool,
        batches: [Batch; 2],
        steps: Vec<(usize, &'static str)>,
    }

    #[derive(Clone, Copy, Debug, Default)]
    struct Batch {
        verified: Option<Verified>,
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

    /// Makes the step, where it is possible; the guards are those of the partition.
    fn step(world: &mut World, guards: &mut Verifying, step: Step) -> bool {
        match step {
            Step::Come(at) if world.batches[at].verified.is_none() => {
                let verified = if world.open {
                    Verified::Open
                } else {
                    Verified::By(guards.ask(ID, 0))
                };
                world.batches[at].verified = Some(verified);
            }
            Step::Verify(at)
                if matches!(world.batches[at].verified, Some(Verified::By(_)))
                    && world.batches[at].answered.is_none() =>
            {
                world.batches[at].answered = Some(world.coordinated && !world.marker);
            }
            Step::Append(at) => {
                let batch = &mut world.batches[at];
                let asked = batch.answered == Some(true) || batch.verified == Some(Verified::Open);
                if !asked || batch.appended {
                    return false;
                }
                batch.appended = true;
                let stands = match batch.verified {
                    Some(Verified::By(guard)) => guards.stands(ID, 0, guard),
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
            let (mut world, mut guards) = (World::default(), Verifying::default());
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
        let mut guards = Verifying::default();
        let guard = guards.ask(ID, 3);
        assert_eq!(guards.ask(ID, 3), guard, "shared by those who ask at once");
        assert!(guards.stands(ID, 3, guard));
        assert_ne!(guards.ask(ID, 4), guard);
        assert!(!guards.stands(ID, 3, guard));
    }

    #[test]
    fn guards_are_bounded_and_the_oldest_goes() {
        let mut guards = Verifying::default();
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
