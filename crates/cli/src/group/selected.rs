//! The groups that names and patterns on a command line select.
//!
//! A pattern looks at the groups of every broker.

use super::list;
use crate::ask::Cluster;
use crate::names::{Name, Selection};

/// Returns the selected groups; a pattern that matches none is an error.
pub(super) fn some(cluster: &mut Cluster, arguments: &[Name]) -> anyhow::Result<Selection> {
    Selection::of(arguments, || all(cluster))?.complete("group")
}

/// Returns the names of all groups.
pub(super) fn all(cluster: &mut Cluster) -> anyhow::Result<Vec<String>> {
    let listed = list::all(cluster)?;
    Ok(listed.into_iter().map(|group| group.name).collect())
}
