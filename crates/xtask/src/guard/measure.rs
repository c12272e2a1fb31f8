//! Builds the example, counts its instructions under callgrind, and reads the environment.
//!
//! Counts are per unit: a gigabyte or a request. Comparing them is not done here (`record.rs`).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// The paths that are counted.
pub(super) const PATHS: [HotPath; 7] = [
    HotPath::new("produce-240kb", 60, Unit::Gigabyte),
    HotPath::new("produce-1kb", 15, Unit::Gigabyte),
    HotPath::new("produce-small", 2000, Unit::Request),
    HotPath::new("journal-50", 200, Unit::Request),
    HotPath::new("fetch-tail", 960, Unit::Gigabyte),
    HotPath::new("fetch-cold", 48, Unit::Gigabyte),
    HotPath::new("metadata", 4000, Unit::Request),
];

/// A path of the example.
pub(super) struct HotPath {
    pub(super) name: &'static str,
    /// Repetitions of the shorter run.
    count: u64,
    pub(super) unit: Unit,
}

/// The unit of a count.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Gigabyte,
    Request,
}

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gigabyte => "GB",
            Self::Request => "request",
        }
    }
}

impl HotPath {
    const fn new(name: &'static str, count: u64, unit: Unit) -> Self {
        Self { name, count, unit }
    }
}

/// The example, from the folder of builds.
///
/// It is run by this name from there: the length of a program's name moves what the allocator finds
/// in its memory at the start, and with it the counts by up to 1 %.
const PROGRAM: &str = "release/examples/paths";

/// The built example.
pub(super) struct Paths {
    /// The folder of builds.
    target: PathBuf,
}

/// The result of one run.
struct Run {
    instructions: u64,
    moved_bytes: u64,
}

impl Paths {
    pub(super) fn build(root: &Path) -> anyhow::Result<Self> {
        let found = Command::new("valgrind").arg("--version").output();
        ensure!(
            found.is_ok_and(|found| found.status.success()),
            "valgrind is missing (Debian, Ubuntu: apt-get install valgrind)"
        );
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let arguments = [
            "build",
            "-q",
            "--release",
            "--locked",
            // The packages of the tests' own build: alone, the example would have other features,
            // and be compiled again.
            "-p",
            "forebay-server",
            "-p",
            "forebay-bench",
            "-p",
            "forebay-broker",
            "--bin",
            "forebay",
            "--example",
            "paths",
        ];
        let built = Command::new(cargo)
            .current_dir(root)
            .args(arguments)
            .status()?;
        ensure!(built.success(), "the example does not build");
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        Ok(Self { target })
    }

    /// Returns the instructions of a path for one unit.
    pub(super) fn count(&self, path: &HotPath, planted: bool) -> anyhow::Result<u64> {
        let once = self.run(path.name, path.count, planted)?;
        let twice = self.run(path.name, 2 * path.count, planted)?;
        let instructions = twice.instructions.saturating_sub(once.instructions);
        let moved = twice.moved_bytes.saturating_sub(once.moved_bytes);
        let per = match path.unit {
            Unit::Gigabyte => u128::from(instructions) * 1_000_000_000 / u128::from(moved.max(1)),
            Unit::Request => u128::from(instructions / path.count),
        };
        let per = u64::try_from(per)?;
        ensure!(per > 0, "{} takes no instructions", path.name);
        Ok(per)
    }

    fn run(&self, name: &str, count: u64, planted: bool) -> anyhow::Result<Run> {
        let mut command = Command::new("valgrind");
        command
            .current_dir(&self.target)
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(PROGRAM)
            .args([name, &count.to_string()])
            .args(planted.then_some("planted"));
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("{name} failed under valgrind:\n{said}");
        }
        let moved = String::from_utf8_lossy(&output.stdout);
        Ok(Run {
            instructions: collected(&said).context("valgrind told no count")?,
            moved_bytes: moved.trim().parse()?,
        })
    }
}

/// Describes what counts depend on beside the code: compiler, C library, valgrind, AVX2, profile.
pub(super) fn environment() -> anyhow::Result<String> {
    let rustc = said_by("rustc", &["--version"])?;
    let rustc = rustc
        .split_whitespace()
        .nth(1)
        .unwrap_or("unknown")
        .to_owned();
    let libc = said_by("getconf", &["GNU_LIBC_VERSION"]).unwrap_or_default();
    let valgrind = said_by("valgrind", &["--version"])?;
    let avx2 = std::fs::read_to_string("/proc/cpuinfo")
        .is_ok_and(|facts| facts.split_whitespace().any(|word| word == "avx2"));
    let vectors = if avx2 { "avx2" } else { "no avx2" };
    Ok(format!(
        "rustc {rustc} {} {} {vectors} release",
        libc.trim(),
        valgrind.trim()
    ))
}

/// Returns the count at the end of callgrind's output.
fn collected(said: &str) -> Option<u64> {
    let line = said
        .lines()
        .find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

/// Returns the date and the abbreviated hash of the commit that is checked out.
pub(super) fn head(root: &Path) -> anyhow::Result<(String, String)> {
    let root = root.to_string_lossy();
    let log = ["-C", &root, "log", "-1", "--format=%cs %h", "--abbrev=10"];
    let said = said_by("git", &log)?;
    let (date, commit) = said.trim().split_once(' ').context("git says no commit")?;
    Ok((date.to_owned(), commit.to_owned()))
}

fn said_by(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| program.to_owned())?;
    ensure!(output.status.success(), "{program} failed");
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_among_what_valgrind_says() {
        let said = "==12== Callgrind, a profiler\n==12== \n==12== Collected : 81234567\n==12== \n";
        assert_eq!(collected(said), Some(81_234_567));
        assert_eq!(collected("==12== nothing"), None);
    }

    #[test]
    fn no_two_paths_have_the_same_name() {
        for (index, path) in PATHS.iter().enumerate() {
            assert!(PATHS[..index].iter().all(|other| other.name != path.name));
            assert!(path.count > 0);
        }
    }
}
