//! Two log directories for some runs; one is absent at some starts and present again at the next.
//!
//! The choice is drawn separately from the rest of the plan, so that seeds with one directory keep
//! their runs. The directories are read as the broker reads them. A start without one of them must
//! be refused, whatever is in its place, with an error that names the place, and must change
//! nothing. With both of them, in either order, every log starts where it did and has every record:
//! the checks after recovery verify that without knowing of the refused start.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use broker::log_dirs::LogDirs;
use platform::Platform;
use platform::disk::Disk;
use platform::sim::{Rng, SimDisk};
use storage::checkpoint::partition_metadata;
use wire::types::TopicId;

use crate::directory::DIR;
use crate::plan::one_of;

const SECOND: &str = "/more";
/// A path that does not exist.
const NOWHERE: &str = "/dta";
/// The metadata log, without which the other logs have no meaning; only its folder is created here.
const METADATA: &str = "/data/__cluster_metadata-0";
/// Separates this draw from that of the plan.
const SALT: u64 = 0x6c6f_6764;

/// How a directory is absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DirAbsence {
    /// Its file system is not mounted, so an empty directory is in its place.
    Unmounted,
    /// The settings do not name it.
    LeftOut,
    /// The settings name another path, which does not exist.
    Misspelt,
    /// All operations on it fail.
    Failing,
}

/// A start without a directory.
#[derive(Clone, Copy, Debug)]
struct Absence {
    dir: &'static str,
    how: DirAbsence,
}

/// The log directories of a run.
#[derive(Clone, Debug)]
pub struct Dirs {
    /// The home directory of each log.
    homes: Vec<&'static str>,
    /// The directory that is absent at the start before each life.
    absent: Vec<Option<Absence>>,
    /// Whether the settings of a life name the second directory first.
    swapped: Vec<bool>,
}

impl Dirs {
    /// Decides whether a run with this many logs and lives has two directories, and how they are
    /// absent.
    pub(crate) fn draw(seed: u64, logs: usize, lives: usize) -> Option<Self> {
        let mut rng = Rng::new(seed ^ SALT);
        let hows = [
            DirAbsence::Unmounted,
            DirAbsence::LeftOut,
            DirAbsence::Misspelt,
            DirAbsence::Failing,
        ];
        rng.chance(30).then(|| Self {
            homes: (0..logs)
                .map(|_| one_of(&mut rng, &[DIR, SECOND]))
                .collect(),
            absent: (0..lives)
                .map(|life| {
                    let dir = one_of(&mut rng, &[DIR, SECOND]);
                    let how = one_of(&mut rng, &hows);
                    (life > 0 && rng.chance(50)).then_some(Absence { dir, how })
                })
                .collect(),
            swapped: (0..lives).map(|_| rng.chance(20)).collect(),
        })
    }

    /// Returns the home directory of a log.
    pub(crate) fn home(&self, log: usize) -> &'static Path {
        Path::new(self.homes.get(log).copied().unwrap_or(DIR))
    }

    /// Returns the directories in the order of a life's settings.
    pub(crate) fn paths(&self, life: usize) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = vec![DIR.into(), SECOND.into()];
        if self.swapped.get(life).copied().unwrap_or(false) {
            paths.reverse();
        }
        paths
    }

    /// Removes the directory that is absent before a life and does not bring it back, for a planted
    /// bug.
    ///
    /// Returns false if none is absent then.
    pub(crate) fn unmount(&self, life: usize, disk: &SimDisk) -> bool {
        let Some(Some(absence)) = self.absent.get(life) else {
            return false;
        };
        disk.unmount(Path::new(absence.dir)).is_ok()
    }

    /// Tries the start without a directory that precedes a life, if there is one.
    ///
    /// Returns true if there was one and it was refused.
    pub(crate) async fn start_without<P: Platform>(
        &self,
        life: usize,
        platform: &P,
        disk: &SimDisk,
    ) -> Result<bool, String> {
        let Some(Some(absence)) = self.absent.get(life) else {
            return Ok(false);
        };
        let dir = Path::new(absence.dir);
        let mut paths = self.paths(life);
        let failed = |error: io::Error| format!("the scene of {absence:?}: {error}");
        let before = files(disk).await.map_err(failed)?;
        match absence.how {
            DirAbsence::Unmounted => disk.unmount(dir).map_err(failed)?,
            DirAbsence::LeftOut => paths.retain(|path| path != dir),
            DirAbsence::Misspelt => {
                for path in paths.iter_mut().filter(|path| path.as_path() == dir) {
                    *path = NOWHERE.into();
                }
            }
            DirAbsence::Failing => disk.set_broken(dir, Some(io::ErrorKind::Other)),
        }
        let started = LogDirs::open(platform, &paths, None, None).await;
        match absence.how {
            DirAbsence::Unmounted => disk.mount(dir).map_err(failed)?,
            DirAbsence::Failing => disk.set_broken(dir, None),
            DirAbsence::LeftOut | DirAbsence::Misspelt => {}
        }
        let Err(error) = started else {
            return Err(format!("a start goes on without a directory: {absence:?}"));
        };
        let said = error.to_string();
        let names = |place: &str| said.contains(place);
        let names_the_place =
            names(absence.dir) || (absence.how == DirAbsence::Misspelt && names(NOWHERE));
        if !names_the_place {
            return Err(format!("{absence:?} is refused without its name: {said}"));
        }
        if files(disk).await.map_err(failed)? != before {
            return Err(format!(
                "a start that was refused has left traces: {absence:?}"
            ));
        }
        Ok(true)
    }
}

/// Creates the metadata log's folder in the first directory; a start with logs but without it is
/// refused.
pub(crate) fn name_metadata(disk: &SimDisk) {
    let file = Path::new(METADATA).join(partition_metadata::FILE);
    if disk.contents(&file).is_err() {
        let put = disk.put(&file, &partition_metadata::encode(TopicId::METADATA));
        put.expect("a folder of its own");
    }
}

/// Returns all files of both directories.
async fn files(disk: &SimDisk) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut dirs: Vec<PathBuf> = vec![DIR.into(), SECOND.into()];
    while let Some(dir) = dirs.pop() {
        for entry in disk.list(&dir).await? {
            let path = dir.join(&entry.name);
            if entry.is_dir {
                dirs.push(path);
            } else {
                files.insert(path.clone(), disk.contents(&path)?);
            }
        }
    }
    Ok(files)
}
