//! `forebay bench device`: makes and removes a slow disk, or one in memory, by one command each,
//! for measurements other than the benchmark's.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};

use super::{attach, free_bytes, line, obstacle, registry};
use crate::experiment::need::shown;
use crate::experiment::{Device as Wanted, DeviceKind};

/// Arguments of `forebay bench device`.
#[derive(Clone, Debug, Args)]
pub struct DeviceArgs {
    #[command(subcommand)]
    command: DeviceCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum DeviceCommand {
    /// Makes a device and prints its directory.
    Create {
        /// Kind of the device.
        kind: Kind,
        /// Name of the device.
        name: String,
        /// Size of its file system in bytes.
        #[arg(long, value_name = "BYTES")]
        size: u64,
        /// For kind limited: bytes per second, for reads and for writes each.
        #[arg(long, value_name = "BYTES")]
        rate: Option<u64>,
        /// Where it is mounted; a limited device has its image beside it.
        #[arg(long, value_name = "DIR")]
        at: PathBuf,
    },
    /// Removes a device; the data on it is lost.
    Remove {
        /// Its name.
        name: String,
    },
    /// Lists the devices.
    List,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Memory,
    Limited,
}

/// Runs the subcommand and returns the text for standard output.
pub fn run(arguments: &DeviceArgs) -> anyhow::Result<String> {
    match &arguments.command {
        DeviceCommand::Create {
            kind,
            name,
            size,
            rate,
            at,
        } => {
            let wanted = Wanted {
                name: name.clone(),
                kind: match kind {
                    Kind::Memory => DeviceKind::Memory,
                    Kind::Limited => DeviceKind::Limited,
                },
                size: Some(*size),
                rate: *rate,
                path: None,
            };
            create(&wanted, at)
        }
        DeviceCommand::Remove { name } => {
            let all = registry::all()?;
            let Some(made) = all.iter().find(|made| made.name == *name) else {
                let names: Vec<_> = all.iter().map(|made| made.name.as_str()).collect();
                bail!("there is no device {name}; there are: {}", names.join(", "));
            };
            if made.owner_runs() {
                bail!("device {name} belongs to a run that is going on");
            }
            made.remove()?;
            Ok(String::new())
        }
        DeviceCommand::List => Ok(registry::all()?.iter().map(line).collect()),
    }
}

fn create(wanted: &Wanted, at: &Path) -> anyhow::Result<String> {
    wanted.check().map_err(anyhow::Error::msg)?;
    if registry::all()?.iter().any(|made| made.name == wanted.name) {
        bail!("there is a device {} already", wanted.name);
    }
    if let Some(why) = obstacle(wanted) {
        bail!("device {} cannot be made here: {why}", wanted.name);
    }
    let size = wanted.size.unwrap_or_default();
    if wanted.kind == DeviceKind::Limited {
        let free = free_bytes(at)?;
        if free < size {
            bail!(
                "{} of disk are needed, {} are free",
                shown(size),
                shown(free)
            );
        }
    }
    if at.exists()
        && at
            .read_dir()
            .is_ok_and(|mut entries| entries.next().is_some())
    {
        bail!("{} is not empty", at.display());
    }
    let device = attach(wanted, at, None)?;
    let join = device.join.as_ref().map(|file| {
        format!(
            "a process is held to the rate once its number is written to {}\n",
            file.display()
        )
    });
    let made = device.keep().context("a device that was made")?;
    Ok(format!(
        "{}\n{}",
        made.dir.display(),
        join.unwrap_or_default()
    ))
}
