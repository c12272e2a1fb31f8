//! Slower tiers for some runs, whose paths are missing in some lives and present again in others.
//!
//! Some runs have one slow path, others two. Each of two may be missing or read-only, and may be
//! drained, independently of the other. Which of them is faster differs between lives, so that
//! segments move in both directions. The tiers are drawn separately from the rest of the plan, so
//! that seeds without tiers, or with one slow path, keep their runs. A missing path must not lead
//! to conclusions: segments that are there are served, all others are refused and return with the
//! path.

use std::path::Path;
use std::sync::Arc;

use platform::sim::{Rng, SimDisk};
use storage::checkpoint::meta_properties;
use storage::tier::policy::PolicySettings;
use storage::tier::{Capacity, Medium, PathOptions, Safety, TierOptions, TierTable};
use wire::types::Uuid;

use crate::directory::DIR;
use crate::plan::one_of;

const BULK: &str = "/bulk";
const COLD: &str = "/cold";
/// Directories are identified by their number in this list, from 1.
const DIRS: [&str; 3] = [DIR, BULK, COLD];
const BULK_NOTE: &str = "00000000000000000000000000000002.away";
const COLD_NOTE: &str = "00000000000000000000000000000003.away";
/// More room than a run can use.
const SPACE_BYTES: u64 = 1 << 40;
/// Separates this draw from that of the plan.
const SALT: u64 = 0x7469_6572;
/// Separates the draw of two slow paths from both others.
const SALT_OF_TWO: u64 = 0x7477_6f73;

/// The tiers of a run.
#[derive(Clone, Debug)]
pub struct Tiers {
    lives: Vec<TiersLife>,
}

/// The slow paths in one life.
#[derive(Clone, Copy, Debug)]
struct TiersLife {
    bulk: SlowInLife,
    cold: Option<SlowInLife>,
    order: Order,
    /// Only draining segments move.
    still: bool,
}

/// How a path is away from the start of a life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathAbsence {
    No,
    Missing,
    ReadOnly,
}

/// A slow path, with its notes and its state in a life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowPath {
    pub(crate) dir: &'static str,
    /// The end of the name of a note without text that stands for this path.
    pub(crate) note: &'static str,
    pub(crate) away: PathAbsence,
}

/// A slow path in one life.
#[derive(Clone, Copy, Debug)]
struct SlowInLife {
    state: SlowPathState,
    drained: DrainTime,
}

/// The state of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SlowPathState {
    Well,
    /// It is missing.
    Missing,
    /// Its file system is mounted read-only.
    ReadOnly,
    /// It becomes read-only during the life.
    TurnsReadOnly,
}

/// Whether a path is drained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DrainTime {
    No,
    /// From the start.
    AtStart,
    /// From the first turn of the life.
    AtTurn,
}

/// Which of two slow paths is the faster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    BulkFirst,
    ColdFirst,
    /// They are of one tier.
    Same,
}

impl Tiers {
    /// Decides whether a run with this many lives has one slow path, and when that path is missing.
    pub(crate) fn draw(seed: u64, lives: usize) -> Option<Self> {
        let mut rng = Rng::new(seed ^ SALT);
        let one = |missing| TiersLife {
            bulk: SlowInLife {
                state: if missing {
                    SlowPathState::Missing
                } else {
                    SlowPathState::Well
                },
                drained: DrainTime::No,
            },
            cold: None,
            order: Order::BulkFirst,
            still: false,
        };
        rng.chance(25).then(|| Self {
            lives: (0..lives)
                .map(|life| one(life > 0 && rng.chance(35)))
                .collect(),
        })
    }

    /// Decides the same for two slow paths.
    pub(crate) fn draw_two(seed: u64, lives: usize) -> Option<Self> {
        let mut rng = Rng::new(seed ^ SALT_OF_TWO);
        if !rng.chance(50) {
            return None;
        }
        let mut states = [SlowPathState::Well; 2];
        let lives = (0..lives).map(|life| {
            states = states.map(|before| SlowPathState::draw(&mut rng, life, before));
            let order = one_of(&mut rng, &[Order::BulkFirst, Order::ColdFirst, Order::Same]);
            let drained = match rng.below(6) {
                0..=1 => [true, false],
                2..=3 => [false, true],
                4 => [true, true],
                _ => [false, false],
            };
            let [bulk, cold] = [0, 1].map(|at: usize| {
                let when = one_of(&mut rng, &[DrainTime::AtStart, DrainTime::AtTurn]);
                SlowInLife {
                    state: states[at],
                    drained: if drained[at] { when } else { DrainTime::No },
                }
            });
            TiersLife {
                bulk,
                cold: Some(cold),
                order,
                still: rng.chance(20),
            }
        });
        Some(Self {
            lives: lives.collect(),
        })
    }

    fn life(&self, life: usize) -> Option<TiersLife> {
        self.lives.get(life).copied()
    }

    /// Returns true when a path is missing or read-only from the start of a life, so that its
    /// segments may be refused.
    pub(crate) fn is_missing(&self, life: usize) -> bool {
        self.any(life, |state| {
            matches!(state, SlowPathState::Missing | SlowPathState::ReadOnly)
        })
    }

    /// Returns true when a path is read-only at some time of a life.
    pub(crate) fn is_read_only(&self, life: usize) -> bool {
        self.any(life, |state| {
            matches!(
                state,
                SlowPathState::ReadOnly | SlowPathState::TurnsReadOnly
            )
        })
    }

    fn any(&self, life: usize, is: impl Fn(SlowPathState) -> bool) -> bool {
        self.life(life)
            .is_some_and(|life| life.paths().any(|(_, slow)| is(slow.state)))
    }

    /// Returns the directories of the paths that are missing in a life.
    pub(crate) fn missing_dirs(&self, life: usize) -> Vec<&'static Path> {
        let paths = self.life(life).into_iter().flat_map(TiersLife::paths);
        let missing = paths.filter(|(_, slow)| slow.state == SlowPathState::Missing);
        missing.map(|(dir, _)| Path::new(dir)).collect()
    }

    /// Returns the slow paths, if there are two.
    pub(crate) fn slow_paths(&self, life: usize) -> Vec<SlowPath> {
        let path = |(dir, slow): (&'static str, SlowInLife)| SlowPath {
            dir,
            note: if dir == BULK { BULK_NOTE } else { COLD_NOTE },
            away: match slow.state {
                SlowPathState::Well | SlowPathState::TurnsReadOnly => PathAbsence::No,
                SlowPathState::Missing => PathAbsence::Missing,
                SlowPathState::ReadOnly => PathAbsence::ReadOnly,
            },
        };
        self.of_two(life).map(path).collect()
    }

    /// Returns the tier table of a life.
    pub(crate) fn table(&self, life: usize) -> Arc<TierTable> {
        let life = self.life(life);
        let mut tiers = vec![tier("fast", &[DIR])];
        match life.and_then(|life| life.cold.map(|_| life.order)) {
            None => tiers.push(tier("bulk", &[BULK])),
            Some(Order::Same) => tiers.push(tier("bulk", &[BULK, COLD])),
            Some(Order::BulkFirst) => {
                tiers.extend([tier("bulk", &[BULK]), tier("cold", &[COLD])]);
            }
            Some(Order::ColdFirst) => {
                tiers.extend([tier("cold", &[COLD]), tier("bulk", &[BULK])]);
            }
        }
        let table = TierTable::new(tiers);
        for path in table.paths() {
            path.note_space(SPACE_BYTES, SPACE_BYTES);
            // Each start finds the same directories, and knows which one is missing.
            let known = (1..).zip(DIRS);
            for (id, _) in known.filter(|(_, dir)| path.dir() == Path::new(dir)) {
                path.set_identity(Uuid::from_u128(id));
            }
        }
        for (dir, slow) in life.into_iter().flat_map(TiersLife::paths) {
            let Some(path) = table.holding(Path::new(dir)) else {
                continue;
            };
            if slow.state == SlowPathState::Missing {
                path.fail("it is not mounted");
            }
            path.set_draining(slow.drained == DrainTime::AtStart);
        }
        table
    }

    /// Returns the movement settings of a life.
    pub(crate) fn policy(&self, life: usize) -> PolicySettings {
        let still = self.life(life).is_some_and(|life| life.still);
        PolicySettings {
            threshold: (!still).then_some(0.0),
            ..eager()
        }
    }

    /// Sets the disk to its state at the start of a life.
    pub(crate) fn begin(&self, life: usize, disk: &SimDisk) {
        for (dir, slow) in self.of_two(life) {
            disk.set_read_only_below(Path::new(dir), slow.state == SlowPathState::ReadOnly);
        }
    }

    /// Applies the changes of the first turn of a life.
    pub(crate) fn turn(&self, life: usize, disk: &SimDisk, table: &TierTable) {
        for (dir, slow) in self.of_two(life) {
            let dir = Path::new(dir);
            if slow.state == SlowPathState::TurnsReadOnly {
                disk.set_read_only_below(dir, true);
            }
            if slow.drained == DrainTime::AtTurn
                && let Some(path) = table.holding(dir)
            {
                path.set_draining(true);
            }
        }
    }

    /// Returns the slow paths of a life, if there are two.
    fn of_two(&self, life: usize) -> impl Iterator<Item = (&'static str, SlowInLife)> {
        let life = self.life(life).filter(|life| life.cold.is_some());
        life.into_iter().flat_map(TiersLife::paths)
    }
}

impl TiersLife {
    fn paths(self) -> impl Iterator<Item = (&'static str, SlowInLife)> {
        let cold = self.cold.map(|cold| (COLD, cold));
        [(BULK, self.bulk)].into_iter().chain(cold)
    }
}

impl SlowPathState {
    fn draw(rng: &mut Rng, life: usize, before: Self) -> Self {
        let was_read_only = matches!(before, Self::ReadOnly | Self::TurnsReadOnly);
        let drawn = match rng.below(100) {
            0..30 => Self::Missing,
            30..40 => Self::ReadOnly,
            40..50 => Self::TurnsReadOnly,
            _ => Self::Well,
        };
        let stays = rng.chance(50);
        match drawn {
            // A file system that became read-only may stay so at the next start.
            _ if was_read_only && stays => Self::ReadOnly,
            Self::Missing | Self::ReadOnly if life == 0 => Self::Well,
            drawn => drawn,
        }
    }
}

/// Creates the other paths durably, each with its identity file.
///
/// A start of the broker does so before any log is opened, and takes a path offline that it cannot
/// create.
pub(crate) fn make_paths(disk: &SimDisk, tiers: &Tiers) {
    let first = tiers.life(0).into_iter().flat_map(TiersLife::paths);
    for (dir, _) in first {
        let identity = Path::new(dir).join(meta_properties::FILE);
        let made = disk.put(&identity, b"version=1\n");
        made.expect("nothing is there yet");
    }
}

fn tier(name: &str, dirs: &[&str]) -> TierOptions {
    let path = |dir: &&str| PathOptions {
        dir: dir.into(),
        capacity: Capacity::Bytes(SPACE_BYTES),
    };
    TierOptions {
        name: name.into(),
        paths: dirs.iter().map(path).collect(),
        medium: Medium::File,
        safety: Safety::Durable,
        read_bytes_per_second: None,
        write_bytes_per_second: None,
    }
}

/// Returns settings that move a segment as soon as it is sealed.
fn eager() -> PolicySettings {
    PolicySettings {
        threshold: Some(0.0),
        hysteresis: 0.0,
        reserve: 0.0,
        threads: 1,
        bytes_per_second: None,
        residency_ms: 0,
        heat_ms: 0,
        ..PolicySettings::DEFAULTS
    }
}
