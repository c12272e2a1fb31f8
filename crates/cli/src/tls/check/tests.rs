//! Reports on servers, from what was seen of them.

use client::SettingsBuilder;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};

use super::*;
use crate::tls::view::Status;

const CLOCK: Clock = Clock {
    // 2030-01-01.
    now: 1_893_456_000,
    warn_days: 30,
};

fn tls() -> Tls {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(Vec::new()).unwrap();
    let own = params.self_signed(&key).unwrap();
    let mut builder = SettingsBuilder::new("a:1").unwrap();
    builder.set(PROTOCOL, "SSL").unwrap();
    builder.set("ssl.ca.pem", &own.pem()).unwrap();
    builder.finish().unwrap().client.tls.unwrap()
}

/// A chain of two, whose first certificate is valid until this day.
fn chain(name: &str, until: (i32, u8, u8)) -> Vec<Vec<u8>> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "root");
    let root = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(2025, 1, 1);
    params.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
    let own = params
        .signed_by(&KeyPair::generate().unwrap(), &root)
        .unwrap();
    vec![own.der().to_vec(), root.der().to_vec()]
}

fn seen(chain: Vec<Vec<u8>>) -> Inspection {
    Inspection {
        protocol: Some("TLSv1.3".to_owned()),
        cipher: Some("TLS_AES_256_GCM_SHA384".to_owned()),
        chain,
        acceptance: Acceptance::Accepted,
        speaks_kafka: true,
        ..Inspection::default()
    }
}

fn report(seen: Inspection) -> ServerReport {
    ServerReport::of("a:1".to_owned(), Ok(seen), &tls(), CLOCK)
}

#[test]
fn the_status_is_that_of_the_worst_thing() {
    let fine = report(seen(chain("a", (2031, 1, 1))));
    assert_eq!(fine.findings.status, Status::Fine, "{:?}", fine.findings);
    assert_eq!(
        (fine.is_trusted, fine.is_for_host),
        (Some(true), Some(true))
    );
    // The root is at the end of the chain.
    assert_eq!(fine.findings.warnings.len(), 1);
    assert!(fine.text().starts_with("a:1"), "{}", fine.text());
    let soon = report(seen(chain("a", (2030, 1, 20))));
    assert_eq!(soon.findings.status, Status::Expires);
    assert!(
        soon.findings.warnings[0].contains("in 19 days"),
        "{:?}",
        soon.findings
    );
    let past = report(seen(chain("a", (2029, 12, 31))));
    assert_eq!(past.findings.status, Status::Broken);
    let other = Inspection {
        distrust: Some("no issuer is trusted".to_owned()),
        other_name: Some("not for the name".to_owned()),
        ..seen(chain("a", (2030, 1, 20)))
    };
    let other = report(other);
    assert_eq!(
        (other.findings.status, other.findings.problems.len()),
        (Status::Broken, 2)
    );
    assert_eq!(
        (other.is_trusted, other.is_for_host),
        (Some(false), Some(false))
    );
}

#[test]
fn what_became_of_the_certificate_of_this_client_is_told() {
    let with = |acceptance: Acceptance, own: Vec<Vec<u8>>| {
        report(Inspection {
            is_asked: true,
            own_chain: own,
            acceptance,
            ..seen(chain("a", (2031, 1, 1)))
        })
    };
    let own = || chain("ada", (2031, 1, 1));
    let taken = with(Acceptance::Accepted, own());
    assert_eq!(taken.client_certificate.is_accepted, Some(true));
    assert_eq!(taken.findings.status, Status::Fine);
    let refused = with(Acceptance::Refused("it says no".to_owned()), Vec::new());
    assert_eq!(refused.client_certificate.is_accepted, Some(false));
    assert_eq!(refused.findings.problems, ["it says no"]);
    assert!(
        refused
            .text()
            .contains("none was shown and the server refuses")
    );
    let closed = with(Acceptance::Unknown("it closes".to_owned()), own());
    assert_eq!(closed.findings.status, Status::Broken);
    let old = with(Acceptance::Accepted, chain("ada", (2029, 1, 1)));
    assert_eq!(old.findings.status, Status::Broken);
}

#[test]
fn text_of_a_server_moves_no_cursor_and_long_chains_are_cut() {
    let hostile = chain("x\x1b[2J\nfine", (2031, 1, 1));
    let mut long = vec![hostile[0].clone(); 200];
    long.push(vec![1, 2, 3]);
    let report = report(seen(long));
    assert_eq!(report.chain.len() + report.more_certificates, 200);
    assert!(report.chain.len() < 30);
    let text = report.text();
    assert!(!text.contains('\x1b') && !text.contains("\nfine"), "{text}");
    assert!(
        report
            .findings
            .problems
            .iter()
            .any(|told| told.contains("201"))
    );
}

#[test]
fn a_server_that_cannot_be_reached_is_broken() {
    let error = ClientError::TimedOut {
        broker: "a:1".to_owned(),
        what: "connecting".to_owned(),
    };
    let report = ServerReport::of("a:1".to_owned(), Err(error), &tls(), CLOCK);
    assert_eq!(report.findings.status, Status::Broken);
    assert_eq!(report.is_trusted, None);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["status"], "broken");
    assert!(json["problems"][0].as_str().unwrap().contains("a:1"));
}
