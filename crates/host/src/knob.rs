//! Every setting of a host that may be changed, each with its form, its bounds, the cost of a
//! change, and how it is taken back.
//!
//! A knob has an id that is valid on every host (`net.eth0.rx-0.rps_cpus`), from which its file on
//! a host is found. Invariants: only knobs in the tables here are ever written; an interrupt is
//! named by device and queue, never by its number, which can change.

mod block;
mod cpu;
mod firmware;
mod memory;
mod net;
mod process;
mod sysctl;

use serde::{Deserialize, Serialize};

use crate::form::Form;
use crate::root::Tree;

/// The cost of a change for the clients served meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub enum Class {
    /// Nothing.
    O,
    /// A hiccup of some flows, up to milliseconds.
    F,
    /// The link is down for up to ten seconds.
    L,
    /// A restart of a process.
    P,
    /// A restart of the host.
    B,
    /// Destroyed data: only advised, never applied.
    D,
}

impl Class {
    /// Returns the cost as text.
    pub fn cost(self) -> &'static str {
        match self {
            Class::O => "nothing",
            Class::F => "a hiccup of some flows",
            Class::L => "the link, for up to ten seconds",
            Class::P => "a restart of the process",
            Class::B => "a restart of the host",
            Class::D => "data",
        }
    }
}

/// How a value is taken back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Undo {
    /// The old value is written.
    Value,
    /// Two knobs exclude each other: if the old value is 0, the old value of the other knob is
    /// written.
    Pair(String),
}

/// One knob of one host.
#[derive(Clone, PartialEq, Debug)]
pub struct Knob {
    /// Its id, the same on every host.
    pub id: String,
    /// Its name in the tree.
    pub name: String,
    /// The form of its value.
    pub form: Form,
    /// The cost of a change.
    pub class: Class,
    /// How it is taken back.
    pub undo: Undo,
}

impl Knob {
    fn new(id: impl Into<String>, name: impl Into<String>, form: Form, class: Class) -> Knob {
        Knob {
            id: id.into(),
            name: name.into(),
            form,
            class,
            undo: Undo::Value,
        }
    }

    /// Returns the current canonical value.
    pub fn read(&self, tree: &dyn Tree) -> std::io::Result<String> {
        let text = tree.read(&self.name)?;
        self.form.canonical(&text).ok_or_else(|| {
            let what = format!(
                "{}: {:?} is in no form that is known",
                self.name,
                text.trim()
            );
            std::io::Error::new(std::io::ErrorKind::InvalidData, what)
        })
    }

    /// Writes a canonical value.
    pub fn write(&self, tree: &dyn Tree, canonical: &str) -> std::io::Result<()> {
        tree.write(&self.name, &self.form.text(canonical))
    }
}

/// Returns the knob of an id; none if there is no such knob.
///
/// Only reading it shows whether the host has it.
pub fn find(tree: &dyn Tree, id: &str) -> Option<Knob> {
    let (area, rest) = id.split_once('.')?;
    match area {
        "sysctl" => sysctl::find(tree, rest),
        "block" => block::find(rest),
        "mm" => memory::find(rest),
        "cpu" => cpu::find(rest),
        "net" => net::find(tree, rest),
        "process" => process::find(rest),
        "server" => process::find_running(rest),
        "firmware" => firmware::find(rest),
        _ => None,
    }
}

/// Returns all knobs that this host has, by area.
pub fn all(tree: &dyn Tree) -> Vec<Knob> {
    let mut knobs = net::all(tree);
    knobs.extend(sysctl::all(tree));
    knobs.extend(block::all(tree));
    knobs.extend(memory::all());
    knobs.extend(cpu::all(tree));
    knobs.extend(process::all());
    knobs.extend(firmware::all(tree));
    knobs.retain(|knob| tree.read(&knob.name).is_ok());
    knobs
}

/// Returns the position in the order of writing: a knob whose write recreates others comes first.
pub fn turn(id: &str) -> u8 {
    let last = id.rsplit('.').next().unwrap_or_default();
    match (id.split('.').next().unwrap_or_default(), last) {
        ("net", "channels") => 0,
        ("net", "rings") => 1,
        ("net", "rss" | "rss_key" | "rss_fields") => 2,
        ("net", "coalescing") => 3,
        ("net", "features") => 4,
        ("net", "irq" | "cpus") => 6,
        ("net", "rps_cpus" | "rps_flow_cnt" | "xps_cpus") => 7,
        ("net", _) => 5,
        ("sysctl", _) => 8,
        ("block", _) => 9,
        ("process", _) => 11,
        _ => 10,
    }
}

/// Returns whether a written value is still there after a restart of the host: the firmware keeps
/// it, or the disk.
pub fn outlives_boot(id: &str) -> bool {
    is_of_firmware(id) || id.starts_with("process.")
}

/// Returns whether a value is not for other users of the host: who knows the key of the hash can
/// send packets that all come to one queue.
pub fn is_secret(id: &str) -> bool {
    id.starts_with("net.") && id.ends_with(".rss_key")
}

/// Returns whether an item is a setting of the firmware.
pub fn is_of_firmware(id: &str) -> bool {
    id.starts_with("firmware.")
}

/// Returns whether a text may be part of a name: of a device, a queue, a policy.
fn is_plain(part: &str) -> bool {
    !part.is_empty()
        && part != "."
        && part != ".."
        && part
            .chars()
            .all(|letter| letter.is_ascii_graphic() && letter != '/')
}

#[cfg(test)]
mod tests;
