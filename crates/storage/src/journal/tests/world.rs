//! What the broker does with a ring, at random: commits, landings, headers, and what goes past the
//! ring or changes its logs. It keeps what the ADR asks of it, but for a planted bug.

use std::collections::BTreeMap;

use platform::sim::Rng;

use super::device::{Device, below};
use super::logs::Log;
use super::*;

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) device: Device,
    pub(super) ring: Ring,
    /// Writes of commits and skip marks.
    pub(super) writes: Vec<(Sequence, u64)>,
    pub(super) header: Option<u64>,
    /// What was committed, in this life and the ones before.
    pub(super) commits: BTreeMap<Sequence, Option<Vec<WrittenPart>>>,
    pub(super) logs: Vec<Log>,
    pub(super) planted: Option<PlantedBug>,
    /// How often the story met what the model is about.
    pub(super) seen: BTreeMap<&'static str, u32>,
    pub(super) start: Head,
    pub(super) end: Head,
}

impl World {
    pub(super) fn new(seed: u64, planted: Option<PlantedBug>) -> Self {
        let mut rng = Rng::new(seed);
        // A ring that begins anywhere: what was there before belongs to no log.
        let start = Head {
            position: Position(rng.below(64) * BLOCK),
            sequence: Sequence::FIRST,
        };
        let (_, headers) = opened(start);
        let mut file = vec![0; index_of(small().file_bytes())];
        for header in &headers {
            let place = index_of(Header::place_of(header.generation));
            file[place..place + index_of(BLOCK)].copy_from_slice(&header_block(header));
        }
        let [_, newest] = headers;
        let mut ring = Ring::after(&newest, 100, start).unwrap();
        ring.planted = planted;
        ring.reserve_at_most(some_reserve(&mut rng));
        Self {
            rng,
            device: Device::new(file),
            ring,
            writes: Vec::new(),
            header: None,
            commits: BTreeMap::new(),
            logs: (0..5).map(|number| Log::new(log(number))).collect(),
            planted,
            seen: BTreeMap::new(),
            start,
            end: start,
        }
    }

    pub(super) fn step(&mut self) -> Result<(), String> {
        match self.rng.below(100) {
            0..28 => self.commit(),
            28..50 => self.end_write(),
            50..63 => self.begin_landing(),
            63..76 => self.end_landing(),
            76..83 => self.begin_header(),
            83..90 => self.end_header(),
            90..92 => self.append_directly(),
            92..95 => self.carry_on(),
            95 if self.rng.chance(50) => self.delete(),
            96..98 => self.make_again(),
            98 if self.rng.chance(60) => return self.crash(),
            // A start is crashed more often.
            99 if self.ring.released().is_none() => return self.crash(),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn commit(&mut self) {
        let mut written = Vec::new();
        let mut after = Vec::new();
        let first = below(&mut self.rng, self.logs.len());
        let count = 1 + below(&mut self.rng, 3);
        for number in 0..count {
            let log = &self.logs[(first + number) % self.logs.len()];
            if !log.is_there {
                continue;
            }
            let mut bytes = log.bytes.clone();
            let cut =
                log.landing.is_none() && self.rng.chance(if bytes.len() > 20_000 { 80 } else { 8 });
            if cut {
                bytes.truncate(below(&mut self.rng, bytes.len() + 1));
                written.push(WrittenPart::cut(log.id, position_of(&bytes)));
            }
            for _ in 0..below(&mut self.rng, 3) + usize::from(!cut) {
                let new = random_bytes(&mut self.rng, 2500);
                written.push(WrittenPart::bytes(log.id, position_of(&bytes), new.clone()));
                bytes.extend_from_slice(&new);
            }
            after.push((log.id, bytes, cut));
        }
        let Some(sequence) = self.write_commit(written) else {
            return;
        };
        for (id, bytes, cut) in after {
            let log = self.logs.iter_mut().find(|log| log.id == id).unwrap();
            log.note(sequence, bytes, cut);
        }
    }

    /// Begins to write a commit, if there is room for it.
    pub(super) fn write_commit(&mut self, written: Vec<WrittenPart>) -> Option<Sequence> {
        let ReservedRoom { skip, stamp } = match reserve(&mut self.ring, &written) {
            Ok(reserved) => reserved,
            Err(Refusal::Unfit) => {
                let parts: Vec<_> = written.iter().map(WrittenPart::part).collect();
                let size = size_of(&parts);
                assert!(size.is_none_or(|size| size > small().commit_bytes_max()));
                return None;
            }
            Err(Refusal::Unreserved) => {
                self.see("unreserved");
                return None;
            }
            Err(_) => return None,
        };
        if let Some((stamp, skipped)) = skip {
            self.write(stamp, skip_block(stamp, skipped), None);
        }
        self.write(stamp, blocks(stamp, &written), Some(written));
        Some(stamp.sequence)
    }

    fn write(&mut self, stamp: Stamp, bytes: Vec<u8>, written: Option<Vec<WrittenPart>>) {
        let place = small().place(stamp.position);
        let write = self.device.write(place, bytes);
        self.writes.push((stamp.sequence, write));
        self.commits.insert(stamp.sequence, written);
    }

    fn end_write(&mut self) {
        if self.writes.is_empty() {
            return;
        }
        let at = below(&mut self.rng, self.writes.len());
        let (sequence, write) = self.writes.swap_remove(at);
        self.device.synced(write);
        let durable = self.ring.synced(sequence);
        for log in &mut self.logs {
            if log.made_by.is_some_and(|cut| cut < durable) {
                log.make();
            }
            if let Some((landing, _)) = log.carried.take_if(|(_, copies)| *copies < durable) {
                log.landed_below = landing.below;
                self.ring.end_landing(landing);
            }
        }
    }

    fn begin_landing(&mut self) {
        // Mostly what releases room, sometimes any log.
        let oldest = self.ring.next_to_land();
        let any = self.logs[below(&mut self.rng, self.logs.len())].id;
        let id = if self.rng.chance(70) {
            oldest.unwrap_or(any)
        } else {
            any
        };
        let log = self.logs.iter_mut().find(|log| log.id == id).unwrap();
        if let Some(landing) = self.ring.begin_landing(id) {
            // As far as the durable commits say, and with what memory has.
            let len = log.as_of(Sequence(landing.below.0 - 1)).len();
            let bytes = log.bytes[..len.min(log.bytes.len())].to_vec();
            log.landing = Some((landing, bytes));
        }
    }

    fn end_landing(&mut self) {
        let is_landing = |log: &&mut Log| log.landing.is_some();
        let mut landing: Vec<_> = self.logs.iter_mut().filter(is_landing).collect();
        if landing.is_empty() {
            return;
        }
        let at = below(&mut self.rng, landing.len());
        let log = landing.swap_remove(at);
        if self.rng.chance(10) {
            // A landing that failed leaves what a crash leaves.
            log.segment = log.crashed(&mut self.rng);
            if let Some((landing, _)) = log.landing.take() {
                self.ring.give_up_landing(landing);
            }
        } else if let Some((landing, bytes)) = log.landing.take() {
            log.segment = bytes;
            log.landed_below = landing.below;
            self.ring.end_landing(landing);
        }
    }

    fn begin_header(&mut self) {
        if let Some(header) = self.ring.begin_header() {
            let place = Header::place_of(header.generation);
            self.header = Some(self.device.write(place, header_block(&header)));
        }
    }

    fn end_header(&mut self) {
        if let Some(write) = self.header.take() {
            self.device.synced(write);
            self.ring.header_synced();
        }
    }
}

/// Returns how much a header reserves: what a commit needs at least, the whole ring at most.
pub(super) fn some_reserve(rng: &mut Rng) -> u64 {
    (8 + rng.below(9)) * BLOCK
}

/// Returns where the next part of a log begins.
pub(super) fn position_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

/// Returns 1 to `max` bytes.
pub(super) fn random_bytes(rng: &mut Rng, max: usize) -> Vec<u8> {
    let len = 1 + below(rng, max);
    let fill = rng.next_u64().to_le_bytes();
    fill.into_iter().cycle().take(len).collect()
}
