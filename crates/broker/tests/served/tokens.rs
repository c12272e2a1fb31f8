//! Logins by OAUTHBEARER: what a client with a right or a wrong token gets, and how long its
//! session lasts. What a token means is decided by a verifier of the test's own.

#![allow(
    clippy::disallowed_types,
    reason = "a sink is shared by shards; this one keeps a list"
)]

use std::sync::Mutex;

use broker::audit::{Audit, AuditClasses, AuditDetail, AuditEvent, AuditSink};
use broker::session::{TokenFault, TokenOwner, TokenVerifier};

use super::*;

/// Keeps why logins failed.
#[derive(Default)]
struct FailedLogins(Mutex<Vec<String>>);

impl AuditSink for FailedLogins {
    fn classes(&self) -> AuditClasses {
        AuditClasses::parse(["auth_failure"]).expect("a class")
    }

    fn put(&self, event: AuditEvent) {
        let AuditDetail::Login(reason) = event.detail else {
            panic!("{event:?}");
        };
        let is_of_exchange = reason.starts_with("login by OAUTHBEARER ");
        assert_eq!(event.origin.mechanism == "OAUTHBEARER", is_of_exchange);
        self.0.lock().expect("no panic").push(reason);
    }

    fn takes_changes(&self) -> bool {
        true
    }
}

/// Knows tokens of the form `name.seconds`, which expire that number of seconds from now.
#[derive(Debug)]
struct NamedTokens;

impl TokenVerifier for NamedTokens {
    fn verify(&self, token: &str, wall_ms: i64) -> Result<TokenOwner, TokenFault> {
        let (name, seconds) = token.split_once('.').ok_or(TokenFault::Signature)?;
        let seconds: i64 = seconds.parse().map_err(|_| TokenFault::Times)?;
        Ok(TokenOwner {
            name: name.to_owned(),
            expires_ms: wall_ms.saturating_add(seconds.saturating_mul(1000)),
        })
    }
}

fn setup(session_max: Option<Duration>) -> Setup {
    let mut setup = setup_for(session_max);
    let login = setup.options.logins.get_mut(LISTENER).unwrap();
    Arc::make_mut(login).mechanisms.push(MechanismOptions {
        mechanism: Mechanism::Oauthbearer,
        session_max,
        users: Vec::new(),
        tokens: Some(Arc::new(NamedTokens)),
    });
    setup
}

fn message(token: &str) -> Vec<u8> {
    format!("n,,\u{1}auth=Bearer {token}\u{1}\u{1}").into_bytes()
}

impl Connection<'_> {
    async fn token(&self, token: &str) -> SaslAuthenticateResponse {
        assert_eq!(self.handshake(1, "OAUTHBEARER").await.error_code, 0);
        self.authenticate(&message(token)).await
    }
}

#[test]
fn a_token_makes_a_session_that_ends_with_it_or_sooner() {
    for (session_max, token, told_ms) in [
        (None, "ada.600", 600_000),
        (Some(SESSION), "ada.600", 60_000),
        (Some(SESSION), "ada.10", 10_000),
        // Within the skew of clocks: as in Kafka the next request is too late.
        (Some(SESSION), "ada.-5", 0),
        (None, "ada.9223372036854775807", i64::MAX),
    ] {
        life(&SimDisk::new(1), &setup(session_max), async |cluster| {
            let client = Connection::new(cluster);
            let answer = client.token(token).await;
            let told = answer.session_lifetime_ms;
            assert_eq!(answer.error_code, 0);
            assert!(answer.auth_bytes.is_empty());
            assert!(
                told == told_ms || (told_ms == i64::MAX && told > 1 << 60),
                "{told}"
            );
            assert_eq!(client.session.principal().to_string(), "User:ada");
            let clock = cluster.brokers[0].platform.clock().clone();
            let rest = Duration::from_millis(told.min(600_000).unsigned_abs());
            if !rest.is_zero() {
                assert!(client.is_served().await);
            }
            clock.sleep(rest + Duration::from_millis(1)).await;
            if told_ms <= 600_000 {
                let over = client.closed(&frame(12, &MetadataRequest::default())).await;
                assert_eq!(over, LoginFailure::Expired.into());
            }
        });
    }
}

#[test]
fn a_wrong_token_is_told_as_in_kafka_and_its_reason_to_the_log_alone() {
    life(&SimDisk::new(1), &setup(None), async |cluster| {
        for token in ["hunter2", "ada.x"] {
            let client = Connection::new(cluster);
            let answer = client.token(token).await;
            assert_eq!(answer.error_code, 0);
            assert_eq!(&answer.auth_bytes[..], br#"{"status":"invalid_token"}"#);
            assert!(client.session.login_limits().is_some());
            let (told, reason) = client.fails(b"\x01").await;
            assert_eq!(told, r#"{"status":"invalid_token"}"#);
            let said = reason.to_string();
            assert!(
                said.starts_with("login by OAUTHBEARER failed: the token is not accepted: "),
                "{said}"
            );
            assert!(!said.contains("hunter2"));
        }
        // No second token after the error, and nothing else.
        for bytes in [message("ada.600"), Vec::new(), b"\x01\x01".to_vec()] {
            let client = Connection::new(cluster);
            client.token("hunter2").await;
            let (told, _) = client.fails(&bytes).await;
            assert!(told.contains("invalid credentials"), "{told}");
        }
    });
}

#[test]
fn a_wrong_token_is_audited_once_even_if_its_client_leaves_instead_of_confirming_it() {
    const WHY: &str =
        "login by OAUTHBEARER failed: the token is not accepted: its signature is wrong";
    let failed = Arc::new(FailedLogins::default());
    let mut setup = setup(None);
    let sink: Arc<FailedLogins> = Arc::clone(&failed);
    setup.options.audit = Audit::to(sink);
    let noted = || std::mem::take(&mut *failed.0.lock().expect("no panic"));
    life(&SimDisk::new(1), &setup, async |cluster| {
        let client = Connection::new(cluster);
        assert_eq!(LoginFailure::unconfirmed(&client.session), None);
        client.token("hunter2").await;
        let unconfirmed = LoginFailure::unconfirmed(&client.session).unwrap();
        assert_eq!(unconfirmed.to_string(), WHY);
        assert_eq!(noted(), [WHY]);
        client.fails(b"\x01").await;
        assert_eq!(LoginFailure::unconfirmed(&client.session), None);
        // Only the request after it.
        assert_eq!(noted(), [LoginFailure::After.to_string()]);
        // In frames by themselves, too.
        let client = Connection::new(cluster);
        client.handshake(0, "OAUTHBEARER").await;
        client.send(&message("hunter2").into()).await;
        assert_eq!(noted(), [WHY]);
        client.closed(&Bytes::from_static(b"\x01")).await;
        assert_eq!(noted(), [""; 0]);
        // A right one is no failure.
        Connection::new(cluster).token("ada.600").await;
        assert_eq!(noted(), [""; 0]);
    });
}

#[test]
fn a_message_that_is_none_or_acts_for_another_is_refused() {
    life(&SimDisk::new(1), &setup(None), async |cluster| {
        for bytes in [
            &b""[..],
            b"\0ada\0pencil",
            b"n,,\x01auth=Basic ada.600\x01\x01",
            b"n,a=root,\x01auth=Bearer ada.600\x01\x01",
            b"y,,\x01auth=Bearer ada.600\x01\x01",
        ] {
            let client = Connection::new(cluster);
            assert_eq!(client.handshake(1, "OAUTHBEARER").await.error_code, 0);
            let (told, _) = client.fails(bytes).await;
            assert!(told.starts_with("Authentication failed"), "{told}");
        }
        let client = Connection::new(cluster);
        client.handshake(1, "OAUTHBEARER").await;
        let own = b"n,a=ada,\x01auth=Bearer ada.600\x01trace=x\x01\x01";
        assert_eq!(client.authenticate(own).await.error_code, 0);
    });
}

#[test]
fn a_session_goes_on_by_another_token_of_the_same_user() {
    life(&SimDisk::new(1), &setup(None), async |cluster| {
        let clock = cluster.brokers[0].platform.clock().clone();
        let client = Connection::new(cluster);
        client.token("ada.10").await;
        clock.sleep(Duration::from_secs(9)).await;
        let again = client.token("ada.20").await;
        assert_eq!(again.session_lifetime_ms, 20_000);
        clock.sleep(Duration::from_secs(15)).await;
        assert!(client.is_served().await);
        client.handshake(1, "OAUTHBEARER").await;
        let (told, reason) = client.fails(&message("bob.600")).await;
        assert!(told.contains("Cannot change principals"), "{told}");
        assert_eq!(reason, LoginFailure::OtherPrincipal.into());
        // A wrong token ends what the right one began.
        let client = Connection::new(cluster);
        client.token("ada.10").await;
        client.token("hunter2").await;
        client.fails(b"\x01").await;
    });
}

#[test]
fn a_listener_that_verifies_no_tokens_takes_none() {
    let mut setup = setup(None);
    let login = setup.options.logins.get_mut(LISTENER).unwrap();
    let last = Arc::make_mut(login).mechanisms.last_mut().unwrap();
    last.tokens = None;
    life(&SimDisk::new(1), &setup, async |cluster| {
        let client = Connection::new(cluster);
        let answer = client.token("ada.600").await;
        assert_eq!(&answer.auth_bytes[..], br#"{"status":"invalid_token"}"#);
    });
}
