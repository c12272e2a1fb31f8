//! What is seen of servers that are right, of others, and of silent ones.

use platform::runtime::run_simulated;
use platform::sim::SimNet;
use platform::task;
use rustls::ServerConfig;

use super::*;
use crate::connection::tests::counting;
use crate::connection::tests::secured::{Authority, Own, serving, trusting};
use crate::scripted::{PORT, serve_tls};
use crate::settings::ClientSettings;

fn seen(host: &str, config: &Arc<ServerConfig>, settings: &ClientSettings) -> Inspection {
    let simulated = run_simulated(async {
        let net = SimNet::default();
        serve_tls(&net, host, &counting(), config);
        let deadline = Instant::now() + Duration::from_secs(20);
        let tls = settings.tls.as_ref().unwrap();
        inspect(&net, host, PORT, tls, deadline).await.unwrap()
    });
    simulated.unwrap()
}

#[test]
fn a_server_that_is_right_is_seen_as_it_is() {
    let authority = Authority::new();
    let own = authority.issue(|_| {});
    let found = seen("a", &serving(&own, None), &trusting(&authority, &[]));
    assert_eq!(found.protocol.as_deref(), Some("TLSv1.3"));
    assert!(
        found.cipher.as_deref().unwrap().starts_with("TLS_AES_"),
        "{found:?}"
    );
    assert!(found.key_exchange.is_some());
    assert_eq!(found.chain, [own.certificate.der().to_vec()]);
    assert_eq!(
        (&found.distrust, &found.other_name, &found.failure),
        (&None, &None, &None)
    );
    assert!(!found.is_asked && found.speaks_kafka);
    assert_eq!(found.acceptance, Acceptance::Accepted);
}

#[test]
fn what_is_wrong_is_told_apart() {
    let (authority, other) = (Authority::new(), Authority::new());
    let config = serving(&authority.issue(|_| {}), None);
    let stranger = seen("a", &config, &trusting(&other, &[]));
    assert!(
        stranger
            .distrust
            .unwrap()
            .contains("ssl.truststore.location")
    );
    assert_eq!((stranger.other_name, stranger.failure), (None, None));
    let elsewhere = seen("b", &config, &trusting(&authority, &[]));
    assert!(
        elsewhere
            .other_name
            .unwrap()
            .contains("not for the name \"b\"")
    );
    assert_eq!(elsewhere.distrust, None);
    let old = authority.issue(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let old = seen("b", &serving(&old, None), &trusting(&authority, &[]));
    assert!(old.distrust.unwrap().contains("expired") && old.other_name.is_some());
    let old = [("ssl.enabled.protocols", "TLSv1.2")];
    let older = seen("a", &config, &trusting(&authority, &old));
    assert_eq!(older.protocol.as_deref(), Some("TLSv1.2"));
    assert!(older.cipher.unwrap().starts_with("TLS_ECDHE_"));
}

#[test]
fn a_server_that_asks_for_a_certificate_judges_it() {
    let (authority, other) = (Authority::new(), Authority::new());
    let config = serving(&authority.issue(|_| {}), Some(&authority));
    let with = |own: &Own, version: &str| {
        let (chain, key) = (own.certificate.pem(), own.key.serialize_pem());
        let both = [
            ("ssl.keystore.type", "PEM"),
            ("ssl.keystore.certificate.chain", chain.as_str()),
            ("ssl.keystore.key", key.as_str()),
            ("ssl.enabled.protocols", version),
        ];
        seen("a", &config, &trusting(&authority, &both))
    };
    for version in ["TLSv1.2", "TLSv1.3"] {
        let own = authority.issue(|_| {});
        let taken = with(&own, version);
        assert!(taken.is_asked && taken.speaks_kafka, "{taken:?}");
        assert_eq!(taken.own_chain, [own.certificate.der().to_vec()]);
        assert_eq!(taken.acceptance, Acceptance::Accepted);
        let refused = with(&other.issue(|_| {}), version);
        let why = match (refused.acceptance, refused.failure) {
            (Acceptance::Refused(why), None) | (_, Some(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why.contains("certificate"), "{why}");
    }
    let without = seen("a", &config, &trusting(&authority, &[]));
    assert!(without.is_asked && without.own_chain.is_empty());
    let Acceptance::Refused(why) = without.acceptance else {
        panic!("{without:?}");
    };
    assert!(why.contains("ssl.keystore.location"), "{why}");
}

#[test]
fn a_server_that_says_nothing_takes_no_longer_than_the_deadline() {
    let authority = Authority::new();
    let settings = trusting(&authority, &[]);
    let simulated = run_simulated(async {
        let net = SimNet::default();
        let listener = net.listen("a", PORT);
        task::spawn(async move {
            let kept = listener.accept().await;
            std::future::pending::<()>().await;
            drop(kept);
        });
        let began = Instant::now();
        let deadline = began + Duration::from_secs(5);
        let tls = settings.tls.as_ref().unwrap();
        let found = inspect(&net, "a", PORT, tls, deadline).await.unwrap();
        assert!(found.failure.unwrap().contains("in time"));
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    });
    simulated.unwrap();
}
