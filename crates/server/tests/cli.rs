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
fn the_version_is_told_with_the_commit() {
    let output = forebay(&["--version"]);
    assert_eq!(
        text(&output.stdout),
        concat!(
            "forebay ",
            env!("CARGO_PKG_VERSION"),
            " (",
            env!("BUILD_COMMIT"),
            ")\n"
        )
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
        "FILE: changes what your clients see (1):\n  \
         FILE:3: log.dirz: unknown key, is log.dirs meant?\n      \
         write log.dirs, or take it out: as it stands, the default of log.dirs is in force\n\
         FILE: no effect (1):\n  \
         FILE:2: num.io.threads: has no effect: threads are shards, see num.shards\n\
         FILE: sound (changes what your clients see: 1, no effect: 1)\n"
    );
    let (sound, said) = check("num.partitions=3\n");
    assert!(sound && said == "FILE: sound\n", "{said}");
}

#[test]
fn a_wrong_file_is_refused_with_everything_that_is_wrong() {
    let (sound, said) = check("num.partitions=none\n\nlog.cleanup.policy=burn\n");
    assert!(!sound);
    assert_eq!(
        said,
        "FILE: refuses to start (2):\n  \
         FILE:1: num.partitions=none: must be a whole number, at least 1\n  \
         FILE:3: log.cleanup.policy=burn: must be a list of some of compact, delete\n\
         FILE: refused (refuses to start: 2)\n"
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

/// A log directory as Kafka 4.3 leaves it, with topics and a dynamic setting.
fn metadata_of_kafka() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let golden = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../broker/tests/golden/kafka-4.3"
    ));
    let folder = dir.path().join("__cluster_metadata-0");
    std::fs::create_dir(&folder).unwrap();
    for (from, to) in [
        ("cluster-metadata.log", "00000000000000000000.log"),
        ("quorum-state", "quorum-state"),
    ] {
        std::fs::copy(golden.join(from), folder.join(to)).unwrap();
    }
    dir
}

/// Runs a command on a directory; gives whether it succeeded, and what it said with `DIR` for the
/// directory.
fn of(dir: &tempfile::TempDir, arguments: &[&str]) -> (bool, String) {
    let path = dir.path().to_str().unwrap();
    let arguments: Vec<_> = arguments
        .iter()
        .map(|it| if *it == "DIR" { path } else { *it })
        .collect();
    let output = forebay(&arguments);
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.success(), said.replace(path, "DIR"))
}

#[test]
fn the_metadata_of_a_stopped_broker_is_shown_checked_and_repaired() {
    let dir = metadata_of_kafka();
    let (sound, said) = of(&dir, &["metadata", "check", "DIR"]);
    assert!(sound && said.ends_with("topics: sound\n"), "{said}");
    let (_, said) = of(&dir, &["metadata", "show", "DIR"]);
    assert!(said.contains("meta-b") && said.contains("log.cleaner.threads"));
    let (_, said) = of(&dir, &["metadata", "show", "DIR", "--format", "json"]);
    for line in said.lines() {
        let _: serde_json::Value = serde_json::from_str(line).unwrap();
    }
    let (done, said) = of(&dir, &["metadata", "repair", "DIR"]);
    assert!(done && said == "DIR: nothing to repair\n", "{said}");

    let log = dir
        .path()
        .join("__cluster_metadata-0/00000000000000000000.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes.windows(6).position(|it| it == b"meta-b").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let (sound, said) = of(&dir, &["metadata", "check", "DIR"]);
    assert!(
        !sound && said.contains("error: 00000000000000000000.log"),
        "{said}"
    );
    let (done, said) = of(&dir, &["metadata", "repair", "DIR"]);
    assert!(
        done && said.contains("set aside: DIR/__cluster_metadata-0.0.aside"),
        "{said}"
    );
    assert!(
        said.contains("kept: topic \"__consumer_offsets\" with 50 partitions"),
        "{said}"
    );
    let (sound, said) = of(&dir, &["metadata", "check", "DIR"]);
    assert!(sound, "{said}");
    assert!(
        dir.path()
            .join("__cluster_metadata-0.0.aside/00000000000000000000.log")
            .exists()
    );
}

#[test]
fn a_repair_that_was_cut_short_is_finished_by_the_next_one() {
    let dir = metadata_of_kafka();
    let folder = dir.path().join("__cluster_metadata-0");
    let new = dir.path().join("__cluster_metadata-0.new");
    std::fs::rename(&folder, &new).unwrap();
    let (done, said) = of(&dir, &["metadata", "repair", "DIR"]);
    assert!(done && said.contains("cut short is finished"), "{said}");
    let (sound, said) = of(&dir, &["metadata", "check", "DIR"]);
    assert!(sound && !new.exists(), "{said}");
}

#[test]
fn an_emptied_metadata_folder_is_not_sound() {
    let dir = metadata_of_kafka();
    let log = dir
        .path()
        .join("__cluster_metadata-0/00000000000000000000.log");
    std::fs::remove_file(log).unwrap();
    let (sound, said) = of(&dir, &["metadata", "check", "DIR"]);
    assert!(!sound && said.contains("holds a record"), "{said}");
}

#[test]
fn a_dynamic_value_is_taken_back_of_a_stopped_broker() {
    let dir = metadata_of_kafka();
    let reset = [
        "config",
        "reset",
        "log.cleaner.threads",
        "--data-dir",
        "DIR",
    ];
    let (done, said) = of(&dir, &reset);
    assert!(done, "{said}");
    assert_eq!(
        said,
        "dropped: broker \"(all)\": log.cleaner.threads=\"2\"\n"
    );
    let (done, said) = of(&dir, &reset);
    assert!(
        !done && said.contains("has no dynamic value there"),
        "{said}"
    );
    let (sound, said) = of(&dir, &["metadata", "check", "DIR"]);
    assert!(sound, "{said}");
    let held = platform::lock::DirLock::acquire(dir.path()).unwrap();
    let (done, said) = of(&dir, &["metadata", "repair", "DIR"]);
    assert!(!done && said.contains("in use"), "{said}");
    drop(held);
}

#[test]
fn what_is_nearly_right_is_answered_with_what_is() {
    for (arguments, meant) in [
        (&["topic", "list", "--internl"][..], "'--internal'"),
        (&["topic", "descibe", "cars"], "'describe'"),
        (&["serve", "--confg", "x"], "'--config'"),
    ] {
        let output = forebay(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(meant), "{said}");
    }
}

#[test]
fn shells_get_a_script_that_names_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = forebay(&["completion", shell]);
        assert!(output.status.success());
        let script = text(&output.stdout);
        for word in ["add-partitions", "offset-delete", "client-metrics"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}
