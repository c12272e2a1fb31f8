//! The graph of the files of a crate and those they use: `use` items, paths and modules by their
//! names; re-exports are followed to the file that defines the name.
//!
//! A front page and its mechanisms (`foo.rs` and `foo/..`) form one room: there is no edge between
//! them.

use std::collections::{BTreeMap, BTreeSet};

use super::uses::{self, Use};
use crate::source::Source;

type ModulePath = Vec<String>;

/// The edges of each file to others, as paths of modules in the crate; the path of the root is
/// empty.
pub(super) type Graph = BTreeMap<ModulePath, BTreeSet<ModulePath>>;

const REEXPORTS_MAX: usize = 8;

struct Module {
    uses: Vec<Use>,
    body: String,
}

struct Modules {
    all: BTreeMap<ModulePath, Module>,
    /// The names that a file re-exports, and what they stand for.
    reexported: BTreeMap<(ModulePath, String), ModulePath>,
}

/// Returns the graph of the files of one crate.
pub(super) fn of(sources: &[&Source]) -> Graph {
    let modules = Modules::of(sources);
    let mut graph = Graph::new();
    for (at, module) in &modules.all {
        let targets = modules.named_by(at, module).into_iter();
        let targets = targets.filter_map(|path| modules.target(at, &path));
        graph.insert(at.clone(), targets.collect());
    }
    graph
}

impl Modules {
    fn of(sources: &[&Source]) -> Self {
        let mut modules = Self {
            all: BTreeMap::new(),
            reexported: BTreeMap::new(),
        };
        for source in sources {
            let Some(at) = place(&source.path) else {
                continue;
            };
            let (uses, body) = uses::split(&uses::without_tests(&source.code));
            modules.all.insert(at, Module { uses, body });
        }
        for (at, module) in &modules.all {
            for one in module.uses.iter().filter(|one| one.is_public) {
                let full = modules.absolute(at, &one.path);
                if let (Some(full), Some(name)) = (full, one.path.last()) {
                    let name = (at.clone(), name.clone());
                    modules.reexported.insert(name, full);
                }
            }
        }
        modules
    }

    /// Returns a path as seen from the root of the crate; `None` for a path of another crate.
    fn absolute(&self, at: &ModulePath, path: &[String]) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([at, rest].concat()),
            "super" => {
                let up = path.iter().take_while(|part| *part == "super").count();
                let above = &at[..at.len().saturating_sub(up)];
                Some([above, &path[up..]].concat())
            }
            _ => {
                let child = [at.as_slice(), std::slice::from_ref(first)].concat();
                self.all
                    .contains_key(&child)
                    .then(|| [at.as_slice(), path].concat())
            }
        }
    }

    /// Returns all paths that a file names, as seen from the root.
    fn named_by(&self, at: &ModulePath, module: &Module) -> Vec<ModulePath> {
        let used = module.uses.iter().map(|one| one.path.as_slice());
        let used: Vec<ModulePath> = used.filter_map(|path| self.absolute(at, path)).collect();
        // An imported module is called by its last name.
        let mut called: BTreeMap<&str, ModulePath> = BTreeMap::new();
        for path in used.iter().filter(|path| self.all.contains_key(*path)) {
            if let Some(name) = path.last() {
                called.insert(name, path.clone());
            }
        }
        for child in self.all.keys() {
            if let Some((name, above)) = child.split_last()
                && above == at.as_slice()
            {
                called.entry(name).or_insert_with(|| child.clone());
            }
        }
        let mut found = used.clone();
        for path in uses::paths(&module.body) {
            let Some((first, rest)) = path.split_first() else {
                continue;
            };
            match called.get(first.as_str()) {
                Some(module) => found.push([module.as_slice(), rest].concat()),
                None => found.extend(self.absolute(at, &path)),
            }
        }
        found
    }

    /// Returns the file that a path leads to from `at`, unless it is in the same room.
    fn target(&self, at: &ModulePath, path: &ModulePath) -> Option<ModulePath> {
        if self.all.contains_key(path) {
            return None;
        }
        let target = self.defining(path, 0);
        let is_room = target.starts_with(at) && !at.is_empty()
            || at.starts_with(&target) && !target.is_empty();
        (!is_room && target != *at).then_some(target)
    }

    fn defining(&self, path: &[String], followed: usize) -> ModulePath {
        let lengths = (0..=path.len()).rev();
        let mut lengths = lengths.filter(|length| self.all.contains_key(&path[..*length]));
        let file = path[..lengths.next().unwrap_or(0)].to_vec();
        let rest = &path[file.len()..];
        if let Some((name, rest)) = rest.split_first()
            && followed < REEXPORTS_MAX
            && let Some(full) = self.reexported.get(&(file.clone(), name.clone()))
        {
            return self.defining(&[full.as_slice(), rest].concat(), followed + 1);
        }
        file
    }
}

/// Splits a path: `crates/broker/src/group/classic.rs` is `group`, `classic`; the root of the crate
/// is empty.
fn place(path: &str) -> Option<ModulePath> {
    let (_, inside) = path.split_once("/src/")?;
    let parts = inside.strip_suffix(".rs")?.split('/').map(str::to_owned);
    let parts: ModulePath = parts.collect();
    Some(if parts == ["lib"] { vec![] } else { parts })
}
