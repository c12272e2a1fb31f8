//! What a seed decides before the run: the logs, their settings and producers, the lives, their
//! faults and ends.

use std::io;
use std::time::Duration;

use platform::sim::{OpKind, Rng};
use storage::{Durability, LogOptions, StoreOptions};

use crate::dirs::Dirs;
use crate::journaled::Journaled;
use crate::tiers::Tiers;
use crate::world::PlantedBug;

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The logs.
    pub logs: Vec<LogPlan>,
    /// The lives, in order.
    pub lives: Vec<LifePlan>,
    /// Settings of the store.
    pub store: StoreOptions,
    /// The planted bug.
    pub planted: Option<PlantedBug>,
    /// The tiers, if the run has any.
    pub tiers: Option<Tiers>,
    /// The log directories, if the run has two.
    pub dirs: Option<Dirs>,
    /// The journal, if the run has one.
    pub journaled: Option<Journaled>,
}

/// The plan of one log.
#[derive(Clone, Debug)]
pub struct LogPlan {
    /// Its settings.
    pub options: LogOptions,
    /// The number of idempotent producers.
    pub idempotent_producers: usize,
    /// The number of producers without idempotence.
    pub plain_producers: usize,
    /// Its records have the time of their append as timestamp.
    pub append_time: bool,
    /// The owner truncates it from time to time.
    pub truncated: bool,
}

/// The plan of one life.
#[derive(Clone, Debug)]
pub struct LifePlan {
    /// The length of the life, in simulated time.
    pub duration: Duration,
    /// The least and the greatest latency of the disk.
    pub latency: (Duration, Duration),
    /// The fault.
    pub trouble: Trouble,
    /// The fault begins when the logs are opened, not only afterwards.
    pub trouble_at_open: bool,
    /// How far the wall clock jumps at each turn, alternately forward and back.
    pub clock_jump_ms: i64,
    /// How the life ends.
    pub end: End,
}

/// The fault of a life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// No fault.
    None,
    /// One operation fails.
    Fails {
        /// How many operations (of that kind) succeed before.
        skip: u64,
        /// The kind of operation; any if not given.
        kind: Option<OpKind>,
        /// The error.
        error: io::ErrorKind,
    },
    /// The power is lost in the middle of an operation.
    PowerOff {
        /// How many operations succeed before.
        skip: u64,
    },
    /// The disk has limited room for the first half of the life.
    Full {
        /// The room that is left.
        room_bytes: u64,
    },
    /// The disk is read-only for the second half of the life.
    ReadOnly,
    /// Repeated shortages of the machine, with pauses of the same length.
    Spells {
        /// The kind of shortage.
        of: Spell,
        /// The number of shortages.
        count: u32,
    },
    /// Some bits of one log's files are flipped before it is opened.
    Rot {
        /// The number of bits.
        bits: u64,
    },
}

/// A temporary shortage of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spell {
    /// The disk has limited room.
    Room {
        /// The room that is left.
        bytes: u64,
    },
    /// No descriptor is available: EMFILE (24), or ENFILE (23).
    Descriptors {
        /// The error number of the operating system.
        errno: i32,
    },
}

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Every log is closed, then the power is lost.
    Stop,
    /// The process is killed.
    Kill,
    /// The power is lost.
    PowerLoss,
}

/// A second, an hour or a day in either direction; the sum is less than the time after which a
/// producer is forgotten.
const CLOCK_JUMPS_MS: [i64; 10] = [
    0,
    0,
    0,
    0,
    1000,
    -1000,
    3_600_000,
    -3_600_000,
    86_400_000,
    -86_400_000,
];

const KINDS: [OpKind; 9] = [
    OpKind::Write,
    OpKind::Sync,
    OpKind::Create,
    OpKind::Rename,
    OpKind::Allocate,
    OpKind::SetLen,
    OpKind::SyncDir,
    OpKind::RemoveFile,
    OpKind::Read,
];

impl Plan {
    /// Draws the plan.
    pub fn draw(rng: &mut Rng, planted: Option<PlantedBug>) -> Self {
        let logs = (0..=rng.below(3)).map(|_| LogPlan::draw(rng)).collect();
        let lives = (0..3 + rng.below(4)).map(|_| LifePlan::draw(rng)).collect();
        Self {
            logs,
            lives,
            store: store_options(rng),
            planted,
            tiers: None,
            dirs: None,
            journaled: None,
        }
    }
}

impl LogPlan {
    fn draw(rng: &mut Rng) -> Self {
        let durability = if rng.chance(70) {
            Durability::Synced
        } else {
            Durability::Replicated
        };
        let options = LogOptions {
            segment_bytes: one_of(rng, &[4 << 10, 16 << 10, 64 << 10, 1 << 20]),
            segment_ms: rng.chance(30).then_some(2000),
            segment_jitter_ms: one_of(rng, &[0, 0, 500]),
            index_interval_bytes: one_of(rng, &[0, 1000, 4096]),
            index_bytes_max: one_of(rng, &[48, 1024, 1 << 20]),
            retention_ms: rng.chance(20).then_some(4000),
            retention_bytes: rng.chance(40).then_some(64 << 10),
            flush_messages: one_of(rng, &[1, 50, u64::MAX]),
            flush_ms: one_of(rng, &[500, 3000, u64::MAX]),
            max_batch_bytes: 64 << 10,
            delete: true,
            compact: false,
            durability,
            preallocate: rng.chance(70),
            reserve_bytes: 0,
            file_delete_delay_ms: one_of(rng, &[0, 100, 60_000]),
            producer_id_expiration_ms: 7 * 86_400_000,
            tier_pins: None,
        };
        Self {
            options,
            idempotent_producers: usize::try_from(1 + rng.below(3)).unwrap_or(1),
            plain_producers: usize::from(rng.chance(50)),
            append_time: rng.chance(25),
            truncated: rng.chance(30),
        }
    }
}

impl LifePlan {
    fn draw(rng: &mut Rng) -> Self {
        let millis = Duration::from_millis;
        let trouble = Trouble::draw(rng);
        let end = one_of(rng, &[End::Stop, End::Kill, End::PowerLoss, End::PowerLoss]);
        Self {
            duration: millis(one_of(rng, &[50, 500, 3000, 8000])),
            latency: (Duration::ZERO, millis(one_of(rng, &[0, 1, 5, 5, 20, 100]))),
            trouble,
            trouble_at_open: rng.chance(25),
            clock_jump_ms: one_of(rng, &CLOCK_JUMPS_MS),
            end: match end {
                // Only a restart of the machine shows the effect of a failed sync.
                End::Kill if trouble.may_fail_a_sync() => End::PowerLoss,
                end => end,
            },
        }
    }
}

impl Trouble {
    fn draw(rng: &mut Rng) -> Self {
        match rng.below(14) {
            0..=1 => Self::Fails {
                skip: rng.below(300),
                kind: None,
                error: io::ErrorKind::Other,
            },
            2..=3 => {
                let kind = one_of(rng, &KINDS);
                let error = one_of(rng, &[io::ErrorKind::Other, io::ErrorKind::StorageFull]);
                Self::Fails {
                    skip: rng.below(30),
                    kind: Some(kind),
                    error: if kind == OpKind::Write {
                        error
                    } else {
                        io::ErrorKind::Other
                    },
                }
            }
            4..=6 => Self::PowerOff {
                skip: rng.below(400),
            },
            7 => Self::Full {
                room_bytes: rng.below(200 << 10),
            },
            8 => Self::ReadOnly,
            10 => Self::Spells {
                of: Spell::Room {
                    bytes: rng.below(100 << 10),
                },
                count: spells(rng),
            },
            11 => Self::Spells {
                of: Spell::Descriptors {
                    errno: one_of(rng, &[24, 23]),
                },
                count: spells(rng),
            },
            9 => Self::Rot {
                bits: 1 + rng.below(20),
            },
            _ => Self::None,
        }
    }

    fn may_fail_a_sync(self) -> bool {
        match self {
            Self::PowerOff { .. } => true,
            Self::Fails { kind, .. } => matches!(kind, None | Some(OpKind::Sync)),
            _ => false,
        }
    }

    /// Returns true when descriptors run out.
    pub(crate) fn takes_descriptors(self) -> bool {
        let of_descriptors = |of| matches!(of, Spell::Descriptors { .. });
        matches!(self, Self::Spells { of, .. } if of_descriptors(of))
    }

    /// Returns the number of parts of a life.
    pub(crate) fn turns(self) -> u32 {
        match self {
            Self::Spells { count, .. } => 2 * count,
            _ => 2,
        }
    }

    /// Returns true when the fault ends, so that a log must have recovered by the end of the life.
    pub(crate) fn passes(self) -> bool {
        matches!(self, Self::Full { .. } | Self::Spells { .. })
    }

    /// Returns true when a disk operation may fail without a mistake of its caller.
    pub(crate) fn fails_operations(self) -> bool {
        !matches!(self, Self::None | Self::Rot { .. })
    }
}

fn spells(rng: &mut Rng) -> u32 {
    one_of(rng, &[1, 2, 5])
}

fn store_options(rng: &mut Rng) -> StoreOptions {
    let cache_bytes_max = one_of(rng, &[0, 256 << 10, 4 << 20]);
    StoreOptions {
        cache_bytes_max,
        cache_bytes_start: cache_bytes_max / 4,
        unwritten_bytes_max: one_of(rng, &[512 << 10, 4 << 20]),
        chunk_bytes: one_of(rng, &[16 << 10, 64 << 10]),
        // The background thread would make runs differ.
        reserve_chunks: 0,
        allocate_step_bytes: one_of(rng, &[16 << 10, 256 << 10]),
        save_interval_bytes: one_of(rng, &[16 << 10, 128 << 10, 64 << 20]),
        read_ahead_bytes_max: one_of(rng, &[0, 64 << 10]),
        open_segments_max: one_of(rng, &[1, 4, 100]),
    }
}

pub(crate) fn one_of<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    let at = usize::try_from(rng.below(choices.len() as u64)).unwrap_or(0);
    choices[at.min(choices.len() - 1)]
}
