//! Rules that settings of the process have among themselves, whatever its listeners and directories
//! are.
//!
//! A rule reports a problem; it changes no value.

use super::super::cpus;
use super::super::problem::Problem;
use super::super::values::Values;
use super::groups;

/// Refuses what is wrong whatever the listeners and directories are.
pub(super) fn check_process(values: &Values, problems: &mut Vec<Problem>) {
    check_roles(values, problems);
    check_order(values, problems);
    groups::check(values, problems);
    if let Err(allowed) = cpus::parse(&values.string(cpus::KEY)) {
        problems.push(values.problem(cpus::KEY, allowed));
    }
    let level = values.string("log.level");
    if level.parse::<tracing_subscriber::EnvFilter>().is_err() {
        problems.push(values.problem("log.level", "must be a level or a list of filters"));
    }
}

/// Refuses a node without both roles, and more than one controller.
///
/// A node under separate controllers would need a quorum client; refusing is better than forming a
/// cluster of its own.
fn check_roles(values: &Values, problems: &mut Vec<Problem>) {
    let roles = values.list("process.roles");
    if !(roles.contains(&"broker") && roles.contains(&"controller")) {
        let allowed =
            "must be broker,controller: a node under separate controllers is not there yet";
        problems.push(values.problem("process.roles", allowed));
    }
    for key in [
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
    ] {
        if values.list(key).len() > 1 {
            problems
                .push(values.problem(key, "must name this node only: clusters are not there yet"));
        }
    }
}

fn check_order(values: &Values, problems: &mut Vec<Problem>) {
    let least = values.int("group.min.session.timeout.ms");
    if values.int("group.max.session.timeout.ms") < least {
        let allowed = format!("must be at least group.min.session.timeout.ms={least}");
        problems.push(values.problem("group.max.session.timeout.ms", allowed));
    }
    for key in [
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    ] {
        if values.number(key) == Some(0) {
            problems.push(values.problem(key, "must be -1 or at least 1"));
        }
    }
}
