//! A disk of sectors: what is written and not synced is lost, kept or torn when the power fails, in
//! any order. When only the process is killed it is read back, and lost by the next power failure.

use std::collections::BTreeMap;

use platform::sim::Rng;

use crate::journal::RING_START;

/// The unit that a device writes whole.
pub(super) const SECTOR: usize = 512;

/// In headers even a sector is torn: they rely on their CRCs alone.
const HEADER_PIECE: usize = 16;

/// A file on the disk.
pub(super) struct Device {
    durable: Vec<u8>,
    /// What a killed process wrote, by its place: it is read, and not durable.
    cached: BTreeMap<usize, Vec<u8>>,
    pending: Vec<(u64, usize, Vec<u8>)>,
    next: u64,
}

impl Device {
    pub(super) fn new(durable: Vec<u8>) -> Self {
        Self {
            durable,
            cached: BTreeMap::new(),
            pending: Vec::new(),
            next: 0,
        }
    }

    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// Returns what a process reads.
    pub(super) fn read(&self) -> Vec<u8> {
        let mut file = self.durable.clone();
        for (place, piece) in &self.cached {
            put(&mut file, *place, piece);
        }
        file
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
        put(&mut self.durable, place, &bytes);
        let range = place..place + bytes.len();
        self.cached.retain(|at, _| !range.contains(at));
    }

    /// Syncs all that is read.
    pub(super) fn sync(&mut self) {
        self.durable = self.read();
        self.cached.clear();
    }

    /// Ends the process: of what it was writing some is read.
    pub(super) fn kill(&mut self, rng: &mut Rng) {
        while !self.pending.is_empty() {
            let (_, place, bytes) = self.pending.swap_remove(below(rng, self.pending.len()));
            for (place, piece) in survivors(piece_at(place), place, &bytes, rng) {
                self.cached.insert(place, piece.to_vec());
            }
        }
    }

    /// Returns the file after a power failure.
    pub(super) fn lose_power(&self, rng: &mut Rng) -> Vec<u8> {
        let mut file = self.durable.clone();
        for (place, piece) in self.cached.iter().filter(|_| rng.chance(50)) {
            put(&mut file, *place, piece);
        }
        let mut pending: Vec<_> = self.pending.iter().collect();
        while !pending.is_empty() {
            let (_, place, bytes) = pending.swap_remove(below(rng, pending.len()));
            for (place, piece) in survivors(piece_at(*place), *place, bytes, rng) {
                put(&mut file, place, piece);
            }
        }
        file
    }
}

/// Writes some of the sectors.
pub(super) fn tear(file: &mut [u8], bytes: &[u8], rng: &mut Rng) {
    for (place, piece) in survivors(SECTOR, 0, bytes, rng) {
        put(file, place, piece);
    }
}

pub(super) fn below(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).unwrap()
}

fn piece_at(place: usize) -> usize {
    let is_header = (place as u64) < RING_START;
    if is_header { HEADER_PIECE } else { SECTOR }
}

/// Returns some pieces of a write, or all, or none, with their places.
fn survivors<'a>(
    piece: usize,
    place: usize,
    bytes: &'a [u8],
    rng: &mut Rng,
) -> Vec<(usize, &'a [u8])> {
    let percent = [0, 10, 50, 90, 100][below(rng, 5)];
    let places = (place..).step_by(piece);
    let pieces = places.zip(bytes.chunks(piece));
    pieces.filter(|_| rng.chance(percent)).collect()
}

fn put(file: &mut [u8], place: usize, bytes: &[u8]) {
    file[place..place + bytes.len()].copy_from_slice(bytes);
}
