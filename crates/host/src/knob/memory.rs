//! Huge pages, for the programs of the host that have them. No rule proposes a value: the broker
//! asks the kernel for small pages only, but for mapped files on persistent memory.

use super::{Class, Form, Knob};

const KNOWN: &[(&str, &[&str])] = &[
    ("thp.enabled", &["always", "madvise", "never"]),
    (
        "thp.defrag",
        &["always", "defer", "defer+madvise", "madvise", "never"],
    ),
];

/// Returns the knob of `thp.NAME`.
pub(super) fn find(rest: &str) -> Option<Knob> {
    let (name, words) = KNOWN.iter().find(|(name, _)| *name == rest)?;
    let file = name.strip_prefix("thp.")?;
    let file = format!("sys/kernel/mm/transparent_hugepage/{file}");
    Some(Knob::new(
        format!("mm.{rest}"),
        file,
        Form::Choice(words),
        Class::O,
    ))
}

/// Returns all knobs.
pub(super) fn all() -> Vec<Knob> {
    KNOWN.iter().filter_map(|(name, _)| find(name)).collect()
}
