//! The pages of the admin endpoint.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Serialize;

use super::AdminContent;
use crate::health::{Effect, Reason};
use crate::metrics::exposition::Format;
use crate::shards::{Phase, ShardsView};

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";

/// What a request may see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum View {
    /// Everything.
    Full,
    /// Only what everyone may see.
    Bare,
}

/// The body of an answer.
pub(super) type Body = Full<Bytes>;

/// Gauges of the memory that requests and responses hold, and of the broker's state.
#[derive(Clone, Default, Debug)]
pub(super) struct RequestMemory {
    used: Gauge,
    max: Gauge,
    answers_used: Gauge,
    answers_max: Gauge,
    waiting_used: Gauge,
    waiting_max: Gauge,
    state: Gauge,
}

impl RequestMemory {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let gauges = Self::default();
        let help = "Memory of requests being read or worked on";
        registry.register("forebay_request_memory_bytes", help, gauges.used.clone());
        let help = "Bound on forebay_request_memory_bytes";
        registry.register("forebay_request_memory_max_bytes", help, gauges.max.clone());
        let help = "Memory of answers that clients have not taken yet";
        let used = gauges.answers_used.clone();
        registry.register("forebay_response_memory_bytes", help, used);
        let help = "Bound on forebay_response_memory_bytes";
        let max = gauges.answers_max.clone();
        registry.register("forebay_response_memory_max_bytes", help, max);
        let help = "Memory of fetches that wait for records, beside their requests, about";
        let used = gauges.waiting_used.clone();
        registry.register("forebay_waiting_fetch_memory_bytes", help, used);
        let help = "Bound on forebay_waiting_fetch_memory_bytes";
        let max = gauges.waiting_max.clone();
        registry.register("forebay_waiting_fetch_memory_max_bytes", help, max);
        registry.register(
            "kafka_server_kafkaserver_brokerstate",
            "1: starting, 3: serving, 6: finishing requests, 7: closing logs",
            gauges.state.clone(),
        );
        gauges
    }

    fn show(&self, shards: &ShardsView) {
        let set = |(used_gauge, max_gauge): (&Gauge, &Gauge), (used, max): (usize, usize)| {
            used_gauge.set(i64::try_from(used).unwrap_or(i64::MAX));
            max_gauge.set(i64::try_from(max).unwrap_or(i64::MAX));
        };
        set((&self.used, &self.max), shards.request_memory());
        let answers = (&self.answers_used, &self.answers_max);
        set(answers, shards.response_memory());
        let waiting = (&self.waiting_used, &self.waiting_max);
        set(waiting, shards.waiting_memory());
        // The numbers are Kafka's.
        self.state.set(match shards.phase() {
            Phase::Starting => 1,
            Phase::Serving => 3,
            Phase::Draining => 6,
            Phase::Closing | Phase::Exit => 7,
        });
    }
}

/// The body of `/readyz`.
#[derive(Serialize)]
struct Readiness {
    status: &'static str,
    logs_opened: u64,
    logs_total: u64,
    reasons: Vec<Reason>,
}

/// The body of `/readyz` for those who may see no more: reasons name topics and directories.
#[derive(Serialize)]
struct BareReadiness {
    status: &'static str,
}

/// Returns true for a request to the planner.
pub(super) fn is_plan<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    path == "/plan" || path.starts_with("/plan/")
}

/// Answers one request that was let in, to see so much.
pub(super) async fn answer<B>(
    request: &Request<B>,
    view: View,
    shown: &AdminContent,
) -> Response<Body> {
    let path = request.uri().path();
    if path == "/tiers" || path.starts_with("/tiers/") {
        return super::tiers::answer(request, shown).await;
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET\n".into());
        refused
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match path {
        "/metrics" => {
            let accept = request.headers().get_all(ACCEPT);
            let format = Format::wanted(accept.iter().filter_map(|value| value.to_str().ok()));
            metrics(format, shown).await
        }
        "/livez" => response(StatusCode::OK, TEXT, "alive\n".into()),
        "/readyz" => readiness(shown, view).await,
        _ => {
            let text =
                "there are /metrics, /livez, /readyz and /tiers, and with admin.plan=true /plan\n";
            response(StatusCode::NOT_FOUND, TEXT, text.into())
        }
    }
}

/// Returns the page of the metrics, which scrapes at the same time share.
async fn metrics(format: Format, shown: &AdminContent) -> Response<Body> {
    let make = || {
        let (metrics, memory) = (shown.metrics.clone(), shown.request_memory.clone());
        let shards = shown.shards.clone();
        async move {
            shards.before_scrape().await;
            memory.show(&shards);
            // A page of many partitions is long work for the one thread of the endpoint.
            let page = tokio::task::spawn_blocking(move || metrics.page(format));
            page.await.ok()
        }
    };
    match shown.pages.page(format, make).await {
        Some(page) => {
            response(StatusCode::OK, format.content_type(), String::new()).map(|_| Full::new(page))
        }
        None => response(
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            "the broker is stopping\n".into(),
        ),
    }
}

async fn readiness(shown: &AdminContent, view: View) -> Response<Body> {
    let phase = shown.shards.phase();
    let reasons = match phase {
        Phase::Serving => shown.shards.reasons().await,
        _ => Vec::new(),
    };
    let worst = reasons.iter().map(|reason| reason.effect).max();
    let (code, status) = match phase {
        Phase::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
        Phase::Serving => match worst {
            None => (StatusCode::OK, "ready"),
            Some(Effect::Degraded) => (StatusCode::OK, "degraded"),
            Some(Effect::NotReady) => (StatusCode::SERVICE_UNAVAILABLE, "not-answering"),
        },
        Phase::Draining | Phase::Closing | Phase::Exit => {
            (StatusCode::SERVICE_UNAVAILABLE, "stopping")
        }
    };
    let (logs_opened, logs_total) = (shown.recovery)();
    let readiness = Readiness {
        status,
        logs_opened,
        logs_total,
        reasons,
    };
    // A struct of numbers and plain text always serializes to JSON.
    let text = match view {
        View::Full => serde_json::to_string(&readiness),
        View::Bare => serde_json::to_string(&BareReadiness { status }),
    };
    let mut text = text.unwrap_or_default();
    text.push('\n');
    response(code, JSON, text)
}

pub(super) fn response(code: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
