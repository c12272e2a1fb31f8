//! The topics that names and patterns on a command line select.
//!
//! A pattern selects no internal topics, and none whose name begins with `_`, which is how other
//! programs mark theirs (`__remote_log_metadata`, `_schemas`): these have to be named.

use crate::ask::Cluster;
use crate::names::{Name, Selection};

/// Returns the selected topics; a pattern may match none.
pub(super) fn any(cluster: &mut Cluster, arguments: &[Name]) -> anyhow::Result<Selection> {
    Selection::of(arguments, || {
        let topics = cluster.look(None, false)?.topics;
        let topics = topics.into_iter().filter(|topic| !topic.is_internal);
        let names = topics.filter_map(|topic| Some(topic.name?.0.to_string()));
        let mut names: Vec<_> = names.filter(|name| !name.starts_with('_')).collect();
        names.sort();
        Ok(names)
    })
}

/// Returns the selected topics; a pattern that matches none is an error.
pub(super) fn some(cluster: &mut Cluster, arguments: &[Name]) -> anyhow::Result<Selection> {
    any(cluster, arguments)?.complete("topic")
}
