//! The file that defines a rollout (`rollout.toml`): the hosts, the stages, and how many hosts at
//! the same time.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::statistics::random::Random;

/// The version of the file format that this program reads.
const VERSION: u32 = 1;

/// The content of the file.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Rollout {
    /// Version of the file format.
    pub version: u32,
    /// The plan, relative to this file.
    pub plan: PathBuf,
    /// The hosts as JSON, relative to this file: the output of `ansible-inventory --list`.
    pub inventory: PathBuf,
    /// How many hosts have the plan at the end of each stage: `1 host`, `1 per site`, `5%`.
    pub stages: Vec<String>,
    /// How long the hosts of a stage are observed before they are confirmed and the next stage
    /// begins.
    pub soak_ms: u64,
    /// How many hosts are changed at the same time.
    pub at_once: AtOnce,
    /// Share of the hosts that stays unchanged, for comparison.
    #[serde(default)]
    pub holdout: f64,
    /// How many hosts of a stage may be unreachable; with more, the rollout pauses for an operator.
    #[serde(default = "two")]
    pub unreachable_max: usize,
    /// Times in UTC in which nothing begins, such as `Fri 12:00..Mon 06:00`.
    #[serde(default)]
    pub freeze: Vec<String>,
    /// Determines the order of the hosts, and which are held out.
    #[serde(default)]
    pub seed: u64,
    /// The most disruptive class that may be written.
    #[serde(default = "flows")]
    pub class_max: String,
    /// A program that says whether a host still serves, with `{host}` among its arguments; none by
    /// default.
    #[serde(default)]
    pub gate: Vec<String>,
    /// How hosts are taken out of service for a restart; needed for plans of class P and B.
    #[serde(default)]
    pub restart: Option<Restart>,
    /// The program that executes steps on hosts; see `docs/tune-rollout.md`.
    pub carrier: Vec<String>,
    /// How long it may take for a step on a batch; longer, and no host of the batch was reached.
    #[serde(default = "quarter")]
    pub carrier_within_ms: u64,
}

fn two() -> usize {
    2
}

fn flows() -> String {
    "F".to_owned()
}

/// The programs that take a host out of service and back, with `{host}` among their arguments. Each
/// runs on the controller and is done when it exits with 0.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// Takes the host out of service, if everything on it is elsewhere often enough; else it fails.
    pub drain: Vec<String>,
    /// Restarts the server, or the host, and waits until it is back.
    pub restart: Vec<String>,
    /// Succeeds when the host serves again and is in step with the others.
    pub ready: Vec<String>,
    /// How long each of them may take.
    #[serde(default = "quarter")]
    pub within_ms: u64,
}

fn quarter() -> u64 {
    15 * 60_000
}

/// Limits on the hosts that are changed at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct AtOnce {
    /// Limit in total.
    pub total: usize,
    /// Limit per site.
    #[serde(default = "one")]
    pub site: usize,
    /// Limit per rack.
    #[serde(default = "one")]
    pub rack: usize,
    /// Limit per group of hosts that replace each other.
    #[serde(default = "one")]
    pub group: usize,
}

fn one() -> usize {
    1
}

/// A host.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its site.
    pub site: String,
    /// Its rack.
    pub rack: String,
    /// Its group of hosts that replace each other.
    pub group: String,
}

/// A host and its stage; no stage if it is held out.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Turn {
    /// The host.
    pub host: Host,
    /// Its stage, 0-based.
    pub stage: Option<usize>,
}

impl Rollout {
    /// Parses a file.
    pub fn parse(text: &str) -> anyhow::Result<Rollout> {
        let design: Rollout = toml::from_str(text)?;
        anyhow::ensure!(
            design.version == VERSION,
            "version {} is unknown to this forebay",
            design.version
        );
        anyhow::ensure!(!design.stages.is_empty(), "stages: there is none");
        anyhow::ensure!(!design.carrier.is_empty(), "carrier: nobody carries it");
        let AtOnce {
            total,
            site,
            rack,
            group,
        } = design.at_once;
        anyhow::ensure!(
            [total, site, rack, group].iter().all(|most| *most > 0),
            "at_once: with none at once it never ends"
        );
        anyhow::ensure!(
            (0.0..1.0).contains(&design.holdout),
            "holdout: {} is no share",
            design.holdout
        );
        let class = design.class_max.as_str();
        anyhow::ensure!(
            ["O", "F", "L", "P", "B"].contains(&class),
            "class_max: {class:?} is none of O, F, L, P, B"
        );
        if let Some(restart) = &design.restart {
            let programs = [&restart.drain, &restart.restart, &restart.ready];
            anyhow::ensure!(
                programs.iter().all(|program| !program.is_empty()),
                "restart: drain, restart and ready are programs"
            );
            anyhow::ensure!(
                group == 1,
                "at_once: group: two hosts that stand in for each other would be down at once"
            );
        }
        for stage in &design.stages {
            goal(stage, 1, 1)?;
        }
        for span in &design.freeze {
            frozen(span, 0)?;
        }
        Ok(design)
    }

    /// Returns why a plan cannot be rolled out by this design; whether it restarts hosts is in
    /// `restarts`.
    pub fn refuses(&self, restarts: bool) -> Option<&'static str> {
        (restarts && self.restart.is_none()).then_some(
            "the plan has items of class P or B: restart = { drain, restart, ready } says how a host is taken \
             out of service",
        )
    }

    /// Returns the hosts in random order with their stages; the first host of each site precedes
    /// the second of any.
    pub fn turns(&self, hosts: Vec<Host>) -> anyhow::Result<Vec<Turn>> {
        anyhow::ensure!(!hosts.is_empty(), "inventory: there is no host");
        let mut random = Random::new(self.seed);
        let mut hosts = hosts;
        hosts.sort_by(|one, other| one.name.cmp(&other.name));
        hosts.dedup_by(|one, other| one.name == other.name);
        random.shuffle(&mut hosts);
        let mut of_site: BTreeMap<String, usize> = BTreeMap::new();
        let mut ranked: Vec<(usize, Host)> = Vec::new();
        for host in hosts {
            let rank = of_site.entry(host.site.clone()).or_default();
            ranked.push((*rank, host));
            *rank += 1;
        }
        let sites = of_site.len();
        ranked.sort_by_key(|(rank, _)| *rank);
        // The last hosts are held out; sites of equal size contribute equally.
        let held = share(self.holdout, ranked.len()).min(ranked.len() - 1);
        let taking = ranked.len() - held;
        let goals: Vec<usize> = self
            .stages
            .iter()
            .map(|stage| goal(stage, taking, sites))
            .collect::<anyhow::Result<_>>()?;
        let turn = |(at, (_, host)): (usize, (usize, Host))| Turn {
            stage: goals.iter().position(|goal| at < *goal),
            host,
        };
        Ok(ranked.into_iter().enumerate().map(turn).collect())
    }

    /// Returns whether nothing may begin at this time.
    pub fn is_frozen(&self, unix_seconds: i64) -> bool {
        self.freeze
            .iter()
            .any(|span| frozen(span, unix_seconds).unwrap_or(true))
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count, rounded up, is a count"
)]
fn share(share: f64, of: usize) -> usize {
    (share * of as f64).ceil() as usize
}

/// Returns how many hosts have the plan at the end of a stage.
fn goal(stage: &str, hosts: usize, sites: usize) -> anyhow::Result<usize> {
    let wrong = || anyhow::anyhow!("stages: {stage:?} is none of `1 host`, `1 per site`, `5%`");
    let words: Vec<&str> = stage.split_ascii_whitespace().collect();
    let count = match words.as_slice() {
        [number, "host" | "hosts"] => number.parse().map_err(|_| wrong())?,
        [number, "per", "site"] => number
            .parse::<usize>()
            .map_err(|_| wrong())?
            .saturating_mul(sites),
        [percent] => {
            let percent: f64 = percent
                .strip_suffix('%')
                .and_then(|number| number.parse().ok())
                .ok_or_else(wrong)?;
            anyhow::ensure!(percent > 0.0 && percent <= 100.0, wrong());
            share(percent / 100.0, hosts)
        }
        _ => return Err(wrong()),
    };
    anyhow::ensure!(count > 0, wrong());
    Ok(count.min(hosts))
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const WEEK: i64 = 7 * 1_440;

/// Returns whether a time is within a span of the week.
fn frozen(span: &str, unix_seconds: i64) -> anyhow::Result<bool> {
    let minute = |text: &str| {
        let (day, time) = text.trim().split_once(' ')?;
        let (hour, minute) = time.split_once(':')?;
        let (hour, minute): (i64, i64) = (hour.parse().ok()?, minute.parse().ok()?);
        let day = i64::try_from(DAYS.iter().position(|name| *name == day)?).ok()?;
        ((0..24).contains(&hour) && (0..60).contains(&minute))
            .then_some((day * 24 + hour) * 60 + minute)
    };
    let ends = span
        .split_once("..")
        .and_then(|(from, to)| Some((minute(from)?, minute(to)?)));
    let (from, to) =
        ends.ok_or_else(|| anyhow::anyhow!("freeze: {span:?} is not like `Fri 12:00..Mon 06:00`"))?;
    // 1970 began on a Thursday.
    let now = (unix_seconds.div_euclid(60) + 3 * 1_440).rem_euclid(WEEK);
    Ok(if from <= to {
        (from..to).contains(&now)
    } else {
        now >= from || now < to
    })
}

/// Returns the block of each host by name: its values of these variables.
///
/// A host that lacks one of them is an error: in a block of its own it would be compared with none.
pub fn blocks(json: &[u8], block_by: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let inventory: serde_json::Value = serde_json::from_slice(json)?;
    let block = |host: Host| {
        let vars = &inventory["_meta"]["hostvars"][&host.name];
        let values = block_by.iter().map(|name| match &vars[name] {
            serde_json::Value::String(value) => Ok(value.clone()),
            serde_json::Value::Number(value) => Ok(value.to_string()),
            _ => Err(anyhow::anyhow!("{} has no variable {name}", host.name)),
        });
        let values: Vec<String> = values.collect::<anyhow::Result<_>>()?;
        Ok((host.name, values.join(", ")))
    };
    hosts(json)?.into_iter().map(block).collect()
}

/// Returns the hosts in the output of `ansible-inventory --list`.
///
/// A host without a site, a rack or a group is alone in its own.
pub fn hosts(json: &[u8]) -> anyhow::Result<Vec<Host>> {
    let inventory: serde_json::Value = serde_json::from_slice(json)?;
    let vars = inventory
        .pointer("/_meta/hostvars")
        .and_then(|vars| vars.as_object());
    let vars = vars.ok_or_else(|| {
        anyhow::anyhow!("_meta.hostvars is missing: ansible-inventory --list --export")
    })?;
    let host = |(name, vars): (&String, &serde_json::Value)| {
        anyhow::ensure!(
            !name.is_empty()
                // It would be an option of the programs that get it.
                && !name.starts_with('-')
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte)),
            "{name:?} is no name of a host"
        );
        let of = |what: &str| {
            let said = vars.get(what).and_then(|value| value.as_str());
            said.map_or_else(|| format!("{what} of {name}"), str::to_owned)
        };
        Ok(Host {
            name: name.clone(),
            site: of("site"),
            rack: of("rack"),
            group: of("group"),
        })
    };
    vars.iter().map(host).collect()
}
