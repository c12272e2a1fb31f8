//! The cluster of a command, how to connect to it, and the format of the answer.
//!
//! Options override the profile, and the profile overrides the defaults. Invariant: the file of
//! properties in a profile is for the brokers of that profile, so that no password goes to others.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use client::{Settings, SettingsBuilder};

use crate::ask::{CLIENT_ID, Cluster};
use crate::command_config::CommandConfig;
use crate::profile::{self, Profile};
use crate::show::{self, Format};

/// The brokers if neither an option, the file nor the profile names any.
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
    /// Profile to take brokers, properties and format from, instead of the one in use.
    #[arg(long, value_name = "NAME", global = true)]
    profile: Option<String>,
    /// How to show the answer [default: the profile's, else text].
    #[arg(long, value_enum, global = true)]
    format: Option<Format>,
    /// File of properties as Kafka's tools take it: security.protocol, ssl.*, sasl.*, and others
    /// [default: the profile's].
    #[arg(long, value_name = "FILE", global = true)]
    command_config: Option<PathBuf>,
    /// How long a broker may take for one step; the client waits twice as long.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, global = true,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// A target with all options resolved.
#[derive(Debug)]
pub(crate) struct ChosenTarget {
    brokers: String,
    config: CommandConfig,
    /// Warnings that were shown: a command connects several times.
    shown: RefCell<BTreeSet<String>>,
    pub(crate) format: Format,
    pub(crate) within: Duration,
}

impl Target {
    /// Resolves the options; reads the profiles only where an option is missing.
    pub(crate) fn choose(&self) -> anyhow::Result<ChosenTarget> {
        let profile = match (&self.brokers, self.format, &self.profile) {
            // A broken file must not stop a command that does not need it.
            (Some(_), Some(_), None) => Profile::default(),
            _ => profile::selected(self.profile.as_deref())?,
        };
        let config = match self.file(&profile) {
            Some(path) => {
                let read = CommandConfig::read(path);
                read.context(if self.command_config.is_some() {
                    "--command-config"
                } else {
                    "command-config of the profile"
                })?
            }
            None => CommandConfig::default(),
        };
        Ok(ChosenTarget {
            brokers: self.brokers(&profile, config.brokers()),
            config,
            shown: RefCell::default(),
            format: self.format.or(profile.format).unwrap_or_default(),
            within: Duration::from_secs(self.timeout),
        })
    }

    /// Returns the file of properties, if there is one.
    fn file<'a>(&'a self, profile: &'a Profile) -> Option<&'a PathBuf> {
        let belongs = self.brokers.is_none() || self.profile.is_some();
        let of_profile = profile.command_config.as_ref().filter(|_| belongs);
        self.command_config.as_ref().or(of_profile)
    }

    /// Returns the brokers to begin with. Those of a file that the command line names come before
    /// those of the profile.
    fn brokers(&self, profile: &Profile, of_file: Option<&str>) -> String {
        let of_profile = profile.brokers.as_deref();
        let (first, second) = if self.command_config.is_some() {
            (of_file, of_profile)
        } else {
            (of_profile, of_file)
        };
        let brokers = self.brokers.as_deref().or(first).or(second);
        brokers.unwrap_or(DEFAULT_BROKERS).to_owned()
    }
}

impl ChosenTarget {
    /// Connects to the cluster.
    pub(crate) fn cluster(&self) -> anyhow::Result<Cluster> {
        let settings = self.finish(self.settings()?)?;
        Cluster::reach(settings.client, self.within)
    }

    /// Returns the settings of the client; a command adds its own.
    pub(crate) fn settings(&self) -> anyhow::Result<SettingsBuilder> {
        let mut builder = SettingsBuilder::new(&self.brokers)?;
        builder.set("client.id", CLIENT_ID)?;
        for warning in self.config.warnings() {
            self.show(warning);
        }
        let unknown = self.config.apply(&mut builder)?;
        if !unknown.is_empty() {
            self.show(&self.config.without_meaning(&unknown));
        }
        Ok(builder)
    }

    /// Returns the settings if they fit together, and shows what there is to say about them.
    pub(crate) fn finish(&self, builder: SettingsBuilder) -> anyhow::Result<Settings> {
        let settings = match builder.finish() {
            Ok(settings) => settings,
            Err(error) => return Err(self.config.blamed(error)).context("settings of the client"),
        };
        for warning in &settings.warnings {
            self.show(warning);
        }
        Ok(settings)
    }

    /// Shows a warning once.
    fn show(&self, warning: &str) {
        if self.shown.borrow_mut().insert(warning.to_owned()) {
            show::say(warning);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(brokers: Option<&str>, profile: Option<&str>, file: Option<&str>) -> Target {
        Target {
            brokers: brokers.map(str::to_owned),
            profile: profile.map(str::to_owned),
            format: None,
            command_config: file.map(PathBuf::from),
            timeout: 30,
        }
    }

    #[test]
    fn the_file_of_a_profile_is_for_its_own_brokers() {
        let profile = Profile {
            brokers: Some("p:1".to_owned()),
            command_config: Some(PathBuf::from("/p")),
            ..Profile::default()
        };
        let file = |target: &Target| target.file(&profile).map(|path| path.display().to_string());
        for (brokers, name, own, wanted) in [
            (None, None, None, Some("/p")),
            (None, None, Some("/o"), Some("/o")),
            (Some("b:1"), None, None, None),
            (Some("b:1"), None, Some("/o"), Some("/o")),
            (Some("b:1"), Some("p"), None, Some("/p")),
        ] {
            let found = file(&target(brokers, name, own));
            assert_eq!(found.as_deref(), wanted, "{brokers:?} {name:?} {own:?}");
        }
    }

    #[test]
    fn a_file_that_is_missing_is_named_with_what_names_it() {
        let mut target = target(Some("b:1"), None, Some("/nowhere/c"));
        target.format = Some(Format::Text);
        let told = format!("{:#}", target.choose().unwrap_err());
        assert!(told.starts_with("--command-config: /nowhere/c: "), "{told}");
    }

    #[test]
    fn brokers_of_a_file_come_before_those_of_a_profile_if_the_command_line_names_it() {
        let profile = Profile {
            brokers: Some("p:1".to_owned()),
            ..Profile::default()
        };
        let none = Profile::default();
        let brokers =
            |target: &Target, profile, of_file| -> String { target.brokers(profile, of_file) };
        let option = target(Some("b:1"), None, Some("/o"));
        assert_eq!(brokers(&option, &profile, Some("f:1")), "b:1");
        let file = target(None, None, Some("/o"));
        assert_eq!(brokers(&file, &profile, Some("f:1")), "f:1");
        assert_eq!(brokers(&file, &profile, None), "p:1");
        let bare = target(None, None, None);
        assert_eq!(brokers(&bare, &profile, Some("f:1")), "p:1");
        assert_eq!(brokers(&bare, &none, Some("f:1")), "f:1");
        assert_eq!(brokers(&bare, &none, None), DEFAULT_BROKERS);
    }
}
