//! The groups that names and patterns on a command line select.
//!
//! A pattern looks at the groups of every broker.

use super::list::{self, ListedGroup, SilentBroker};
use crate::ask::Cluster;
use crate::names::{Name, Selection};

/// Returns the selected groups; a pattern that matches none is an error.
///
/// So is a broker that does not tell its groups, if there is a pattern: this is for commands that
/// change what they select.
pub(super) fn surely(cluster: &mut Cluster, arguments: &[Name]) -> anyhow::Result<Selection> {
    let selection = Selection::of(arguments, || {
        let (listed, silent) = list::all(cluster)?;
        silent
            .into_iter()
            .next()
            .map_or(Ok(()), SilentBroker::fail)?;
        Ok(names(listed))
    });
    selection?.complete("group")
}

/// Returns the names of the selected groups, and the brokers that did not tell theirs.
///
/// A pattern that matches none is an error if all brokers told.
pub(super) fn known(
    cluster: &mut Cluster,
    arguments: &[Name],
) -> anyhow::Result<(Vec<String>, Vec<SilentBroker>)> {
    let mut silent = Vec::new();
    let mut selection = Selection::of(arguments, || {
        let listed;
        (listed, silent) = list::all(cluster)?;
        Ok(names(listed))
    })?;
    if silent.is_empty() {
        selection = selection.complete("group")?;
    }
    Ok((selection.names, silent))
}

/// Returns the names of all groups, and the brokers that did not tell theirs.
pub(super) fn all(cluster: &mut Cluster) -> anyhow::Result<(Vec<String>, Vec<SilentBroker>)> {
    let (listed, silent) = list::all(cluster)?;
    Ok((names(listed), silent))
}

fn names(listed: Vec<ListedGroup>) -> Vec<String> {
    listed.into_iter().map(|group| group.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::list::tests::half_silent;

    fn parsed(names: &[&str]) -> Vec<Name> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn a_change_needs_all_brokers_and_a_look_shows_what_the_others_tell() {
        let mut cluster = half_silent().cluster();
        let pattern = parsed(&["read*"]);
        let (names, silent) = known(&mut cluster, &pattern).unwrap();
        assert_eq!((names, silent.len()), (vec!["readers".to_owned()], 1));
        let refused = surely(&mut cluster, &pattern).unwrap_err();
        let reason = format!("{refused:#}");
        assert!(reason.starts_with("groups of broker 2: "), "{reason}");
        let (names, silent) = all(&mut cluster).unwrap();
        assert_eq!((names.len(), silent.len()), (2, 1));
        // The silent broker may have such a group.
        let (names, silent) = known(&mut cluster, &parsed(&["x*"])).unwrap();
        assert_eq!((names.len(), silent.len()), (0, 1));

        let named = parsed(&["readers"]);
        let selection = surely(&mut cluster, &named).unwrap();
        assert_eq!(selection.names, ["readers"]);
    }
}
