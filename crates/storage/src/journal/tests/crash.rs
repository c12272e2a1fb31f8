//! A crash of the model, and the start after it: what is read back is what was committed, with all
//! that was acknowledged.

use super::device::{Device, below};
use super::logs::apply;
use super::world::{World, some_reserve};
use super::*;
use crate::journal::header::choose;

impl World {
    pub(super) fn crash(&mut self) -> Result<(), String> {
        let file = if self.rng.chance(50) {
            self.kill()
        } else {
            self.lose_power()
        };
        let [first, second] = [&file[..4096], &file[4096..8192]];
        let header = choose([first, second])
            .map_err(|error| error.to_string())?
            .header;
        let mut found = read_back(&file, &header);
        if found.stopped.is_damage() || proves_loss(&file, &mut found.scan) {
            return Err(format!("taken for damage: {:?}", found.stopped));
        }
        for (sequence, written) in &found.commits {
            if self.commits.get(sequence) != Some(written) {
                return Err(format!("{sequence:?} was never written so"));
            }
        }
        let end = found.scan.end().expect("it is no damage");
        if end.sequence < self.ring.durable() {
            return Err(format!(
                "ends at {:?}, before what was acknowledged",
                end.sequence
            ));
        }
        self.see_what_was(&found);
        self.replay(&found, end.sequence)?;
        self.commits.split_off(&end.sequence);
        self.end = end;
        self.ring = match self.planted {
            Some(PlantedBug::KeepIncarnation) => {
                let Header {
                    incarnation,
                    generation,
                    ..
                } = header;
                Ring::begin(ring_id(), small(), incarnation, end, generation)
            }
            _ => Ring::after(&header, self.rng.next_u64(), end).unwrap(),
        };
        self.ring.planted = self.planted;
        self.ring.reserve_at_most(some_reserve(&mut self.rng));
        (self.writes, self.header) = (Vec::new(), None);
        Ok(())
    }

    /// Ends the process; returns what the next one reads.
    fn kill(&mut self) -> Vec<u8> {
        self.see("killed");
        self.device.kill(&mut self.rng);
        if self.planted != Some(PlantedBug::ReadBeforeSync) {
            self.device.sync();
        }
        self.device.read()
    }

    /// Ends all; returns what is on the disk.
    fn lose_power(&mut self) -> Vec<u8> {
        self.see("power lost");
        let mut file = self.device.lose_power(&mut self.rng);
        self.rot_a_header(&mut file);
        self.device = Device::new(file.clone());
        file
    }

    /// Damages one of two header blocks that are whole.
    fn rot_a_header(&mut self, file: &mut [u8]) {
        let both = [0, 4096].map(|at| {
            let range = at..at + 4096;
            let durable = Header::decode(&self.device.durable()[range.clone()]);
            durable.is_ok() && durable == Header::decode(&file[range])
        });
        if both == [true, true] && self.rng.chance(30) {
            let at = below(&mut self.rng, 2) * 4096 + below(&mut self.rng, 4096);
            file[at] ^= 1;
        }
    }

    /// Puts the parts into the segments, which are then what the logs were.
    fn replay(&mut self, found: &ReadBack, end: Sequence) -> Result<(), String> {
        for log in &mut self.logs {
            let mut segment = log.crashed(&mut self.rng);
            for written in found.commits.iter().flat_map(|(_, parts)| parts).flatten() {
                apply(written, log.id, &mut segment);
            }
            // Parts of a log that was deleted are dropped.
            if log.is_there && segment != log.as_of(Sequence(end.0 - 1)) {
                return Err(format!("{:?} is not what it was", log.id));
            }
            log.restart(end, segment);
        }
        Ok(())
    }

    fn see_what_was(&mut self, found: &ReadBack) {
        for (_, parts) in &found.commits {
            let Some(parts) = parts else {
                self.see("skip");
                continue;
            };
            for part in parts {
                self.see(match part.what {
                    PartContent::Cut(_) => "cut",
                    PartContent::Bytes(..) => "bytes",
                });
            }
        }
        self.see(match found.stopped {
            StopReason::Torn => "torn",
            StopReason::OtherIncarnation => "other incarnation",
            _ => "end",
        });
    }
}
