//! The simulated file system: counts and delays every operation, and makes some fail.
//!
//! The outcome of an operation is decided when it starts (its number, its fault); it then takes its
//! time, and takes effect at its end. Invariants: after a power loss nothing changes; the images
//! that [`SimDisk::crash`] and [`SimDisk::kill`] return share nothing with their original.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use super::content::{Change, Content};
use super::fault::{Effect, Fault, Faults, OpKind, power_off};
use super::file::SimFile;
use super::hanging::HangingOperations;
use super::mounts::Mounts;
use super::rng::Rng;
use super::tree::{NodeId, Tree, components};
use crate::Clock;
use crate::disk::{Disk, Entry, Medium, Open, Space, too_long};

/// A disk in memory; clones share it.
#[derive(Clone)]
pub struct SimDisk {
    state: Rc<RefCell<SimDiskState>>,
}

pub(super) struct SimDiskState {
    pub(super) tree: Tree,
    pub(super) rng: Rng,
    pub(super) faults: Faults,
    /// Writes that have started but not ended.
    pub(super) in_flight: BTreeMap<u64, (NodeId, Change)>,
    capacity_bytes: Option<u64>,
    read_only: bool,
    /// The error number of operations that need a descriptor, when there are none.
    exhausted: Option<i32>,
    pub(super) mounts: Mounts,
    latency: (Duration, Duration),
    /// The additional time of the operation that is starting.
    delay: Duration,
    /// The hanging file system of the operation that is starting, if any.
    hangs: Option<PathBuf>,
    pub(super) hanging: HangingOperations,
    /// Directories whose segment files are mapped.
    dax: Vec<PathBuf>,
    /// The clock for modification times.
    clock: Option<Clock>,
}

impl SimDisk {
    /// Creates an empty disk without faults.
    pub fn new(seed: u64) -> Self {
        Self::holding(Tree::new(), seed)
    }

    fn holding(tree: Tree, seed: u64) -> Self {
        Self {
            state: Rc::new(RefCell::new(SimDiskState {
                tree,
                rng: Rng::new(seed),
                faults: Faults::new(),
                in_flight: BTreeMap::new(),
                capacity_bytes: None,
                read_only: false,
                exhausted: None,
                mounts: Mounts::default(),
                latency: (Duration::ZERO, Duration::ZERO),
                delay: Duration::ZERO,
                hangs: None,
                hanging: HangingOperations::default(),
                dax: Vec::new(),
                clock: None,
            })),
        }
    }

    /// Sets the clock for modification times.
    pub(super) fn set_clock(&self, clock: &Clock) {
        self.state.borrow_mut().clock = Some(clock.clone());
    }

    /// Plans a fault.
    pub fn inject(&self, fault: Fault) {
        self.state.borrow_mut().faults.plan(fault);
    }

    /// Returns the number of planned faults that have not struck.
    pub fn faults_left(&self) -> usize {
        self.state.borrow().faults.left()
    }

    /// Returns the operations that faults have struck, in order.
    pub fn struck(&self) -> Vec<(OpKind, PathBuf)> {
        self.state.borrow().faults.struck()
    }

    /// Removes the faults that have not struck.
    pub fn clear_faults(&self) {
        self.state.borrow_mut().faults.clear();
    }

    /// Returns the number of operations so far, which is the number of the next one.
    pub fn operations(&self) -> u64 {
        self.state.borrow().faults.operations()
    }

    /// Returns the number of operations so far that change the disk ([`OpKind::mutates`]).
    pub fn changes(&self) -> u64 {
        self.state.borrow().faults.changes()
    }

    /// Returns a hash of all operations, in order.
    pub fn trace_hash(&self) -> u64 {
        self.state.borrow().faults.trace_hash()
    }

    /// Turns the hash of operations on or off; measurements turn it off because it costs more than
    /// the operations.
    pub fn set_traced(&self, traced: bool) {
        self.state.borrow_mut().faults.traced = traced;
    }

    /// Limits the room; `None` is unlimited. A write beyond it fails with `StorageFull`.
    pub fn set_capacity_bytes(&self, capacity_bytes: Option<u64>) {
        self.state.borrow_mut().capacity_bytes = capacity_bytes;
    }

    /// Puts the segment files under `dir` on the medium `dax`: completed writes are durable, and
    /// writes in flight can tear anywhere.
    pub fn use_dax(&self, dir: &Path) {
        self.state.borrow_mut().dax.push(dir.to_owned());
    }

    /// Unmounts the file system at `dir`: an empty directory takes its place, also for later
    /// processes.
    pub fn unmount(&self, dir: &Path) -> io::Result<()> {
        self.state.borrow_mut().tree.unmount(dir)
    }

    /// Mounts the file system again, unchanged.
    pub fn mount(&self, dir: &Path) -> io::Result<()> {
        self.state.borrow_mut().tree.mount(dir)
    }

    /// Makes the disk read-only, or writable again.
    pub fn set_read_only(&self, read_only: bool) {
        self.state.borrow_mut().read_only = read_only;
    }

    /// Makes operations that need a descriptor fail with an error number (EMFILE, ENFILE), until
    /// `None` is set.
    pub fn set_exhausted(&self, errno: Option<i32>) {
        self.state.borrow_mut().exhausted = errno;
    }

    /// Makes operations take a random time between the two.
    ///
    /// With zeroes they yield to other tasks but take no time.
    pub fn set_latency(&self, min: Duration, max: Duration) {
        self.state.borrow_mut().latency = (min, max);
    }

    /// Inverts a bit of a file on the medium, which need not be open (position in bytes).
    pub fn flip(&self, path: &Path, position: u64, bit: u8) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        let file = state.tree.file(path)?;
        state.tree.content_mut(file).flip(position, bit);
        Ok(())
    }

    /// Creates a durable file and its directories as an initial state, without an operation.
    pub fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut tree = self.state.borrow().tree.clone();
        let mut dir = PathBuf::from("/");
        let names = components(path)?;
        for name in &names[..names.len().saturating_sub(1)] {
            let parent = dir.clone();
            dir.push(name);
            if !tree.exists(&dir) {
                tree.create_dir(&dir)?;
                tree.sync_dir(&parent)?;
            }
        }
        if tree.exists(path) {
            tree.remove_file(path)?;
        }
        let mut state = self.state.borrow_mut();
        let mut content = Content::durable(bytes);
        content.set_modified(state.now_ms());
        tree.create_file(path, content)?;
        tree.sync_dir(&dir)?;
        state.tree = tree;
        Ok(())
    }

    /// Returns what readers of a file see, for inspection without an operation.
    pub fn contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.state.borrow();
        let file = state.tree.file(path)?;
        Ok(state.tree.content(file).live().to_vec())
    }

    /// Returns the bytes of a file that survive any crash, whatever its name is then.
    pub fn durable_contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.state.borrow();
        let file = state.tree.file(path)?;
        Ok(state.tree.content(file).durable_bytes().to_vec())
    }

    /// Cuts the power, and returns the disk as the next start finds it.
    ///
    /// `seed` determines for each unsynced write, length and name whether it is there, absent or
    /// torn. This disk is off afterwards.
    #[must_use]
    pub fn crash(&self, seed: u64) -> SimDisk {
        let mut rng = Rng::new(seed);
        let tree = self.end(&mut rng).crashed(&mut rng);
        self.successor(tree, seed)
    }

    /// Kills the process, and returns the disk as the next process finds it.
    ///
    /// Everything completed is there (but still not durable), and writes in flight are there in
    /// parts. This disk is off afterwards.
    #[must_use]
    pub fn kill(&self, seed: u64) -> SimDisk {
        let mut rng = Rng::new(seed);
        let tree = self.end(&mut rng);
        self.successor(tree, seed)
    }

    fn end(&self, rng: &mut Rng) -> Tree {
        let mut state = self.state.borrow_mut();
        state.faults.off = true;
        let mut tree = state.tree.clone();
        for (file, change) in state.in_flight.values() {
            tree.content_mut(*file).apply_torn(change, rng);
        }
        tree
    }

    fn successor(&self, tree: Tree, seed: u64) -> SimDisk {
        let next = Self::holding(tree, seed);
        let state = self.state.borrow();
        let mut after = next.state.borrow_mut();
        after.capacity_bytes = state.capacity_bytes;
        after.latency = state.latency;
        after.dax.clone_from(&state.dax);
        after.mounts = state.mounts.clone();
        drop(after);
        next
    }

    /// Performs an operation: `whole` on success, `part` (which may do nothing) if a fault strikes.
    pub(super) async fn act<T>(
        &self,
        kind: OpKind,
        path: &Path,
        whole: impl FnOnce(&mut SimDiskState) -> io::Result<T>,
        part: impl FnOnce(&mut SimDiskState),
    ) -> io::Result<T> {
        self.start(kind, path, part)?;
        self.take_time().await;
        self.finish(whole)
    }

    /// Counts the operation and applies a fault.
    pub(super) fn start(
        &self,
        kind: OpKind,
        path: &Path,
        part: impl FnOnce(&mut SimDiskState),
    ) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        if state.faults.off {
            return Err(power_off());
        }
        let broken = state.mounts.holding(path).and_then(|mount| mount.broken);
        let mount = state.mounts.holding(path);
        let mounted_read_only = mount.is_some_and(|mount| mount.read_only);
        let hangs = mount.filter(|mount| mount.hangs);
        let hangs = hangs.map(|mount| mount.dir.clone());
        let exhausted = state.exhausted.filter(|_| kind.needs_descriptor());
        match state.faults.meet(kind, path) {
            None if exhausted.is_some() => {
                Err(io::Error::from_raw_os_error(exhausted.unwrap_or(0)))
            }
            None if broken.is_some() => {
                let kind = broken.unwrap_or(io::ErrorKind::Other);
                Err(io::Error::new(kind, "simulated failure of a path"))
            }
            None if (state.read_only || mounted_read_only) && kind.mutates() => {
                Err(io::ErrorKind::ReadOnlyFilesystem.into())
            }
            None => {
                state.hangs = hangs;
                Ok(())
            }
            Some(Effect::Slow(delay)) => {
                state.delay = delay;
                Ok(())
            }
            Some(effect) => {
                if !matches!(effect, Effect::Errno(_)) {
                    part(&mut state);
                }
                Err(match effect {
                    Effect::Errno(number) => io::Error::from_raw_os_error(number),
                    Effect::Fail(kind) => io::Error::new(kind, "simulated fault"),
                    Effect::PowerOff | Effect::Slow(_) => power_off(),
                })
            }
        }
    }

    pub(super) async fn take_time(&self) {
        let (delay, turns, hangs) = {
            let mut state = self.state.borrow_mut();
            let hangs = state.hangs.take();
            let hangs = hangs.map(|dir| (state.hanging.begin(dir.clone()), dir));
            let (min, max) = state.latency;
            let spread = u64::try_from(max.saturating_sub(min).as_nanos()).unwrap_or(u64::MAX);
            let delay = min + Duration::from_nanos(state.rng.below(spread.saturating_add(1)));
            let delay = delay + std::mem::take(&mut state.delay);
            (delay, state.rng.below(3), hangs)
        };
        if let Some((hanging, dir)) = hangs {
            let hangs = || self.with(|state| state.mounts.holding(&dir).is_some_and(|at| at.hangs));
            hanging.end(hangs).await;
        }
        if delay > Duration::ZERO {
            tokio::time::sleep(delay).await;
        }
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn finish<T>(
        &self,
        whole: impl FnOnce(&mut SimDiskState) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state.borrow_mut();
        if state.faults.off {
            return Err(power_off());
        }
        let result = whole(&mut state);
        if let Err(error) = &result {
            state.faults.note(format!("{:?}", error.kind()).as_bytes());
        }
        result
    }

    pub(super) fn with<T>(&self, access: impl FnOnce(&mut SimDiskState) -> T) -> T {
        access(&mut self.state.borrow_mut())
    }

    /// Takes the time that a slow device needs for `bytes` bytes.
    pub(super) async fn take_time_for(&self, path: &Path, bytes: usize) {
        let delay = self.with(|state| state.mounts.delay(path, bytes));
        if delay > Duration::ZERO {
            tokio::time::sleep(delay).await;
        }
    }

    async fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let whole = |state: &mut SimDiskState| match state.tree.create_dir(dir) {
            // Another task created it first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.map(drop),
        };
        let part = |state: &mut SimDiskState| {
            if state.rng.chance(50) {
                let _ = state.tree.create_dir(dir);
            }
        };
        self.act(OpKind::CreateDir, dir, whole, part).await
    }

    /// Creates a small file, or empties an existing one.
    async fn create_small(&self, path: &Path) -> io::Result<NodeId> {
        let create = |state: &mut SimDiskState| {
            if state.tree.exists(path) {
                let file = state.tree.file(path)?;
                state.change(file, Change::SetLen(0));
                return Ok(file);
            }
            state.create(path, Content::default())
        };
        let part = |state: &mut SimDiskState| {
            if state.rng.chance(50) {
                let _ = create(state);
            }
        };
        self.act(OpKind::Create, path, create, part).await
    }
}

impl SimDiskState {
    /// Changes an existing file.
    pub(super) fn change(&mut self, file: NodeId, change: Change) {
        let now_ms = self.now_ms();
        let content = self.tree.content_mut(file);
        content.apply(change);
        content.set_modified(now_ms);
    }

    /// Writes to an existing file, durably.
    pub(super) fn change_durably(&mut self, file: NodeId, write: Change) {
        let now_ms = self.now_ms();
        let content = self.tree.content_mut(file);
        content.apply_durably(write);
        content.set_modified(now_ms);
    }

    /// Creates a file; the name must be free.
    fn create(&mut self, path: &Path, mut content: Content) -> io::Result<NodeId> {
        content.set_modified(self.now_ms());
        self.tree.create_file(path, content)
    }

    fn now_ms(&self) -> i64 {
        self.clock.as_ref().map_or(0, Clock::wall_ms)
    }

    fn is_mapped(&self, path: &Path) -> bool {
        self.dax.iter().any(|dir| path.starts_with(dir))
    }

    pub(super) fn with_rng(&mut self, act: impl FnOnce(&mut Tree, &mut Rng)) {
        act(&mut self.tree, &mut self.rng);
    }

    /// Fails when `growth` more bytes do not fit.
    pub(super) fn check_room(&self, path: &Path, growth: u64) -> io::Result<()> {
        if let Some(mount) = self.mounts.holding(path) {
            let used = self.tree.used_bytes_in(&mount.dir);
            return match mount.capacity_bytes {
                Some(capacity) if growth > 0 && used + growth > capacity => {
                    Err(io::ErrorKind::StorageFull.into())
                }
                _ => Ok(()),
            };
        }
        let Some(capacity) = self.capacity_bytes else {
            return Ok(());
        };
        if growth > 0 && self.tree.used_bytes() + growth > capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn medium(&self, dir: &Path) -> Medium {
        if self.with(|state| state.is_mapped(dir)) {
            Medium::Dax { emulated: false }
        } else {
            Medium::File
        }
    }

    fn under_way_for(&self, dir: &Path) -> Duration {
        self.with(|state| state.hanging.longest(dir))
    }

    async fn open(&self, path: &Path, how: Open) -> io::Result<SimFile> {
        let kind = if how == Open::Create {
            OpKind::Create
        } else {
            OpKind::Open
        };
        let whole = |state: &mut SimDiskState| {
            let node = match how {
                Open::Create => state.create(path, Content::default())?,
                Open::Write | Open::Read => state.tree.file(path)?,
            };
            let mount = state.mounts.holding(path);
            if how == Open::Write && (state.read_only || mount.is_some_and(|at| at.read_only)) {
                return Err(io::ErrorKind::ReadOnlyFilesystem.into());
            }
            let mapped = state.is_mapped(path);
            state.tree.content_mut(node).set_mapped(mapped);
            Ok(node)
        };
        let part = |state: &mut SimDiskState| {
            if how == Open::Create && state.rng.chance(50) {
                let _ = state.tree.create_file(path, Content::default());
            }
        };
        let node = self.act(kind, path, whole, part).await?;
        Ok(SimFile::new(self.clone(), node, path, how))
    }

    async fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let whole = |state: &mut SimDiskState| state.tree.list(dir);
        self.act(OpKind::List, dir, whole, |_| ()).await
    }

    async fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut at = PathBuf::from("/");
        let mut parent = at.clone();
        for name in components(dir)? {
            parent.clone_from(&at);
            at.push(name);
            if !self.with(|state| state.tree.exists(&at)) {
                self.make_dir(&at).await?;
                if let Err(error) = self.sync_dir(&parent).await {
                    // As on the real disk: a retry must begin with this directory.
                    self.with(|state| state.tree.remove_dir(&at, 1)).ok();
                    return Err(error);
                }
            }
        }
        self.sync_dir(&parent).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let whole = |state: &mut SimDiskState| state.tree.rename(from, to);
        let part = |state: &mut SimDiskState| {
            if state.faults.off && state.rng.chance(50) {
                let _ = state.tree.rename(from, to);
            }
        };
        self.act(OpKind::Rename, from, whole, part).await
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        let whole = |state: &mut SimDiskState| state.tree.remove_file(path);
        let part = |state: &mut SimDiskState| {
            if state.faults.off && state.rng.chance(50) {
                let _ = state.tree.remove_file(path);
            }
        };
        self.act(OpKind::RemoveFile, path, whole, part).await
    }

    async fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let whole = |state: &mut SimDiskState| state.tree.remove_dir(dir, u64::MAX);
        let part = |state: &mut SimDiskState| {
            let unlinks = state.rng.below(8);
            let _ = state.tree.remove_dir(dir, unlinks);
        };
        self.act(OpKind::RemoveDir, dir, whole, part).await
    }

    async fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let whole = |state: &mut SimDiskState| state.tree.sync_dir(dir);
        let part = |state: &mut SimDiskState| {
            if state.rng.chance(50) {
                let _ = state.tree.sync_dir(dir);
            }
        };
        self.act(OpKind::SyncDir, dir, whole, part).await
    }

    async fn read_file_within(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        let whole = |state: &mut SimDiskState| {
            let file = state.tree.file(path)?;
            let live = state.tree.content(file).live();
            if live.len() > bytes_max {
                return Err(too_long(live.len(), bytes_max));
            }
            Ok(live.to_vec())
        };
        self.act(OpKind::ReadFile, path, whole, |_| ()).await
    }

    async fn replace_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(".tmp");
        let draft = PathBuf::from(draft);
        let node = self.create_small(&draft).await?;
        let file = SimFile::new(self.clone(), node, &draft, Open::Write);
        file.write_any(0, bytes.to_vec().into()).await?;
        file.sync_now().await?;
        self.rename(&draft, path).await?;
        let synced = self.sync_dir(path.parent().unwrap_or(Path::new("/")));
        // As on the real disk: after the rename, an error for lack of room does not mean that
        // nothing happened.
        synced.await.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => io::Error::other(error),
            _ => error,
        })
    }

    async fn set_modified(&self, path: &Path, modified_ms: i64) -> io::Result<()> {
        let whole = |state: &mut SimDiskState| {
            let file = state.tree.file(path)?;
            state.tree.content_mut(file).set_modified(modified_ms);
            Ok(())
        };
        self.act(OpKind::SetModified, path, whole, |_| ()).await
    }

    async fn space(&self, dir: &Path) -> io::Result<Space> {
        let whole = |state: &mut SimDiskState| {
            let (capacity, used) = match state.mounts.holding(dir) {
                Some(mount) => (mount.capacity_bytes, state.tree.used_bytes_in(&mount.dir)),
                None => (state.capacity_bytes, state.tree.used_bytes()),
            };
            let total = capacity.unwrap_or(1 << 60);
            let free = total.saturating_sub(used);
            Ok(Space {
                free,
                total,
                in_memory: false,
            })
        };
        self.act(OpKind::Space, dir, whole, |_| ()).await
    }
}
