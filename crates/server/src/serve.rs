//! `forebay serve`: from settings to a running server, and its end.
//!
//! Order: read keys and certificates, lock the directories, bind the addresses, start the shards
//! (logs are recovered), let clients in; on a signal, finish the requests that have begun, close
//! the logs, end. No client is let in before everything is ready; the locks are released last.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use broker::audit::Audit;
use broker::hanging::HANGS_AFTER;
use broker::listener_stores::ListenerStores;
use host::cpus::Cpus;
use host::facts::interrupts;
use host::root::Root;
use platform::lock::DirLock;
use platform::runtime::{BLOCKING_THREADS_KEPT, begin_blocking_pool};
use tokio::sync::{mpsc, watch};

use crate::admin::{self, AdminContent, AdminDoor, AdminGate, Names, TokenFile, Tokens};
use crate::admission::NodeConfigWatch;
use crate::audit::{AuditEnd, AuditLog};
use crate::certificates::Certificates;
use crate::config::{AdminAuth, AdminSettings, Settings};
use crate::handshake::Door;
use crate::listener::Bound;
use crate::metrics::{
    AdminMetrics, AuditMetrics, ConnectionMetrics, Metrics, RequestMetrics, TlsMetrics,
};
use crate::notify::{self, Supervisor};
use crate::oauth::KeySource;
use crate::secrecy;
use crate::shards::{Assembly, ShardOptions, Shards};
use crate::signals::Signals;
use crate::tiers::watch::Watch;

/// How long requests that have begun may take when the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// How long to wait for a directory whose holder is ending, such as a process that was just killed.
const LOCK_MAX: Duration = Duration::from_secs(10);

/// What exists before the shards, for the assembly of their service.
pub struct AssemblyInputs {
    /// The settings.
    pub settings: Settings,
    /// Where to register metrics.
    pub metrics: Metrics,
    /// The port of each of the settings' listeners.
    pub ports: Vec<u16>,
    /// The audit file, if there is one.
    pub audit: Option<AuditLog>,
    /// Who checks the stores that clients set for listeners of TLS, if there are any.
    pub stores: Option<Arc<dyn ListenerStores>>,
}

/// Serves until a signal ends it.
///
/// `assemble` makes the service of the shards; the directories are locked by then.
pub fn run<A: Assembly>(
    settings: Settings,
    assemble: impl FnOnce(&AssemblyInputs) -> anyhow::Result<A>,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    raise_open_files();
    let metrics = Metrics::new();
    if settings.holds_secrets {
        secrecy::leave_no_core();
    }
    let certificates = Certificates::open(settings.tls_sets(), settings.tls_reload_interval)?;
    let stores = (!settings.tls_sets().is_empty()).then(|| certificates.changes());
    let token_file = token_file(&settings);
    let tokens = token_file.as_ref().map(Tokens::open).transpose()?;
    for keys in &settings.token_keys.sources {
        keys.open()?;
    }
    let _locks = lock_dirs(&settings)?;
    let owned = settings.log_dirs.iter().map(PathBuf::as_path);
    audit_apart(&settings, owned.chain(settings.lower_dirs()))?;
    let (audit, audit_end) = begin_audit(&settings, &metrics)?;
    let bind = |address| Bound::bind(address, settings.shards, &settings.network);
    let listeners: Vec<Bound> = settings
        .listeners
        .iter()
        .map(bind)
        .collect::<Result<_, _>>()?;
    let admin = settings.admin_listener.as_ref();
    let admin = admin
        .map(|(host, port)| admin::bind(host, *port))
        .transpose()?;
    let ports = listeners.iter().map(|listener| listener.port).collect();
    let prepared = AssemblyInputs {
        settings,
        metrics,
        ports,
        audit,
        stores: stores.map(|stores| Arc::new(stores) as Arc<dyn ListenerStores>),
    };
    let assembly = Arc::new(assemble(&prepared)?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("control")
        .enable_all()
        .thread_keep_alive(BLOCKING_THREADS_KEPT)
        .build()?;
    begin_blocking_pool(&runtime);
    let outside = Outside {
        listeners,
        admin,
        certificates,
        tokens: tokens.zip(token_file),
    };
    let stopped = runtime.block_on(control(prepared, outside, assembly, begin));
    runtime.shutdown_background();
    if let Some(end) = audit_end {
        end.wait();
    }
    stopped
}

/// Refuses an audit file that links lead into one of the directories of data, whose files are the
/// broker's to make and to remove.
fn audit_apart<'a>(
    settings: &Settings,
    owned: impl Iterator<Item = &'a Path>,
) -> anyhow::Result<()> {
    let path = settings
        .audit
        .as_ref()
        .and_then(|audit| audit.path.as_deref());
    let Some((path, parent)) = path.and_then(|path| Some((path, path.parent()?))) else {
        return Ok(());
    };
    // A directory that is not there yet, or a broken disk, has no links.
    let real = |dir: &Path| std::fs::canonicalize(dir).ok();
    let within = real(parent).and_then(|parent| {
        let mut owned = owned;
        owned.find(|dir| real(dir).is_some_and(|dir| parent.starts_with(dir)))
    });
    if let Some(dir) = within {
        anyhow::bail!(
            "audit.path={}: links lead into {}, a directory of data",
            path.display(),
            dir.display()
        );
    }
    Ok(())
}

/// Opens the audit file, if there is to be one.
fn begin_audit(
    settings: &Settings,
    metrics: &Metrics,
) -> anyhow::Result<(Option<AuditLog>, Option<AuditEnd>)> {
    let begun = settings.audit.as_ref().map(|audit| {
        let metrics = metrics.register(AuditMetrics::register);
        AuditLog::start(audit, metrics)
    });
    Ok(begun.transpose()?.unzip())
}

fn say_listeners(settings: &Settings, ports: &[u16]) {
    for (listener, port) in settings.advertised.iter().zip(ports) {
        let (name, host) = (&listener.listener, &listener.host);
        tracing::info!(listener = %name, %host, port, "listening");
    }
}

/// Logs the CPUs of the process, and warns if `process.cpus` includes some that take the interrupts
/// of network cards.
fn say_cpus(settings: &Settings) {
    let allowed: Cpus = platform::cpus::allowed()
        .unwrap_or_default()
        .into_iter()
        .collect();
    let both = interrupts::cpus_of_cards(&Root::new("/")).and(&allowed);
    tracing::info!(cpus = %allowed, interrupts = %both, "processors");
    if settings.confined && !both.is_empty() {
        tracing::warn!(cpus = %both, "process.cpus has processors that take the interrupts of network cards");
    }
}

/// What clients meet.
struct Outside {
    listeners: Vec<Bound>,
    admin: Option<TcpListener>,
    certificates: Certificates,
    tokens: Option<(Tokens, TokenFile)>,
}

/// Returns how listeners serve TLS, by their names. One that is to speak it and has no keys would
/// serve without: it refuses the start.
fn doors(
    settings: &Settings,
    certificates: &Certificates,
    audit: &Audit,
) -> anyhow::Result<BTreeMap<String, Arc<Door>>> {
    let of_kafka = |name: &str| settings.listeners.iter().any(|it| it.listener == name);
    let in_force = certificates.in_force().into_iter();
    let in_force = in_force.filter(|(listener, _)| of_kafka(listener));
    let door = in_force.map(|(listener, tls)| {
        let door = Door {
            tls,
            time_max: settings.login_time_max,
            names_clients: !settings.asks_for_login(&listener),
            audit: audit.clone(),
        };
        (listener, Arc::new(door))
    });
    let doors: BTreeMap<_, _> = door.collect();
    for address in &settings.listeners {
        let name = &address.listener;
        let has_keys = doors.contains_key(name);
        anyhow::ensure!(
            has_keys == settings.is_encrypted(name),
            "listener {name} is to speak TLS, and has no keys"
        );
    }
    Ok(doors)
}

fn options(
    settings: &Settings,
    metrics: &Metrics,
    doors: BTreeMap<String, Arc<Door>>,
) -> ShardOptions {
    ShardOptions {
        count: settings.shards,
        pinned: settings.shards_pinned,
        network: settings.network.clone(),
        drain_max: DRAIN_MAX,
        stuck_after: settings.stuck_after,
        requests: metrics.register(RequestMetrics::register),
        connections: metrics.register(ConnectionMetrics::register),
        doors,
        handshake_threads: settings.tls_handshake_threads,
        tls: metrics.register(TlsMetrics::register),
    }
}

async fn control<A: Assembly>(
    prepared: AssemblyInputs,
    outside: Outside,
    assembly: Arc<A>,
    begin: Instant,
) -> anyhow::Result<()> {
    let AssemblyInputs {
        settings,
        metrics,
        ports,
        audit,
        ..
    } = prepared;
    let Outside {
        listeners,
        admin,
        certificates,
        tokens,
    } = outside;
    let audit = audit.map(|log| log.audit()).unwrap_or_default();
    let doors = doors(&settings, &certificates, &audit)?;
    let options = options(&settings, &metrics, doors);
    let admin_metrics = metrics.register(AdminMetrics::register);
    let door = admin_door(&settings, &certificates, &options.tls)?;
    let in_force = tokens.as_ref().map(|(tokens, _)| tokens.clone());
    let gate = AdminGate::new(&settings, in_force, door, (admin_metrics.clone(), audit));
    let sets = (!settings.tls_sets().is_empty()).then(|| (certificates, options.tls.clone()));
    let tokens = tokens.map(|(tokens, file)| (tokens, file, admin_metrics));
    let changing = assembly.changing();
    let token_keys = token_keys(&settings, &metrics);
    let (mut signals, reload, heeded) = keep_read(sets, changing, tokens, token_keys)?;
    let mut shards = Shards::start(options, listeners, &assembly)?;
    let tiers = watched_tiers(&*assembly);
    let measured = Arc::clone(&assembly);
    let recovery = move || assembly.recovery();
    let admitted = (names(&settings), gate);
    let mut shown = AdminContent::new(metrics, shards.view(), recovery, tiers, admitted);
    if settings.admin_plan {
        let traffic = move || measured.traffic();
        shown = shown.with_planner(plan::catalogue::Catalogue::shipped()?, traffic);
    }
    let admin_at = address_of(admin.as_ref());
    tokio::spawn(serve_admin(admin, Arc::new(shown)));
    let supervisor = Arc::new(Supervisor::of_environment());
    supervisor.starting();
    tokio::select! {
        started = started(&mut shards, heeded) => started?,
        name = signals.stop(&reload) => {
            // The next start recovers everything that was written.
            tracing::info!(signal = name, "stopped while starting");
            return Ok(());
        }
    }
    shards.serve(Arc::clone(&supervisor))?;
    say_listeners(&settings, &ports);
    say_cpus(&settings);
    let (shards_count, ready_ms) = (settings.shards, begin.elapsed().as_millis());
    tracing::info!(shards = shards_count, admin = admin_at, ready_ms, "ready");
    supervisor.ready();
    tokio::select! {
        name = signals.stop(&reload) => tracing::info!(signal = name, "stopping"),
        error = shards.failed() => return Err(error),
    }
    supervisor.stopping();
    stop(shards, signals).await
}

/// Stops the shards, unless the operator does not want to wait for that.
async fn stop(shards: Shards, mut signals: Signals) -> anyhow::Result<()> {
    tokio::select! {
        stopped = shards.stop() => stopped?,
        name = signals.urgent() => {
            anyhow::bail!("second {name}: the logs are not closed; the next start recovers them");
        }
    }
    tracing::info!("stopped");
    Ok(())
}

/// Waits until the shards have started, and listeners have the keys and certificates that clients
/// have set: nothing of those before is presented.
async fn started(shards: &mut Shards, mut heeded: watch::Receiver<bool>) -> anyhow::Result<()> {
    shards.started().await?;
    // Without any sets nothing tells.
    let _ = heeded.wait_for(|is_heeded| *is_heeded).await;
    Ok(())
}

/// Returns the keys of tokens, whose metrics are there if there are any.
fn token_keys(settings: &Settings, metrics: &Metrics) -> Vec<Arc<KeySource>> {
    let keys = settings.token_keys.clone();
    if !keys.sources.is_empty() {
        metrics.register(|registry| keys.metrics.register(registry));
    }
    keys.sources
}

/// Returns the tiers, if there are any, and begins to watch them.
fn watched_tiers(assembly: &impl Assembly) -> Option<Watch> {
    let tiers = assembly.tiers();
    if let Some(watch) = tiers.clone() {
        tokio::spawn(watch.run());
    }
    tiers
}

/// Keeps what was read from files as the files are; returns the signals, what asks for the
/// files to be read at once, and what tells that the settings of clients are heeded.
fn keep_read(
    certificates: Option<(Certificates, TlsMetrics)>,
    changing: Option<NodeConfigWatch>,
    tokens: Option<(Tokens, TokenFile, AdminMetrics)>,
    sources: Vec<Arc<KeySource>>,
) -> anyhow::Result<(Signals, mpsc::Sender<()>, watch::Receiver<bool>)> {
    let is_reloading = certificates.is_some() || tokens.is_some() || !sources.is_empty();
    let signals = Signals::new(is_reloading, notify::is_supervised())?;
    // One that waits stands for all that come meanwhile.
    let (reload, asked) = mpsc::channel(1);
    let (heeding, heeded) = watch::channel(false);
    let mut kept = Vec::new();
    if let Some((certificates, metrics)) = certificates {
        let (ask, asked) = mpsc::channel(1);
        tokio::spawn(certificates.keep(asked, changing, heeding, metrics));
        kept.push(ask);
    }
    if let Some((tokens, file, metrics)) = tokens {
        let (ask, asked) = mpsc::channel(1);
        tokio::spawn(tokens.keep(file, asked, metrics));
        kept.push(ask);
    }
    for source in sources {
        let (ask, asked) = mpsc::channel(1);
        tokio::spawn(source.keep(asked));
        kept.push(ask);
    }
    tokio::spawn(pass_on(asked, kept));
    Ok((signals, reload, heeded))
}

/// Passes on that the operator wants files to be read again.
async fn pass_on(mut asked: mpsc::Receiver<()>, kept: Vec<mpsc::Sender<()>>) {
    while asked.recv().await.is_some() {
        for ask in &kept {
            // One that waits already stands for this one, too.
            let _ = ask.try_send(());
        }
    }
}

/// Returns how the admin endpoint serves TLS; `None` if it does not.
fn admin_door(
    settings: &Settings,
    certificates: &Certificates,
    metrics: &TlsMetrics,
) -> anyhow::Result<Option<AdminDoor>> {
    if settings.admin.tls.is_none() {
        return Ok(None);
    }
    let in_force = certificates.in_force().remove(AdminSettings::LISTENER);
    Ok(Some(AdminDoor {
        // An endpoint that is to speak TLS and has no keys would serve without.
        tls: in_force.context("the admin endpoint is to speak TLS, and has no keys")?,
        names_clients: settings.admin.auth == AdminAuth::Mtls,
        metrics: metrics.clone(),
    }))
}

fn token_file(settings: &Settings) -> Option<TokenFile> {
    let is_bearer = settings.admin.auth == AdminAuth::Bearer && settings.admin_listener.is_some();
    let path = settings.admin.tokens.clone().filter(|_| is_bearer)?;
    Some(TokenFile {
        path,
        is_strict: settings.admin.is_strict,
        interval: settings.tls_reload_interval,
    })
}

/// Returns the names under which the admin endpoint answers.
fn names(settings: &Settings) -> Names {
    let own = settings
        .admin_listener
        .iter()
        .map(|(host, _)| host.as_str());
    let advertised = settings
        .advertised
        .iter()
        .map(|address| address.host.as_str());
    Names::new(own.chain(advertised))
}

fn address_of(listener: Option<&TcpListener>) -> Option<String> {
    let address = listener?.local_addr().ok()?;
    Some(address.to_string())
}

async fn serve_admin(listener: Option<TcpListener>, shown: Arc<AdminContent>) {
    if let Some(listener) = listener
        && let Err(error) = admin::serve(listener, shown).await
    {
        tracing::error!(%error, "the admin endpoint ended");
    }
}

/// Creates each missing directory, and locks all of them against other processes.
///
/// A path of a lower tier that cannot be locked because it is broken only goes offline itself; one
/// that another process holds stops the start.
fn lock_dirs(settings: &Settings) -> anyhow::Result<Vec<DirLock>> {
    let make = |dir: &Path| told_if_long(dir, || platform::os::create_dir(dir));
    let lock = |dir: &Path| -> anyhow::Result<DirLock> {
        make(dir).with_context(|| format!("creating {}", dir.display()))?;
        let waits = |holder: &str| {
            tracing::warn!(dir = %dir.display(), holder, "waiting for the lock of the directory");
        };
        Ok(told_if_long(dir, || {
            DirLock::acquire_within(dir, LOCK_MAX, waits)
        })?)
    };
    let home = settings.log_dirs.iter().map(|dir| lock(dir));
    let mut locks = home.collect::<anyhow::Result<Vec<_>>>()?;
    for dir in settings.lower_dirs() {
        if let Err(error) = make(dir) {
            tracing::error!(dir = %dir.display(), %error, "a path of a tier cannot be made");
            continue;
        }
        match lock(dir) {
            Ok(held) => locks.push(held),
            Err(error) if is_broken(&error) => {
                // Its readable segments are served; the first write to it reports the failure.
                tracing::error!(dir = %dir.display(), %error, "a path of a tier cannot be locked");
            }
            Err(error) => return Err(error),
        }
    }
    for dir in settings
        .log_dirs
        .iter()
        .map(PathBuf::as_path)
        .chain(settings.lower_dirs())
    {
        let dir: &Path = &std::path::absolute(dir)?;
        tracing::info!(dir = %dir.display(), "data directory");
    }
    Ok(locks)
}

/// Runs `work`, which may wait for a hanging disk, and logs it when that takes long.
fn told_if_long<T>(dir: &Path, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    std::thread::scope(|scope| {
        let (done, waits) = std::sync::mpsc::channel::<()>();
        let tell = move || {
            if waits.recv_timeout(HANGS_AFTER) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!(dir = %dir.display(),
                    "a disk does not answer: the start waits for this directory");
                // Returns when the other end is dropped.
                let _ = waits.recv();
                tracing::info!(dir = %dir.display(), waited_s = began.elapsed().as_secs(),
                    "a disk answers again: the start goes on");
            }
        };
        // Without a thread, the work runs without the warning.
        let named = std::thread::Builder::new().name("start".into());
        if let Err(error) = named.spawn_scoped(scope, tell) {
            tracing::debug!(%error, "nobody says so if a disk does not answer");
        }
        let worked = work();
        drop(done);
        worked
    })
}

/// Returns true if a directory could not be locked because of its disk, and not because of its
/// holder or owner.
fn is_broken(error: &anyhow::Error) -> bool {
    let refused = error.chain().find_map(|cause| match cause.downcast_ref() {
        Some(platform::Error::Lock { source, .. }) => Some(source.kind()),
        _ => None,
    });
    refused.is_some_and(|kind| kind != std::io::ErrorKind::PermissionDenied)
}

/// Raises the soft limit of open files to the hard limit.
///
/// Every connection and every segment is an open file; the default soft limit is for programs that
/// use `select`.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    ) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}
