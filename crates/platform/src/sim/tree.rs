//! Names of the simulated file system: directories as readers see them, and as a crash leaves them.
//!
//! Invariants: a change of a name becomes durable only by a sync of its directory; a rename is
//! atomic; after a crash each change since the sync has happened or not, independently. Nodes are
//! never removed, so an open file outlives its name.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};

use super::content::{Content, Survival};
use super::rng::Rng;
use crate::disk::Entry;

/// Identifies a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct NodeId(usize);

const ROOT: NodeId = NodeId(0);

#[derive(Clone)]
enum Node {
    Dir { live: Names, durable: Names },
    File(Content),
}

type Names = BTreeMap<String, NodeId>;

/// A place for a name.
#[derive(Clone, PartialEq, Eq)]
struct NamePlace {
    dir: NodeId,
    name: String,
}

/// A change of names that is not durable yet.
#[derive(Clone)]
enum Change {
    Link(NamePlace, NodeId),
    Unlink(NamePlace, NodeId),
    Move(NamePlace, NamePlace, NodeId),
}

impl Change {
    fn touches(&self, dir: NodeId) -> bool {
        match self {
            Self::Link(place, _) | Self::Unlink(place, _) => place.dir == dir,
            Self::Move(from, to, _) => from.dir == dir || to.dir == dir,
        }
    }
}

/// All nodes and names.
#[derive(Clone)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    pending: Vec<Change>,
    /// The unmounted directories, by the empty directory in their place.
    unmounted: BTreeMap<NodeId, NodeId>,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self {
            nodes: vec![empty_dir()],
            pending: Vec::new(),
            unmounted: BTreeMap::new(),
        }
    }

    /// Replaces a directory by an empty one, and keeps its contents.
    ///
    /// A mount point is not a name, so the change is immediate and survives a crash.
    pub(super) fn unmount(&mut self, dir: &Path) -> io::Result<()> {
        let (place, mounted) = (self.place(dir)?, self.resolve(dir)?);
        self.names(mounted)?;
        let bare = NodeId(self.nodes.len());
        self.nodes.push(empty_dir());
        self.unmounted.insert(bare, mounted);
        self.put_in_place(place, bare);
        Ok(())
    }

    /// Restores the directory that [`Self::unmount`] replaced.
    pub(super) fn mount(&mut self, dir: &Path) -> io::Result<()> {
        let (place, bare) = (self.place(dir)?, self.resolve(dir)?);
        let mounted = self.unmounted.remove(&bare);
        self.put_in_place(place, mounted.ok_or(io::ErrorKind::NotFound)?);
        Ok(())
    }

    fn put_in_place(&mut self, place: NamePlace, id: NodeId) {
        self.durable(place.dir).insert(place.name.clone(), id);
        self.live(place.dir).insert(place.name, id);
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<NodeId> {
        let id = self.resolve(path)?;
        match &self.nodes[id.0] {
            Node::File(_) => Ok(id),
            Node::Dir { .. } => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn content(&self, file: NodeId) -> &Content {
        match &self.nodes[file.0] {
            Node::File(content) => content,
            Node::Dir { .. } => unreachable!("only files are opened"),
        }
    }

    pub(super) fn content_mut(&mut self, file: NodeId) -> &mut Content {
        match &mut self.nodes[file.0] {
            Node::File(content) => content,
            Node::Dir { .. } => unreachable!("only files are opened"),
        }
    }

    /// Creates a file; the name must be free.
    pub(super) fn create_file(&mut self, path: &Path, content: Content) -> io::Result<NodeId> {
        self.create(path, Node::File(content))
    }

    /// Creates a directory in an existing one; the name must be free.
    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<NodeId> {
        self.create(path, empty_dir())
    }

    fn create(&mut self, path: &Path, node: Node) -> io::Result<NodeId> {
        let place = self.place(path)?;
        if self.names(place.dir)?.contains_key(&place.name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = NodeId(self.nodes.len());
        self.nodes.push(node);
        self.live(place.dir).insert(place.name.clone(), id);
        self.pending.push(Change::Link(place, id));
        Ok(id)
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        self.resolve(path).is_ok()
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.resolve(from)?;
        let (from, to) = (self.place(from)?, self.place(to)?);
        let replaced = self.names(to.dir)?.get(&to.name).copied();
        if let Some(replaced) = replaced
            && replaced != id
            && let Node::Dir { live, .. } = &self.nodes[replaced.0]
        {
            let fits = matches!(self.nodes[id.0], Node::Dir { .. }) && live.is_empty();
            if !fits {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
        }
        if from != to {
            self.live(from.dir).remove(&from.name);
            self.live(to.dir).insert(to.name.clone(), id);
            self.pending.push(Change::Move(from, to, id));
        }
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let id = self.file(path)?;
        let place = self.place(path)?;
        self.unlink(place, id);
        Ok(())
    }

    /// Removes a directory and its contents, name by name, stopping after `unlinks_max` names.
    pub(super) fn remove_dir(&mut self, path: &Path, unlinks_max: u64) -> io::Result<()> {
        let id = self.resolve(path)?;
        self.names(id)?;
        let place = self.place(path)?;
        let mut left = unlinks_max;
        self.remove_below(place, id, &mut left);
        Ok(())
    }

    fn remove_below(&mut self, place: NamePlace, id: NodeId, left: &mut u64) {
        if let Node::Dir { live, .. } = &self.nodes[id.0] {
            for (name, child) in live.clone() {
                self.remove_below(NamePlace { dir: id, name }, child, left);
            }
        }
        if *left > 0 {
            *left -= 1;
            self.unlink(place, id);
        }
    }

    fn unlink(&mut self, place: NamePlace, id: NodeId) {
        self.live(place.dir).remove(&place.name);
        self.pending.push(Change::Unlink(place, id));
    }

    /// Lists the names in a directory with their attributes.
    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let names = self.names(self.resolve(dir)?)?;
        let entries = names.iter().map(|(name, id)| {
            let (is_dir, len, modified_ms) = match &self.nodes[id.0] {
                Node::Dir { .. } => (true, 0, 0),
                Node::File(content) => (false, content.live().len(), content.modified_ms()),
            };
            Entry {
                name: name.clone(),
                is_dir,
                len,
                modified_ms,
            }
        });
        Ok(entries.collect())
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        let dir = self.resolve(dir)?;
        self.names(dir)?;
        for change in std::mem::take(&mut self.pending) {
            if !change.touches(dir) {
                self.pending.push(change);
                continue;
            }
            if let Change::Move(from, _, id) = &change {
                // The source's own link may be pending in another directory; the move includes it.
                let moved = |earlier: &Change| match earlier {
                    Change::Link(place, of) => place == from && of == id,
                    _ => false,
                };
                self.pending.retain(|earlier| !moved(earlier));
            }
            self.make_durable(&change);
        }
        Ok(())
    }

    fn make_durable(&mut self, change: &Change) {
        match change {
            Change::Link(place, id) => {
                self.durable(place.dir).insert(place.name.clone(), *id);
            }
            Change::Unlink(place, id) => self.forget(place, *id),
            Change::Move(from, to, id) => {
                self.forget(from, *id);
                self.durable(to.dir).insert(to.name.clone(), *id);
            }
        }
    }

    fn forget(&mut self, place: &NamePlace, id: NodeId) {
        let names = self.durable(place.dir);
        if names.get(&place.name) == Some(&id) {
            names.remove(&place.name);
        }
    }

    /// Returns the tree after a power loss; everything in it is durable.
    pub(super) fn crashed(&self, rng: &mut Rng) -> Self {
        let mut image = self.clone();
        let survival = Survival::draw(rng);
        for change in std::mem::take(&mut image.pending) {
            let possible = match &change {
                Change::Move(from, _, id) => image.durable(from.dir).get(&from.name) == Some(id),
                Change::Link(..) | Change::Unlink(..) => true,
            };
            if survival.survives(rng) && possible {
                image.make_durable(&change);
            }
        }
        for node in &mut image.nodes {
            match node {
                Node::Dir { live, durable } => live.clone_from(durable),
                Node::File(content) => *content = content.crashed(rng),
            }
        }
        image
    }

    /// Returns the room used by the files that have a name.
    pub(super) fn used_bytes(&self) -> u64 {
        let mut seen = BTreeSet::new();
        self.used_below(ROOT, &mut seen)
    }

    /// Returns the room used by the files below a directory.
    pub(super) fn used_bytes_in(&self, dir: &Path) -> u64 {
        let mut seen = BTreeSet::new();
        self.resolve(dir)
            .map_or(0, |dir| self.used_below(dir, &mut seen))
    }

    fn used_below(&self, id: NodeId, seen: &mut BTreeSet<NodeId>) -> u64 {
        if !seen.insert(id) {
            return 0;
        }
        match &self.nodes[id.0] {
            Node::File(content) => content.used_bytes(),
            Node::Dir { live, .. } => live
                .values()
                .map(|child| self.used_below(*child, seen))
                .sum(),
        }
    }

    fn names(&self, dir: NodeId) -> io::Result<&Names> {
        match &self.nodes[dir.0] {
            Node::Dir { live, .. } => Ok(live),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn live(&mut self, dir: NodeId) -> &mut Names {
        match &mut self.nodes[dir.0] {
            Node::Dir { live, .. } => live,
            Node::File(_) => unreachable!("places are in directories"),
        }
    }

    fn durable(&mut self, dir: NodeId) -> &mut Names {
        match &mut self.nodes[dir.0] {
            Node::Dir { durable, .. } => durable,
            Node::File(_) => unreachable!("places are in directories"),
        }
    }

    fn resolve(&self, path: &Path) -> io::Result<NodeId> {
        let mut at = ROOT;
        for name in components(path)? {
            at = *self.names(at)?.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    fn place(&self, path: &Path) -> io::Result<NamePlace> {
        let mut names = components(path)?;
        let name = names.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let mut dir = ROOT;
        for parent in names {
            dir = *self
                .names(dir)?
                .get(parent)
                .ok_or(io::ErrorKind::NotFound)?;
        }
        self.names(dir)?;
        Ok(NamePlace {
            dir,
            name: name.to_owned(),
        })
    }
}

fn empty_dir() -> Node {
    Node::Dir {
        live: Names::new(),
        durable: Names::new(),
    }
}

/// Splits a path into its names.
///
/// Relative paths start at the root; `..` is not simulated.
pub(super) fn components(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => {
                names.push(name.to_str().ok_or(io::ErrorKind::InvalidInput)?);
            }
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(names)
}
