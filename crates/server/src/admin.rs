//! The admin endpoint: metrics and health over HTTP, on a runtime apart from the shards.
//!
//! `/metrics` (text), `/livez` (200 while the process runs), `/readyz` (200 while requests are
//! served, else 503; says how far recovery has come), `/tiers` (what tiers hold, and orders to them).
//! It is for operators, and answers one address, `admin.listener`.

mod page;
mod tiers;

use std::convert::Infallible;
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::metrics::Metrics;
use crate::shards::ShardsView;
use crate::tiers::watch::Watch;
use page::RequestMemory;

/// Connections at a time; more wait.
const CONNECTIONS_MAX: usize = 32;

/// A request's head must be there within this time, also the next one of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after the system refused a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// What the endpoint shows.
pub struct Shown {
    metrics: Metrics,
    shards: ShardsView,
    /// Logs opened so far and logs in all.
    recovery: Box<dyn Fn() -> (u64, u64) + Send + Sync>,
    request_memory: RequestMemory,
    tiers: Option<Watch>,
}

impl Shown {
    /// Shows these; `recovery` says how many logs are open, and how many there are.
    pub fn new(
        metrics: Metrics,
        shards: ShardsView,
        recovery: impl Fn() -> (u64, u64) + Send + Sync + 'static,
        tiers: Option<Watch>,
    ) -> Self {
        let request_memory = metrics.register(RequestMemory::register);
        Self {
            metrics,
            shards,
            recovery: Box::new(recovery),
            request_memory,
            tiers,
        }
    }
}

/// Takes the address. Nobody is answered yet.
pub fn bind(host: &str, port: u16) -> anyhow::Result<StdListener> {
    let listener = StdListener::bind((host, port))
        .with_context(|| format!("cannot listen on admin.listener={host}:{port}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Answers until the future is dropped.
pub async fn serve(listener: StdListener, shown: Arc<Shown>) -> anyhow::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await?;
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!(%error, "cannot accept admin connections");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let shown = Arc::clone(&shown);
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let shown = Arc::clone(&shown);
                async move { Ok::<_, Infallible>(page::answer(&request, &shown).await) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(socket), answer)
                .await;
            if let Err(error) = served {
                tracing::debug!(%error, "admin connection ended");
            }
            drop(place);
        });
    }
}
