//! `/tiers` of the admin endpoint: status, segments, and the orders of an operator.
//!
//! ```text
//! GET  /tiers                                       the tiers and their paths
//! GET  /tiers/segments?topic=T&partition=N          segments, where and why there
//! POST /tiers/move?to=TIER&topic=T&partition=N&base=OFFSET   ask for sealed segments to be moved
//! POST /tiers/drain?path=DIR&stop=true              empty a path, or (stop) use it again
//! POST /tiers/verify?topic=T&partition=N            read sealed segments and check every batch
//! ```
//!
//! HEAD is answered as GET, without the body. Responses are JSON, errors too (`{"error": ...}`).
//! Orders need the header `Content-Type: application/json`, which a web page of another origin
//! cannot send without the permission of this endpoint.

use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;

use super::AdminContent;
use super::page::{Body, JSON, response};
use crate::tiers::ask::{Answer, Ask, SegmentSelection};
use crate::tiers::drained;
use crate::tiers::watch::Watch;
use crate::tiers::{SegmentStatus, TierOutcome};

/// Why a request is not answered.
struct Refusal(StatusCode, String);

#[derive(Serialize)]
struct Problem {
    error: String,
}

/// Answers a request below `/tiers`.
pub(super) async fn answer<B>(request: &Request<B>, shown: &AdminContent) -> Response<Body> {
    let answered = match &shown.tiers {
        Some(watch) => route(request, shown, watch).await,
        None => Err(Refusal(
            StatusCode::NOT_FOUND,
            "there are no tiers: storage.tiers is not set".into(),
        )),
    };
    let (code, mut text) = match answered {
        Ok(text) => (StatusCode::OK, text),
        Err(Refusal(code, error)) => (code, json(&Problem { error })),
    };
    text.push('\n');
    let mut answer = response(code, JSON, text);
    if code == StatusCode::METHOD_NOT_ALLOWED {
        let allowed = HeaderValue::from_static(allowed(request.uri().path()));
        answer.headers_mut().insert(ALLOW, allowed);
    }
    answer
}

/// The methods of a path.
fn allowed(path: &str) -> &'static str {
    match path {
        "/tiers" | "/tiers/segments" => "GET, HEAD",
        _ => "POST",
    }
}

async fn route<B>(
    request: &Request<B>,
    shown: &AdminContent,
    watch: &Watch,
) -> Result<String, Refusal> {
    let query = Query::parse(request.uri().query().unwrap_or_default())?;
    let path = request.uri().path();
    match (path, request.method()) {
        ("/tiers", &Method::GET | &Method::HEAD) => Ok(json(&watch.status())),
        ("/tiers/segments", &Method::GET | &Method::HEAD) => segments(shown, &query).await,
        ("/tiers/move" | "/tiers/drain" | "/tiers/verify", &Method::POST) => {
            let kind = request.headers().get(CONTENT_TYPE);
            if kind.is_none_or(|kind| kind != JSON) {
                return Err(bad(
                    "an order needs the header Content-Type: application/json",
                ));
            }
            match path {
                "/tiers/move" => order_move(shown, watch, &query).await,
                "/tiers/drain" => drain(watch, &query).await,
                _ => outcome(shown, Ask::Verify(query.which()?)).await,
            }
        }
        ("/tiers" | "/tiers/segments" | "/tiers/move" | "/tiers/drain" | "/tiers/verify", _) => {
            let error = "GET shows, POST orders: see docs/tiers.md".into();
            Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, error))
        }
        _ => Err(Refusal(
            StatusCode::NOT_FOUND,
            "there are /tiers, /tiers/segments, /tiers/move, /tiers/drain and /tiers/verify".into(),
        )),
    }
}

async fn segments(shown: &AdminContent, query: &Query) -> Result<String, Refusal> {
    let answers = shown.shards.ask(&Ask::Segments(query.which()?)).await;
    let each = answers.into_iter().filter_map(|answer| match answer {
        Answer::Segments(segments) => Some(segments),
        Answer::Outcome(_) => None,
    });
    let mut segments: Vec<SegmentStatus> = each.flatten().collect();
    segments.sort_by(|a, b| {
        let key = |segment: &SegmentStatus| (segment.partition, segment.base_offset);
        a.topic.cmp(&b.topic).then_with(|| key(a).cmp(&key(b)))
    });
    Ok(json(&segments))
}

async fn order_move(shown: &AdminContent, watch: &Watch, query: &Query) -> Result<String, Refusal> {
    let which = query.which()?;
    if which.topic.is_none() {
        return Err(bad("topic must be given"));
    }
    let to = query.value("to").unwrap_or_default();
    let tiers = watch.tiers().tiers();
    let Some(tier) = tiers.iter().position(|tier| *tier.name == *to) else {
        let names: Vec<_> = tiers.iter().map(|tier| &*tier.name).collect();
        return Err(bad(&format!(
            "to={to}: must be one of {}",
            names.join(", ")
        )));
    };
    outcome(shown, Ask::Move(which, tier)).await
}

async fn outcome(shown: &AdminContent, ask: Ask) -> Result<String, Refusal> {
    let mut sum = TierOutcome::default();
    for answer in shown.shards.ask(&ask).await {
        if let Answer::Outcome(outcome) = answer {
            sum.add(outcome);
        }
    }
    Ok(json(&sum))
}

async fn drain(watch: &Watch, query: &Query) -> Result<String, Refusal> {
    let wanted = query.value("path").unwrap_or_default();
    let paths = watch.tiers().paths();
    let Some(path) = paths.iter().find(|path| path.dir().as_os_str() == wanted) else {
        let dirs: Vec<_> = paths
            .iter()
            .map(|path| path.dir().display().to_string())
            .collect();
        return Err(bad(&format!(
            "path={wanted}: must be one of {}",
            dirs.join(", ")
        )));
    };
    let stop = query.value("stop") == Some("true");
    path.set_draining(!stop);
    tracing::info!(dir = %path.dir().display(), stop, "a path of a tier is drained");
    let dir = path.dir().to_path_buf();
    let writing = tokio::task::spawn_blocking(move || drained::remember(&dir, !stop));
    let remembered = match writing.await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    let problem = |error| format!("a restart will not know of it: {error}");
    Ok(json(&TierOutcome {
        segments: path.segments(),
        bytes: path.used_bytes(),
        problems: remembered.map(problem).into_iter().collect(),
    }))
}

/// The parameters of a request, decoded.
struct Query(Vec<(String, String)>);

impl Query {
    fn parse(text: &str) -> Result<Self, Refusal> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(key)?, decode(value)?))
        });
        let all: Option<Vec<_>> = decoded.collect();
        all.map(Self)
            .ok_or_else(|| bad("the query is not percent-encoded UTF-8"))
    }

    fn value(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, Refusal> {
        let text = self.value(key);
        let wrong = |text: &str| bad(&format!("{key}={text}: must be a number"));
        text.map(|text| text.parse().map_err(|_| wrong(text)))
            .transpose()
    }

    fn which(&self) -> Result<SegmentSelection, Refusal> {
        Ok(SegmentSelection {
            topic: self.value("topic").map(str::to_owned),
            partition: self.number("partition")?,
            base: self.number("base")?,
        })
    }
}

/// Decodes percent-encoding (`%2F` is `/`); returns `None` if the result is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let (byte, tail) = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).ok()?;
                (u8::from_str_radix(digits, 16).ok()?, tail)
            }
            (b'%', _) => return None,
            (b'+', tail) => (b' ', tail),
            (byte, tail) => (*byte, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

fn bad(error: &str) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, error.to_owned())
}

fn json(value: &impl Serialize) -> String {
    // Structs of numbers and strings always serialize to JSON.
    let json = serde_json::to_string(value).unwrap_or_default();
    wire::text::escaped_json(&json).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_percent_encoded() {
        let query = Query::parse("path=%2Fdata%2Fa+b&stop=true&partition=3")
            .ok()
            .unwrap();
        assert_eq!(query.value("path"), Some("/data/a b"));
        assert_eq!(query.which().ok().unwrap().partition, Some(3));
        for wrong in ["a=%", "a=%2", "a=%zz", "a=%ff"] {
            assert!(Query::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Query::parse("partition=x").ok().unwrap().which().is_err());
    }
}
