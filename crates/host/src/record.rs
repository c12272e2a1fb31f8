//! A copy of what is read of a host, for fixtures and bug reports: a `tar` of small files that
//! works as `--sysroot` once unpacked.
//!
//! The reading code itself determines what is recorded. Invariants: the copy contains no serial
//! number, no hardware or network address, no environment and no host name (`scrub`); of running
//! programs only those that set knobs.

mod scrub;
mod tar;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use crate::counter::Counters;
use crate::facts::{Facts, loader};
use crate::firmware;
use crate::knob;
use crate::root::Tree;

pub use tar::write;

/// The entry of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The text of a file.
    Text(String),
    /// The target of a link.
    Link(String),
}

/// A tree that records what is read of another.
pub struct Recorder<'a> {
    tree: &'a dyn Tree,
    found: RefCell<BTreeMap<String, Entry>>,
}

impl<'a> Recorder<'a> {
    /// Creates a recorder without entries.
    pub fn new(tree: &'a dyn Tree) -> Recorder<'a> {
        Recorder {
            tree,
            found: RefCell::default(),
        }
    }

    /// Returns everything that may be disclosed.
    pub fn entries(&self) -> BTreeMap<String, Entry> {
        scrub::disclosed(&self.found.borrow())
    }

    fn note<T>(
        &self,
        name: &str,
        read: io::Result<T>,
        entry: impl Fn(&T) -> Entry,
    ) -> io::Result<T> {
        if let Ok(value) = &read {
            self.found
                .borrow_mut()
                .insert(name.to_owned(), entry(value));
        }
        read
    }
}

impl Tree for Recorder<'_> {
    fn read(&self, name: &str) -> io::Result<String> {
        self.note(name, self.tree.read(name), |text| Entry::Text(text.clone()))
    }

    fn write(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let names = self.tree.list(dir)?;
        // That there are some matters; their names have the number of the machine.
        if dir == loader::ENTRIES && !names.is_empty() {
            let empty = Entry::Text(String::new());
            self.found
                .borrow_mut()
                .insert(format!("{dir}/entry.conf"), empty);
        }
        // Only the names matter in this directory; in others the files are read.
        if dir.ends_with("/msi_irqs") {
            for name in &names {
                let empty = Entry::Text(String::new());
                self.found
                    .borrow_mut()
                    .insert(format!("{dir}/{name}"), empty);
            }
        }
        Ok(names)
    }

    fn link(&self, name: &str) -> io::Result<String> {
        self.note(name, self.tree.link(name), |target| {
            Entry::Link(target.clone())
        })
    }
}

/// Reads everything that commands read, and returns what may be disclosed of it.
pub fn record(tree: &dyn Tree) -> BTreeMap<String, Entry> {
    let recorder = Recorder::new(tree);
    read_all(&recorder);
    recorder.entries()
}

/// Reads everything that commands read.
pub fn read_all(tree: &dyn Tree) {
    let facts = Facts::read(tree);
    drop(facts);
    let counters = Counters::read(tree);
    drop(counters);
    for knob in knob::all(tree) {
        // A value of unknown form is recorded, too.
        drop(knob.read(tree));
        if let Some(now) = firmware::now_of(&knob.id) {
            drop(tree.read(&now));
        }
    }
}

#[cfg(test)]
mod tests;
