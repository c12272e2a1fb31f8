//! Apache Kafka's class path, fetched once from Maven Central into the user's cache directory.
//!
//! Invariant: the directory is used only if a file in it marks it as complete; the tests of this
//! project share it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// The version that is measured.
pub const VERSION: &str = "4.3.0";

const POM: &str = include_str!("kafka-pom.xml");
const LOGGING: &str = include_str!("kafka-log4j2.xml");

/// Returns Forebay's directory in the user's cache directory.
pub fn cache() -> PathBuf {
    let named = std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty());
    let root = named.map_or_else(
        || {
            let home = std::env::var_os("HOME").unwrap_or_else(|| "/tmp".into());
            PathBuf::from(home).join(".cache")
        },
        PathBuf::from,
    );
    root.join("forebay")
}

/// Returns the directory with the jars; fetches them if they are missing.
pub fn install() -> anyhow::Result<PathBuf> {
    let jars = cache().join(format!("kafka-{VERSION}"));
    if jars.join(".complete").exists() {
        return Ok(jars);
    }
    for (tool, what) in [("java", "a JDK 17 or newer"), ("mvn", "Maven")] {
        if !crate::device::installed(tool) {
            bail!("Kafka needs {what}: {tool} is missing");
        }
    }
    let pom = written("pom.xml", POM)?;
    eprintln!(
        "fetching Apache Kafka {VERSION} from Maven Central into {}",
        jars.display()
    );
    std::fs::create_dir_all(&jars).with_context(|| format!("creating {}", jars.display()))?;
    let status = Command::new("mvn")
        .args(["-q", "-B", "-Dstyle.color=never", "-f"])
        .arg(&pom)
        .arg(format!("-Dkafka.version={VERSION}"))
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", jars.display()))
        .stdin(Stdio::null())
        .status()
        .context("running mvn")?;
    if !status.success() {
        bail!("mvn could not fetch Apache Kafka: {status}");
    }
    std::fs::write(jars.join(".complete"), "")?;
    Ok(jars)
}

/// Returns the logging configuration of the broker: warnings and worse.
pub(super) fn logging() -> anyhow::Result<PathBuf> {
    written("log4j2.xml", LOGGING)
}

fn written(name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let dir = cache().join("bench");
    let file: PathBuf = Path::new(&dir).join(format!("kafka-{VERSION}-{name}"));
    std::fs::create_dir_all(&dir)
        .and_then(|()| std::fs::write(&file, text))
        .with_context(|| format!("writing {}", file.display()))?;
    Ok(file)
}
