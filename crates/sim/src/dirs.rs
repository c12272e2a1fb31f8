//! Two log directories under the logs of some runs. One of them is absent for some starts, and there again at the next.
//!
//! Drawn apart from the rest of the plan, so that the runs with one directory are what they were. The directories are read
//! as the broker reads them. A start without one of them has to be refused, whatever is in its place, in words that name
//! the place; it leaves no trace. With both of them, in whatever order the settings name them, every log starts where it
//! did and has every record: that is for the checkers of what was recovered, which know nothing of the start between.

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
/// Where nothing is.
const NOWHERE: &str = "/dta";
/// A log without which the others mean nothing; here only its folder is looked for.
const METADATA: &str = "/data/__cluster_metadata-0";
/// Sets the draw apart from that of the plan.
const SALT: u64 = 0x6c6f_6764;

/// In which way a directory is absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// Its file system is not mounted: an empty directory is in its place.
    Unmounted,
    /// The settings do not name it.
    LeftOut,
    /// The settings name another place, where nothing is.
    Misspelt,
    /// All operations on it fail.
    Failing,
}

/// A start without a directory.
#[derive(Clone, Copy, Debug)]
struct Absence {
    dir: &'static str,
    how: How,
}

/// The log directories of a run.
#[derive(Clone, Debug)]
pub struct Dirs {
    /// Where each log is at home.
    homes: Vec<&'static str>,
    /// Without which the start before a life is tried.
    absent: Vec<Option<Absence>>,
    /// In which lives the settings name the second one first.
    swapped: Vec<bool>,
}

impl Dirs {
    /// Decides for a run of so many logs and lives whether it has two directories, and how they are absent.
    pub(crate) fn draw(seed: u64, logs: usize, lives: usize) -> Option<Self> {
        let mut rng = Rng::new(seed ^ SALT);
        let hows = [How::Unmounted, How::LeftOut, How::Misspelt, How::Failing];
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

    /// Where a log is at home.
    pub(crate) fn home(&self, log: usize) -> &'static Path {
        Path::new(self.homes.get(log).copied().unwrap_or(DIR))
    }

    /// The directories as the settings of a life name them.
    pub(crate) fn paths(&self, life: usize) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = vec![DIR.into(), SECOND.into()];
        if self.swapped.get(life).copied().unwrap_or(false) {
            paths.reverse();
        }
        paths
    }

    /// Takes a directory away before a life, and does not bring it back; false if none is absent then. For a planted bug.
    pub(crate) fn unmount(&self, life: usize, disk: &SimDisk) -> bool {
        let Some(Some(absence)) = self.absent.get(life) else {
            return false;
        };
        disk.unmount(Path::new(absence.dir)).is_ok()
    }

    /// Tries the start without a directory that comes before a life, if one does. True if there was one and it was refused.
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
            How::Unmounted => disk.unmount(dir).map_err(failed)?,
            How::LeftOut => paths.retain(|path| path != dir),
            How::Misspelt => {
                for path in paths.iter_mut().filter(|path| path.as_path() == dir) {
                    *path = NOWHERE.into();
                }
            }
            How::Failing => disk.set_broken(dir, Some(io::ErrorKind::Other)),
        }
        let started = LogDirs::open(platform, &paths, None, None).await;
        match absence.how {
            How::Unmounted => disk.mount(dir).map_err(failed)?,
            How::Failing => disk.set_broken(dir, None),
            How::LeftOut | How::Misspelt => {}
        }
        let Err(error) = started else {
            return Err(format!("a start goes on without a directory: {absence:?}"));
        };
        let said = error.to_string();
        let names = |place: &str| said.contains(place);
        let names_the_place =
            names(absence.dir) || (absence.how == How::Misspelt && names(NOWHERE));
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

/// Has the metadata log lie in the first directory: a start with logs and without it is refused.
pub(crate) fn name_metadata(disk: &SimDisk) {
    let file = Path::new(METADATA).join(partition_metadata::FILE);
    if disk.contents(&file).is_err() {
        let put = disk.put(&file, &partition_metadata::encode(TopicId::METADATA));
        put.expect("a folder of its own");
    }
}

/// All files of both directories.
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
