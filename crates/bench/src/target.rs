//! Brokers under test: starts them on a directory of the device, waits until they serve, records
//! their facts, and stops them.
//!
//! Every broker gets its own directory on the same device and a short delete delay for the files of
//! deleted topics (measurements must not fill the disk). Everything else is its default, plus the
//! settings of the experiment.
//!
//! Invariant: a broker started here ends with this process, and its directory is removed with it.

pub mod jars;
mod kafka;
pub mod process;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::experiment::{DeviceKind, Target, TargetKind};
use crate::load::{Security, topics};
use crate::outcome::TargetFacts;
use crate::spec::{Load, Topics};
use process::Process;

/// Longest wait until a broker serves.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// The setting, common to both, for how long a deleted topic's files stay.
const DELETE_DELAY: (&str, &str) = ("log.segment.delete.delay.ms", "100");

/// The directories and the address of a broker.
#[derive(Clone, Debug)]
pub struct BrokerPlace<'a> {
    /// A directory on the device; the broker's data is in a directory below it.
    pub dir: &'a Path,
    /// Directory for its log and its configuration.
    pub notes: &'a Path,
    /// The file that its process must join so that the device's throttle applies.
    pub join: Option<&'a Path>,
    /// The address that it listens on.
    pub host: &'a str,
    /// The directory of its first tier, if it has one; `dir` is then that of the second tier.
    pub first_tier: Option<&'a Path>,
}

/// A broker that serves.
#[derive(Debug)]
pub struct RunningBroker {
    /// Its name in the results.
    pub name: String,
    /// The address that it serves on.
    pub bootstrap: String,
    /// How to connect to it.
    pub security: Security,
    /// The file that says so, for the loads that are put on it.
    pub command_config: Option<PathBuf>,
    /// Its version, command and durability.
    pub facts: TargetFacts,
    /// What it reports as emulated.
    pub emulated: Vec<String>,
    /// The directories of its data, by tier.
    homes: Vec<PathBuf>,
    process: Option<Process>,
}

/// Checks that a target can be started.
///
/// Its binary or its jars must exist (Kafka's jars are fetched if missing), or its address must
/// accept connections.
pub fn prepare(name: &str, target: &Target) -> anyhow::Result<()> {
    match target.kind {
        TargetKind::Forebay => version_of(&binary(target)?).map(drop),
        TargetKind::Kafka => jars::install().map(drop),
        TargetKind::Address => {
            let address = target.address.as_deref().unwrap_or_default();
            let connected = std::net::TcpStream::connect(address);
            connected
                .with_context(|| format!("target {name} at {address}"))
                .map(drop)
        }
    }
}

/// Starts a broker on an empty directory and waits until it serves; also returns how long that
/// took.
pub fn start(
    name: &str,
    target: &Target,
    place: &BrokerPlace<'_>,
) -> anyhow::Result<(RunningBroker, Duration)> {
    let begun = Instant::now();
    let mut running = match target.kind {
        TargetKind::Forebay => start_forebay(name, target, place)?,
        TargetKind::Kafka => start_kafka(name, target, place)?,
        TargetKind::Address => RunningBroker {
            name: name.to_owned(),
            bootstrap: target.address.clone().unwrap_or_default(),
            security: Security::open(target.command_config.as_deref())?,
            command_config: target.command_config.clone(),
            facts: TargetFacts {
                version: "not known".to_owned(),
                command: "started by somebody else".to_owned(),
                durability: "not known".to_owned(),
            },
            emulated: Vec::new(),
            homes: Vec::new(),
            process: None,
        },
    };
    running.wait_until_ready()?;
    let said = std::fs::read_to_string(log(place, name)).unwrap_or_default();
    running.emulated = emulated(name, &said);
    Ok((running, begun.elapsed()))
}

fn start_forebay(
    name: &str,
    target: &Target,
    place: &BrokerPlace<'_>,
) -> anyhow::Result<RunningBroker> {
    let binary = binary(target)?;
    let home = empty(place.dir, name)?;
    let bootstrap = format!("{}:{}", place.host, free_port(place.host)?);
    let mut argv = vec![binary.display().to_string(), "serve".to_owned()];
    let mut own = vec![
        ("node.id", "1".to_owned()),
        ("listeners", format!("PLAINTEXT://{bootstrap}")),
        ("admin.listener", String::new()),
        ("log.level", "warn".to_owned()),
        (DELETE_DELAY.0, DELETE_DELAY.1.to_owned()),
    ];
    let data = home.join("data").display().to_string();
    let mut homes = vec![home];
    if let (Some(tier), Some(dir)) = (&target.first_tier, place.first_tier) {
        let first = empty(dir, name)?;
        let safety = match tier.kind {
            DeviceKind::Memory => "volatile",
            DeviceKind::Disk | DeviceKind::Limited => "durable",
        };
        let fast = first.join("data").display().to_string();
        own.extend([
            ("storage.tiers", "fast,bulk".to_owned()),
            ("storage.tier.fast.paths", fast),
            ("storage.tier.fast.capacity", tier.capacity.to_string()),
            ("storage.tier.fast.durability", safety.to_owned()),
            ("storage.tier.bulk.paths", data),
        ]);
        homes.insert(0, first);
    } else {
        own.push(("log.dirs", data));
    }
    let theirs = target
        .settings
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    let own = own
        .iter()
        .filter(|(key, _)| !target.settings.contains_key(*key));
    argv.extend(own.map(|(key, value)| format!("{key}={value}")));
    argv.extend(theirs);
    let replicated = target
        .settings
        .get("durability")
        .is_some_and(|d| d == "replicated");
    let durability = if replicated {
        "not synced: acknowledged when written to the page cache (durability=replicated)"
    } else {
        "synced to the disk before acks=all is answered (durability=synced, the default)"
    };
    Ok(RunningBroker {
        name: name.to_owned(),
        facts: TargetFacts {
            version: version_of(&binary)?,
            command: argv.join(" "),
            durability: durability.to_owned(),
        },
        process: Some(Process::start(&argv, &log(place, name), place.join)?),
        bootstrap,
        security: Security::default(),
        command_config: None,
        emulated: Vec::new(),
        homes,
    })
}

fn start_kafka(
    name: &str,
    target: &Target,
    place: &BrokerPlace<'_>,
) -> anyhow::Result<RunningBroker> {
    let home = empty(place.dir, name)?;
    let bootstrap = format!("{}:{}", place.host, free_port(place.host)?);
    let controller = free_port("127.0.0.1")?;
    let config = place.notes.join(format!("{name}.properties"));
    let settings = kafka::settings(&home.join("data"), &bootstrap, controller, &target.settings);
    let pairs: Vec<_> = settings
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let text = pairs.join("\n") + "\n";
    std::fs::write(&config, text).with_context(|| format!("writing {}", config.display()))?;
    kafka::format(&config)?;
    let argv = kafka::command(&config)?;
    Ok(RunningBroker {
        name: name.to_owned(),
        bootstrap,
        security: Security::default(),
        command_config: None,
        facts: TargetFacts {
            version: format!("Apache Kafka {}", jars::VERSION),
            command: format!("{} with {}", argv.join(" "), pairs.join(" ")),
            durability: kafka::durability(&target.settings),
        },
        process: Some(Process::start(&argv, &log(place, name), place.join)?),
        emulated: Vec::new(),
        homes: vec![home],
    })
}

impl RunningBroker {
    /// Returns a load with the file by which this broker is reached, unless it names its own.
    pub fn reached(&self, load: &Load) -> Load {
        let mut load = load.clone();
        load.security = load.security.or_else(|| self.command_config.clone());
        load
    }

    /// Returns the pid of the broker, if it was started here.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// Fails, with the end of its log, if the broker has ended by itself.
    pub fn must_run(&mut self) -> anyhow::Result<()> {
        self.process.as_mut().map_or(Ok(()), Process::must_run)
    }

    /// Waits until the broker can create a topic and lead it; it opens its port earlier than that.
    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        if self.process.is_none() {
            return Ok(());
        }
        let probe = Topics {
            prefix: "bench-ready".to_owned(),
            count: 1,
            partitions: 1,
            replication: 1,
            configs: std::collections::BTreeMap::new(),
            existing: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let begun = Instant::now();
        loop {
            self.must_run()?;
            let made = if std::net::TcpStream::connect(&self.bootstrap).is_ok() {
                runtime.block_on(topics::create(&self.bootstrap, &self.security, &probe))
            } else {
                Err(anyhow::anyhow!("nobody listens there"))
            };
            match made {
                Ok(()) => break,
                Err(error) if begun.elapsed() > READY_WITHIN => {
                    let address = &self.bootstrap;
                    return Err(error.context(format!(
                        "{} does not serve on {address} after {READY_WITHIN:?}",
                        self.name
                    )));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        runtime.block_on(topics::delete(&self.bootstrap, &self.security, &probe))
    }

    /// Creates the topics of a group of measurements.
    pub fn create(&self, topics: &Topics) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(topics::create(&self.bootstrap, &self.security, topics))
    }

    /// Deletes topics, and waits until their files are gone if these are on this machine.
    pub fn delete(&self, topics: &Topics) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(topics::delete(&self.bootstrap, &self.security, topics))?;
        let begun = Instant::now();
        for data in self.homes.iter().map(|home| home.join("data")) {
            while holds(&data, &topics.prefix) {
                if begun.elapsed() > Duration::from_secs(20) {
                    bail!(
                        "{} still keeps files of deleted topics in {}",
                        self.name,
                        data.display()
                    );
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Returns the directory of each tier, fastest first; empty if there is only one.
    pub fn tiers(&self) -> &[PathBuf] {
        if self.homes.len() > 1 {
            &self.homes
        } else {
            &[]
        }
    }

    /// Stops the broker and removes its directory.
    ///
    /// It is killed, because its data is removed anyway.
    pub fn stop(mut self) -> anyhow::Result<()> {
        drop(self.process.take());
        for home in std::mem::take(&mut self.homes) {
            std::fs::remove_dir_all(&home)
                .with_context(|| format!("removing {}", home.display()))?;
        }
        Ok(())
    }
}

impl Drop for RunningBroker {
    fn drop(&mut self) {
        drop(self.process.take());
        for home in std::mem::take(&mut self.homes) {
            if let Err(error) = std::fs::remove_dir_all(&home) {
                eprintln!("forebay: removing {}: {error}", home.display());
            }
        }
    }
}

/// Returns whether a data directory has directories of topics with this prefix, including deleted
/// ones.
fn holds(data: &Path, prefix: &str) -> bool {
    let start = format!("{prefix}-");
    std::fs::read_dir(data).is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with(&start)
        })
    })
}

fn empty(dir: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let home = dir.join(name);
    if home.exists() {
        std::fs::remove_dir_all(&home).with_context(|| format!("removing {}", home.display()))?;
    }
    std::fs::create_dir_all(&home).with_context(|| format!("creating {}", home.display()))?;
    Ok(home)
}

fn log(place: &BrokerPlace<'_>, name: &str) -> PathBuf {
    place.notes.join(format!("{name}.log"))
}

/// Returns the log lines of a broker about emulation, such as a tier of emulated persistent memory.
fn emulated(name: &str, log: &str) -> Vec<String> {
    let lines = log.lines().filter(|line| line.contains("EMULATED"));
    let words = lines.map(|line| line.split_once(" WARN ").map_or(line, |(_, words)| words));
    words
        .map(|words| format!("{name}: {}", words.trim()))
        .collect()
}

fn binary(target: &Target) -> anyhow::Result<PathBuf> {
    match &target.binary {
        Some(binary) => Ok(binary.clone()),
        None => std::env::current_exe().context("finding this program"),
    }
}

fn version_of(binary: &Path) -> anyhow::Result<String> {
    let done = Command::new(binary)
        .arg("--version")
        .output()
        .with_context(|| format!("running {} --version", binary.display()))?;
    if !done.status.success() {
        bail!("{} --version: {}", binary.display(), done.status);
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Returns a port that is currently free.
fn free_port(host: &str) -> anyhow::Result<u16> {
    let probe = TcpListener::bind((host, 0)).context("finding a free port")?;
    Ok(probe.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::emulated;

    #[test]
    fn what_a_broker_only_emulates_is_reported() {
        let log = "2026-11-21T19:00:00Z  WARN forebay_server::media: not a DAX mount: the medium dax is EMULATED, \
                   nothing on it is durable tier=fast dir=/dev/shm/x\n2026-11-21T19:00:00Z  INFO ready\n";
        let said = "two: forebay_server::media: not a DAX mount: the medium dax is EMULATED, nothing on it is \
                    durable tier=fast dir=/dev/shm/x";
        assert_eq!(emulated("two", log), [said]);
        assert!(emulated("two", "INFO ready").is_empty());
    }
}
