//! Connections by TLS: which brokers the client accepts, which clients the broker accepts, and the
//! errors of the others.

use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::scripted::{serve_request, serve_tls};
use crate::settings::SettingsBuilder;

/// Who issues certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A key and its certificate, as PEM and for rustls.
pub(crate) struct Own {
    pub(crate) key: KeyPair,
    pub(crate) certificate: rcgen::Certificate,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Issues a certificate for the host "a".
    pub(crate) fn issue(&self, change: impl FnOnce(&mut CertificateParams)) -> Own {
        let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Own { key, certificate }
    }
}

/// What a broker with this certificate serves with; it asks clients for one of `clients` if given.
pub(crate) fn serving(own: &Own, clients: Option<&Authority>) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.0.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        }
    };
    let key = PrivateKeyDer::try_from(own.key.serialize_der()).unwrap();
    let chain = vec![own.certificate.der().clone()];
    Arc::new(builder.with_single_cert(chain, key).unwrap())
}

/// A client that trusts this authority, with more properties.
pub(crate) fn trusting(authority: &Authority, more: &[(&str, &str)]) -> ClientSettings {
    let mut builder = SettingsBuilder::new("a").unwrap();
    builder.set("security.protocol", "SSL").unwrap();
    builder.set("ssl.ca.pem", &authority.0.pem()).unwrap();
    for (key, value) in more {
        builder.set(key, value).unwrap();
    }
    builder.finish().unwrap().client
}

/// Connects a client to the broker of this name; returns what it asks twice, or why it cannot.
fn tried(
    host: &str,
    config: &Arc<ServerConfig>,
    settings: &ClientSettings,
) -> Result<(), ClientError> {
    let simulated = run_simulated(async {
        let net = SimNet::default();
        serve_tls(&net, host, &counting(), config);
        let peer = Peer::new(host, PORT, Some(1));
        let deadline = Instant::now() + 10 * SECOND;
        let connection = open(&net, &peer, settings, &|| 7, deadline).await?;
        for count in 1..3 {
            let answer = connection.ask(&list(), later()).await?;
            assert_eq!(answer.throttle_time_ms, count);
        }
        Ok(())
    });
    simulated.unwrap()
}

/// Returns the words of an error that another connection would end with as well.
fn lasting(tried: Result<(), ClientError>) -> String {
    let error = tried.unwrap_err();
    assert!(matches!(error, ClientError::Login { .. }), "{error:?}");
    assert!(!error.is_retriable());
    error.to_string()
}

#[test]
fn a_broker_is_taken_if_an_issuer_is_trusted() {
    let (authority, other) = (Authority::new(), Authority::new());
    let config = serving(&authority.issue(|_| {}), None);
    assert_eq!(tried("a", &config, &trusting(&authority, &[])), Ok(()));
    let stranger = lasting(tried("a", &config, &trusting(&other, &[])));
    assert!(stranger.contains("ssl.truststore.location"), "{stranger}");
}

#[test]
fn a_broker_is_taken_for_the_names_of_its_certificate() {
    let authority = Authority::new();
    let config = serving(&authority.issue(|_| {}), None);
    let told = lasting(tried("b", &config, &trusting(&authority, &[])));
    assert!(
        told.contains("not for the name \"b\"") && told.contains("\"a\""),
        "{told}"
    );
    let any = trusting(&authority, &[("ssl.endpoint.identification.algorithm", "")]);
    assert_eq!(tried("b", &config, &any), Ok(()));
}

#[test]
fn a_certificate_that_has_expired_is_not_taken() {
    let authority = Authority::new();
    let old = authority.issue(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let told = lasting(tried("a", &serving(&old, None), &trusting(&authority, &[])));
    assert!(told.ends_with("has expired"), "{told}");
}

#[test]
fn a_client_shows_its_certificate_to_a_broker_that_asks() {
    let (authority, other) = (Authority::new(), Authority::new());
    let config = serving(&authority.issue(|_| {}), Some(&authority));
    let with = |own: &Own| {
        let (chain, key) = (own.certificate.pem(), own.key.serialize_pem());
        let both = [
            ("ssl.keystore.type", "PEM"),
            ("ssl.keystore.certificate.chain", chain.as_str()),
            ("ssl.keystore.key", key.as_str()),
        ];
        tried("a", &config, &trusting(&authority, &both))
    };
    assert_eq!(with(&authority.issue(|_| {})), Ok(()));
    let stranger = lasting(with(&other.issue(|_| {})));
    assert!(
        stranger.contains("refuses the certificate of this client"),
        "{stranger}"
    );
    let without = lasting(tried("a", &config, &trusting(&authority, &[])));
    assert!(
        without.contains("asks this client for a certificate: ssl.keystore.location"),
        "{without}"
    );
}

/// Asks a broker that answers the first request, and the next one by these bytes without TLS and
/// the end of the stream.
fn after_garbage(garbage: &'static [u8]) -> ClientError {
    let authority = Authority::new();
    let config = serving(&authority.issue(|_| {}), None);
    let simulated = run_simulated(async {
        let net = SimNet::default();
        let listener = net.listen("a", PORT);
        task::spawn(async move {
            let acceptor = tokio_rustls::TlsAcceptor::from(config);
            let mut stream = acceptor.accept(listener.accept().await).await.unwrap();
            let mut input = bytes::BytesMut::new();
            assert!(serve_request(&mut stream, &mut input, "a", &counting()).await);
            // The client has begun to use the connection.
            stream.read_buf(&mut input).await.unwrap();
            let (mut bare, _) = stream.into_inner();
            bare.write_all(garbage).await.unwrap();
            bare.flush().await.unwrap();
        });
        let connection = connect(&net, &trusting(&authority, &[])).await.unwrap();
        connection.ask(&list(), later()).await.unwrap_err()
    });
    simulated.unwrap()
}

#[test]
fn what_breaks_a_connection_that_was_made_breaks_no_other() {
    // A record that does not decrypt, and an end without a farewell.
    for garbage in [&b"\x17\x03\x03\x00\x15aaaaaaaaaaaaaaaaaaaaa"[..], b""] {
        let error = after_garbage(garbage);
        assert!(error.is_retriable(), "{error:?}");
        assert!(error.is_unknown_outcome(), "{error:?}");
        let told = error.to_string();
        assert!(told.starts_with("broker a:9092: receiving: "), "{told}");
        assert!(!told.contains("http"), "{told}");
    }
}

#[test]
fn a_client_logs_in_under_tls() {
    let authority = Authority::new();
    let config = serving(&authority.issue(|_| {}), None);
    let simulated = run_simulated(async {
        let net = SimNet::default();
        serve_tls(&net, "a", &guarded(0), &config);
        for mechanism in ["PLAIN", "SCRAM-SHA-256"] {
            for (password, is_right) in [("pencil", true), ("hunter2", false)] {
                let jaas = format!("Module required username=ada password={password};");
                let settings = trusting(
                    &authority,
                    &[
                        ("security.protocol", "SASL_SSL"),
                        ("sasl.mechanism", mechanism),
                        ("sasl.jaas.config", &jaas),
                    ],
                );
                let connected = connect(&net, &settings).await;
                assert_eq!(connected.is_ok(), is_right, "{mechanism}");
                if let Err(error) = connected {
                    assert!(!format!("{error:?} {error}").contains("hunter"));
                }
            }
        }
    });
    simulated.unwrap();
}

#[test]
fn who_takes_the_wrong_protocol_hears_which_one_it_may_be() {
    let authority = Authority::new();
    let secured = trusting(&authority, &[]);
    let simulated = run_simulated(async {
        let net = SimNet::default();
        let alert = script(|_, _| Some(Reply::Raw(vec![0x15, 3, 1, 0, 2, 2, 40].into())));
        serve(&net, "a", &alert);
        let error = connect(&net, &settings("a")).await.unwrap_err();
        assert!(error.to_string().contains("speaks TLS"), "{error}");

        let net = SimNet::default();
        serve(&net, "a", &script(|_, _| Some(Reply::Close)));
        let error = connect(&net, &settings("a")).await.unwrap_err();
        assert!(error.to_string().contains("security.protocol"), "{error}");

        // A broker that speaks no TLS takes the beginning of a handshake for a length.
        let net = SimNet::default();
        let listener = net.listen("a", PORT);
        task::spawn(async move { drop(listener.accept().await) });
        let error = connect(&net, &secured).await.unwrap_err();
        assert!(error.to_string().contains("speaks no TLS"), "{error}");
    });
    simulated.unwrap();
}
