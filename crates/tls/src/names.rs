//! Names of versions and cipher suites, and what of them is offered.
//!
//! Names are Java's, which are IANA's. A name in a list that is not served causes a warning, and a
//! list without any that is served refuses the start: suites without forward secrecy or with CBC
//! have no place here. Not here: the order in which suites are chosen, which is the client's.

use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::version::{TLS12, TLS13};

use crate::problem::{TlsProblem, TlsWarning};
use crate::settings::{Setting, TlsNames};

/// Versions that are served, and one name for each.
static VERSIONS: [(&str, &SupportedProtocolVersion); 2] =
    [("TLSv1.2", &TLS12), ("TLSv1.3", &TLS13)];
/// Names of versions that are not.
const OLD_VERSIONS: [&str; 5] = ["SSLv2", "SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1"];

/// Suites that are served.
static SUITES: [(&str, rustls::SupportedCipherSuite); 9] = [
    (
        "TLS_AES_256_GCM_SHA384",
        cipher_suite::TLS13_AES_256_GCM_SHA384,
    ),
    (
        "TLS_AES_128_GCM_SHA256",
        cipher_suite::TLS13_AES_128_GCM_SHA256,
    ),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// What is offered.
#[derive(Debug)]
pub(crate) struct ChosenNames {
    /// The cryptography, with the suites that were named.
    pub(crate) provider: CryptoProvider,
    /// The versions that have a suite.
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
}

/// Chooses what the settings name.
pub(crate) fn choose(
    names: &TlsNames,
    warnings: &mut Vec<TlsWarning>,
) -> Result<ChosenNames, TlsProblem> {
    let mut versions = versions(names.protocols.as_ref())?;
    let mut provider = aws_lc_rs::default_provider();
    if let Some(suites) = not_empty(names.cipher_suites.as_ref()) {
        provider.cipher_suites = self::suites(suites, warnings)?;
    }
    versions.retain(|version| {
        let mut suites = provider.cipher_suites.iter();
        suites.any(|suite| suite.version() == *version)
    });
    match (&names.cipher_suites, versions.is_empty()) {
        (Some(suites), true) => {
            let why = "none of the suites belongs to a version that is enabled";
            let advice = "name suites of the versions in ssl.enabled.protocols, or none at all";
            Err(TlsProblem::of(&suites.name, why, advice))
        }
        _ => Ok(ChosenNames { provider, versions }),
    }
}

fn not_empty(list: Option<&Setting<Vec<String>>>) -> Option<&Setting<Vec<String>>> {
    list.filter(|list| !list.value.is_empty())
}

fn versions(
    named: Option<&Setting<Vec<String>>>,
) -> Result<Vec<&'static SupportedProtocolVersion>, TlsProblem> {
    let Some(named) = not_empty(named) else {
        return Ok(VERSIONS.map(|(_, version)| version).to_vec());
    };
    let mut versions = Vec::new();
    for name in &named.value {
        let known = VERSIONS.iter().find(|(known, _)| known == name);
        let Some((_, version)) = known else {
            let why = if OLD_VERSIONS.contains(&name.as_str()) {
                format!("{name} is broken and not served")
            } else {
                format!("there is no version {name:?}")
            };
            return Err(TlsProblem::of(
                &named.name,
                why,
                "name TLSv1.2, TLSv1.3 or both; clients that know neither have to be renewed",
            ));
        };
        if !versions.contains(version) {
            versions.push(*version);
        }
    }
    Ok(versions)
}

fn suites(
    named: &Setting<Vec<String>>,
    warnings: &mut Vec<TlsWarning>,
) -> Result<Vec<rustls::SupportedCipherSuite>, TlsProblem> {
    let known: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
    let mut suites = Vec::new();
    let mut left_out = Vec::new();
    for name in &named.value {
        match SUITES.iter().find(|(known, _)| known == name) {
            Some((_, suite)) if !suites.contains(suite) => suites.push(*suite),
            Some(_) => {}
            None => left_out.push(name.as_str()),
        }
    }
    let advice = format!("those that are served: {}", known.join(", "));
    if suites.is_empty() {
        let why = "none of these cipher suites is served";
        return Err(TlsProblem::of(&named.name, why, advice));
    }
    if !left_out.is_empty() {
        let why = format!("{} of these are not served and left out", shown(&left_out));
        warnings.push(TlsWarning(TlsProblem::of(&named.name, why, advice)));
    }
    Ok(suites)
}

/// Returns names for a message, without those that would fill the screen.
fn shown(names: &[&str]) -> String {
    const MOST: usize = 5;
    let is_plain =
        |name: &&&str| name.len() <= 60 && name.bytes().all(|byte| byte.is_ascii_graphic());
    let first: Vec<&str> = names.iter().filter(is_plain).take(MOST).copied().collect();
    let more = names.len().saturating_sub(first.len());
    match (first.is_empty(), more) {
        (true, more) => format!("{more}"),
        (false, 0) => first.join(", "),
        (false, more) => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(
        clippy::unnecessary_wraps,
        reason = "the fields of settings are optional"
    )]
    fn setting(name: &str, items: &[&str]) -> Option<Setting<Vec<String>>> {
        let items = items.iter().map(|item| (*item).to_owned()).collect();
        Some(Setting::new(name, items))
    }

    fn choose_of(versions: &[&str], suites: &[&str]) -> (Result<ChosenNames, TlsProblem>, usize) {
        let names = TlsNames {
            protocols: setting("ssl.enabled.protocols", versions),
            cipher_suites: setting("ssl.cipher.suites", suites),
        };
        let mut warnings = Vec::new();
        let chosen = choose(&names, &mut warnings);
        (chosen, warnings.len())
    }

    #[track_caller]
    fn check(versions: &[&str], suites: &[&str], expect: (usize, usize, usize)) {
        let (chosen, warnings) = choose_of(versions, suites);
        let chosen = chosen.unwrap();
        let counts = (
            chosen.versions.len(),
            chosen.provider.cipher_suites.len(),
            warnings,
        );
        assert_eq!(counts, expect, "{versions:?} {suites:?}");
    }

    #[test]
    fn what_is_served_of_the_lists_is_offered() {
        check(&[], &[], (2, 9, 0));
        check(&["TLSv1.3"], &[], (1, 9, 0));
        check(
            &["TLSv1.2", "TLSv1.3", "TLSv1.3"],
            &["TLS_AES_128_GCM_SHA256"],
            (1, 1, 0),
        );
        let with_cbc = [
            "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_RSA_WITH_AES_128_GCM_SHA256",
        ];
        check(&["TLSv1.2"], &with_cbc, (1, 1, 1));
    }

    #[test]
    fn a_list_of_which_nothing_is_left_is_refused() {
        let said = |versions: &[&str], suites: &[&str]| {
            choose_of(versions, suites).0.unwrap_err().to_string()
        };
        let cbc = said(&[], &["TLS_RSA_WITH_AES_128_CBC_SHA"]);
        assert!(cbc.starts_with("ssl.cipher.suites: none of these"), "{cbc}");
        let apart = said(&["TLSv1.2"], &["TLS_AES_128_GCM_SHA256"]);
        assert!(
            apart.contains("belongs to a version that is enabled"),
            "{apart}"
        );
        let old = said(&["TLSv1.2", "TLSv1.1"], &[]);
        assert!(
            old.starts_with("ssl.enabled.protocols: TLSv1.1 is broken"),
            "{old}"
        );
        let unknown = said(&["TLSv1.4"], &[]);
        assert!(unknown.contains("no version \"TLSv1.4\""), "{unknown}");
    }

    #[test]
    fn every_suite_of_the_cryptography_has_a_name() {
        assert_eq!(SUITES.len(), aws_lc_rs::ALL_CIPHER_SUITES.len());
    }
}
