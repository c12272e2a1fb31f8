//! `forebay plan --page`: the planner's page without a broker.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::ToSocketAddrs as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HeaderValue, LOCATION};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use plan::catalogue::{Catalogue, Month};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Planner;
use crate::admin::Names;

/// Maximum number of connections; a further one waits.
const CONNECTIONS_MAX: usize = 32;

/// Longest time for a request and its response.
const EXCHANGE_MAX: Duration = Duration::from_secs(20);

/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the page until the process is ended.
pub(crate) fn serve(address: &str, catalogue: Catalogue, today: Month) -> anyhow::Result<()> {
    let found = address
        .to_socket_addrs()
        .with_context(|| format!("--page {address}"))?;
    let found: Vec<_> = found.collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let planner = Planner::new(catalogue, Some(today), None);
    runtime.block_on(async {
        let listener = TcpListener::bind(found.as_slice())
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        let said = format!("http://{}/plan\n", listener.local_addr()?);
        let mut out = std::io::stdout();
        // Standard output may be closed.
        let _ = out.write_all(said.as_bytes()).and_then(|()| out.flush());
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let names = Arc::new(Names::new([host]));
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let place = Arc::clone(&places).acquire_owned().await?;
            let socket = accepted(&listener).await;
            let (planner, names) = (planner.clone(), Arc::clone(&names));
            tokio::spawn(async move {
                let held = tokio::time::timeout(EXCHANGE_MAX, hold(socket, planner, names));
                drop(held.await);
                drop(place);
            });
        }
    })
}

/// Returns the next connection; what keeps one from being accepted passes.
///
/// Descriptors may have run out, or the client may have gone: the page goes on after a pause.
async fn accepted(listener: &TcpListener) -> TcpStream {
    let mut said = false;
    loop {
        match listener.accept().await {
            Ok((socket, _)) => return socket,
            Err(error) => {
                if !said {
                    eprintln!("cannot accept a connection, trying again: {error}");
                    said = true;
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one request on a connection.
async fn hold(socket: TcpStream, planner: Planner, names: Arc<Names>) {
    let answer = service_fn(|request| {
        let (planner, names) = (planner.clone(), Arc::clone(&names));
        async move {
            if let Some((code, why)) = names.refuse(&request) {
                return Ok::<_, Infallible>(plain(code, why));
            }
            if request.uri().path() == "/" {
                let mut moved = plain(StatusCode::SEE_OTHER, "/plan\n");
                moved
                    .headers_mut()
                    .insert(LOCATION, HeaderValue::from_static("/plan"));
                return Ok(moved);
            }
            Ok(planner.answer(request).await)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(EXCHANGE_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), answer);
    // An error means that the client has disconnected.
    drop(served.await);
}

fn plain(code: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    super::response(code, "text/plain; charset=utf-8", text.to_owned())
}
