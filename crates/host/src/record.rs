//! A copy of what is read of a host, for fixtures and bug reports: a `tar` of small files that
//! works as `--sysroot` once unpacked.
//!
//! The reading code itself determines what is recorded. Invariants: the copy contains no serial
//! number, no hardware or network address, no environment and no host name; of running programs
//! only those that set knobs.

mod tar;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use crate::counter::Counters;
use crate::facts::{Facts, boot, owners};
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
    missed: RefCell<Vec<String>>,
}

impl<'a> Recorder<'a> {
    /// Creates a recorder without entries.
    pub fn new(tree: &'a dyn Tree) -> Recorder<'a> {
        Recorder {
            tree,
            found: RefCell::default(),
            missed: RefCell::default(),
        }
    }

    /// Returns the names that were read but do not exist.
    pub fn missed(&self) -> Vec<String> {
        self.missed.borrow().clone()
    }

    /// Returns everything that may be disclosed.
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

/// Returns whether an entry may be disclosed.
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

/// Returns an entry without the comments of settings files and without unknown boot options.
fn without_comments(name: &str, entry: &Entry) -> Entry {
    match entry {
        Entry::Text(text) if name.contains("/sysctl.") => {
            let is_setting = |line: &&str| !line.trim_start().starts_with(['#', ';']);
            let settings: Vec<&str> = text.lines().filter(is_setting).collect();
            Entry::Text(settings.join("\n") + "\n")
        }
        // Connections hold keys of networks; of programs only the interrupts that they leave alone.
        Entry::Text(text) if owners::is_of_manager(name) => Entry::Text(owners::settings_of(text)),
        Entry::Text(text)
            if name.starts_with("proc/")
                && name.ends_with("/cmdline")
                && name != "proc/cmdline" =>
        {
            Entry::Text(owners::banned_of(text))
        }
        Entry::Text(text) if name == "proc/cmdline" => {
            Entry::Text(boot::options(text).join(" ") + "\n")
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
