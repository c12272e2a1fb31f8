//! The admin endpoint: metrics and health over HTTP, on a runtime of its own, apart from the
//! shards.
//!
//! `/metrics` (text), `/livez` (200 while the process runs), `/readyz` (200 while requests are
//! served, else 503; reports how far recovery is and what is out of service), `/tiers` (status of
//! the tiers, and orders to them), and with `admin.plan=true` `/plan` (the planner). It is for
//! operators. It listens on one address, `admin.listener`, speaks TLS if it is set (`secure`), and
//! answers only requests under the names of this broker (`names`), to those who may see or do what
//! they ask for (`access`).

mod access;
mod names;
mod page;
mod places;
pub mod probe;
mod scrape;
mod secure;
mod tiers;

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use broker::audit::Audit;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use plan::catalogue::Catalogue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::config::Settings;
use crate::metrics::{AdminMetrics, Metrics};
use crate::planner::{MeasuredRates, Planner};
use crate::shards::ShardsView;
use crate::tiers::watch::Watch;
use access::{Gate, Peer};
pub(crate) use access::{TokenFile, Tokens};
pub use names::Names;
use page::{RequestMemory, TEXT, response};
use places::{EXCHANGE_MAX, Exchange, Places};
use scrape::Pages;
pub use secure::AdminDoor;
use secure::SecuredClient;

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
    gate: Gate,
    door: Option<AdminDoor>,
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
        (names, gate): (Names, AdminGate),
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
            gate: gate.gate,
            door: gate.door,
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

/// Who is let in, and how connections are secured.
pub struct AdminGate {
    gate: Gate,
    door: Option<AdminDoor>,
}

impl AdminGate {
    /// Lets in whom the settings say; without a door, TLS is not spoken.
    pub(crate) fn new(
        settings: &Settings,
        tokens: Option<Tokens>,
        door: Option<AdminDoor>,
        notes: (AdminMetrics, Audit),
    ) -> Self {
        let authorizer = settings.authorizer().cloned();
        Self {
            gate: Gate::new(&settings.admin, authorizer, tokens, notes),
            door,
        }
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
        let (socket, address) = match listener.accept().await {
            Ok(accepted) => accepted,
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
        let is_loopback = |it: SocketAddr| it.ip().to_canonical().is_loopback();
        let peer = Peer {
            address: address.ip().to_canonical(),
            is_local: is_loopback(address) && socket.local_addr().is_ok_and(is_loopback),
            certificate: None,
        };
        let task = tokio::spawn(hold(socket, peer, Arc::clone(&shown), exchange.clone()));
        places.give(task.abort_handle(), exchange);
    }
}

/// Serves one request on a connection.
async fn hold(socket: TcpStream, peer: Peer, shown: Arc<AdminContent>, exchange: Exchange) {
    let overdue = exchange.clone();
    let served = async {
        let Some(door) = &shown.door else {
            return converse(socket, peer, &shown, &exchange).await;
        };
        let address = peer.address;
        match door.secure(socket).await {
            Ok(client) => {
                let SecuredClient {
                    stream,
                    certificate,
                    count: _count,
                } = client;
                let peer = Peer {
                    certificate,
                    ..peer
                };
                converse(stream, peer, &shown, &exchange).await;
            }
            Err(failure) => {
                door.metrics.failed(&secure::listener(), failure.label());
                shown.gate.say_no_handshake(address, &failure);
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = overdue.overdue() => tracing::debug!("admin connection cut off: it took too long"),
    }
}

/// Answers one request of a client.
async fn converse<S>(stream: S, peer: Peer, shown: &Arc<AdminContent>, exchange: &Exchange)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let peer = Arc::new(peer);
    let answer = service_fn(|request: Request<Incoming>| {
        let (shown, peer) = (Arc::clone(shown), Arc::clone(&peer));
        let exchange = exchange.clone();
        async move {
            exchange.asked();
            let answer = answer(request, &peer, &shown).await;
            exchange.answered();
            Ok::<_, Infallible>(answer)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(EXCHANGE_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "admin connection ended");
    }
}

async fn answer(
    request: Request<Incoming>,
    peer: &Peer,
    shown: &AdminContent,
) -> Response<Full<Bytes>> {
    if let Some((code, why)) = shown.names.refuse(&request) {
        return response(code, TEXT, why.into());
    }
    let view = match shown.gate.admit(&request, peer, &shown.shards).await {
        Ok(view) => view,
        Err(refused) => return *refused,
    };
    match shown.planner.as_ref().filter(|_| page::is_plan(&request)) {
        Some(planner) => planner.answer(request).await,
        None => page::answer(&request, view, shown).await,
    }
}
