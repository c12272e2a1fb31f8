//! Random stories of commits, landings, headers and crashes: what a scan gives is exactly a prefix
//! of what was committed, with all that was acknowledged; and the segments with it are the logs.

use std::collections::BTreeMap;

use platform::sim::Rng;

use super::device::{Device, SECTOR, below, tear};
use super::*;
use crate::journal::header::choose;
use crate::journal::ring::{Landing, PlantedBug, Refusal};

const SEEDS: u64 = 60;
const STEPS: u32 = 700;

/// One log: its bytes in memory, and as its segment has them.
struct Log {
    id: LogId,
    bytes: Vec<u8>,
    /// Its bytes as of each commit with a part of it.
    at: BTreeMap<Sequence, Vec<u8>>,
    segment: Vec<u8>,
    landing: Option<(Landing, Vec<u8>)>,
    /// The last commit with a cut: before it is durable nothing lands.
    cut: Sequence,
}

impl Log {
    fn as_of(&self, last: Sequence) -> Vec<u8> {
        let found = self.at.range(..=last).next_back();
        found.map(|(_, bytes)| bytes.clone()).unwrap_or_default()
    }

    /// Returns the segment after a crash: sectors and length are the old or the new ones.
    fn crashed(&self, rng: &mut Rng) -> Vec<u8> {
        let mut segment = self.segment.clone();
        if let Some((_, new)) = &self.landing {
            let len = if rng.chance(50) {
                new.len()
            } else {
                segment.len()
            };
            segment.resize(len.max(new.len()).next_multiple_of(SECTOR), 0);
            tear(&mut segment, new, rng);
            segment.truncate(len);
        }
        segment
    }
}

struct World {
    rng: Rng,
    device: Device,
    ring: Ring,
    /// Writes of commits and skip marks.
    writes: Vec<(Sequence, u64)>,
    header: Option<u64>,
    /// What was committed, in this life and the ones before.
    commits: BTreeMap<Sequence, Option<Vec<Written>>>,
    logs: Vec<Log>,
    planted: Option<PlantedBug>,
    life: u64,
    /// How often a crash met what the model is about.
    seen: BTreeMap<&'static str, u32>,
    end: Head,
}

impl World {
    fn new(seed: u64, planted: Option<PlantedBug>) -> Self {
        let mut rng = Rng::new(seed);
        // A ring that begins anywhere: what was there before is nobody's.
        let position = Position(rng.below(64) * BLOCK);
        let end = Head {
            position,
            sequence: Sequence::FIRST,
        };
        let (_, headers) = opened(end);
        let mut file = vec![0; index_of(small().file_bytes())];
        for header in headers {
            let place = index_of(Header::place_of(header.generation));
            file[place..place + index_of(BLOCK)].copy_from_slice(&header_block(&header));
        }
        let logs = (0..5).map(|number| Log {
            id: log(number),
            bytes: Vec::new(),
            at: BTreeMap::new(),
            segment: Vec::new(),
            landing: None,
            cut: Sequence(0),
        });
        Self {
            rng,
            device: Device::new(file),
            ring: Ring::new(ring_id(), small(), incarnation(100), end, 2).unwrap(),
            writes: Vec::new(),
            header: None,
            commits: BTreeMap::new(),
            logs: logs.collect(),
            planted,
            life: 0,
            seen: BTreeMap::new(),
            end,
        }
        .with_planted()
    }

    fn with_planted(mut self) -> Self {
        self.ring.planted = self.planted;
        self
    }

    fn step(&mut self) -> Result<(), String> {
        match self.rng.below(100) {
            0..28 => self.commit(),
            28..52 => self.end_write(),
            52..66 => self.begin_landing(),
            66..82 => self.end_landing(),
            82..90 => self.begin_header(),
            90..98 => self.end_header(),
            98 if self.rng.chance(50) => return self.crash(),
            _ => {}
        }
        Ok(())
    }

    fn commit(&mut self) {
        let mut written = Vec::new();
        let mut after = Vec::new();
        let first = below(&mut self.rng, self.logs.len());
        let count = 1 + below(&mut self.rng, 3);
        for number in 0..count {
            let log = &self.logs[(first + number) % self.logs.len()];
            let mut bytes = log.bytes.clone();
            let position = |bytes: &Vec<u8>| u32::try_from(bytes.len()).unwrap();
            let cut =
                log.landing.is_none() && self.rng.chance(if bytes.len() > 20_000 { 80 } else { 8 });
            if cut {
                bytes.truncate(below(&mut self.rng, bytes.len() + 1));
                written.push(Written::Cut(log.id, position(&bytes)));
            }
            for _ in 0..below(&mut self.rng, 3) + usize::from(!cut) {
                let len = 1 + below(&mut self.rng, 2500);
                let fill = self.rng.next_u64().to_le_bytes();
                let new: Vec<u8> = fill.into_iter().cycle().take(len).collect();
                written.push(Written::Bytes(log.id, position(&bytes), new.clone()));
                bytes.extend_from_slice(&new);
            }
            after.push((log.id, bytes, cut));
        }
        let parts: Vec<_> = written.iter().map(Written::part).collect();
        let Some(size) = size_of(&parts) else { return };
        let ids: Vec<_> = written.iter().map(Written::log).collect();
        let reserved = match self.ring.reserve(size, &ids) {
            Ok(reserved) => reserved,
            Err(Refusal::Unfit) => {
                assert!(size > small().commit_bytes_max());
                return;
            }
            Err(_) => return,
        };
        if let Some((stamp, skipped)) = reserved.skip {
            self.write(stamp, skip_block(stamp, skipped), None);
        }
        for (id, bytes, cut) in after {
            let log = self.logs.iter_mut().find(|log| log.id == id).unwrap();
            if cut {
                log.cut = reserved.stamp.sequence;
            }
            log.at.insert(reserved.stamp.sequence, bytes.clone());
            log.bytes = bytes;
        }
        let blocks = blocks(reserved.stamp, &written);
        self.write(reserved.stamp, blocks, Some(written));
    }

    fn write(&mut self, stamp: Stamp, bytes: Vec<u8>, written: Option<Vec<Written>>) {
        let place = small().place(stamp.position);
        self.writes
            .push((stamp.sequence, self.device.write(place, bytes)));
        self.commits.insert(stamp.sequence, written);
    }

    fn end_write(&mut self) {
        if self.writes.is_empty() {
            return;
        }
        let at = below(&mut self.rng, self.writes.len());
        let (sequence, write) = self.writes.swap_remove(at);
        self.device.synced(write);
        self.ring.synced(sequence);
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
        let durable = self.ring.durable();
        let log = self.logs.iter_mut().find(|log| log.id == id).unwrap();
        if log.cut >= durable {
            return;
        }
        if let Some(landing) = self.ring.begin_landing(id) {
            let last = Sequence(landing.below.0 - 1);
            log.landing = Some((landing, log.as_of(last)));
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

    fn crash(&mut self) -> Result<(), String> {
        let mut file = self.device.crashed(&mut self.rng);
        self.rot_a_header(&mut file);
        let [first, second] = [&file[..4096], &file[4096..8192]];
        let header = choose([first, second])
            .map_err(|error| error.to_string())?
            .header;
        let ReadBack {
            commits,
            stopped,
            scan,
        } = read_back(&file, &header);
        if stopped.is_damage() || proves_loss(&file, &scan) {
            return Err(format!("taken for damage: {stopped:?}"));
        }
        for (sequence, written) in &commits {
            if self.commits.get(sequence) != Some(written) {
                return Err(format!("{sequence:?} was never written so"));
            }
        }
        let end = scan.end();
        if end.sequence < self.ring.durable() {
            return Err(format!(
                "ends at {:?}, before what was acknowledged",
                end.sequence
            ));
        }
        for log in &mut self.logs {
            let mut bytes = log.crashed(&mut self.rng);
            for written in commits.iter().flat_map(|(_, written)| written).flatten() {
                apply(written, log.id, &mut bytes);
            }
            if bytes != log.as_of(Sequence(end.sequence.0 - 1)) {
                return Err(format!("{:?} is not what it was", log.id));
            }
            log.at.split_off(&end.sequence);
            (log.segment, log.bytes, log.landing) = (bytes.clone(), bytes, None);
            log.cut = Sequence(0);
        }
        let whats = commits.iter().flat_map(|(_, written)| match written {
            None => vec!["skip"],
            Some(parts) => parts
                .iter()
                .map(|part| match part {
                    Written::Cut(..) => "cut",
                    Written::Bytes(..) => "bytes",
                })
                .collect(),
        });
        let stop = match stopped {
            StopReason::Torn => "torn",
            StopReason::OtherIncarnation => "other incarnation",
            _ => "end",
        };
        for what in whats.chain([stop, "crash"]) {
            *self.seen.entry(what).or_default() += 1;
        }
        self.commits.split_off(&end.sequence);
        self.end = end;
        self.life += 1;
        let next = match self.planted {
            Some(PlantedBug::KeepIncarnation) => header.incarnation,
            _ => Incarnation::new(self.rng.next_u64(), Some(header.incarnation)),
        };
        self.ring = Ring::new(ring_id(), small(), next, end, header.generation).unwrap();
        self.ring.planted = self.planted;
        self.device = Device::new(file);
        (self.writes, self.header) = (Vec::new(), None);
        Ok(())
    }

    /// Damages one of two header blocks that are whole.
    fn rot_a_header(&mut self, file: &mut [u8]) {
        let durable = self.device.durable();
        let both = [0, 4096].map(|at| Header::decode(&durable[at..at + 4096]).is_ok());
        if self.header.is_none() && both == [true, true] && self.rng.chance(30) {
            let at = below(&mut self.rng, 2) * 4096 + below(&mut self.rng, 4096);
            file[at] ^= 1;
        }
    }
}

/// Does what a start does with a part.
fn apply(written: &Written, id: LogId, segment: &mut Vec<u8>) {
    match written {
        Written::Cut(log, position) if *log == id => segment.truncate(*position as usize),
        Written::Bytes(log, position, bytes) if *log == id => {
            let (from, to) = (*position as usize, *position as usize + bytes.len());
            segment.resize(segment.len().max(to), 0);
            segment[from..to].copy_from_slice(bytes);
        }
        _ => {}
    }
}

fn run(seed: u64, planted: Option<PlantedBug>) -> Result<World, String> {
    let mut world = World::new(seed, planted);
    for step in 0..STEPS {
        let done = world.step();
        done.map_err(|error| format!("seed {seed}, step {step}: {error}"))?;
    }
    Ok(world)
}

#[test]
fn what_is_read_back_is_what_was_committed() {
    let (mut seen, mut laps) = (BTreeMap::new(), 0);
    for seed in 0..SEEDS {
        let world = run(seed, None).unwrap_or_else(|error| panic!("{error}"));
        laps += world.end.position.0 / small().bytes();
        for (what, count) in world.seen {
            *seen.entry(what).or_default() += count;
        }
    }
    let enough = [
        "bytes",
        "crash",
        "cut",
        "end",
        "other incarnation",
        "skip",
        "torn",
    ];
    assert!(
        laps > 200 && seen.keys().copied().eq(enough),
        "{laps} laps, {seen:?}"
    );
    assert!(seen.values().all(|count: &u32| *count > 5), "{seen:?}");
}

#[track_caller]
fn finds(planted: PlantedBug) {
    let found = (0..SEEDS).find_map(|seed| run(seed, Some(planted)).err());
    assert!(found.is_some(), "{planted:?} was not found");
}

#[test]
fn room_that_is_released_before_the_sync_of_landing_is_found() {
    finds(PlantedBug::ReleaseBeforeLandingSync);
}

#[test]
fn room_that_is_released_before_the_sync_of_its_header_is_found() {
    finds(PlantedBug::ReleaseBeforeHeaderSync);
}

#[test]
fn room_that_one_header_block_still_needs_is_found() {
    finds(PlantedBug::ReleaseByOneBlock);
}

#[test]
fn commits_before_both_blocks_have_the_incarnation_are_found() {
    finds(PlantedBug::OpenByOneBlock);
}

#[test]
fn an_incarnation_that_is_used_twice_is_found() {
    finds(PlantedBug::KeepIncarnation);
}
