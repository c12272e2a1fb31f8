//! The page of the planner: a form, and the answer below it (docs/plan.md).
//!
//! `GET /plan?scenario=burst&load.peak=4 GB/s` returns the form, and with a scenario its answer; it
//! needs no script. `POST /plan/solve` takes `{"scenario": .., "toml": .., "set": [..]}` and
//! returns `{"plan": .., "html": ..}`.
//!
//! Invariant: one solve at a time, on a thread of the lowest priority, for [`SOLVE_MAX`]; further
//! requests meanwhile get 503. All arithmetic is here: the page's script only sends fields and
//! shows the response. Used by `forebay plan --page`, and by the admin endpoint with
//! `admin.plan=true`.

mod alone;
mod form;
mod measured;
mod query;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use plan::answer::{Depth, Plan, SolveError, solve_until};
use plan::catalogue::{Catalogue, Month};
use plan::load::{Scenario, shipped};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

pub(crate) use alone::serve;
pub(crate) use measured::MeasuredRates;

/// Longest time for an answer.
const SOLVE_MAX: Duration = Duration::from_secs(2);

/// A plan is a small file.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Longest time for it to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// The lowest priority (highest nice value).
const LOWEST_PRIORITY: i32 = 19;

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// The planner of one endpoint.
#[derive(Clone)]
pub(crate) struct Planner {
    catalogue: Arc<Catalogue>,
    /// The month from which ages of prices are counted; `None` is the present month.
    today: Option<Month>,
    turn: Arc<Semaphore>,
    /// The load that this broker has measured.
    measured: Option<Arc<MeasuredRates>>,
}

/// The plan to solve.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PlanRequest {
    /// A shipped scenario, `measured`, or none.
    scenario: Option<String>,
    /// The text of a plan.
    toml: Option<String>,
    /// Changes, as in `--set`.
    set: Vec<String>,
}

/// A solved plan.
#[derive(Serialize)]
struct Answer<'a> {
    plan: &'a Plan,
    /// The answer as the page shows it.
    html: String,
}

/// Why a request is refused.
#[derive(Debug)]
struct Refusal {
    code: StatusCode,
    error: String,
    /// The field that is wrong.
    key: Option<String>,
}

#[derive(Serialize)]
struct Problem<'a> {
    error: &'a str,
    key: Option<&'a str>,
}

impl Planner {
    /// Creates a planner with this catalogue.
    pub(crate) fn new(
        catalogue: Catalogue,
        today: Option<Month>,
        measured: Option<MeasuredRates>,
    ) -> Self {
        Self {
            catalogue: Arc::new(catalogue),
            today,
            turn: Arc::new(Semaphore::new(1)),
            measured: measured.map(Arc::new),
        }
    }

    /// Answers a request to `/plan` or below.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/plan") => {
                let query = request.uri().query().unwrap_or_default();
                self.page(query).await
            }
            (&Method::POST, "/plan/solve") => match self.solve_body(request).await {
                Ok(text) => response(StatusCode::OK, JSON, text),
                Err(refusal) => refusal.response(),
            },
            (_, "/plan" | "/plan/solve") => {
                let mut refused = response(
                    StatusCode::METHOD_NOT_ALLOWED,
                    JSON,
                    "{\"error\":\"GET /plan shows, POST /plan/solve answers\"}\n".to_owned(),
                );
                let allowed = HeaderValue::from_static("GET, HEAD, POST");
                refused.headers_mut().insert(ALLOW, allowed);
                refused
            }
            _ => response(
                StatusCode::NOT_FOUND,
                JSON,
                "{\"error\":\"there are /plan and /plan/solve\"}\n".to_owned(),
            ),
        }
    }

    /// Returns the form with its fields filled in, and the answer.
    async fn page(&self, query: &str) -> Response<Full<Bytes>> {
        let fields = query::fields(query);
        let wanted = query::wanted(&fields);
        let solved = match wanted {
            Some(wanted) => Some(self.solve(wanted).await),
            None => None,
        };
        let (code, shown) = match &solved {
            Some(Ok(plan)) => (StatusCode::OK, form::FormResult::Plan(plan)),
            Some(Err(refusal)) => (
                refusal.code,
                form::FormResult::Problem(&refusal.error, refusal.key.as_deref()),
            ),
            None => (StatusCode::OK, form::FormResult::Nothing),
        };
        response(
            code,
            HTML,
            form::page(&fields, &shown, self.measured.is_some()),
        )
    }

    async fn solve_body<B>(&self, request: Request<B>) -> Result<String, Refusal>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let bad = |error: String| Refusal {
            code: StatusCode::BAD_REQUEST,
            error,
            key: None,
        };
        // A page of another origin cannot send this header without permission.
        let kind = request.headers().get(CONTENT_TYPE);
        if kind.is_none_or(|kind| kind != JSON) {
            return Err(bad(
                "the header Content-Type: application/json is needed".to_owned()
            ));
        }
        let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
        let arrived = tokio::time::timeout(BODY_WITHIN, body).await;
        let body = arrived.map_err(|_| Refusal {
            code: StatusCode::REQUEST_TIMEOUT,
            error: format!(
                "the request did not arrive within {} s",
                BODY_WITHIN.as_secs()
            ),
            key: None,
        })?;
        let body = body.map_err(|error| bad(format!("reading the request: {error}")))?;
        let wanted =
            serde_json::from_slice(&body.to_bytes()).map_err(|error| bad(error.to_string()))?;
        let plan = self.solve(wanted).await?;
        let answer = Answer {
            html: plan::emit::report::body(&plan),
            plan: &plan,
        };
        serde_json::to_string(&answer).map_err(|error| bad(error.to_string()))
    }

    /// Solves a plan on a thread of its own, if no other is being solved.
    async fn solve(&self, wanted: PlanRequest) -> Result<Plan, Refusal> {
        let busy = || Refusal {
            code: StatusCode::SERVICE_UNAVAILABLE,
            error: "another plan is being solved: try again".to_owned(),
            key: None,
        };
        let turn = Arc::clone(&self.turn)
            .try_acquire_owned()
            .map_err(|_| busy())?;
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = oneshot::channel();
        let planner = self.clone();
        let stopped = Arc::clone(&stop);
        let spawned = std::thread::Builder::new()
            .name("planner".to_owned())
            .spawn(move || {
                let solved = planner.solve_here(&wanted, &stopped, turn);
                // The request may have been given up.
                let _ = sender.send(solved);
            });
        spawned.map_err(|error| Refusal {
            code: StatusCode::SERVICE_UNAVAILABLE,
            error: format!("no thread to plan on: {error}"),
            key: None,
        })?;
        match tokio::time::timeout(SOLVE_MAX, receiver).await {
            Ok(Ok(solved)) => solved,
            Ok(Err(_)) => Err(busy()),
            Err(_) => {
                stop.store(true, Ordering::Relaxed);
                Err(Refusal {
                    code: StatusCode::SERVICE_UNAVAILABLE,
                    error: format!(
                        "it takes more than {} s here: name servers and devices in [hardware], or use forebay plan",
                        SOLVE_MAX.as_secs()
                    ),
                    key: None,
                })
            }
        }
    }

    fn solve_here(
        &self,
        wanted: &PlanRequest,
        stop: &AtomicBool,
        turn: OwnedSemaphorePermit,
    ) -> Result<Plan, Refusal> {
        // Serving records takes precedence. This sets the priority of this thread only.
        let _ = rustix::process::setpriority_process(None, LOWEST_PRIORITY);
        let solved = self.solved(wanted, stop);
        drop(turn);
        solved
    }

    fn solved(&self, wanted: &PlanRequest, stop: &AtomicBool) -> Result<Plan, Refusal> {
        let own;
        let (origin, text) = match (&wanted.toml, wanted.scenario.as_deref()) {
            (Some(text), _) if !text.trim().is_empty() => ("plan", text.as_str()),
            (_, Some("measured")) => {
                let measured = self
                    .measured
                    .as_ref()
                    .ok_or_else(|| Refusal::unknown("measured"))?;
                own = measured.scenario();
                ("measured", own.as_str())
            }
            (_, Some(name)) => (name, shipped(name).ok_or_else(|| Refusal::unknown(name))?),
            (_, None) => (form::OWN, form::OWN_TEXT),
        };
        let scenario = Scenario::read(origin, text, &wanted.set).map_err(|problem| Refusal {
            code: StatusCode::BAD_REQUEST,
            error: problem.to_string(),
            key: Some(problem.key),
        })?;
        let today = match self.today {
            Some(today) => today,
            None => this_month().map_err(|error| Refusal::of(&error.to_string()))?,
        };
        let solved = solve_until(
            &scenario,
            None,
            &self.catalogue,
            today,
            Depth::Whole,
            Some(stop),
        );
        solved.map_err(|refused| Refusal {
            code: match refused {
                SolveError::Unfinished(_) => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::BAD_REQUEST,
            },
            error: refused.to_string(),
            key: None,
        })
    }
}

impl Refusal {
    fn of(error: &str) -> Self {
        Self {
            code: StatusCode::BAD_REQUEST,
            error: error.to_owned(),
            key: None,
        }
    }

    fn unknown(name: &str) -> Self {
        Self::of(&format!("there is no scenario {name:?}"))
    }

    fn response(&self) -> Response<Full<Bytes>> {
        let problem = Problem {
            error: &self.error,
            key: self.key.as_deref(),
        };
        // Text always serializes to JSON.
        let text = serde_json::to_string(&problem).unwrap_or_default();
        response(self.code, JSON, text + "\n")
    }
}

/// Returns the present month.
pub(crate) fn this_month() -> anyhow::Result<Month> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.context("the clock is before 1970")?.as_secs();
    let days = i64::try_from(seconds / 86_400)?;
    Month::of_day(days).context("the clock shows no year that is planned in")
}

fn response(code: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests;
