//! A copy of what was read of a host, for fixtures and reports of errors: a `tar` of small files that `--sysroot` takes when
//! it is unpacked.
//!
//! What is read is what is recorded: the list of what is allowed is the code that reads. Invariants: no serial number, no
//! hardware or network address, no environment, no name of a host is in it; of running programs only those that set
//! knobs.

mod tar;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use crate::counter::Counters;
use crate::facts::{Facts, owners};
use crate::knob;
use crate::root::Tree;

pub use tar::write;

/// What was found under a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A file's text.
    Text(String),
    /// Where a link leads.
    Link(String),
}

/// A tree that remembers what was read of another.
pub struct Recorder<'a> {
    tree: &'a dyn Tree,
    found: RefCell<BTreeMap<String, Entry>>,
    missed: RefCell<Vec<String>>,
}

impl<'a> Recorder<'a> {
    /// Nothing was read yet.
    pub fn new(tree: &'a dyn Tree) -> Recorder<'a> {
        Recorder {
            tree,
            found: RefCell::default(),
            missed: RefCell::default(),
        }
    }

    /// Names that were asked for and are not there.
    pub fn missed(&self) -> Vec<String> {
        self.missed.borrow().clone()
    }

    /// Everything that may be given away.
    pub fn entries(&self) -> BTreeMap<String, Entry> {
        let found = self.found.borrow();
        let allowed = found.iter().filter(|(name, entry)| is_allowed(name, entry));
        allowed
            .map(|(name, entry)| (name.clone(), without_comments(name, entry)))
            .collect()
    }

    fn note<T>(
        &self,
        name: &str,
        read: io::Result<T>,
        entry: impl Fn(&T) -> Entry,
    ) -> io::Result<T> {
        match &read {
            Ok(value) => {
                self.found
                    .borrow_mut()
                    .insert(name.to_owned(), entry(value));
            }
            Err(_) => self.missed.borrow_mut().push(name.to_owned()),
        }
        read
    }
}

/// Whether it may be given away.
fn is_allowed(name: &str, entry: &Entry) -> bool {
    let Entry::Text(text) = entry else {
        return true;
    };
    let of_process = name.starts_with("proc/") && name.ends_with("/comm");
    match () {
        () if name == "proc/1/environ" || name.ends_with("boot_id") => false,
        () if of_process => owners::is_program(text.trim()),
        () => true,
    }
}

/// Files of settings without what people wrote beside them.
fn without_comments(name: &str, entry: &Entry) -> Entry {
    match entry {
        Entry::Text(text) if name.contains("/sysctl.") => {
            let is_setting = |line: &&str| !line.trim_start().starts_with(['#', ';']);
            let settings: Vec<&str> = text.lines().filter(is_setting).collect();
            Entry::Text(settings.join("\n") + "\n")
        }
        other => other.clone(),
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
        // Only the names matter there; elsewhere what is in a directory is read.
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

/// Reads everything that commands read, and says what may be given away of it.
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
        // A value in a form that is not known is recorded all the same.
        drop(knob.read(tree));
    }
}

#[cfg(test)]
mod tests;
