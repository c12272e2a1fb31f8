//! A sorted map whose copies share what they have in common.
//!
//! It is a list of blocks, each a sorted list. A copy shares all blocks; a change copies the list
//! of blocks and one block, so it costs a hundredth of what there is, or less. Invariants: no block
//! is empty or larger than [`BLOCK_MAX`]; keys ascend within a block and from block to block.

use std::borrow::Borrow;
use std::sync::Arc;

/// Most entries of a block.
const BLOCK_MAX: usize = 128;

/// A sorted map, cheap to copy and to change after that.
#[derive(Clone, Debug)]
pub struct SharedMap<K, V> {
    blocks: Vec<Arc<Vec<(K, V)>>>,
    len: usize,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        let blocks = Vec::new();
        Self { blocks, len: 0 }
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K, V> SharedMap<K, V> {
    /// Returns the number of entries.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the entries in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let all = self.blocks.iter().flat_map(|block| block.iter());
        all.map(|(key, value)| (key, value))
    }

    /// Returns the entries after a key, which need not be there, in ascending order; without one
    /// all of them.
    pub fn iter_after<'a, Q>(
        &'a self,
        key: Option<&Q>,
    ) -> impl Iterator<Item = (&'a K, &'a V)> + use<'a, K, V, Q>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let is_passed = |entry: &(K, V)| {
            let known: &Q = entry.0.borrow();
            key.is_some_and(|key| known <= key)
        };
        let begins = |block: &Arc<Vec<(K, V)>>| block.first().is_some_and(is_passed);
        let block = self.blocks.partition_point(begins).saturating_sub(1);
        let blocks = self.blocks.get(block..).unwrap_or_default();
        let first = blocks.first();
        let passed = first.map_or(0, |block| block.partition_point(is_passed));
        let rest = blocks.iter().flat_map(|block| block.iter()).skip(passed);
        rest.map(|(key, value)| (key, value))
    }

    /// Returns the last entry whose key is at or before the one that is sought. `is_before` tells
    /// which keys are, and is true for a beginning of them.
    pub fn last_where(&self, is_before: impl Fn(&K) -> bool) -> Option<(&K, &V)> {
        let begins =
            |block: &Arc<Vec<(K, V)>>| block.first().is_some_and(|(key, _)| is_before(key));
        let block = self.blocks.partition_point(begins).checked_sub(1)?;
        let block = self.blocks.get(block)?;
        let at = block.partition_point(|(key, _)| is_before(key));
        let (key, value) = block.get(at.checked_sub(1)?)?;
        Some((key, value))
    }

    /// Returns the value of a key.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let is_before = |known: &K| {
            let known: &Q = known.borrow();
            known <= key
        };
        let (found, value) = self.last_where(is_before)?;
        let found: &Q = found.borrow();
        (found == key).then_some(value)
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// Sets the value of a key; returns the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.position(&key) {
            Ok((block, at)) => {
                let (_, before) = self.block(block).get_mut(at)?;
                Some(std::mem::replace(before, value))
            }
            Err((block, at)) => {
                self.insert_at((block, at), (key, value));
                None
            }
        }
    }

    /// Takes a key out; returns its value.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let (block, at) = self.position(key).ok()?;
        let entries = self.block(block);
        let (_, value) = entries.remove(at);
        if entries.is_empty() {
            self.blocks.remove(block);
        }
        self.len = self.len.saturating_sub(1);
        Some(value)
    }

    /// Changes the value of a key, which is the default if there is none; takes it out if
    /// `change` returns false.
    pub fn change(&mut self, key: &K, change: impl FnOnce(&mut V) -> bool)
    where
        V: Default,
    {
        match self.position(key) {
            Ok((block, at)) => {
                let value = self.block(block).get_mut(at).map(|(_, value)| value);
                if !value.is_some_and(change) {
                    self.remove(key);
                }
            }
            Err(place) => {
                let mut value = V::default();
                if change(&mut value) {
                    self.insert_at(place, (key.clone(), value));
                }
            }
        }
    }

    /// Returns block and place of a key, or where it would stand.
    fn position<Q>(&self, key: &Q) -> Result<(usize, usize), (usize, usize)>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let begins = |block: &Arc<Vec<(K, V)>>| {
            let first = block.first();
            first.is_some_and(|(known, _)| {
                let known: &Q = known.borrow();
                known <= key
            })
        };
        // Before the first key it stands in the first block.
        let number = self.blocks.partition_point(begins).saturating_sub(1);
        let Some(block) = self.blocks.get(number) else {
            return Err((0, 0));
        };
        let found = block.binary_search_by(|(known, _)| {
            let known: &Q = known.borrow();
            known.cmp(key)
        });
        found.map(|at| (number, at)).map_err(|at| (number, at))
    }

    /// Returns a block to be changed: a copy of its own, if others share it.
    fn block(&mut self, number: usize) -> &mut Vec<(K, V)> {
        while self.blocks.len() <= number {
            self.blocks.push(Arc::default());
        }
        // Bounded: there are as many.
        let Some(block) = self.blocks.get_mut(number) else {
            unreachable!("it was added")
        };
        Arc::make_mut(block)
    }

    fn insert_at(&mut self, (number, at): (usize, usize), entry: (K, V)) {
        let block = self.block(number);
        assert!(at <= block.len(), "a place in the block");
        // Bounded: looked at above.
        block.insert(at, entry);
        if block.len() > BLOCK_MAX {
            // Bounded: it has more than `BLOCK_MAX`.
            let half = block.split_off(BLOCK_MAX / 2);
            self.blocks.insert(number.saturating_add(1), Arc::new(half));
        }
        self.len = self.len.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Bound;

    use proptest::prelude::*;

    use super::*;

    fn check(map: &SharedMap<u16, u32>, model: &BTreeMap<u16, u32>) {
        assert!(map.iter().eq(model.iter()) && map.iter_after::<u16>(None).eq(model.iter()));
        assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
        for block in &map.blocks {
            assert!(!block.is_empty() && block.len() <= BLOCK_MAX);
        }
    }

    proptest! {
        #[test]
        fn it_is_a_map_and_its_copies_stay_as_they_were(
            steps in prop::collection::vec((0_u16..600, 0_u32..4), 0..1500)
        ) {
            let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
            let mut kept = Vec::new();
            for (number, (key, step)) in steps.into_iter().enumerate() {
                match step {
                    0 => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    1 => prop_assert_eq!(map.insert(key, step), model.insert(key, step)),
                    _ => {
                        map.change(&key, |value| {
                            *value += step;
                            *value < 6
                        });
                        let value = model.entry(key).or_default();
                        *value += step;
                        if *value >= 6 {
                            model.remove(&key);
                        }
                    }
                }
                prop_assert_eq!(map.get(&key), model.get(&key));
                let before = map.last_where(|known| *known <= key);
                prop_assert_eq!(before, model.range(..=key).next_back());
                let after = (Bound::Excluded(key), Bound::Unbounded);
                prop_assert!(map.iter_after(Some(&key)).take(200).eq(model.range(after).take(200)));
                if number % 300 == 0 {
                    kept.push((map.clone(), model.clone()));
                }
            }
            check(&map, &model);
            for (map, model) in kept {
                check(&map, &model);
            }
        }
    }

    #[test]
    fn a_change_copies_one_block() {
        let mut map = SharedMap::default();
        for key in 0_u32..100_000 {
            map.insert(key, Arc::new(()));
        }
        let before = map.clone();
        map.insert(50_000, Arc::new(()));
        map.remove(&70_000);
        let shared = before
            .blocks
            .iter()
            .filter(|block| Arc::strong_count(block) == 2);
        assert_eq!(shared.count(), before.blocks.len() - 2);
    }
}
