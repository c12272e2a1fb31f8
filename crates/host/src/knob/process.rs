//! The broker's CPUs: those of the running one, and the file that it reads when it starts,
//! `process.cpus=@/etc/forebay/cpus`.
//!
//! The file exists where an operator has made it and given it to the broker: a knob is a file that
//! is there. It is a file of the disk, so its value outlives a restart of the host; that of the
//! running broker ends with it.

use super::{Class, Form, Knob};

/// The file that the broker's settings name.
const CPUS: &str = "etc/forebay/cpus";

/// Returns the knob of `cpus`.
pub(super) fn find(rest: &str) -> Option<Knob> {
    (rest == "cpus").then(|| Knob::new("process.cpus", CPUS, Form::List, Class::P))
}

/// Returns the knob of the running broker's `cpus`.
pub(super) fn find_running(rest: &str) -> Option<Knob> {
    (rest == "cpus").then(|| Knob::new("server.cpus", "server/cpus", Form::List, Class::O))
}

/// Returns all knobs.
pub(super) fn all() -> Vec<Knob> {
    find("cpus")
        .into_iter()
        .chain(find_running("cpus"))
        .collect()
}
