//! Runs the loads of an experiment, from this process or from many hosts that share each load.
//!
//! Invariant: hosts are connected before anything is measured, and stay connected between
//! measurements.

use anyhow::{Context as _, bail};
use tokio::runtime::Runtime;

use crate::agent::{Hosts, HostsArguments};
use crate::conduct;
use crate::experiment::{Experiment, TargetKind};
use crate::load::Control;
use crate::outcome::LoadOutcome;
use crate::spec::Load;

/// The load generators of a run.
pub(super) struct Generators {
    runtime: Runtime,
    hosts: Option<Hosts>,
}

impl Generators {
    /// Connects to the hosts, if there are any; the error has the reason of a failure.
    pub(super) fn reach(arguments: &HostsArguments) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let hosts = if arguments.hosts.is_empty() {
            None
        } else {
            Some(runtime.block_on(Hosts::reach(arguments))?)
        };
        Ok(Self { runtime, hosts })
    }

    /// Returns the report's text on the hosts; none without any.
    pub(super) fn fact(&self) -> Option<String> {
        let hosts = self.hosts.as_ref()?.clocks();
        let each = hosts.iter().map(|host| {
            let (ahead, sure) = (host.clock_ahead_us, host.clock_uncertainty_us);
            format!("{} (clock {ahead:+} us, +-{sure} us)", host.name)
        });
        Some(each.collect::<Vec<_>>().join(", "))
    }

    /// Runs a load, and its check if it has one.
    pub(super) fn put_on(
        &mut self,
        bootstrap: &str,
        load: &Load,
        control: &Control,
    ) -> anyhow::Result<LoadOutcome> {
        let hosts = self.hosts.as_mut();
        self.runtime
            .block_on(conduct::run(bootstrap, load, control, hosts, None))
    }
}

/// Refuses brokers that other hosts could not reach.
pub(super) fn reachable(
    experiment: &Experiment,
    hosts: &[String],
    broker_host: Option<&str>,
) -> anyhow::Result<()> {
    let starts_any = experiment.targets.iter().any(|name| {
        let kind = experiment.target.get(name).map(|target| target.kind);
        kind != Some(TargetKind::Address)
    });
    if starts_any && !hosts.is_empty() && broker_host.is_none() {
        bail!(
            "--hosts needs --broker-host: the address of this machine at which {} reach the brokers that are \
             started here",
            hosts.join(", ")
        );
    }
    Ok(())
}

/// Checks that `host` is a plain name or IPv4 address of this machine, and returns it.
pub(super) fn checked(host: &str) -> anyhow::Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-' || c == '_';
    if host.is_empty() || !host.chars().all(plain) {
        bail!("--broker-host {host}: a name or an IPv4 address, without a port");
    }
    // Both Kafka and Forebay bind to it, so it must belong to this machine.
    std::net::TcpListener::bind((host, 0))
        .with_context(|| format!("--broker-host {host} is no address of this machine"))?;
    Ok(host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::find;

    #[test]
    fn brokers_out_of_reach_are_refused() {
        let quick = find("quick").unwrap();
        let hosts = ["far".to_owned()];
        let refused = reachable(&quick, &hosts, None).unwrap_err().to_string();
        assert!(
            refused.contains("--broker-host") && refused.contains("far"),
            "{refused}"
        );
        assert!(reachable(&quick, &hosts, Some("10.0.0.7")).is_ok());
        assert!(reachable(&quick, &[], None).is_ok());
        assert!(checked("127.0.0.1").is_ok());
        assert!(checked("127.0.0.1:9092").is_err());
    }
}
