//! One connection against brokers that answer, lie, stall, drip, and want a login.

use std::time::Duration;

use platform::runtime::run_simulated;
use platform::sim::{Pace, SimNet, Towards};
use platform::task;
use wire::StrBytes;
use wire::messages::api_versions_response::ApiVersion;
use wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, ListGroupsRequest, ListGroupsResponse,
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use wire::sasl::scram::{ClientFirst, Credential, Decoy, ScramHash, Server};
use wire::sasl::{Mechanism, Secret};

use super::*;
use crate::scripted::{AskedRequest, PORT, Reply, Script, later, script, serve, settings};
use crate::settings::{ClientSettings, Login};

pub(crate) mod secured;

const SECOND: Duration = Duration::from_secs(1);

async fn connect(net: &SimNet, settings: &ClientSettings) -> Result<Connection, ClientError> {
    let peer = Peer::new("a", PORT, Some(1));
    open(net, &peer, settings, &|| 7, Instant::now() + 10 * SECOND).await
}

/// Runs a test with a connection to a broker of this script.
fn with<F: AsyncFnOnce(SimNet, Connection)>(script: &Script, test: F) {
    let simulated = run_simulated(async {
        let net = SimNet::default();
        serve(&net, "a", script);
        let connection = connect(&net, &settings("a")).await.unwrap();
        test(net, connection).await;
    });
    simulated.unwrap();
}

/// A broker whose answers say how many requests of the connection came before.
pub(crate) fn counting() -> Script {
    let mut count = 0;
    script(move |_, asked| {
        asked.to(|_: ListGroupsRequest| {
            count += 1;
            ListGroupsResponse::default().with_throttle_time_ms(count)
        })
    })
}

fn silent() -> Script {
    script(|_, asked| (asked.api == 16).then_some(Reply::Silence))
}

fn list() -> ListGroupsRequest {
    ListGroupsRequest::default()
}

#[test]
fn several_requests_are_on_their_way_and_each_gets_its_answer() {
    with(&counting(), async |_, connection| {
        let (request, deadline) = (list(), later());
        let (one, two, three) = tokio::join!(
            connection.ask(&request, deadline),
            connection.ask(&request, deadline),
            connection.ask(&request, deadline)
        );
        let counts = [one, two, three].map(|answer| answer.unwrap().throttle_time_ms);
        assert_eq!(counts, [1, 2, 3]);
    });
}

#[test]
fn who_stops_waiting_does_not_disturb_the_others() {
    let slow = script(|_, asked| {
        let answer = |_| ListGroupsResponse::default();
        match asked.to::<ListGroupsRequest>(answer)? {
            Reply::Answer(frame) => Some(Reply::Later(SECOND, frame)),
            other => Some(other),
        }
    });
    with(&slow, async |_, connection| {
        let request = list();
        let given_up = task::timeout(SECOND / 2, connection.ask(&request, later())).await;
        assert!(given_up.is_err());
        assert!(connection.ask(&request, later()).await.is_ok());
        assert!(!connection.is_lost());
    });
}

#[test]
fn a_deadline_that_passes_loses_the_connection_for_everybody() {
    with(&silent(), async |net, connection| {
        let (request, began) = (list(), Instant::now());
        let soon = began + SECOND;
        let (late, with_it) = tokio::join!(
            connection.ask(&request, soon),
            connection.ask(&request, later())
        );
        assert_eq!(began.elapsed(), SECOND);
        let late = late.unwrap_err();
        assert_eq!(
            late.to_string(),
            "broker a:9092: no answer in time: ListGroups"
        );
        assert!(with_it.unwrap_err().is_unknown_outcome());
        assert!(connection.is_lost());
        assert_eq!(connection.ask(&request, later()).await.unwrap_err(), late);
        task::yield_now().await;
        assert_eq!(net.open("a", PORT), 0);
    });
}

#[test]
fn an_answer_that_is_here_counts_after_a_process_has_slept() {
    with(&counting(), async |_, connection| {
        let request = list();
        let deadline = Instant::now() + SECOND;
        let asking = connection.ask(&request, deadline);
        let asleep = async {
            // The broker answers, and the client does not look for a while.
            for _ in 0..100 {
                task::yield_now().await;
            }
        };
        let (answer, ()) = tokio::join!(asking, asleep);
        assert!(answer.is_ok());
        assert!(!connection.is_lost());
    });
}

#[test]
fn a_dripping_broker_meets_the_deadline() {
    with(&counting(), async |net, connection| {
        let every = Duration::from_millis(100);
        let drip = Pace { bytes: 1, every };
        net.pace("a", PORT, Towards::Client, Some(drip));
        let began = Instant::now();
        let late = connection.ask(&list(), began + SECOND).await;
        assert!(
            matches!(late, Err(ClientError::TimedOut { .. })),
            "{late:?}"
        );
        assert_eq!(began.elapsed(), SECOND);
    });
}

#[test]
fn a_broker_that_sends_more_than_was_asked_for_is_not_taken() {
    let more = script(|_, asked| {
        let answer = asked.answer::<ApiVersionsRequest>(&ApiVersionsResponse::default());
        let length = u32::try_from(answer.len()).unwrap().to_be_bytes();
        let unasked = [0, 0, 0, 4, 0, 0, 0, 1];
        Some(Reply::Raw([&length[..], &answer, &unasked].concat().into()))
    });
    let simulated = run_simulated(async {
        let net = SimNet::default();
        serve(&net, "a", &more);
        let error = connect(&net, &settings("a")).await.unwrap_err().to_string();
        assert!(error.contains("more than the answer"), "{error}");
    });
    simulated.unwrap();
}

#[test]
fn a_listener_that_wants_a_login_or_none_is_told() {
    let gate = script(|_, asked| (asked.api != 18).then_some(Reply::Close));
    with(&gate, async |_, connection| {
        let error = connection.ask(&list(), later()).await.unwrap_err();
        assert!(error.to_string().contains("SASL_PLAINTEXT"), "{error}");
    });
    let open = script(|_, asked| {
        let refused = SaslHandshakeResponse::default().with_error_code(34);
        asked.to(|_: SaslHandshakeRequest| refused)
    });
    let simulated = run_simulated(async {
        let net = SimNet::default();
        serve(&net, "a", &open);
        let mut settings = settings("a");
        let password = Secret::new("pencil".to_owned());
        settings.login = Some(Login::with_password(Mechanism::Plain, "ada", password));
        let error = connect(&net, &settings).await.unwrap_err().to_string();
        assert!(error.contains("wants no login"), "{error}");
    });
    simulated.unwrap();
}

#[test]
fn requests_beyond_those_allowed_wait_for_room() {
    let simulated = run_simulated(async {
        let net = SimNet::default();
        serve(&net, "a", &silent());
        let mut few = settings("a");
        few.in_flight_max = 2;
        let connection = connect(&net, &few).await.unwrap();
        let version = connection.version::<ListGroupsRequest>().unwrap();
        let _first = connection.begin(version, &list(), later()).unwrap();
        let _second = connection.begin(version, &list(), later()).unwrap();
        let full = connection.begin(version, &list(), later()).err();
        assert_eq!(full, Some(ClientError::Full));
        let began = Instant::now();
        let late = connection.ask(&list(), began + SECOND).await;
        assert!(matches!(late, Err(ClientError::TimedOut { .. })));
        // The client never sent it, so the other requests go on.
        assert!(!connection.is_lost());
    });
    simulated.unwrap();
}

#[test]
fn answers_that_lie_lose_the_connection() {
    type Lie = fn(&AskedRequest) -> Vec<u8>;
    let lies: [(Lie, &str); 4] = [
        (|_| vec![0xff; 8], "an answer to another request"),
        (|_| vec![0; 2], "an answer to another request"),
        (
            |asked| asked.answer::<ListGroupsRequest>(&ListGroupsResponse::default())[..7].to_vec(),
            "needs",
        ),
        // A billion groups.
        (
            |asked| {
                let whole = asked.answer::<ListGroupsRequest>(&ListGroupsResponse::default());
                let mut lie = whole[..11].to_vec();
                lie.extend([0xff, 0xff, 0xff, 0xff, 0x03]);
                lie
            },
            "groups needs",
        ),
    ];
    for (lie, says) in lies {
        let liar =
            script(move |_, asked| (asked.api == 16).then(|| Reply::Answer(lie(asked).into())));
        with(&liar, async |_, connection| {
            let error = connection.ask(&list(), later()).await.unwrap_err();
            assert!(matches!(error, ClientError::Malformed { .. }), "{error}");
            assert!(error.to_string().contains(says), "{error}");
        });
    }
}

#[test]
fn an_answer_longer_than_allowed_is_refused_at_its_length() {
    let long = script(|_, asked| (asked.api == 16).then(|| Reply::Answer(vec![0; 3000].into())));
    let simulated = run_simulated(async {
        let net = SimNet::default();
        serve(&net, "a", &long);
        let mut short = settings("a");
        short.answer_bytes_max = 2000;
        let connection = connect(&net, &short).await.unwrap();
        let error = connection.ask(&list(), later()).await.unwrap_err();
        assert!(error.to_string().contains("3000"), "{error}");
    });
    simulated.unwrap();
}

#[test]
fn the_end_of_a_connection_is_told_to_whoever_waits_and_seen_by_who_does_not() {
    let closing = script(|_, asked| (asked.api == 16).then_some(Reply::Close));
    with(&closing, async |_, connection| {
        let error = connection.ask(&list(), later()).await.unwrap_err();
        assert!(
            error.to_string().contains("closed the connection"),
            "{error}"
        );
        assert!(connection.is_lost() && error.is_retriable());
    });
    with(&counting(), async |net, connection| {
        assert!(connection.ask(&list(), later()).await.is_ok());
        net.reset("a", PORT);
        task::yield_now().await;
        tokio::time::sleep(SECOND).await;
        assert!(connection.is_lost());
    });
}

#[test]
fn the_last_handle_ends_the_connection() {
    with(&counting(), async |net, connection| {
        let other = connection.clone();
        drop(connection);
        assert!(other.ask(&list(), later()).await.is_ok());
        drop(other);
        tokio::time::sleep(SECOND).await;
        assert_eq!(net.open("a", PORT), 0);
    });
}

#[test]
fn a_broker_that_does_not_know_the_version_of_api_versions_is_asked_again() {
    let old = script(|_, asked| {
        let unknown = asked.version > 2;
        asked
            .request::<ApiVersionsRequest>()
            .filter(|_| asked.api == 18)?;
        let groups = ApiVersion::default().with_api_key(16).with_max_version(2);
        let answer = if unknown {
            // In version 0, whatever was asked.
            let mut frame = asked.answer::<ApiVersionsRequest>(&ApiVersionsResponse::default());
            frame.truncate(4);
            let body = [0, 35, 0, 0, 0, 0];
            return Some(Reply::Answer([&frame[..], &body].concat().into()));
        } else {
            ApiVersionsResponse::default().with_api_keys(vec![groups])
        };
        Some(Reply::Answer(asked.answer::<ApiVersionsRequest>(&answer)))
    });
    with(&old, async |_, connection| {
        assert_eq!(connection.version::<ListGroupsRequest>(), Ok(2));
        assert_eq!(connection.version_up_to::<ListGroupsRequest>(1), Ok(1));
        let unsupported = connection.version::<SaslHandshakeRequest>().unwrap_err();
        assert_eq!(
            unsupported.to_string(),
            "broker a:9092 does not serve SaslHandshake"
        );
    });
}

#[test]
fn a_host_that_is_silent_is_given_up_in_time() {
    let simulated = run_simulated(async {
        let net = SimNet::default();
        let _listener = net.listen("a", PORT);
        // The stream is connected, and no broker answers on it.
        let began = Instant::now();
        let late = connect(&net, &settings("a")).await.unwrap_err();
        assert_eq!(
            late.to_string(),
            "broker a:9092: no answer in time: connecting"
        );
        assert_eq!(began.elapsed(), 10 * SECOND);
        assert_eq!(net.open("a", PORT), 0);
    });
    simulated.unwrap();
}

const HASH: ScramHash = ScramHash::Sha256;

/// A broker where ada's password is "pencil".
fn guarded(lifetime_ms: i64) -> Script {
    let keys = Credential::derive(HASH, &Secret::new("pencil".to_owned()), b"salt", 4096).unwrap();
    let mut mechanism = String::new();
    let mut challenge: Option<Server> = None;
    script(move |_, asked| {
        if let Some(request) = asked.request::<SaslHandshakeRequest>() {
            mechanism = request.mechanism.to_string();
            let known = mechanism == "PLAIN" || mechanism == "SCRAM-SHA-256";
            let answer = SaslHandshakeResponse::default()
                .with_error_code(if known { 0 } else { 33 })
                .with_mechanisms(vec![StrBytes::from_static_str("PLAIN")]);
            return Some(Reply::Answer(asked.answer::<SaslHandshakeRequest>(&answer)));
        }
        asked.to(|request: SaslAuthenticateRequest| {
            let bytes = &request.auth_bytes;
            let refused = SaslAuthenticateResponse::default()
                .with_error_code(58)
                .with_error_message(Some(StrBytes::from_static_str("no")));
            let accepted = SaslAuthenticateResponse::default();
            if mechanism == "PLAIN" {
                let right = &bytes[..] == b"\0ada\0pencil";
                return if right {
                    accepted.with_session_lifetime_ms(lifetime_ms)
                } else {
                    refused
                };
            }
            match challenge.take() {
                None => {
                    let first = ClientFirst::parse(bytes).unwrap();
                    let nonce = wire::sasl::scram::Nonce::of_random([3; 18]);
                    let decoy = Decoy::new([5; 32], [].iter());
                    let (server, bytes) = Server::answer(HASH, first, nonce, Some(&keys), &decoy);
                    challenge = Some(server);
                    accepted.with_auth_bytes(bytes.into())
                }
                Some(server) => match server.finish(bytes) {
                    Ok(known) => accepted.with_auth_bytes(known.reply.into()),
                    Err(_) => refused,
                },
            }
        })
    })
}

fn login(mechanism: Mechanism, password: &str) -> ClientSettings {
    let mut settings = settings("a");
    let password = Secret::new(password.to_owned());
    settings.login = Some(Login::with_password(mechanism, "ada", password));
    settings
}

#[test]
fn a_client_logs_in_by_plain_and_scram_or_is_told_why_not() {
    let simulated = run_simulated(async {
        let net = SimNet::default();
        serve(&net, "a", &guarded(100_000));
        let scram = Mechanism::Scram(ScramHash::Sha256);
        let connection = connect(&net, &login(Mechanism::Plain, "pencil")).await;
        let connection = connection.unwrap();
        assert!(!connection.is_ageing(Instant::now() + 84 * SECOND));
        assert!(connection.is_ageing(Instant::now() + 95 * SECOND));
        assert!(connect(&net, &login(scram, "pencil")).await.is_ok());
        for mechanism in [Mechanism::Plain, scram] {
            let error = connect(&net, &login(mechanism, "hunter2")).await;
            let error = error.unwrap_err();
            assert!(matches!(error, ClientError::Login { .. }), "{error:?}");
            assert!(!error.is_retriable() && !format!("{error:?}").contains("hunter"));
        }
        let unserved = Mechanism::Scram(ScramHash::Sha512);
        let error = connect(&net, &login(unserved, "pencil")).await.unwrap_err();
        assert!(
            error.to_string().ends_with("the broker serves PLAIN"),
            "{error}"
        );
    });
    simulated.unwrap();
}
