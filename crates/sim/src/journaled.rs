//! Journals for some runs: small appends of all logs go through a ring, in the log directory or on
//! a device of its own, which fails in some lives and works again at the next start.
//!
//! The choice is drawn separately from the rest of the plan, so that seeds without journals keep
//! their runs. A life begins as a broker's does: rings that count are replayed, then the ring is
//! opened and the directory marked; where that fails the logs do without. What was acknowledged is
//! checked as in every run. Logs that are refused must be rotten.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use platform::Platform;
use platform::disk::Disk;
use platform::sim::{Rng, SimDisk};
use storage::checkpoint::journal_mark::JournalMark;
use storage::checkpoint::meta_properties::{self, MetaProperties};
use storage::journal::header::RingId;
use storage::journal::replay::ReplayReport;
use storage::journal::start::{UnsettledDirectory, renew_ring, settle};
use storage::journal::{RingSize, marked};
use storage::{JournalOptions, Store};
use wire::types::{NodeId, TimestampMs, Uuid};

use crate::directory::DIR;
use crate::report::Journal;
use crate::world::{PlantedBug, World};

/// A device for rings.
const DEVICE: &str = "/ring";
const CLUSTER: &str = "c";
const DIRECTORY_ID: Uuid = Uuid::from_u128(500);
/// Separates this draw from that of the plan.
const SALT: u64 = 0x7269_6e67;

/// The journal of a run.
#[derive(Clone, Debug)]
pub struct Journaled {
    /// Where the ring is; `None`: in the log directory.
    device: Option<&'static str>,
    size: RingSize,
    options: JournalOptions,
    /// The lives in which the ring's device fails.
    loses_device: Vec<bool>,
}

impl Journaled {
    /// Decides whether a run has a journal.
    pub(crate) fn draw(seed: u64, lives: usize, planted: Option<PlantedBug>) -> Option<Self> {
        let mut rng = Rng::new(seed ^ SALT);
        let is_wanted = match planted {
            None => rng.chance(60),
            // Room has to be used again, and nothing else may go wrong.
            Some(planted) => planted == PlantedBug::ReleasedBeforeSync,
        };
        let device = drawn(&mut rng, &[None, Some(DEVICE)]);
        let bytes = drawn(&mut rng, &[64 << 10, 128 << 10, 1 << 20]);
        let options = JournalOptions {
            bypass_bytes: drawn(&mut rng, &[4 << 10, 16 << 10, 128 << 10]),
            land_bytes: drawn(&mut rng, &[8 << 10, 64 << 10]),
            land_after: Duration::from_millis(drawn(&mut rng, &[100, 1000])),
            unlanded_bytes_max: drawn(&mut rng, &[32 << 10, 128 << 10]),
        };
        let loses = |_| planted.is_none() && device.is_some() && rng.chance(25);
        let loses_device = (0..lives).map(loses).collect();
        is_wanted.then(|| Self {
            device,
            size: RingSize::new(bytes).expect("whole blocks"),
            options,
            loses_device,
        })
    }

    /// Makes the device of the ring.
    pub(crate) fn make_device(&self, disk: &SimDisk) {
        if let Some(device) = self.device {
            let put = disk.put(&Path::new(device).join("keep"), b"x");
            put.expect("a healthy disk");
        }
    }

    /// Has the device work or fail.
    pub(crate) fn set_broken(&self, life: usize, disk: &SimDisk, is_broken: bool) {
        let is_meant = self.loses_device.get(life).copied().unwrap_or(false);
        if let Some(device) = self.device.filter(|_| is_meant || !is_broken) {
            let error = is_broken.then_some(io::ErrorKind::Other);
            disk.set_broken(Path::new(device), error);
        }
    }

    /// Gives the logs what the ring has of them, before they are opened.
    pub(crate) async fn settle<W: World>(&self, world: &W) -> io::Result<ReplayReport> {
        format(world).await?;
        let dir = UnsettledDirectory {
            path: Path::new(DIR),
            rings_dir: None,
            also_in: &[],
            gives_up: false,
        };
        let settled = settle(world, &dir).await;
        Ok(settled.map_err(io::Error::other)?.report)
    }

    /// Has the logs use the ring, if it can be opened and the directory marked.
    pub(crate) async fn begin<W: World>(&self, world: &W, store: &Store<W>) {
        if let Err(error) = self.try_begin(world, store).await {
            store.go_without_journal(Path::new(DIR), error.to_string());
        }
    }

    async fn try_begin<W: World>(&self, world: &W, store: &Store<W>) -> io::Result<()> {
        let id = RingId {
            cluster_id: CLUSTER.to_owned(),
            directory_id: DIRECTORY_ID,
            shard: 0,
        };
        let rings_dir = Path::new(self.device.unwrap_or(DIR));
        let ring = renew_ring(world, id, rings_dir, self.size).await;
        let ring = ring.map_err(io::Error::other)?;
        let mark = JournalMark {
            dir: self.device.map(PathBuf::from),
            rings: vec![ring.mark()],
        };
        let marked = marked::mark(world.disk(), Path::new(DIR), mark, now(world)).await;
        marked.map_err(io::Error::other)?;
        let used = store.use_journal(Path::new(DIR), ring, self.options);
        used.map_err(io::Error::other)
    }

    /// Ends the use of the ring after the logs were closed; nothing in it is needed then.
    pub(crate) async fn end<W: World>(&self, world: &W, store: &Store<W>) -> storage::Result<()> {
        store.close_journal(Path::new(DIR)).await?;
        let unmarked = marked::unmark(world.disk(), Path::new(DIR), now(world)).await;
        unmarked.map_err(|error| storage::Error::Failed {
            reason: error.to_string().into(),
        })
    }
}

fn drawn<T: Copy, const N: usize>(rng: &mut Rng, choices: &[T; N]) -> T {
    let at = usize::try_from(rng.below(N as u64)).unwrap_or(0);
    choices[at]
}

/// Checks that a replay has refused only logs that are rotten.
pub(crate) fn check(report: &ReplayReport, journal: &Journal, is_rotten: impl Fn(&Path) -> bool) {
    let refused = report.refused.iter();
    let unexplained = refused.filter(|log| !is_rotten(&log.folder)).count();
    journal.check(unexplained == 0, || {
        format!("logs do not fit to their journal: {:?}", report.refused)
    });
    let commits = report.rings.iter().map(|ring| ring.commits).sum::<u64>();
    journal.count(|counts| counts.replayed += commits);
}

/// Makes the log directory, and writes `meta.properties`, at the first start.
async fn format<W: World>(world: &W) -> io::Result<()> {
    world.disk().create_dir(Path::new(DIR)).await?;
    let file = Path::new(DIR).join(meta_properties::FILE);
    match world.disk().read_file(&file).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read.map(drop),
    }
    let meta = MetaProperties {
        cluster_id: CLUSTER.to_owned(),
        node_id: NodeId(1),
        directory_id: Some(DIRECTORY_ID),
        journal: None,
    };
    let bytes = meta_properties::encode(&meta, now(world));
    world.disk().replace_file(&file, &bytes).await
}

fn now<P: Platform>(world: &P) -> TimestampMs {
    TimestampMs(world.clock().wall_ms())
}
