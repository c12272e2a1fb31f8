//! Tiers from settings, as one description: from our names, or from those of either generation of
//! Pafka.
//!
//! Invariant: names and paths are unique, no path lies in another, and every key of a tier belongs
//! to an existing tier. This module does not look at the directories (whether they exist or are
//! mounted); opening them finds that out.

use std::path::{Path, PathBuf};

use storage::tier::policy::PolicySettings;
use storage::tier::{Capacity, Medium, PathOptions, PoolOptions, Safety, TierOptions};

use super::super::keys;
use super::super::problem::Problem;
use super::super::values::Values;
use super::size;

/// The tiers and how segments move between them.
#[derive(Clone, PartialEq, Debug)]
pub struct TierSettings {
    /// The tiers, fastest first; at least one. The paths of the first are the log directories.
    pub tiers: Vec<TierOptions>,
    /// When segments move.
    pub policy: PolicySettings,
    /// `log.pmem.pool.ratio` and `log.segment.bytes`: files made in advance, where the first tier
    /// is dax.
    pub pool: PoolOptions,
}

/// Returns the tiers that are set; `None` for plain log directories.
pub(super) fn resolve(values: &Values, problems: &mut Vec<Problem>) -> Option<TierSettings> {
    let names = values.list("storage.tiers");
    check_members(values, &names, problems);
    let policy = policy(values, problems);
    let tiers = if names.is_empty() {
        of_channel_type(values, problems)?
    } else {
        ours(values, &names, problems)
    };
    check_paths(values, &tiers, problems);
    Some(TierSettings {
        tiers,
        policy,
        pool: PoolOptions {
            ratio: ratio(values, "log.pmem.pool.ratio"),
            file_bytes: values.int("log.segment.bytes").unsigned_abs(),
        },
    })
}

fn ours(values: &Values, names: &[&str], problems: &mut Vec<Problem>) -> Vec<TierOptions> {
    let sound = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let odd = |name: &&str| !name.chars().all(sound) || name.is_empty();
    let twice = |(at, name): (usize, &&str)| names[..at].contains(name);
    if names.iter().any(odd) || names.iter().enumerate().any(twice) {
        let allowed = "must be different names of lower-case letters, digits and -";
        problems.push(values.problem("storage.tiers", allowed));
    }
    for name in ["storage.tiers.first.paths", "storage.tiers.second.paths"] {
        if values.is_given(name) {
            let allowed = "must be left out where storage.tiers names the tiers";
            problems.push(values.problem(name, allowed));
        }
    }
    let tiers: Vec<_> = names
        .iter()
        .filter(|name| !odd(name))
        .map(|name| our_tier(values, name, problems))
        .collect();
    for key in ["log.dirs", "log.dir"] {
        let first = tiers.first().map_or(&[][..], |tier| &tier.paths[..]);
        let is_first = |dir: &&str| first.iter().any(|path| path.dir == Path::new(dir));
        if values.is_given(key) && !values.list(key).iter().all(is_first) {
            let allowed = format!(
                "must be left out, or paths of the first tier (storage.tier.{}.paths): what is in \
                 other directories would not be found",
                names[0]
            );
            problems.push(values.problem(key, allowed));
        }
    }
    tiers
}

fn our_tier(values: &Values, name: &str, problems: &mut Vec<Problem>) -> TierOptions {
    let key = |what: &str| format!("storage.tier.{name}.{what}");
    let dirs = values.list(&key("paths"));
    if dirs.is_empty() {
        let allowed = format!("must be set: storage.tiers names {name}");
        problems.push(values.problem(&key("paths"), allowed));
    }
    TierOptions {
        name: name.into(),
        paths: paths(values, &dirs, &key("capacity"), problems),
        medium: match values.string(&key("medium")).as_str() {
            "dax" => Medium::Dax,
            _ => Medium::File,
        },
        safety: match values.string(&key("durability")).as_str() {
            "volatile" => Safety::Volatile,
            _ => Safety::Durable,
        },
        read_bytes_per_second: rate(values, &key("read.bytes.per.second")),
        write_bytes_per_second: rate(values, &key("write.bytes.per.second")),
    }
}

/// Returns the tiers of Pafka's settings, both generations.
fn of_channel_type(values: &Values, problems: &mut Vec<Problem>) -> Option<Vec<TierOptions>> {
    let given = |key: &str| values.is_given(key);
    match values.text("log.channel.type")? {
        "tiered" => Some(tiered(values, problems)),
        "mix" => {
            let pmem = values.list("storage.pmem.path");
            let pmem = paths(values, &pmem, "storage.pmem.size", problems);
            let hdd = values.list("storage.hdd.path");
            Some(vec![
                plain("pmem", Medium::Dax, pmem),
                plain("hdd", Medium::File, whole(&hdd)),
            ])
        }
        "pmem" => {
            let (dirs, sizes) = if given("storage.tiers.first.paths") {
                ("storage.tiers.first.paths", "storage.tiers.first.sizes")
            } else {
                ("storage.pmem.path", "storage.pmem.size")
            };
            let paths = paths(values, &values.list(dirs), sizes, problems);
            Some(vec![plain("pmem", Medium::Dax, paths)])
        }
        _ => None,
    }
}

fn tiered(values: &Values, problems: &mut Vec<Problem>) -> Vec<TierOptions> {
    let types = values.list("storage.tiers.types");
    if types.len() != 2 || types[0] == types[1] {
        let allowed =
            "must be two different ones of PMEM, NVME, SSD, HDD: the first tier, the second";
        problems.push(values.problem("storage.tiers.types", allowed));
    }
    for key in ["storage.tiers.first.paths", "storage.tiers.second.paths"] {
        if values.list(key).is_empty() {
            let allowed = "must be set where log.channel.type=tiered";
            problems.push(values.problem(key, allowed));
        }
    }
    let first = values.list("storage.tiers.first.paths");
    let first = paths(values, &first, "storage.tiers.first.sizes", problems);
    let second = whole(&values.list("storage.tiers.second.paths"));
    let each = types.iter().zip([first, second]);
    each.map(|(kind, paths)| {
        let medium = if *kind == "PMEM" {
            Medium::Dax
        } else {
            Medium::File
        };
        plain(&kind.to_ascii_lowercase(), medium, paths)
    })
    .collect()
}

fn plain(name: &str, medium: Medium, paths: Vec<PathOptions>) -> TierOptions {
    TierOptions {
        name: name.into(),
        paths,
        medium,
        safety: Safety::Durable,
        read_bytes_per_second: None,
        write_bytes_per_second: None,
    }
}

fn whole(dirs: &[&str]) -> Vec<PathOptions> {
    let path = |dir: &&str| PathOptions {
        dir: PathBuf::from(dir),
        capacity: Capacity::Whole,
    };
    dirs.iter().map(path).collect()
}

/// Returns directories with the capacities under `key`: one for all, or one for each.
fn paths(
    values: &Values,
    dirs: &[&str],
    key: &str,
    problems: &mut Vec<Problem>,
) -> Vec<PathOptions> {
    let texts = values.list(key);
    let capacities: Vec<_> = texts.iter().filter_map(|text| capacity(text)).collect();
    let mut paths = whole(dirs);
    if capacities.len() < texts.len() {
        let allowed = "must be whole, -1, a share like 80%, or bytes like 500000000000, 500GB, \
                       465GiB; at least 1";
        problems.push(values.problem(key, allowed));
    } else if capacities.len() == 1 {
        for path in &mut paths {
            path.capacity = capacities[0];
        }
    } else if capacities.len() == dirs.len() {
        let each = paths.iter_mut().zip(capacities);
        each.for_each(|(path, capacity)| path.capacity = capacity);
    } else if !dirs.is_empty() {
        let allowed = format!("must be one value, or one for each of {} paths", dirs.len());
        problems.push(values.problem(key, allowed));
    }
    paths
}

/// Parses a capacity: `whole`, `-1`, `80%`, `1234`, `10GB`, `10GiB`.
fn capacity(text: &str) -> Option<Capacity> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];
    if text == "whole" || text == "-1" {
        return Some(Capacity::Whole);
    }
    if let Some(percent) = text.strip_suffix('%') {
        let percent = percent.trim().parse().ok()?;
        return (1..=100)
            .contains(&percent)
            .then_some(Capacity::Percent(percent));
    }
    let unit = |(name, bytes): (&str, u64)| Some((text.strip_suffix(name)?, bytes));
    let (number, unit) = UNITS.into_iter().find_map(unit).unwrap_or((text, 1));
    let bytes = number.trim().parse::<u64>().ok()?.checked_mul(unit)?;
    (bytes > 0).then_some(Capacity::Bytes(bytes))
}

/// Reports keys of tiers that `storage.tiers` does not name, most likely misspelt.
fn check_members(values: &Values, names: &[&str], problems: &mut Vec<Problem>) {
    for (name, _) in values.given() {
        let Some(member) = keys::member_of(name) else {
            continue;
        };
        if !names.contains(&member) {
            let allowed = if names.is_empty() {
                format!("must be left out, or {member} be named in storage.tiers")
            } else {
                format!("must be of a tier in storage.tiers={}", names.join(","))
            };
            problems.push(values.problem(name, allowed));
        }
    }
}

fn check_paths(values: &Values, tiers: &[TierOptions], problems: &mut Vec<Problem>) {
    let all: Vec<(&str, &Path)> = tiers
        .iter()
        .flat_map(|tier| tier.paths.iter().map(|path| (&*tier.name, &*path.dir)))
        .collect();
    for (at, (tier, dir)) in all.iter().enumerate() {
        let others = all[..at].iter();
        let clash = others
            .map(|(_, other)| other)
            .find(|other| dir.starts_with(other) || other.starts_with(dir));
        if let Some(other) = clash {
            let key = path_key(values, tier, tiers);
            let allowed = format!(
                "{} must not be, or lie in, or hold another path of a tier, as it does with {}",
                dir.display(),
                other.display()
            );
            problems.push(values.problem(&key, allowed));
        }
    }
}

/// Returns the key that gave a tier its paths.
fn path_key(values: &Values, tier: &str, tiers: &[TierOptions]) -> String {
    let is_first = tiers.first().is_some_and(|first| &*first.name == tier);
    let by_name = format!("storage.tier.{tier}.paths");
    if values.is_given(&by_name) {
        return by_name;
    }
    let key = match (values.text("log.channel.type"), is_first) {
        (Some("mix"), false) => "storage.hdd.path",
        (Some("mix"), true) => "storage.pmem.path",
        (_, true) => "storage.tiers.first.paths",
        (_, false) => "storage.tiers.second.paths",
    };
    key.to_owned()
}

fn policy(values: &Values, problems: &mut Vec<Problem>) -> PolicySettings {
    let key = "storage.migrate.threshold";
    let threshold = ratio(values, key);
    #[expect(clippy::float_cmp, reason = "a word, not a measure")]
    let off = threshold == -1.0;
    if threshold < 0.0 && !off {
        problems.push(values.problem(key, "must be -1 or a number from 0 to 1"));
    }
    let hysteresis = ratio(values, "storage.migrate.hysteresis");
    if threshold >= 0.0 && hysteresis > threshold {
        let allowed = format!("must be at most {key}={threshold}");
        problems.push(values.problem("storage.migrate.hysteresis", allowed));
    }
    let wait = |name: &str| values.int(name).unsigned_abs();
    PolicySettings {
        threshold: (!off).then_some(threshold),
        hysteresis,
        reserve: ratio(values, "storage.migrate.reserve"),
        threads: size(values.int("storage.migrate.threads")),
        bytes_per_second: match values.int("storage.migrate.bytes.per.second") {
            bytes if bytes > 0 => Some(bytes.unsigned_abs()),
            _ => None,
        },
        residency_ms: wait("storage.migrate.residency.ms"),
        heat_ms: wait("storage.migrate.heat.ms"),
        horizon_ms: wait("storage.migrate.horizon.ms"),
    }
}

fn ratio(values: &Values, name: &str) -> f64 {
    let text = values.text(name).and_then(|text| text.parse().ok());
    text.expect("the table gives this fraction a default")
}

fn rate(values: &Values, name: &str) -> Option<u64> {
    values
        .number(name)
        .and_then(|rate| u64::try_from(rate).ok())
}
