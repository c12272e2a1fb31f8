//! What a start logs of the warnings about settings: by name those that an operator has to look at,
//! and the number of the others.
//!
//! Invariant: a start names at most [`NAMED_MAX`] settings, each in a line of bounded length, and
//! first those that clients notice. Pure: `main` writes the log.

use wire::text::cut;

use super::problem::{Effect, Warning};
use super::raw::Origin;

/// Settings that a start names.
const NAMED_MAX: usize = 100;
/// Longer than any key of the table; the rest of a longer one is left out, and of a longer name of
/// an environment variable. The system bounds the path of a file.
const KEY_BYTES_MAX: usize = 200;

/// The warnings of one start.
#[derive(Debug)]
pub struct StartWarnings {
    /// Those that are named, each with advice.
    pub named: Vec<Warning>,
    /// How many more would be named.
    pub more: usize,
    /// How many settings of files have no effect, and were not meant otherwise.
    pub without_effect: usize,
    /// How many environment variables tell of a service of Kubernetes that is called `forebay`.
    pub service_links: usize,
}

impl StartWarnings {
    /// Chooses which of the warnings a start names.
    ///
    /// It names what clients notice, what was probably meant otherwise, and what is in no file:
    /// `forebay config check FILE` cannot name that.
    pub fn of(mut warnings: Vec<Warning>) -> Self {
        let given = warnings.len();
        warnings.retain(|warning| !is_service_link(&warning.origin));
        let service_links = given.saturating_sub(warnings.len());
        let (mut named, quiet): (Vec<_>, Vec<_>) = warnings
            .into_iter()
            .partition(|warning| warning.effect != Effect::Nothing || !is_of_file(warning));
        named.sort_by_key(|warning| warning.effect != Effect::Clients);
        let more = named.len().saturating_sub(NAMED_MAX);
        named.truncate(NAMED_MAX);
        Self {
            named: named.into_iter().map(with_advice).collect(),
            more,
            without_effect: quiet.len(),
            service_links,
        }
    }
}

fn is_of_file(warning: &Warning) -> bool {
    matches!(warning.origin, Origin::File(..))
}

/// Returns true for a variable that Kubernetes sets in each container beside a service called
/// `forebay`.
fn is_service_link(origin: &Origin) -> bool {
    let Origin::Environment(name) = origin else {
        return false;
    };
    let Some(rest) = name.strip_prefix("FOREBAY_") else {
        return false;
    };
    // `PORT_9092_TCP_ADDR`, for each port.
    let of_port = rest
        .strip_prefix("PORT_")
        .and_then(|rest| rest.split_once('_'));
    let is_of_port = of_port.is_some_and(|(port, protocol)| {
        port.parse::<u16>().is_ok() && ["TCP", "UDP"].iter().any(|it| protocol.starts_with(it))
    });
    ["SERVICE_HOST", "PORT"].contains(&rest) || rest.starts_with("SERVICE_PORT") || is_of_port
}

fn with_advice(warning: Warning) -> Warning {
    let advice = if !warning.advice.is_empty() {
        warning.advice
    } else if let Origin::File(file, _) = &warning.origin {
        let file = file.display();
        format!("correct it, or take it out: `forebay config check {file}` names all of them")
    } else {
        "`forebay config show --given`, with the same environment and arguments, shows it".into()
    };
    Warning {
        key: cut(&warning.key, KEY_BYTES_MAX).to_owned(),
        origin: match warning.origin {
            Origin::Environment(name) => Origin::Environment(cut(&name, KEY_BYTES_MAX).to_owned()),
            origin => origin,
        },
        advice,
        ..warning
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{RawSettings, Settings};
    use crate::machine::Machine;

    fn warnings(file: &str, environment: &str, argument: &str) -> StartWarnings {
        let mut raw = RawSettings::default();
        raw.add_bytes(Path::new("f"), file.as_bytes()).unwrap();
        raw.add_environment([(environment.to_owned(), "1".to_owned())].into_iter());
        raw.add_arguments(&[argument.to_owned()]).unwrap();
        let machine = Machine {
            host_name: "here".into(),
            cores: 2,
            memory_bytes: 8 << 30,
        };
        StartWarnings::of(Settings::judge(&raw, &machine).warnings)
    }

    #[test]
    fn a_start_names_what_was_meant_otherwise_and_what_no_file_holds() {
        let file = "wholly.other=1\nnum.partitions=1\nnum.partitions=2\nnum.io.threads=8\n\
                    default.replication.factor=3\n";
        let said = warnings(file, "FOREBAY_ANOTHER_THING", "num.network.threads=3");
        let named: Vec<_> = said.named.iter().map(ToString::to_string).collect();
        assert_eq!(
            named[0].split(": ").nth(1),
            Some("default.replication.factor")
        );
        let mut rest = named[1..].to_vec();
        rest.sort();
        assert_eq!(
            rest,
            [
                "command line: num.network.threads: has no effect: threads are shards, see \
                 num.shards",
                "environment variable FOREBAY_ANOTHER_THING: another.thing: unknown key",
                "f:1: wholly.other: unknown key",
                "f:2: num.partitions: is given again further down, which wins",
            ]
        );
        assert_eq!((said.more, said.without_effect), (0, 1));
        for one in &said.named {
            let shows = one.advice.contains("`forebay config show --given`");
            assert_eq!(shows, !is_of_file(one), "{one}: {}", one.advice);
            assert!(!one.advice.is_empty(), "{one}");
        }
    }

    #[test]
    fn a_key_that_was_pasted_without_continuation_is_not_named() {
        let secret = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        let file = format!("ssl.keystore.key=-----BEGIN\n{secret}\n{secret}\n");
        let said = warnings(&file, "PATH", "num.partitions=3");
        let named: Vec<_> = said.named.iter().map(ToString::to_string).collect();
        let again = "f:2: (not shown): is given again further down, which wins".to_owned();
        let other = "f:3: (not shown): line 3 is no setting".to_owned();
        assert!(
            named.contains(&again) && named.contains(&other),
            "{named:?}"
        );
        assert!(!format!("{:?}", said.named).contains("MII"), "{named:?}");
    }

    #[test]
    fn variables_of_service_links_are_counted_and_long_ones_are_cut() {
        for link in [
            "SERVICE_HOST",
            "SERVICE_PORT",
            "SERVICE_PORT_KAFKA",
            "PORT",
            "PORT_9092_TCP",
            "PORT_9092_UDP_ADDR",
        ] {
            let said = warnings("", &format!("FOREBAY_{link}"), "num.partitions=3");
            assert_eq!((said.named.len(), said.service_links), (0, 1), "{link}");
        }
        let long = format!("FOREBAY_PORT_X_TCP_{}", "Z".repeat(5000));
        let said = warnings("", &long, "num.partitions=3");
        assert_eq!((said.named.len(), said.service_links), (1, 0));
        let line = said.named[0].to_string();
        assert!(line.len() < 3 * KEY_BYTES_MAX, "{line}");
    }

    #[test]
    fn a_file_that_is_no_file_of_settings_gives_a_bounded_number_of_lines() {
        let long = "k".repeat(5000);
        let lines: Vec<_> = (0..1000).map(|at| format!("zz{at}{long}=1")).collect();
        let said = warnings(&lines.join("\n"), "PATH", "default.replication.factor=3");
        assert_eq!((said.named.len(), said.more), (NAMED_MAX, 901));
        assert_eq!(said.named[0].key, "default.replication.factor");
        assert!(said.named.iter().all(|one| one.key.len() <= KEY_BYTES_MAX));
    }
}
