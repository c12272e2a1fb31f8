//! One shard from its start to its end; see [`super::Phase`] for the order.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use broker::dispatch::Service as _;
use broker::handler::Context;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::{AcceptedConnection, Assembly, Call, Phase, ShardContext, accept};
use crate::admission::Admission;
use crate::connection::{
    self, Buffers, ClientFaultLines, Environment, Newcomer, Scratch, TlsStream, Transport,
    WriteTurns,
};
use crate::listener::ShardListener;
use crate::metrics::RequestMeter;
use crate::watchdog::Pulse;

/// Bytes of buffers that a shard keeps for the next requests.
const BUFFERS_KEPT_BYTES_MAX: usize = 64 << 20;

/// Numbers of connections, unique in the process.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// What a shard receives from outside.
pub(super) struct Ends {
    pub(super) sockets: Vec<ShardListener>,
    pub(super) handed: mpsc::UnboundedReceiver<AcceptedConnection>,
    pub(super) called: mpsc::UnboundedReceiver<Call>,
    pub(super) pulse: Arc<Pulse>,
}

/// Runs a shard, on its own executor.
pub(super) async fn run<A: Assembly>(me: usize, assembly: &A, shared: &ShardContext, ends: Ends) {
    let Ends {
        sockets,
        handed,
        mut called,
        pulse,
    } = ends;
    let mut beating = JoinSet::new();
    beating.spawn_local(pulse.beat(shared.beat_interval));
    let mut phase = shared.phase.clone();
    // The receiver of reports is gone if the process is ending.
    let report = |report| drop(shared.reports.send(report));
    let service = match assembly.start(me).await {
        Ok(service) => service,
        Err(error) => return report(Err(error)),
    };
    report(Ok(()));
    reached(&mut phase, Phase::Serving).await;
    if *phase.borrow() == Phase::Serving {
        let serving = serve::<A>(me, shared, sockets, handed, &service);
        let scraping = async {
            // The asker may be gone.
            while let Some(call) = called.recv().await {
                match call {
                    Call::Scrape(done) => {
                        let updating = assembly.before_scrape(me, &service);
                        tokio::task::spawn_local(async move {
                            updating.await;
                            drop(done);
                        });
                    }
                    Call::Reasons(answer) => {
                        let _ = answer.send(assembly.reasons(me, &service));
                    }
                    Call::Rights(answer) => {
                        let _ = answer.send(assembly.rights(&service));
                    }
                    Call::Tiers(ask, answer) => {
                        let answering = assembly.ask(me, &service, ask);
                        tokio::task::spawn_local(async move {
                            let _ = answer.send(answering.await);
                        });
                    }
                }
            }
        };
        tokio::select! {
            served = serving => report(served),
            () = scraping => {}
        }
    } else {
        report(Ok(()));
    }
    reached(&mut phase, Phase::Closing).await;
    if *phase.borrow() == Phase::Closing {
        report(assembly.close(me, service).await);
    }
    reached(&mut phase, Phase::Exit).await;
}

/// Waits for a phase or a later one. The sender of phases is gone only when the process ends.
async fn reached(phase: &mut watch::Receiver<Phase>, wanted: Phase) {
    let _ = phase.wait_for(|phase| *phase >= wanted).await;
}

/// Serves connections until the phase changes, then until the existing ones have ended.
async fn serve<A: Assembly>(
    me: usize,
    shared: &ShardContext,
    sockets: Vec<ShardListener>,
    mut handed: mpsc::UnboundedReceiver<AcceptedConnection>,
    service: &Rc<A::Service>,
) -> anyhow::Result<()> {
    let (stop, stopped) = watch::channel(false);
    let environment = Rc::new(Environment {
        limits: shared.limits.clone(),
        budget: shared.budget.clone(),
        answers: shared.answers.clone(),
        buffers: Buffers::new(BUFFERS_KEPT_BYTES_MAX),
        write_turns: WriteTurns::default(),
        scratch: Scratch::new(shared.tls.held_bytes.clone()),
        fault_lines: ClientFaultLines::default(),
        meter: RequestMeter::new(shared.requests.clone(), shared.connections.clone()),
        stop: stopped,
    });
    let mut accepting = JoinSet::new();
    for ShardListener { name, socket } in sockets {
        let listener = TcpListener::from_std(socket)?;
        accepting.spawn_local(accept::accept(me, name, listener, shared.clone()));
    }
    let mut connections = JoinSet::new();
    let mut phase = shared.phase.clone();
    loop {
        tokio::select! {
            () = reached(&mut phase, Phase::Draining) => break,
            Some(accepted) = handed.recv() => {
                let (service, environment) = (Rc::clone(service), Rc::clone(&environment));
                let connection = hold::<A>(accepted, service, environment, shared.admission.clone());
                connections.spawn_local(platform::task::sliced(connection));
            }
            Some(_) = connections.join_next() => {}
        }
    }
    drop(accepting);
    handed.close();
    stop.send_replace(true);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(shared.drain_max, all_ended)
        .await
        .is_err()
    {
        tracing::info!(
            shard = me,
            left = connections.len(),
            "connections are cut off"
        );
    }
    connections.shutdown().await;
    Ok(())
}

/// Serves one connection, counted until it ends.
async fn hold<A: Assembly>(
    accepted: AcceptedConnection,
    service: Rc<A::Service>,
    environment: Rc<Environment>,
    admission: Admission,
) {
    let AcceptedConnection {
        socket,
        secured,
        peer,
        listener,
        since,
        stranger,
        counts,
    } = accepted;
    let socket = match TcpStream::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!(%peer, %error, "connection lost on its way to its shard");
            return;
        }
    };
    let connection = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
    let mut session = A::requests(&service).session(&listener);
    let transport = match secured {
        None => Transport::Plain(socket),
        Some((secured, principal)) => {
            if let Some(principal) = principal {
                session = session.known_as(principal);
            }
            let scratch = environment.scratch.clone();
            Transport::Tls(Box::new(TlsStream::new(socket, secured, scratch)))
        }
    };
    let has_to_log_in = session.login_limits().is_some();
    let begins = || admission.stranger(&listener, peer.ip());
    // After a handshake it may be counted already, and for a client that is known it is over.
    let stranger = has_to_log_in.then(|| stranger.unwrap_or_else(begins));
    let context = Context {
        listener,
        peer,
        software: Rc::default(),
        session: Rc::new(session),
        // The request says these.
        client_id: wire::StrBytes::default(),
        frame_bytes: 0,
    };
    tracing::debug!(%peer, connection, "connection begins");
    let newcomer = Newcomer {
        transport,
        context,
        since,
        stranger,
    };
    let end = connection::serve(newcomer, A::requests(&service), &environment).await;
    environment.meter.connections.ended(end.label());
    drop(counts);
}
