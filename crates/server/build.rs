//! Tells the binary which commit it is built from: `FOREBAY_COMMIT` where that is set, for builds
//! from an archive, else what git says when it is built for release. A debug build says `debug`,
//! because otherwise each commit would link it again. Whether the tree had changes beside the
//! commit is not looked at.

use std::path::Path;
use std::process::Command;

/// How many hexadecimal digits the commit has.
const DIGITS: &str = "--short=12";

fn main() {
    println!("cargo::rerun-if-env-changed=FOREBAY_COMMIT");
    println!("cargo::rustc-env=BUILD_COMMIT={}", commit());
}

fn commit() -> String {
    let given = std::env::var("FOREBAY_COMMIT").unwrap_or_default();
    if !given.is_empty() && given.chars().all(|one| one.is_ascii_alphanumeric()) {
        return given;
    }
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return "debug".to_owned();
    }
    // Each commit, checkout and merge adds a line to it.
    if let Some(moves) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&moves).exists()
    {
        println!("cargo::rerun-if-changed={moves}");
    }
    git(&["rev-parse", DIGITS, "HEAD"]).unwrap_or_else(|| "unknown".to_owned())
}

/// The one line that git answers with.
fn git(arguments: &[&str]) -> Option<String> {
    let answer = Command::new("git").args(arguments).output().ok()?;
    let line = String::from_utf8(answer.stdout).ok()?;
    let line = line.trim();
    (answer.status.success() && !line.is_empty()).then(|| line.to_owned())
}
