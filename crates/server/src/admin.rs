//! The admin endpoint: metrics and health over HTTP, on a runtime of its own, apart from the
//! shards.
//!
//! `/metrics` (text), `/livez` (200 while the process runs), `/readyz` (200 while requests are
//! served, else 503; reports how far recovery is and what is out of service), `/tiers` (status of
//! the tiers, and orders to them), and with `admin.plan=true` `/plan` (the planner). It is for
//! operators. It listens on one address, `admin.listener`, and answers only requests under the
//! names of this broker (`names`).

mod names;
mod page;
mod places;
mod scrape;
mod tiers;

use std::convert::Infallible;
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use plan::catalogue::Catalogue;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::planner::{MeasuredRates, Planner};
use crate::shards::ShardsView;
use crate::tiers::watch::Watch;
pub use names::Names;
use page::RequestMemory;
use places::{EXCHANGE_MAX, Exchange, Places};
use scrape::Pages;

/// Maximum number of connections; a further one takes the place of another.
const CONNECTIONS_MAX: usize = 32;

/// Least time between two log lines about connections that could not be accepted.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Pause after `accept` fails.
const PAUSE: Duration = Duration::from_millis(100);

/// What the endpoint shows.
pub struct AdminContent {
    metrics: Metrics,
    shards: ShardsView,
    /// Logs opened so far, and logs in total.
    recovery: Box<dyn Fn() -> (u64, u64) + Send + Sync>,
    request_memory: RequestMemory,
    pages: Pages,
    tiers: Option<Watch>,
    planner: Option<Planner>,
    names: Names,
}

impl AdminContent {
    /// Shows these to clients that use one of `names`.
    ///
    /// `recovery` returns how many logs are open, and how many there are.
    pub fn new(
        metrics: Metrics,
        shards: ShardsView,
        recovery: impl Fn() -> (u64, u64) + Send + Sync + 'static,
        tiers: Option<Watch>,
        names: Names,
    ) -> Self {
        let request_memory = metrics.register(RequestMemory::register);
        Self {
            metrics,
            shards,
            recovery: Box::new(recovery),
            request_memory,
            pages: Pages::default(),
            tiers,
            planner: None,
            names,
        }
    }

    /// Shows the planner too; its default load is the traffic of this broker.
    ///
    /// `traffic` returns the bytes that producers have sent and that consumers have been sent.
    #[must_use]
    pub fn with_planner(
        mut self,
        catalogue: Catalogue,
        traffic: impl Fn() -> (u64, u64) + Send + Sync + 'static,
    ) -> Self {
        let measured = MeasuredRates::new(traffic);
        self.planner = Some(Planner::new(catalogue, None, Some(measured)));
        self
    }
}

/// Binds the address; connections are answered once [`serve`] runs.
pub fn bind(host: &str, port: u16) -> anyhow::Result<StdListener> {
    let listener = StdListener::bind((host, port))
        .with_context(|| format!("cannot listen on admin.listener={host}:{port}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Answers requests until the future is dropped.
pub async fn serve(listener: StdListener, shown: Arc<AdminContent>) -> anyhow::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let mut places = Places::new(CONNECTIONS_MAX);
    let mut logged: Option<Instant> = None;
    loop {
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                if logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
                    tracing::warn!(%error, "cannot accept admin connections");
                    logged = Some(Instant::now());
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let exchange = Exchange::default();
        let task = tokio::spawn(hold(socket, Arc::clone(&shown), exchange.clone()));
        places.give(task.abort_handle(), exchange);
    }
}

/// Serves one request on a connection.
async fn hold(socket: TcpStream, shown: Arc<AdminContent>, exchange: Exchange) {
    let answer = service_fn(|request: Request<Incoming>| {
        let (shown, exchange) = (Arc::clone(&shown), exchange.clone());
        async move {
            exchange.asked();
            let planner = shown
                .planner
                .as_ref()
                .filter(|_| page::is_plan(&request, &shown));
            let answer = match planner {
                Some(planner) => planner.answer(request).await,
                None => page::answer(&request, &shown).await,
            };
            exchange.answered();
            Ok::<_, Infallible>(answer)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(EXCHANGE_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), answer);
    tokio::select! {
        served = served => {
            if let Err(error) = served {
                tracing::debug!(%error, "admin connection ended");
            }
        }
        () = exchange.overdue() => tracing::debug!("admin connection cut off: it took too long"),
    }
}
