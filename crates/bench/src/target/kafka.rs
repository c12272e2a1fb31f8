//! Apache Kafka as a single node, as shipped: its defaults, and the memory and collector settings
//! of its own start script.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::{DELETE_DELAY, jars};

/// The JVM options of `kafka-server-start.sh` and `kafka-run-class.sh`.
const JVM: [&str; 8] = [
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
];

/// An arbitrary cluster id; formatting a directory requires one.
const CLUSTER_ID: &str = "b1pFvYvBS8q1g1cAq2WJ7Q";

/// The setting that makes it sync after this many records.
const FLUSH: &str = "log.flush.interval.messages";

/// Returns the settings that a single node needs here, overridden by those of the experiment.
pub(super) fn settings(
    data: &Path,
    bootstrap: &str,
    controller: u16,
    more: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let one = [
        "offsets.topic",
        "transaction.state.log",
        "share.coordinator.state.topic",
    ];
    let mut settings: BTreeMap<String, String> = [
        ("process.roles", "broker,controller".to_owned()),
        ("node.id", "1".to_owned()),
        (
            "controller.quorum.voters",
            format!("1@127.0.0.1:{controller}"),
        ),
        (
            "listeners",
            format!("PLAINTEXT://{bootstrap},CONTROLLER://127.0.0.1:{controller}"),
        ),
        ("advertised.listeners", format!("PLAINTEXT://{bootstrap}")),
        ("controller.listener.names", "CONTROLLER".to_owned()),
        (
            "listener.security.protocol.map",
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT".to_owned(),
        ),
        ("log.dirs", data.display().to_string()),
        (DELETE_DELAY.0, DELETE_DELAY.1.to_owned()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    for topic in one {
        settings.insert(format!("{topic}.replication.factor"), "1".to_owned());
    }
    for topic in one.into_iter().skip(1) {
        settings.insert(format!("{topic}.min.isr"), "1".to_owned());
    }
    settings.extend(more.clone());
    settings
}

/// Returns the command that runs the broker.
pub(super) fn command(config: &Path) -> anyhow::Result<Vec<String>> {
    java(&JVM, "kafka.Kafka", &[&config.display().to_string()])
}

/// Formats the data directory of a configuration.
pub(super) fn format(config: &Path) -> anyhow::Result<()> {
    let config = config.display().to_string();
    let quick = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"];
    let arguments = ["format", "-t", CLUSTER_ID, "-c", &config];
    let argv = java(&quick, "kafka.tools.StorageTool", &arguments)?;
    let (program, arguments) = argv.split_first().context("a command has a program")?;
    let done = Command::new(program)
        .args(arguments)
        .output()
        .context("running java")?;
    if !done.status.success() {
        let (out, err) = (&done.stdout, &done.stderr);
        bail!(
            "formatting Kafka's directory: {}\n{}{}",
            done.status,
            String::from_utf8_lossy(out),
            String::from_utf8_lossy(err)
        );
    }
    Ok(())
}

/// Returns its settings on syncing as text.
pub(super) fn durability(settings: &BTreeMap<String, String>) -> String {
    match settings.get(FLUSH) {
        Some(every) if every == "1" => {
            format!("synced to the disk before it answers ({FLUSH}=1)")
        }
        Some(every) => format!("synced every {every} records ({FLUSH})"),
        None => "not synced: acknowledged when in the page cache (as shipped)".to_owned(),
    }
}

fn java(options: &[&str], class: &str, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
    let jars = jars::install()?;
    let log = format!("-Dlog4j2.configurationFile={}", jars::logging()?.display());
    let path = format!("{}/*", jars.display());
    let mut argv = vec!["java"];
    argv.extend(options);
    argv.extend([log.as_str(), "-cp", path.as_str(), class]);
    argv.extend(arguments);
    Ok(argv.into_iter().map(str::to_owned).collect())
}
