//! `forebay profile ...` and its file: names for clusters, one of them in use.
//!
//! The file is `forebay/profiles.toml` below `XDG_CONFIG_HOME` (otherwise `~/.config`). It holds no
//! secrets: these are in a file of properties, which a profile names.

mod file;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::property::Property;
use crate::show::{Format, Table, or_dash, say};
pub(crate) use file::Profile;
use file::Profiles;

/// Arguments of `forebay profile`.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// How to show the answer.
    #[arg(long, value_enum, default_value_t = Format::Text, global = true)]
    format: Format,
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
enum ProfileCommand {
    /// Lists profiles; the one in use has a star.
    #[command(visible_alias = "ls")]
    List,
    /// Selects the profile to use.
    Use {
        /// Its name.
        name: String,
    },
    /// Sets properties of a profile, and creates it if it does not exist; an empty value removes a
    /// property.
    Set {
        /// Its name.
        name: String,
        /// brokers=HOST:PORT,.., command-config=FILE, admin=[https://]HOST:PORT and
        /// admin-config=FILE (for forebay tier), and format=text|json.
        #[arg(value_name = "KEY=VALUE", required = true)]
        properties: Vec<Property>,
    },
    /// Removes a profile.
    Delete {
        /// Its name.
        name: String,
    },
}

#[derive(Serialize)]
struct ShownProfile<'a> {
    name: &'a str,
    in_use: bool,
    #[serde(flatten)]
    profile: &'a Profile,
}

impl ProfileArgs {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let mut profiles = Profiles::read()?;
        match &self.command {
            ProfileCommand::List => self.list(&profiles)?,
            ProfileCommand::Use { name } => {
                profiles.named(name)?;
                profiles.current = Some(name.clone());
                profiles.write()?;
            }
            ProfileCommand::Set { name, properties } => {
                let profile = profiles.profile.entry(name.clone()).or_default();
                for property in properties {
                    set(profile, property)?;
                }
                // The first profile is in use from its creation.
                profiles.current.get_or_insert_with(|| name.clone());
                profiles.write()?;
            }
            ProfileCommand::Delete { name } => {
                profiles.named(name)?;
                profiles.profile.remove(name);
                if profiles.current.as_ref() == Some(name) {
                    profiles.current = None;
                }
                profiles.write()?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn list(&self, profiles: &Profiles) -> anyhow::Result<()> {
        let shown = profiles.profile.iter().map(|(name, profile)| ShownProfile {
            name,
            in_use: profiles.current.as_ref() == Some(name),
            profile,
        });
        let shown: Vec<_> = shown.collect();
        self.format.show(&shown, || {
            // New columns come last: scripts count them.
            let head = ["NAME", "BROKERS", "FORMAT", "ADMIN", "COMMAND-CONFIG"];
            let has_config = shown.iter().any(|one| one.profile.command_config.is_some());
            let columns = if has_config {
                head.len()
            } else {
                head.len() - 1
            };
            let mut table = Table::headed(&head[..columns]);
            for ShownProfile {
                name,
                in_use,
                profile,
            } in &shown
            {
                let star = if *in_use { "*" } else { "" };
                let format = profile.format.map(|format| match format {
                    Format::Text => "text",
                    Format::Json => "json",
                });
                let (name, brokers) = (format!("{name}{star}"), or_dash(profile.brokers.as_ref()));
                let (format, admin) = (or_dash(format), or_dash(profile.admin.as_ref()));
                let config = profile.command_config.as_ref().map(|path| path.display());
                if has_config {
                    table.row([name, brokers, format, admin, or_dash(config)]);
                } else {
                    table.row([name, brokers, format, admin]);
                }
            }
            table.render()
        })
    }
}

fn set(profile: &mut Profile, property: &Property) -> anyhow::Result<()> {
    let Property { key, value } = property;
    let value = (!value.is_empty()).then_some(value.as_str());
    match key.as_str() {
        "brokers" => profile.brokers = value.map(str::to_owned),
        "admin" => profile.admin = value.map(str::to_owned),
        "format" => {
            profile.format = match value {
                None => None,
                Some("text") => Some(Format::Text),
                Some("json") => Some(Format::Json),
                Some(other) => bail!("format={other}: must be text or json"),
            }
        }
        "command-config" | "admin-config" => {
            // A command may run in another directory.
            let path = value.map(std::path::absolute).transpose();
            let path = path.with_context(|| format!("{key}={}", property.value))?;
            if key == "admin-config" {
                profile.admin_config = path;
            } else {
                profile.command_config = path;
            }
        }
        _ => bail!("{key}: a profile has command-config, admin-config, brokers, admin and format"),
    }
    Ok(())
}

/// Returns the profile with this name, otherwise the one in use, otherwise an empty one.
pub(crate) fn selected(name: Option<&str>) -> anyhow::Result<Profile> {
    Ok(found(name)?.map(|(_, profile)| profile).unwrap_or_default())
}

/// Returns the profile with this name, otherwise the one in use, with its name.
fn found(name: Option<&str>) -> anyhow::Result<Option<(String, Profile)>> {
    let profiles = Profiles::read()?;
    let Some(name) = name.or(profiles.current.as_deref()) else {
        return Ok(None);
    };
    let profile = profiles.named(name).cloned();
    let profile = profile.context("forebay profile list shows those there are")?;
    Ok(Some((name.to_owned(), profile)))
}

/// Returns the profile with this name, otherwise the one in use, otherwise an empty one, for a
/// command that asks the admin endpoint.
///
/// It tells the endpoint on standard error: the user did not name it on the command line.
pub(crate) fn with_admin(profile: Option<&str>) -> anyhow::Result<Profile> {
    let Some((name, profile)) = found(profile)? else {
        return Ok(Profile::default());
    };
    if let Some(admin) = &profile.admin {
        say(&format!("admin endpoint {admin}, of profile {name}"));
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ls_is_list() {
        let command = ProfileArgs::augment_args(clap::Command::new("profile"));
        let lists = command
            .get_subcommands()
            .find(|one| one.get_name() == "list");
        assert_eq!(
            lists.unwrap().get_visible_aliases().collect::<Vec<_>>(),
            ["ls"]
        );
    }

    #[test]
    fn an_empty_value_removes_a_property() {
        let mut profile = Profile::default();
        for property in ["brokers=a:1,b:2", "admin=a:9644", "format=json"] {
            set(&mut profile, &property.parse().unwrap()).unwrap();
        }
        assert_eq!(profile.brokers.as_deref(), Some("a:1,b:2"));
        assert_eq!(profile.admin.as_deref(), Some("a:9644"));
        assert_eq!(profile.format, Some(Format::Json));
        set(&mut profile, &"command-config=c".parse().unwrap()).unwrap();
        let config = profile.command_config.as_deref().unwrap();
        assert!(config.is_absolute() && config.ends_with("c"), "{config:?}");
        set(&mut profile, &"command-config=".parse().unwrap()).unwrap();
        assert_eq!(profile.command_config, None);
        set(&mut profile, &"admin=".parse().unwrap()).unwrap();
        assert_eq!(profile.admin, None);
        let unknown = set(&mut profile, &"colour=red".parse().unwrap()).unwrap_err();
        assert!(unknown.to_string().contains("brokers, admin and format"));
    }
}
