//! The transactional ids of one partition, and the bytes that they take: approximate because maps
//! have overhead, but never less than the clients sent.
//!
//! Invariant: `bytes` is the sum over all ids, and `tally` counts each id once, because entries
//! change only through [`Ids::settle`]. Not here: the decisions about an id (`machine.rs`), and the
//! requests that are refused for lack of room (`coordinator.rs`).

use std::collections::BTreeMap;
use std::ops::Bound;

use wire::types::ErrorCode;

use super::machine::Transaction;
use super::payers::PaidBytes;
use super::state::{Entry, PartitionName};
use super::tally::Tally;

/// Most transactional ids in one partition of `__transaction_state`.
pub(super) const IDS_MAX: usize = 1_000_000;
/// Bytes that an id takes beside its text and its partitions.
const ID_BYTES: usize = 512;
/// Bytes that a partition takes beside its topic's name.
const PARTITION_BYTES: usize = 64;

/// An id, and who pays for it, if that is known.
struct WeighedTransaction {
    transaction: Transaction,
    paid: Option<PaidBytes>,
}

/// The ids of one partition of `__transaction_state`.
#[derive(Default)]
pub(super) struct Ids {
    // Bounded: `IDS_MAX`, and `check_growth` in bytes.
    by_id: BTreeMap<String, WeighedTransaction>,
    bytes: usize,
    tally: Tally,
}

impl Ids {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the bytes of all ids.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many ids are in which state.
    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(super) fn get(&self, id: &str) -> Option<&Transaction> {
        self.by_id.get(id).map(|known| &known.transaction)
    }

    /// Returns what is paid for an id, if it is known who pays.
    pub(super) fn paid(&self, id: &str) -> Option<&PaidBytes> {
        self.by_id.get(id)?.paid.as_ref()
    }

    /// Returns an id for a decision, which does not change its bytes.
    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut Transaction> {
        let known = self.by_id.get_mut(id);
        known.map(|known| &mut known.transaction)
    }

    /// Returns the ids after `id`, or all without one, in their order.
    pub(super) fn behind(&self, id: Option<&str>) -> impl Iterator<Item = (&String, &Transaction)> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.by_id.range::<str, _>((from, Bound::Unbounded));
        behind.map(|(id, known)| (id, &known.transaction))
    }

    /// Returns the same for decisions, which do not change bytes.
    pub(super) fn behind_mut(
        &mut self,
        id: Option<&str>,
    ) -> impl Iterator<Item = (&String, &mut Transaction)> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.by_id.range_mut::<str, _>((from, Bound::Unbounded));
        behind.map(|(id, known)| (id, &mut known.transaction))
    }

    /// Drops up to `count` ids of a set that is no longer served; returns false when none is left.
    pub(super) fn drop_some(&mut self, count: usize) -> bool {
        (0..count).all(|_| self.by_id.pop_first().is_some())
    }

    /// Adds an id without a known payer.
    pub(super) fn insert(&mut self, id: String, transaction: Transaction) {
        self.insert_for(None, id, transaction);
    }

    pub(super) fn insert_for(
        &mut self,
        mut paid: Option<PaidBytes>,
        id: String,
        transaction: Transaction,
    ) {
        let bytes = bytes_of(&id, transaction.entry());
        if let Some(paid) = &mut paid {
            paid.set(bytes);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.tally.add(transaction.entry());
        let text = id.len();
        if let Some(before) = self
            .by_id
            .insert(id, WeighedTransaction { transaction, paid })
        {
            let before = before.transaction;
            self.tally.remove(before.entry());
            let before = bytes_of_entry(before.entry()).saturating_add(text);
            assert!(self.bytes >= before, "the sum over all ids");
            self.bytes = self.bytes.saturating_sub(before);
        }
    }

    pub(super) fn remove(&mut self, id: &str) {
        if let Some(gone) = self.by_id.remove(id) {
            let gone = gone.transaction;
            self.tally.remove(gone.entry());
            let bytes = bytes_of(id, gone.entry());
            assert!(self.bytes >= bytes, "the sum over all ids");
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// Ends a change of an id: `stored` is the entry if it is in the log.
    pub(super) fn settle(&mut self, id: &str, stored: Option<Entry>) {
        if let Some(WeighedTransaction {
            transaction: known,
            paid,
        }) = self.by_id.get_mut(id)
        {
            let before = bytes_of_entry(known.entry());
            self.tally.remove(known.entry());
            known.settle(stored);
            self.tally.add(known.entry());
            let after = bytes_of_entry(known.entry());
            if let Some(paid) = paid {
                paid.set(after.saturating_add(id.len()));
            }
            assert!(self.bytes >= before, "the sum over all ids");
            self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        }
    }
}

/// Checks that ids with `all` bytes may grow by `growth`.
///
/// The error makes clients retry: transactions end, and ids expire.
pub(super) fn check_growth(all: usize, growth: usize, bytes_max: usize) -> Result<(), ErrorCode> {
    if growth > 0 && all.saturating_add(growth) > bytes_max {
        return Err(ErrorCode::CoordinatorLoadInProgress);
    }
    Ok(())
}

/// Returns the bytes of a new id.
pub(super) fn bytes_of_new(id: &str) -> usize {
    ID_BYTES.saturating_add(id.len())
}

/// Returns by how many bytes these partitions enlarge a transaction.
pub(super) fn growth_by(entry: &Entry, partitions: &[PartitionName]) -> usize {
    let new = partitions
        .iter()
        .filter(|it| !entry.partitions.contains(it));
    new.map(bytes_of_partition).fold(0, usize::saturating_add)
}

fn bytes_of(id: &str, entry: &Entry) -> usize {
    id.len().saturating_add(bytes_of_entry(entry))
}

fn bytes_of_entry(entry: &Entry) -> usize {
    let partitions = entry.partitions.iter().map(bytes_of_partition);
    partitions.fold(ID_BYTES, usize::saturating_add)
}

fn bytes_of_partition((topic, _): &PartitionName) -> usize {
    PARTITION_BYTES.saturating_add(topic.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::types::ProducerId;

    fn entry(partitions: i32) -> Entry {
        Entry {
            partitions: (0..partitions).map(|at| ("t".to_owned(), at)).collect(),
            ..Entry::unused(ProducerId(1), 1000, 0)
        }
    }

    #[test]
    fn the_sum_follows_what_ids_come_to_and_go_from() {
        let mut ids = Ids::default();
        let long = "a".repeat(1000);
        ids.insert(long.clone(), Transaction::unused(ProducerId(1), 1000, 0));
        assert_eq!(ids.bytes(), bytes_of_new(&long));
        ids.settle(&long, Some(entry(10)));
        assert_eq!(
            ids.bytes(),
            bytes_of_new(&long) + 10 * (PARTITION_BYTES + 1)
        );
        assert_eq!(
            growth_by(ids.get(&long).unwrap().entry(), &[("t".to_owned(), 3)]),
            0
        );
        assert_eq!(
            growth_by(ids.get(&long).unwrap().entry(), &[("tt".to_owned(), 3)]),
            PARTITION_BYTES + 2
        );
        ids.settle(&long, None);
        ids.insert(long.clone(), Transaction::loaded(entry(2)));
        assert_eq!(ids.bytes(), bytes_of_new(&long) + 2 * (PARTITION_BYTES + 1));
        ids.settle("gone", Some(entry(1)));
        ids.remove("gone");
        ids.remove(&long);
        assert_eq!((ids.bytes(), ids.len()), (0, 0));
    }

    #[test]
    fn who_has_made_an_id_pays_for_it_until_it_goes() {
        let payers = std::rc::Rc::new(super::super::payers::Payers::default());
        let payer = [10, 0, 0, 1].into();
        let room = |bytes: usize| payers.check_growth(payer, 10_000 - bytes, 20_000).is_ok();
        let mut ids = Ids::default();
        let unused = || Transaction::unused(ProducerId(1), 1000, 0);
        ids.insert("other".to_owned(), unused());
        ids.insert_for(Some(payers.pay(payer)), "id".to_owned(), unused());
        assert!(ids.paid("other").is_none() && ids.paid("id").is_some());
        let mut bytes = bytes_of_new("id");
        assert!(room(bytes) && !room(bytes - 1));
        ids.settle("id", Some(entry(10)));
        bytes += 10 * (PARTITION_BYTES + 1);
        assert!(room(bytes) && !room(bytes - 1));
        ids.remove("id");
        assert!(room(0));
        for id in ["a", "b"] {
            ids.insert_for(Some(payers.pay(payer)), id.to_owned(), unused());
        }
        while ids.drop_some(1) {}
        assert!(room(0));
    }

    #[test]
    fn what_does_not_grow_is_never_refused() {
        assert_eq!(check_growth(10, 0, 5), Ok(()));
        assert_eq!(check_growth(4, 1, 5), Ok(()));
        assert_eq!(
            check_growth(5, 1, 5),
            Err(ErrorCode::CoordinatorLoadInProgress)
        );
        assert_eq!(
            check_growth(1, usize::MAX, 5),
            Err(ErrorCode::CoordinatorLoadInProgress)
        );
    }
}
