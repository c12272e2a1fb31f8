//! The command line, through the built binary.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::{Command, Output};

fn forebay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

struct Properties {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn properties(content: &str) -> Properties {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("server.properties");
    std::fs::write(&path, content).unwrap();
    Properties { _dir: dir, path }
}

/// Checks a file; gives whether it is sound, and what was said of it with `FILE` for its path.
fn check(content: &str) -> (bool, String) {
    let file = properties(content);
    let path = file.path.to_str().unwrap();
    let output = forebay(&["config", "check", path]);
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.success(), said.replace(path, "FILE"))
}

#[test]
fn the_version_is_told() {
    let output = forebay(&["--version"]);
    assert_eq!(
        text(&output.stdout),
        concat!("forebay ", env!("CARGO_PKG_VERSION"), "\n")
    );
    assert!(output.status.success());
}

#[test]
fn without_arguments_it_says_what_there_is() {
    let output = forebay(&[]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("serve"));
}

#[test]
fn a_sound_file_is_said_to_be_sound_with_its_warnings() {
    let (sound, said) = check("num.partitions=3\nnum.io.threads=8\nlog.dirz=/x\n");
    assert!(sound);
    assert_eq!(
        said,
        "warning: FILE:2: num.io.threads: has no effect: threads are shards, see num.shards\n\
         warning: FILE:3: log.dirz: unknown key, is log.dirs meant?\n\
         FILE: sound\n"
    );
}

#[test]
fn a_wrong_file_is_refused_with_everything_that_is_wrong() {
    let (sound, said) = check("num.partitions=none\n\nlog.cleanup.policy=burn\n");
    assert!(!sound);
    assert_eq!(
        said,
        "forebay: wrong settings:\n  \
         FILE:3: log.cleanup.policy=burn: must be a list of some of compact, delete\n  \
         FILE:1: num.partitions=none: must be a whole number, at least 1\n"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let output = forebay(&["config", "check", "/nowhere/server.properties"]);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(
        said.starts_with("forebay: /nowhere/server.properties: No such file"),
        "{said}"
    );
    let (_, said) = check("a=\\u12");
    assert!(
        said.starts_with("forebay: FILE, line 1: expected four hex digits"),
        "{said}"
    );
}

#[test]
fn serve_refuses_wrong_settings_wherever_they_come_from() {
    let said = text(&forebay(&["serve", "num.shards=0"]).stderr);
    assert!(
        said.contains("command line: num.shards=0: must be a whole number from 1"),
        "{said}"
    );
    let said = text(&forebay(&["serve", "nonsense"]).stderr);
    assert!(
        said.contains("command line: nonsense: must be key=value"),
        "{said}"
    );
    let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .arg("serve")
        .env("FOREBAY_LOG_FORMAT", "xml")
        .output()
        .unwrap();
    let said = text(&output.stderr);
    let expected =
        "environment variable FOREBAY_LOG_FORMAT: log.format=xml: must be one of text, json";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn the_reference_is_the_page_in_docs() {
    let page = text(&forebay(&["config", "reference"]).stdout);
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    assert!(page == std::fs::read_to_string(kept).unwrap());
}
