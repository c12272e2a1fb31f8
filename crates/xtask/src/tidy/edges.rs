//! Which crates of the workspace may depend on which, and what the deterministic ones must not use.
//!
//! An edge that is not in the table fails: adding one is a decision, made here and explained in
//! ARCHITECTURE.md.

use super::Finding;
use crate::metadata::{Metadata, Package};

const PREFIX: &str = "forebay-";

/// (crate, crates it may depend on). Dev-dependencies count as well.
const EDGES: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("platform", &[]),
    ("storage", &["platform", "wire"]),
    ("broker", &["storage", "wire", "platform"]),
    ("keyed", &["storage", "wire", "platform"]),
    (
        "server",
        &[
            "wire", "platform", "storage", "broker", "keyed", "host", "bench", "cli", "plan",
            "page", "tls", "client",
        ],
    ),
    ("tls", &["platform"]),
    ("page", &[]),
    ("plan", &["page"]),
    ("host", &["platform", "page"]),
    ("client", &["wire", "platform", "tls"]),
    (
        "bench",
        &["wire", "host", "platform", "page", "client", "tls"],
    ),
    ("cli", &["wire", "platform", "client", "tls"]),
    (
        "sim",
        &[
            "platform", "storage", "broker", "keyed", "wire", "server", "plan",
        ],
    ),
    ("xtask", &[]),
];

/// Crates whose behaviour depends only on their inputs: the simulation replays them from a seed.
const DETERMINISTIC: &[&str] = &["wire", "storage", "broker", "keyed", "plan"];

/// Runtimes, entropy, sockets, HTTP, TLS: access to the outside world that does not go through
/// `platform`.
const OUTSIDE_WORLD: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "rand",
    "getrandom",
    "fastrand",
    "mio",
    "socket2",
    "hyper",
    "hyper-util",
    "reqwest",
    "rustix",
    "libc",
    "nix",
    "io-uring",
    "chrono",
    "anyhow",
    "rustls",
    "tokio-rustls",
    "aws-lc-rs",
];

/// Exceptions: `wire` implements traits of `kafka-protocol`, whose errors are anyhow's.
const EXCEPTIONS: &[(&str, &str)] = &[("wire", "anyhow")];

/// Returns the findings on the workspace's crates.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    metadata.ours().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let name = short(&package.name);
    let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == name) else {
        return vec![Finding::new(
            &package.name,
            "is not in the table of crates (xtask/src/tidy/edges.rs)",
        )];
    };
    let mut findings = Vec::new();
    for dependency in &package.dependencies {
        let to = short(&dependency.name);
        let is_ours = dependency.name.starts_with(PREFIX);
        if is_ours && !allowed.contains(&to) {
            findings.push(Finding::new(
                &package.name,
                format!("may not depend on {to}"),
            ));
        }
        let outside = DETERMINISTIC.contains(&name)
            && OUTSIDE_WORLD.contains(&to)
            && !EXCEPTIONS.contains(&(name, to));
        if dependency.kind.is_none() && outside {
            findings.push(Finding::new(
                &package.name,
                format!("must not know {to}: go through platform"),
            ));
        }
    }
    findings
}

fn short(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::{Finding, check};
    use crate::metadata::Metadata;

    fn findings(name: &str, dependency: &str, kind: &str) -> Vec<Finding> {
        let text = format!(
            r#"{{"workspace_members": ["x"], "packages": [{{"id": "x", "name": "{name}", "version": "1.0.0",
            "license": null, "source": null, "dependencies": [{{"name": "{dependency}", "kind": {kind}}}]}}]}}"#
        );
        let metadata: Metadata = serde_json::from_str(&text).unwrap();
        check(&metadata)
    }

    #[test]
    fn listed_edges_pass() {
        assert_eq!(findings("forebay-storage", "forebay-wire", "null"), []);
        assert_eq!(findings("forebay-storage", "tokio", "\"dev\""), []);
        assert_eq!(findings("forebay-platform", "tokio", "null"), []);
    }

    #[test]
    fn other_edges_fail() {
        for (from, to) in [
            ("forebay-wire", "forebay-storage"),
            ("forebay-broker", "tokio"),
            ("forebay-new", "serde"),
        ] {
            assert_eq!(findings(from, to, "null").len(), 1, "{from} -> {to}");
        }
        assert_eq!(
            findings("forebay-storage", "forebay-server", "\"dev\"").len(),
            1
        );
    }
}
