//! A group that is described, as text for people.
//!
//! It leaves out nothing of the group that JSON has, except for instances of members.

use super::DescribedGroup;
use crate::ask::Cluster;
use crate::show::{Table, or_dash};

const HEAD: [&str; 9] = [
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-START-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "MEMBER-ID",
    "CLIENT-ID",
    "HOST",
];

pub(super) fn text(described: &DescribedGroup, cluster: &Cluster) -> String {
    let group = &described.group;
    let mut head = Table::plain();
    let mut fact = |name: &str, value: String| head.row([name.to_owned(), value]);
    let assignor = Some(&group.assignor).filter(|name| !name.is_empty());
    let address = cluster.address(group.coordinator);
    fact("GROUP", group.name.clone());
    fact("TYPE", group.kind.to_owned());
    fact("STATE", group.state.clone());
    fact("ASSIGNOR", or_dash(assignor));
    fact("COORDINATOR", format!("{} ({address})", group.coordinator));
    fact("MEMBERS", group.members.len().to_string());
    fact("TOTAL-LAG", described.sum.to_string());
    let mut table = Table::headed(&HEAD);
    for one in &described.partitions {
        let owner = group.owner(&(one.topic.clone(), one.index));
        let [position, start, end, lag] = one.offsets();
        table.row([
            one.topic.clone(),
            one.index.to_string(),
            position,
            start,
            end,
            lag,
            or_dash(one.member.as_ref()),
            or_dash(owner.map(|member| &member.client)),
            or_dash(owner.map(|member| &member.host)),
        ]);
    }
    // Members without partitions are shown, too.
    let members = group.members.iter();
    for member in members.filter(|member| member.partitions.is_empty()) {
        let dash = || "-".to_owned();
        table.row([
            dash(),
            dash(),
            dash(),
            dash(),
            dash(),
            dash(),
            member.id.clone(),
            member.client.clone(),
            member.host.clone(),
        ]);
    }
    format!("{}\n{}", head.render(), table.render())
}
