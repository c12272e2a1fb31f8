//! Requests, as the endpoint receives them.

use http_body_util::BodyExt as _;

use super::*;

fn planner() -> Planner {
    Planner::new(Catalogue::shipped().unwrap(), Month::new(2026, 11), None)
}

async fn asked(request: Request<Full<Bytes>>) -> (StatusCode, String) {
    let answer = planner().answer(request).await;
    let code = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

fn get(uri: &str) -> Request<Full<Bytes>> {
    Request::builder().uri(uri).body(Full::default()).unwrap()
}

fn post(body: &str, kind: &str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(Method::POST).uri("/plan/solve");
    let request = request.header(CONTENT_TYPE, kind);
    request
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap()
}

#[tokio::test]
async fn a_form_without_a_script_is_answered_with_a_page() {
    let (code, page) = asked(get("/plan")).await;
    assert_eq!(code, StatusCode::OK);
    assert!(page.contains("name=\"load.peak\"") && !page.contains("id=\"answer\""));
    let (code, page) = asked(get("/plan?scenario=burst&load.base=200+MB%2Fs")).await;
    assert_eq!(code, StatusCode::OK);
    assert!(page.contains("id=\"answer\"") && page.contains("value=\"200 MB/s\""));
    let (code, page) = asked(get("/plan?scenario=burst&load.base=200")).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert!(
        page.contains("200 of what?") && page.contains("aria-invalid"),
        "{page}"
    );
}

#[tokio::test]
async fn a_script_gets_the_plan_and_its_markup() {
    let (code, text) = asked(post("{\"scenario\":\"burst\",\"set\":[]}", JSON)).await;
    assert_eq!(code, StatusCode::OK, "{text}");
    let said: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(said["plan"]["chosen"]["brokers"], 1);
    assert!(said["html"].as_str().unwrap().contains("id=\"answer\""));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_send_its_plan_is_not_waited_for() {
    let request = Request::builder().method(Method::POST).uri("/plan/solve");
    let request = request.header(CONTENT_TYPE, JSON);
    let unended = Full::new(Bytes::from("{")).with_trailers(std::future::pending());
    let request = request.body(unended).unwrap();
    let planner = planner();
    let answered = tokio::time::timeout(2 * BODY_WITHIN, planner.answer(request)).await;
    assert_eq!(answered.unwrap().status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn what_is_wrong_is_said_with_its_key() {
    for (body, kind, expect) in [
        (
            "{\"scenario\":\"burst\",\"set\":[\"load.peak=240\"]}",
            JSON,
            "load[0].peak",
        ),
        ("{\"scenario\":\"nothing\"}", JSON, "there is no scenario"),
        ("{\"toml\":\"name = \"}", JSON, "plan:1"),
        ("{\"set\":[1]}", JSON, "error"),
        ("[", JSON, "error"),
        ("{}", "text/plain", "Content-Type"),
    ] {
        let (code, text) = asked(post(body, kind)).await;
        assert_eq!(code, StatusCode::BAD_REQUEST, "{body}");
        assert!(text.contains(expect), "{text}");
    }
}

#[tokio::test]
async fn an_infeasible_load_is_an_answer() {
    let body = "{\"scenario\":\"burst\",\"set\":[\"goals.threshold=0.5\",\"given.brokers=1\"]}";
    let (code, text) = asked(post(body, JSON)).await;
    assert_eq!(code, StatusCode::OK, "{text}");
    assert!(
        text.contains("Nothing in the catalogue carries this load"),
        "{text}"
    );
}

#[tokio::test]
async fn one_plan_at_a_time() {
    let planner = planner();
    let turn = Arc::clone(&planner.turn).try_acquire_owned().unwrap();
    let answer = planner.answer(post("{\"scenario\":\"burst\"}", JSON)).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(turn);
    let answer = planner.answer(post("{\"scenario\":\"burst\"}", JSON)).await;
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn other_methods_and_paths_are_refused() {
    let delete = Request::builder().method(Method::DELETE).uri("/plan");
    let (code, _) = asked(delete.body(Full::default()).unwrap()).await;
    assert_eq!(code, StatusCode::METHOD_NOT_ALLOWED);
    let (code, _) = asked(get("/plan/other")).await;
    assert_eq!(code, StatusCode::NOT_FOUND);
}
