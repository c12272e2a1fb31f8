//! Which requests are let in, by how clients are known and what they may do.

use std::path::Path;

use super::*;
use crate::config::{RawSettings, Settings};
use crate::machine::Machine;

fn made(text: &str) -> Gate {
    let mut raw = RawSettings::default();
    raw.add_bytes(Path::new("f"), text.as_bytes()).unwrap();
    let machine = Machine {
        host_name: "here".into(),
        cores: 1,
        memory_bytes: 1 << 30,
    };
    let settings = Settings::resolve(&raw, &machine).unwrap().settings;
    let authorizer = settings.authorizer().cloned();
    Gate::new(
        &settings.admin,
        authorizer,
        None,
        (AdminMetrics::default(), Audit::default()),
    )
}

fn peer(is_local: bool) -> Peer {
    Peer {
        address: [10, 0, 0, 1].into(),
        is_local,
        certificate: None,
    }
}

const AUTHORIZER: &str = "authorizer.class.name=\
                          org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
                          super.users=User:root\n";

#[test]
fn without_logins_orders_are_taken_over_the_loopback_interface_only() {
    let gate = made("");
    let check = |method: Method, is_local: bool, expected: bool| {
        let is_get = method == Method::GET;
        let request = Request::builder().method(method).uri("/tiers/drain");
        let request = request.body(()).unwrap();
        let admitted = gate.admit_anyone(&request, is_get, &peer(is_local));
        match admitted {
            Ok(view) => assert!(expected && view == View::Full),
            Err(refused) => {
                assert!(!expected);
                assert_eq!(refused.status(), StatusCode::FORBIDDEN);
            }
        }
    };
    check(Method::GET, false, true);
    check(Method::POST, true, true);
    check(Method::POST, false, false);
    check(Method::DELETE, false, false);
}

#[test]
fn the_authorizer_decides_and_super_users_are_known_before_the_metadata() {
    let gate = made(&format!("admin.auth=basic\n{AUTHORIZER}"));
    let may = |gate: &Gate, name: &str, rights: Option<&RightsImage>| {
        let principal = Principal::user(name);
        gate.may(&principal, &peer(false), Operation::Alter, rights, false)
    };
    assert_eq!(may(&gate, "root", None), Some(true));
    assert_eq!(may(&gate, "ada", None), None);
    let none = RightsImage {
        acls: Arc::default(),
        users: Arc::default(),
    };
    assert_eq!(may(&gate, "ada", Some(&none)), Some(false));
    let open = made(&format!(
        "admin.auth=basic\n{AUTHORIZER}allow.everyone.if.no.acl.found=true\n"
    ));
    assert_eq!(may(&open, "ada", Some(&none)), Some(true));
    let log = made(&format!(
        "admin.auth=basic\n{AUTHORIZER}authorizer.mode=log\n"
    ));
    assert_eq!(may(&log, "ada", Some(&none)), Some(true));
    let without = made("admin.auth=basic\n");
    assert_eq!(may(&without, "ada", None), Some(true));
}

#[tokio::test(start_paused = true)]
async fn a_guess_waits_for_its_answer_and_an_address_has_few() {
    let gate = Arc::new(made("admin.auth=bearer\nadmin.bearer.tokens.file=/t\n"));
    let guess = || {
        let gate = Arc::clone(&gate);
        async move {
            let request = Request::builder().header(AUTHORIZATION, "Bearer wrong");
            let request = request.body(()).unwrap();
            gate.login(&request, &peer(false), None).await
        }
    };
    let begin = Instant::now();
    assert_eq!(guess().await, Err(Failure::Credentials));
    assert_eq!(begin.elapsed(), Duration::from_millis(100));
    let guesses: Vec<_> = (0..32).map(|_| tokio::spawn(guess())).collect();
    let mut crowded = 0;
    for guess in guesses {
        if guess.await.unwrap() == Err(Failure::Crowded) {
            crowded += 1;
        }
    }
    assert_eq!(crowded, 24);
}

#[tokio::test(start_paused = true)]
async fn guesses_beyond_those_under_way_are_no_faster_than_these() {
    let jaas = "listener.name.admin.plain.sasl.jaas.config=\
                org.apache.kafka.common.security.plain.PlainLoginModule required user_ops=\"pen\";\n";
    let gate = Arc::new(made(&format!("admin.auth=basic\n{jaas}")));
    let login = |given: &'static str| {
        let gate = Arc::clone(&gate);
        async move {
            let request = Request::builder().header(AUTHORIZATION, format!("Basic {given}"));
            let request = request.body(()).unwrap();
            gate.login(&request, &peer(false), None).await
        }
    };
    // ops:wrong, and ops:pen.
    let (wrong, right) = ("b3BzOndyb25n", "b3BzOnBlbg==");
    let held: Vec<_> = (0..8).map(|_| tokio::spawn(login(wrong))).collect();
    tokio::task::yield_now().await;
    // A client that is known is let in, though the address guesses.
    assert_eq!(login(right).await, Ok(Principal::user("ops")));
    // From then on nothing tells a right password from a wrong one.
    for given in [wrong, right, wrong, right] {
        assert_eq!(login(given).await, Err(Failure::Crowded), "{given}");
    }
    for guess in held {
        assert_eq!(guess.await.unwrap(), Err(Failure::Credentials));
    }
    assert_eq!(login(right).await, Ok(Principal::user("ops")));
}

#[tokio::test]
async fn who_does_not_log_in_as_asked_is_told_how() {
    for (text, header, code, challenge) in [
        (
            "admin.auth=basic\n",
            None,
            401,
            Some("Basic realm=\"forebay\", charset=\"UTF-8\""),
        ),
        (
            "admin.auth=bearer\nadmin.bearer.tokens.file=/t\n",
            Some("Basic YTpi"),
            401,
            Some("Bearer realm=\"forebay\""),
        ),
    ] {
        let gate = made(text);
        let mut request = Request::builder().uri("/metrics");
        if let Some(header) = header {
            request = request.header(AUTHORIZATION, header);
        }
        let request = request.body(()).unwrap();
        let failure = gate.login(&request, &peer(true), None).await.unwrap_err();
        let refused = gate.refused(failure, &peer(true));
        assert_eq!(refused.status().as_u16(), code);
        let asked = refused.headers().get(WWW_AUTHENTICATE);
        assert_eq!(asked.map(|it| it.to_str().unwrap()), challenge);
    }
}

#[tokio::test]
async fn a_certificate_says_who_a_client_is() {
    let gate = Gate {
        logins: Logins::Mtls,
        ..made("")
    };
    let request = Request::builder().body(()).unwrap();
    let known = |certificate| Peer {
        certificate,
        ..peer(false)
    };
    let ada = Principal::user("CN=ada");
    let found = gate
        .login(&request, &known(Some(Ok(ada.clone()))), None)
        .await;
    assert_eq!(found, Ok(ada));
    let none = gate.login(&request, &known(None), None).await;
    assert_eq!(none, Err(Failure::Missing));
    let refused = gate.refused(Failure::Missing, &peer(false));
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
}
