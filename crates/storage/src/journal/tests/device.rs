//! A disk of sectors: what is written and not synced is lost, kept or torn by a crash, in any
//! order.

use platform::sim::Rng;

/// The unit that a device writes whole.
pub(super) const SECTOR: usize = 512;

/// A file on the disk.
pub(super) struct Device {
    durable: Vec<u8>,
    pending: Vec<(u64, usize, Vec<u8>)>,
    next: u64,
}

impl Device {
    pub(super) fn new(durable: Vec<u8>) -> Self {
        Self {
            durable,
            pending: Vec::new(),
            next: 0,
        }
    }

    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// Starts a write; returns its number.
    pub(super) fn write(&mut self, place: u64, bytes: Vec<u8>) -> u64 {
        let place = usize::try_from(place).unwrap();
        assert!(place + bytes.len() <= self.durable.len());
        self.next += 1;
        self.pending.push((self.next, place, bytes));
        self.next
    }

    /// Ends a write: it, and nothing else, is durable.
    pub(super) fn synced(&mut self, number: u64) {
        let at = self.pending.iter().position(|write| write.0 == number);
        let (_, place, bytes) = self.pending.remove(at.unwrap());
        self.durable[place..place + bytes.len()].copy_from_slice(&bytes);
    }

    /// Returns the file after a crash.
    pub(super) fn crashed(&self, rng: &mut Rng) -> Vec<u8> {
        let mut file = self.durable.clone();
        let mut pending: Vec<_> = self.pending.iter().collect();
        while !pending.is_empty() {
            let (_, place, bytes) = pending.swap_remove(below(rng, pending.len()));
            tear(&mut file[*place..*place + bytes.len()], bytes, rng);
        }
        file
    }
}

/// Writes some of the sectors.
pub(super) fn tear(file: &mut [u8], bytes: &[u8], rng: &mut Rng) {
    let percent = [0, 10, 50, 90, 100][below(rng, 5)];
    for (to, from) in file.chunks_mut(SECTOR).zip(bytes.chunks(SECTOR)) {
        if rng.chance(percent) {
            to[..from.len()].copy_from_slice(from);
        }
    }
}

pub(super) fn below(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).unwrap()
}
