//! The cluster of a command and the format of its answer.
//!
//! Options override the profile, and the profile overrides the defaults.

use std::time::Duration;

use clap::Args;

use crate::ask::Cluster;
use crate::profile::{self, Profile};
use crate::show::Format;

/// The brokers if neither an option nor the profile names any.
pub(crate) const DEFAULT_BROKERS: &str = "127.0.0.1:9092";

/// Options of the commands that reach a cluster.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Brokers to begin with [default: the profile's, else 127.0.0.1:9092].
    #[arg(
        short,
        long,
        value_name = "HOST:PORT,..",
        alias = "bootstrap-server",
        global = true
    )]
    brokers: Option<String>,
    /// Profile to take brokers and format from, instead of the one in use.
    #[arg(long, value_name = "NAME", global = true)]
    profile: Option<String>,
    /// How to show the answer [default: the profile's, else text].
    #[arg(long, value_enum, global = true)]
    format: Option<Format>,
    /// How long a broker may take for one step; the client waits twice as long, and
    /// again for each part of the answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, global = true,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// A target with all options resolved.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) brokers: String,
    pub(crate) format: Format,
    pub(crate) within: Duration,
}

impl Target {
    /// Resolves the options; reads the profiles only where an option is missing.
    pub(crate) fn choose(&self) -> anyhow::Result<Chosen> {
        let profile = match (&self.brokers, self.format, &self.profile) {
            // A broken file must not stop a command that does not need it.
            (Some(_), Some(_), None) => Profile::default(),
            _ => profile::selected(self.profile.as_deref())?,
        };
        let brokers = self.brokers.clone().or(profile.brokers);
        Ok(Chosen {
            brokers: brokers.unwrap_or_else(|| DEFAULT_BROKERS.to_owned()),
            format: self.format.or(profile.format).unwrap_or_default(),
            within: Duration::from_secs(self.timeout),
        })
    }
}

impl Chosen {
    /// Connects to the cluster.
    pub(crate) fn cluster(&self) -> anyhow::Result<Cluster> {
        Cluster::reach(&self.brokers, self.within)
    }
}
