//! What is in `deploy/`, and the pages for operators: they name what there is.
//!
//! promtool and systemd-analyze are run where they are installed; where they are not, a line says
//! so and the rest is checked.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

#[path = "running/broker.rs"]
mod running;

use running::Broker;

/// Metrics whose first sample is there once something has happened: a client has come, been
/// refused, been held back, or a log was compacted; or if a listener speaks TLS or takes
/// tokens, or an audit file is written. They are in docs/metrics.md.
const APPEAR_LATER: [&str; 26] = [
    "forebay_audit_dropped_total",
    "forebay_audit_failing",
    "forebay_audit_lines_total",
    "forebay_connections_ended_total",
    "forebay_connections_refused_total",
    "forebay_log_dir_oldest_operation_seconds",
    "forebay_oauth_key_reads_total",
    "forebay_oauth_tokens_refused_total",
    "forebay_tier_full_seconds",
    "forebay_tls_certificate_expiry_seconds",
    "forebay_tls_reloads_total",
    "kafka_consumergroup_current_offset_sum",
    "kafka_consumergroup_lag_sum",
    "kafka_consumergroup_members",
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    "kafka_network_requestmetrics_requests_total",
    "kafka_network_requestmetrics_totaltimems_bucket",
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_clientquota_throttledrequests_total",
    "kafka_server_clientquota_throttletime_ms_total",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of a directory with this ending, with what is in them.
fn files(dir: &str, ending: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join(dir)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths
        .filter(|path| path.to_str().unwrap().ends_with(ending))
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            (path.to_str().unwrap().to_owned(), text)
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{dir} has no *{ending}");
    files
}

/// The metrics that a text names.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|one: char| !(one.is_ascii_alphanumeric() || one == '_'));
    words
        .filter(|word| {
            let ours = ["forebay_", "kafka_", "process_"];
            ours.iter().any(|start| word.starts_with(start))
        })
        .collect()
}

/// What is asked for by rules and dashboards, with the file.
fn asked_for() -> Vec<(String, String)> {
    let mut asked = Vec::new();
    let rules = files("deploy/prometheus", ".yml");
    for (file, text) in rules.iter().chain(&files("deploy/grafana", ".json")) {
        let names = metrics_in(text);
        asked.extend(
            names
                .into_iter()
                .map(|name| (file.clone(), name.to_owned())),
        );
    }
    asked
}

/// Runs a tool where there is one.
fn tool(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!(
                "SKIPPED: {} is not installed",
                command.get_program().display()
            );
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn rules_and_dashboards_ask_only_for_documented_metrics() {
    let docs = read("docs/metrics.md");
    let of_histogram = |name: &str| {
        let plain = name.strip_suffix("_bucket")?;
        docs.contains(&format!("| `{plain}` | histogram"))
            .then_some(())
    };
    for (file, name) in asked_for() {
        let known = docs.contains(&format!("`{name}`")) || of_histogram(&name).is_some();
        assert!(known, "{file}: {name} is not in docs/metrics.md");
    }
}

#[test]
fn rules_and_dashboards_ask_only_for_metrics_that_a_broker_serves() {
    let dir = tempfile::tempdir().unwrap();
    let (fast, bulk) = (dir.path().join("fast"), dir.path().join("bulk"));
    let broker = Broker::start(
        &fast,
        &[
            "storage.tiers=fast,bulk",
            &format!("storage.tier.fast.paths={}", fast.display()),
            &format!("storage.tier.bulk.paths={}", bulk.display()),
        ],
    );
    let (_, text) = broker.ask("GET", "/metrics");
    let served: BTreeSet<&str> = metrics_in(&text);
    for (file, name) in asked_for() {
        let known = served.contains(name.as_str()) || APPEAR_LATER.contains(&name.as_str());
        assert!(known, "{file}: {name} is not served");
    }
}

/// The names that headings of a page have in links.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            let kept = text
                .chars()
                .filter(|one| one.is_alphanumeric() || " -_".contains(*one));
            kept.map(|one| if one == ' ' { '-' } else { one }).collect()
        })
        .collect()
}

#[test]
fn each_alert_leads_to_its_part_of_the_runbook_and_has_a_case_that_fires() {
    let (rules, cases) = (
        read("deploy/prometheus/forebay.rules.yml"),
        read("deploy/prometheus/forebay.test.yml"),
    );
    let known = anchors(&read("docs/runbook.md"));
    let mut alerts = 0;
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.lines().next().unwrap();
        let (_, link) = rule.split_once("runbook.md#").unwrap();
        let link = link.lines().next().unwrap();
        assert!(
            known.contains(link),
            "{name}: docs/runbook.md has no {link}"
        );
        let case = format!("alertname=\"{name}\",alertstate=\"firing\"");
        assert!(cases.contains(&case), "{name} has no case");
        alerts += 1;
    }
    assert!(alerts > 20, "{alerts}");
}

#[test]
fn promtool_takes_the_rules_and_each_alert_fires() {
    let dir = root().join("deploy/prometheus");
    for arguments in [
        ["check", "rules", "forebay.rules.yml"].as_slice(),
        &["check", "config", "--syntax-only", "scrape.yml"],
        &["test", "rules", "forebay.test.yml"],
    ] {
        let promtool = std::env::var("PROMTOOL").unwrap_or("promtool".into());
        let mut command = Command::new(promtool);
        if let Some(output) = tool(command.args(arguments).current_dir(&dir)) {
            assert!(output.status.success(), "{arguments:?}: {output:?}");
        }
    }
}

#[test]
fn dashboards_are_whole_and_their_panels_do_not_overlap() {
    let mut uids = BTreeSet::new();
    for (file, text) in files("deploy/grafana", ".json") {
        let board: Value = serde_json::from_str(&text).unwrap();
        assert!(
            uids.insert(board["uid"].as_str().unwrap().to_owned()),
            "{file}"
        );
        let mut taken = BTreeSet::new();
        for panel in board["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            let of = |name: &str| panel["gridPos"][name].as_u64().unwrap();
            for cell in (of("x")..of("x") + of("w"))
                .flat_map(|x| (of("y")..of("y") + of("h")).map(move |y| (x, y)))
            {
                assert!(
                    cell.0 < 24 && taken.insert(cell),
                    "{file}: {title} at {cell:?}"
                );
            }
            let targets = panel["targets"].as_array().map_or(0, Vec::len);
            assert_eq!(targets == 0, panel["type"] == "row", "{file}: {title}");
            // A coloured field shows the present: the last value of a range stays green when the
            // broker that had it is gone, and so does a number that is there without a broker.
            if panel["type"] == "stat" {
                for target in panel["targets"].as_array().unwrap() {
                    let asks = target["expr"].as_str().unwrap();
                    let is_present = target["instant"] == true && target["range"] == false;
                    assert!(is_present && !asks.contains("vector("), "{file}: {title}");
                }
            }
            // Its value is 1 whatever the version is: a panel has to show a label.
            let asks = panel["targets"][0]["expr"].as_str().unwrap_or_default();
            if asks.starts_with("forebay_build_info") {
                assert_eq!(panel["options"]["textMode"], "name", "{file}: {title}");
            }
        }
    }
}

#[test]
fn systemd_takes_the_unit() {
    let unit = read("deploy/systemd/forebay.service");
    for line in [
        "Type=notify",
        "StartLimitBurst=60",
        "ExecReload=/bin/sh -c 'kill -HUP \"$MAINPID\"'",
        "WatchdogSec=60",
        "User=forebay",
        "ProtectSystem=strict",
    ] {
        assert!(unit.lines().any(|has| has == line), "{line}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("forebay.service");
    // It wants the programs to be there.
    let binary = env!("CARGO_BIN_EXE_forebay");
    fs::write(&path, unit.replace("/usr/bin/forebay", binary)).unwrap();
    let mut command = Command::new("systemd-analyze");
    if let Some(output) = tool(command.args(["verify", path.to_str().unwrap()])) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(!said.contains("forebay.service:"), "{said}");
    }
}

#[test]
fn the_settings_of_the_package_are_sound_and_without_a_warning() {
    let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["config", "check"])
        .arg(root().join("deploy/server.properties"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        said.contains("sound") && !said.contains("warning"),
        "{said}"
    );
}

#[test]
fn the_package_names_files_that_there_are_and_scripts_that_a_shell_reads() {
    let manifest = include_str!("../Cargo.toml");
    let assets = manifest.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix("[\"../../")?;
        rest.split('"').next()
    });
    let mut seen = 0;
    for asset in assets {
        match asset.rsplit_once("/*") {
            Some((dir, ending)) => drop(files(dir, ending)),
            None => drop(read(asset)),
        }
        seen += 1;
    }
    assert!(seen > 5, "{seen}");
    let changes = read("deploy/package/changelog");
    let newest = format!("forebay ({}-1) ", env!("CARGO_PKG_VERSION"));
    assert!(
        changes.starts_with(&newest),
        "the changelog begins with {newest}"
    );
    for script in ["postinst", "prerm", "postrm"] {
        let path = root().join("deploy/debian").join(script);
        let read = Command::new("sh").arg("-n").arg(&path).status().unwrap();
        assert!(read.success(), "{script}");
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            !text.contains("rm -r"),
            "{script}: records are never removed"
        );
    }
}

/// All that the crates say, with the breaks that lines of the source have taken out.
fn sources(dir: &Path, into: &mut String) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for piece in text.split("\\\n") {
                into.push_str(piece.trim_start());
            }
        }
    }
}

/// The runbook has a line of the log on each line that begins with `> `.
#[test]
fn the_lines_of_the_log_in_the_runbook_are_those_of_the_code() {
    let mut code = String::new();
    for name in ["server", "broker", "storage", "platform"] {
        sources(&root().join("crates").join(name).join("src"), &mut code);
    }
    let runbook = read("docs/runbook.md");
    let lines: Vec<_> = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("> `")?.split('`').next())
        .collect();
    assert!(lines.len() > 20, "{}", lines.len());
    for line in lines {
        assert!(code.contains(line), "nothing says {line:?}");
    }
}

/// What a line of a page's block gives to `forebay`, up to where a shell takes over; nothing for a
/// line that is no command, or has brackets and dots for what may stand there.
fn arguments(line: &str) -> Option<Vec<String>> {
    let line = line.strip_prefix("    ")?.trim_start();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    let mut rest = line.strip_prefix("forebay ")?;
    for end in [
        " | ", " |\\", " > ", " && ", " # ", " \\", " -- ", "; ", "   ",
    ] {
        rest = rest.split(end).next()?;
    }
    if ["[", "..", "<", "$(", "|", "EOF"]
        .iter()
        .any(|mark| rest.contains(mark))
    {
        return None;
    }
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for one in rest.trim_end_matches(" &").chars() {
        match (quote, one) {
            (None, '\'' | '"') => quote = Some(one),
            (Some(open), _) if one == open => quote = None,
            (None, ' ') => words.push(std::mem::take(&mut word)),
            _ => word.push(one),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    Some(words)
}

/// The program has the commands and options that the pages have.
#[test]
fn commands_of_the_pages_are_commands_of_the_program() {
    let (mut seen, mut wrong) = (0, Vec::new());
    let pages = files("docs", ".md").into_iter();
    for (file, text) in pages.chain([("README.md".to_owned(), read("README.md"))]) {
        for words in text.lines().filter_map(arguments) {
            // Help is shown once everything before it was understood.
            let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
            let output = command.args(&words).arg("--help").output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            seen += 1;
            // A name stands for a number.
            if !output.status.success() && !said.contains("invalid value") {
                wrong.push(format!("{file}: forebay {}: {said}", words.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 60, "{seen}");
}

#[test]
fn the_pages_lead_to_files_that_there_are() {
    for (file, text) in files("docs", ".md") {
        let pictures = ["<img src=\"", "srcset=\""].map(|mark| text.split(mark).skip(1));
        let pictures = pictures.into_iter().flatten();
        for link in text.split("](").skip(1).chain(pictures) {
            let link = link.split([')', '#', ' ', '"']).next().unwrap();
            if link.is_empty() || link.contains("://") || link.contains('`') {
                continue;
            }
            let target = Path::new(&file).parent().unwrap().join(link);
            assert!(target.exists(), "{file}: {link}");
        }
    }
}
