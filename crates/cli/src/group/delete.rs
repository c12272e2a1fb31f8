//! `forebay group delete`: deletes groups, and reports the outcome of each.
//!
//! A group with members is refused by its coordinator. What a pattern selects is deleted only with
//! `--execute`.

use std::process::ExitCode;

use clap::Args;
use wire::messages::{DeleteGroupsRequest, GroupId};

use super::selected;
use crate::ask::{Cluster, Coordinates, Failure, check, patiently, text};
use crate::confirm::ConfirmedNames;
use crate::outcome::{self, CommandOutcome};
use crate::progress::counted;
use crate::target::ChosenTarget;

#[derive(Debug, Args)]
pub(super) struct Delete {
    #[command(flatten)]
    named: ConfirmedNames,
}

impl Delete {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let mut cluster = target.cluster()?;
        let selected = selected::surely(&mut cluster, &self.named.names)?;
        if !self.named.confirmed(&selected) {
            return outcome::show_planned(target.format, "GROUP", &selected.names, "deleted");
        }
        let mut outcomes = Vec::new();
        for name in counted("groups", &selected.names) {
            // Each group has a coordinator of its own: an error concerns this group only.
            let result = delete(&mut cluster, name).map_err(Failure::from);
            outcomes.push(CommandOutcome::of(name, result, "deleted"));
        }
        outcome::show(target.format, "GROUP", &outcomes)
    }
}

fn delete(cluster: &mut Cluster, name: &str) -> anyhow::Result<()> {
    let id = cluster.coordinator(Coordinates::Group, name)?;
    let within = cluster.within();
    let broker = cluster.broker(id)?;
    let request = DeleteGroupsRequest::default().with_groups_names(vec![GroupId(text(name))]);
    patiently(within, || {
        let mut results = broker.ask_newest(&request)?.results.into_iter();
        let result = results.find(|one| one.group_id.0.as_str() == name);
        let result = result.ok_or(Failure::LeftOut)?;
        Ok(check(result.error_code, None)?)
    })
}

#[cfg(test)]
mod tests {
    use wire::messages::DeleteGroupsResponse;
    use wire::messages::delete_groups_response::DeletableGroupResult;

    use super::*;
    use crate::ask::Peer;

    #[test]
    fn only_a_group_that_the_answer_names_was_deleted() {
        let result = |name: &str, error: i16| {
            DeletableGroupResult::default()
                .with_group_id(GroupId(text(name)))
                .with_error_code(error)
        };
        let results = vec![result("other", 0), result("full", 68), result("g", 0)];
        let answer = DeleteGroupsResponse::default().with_results(results);
        let peer = Peer::start(move |asked| {
            let answer = answer.clone();
            let deleted = || asked.to(|_: DeleteGroupsRequest| answer);
            asked.coordinator().or_else(deleted)
        });
        let mut cluster = peer.cluster();
        let mut became = |name: &str| {
            let deleted = delete(&mut cluster, name);
            deleted.map_err(|error| error.to_string())
        };
        assert_eq!(became("g"), Ok(()));
        assert_eq!(became("full"), Err("NON_EMPTY_GROUP".to_owned()));
        assert_eq!(became("h"), Err(Failure::LeftOut.to_string()));
    }
}
