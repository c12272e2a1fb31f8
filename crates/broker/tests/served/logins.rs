//! Logins as a client sees them: which requests are answered before one, what a failed one gets,
//! and who the client is afterwards.

mod tokens;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use broker::dispatch::{CloseReason, LoginFailure, Reply, Service, call};
use broker::handler::Context;
use broker::session::{LoginOptions, MechanismOptions, SecurityProtocol, Session};
use bytes::Bytes;
use platform::Platform as _;
use platform::sim::SimDisk;
use wire::StrBytes;
use wire::kafka::Api;
use wire::messages::alter_client_quotas_request as alter;
use wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use wire::messages::{
    AlterClientQuotasRequest, AlterUserScramCredentialsRequest, ApiVersionsRequest,
    MetadataRequest, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    SaslHandshakeResponse,
};
use wire::protocol::Request;
use wire::sasl::scram::{Client, Nonce, ScramHash};
use wire::sasl::{Mechanism, Refusal, Secret, plain};
use wire::types::ErrorCode;

use crate::harness::client::{decode, frame, frame_of};
use crate::harness::{Cluster, Setup, life};

const LISTENER: &str = "SAFE";
const SESSION: Duration = Duration::from_mins(1);
const DELAY: Duration = Duration::from_millis(100);
const SCRAM: Mechanism = Mechanism::Scram(ScramHash::Sha256);

fn secret(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

fn setup() -> Setup {
    setup_for(Some(SESSION))
}

fn setup_for(session_max: Option<Duration>) -> Setup {
    let mut setup = Setup::shards(1);
    let mechanism = |mechanism, users: &[&str]| MechanismOptions {
        mechanism,
        session_max,
        users: users
            .iter()
            .map(|name| ((*name).to_owned(), secret("pencil")))
            .collect(),
        tokens: None,
    };
    let login = LoginOptions {
        mechanisms: vec![
            mechanism(Mechanism::Plain, &["ada", "bob"]),
            mechanism(SCRAM, &[]),
        ],
        failure_delay: DELAY,
        frame_bytes_max: 1 << 19,
        time_max: Duration::from_secs(30),
    };
    let mut endpoint = setup.options.endpoints[0].clone();
    endpoint.listener = LISTENER.into();
    endpoint.protocol = SecurityProtocol::SaslPlaintext;
    setup.options.endpoints.push(endpoint);
    setup.options.logins = [(LISTENER.to_owned(), Arc::new(login))].into();
    setup
}

/// A connection to the listener that asks for a login.
struct Connection<'a> {
    cluster: &'a Cluster,
    session: Rc<Session>,
}

impl<'a> Connection<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let session = Rc::new(cluster.brokers[0].session(LISTENER));
        assert!(session.login_limits().is_some());
        Self { cluster, session }
    }

    fn context(&self) -> Context {
        Context {
            listener: LISTENER.into(),
            peer: ([127, 0, 0, 1], 50_000).into(),
            software: Rc::default(),
            session: Rc::clone(&self.session),
            client_id: StrBytes::default(),
            frame_bytes: 0,
        }
    }

    async fn send(&self, frame: &Bytes) -> Reply {
        let called = call(&self.cluster.brokers[0], self.context(), frame);
        called.reply.await
    }

    async fn ask<R: Request>(&self, version: i16, request: &R) -> R::Response {
        decode::<R>(version, self.send(&frame(version, request)).await)
    }

    async fn closed(&self, frame: &Bytes) -> CloseReason {
        match self.send(frame).await {
            Reply::Close(reason) => *reason,
            other => panic!("answered: {other:?}"),
        }
    }

    async fn handshake(&self, version: i16, mechanism: &'static str) -> SaslHandshakeResponse {
        self.ask(version, &handshake(mechanism)).await
    }

    async fn authenticate(&self, bytes: &[u8]) -> SaslAuthenticateResponse {
        self.ask(2, &authenticate(bytes)).await
    }

    /// Sends bytes that fail, and returns the answer to the client and the reason in the log.
    async fn fails(&self, bytes: &[u8]) -> (String, CloseReason) {
        let clock = self.cluster.brokers[0].platform.clock().clone();
        let began = clock.now();
        let reply = self.send(&frame(2, &authenticate(bytes))).await;
        assert!(clock.now() - began >= DELAY, "a failure waits");
        let Reply::Last(response, reason) = reply else {
            panic!("not the last: {reply:?}");
        };
        let told = decode::<SaslAuthenticateRequest>(2, Reply::Send(response));
        assert_eq!(told.error_code, ErrorCode::SaslAuthenticationFailed.code());
        assert!(self.session.login_limits().is_some());
        let again = self.closed(&frame(12, &MetadataRequest::default())).await;
        assert_eq!(again, LoginFailure::After.into());
        (told.error_message.unwrap().to_string(), *reason)
    }

    async fn plain(&self, name: &str) -> SaslAuthenticateResponse {
        assert_eq!(self.handshake(1, "PLAIN").await.error_code, 0);
        let message = plain::message(name, &secret("pencil")).unwrap();
        self.authenticate(message.expose()).await
    }

    async fn is_served(&self) -> bool {
        let reply = self.send(&frame(12, &MetadataRequest::default())).await;
        matches!(reply, Reply::Send(_))
    }

    fn principal(&self) -> String {
        self.session.principal().to_string()
    }
}

fn handshake(mechanism: &'static str) -> SaslHandshakeRequest {
    SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(mechanism))
}

fn authenticate(bytes: &[u8]) -> SaslAuthenticateRequest {
    SaslAuthenticateRequest::default().with_auth_bytes(Bytes::copy_from_slice(bytes))
}

fn asked_versions(name: &str) -> ApiVersionsRequest {
    let name = StrBytes::from_string(name.to_owned());
    ApiVersionsRequest::default()
        .with_client_software_name(name.clone())
        .with_client_software_version(name)
}

fn versions() -> Bytes {
    frame(3, &asked_versions("test"))
}

#[test]
fn a_user_of_plain_logs_in_and_is_that_user() {
    life(&SimDisk::new(1), &setup(), async |cluster| {
        let client = Connection::new(cluster);
        assert!(matches!(client.send(&versions()).await, Reply::Send(_)));
        let told = client.handshake(1, "PLAIN").await;
        let mechanisms: Vec<_> = told.mechanisms.iter().map(ToString::to_string).collect();
        assert_eq!(
            (told.error_code, mechanisms.join(" ")),
            (0, "PLAIN SCRAM-SHA-256".into())
        );
        let answer = client.authenticate(b"\0ada\0pencil").await;
        assert_eq!(answer.error_code, 0);
        // Kafka's default of the field, not null.
        assert_eq!(answer.error_message.as_deref(), Some(""));
        assert_eq!(answer.session_lifetime_ms, 60_000);
        assert_eq!(client.principal(), "User:ada");
        assert!(client.session.login_limits().is_none());
        assert!(client.is_served().await);
        let late = client.ask(2, &authenticate(b"x")).await;
        assert_eq!(late.error_code, ErrorCode::IllegalSaslState.code());
    });
}

#[test]
fn a_client_of_the_oldest_handshake_sends_bare_bytes() {
    life(&SimDisk::new(1), &setup(), async |cluster| {
        let client = Connection::new(cluster);
        client.handshake(0, "PLAIN").await;
        let reply = client.send(&Bytes::from_static(b"\0ada\0pencil")).await;
        let Reply::Send(response) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(response.to_bytes(), [0; 4][..]);
        assert_eq!(client.principal(), "User:ada");
        let client = Connection::new(cluster);
        client.handshake(0, "PLAIN").await;
        let reason = client.closed(&Bytes::from_static(b"\0ada\0pen")).await;
        let expected = LoginFailure::Refused(Mechanism::Plain, Refusal::Credentials);
        assert_eq!(reason, expected.into());
    });
}

#[test]
fn nothing_else_is_answered_before_the_login() {
    life(&SimDisk::new(1), &setup(), async |cluster| {
        let metadata = frame(12, &MetadataRequest::default());
        let token = frame(2, &authenticate(b"\0ada\0pencil"));
        let expected = |api| CloseReason::from(LoginFailure::Unexpected(api));
        let client = Connection::new(cluster);
        assert_eq!(client.closed(&metadata).await, expected(Api::Metadata));
        let client = Connection::new(cluster);
        assert_eq!(client.closed(&token).await, expected(Api::SaslAuthenticate));
        // After ApiVersions no second one.
        let client = Connection::new(cluster);
        client.send(&versions()).await;
        assert_eq!(client.closed(&versions()).await, expected(Api::ApiVersions));
        // Nor in the middle.
        let client = Connection::new(cluster);
        client.handshake(1, "PLAIN").await;
        assert_eq!(client.closed(&metadata).await, expected(Api::Metadata));
        assert_eq!(client.principal(), "User:ANONYMOUS");
        let client = Connection::new(cluster);
        client
            .closed(&Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n"))
            .await;
        assert_eq!(client.closed(&token).await, LoginFailure::After.into());
    });
}

#[test]
fn a_mechanism_that_the_listener_lacks_is_refused_with_those_that_it_has() {
    life(&SimDisk::new(1), &setup(), async |cluster| {
        for name in ["GSSAPI", "SCRAM-SHA-512", "OAUTHBEARER", "plain", ""] {
            let client = Connection::new(cluster);
            let reply = client.send(&frame(1, &handshake(name))).await;
            let Reply::Last(response, reason) = reply else {
                panic!("{name}: {reply:?}");
            };
            assert_eq!(*reason, LoginFailure::Mechanism.into());
            let told = decode::<SaslHandshakeRequest>(1, Reply::Send(response));
            let code = ErrorCode::UnsupportedSaslMechanism.code();
            assert_eq!((told.error_code, told.mechanisms.len()), (code, 2));
        }
    });
}

#[test]
fn who_is_unknown_is_told_what_a_wrong_password_is_told() {
    life(&SimDisk::new(1), &setup(), async |cluster| {
        let mut told = Vec::new();
        for bytes in [&b"\0ada\0wrong"[..], b"\0eve\0pencil"] {
            let client = Connection::new(cluster);
            client.handshake(1, "PLAIN").await;
            told.push(client.fails(bytes).await);
        }
        assert_eq!(told[0], told[1]);
        let (said, reason) = &told[0];
        assert_eq!(said, "Authentication failed: Invalid username or password");
        let shown = format!("{reason} {reason:?}");
        assert!(
            !shown.contains("wrong\"") && !shown.contains("ada"),
            "{shown}"
        );
    });
}

/// Logs in by SCRAM, up to the last message of the client.
async fn proof(client: &Connection<'_>, name: &str, password: &str) -> (Vec<u8>, Vec<u8>) {
    assert_eq!(client.handshake(1, "SCRAM-SHA-256").await.error_code, 0);
    let nonce = Nonce::of_random([3; 18]);
    let (scram, first) = Client::start(ScramHash::Sha256, name, secret(password), nonce).unwrap();
    let answer = client.authenticate(&first).await;
    assert_eq!((answer.error_code, answer.session_lifetime_ms), (0, 0));
    let (_, last) = scram.answer(&answer.auth_bytes).unwrap();
    (answer.auth_bytes.to_vec(), last)
}

#[test]
fn a_user_of_scram_logs_in_by_the_metadata() {
    life(&SimDisk::new(1), &setup(), async |cluster| {
        let salted = wire::sasl::scram::salted_password(
            ScramHash::Sha256,
            &secret("pencil"),
            b"some salt of a user",
            4096,
        );
        let user = ScramCredentialUpsertion::default()
            .with_name(StrBytes::from_static_str("carol"))
            .with_mechanism(ScramHash::Sha256.code())
            .with_iterations(4096)
            .with_salt(Bytes::from_static(b"some salt of a user"))
            .with_salted_password(salted.expose().clone().into());
        let request = AlterUserScramCredentialsRequest::default().with_upsertions(vec![user]);
        let set = cluster.ask(0, &request).await;
        assert_eq!(set.results[0].error_code, 0);
        let client = Connection::new(cluster);
        let (_, last) = proof(&client, "carol", "pencil").await;
        let answer = client.authenticate(&last).await;
        assert_eq!((answer.error_code, answer.session_lifetime_ms), (0, 60_000));
        assert!(answer.auth_bytes.starts_with(b"v="));
        assert_eq!(client.principal(), "User:carol");
        let client = Connection::new(cluster);
        let (_, last) = proof(&client, "carol", "pencil ").await;
        let wrong = client.fails(&last).await;
        let client = Connection::new(cluster);
        let (first, last) = proof(&client, "dave", "pencil").await;
        assert_eq!(client.fails(&last).await, wrong);
        assert_eq!(
            wrong.0,
            "Authentication failed during authentication due to invalid credentials with SASL \
             mechanism SCRAM-SHA-256"
        );
        // Who does not exist has the same salt each time.
        let salt = |bytes: &[u8]| {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            text.split(',').nth(1).unwrap().to_owned()
        };
        let (again, _) = proof(&Connection::new(cluster), "dave", "pencil").await;
        assert_eq!(salt(&first), salt(&again));
        assert_ne!(first, again);
    });
}

#[test]
fn a_session_that_is_over_goes_on_by_another_login_only() {
    life(&SimDisk::new(1), &setup(), async |cluster| {
        let clock = cluster.brokers[0].platform.clock().clone();
        let client = Connection::new(cluster);
        client.plain("ada").await;
        clock.sleep(SESSION + Duration::from_millis(1)).await;
        // The login again is late and still goes.
        assert_eq!(client.plain("ada").await.session_lifetime_ms, 60_000);
        assert!(client.is_served().await);
        // Once a second at most: this one is a request like others.
        let early = client.handshake(1, "PLAIN").await;
        assert_eq!(early.error_code, ErrorCode::IllegalSaslState.code());
        clock.sleep(SESSION + Duration::from_millis(1)).await;
        let over = client.closed(&frame(12, &MetadataRequest::default())).await;
        assert_eq!(over, LoginFailure::Expired.into());
    });
}

#[test]
fn a_session_without_an_end_has_no_login_again() {
    life(&SimDisk::new(1), &setup_for(None), async |cluster| {
        let client = Connection::new(cluster);
        assert_eq!(client.plain("ada").await.session_lifetime_ms, 0);
        let again = client.handshake(1, "PLAIN").await;
        assert_eq!(again.error_code, ErrorCode::IllegalSaslState.code());
        assert!(client.is_served().await);
    });
}

#[test]
fn a_login_again_is_the_same_mechanism_and_the_same_user() {
    life(&SimDisk::new(1), &setup(), async |cluster| {
        let client = Connection::new(cluster);
        client.plain("ada").await;
        client.handshake(1, "PLAIN").await;
        // In the middle of it nothing else is served.
        let (told, reason) = client.fails(b"\0bob\0pencil").await;
        assert_eq!(
            told,
            "Cannot change principals during re-authentication from User.ada: User.bob"
        );
        assert_eq!(reason, LoginFailure::OtherPrincipal.into());
        let client = Connection::new(cluster);
        client.plain("ada").await;
        assert_eq!(client.handshake(1, "SCRAM-SHA-256").await.error_code, 0);
        let over = client
            .closed(&frame(2, &authenticate(b"n,,n=ada,r=x")))
            .await;
        assert_eq!(over, LoginFailure::OtherMechanism.into());
        let client = Connection::new(cluster);
        client.plain("ada").await;
        client.handshake(1, "PLAIN").await;
        assert!(!client.is_served().await);
    });
}

/// Else strangers could use up what the users have, and keep them from logging in.
#[test]
fn nobody_is_charged_for_what_comes_before_the_login() {
    life(&SimDisk::new(1), &setup(), async |cluster| {
        let name = alter::EntityData::default()
            .with_entity_type(StrBytes::from_static_str("client-id"))
            .with_entity_name(Some(StrBytes::from_static_str("limited")));
        let percentage = alter::OpData::default()
            .with_key(StrBytes::from_static_str("request_percentage"))
            .with_value(1.0);
        let entry = alter::EntryData::default()
            .with_entity(vec![name])
            .with_ops(vec![percentage]);
        let request = AlterClientQuotasRequest::default().with_entries(vec![entry]);
        let set = cluster.ask(1, &request).await;
        assert_eq!(set.entries[0].error_code, 0);
        let is_nobody_charged = || {
            let shown = cluster.shown_metrics();
            shown.contains("forebay_quota_meters_bytes 0\n")
        };
        let client = Connection::new(cluster);
        let asked = frame_of("limited", 3, &asked_versions("test"));
        assert!(matches!(client.send(&asked).await, Reply::Send(_)));
        client.plain("ada").await;
        assert!(is_nobody_charged());
        client
            .send(&frame_of("limited", 12, &MetadataRequest::default()))
            .await;
        assert!(!is_nobody_charged());
    });
}

#[test]
fn large_frames_of_a_login_take_turns_and_are_taken_like_small_ones() {
    life(&SimDisk::new(1), &setup(), async |cluster| {
        let long = "a".repeat(20_000);
        let client = Connection::new(cluster);
        let asked = frame(3, &asked_versions(&long));
        assert!(matches!(client.send(&asked).await, Reply::Send(_)));
        client.handshake(1, "PLAIN").await;
        let (_, reason) = client.fails(long.as_bytes()).await;
        let CloseReason::Login(LoginFailure::Refused(_, failure)) = &reason else {
            panic!("{reason}");
        };
        assert!(matches!(failure, Refusal::TooLong { .. }), "{reason}");
        // Read before the login was complete, and run after it.
        let client = Connection::new(cluster);
        let kept = call(&cluster.brokers[0], client.context(), &asked);
        client.plain("ada").await;
        assert!(matches!(kept.reply.await, Reply::Send(_)));
    });
}

#[test]
fn many_tagged_fields_in_a_login_are_refused_before_they_are_decoded() {
    /// A request of ten thousand unknown fields.
    fn tagged(frame: &Bytes) -> Bytes {
        let varint = |number: u16| {
            let low = u8::try_from(number & 127).unwrap() | 128;
            [low, u8::try_from(number >> 7).unwrap()]
        };
        let without = frame.strip_suffix(&[0]).unwrap();
        let tags = (0..10_000).flat_map(|tag| [&varint(tag)[..], &[0]].concat());
        let tags: Vec<u8> = tags.collect();
        [without, &varint(10_000), &tags].concat().into()
    }
    life(&SimDisk::new(1), &setup(), async |cluster| {
        let client = Connection::new(cluster);
        let reason = client.closed(&tagged(&versions())).await;
        assert!(reason.to_string().contains("of memory"), "{reason}");
        let client = Connection::new(cluster);
        client.handshake(1, "PLAIN").await;
        let token = frame(2, &authenticate(b"\0ada\0pencil"));
        let reason = client.closed(&tagged(&token)).await;
        assert!(reason.to_string().contains("of memory"), "{reason}");
    });
}

#[test]
fn a_listener_of_which_nothing_is_known_lets_nobody_in() {
    life(&SimDisk::new(1), &setup(), async |cluster| {
        let session = Rc::new(cluster.brokers[0].session("OTHER"));
        let client = Connection { cluster, session };
        let reply = client.send(&frame(1, &handshake("PLAIN"))).await;
        assert!(matches!(reply, Reply::Last(..)), "{reply:?}");
        let open = cluster.brokers[0].session("PLAINTEXT");
        assert!(open.login_limits().is_none());
    });
}
