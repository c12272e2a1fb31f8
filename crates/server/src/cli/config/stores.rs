//! Opens the keys and certificates of the listeners that speak TLS, and the keys of tokens of those
//! of OAUTHBEARER, as a start would, and says what is wrong with them.
//!
//! Invariant: nothing is shown of a key or a password. What only the user of the broker may read is
//! no finding: it could not be looked at.

use std::fs::File;
use std::io::ErrorKind;

use platform::clock::Clock;
use tls::{Opened, ServerTls, TlsProblem, TlsWarning};

use super::directories::DirectorySurvey;
use super::finding::{Finding, Group, line_of};
use crate::config::{Origin, Problem, RawSettings, Settings};

/// A certificate that runs out so soon is worth a line.
const SOON_DAYS: i64 = 30;
const DAY_SECONDS: i64 = 86_400;

/// Opens the stores of `settings`, which come from `raw` and have these problems.
pub(super) fn look(
    settings: &Settings,
    raw: &RawSettings,
    problems: &[Problem],
) -> DirectorySurvey {
    let mut seen = DirectorySurvey::default();
    look_at_tokens(settings, raw, &mut seen);
    let listeners = settings.tls_sets();
    if listeners.is_empty() {
        return seen;
    }
    let is_of_tls = |key: &str| key.starts_with("ssl.") || key.contains(".ssl.");
    if let Some(wrong) = problems.iter().find(|one| is_of_tls(&one.key)) {
        let key = &wrong.key;
        let why =
            format!("keys and certificates were not looked at: {key} has to be corrected first");
        seen.unseen.push(why);
        return seen;
    }
    let now = Clock::system().wall_ms() / 1000;
    for tls in listeners.values() {
        match ServerTls::open(tls) {
            Ok(Opened { tls, warnings }) => {
                let warnings = warnings.iter().map(|TlsWarning(it)| it);
                seen.findings
                    .extend(warnings.map(|it| finding(raw, it, Group::Changes)));
                seen.findings.extend(of_expiry(raw, &tls, now));
            }
            Err(problem) if may_not_be_read(&problem) => {
                seen.unseen
                    .push(format!("cannot look at everything: {problem}"));
            }
            Err(problem) => seen.findings.push(finding(raw, &problem, Group::Refuses)),
        }
    }
    // Several listeners may have the same.
    let mut known: Vec<Finding> = Vec::new();
    seen.findings.retain(|one| {
        let is_new = !known.contains(one);
        if is_new {
            known.push(one.clone());
        }
        is_new
    });
    seen
}

/// Reads the keys of tokens. A provider is not asked: a start does not wait for it either.
fn look_at_tokens(settings: &Settings, raw: &RawSettings, seen: &mut DirectorySurvey) {
    for source in &settings.token_keys.sources {
        let Err((setting, why)) = source.look() else {
            continue;
        };
        let problem = TlsProblem {
            setting: setting.to_owned(),
            file: source.file().map(Into::into),
            why,
            advice: "write the JWK set of the identity provider there, or name its https address"
                .into(),
        };
        if may_not_be_read(&problem) {
            seen.unseen.push(format!(
                "cannot look at everything: {setting}: {}",
                problem.why
            ));
        } else {
            let problem = TlsProblem {
                file: None,
                ..problem
            };
            seen.findings.push(finding(raw, &problem, Group::Refuses));
        }
    }
}

fn may_not_be_read(problem: &TlsProblem) -> bool {
    let opened = problem.file.as_ref().map(File::open);
    opened.is_some_and(|it| it.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied))
}

fn finding(raw: &RawSettings, problem: &TlsProblem, group: Group) -> Finding {
    let file = problem.file.as_ref();
    let file = file.map(|file| format!("{}: ", file.display()));
    let origin = origin_of(raw, &problem.setting);
    Finding {
        group,
        place: origin.to_string(),
        line: line_of(&origin),
        key: problem.setting.clone(),
        value: None,
        what: format!("{}{}", file.unwrap_or_default(), problem.why),
        advice: problem.advice.clone(),
    }
}

/// Says so of a certificate that runs out soon, or has.
fn of_expiry(raw: &RawSettings, tls: &ServerTls, now: i64) -> Option<Finding> {
    let expiry = tls.expiry()?;
    let left = expiry.not_after.saturating_sub(now);
    let subject = &expiry.subject;
    let why = match left.div_euclid(DAY_SECONDS) {
        days if days < 0 => format!("the certificate of {subject} has expired: clients refuse it"),
        days if days < SOON_DAYS => format!("the certificate of {subject} expires in {days} days"),
        _ => return None,
    };
    let problem = TlsProblem {
        setting: "ssl.keystore.location".into(),
        file: None,
        why,
        advice: "renew it: a broker that runs takes the new one by itself".into(),
    };
    Some(finding(raw, &problem, Group::Changes))
}

/// Returns where a setting was given; the last place wins.
fn origin_of(raw: &RawSettings, setting: &str) -> Origin {
    let given = raw.entries.iter().rev().find(|entry| entry.key == setting);
    given.map_or(Origin::Default, |entry| entry.origin.clone())
}
