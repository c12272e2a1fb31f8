//! `forebay serve` from outside: start, health, limits, a second start, a clean stop.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[path = "running/broker.rs"]
mod running;

use running::{API_VERSIONS, Broker, PATIENCE, api_versions, command, line};

/// Writes bytes and reads until the broker closes.
fn read_to_end(mut socket: TcpStream, bytes: &[u8]) -> Vec<u8> {
    socket.write_all(bytes).unwrap();
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => rest,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => rest,
        Err(error) => panic!("{error}"),
    }
}

fn is_served(broker: &Broker) -> bool {
    let mut socket = broker.connect();
    socket.write_all(&API_VERSIONS).is_ok() && socket.read_exact(&mut [0; 8]).is_ok()
}

#[test]
fn a_fresh_directory_is_served_and_left_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut broker = Broker::start(&data, &[]);
    api_versions(&broker.connect());
    assert!(broker.stop(Signal::TERM).success());
    line(&mut broker.log, "stopped");
    assert!(data.join("meta.properties").exists());
    assert!(data.join(".kafka_cleanshutdown").exists());
    let mut again = Broker::start(&data, &[]);
    api_versions(&again.connect());
    assert!(again.stop(Signal::INT).success());
}

#[test]
fn a_process_is_confined_to_its_cpus_with_all_threads_and_has_a_shard_for_each() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = allowed.unwrap().trim().split([',', '-']).next().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cpus");
    std::fs::write(&file, format!("{first}\n")).unwrap();
    let setting = format!("process.cpus=@{}", file.display());
    let broker = Broker::start(&dir.path().join("data"), &[&setting, "shards.pinned=true"]);
    let mut names = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{}/task", broker.process.id())).unwrap() {
        let task = task.unwrap().path();
        // Workers of the disk come and go.
        let Ok(status) = std::fs::read_to_string(task.join("status")) else {
            continue;
        };
        let of = |name: &str| {
            status
                .lines()
                .find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
                .unwrap()
        };
        assert_eq!(of("Cpus_allowed_list:"), first, "{}", of("Name:"));
        names.push(of("Name:"));
    }
    let has = |shard: &str| names.iter().any(|name| name == shard);
    assert!(has("shard-0") && !has("shard-1"), "{names:?}");
    let (_, metrics) = broker.ask("GET", "/metrics");
    assert!(metrics.contains("\nforebay_cpu_irq_overlap "), "{metrics}");
}

#[test]
fn cpus_that_there_are_not_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = command(dir.path(), &["process.cpus=1023"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success()
            && said.contains("process.cpus: this process may not use CPU [1023]"),
        "{said}"
    );
}

#[test]
fn a_hangup_stops_the_server_cleanly_unless_it_was_told_to_ignore_it() {
    let dir = tempfile::tempdir().unwrap();
    // These tests may run under nohup themselves, which what they start inherits.
    let mut broker = Broker::start_with(|| {
        let broker = command(dir.path(), &[]);
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP");
        command.arg(broker.get_program()).args(broker.get_args());
        command
    });
    assert!(broker.stop(Signal::HUP).success());
    assert!(dir.path().join(".kafka_cleanshutdown").exists());
    let mut ignoring = Broker::start_with(|| {
        let broker = command(dir.path(), &[]);
        let mut command = Command::new("nohup");
        command.arg(broker.get_program()).args(broker.get_args());
        command
    });
    let id = i32::try_from(ignoring.process.id()).unwrap();
    let process = Pid::from_raw(id).unwrap();
    kill_process(process, Signal::HUP).unwrap();
    api_versions(&ignoring.connect());
    assert!(ignoring.stop(Signal::TERM).success());
}

/// The unit of the package has it as `ExecReload=`: without TLS, too, it must not stop the broker.
#[test]
fn a_hangup_under_a_service_manager_is_a_reload() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut broker = Broker::start_with(|| {
        let broker = command(&dir.path().join("data"), &[]);
        let mut command = Command::new("env");
        command
            .arg("--default-signal=HUP")
            .arg(format!("NOTIFY_SOCKET={}", path.display()));
        command.arg(broker.get_program()).args(broker.get_args());
        command
    });
    let id = i32::try_from(broker.process.id()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::HUP).unwrap();
    let said = line(
        &mut broker.log,
        "there are no keys, certificates or tokens to be read again; \
         `forebay cluster config` and a restart change settings",
    );
    assert_eq!(said["signal"], "SIGHUP");
    api_versions(&broker.connect());
    assert!(broker.stop(Signal::TERM).success());
}

#[test]
fn the_first_line_of_the_log_says_which_program_it_is() {
    // Ends at once: there can be no directory in a device.
    let output = command(Path::new("/dev/null/data"), &[]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let first: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(first["message"], "forebay", "{said}");
    assert_eq!(first["version"], env!("CARGO_PKG_VERSION"), "{said}");
    assert_eq!(first["commit"], env!("BUILD_COMMIT"), "{said}");
}

/// What systemd hears of a service of `Type=notify` with `WatchdogSec=`.
#[test]
fn a_service_manager_hears_that_the_server_is_ready_alive_and_stopping() {
    for watchdog in ["shard.watchdog.ms=30000", "shard.watchdog.ms=0"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let heard = || {
            let mut bytes = [0; 256];
            let len = manager.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..len].to_vec()).unwrap()
        };
        let mut broker = Broker::start_with(|| {
            let mut command = command(&dir.path().join("data"), &[watchdog]);
            command
                .env("NOTIFY_SOCKET", &path)
                .env("WATCHDOG_USEC", "300000");
            command
        });
        assert!(heard().starts_with("STATUS=opening logs"));
        let mut fed = 0;
        let mut ready = false;
        while fed < 3 || !ready {
            match heard().as_str() {
                "WATCHDOG=1" => fed += 1,
                said => {
                    assert_eq!(said, "READY=1\nSTATUS=serving");
                    assert!(!ready, "once");
                    ready = true;
                }
            }
        }
        assert!(broker.stop(Signal::TERM).success());
        let stopping = std::iter::repeat_with(heard).find(|said| said != "WATCHDOG=1");
        assert!(stopping.unwrap().starts_with("STOPPING=1\n"));
    }
}

#[test]
fn a_start_right_after_a_kill_waits_for_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let mut broker = Broker::start(dir.path(), &[]);
        broker.process.kill().unwrap();
        // Not waited for: it may still be there.
        drop(Broker::start(dir.path(), &[]));
    }
}

#[test]
fn health_and_metrics_are_answered_on_the_admin_port() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), &["num.shards=2"]);
    let client = broker.connect();
    api_versions(&client);
    assert!(broker.ask("GET", "/livez").0.starts_with("HTTP/1.1 200"));
    let (head, body) = broker.ask("GET", "/readyz");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let ready: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(ready["status"], "ready");
    assert_eq!(ready["logs_opened"], ready["logs_total"]);
    let (head, metrics) = broker.ask("GET", "/metrics");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    for line in [
        "kafka_server_socketservermetrics_connection_count{listener=\"PLAINTEXT\"} 1\n",
        "kafka_network_requestmetrics_requests_total{request=\"ApiVersions\",version=\"0\"} 1\n",
        concat!(
            "forebay_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\",commit=\"",
            env!("BUILD_COMMIT"),
            "\"} 1\n"
        ),
        "process_resident_memory_bytes ",
        "forebay_request_memory_bytes 0\n",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    assert_eq!(ready["reasons"], serde_json::json!([]));
    assert!(broker.ask("GET", "/other").0.starts_with("HTTP/1.1 404"));
    assert!(broker.ask("POST", "/livez").0.starts_with("HTTP/1.1 405"));
}

#[test]
fn probes_are_answered_while_other_clients_hold_connections_of_the_admin_port() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), &[]);
    let mut held = Vec::new();
    // Half a head each, and as many that do not take their answers.
    for sent in [
        "GET /livez HT",
        "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ] {
        for _ in 0..40 {
            let mut socket = TcpStream::connect(broker.admin).unwrap();
            socket.write_all(sent.as_bytes()).unwrap();
            held.push(socket);
        }
        // The answer comes long before any of them is cut off for its slowness.
        let asked = std::time::Instant::now();
        assert!(broker.ask("GET", "/livez").0.starts_with("HTTP/1.1 200"));
        assert!(
            asked.elapsed() < Duration::from_secs(5),
            "{:?}",
            asked.elapsed()
        );
    }
}

#[test]
fn a_name_that_is_not_the_brokers_is_not_answered_on_the_admin_port() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), &[]);
    let mut socket = TcpStream::connect(broker.admin).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = b"GET /readyz HTTP/1.1\r\nhost: evil.example\r\n\r\n";
    socket.write_all(request).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

/// Sends this head to the admin port; returns the answer.
fn admin_answer(broker: &Broker, head: &str) -> String {
    let mut socket = TcpStream::connect(broker.admin).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_request_with_two_hosts_is_malformed_on_the_admin_port() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), &[]);
    for hosts in [
        "host: 127.0.0.1\r\nhost: 127.0.0.1",
        "host: 127.0.0.1\r\nHost: evil.example",
    ] {
        let answer = admin_answer(&broker, &format!("GET /livez HTTP/1.1\r\n{hosts}\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
}

#[test]
fn head_is_answered_as_get_is_but_without_the_body() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().display();
    let settings = [
        "storage.tiers=only".to_owned(),
        format!("storage.tier.only.paths={home}"),
    ];
    let broker = Broker::start(dir.path(), &settings.each_ref().map(String::as_str));
    for path in ["/livez", "/readyz", "/metrics", "/tiers", "/tiers/segments"] {
        let (head, body) = broker.ask("HEAD", path);
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        assert_eq!(body, "", "{path}");
        assert!(broker.ask("GET", path).0.starts_with("HTTP/1.1 200"));
    }
    for (path, allowed) in [("/tiers", "GET, HEAD"), ("/tiers/segments", "GET, HEAD")] {
        let (head, _) = broker.ask("POST", path);
        assert!(head.starts_with("HTTP/1.1 405"), "{path}: {head}");
        assert!(head.contains(&format!("allow: {allowed}")), "{head}");
    }
    let (head, _) = broker.ask("HEAD", "/tiers/move");
    assert!(head.starts_with("HTTP/1.1 405"), "{head}");
    assert!(head.contains("allow: POST"), "{head}");
}

/// `docs/metrics.md` names each metric as a query does: a counter with `_total`, an info with
/// `_info`.
#[test]
fn every_metric_is_documented() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), &[]);
    let (_, metrics) = broker.ask("GET", "/metrics");
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    for line in metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
    {
        let (name, _) = line.split_once(' ').unwrap();
        assert!(
            docs.contains(&format!("| `{name}` |")),
            "{name} is not in docs/metrics.md"
        );
    }
}

#[test]
fn a_second_start_on_the_directory_is_refused_and_names_the_holder() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), &[]);
    let second = command(dir.path(), &[]).output().unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(
        said.contains(&format!("process {}", broker.process.id())),
        "{said}"
    );
    assert!(said.contains(dir.path().to_str().unwrap()), "{said}");
}

#[test]
fn an_address_in_use_is_refused_and_named() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let broker = Broker::start(one.path(), &[]);
    let check = |setting: String, expected: String| {
        let second = command(other.path(), &[&setting]).output().unwrap();
        assert!(!second.status.success());
        let said = String::from_utf8(second.stderr).unwrap();
        assert!(
            said.contains(&expected) && said.contains("in use"),
            "{said}"
        );
    };
    let (address, admin) = (broker.address, broker.admin);
    let listener = format!("PLAINTEXT://{address}");
    check(
        format!("listeners={listener}"),
        format!("cannot listen on {listener}"),
    );
    check(
        format!("admin.listener={admin}"),
        format!("cannot listen on admin.listener={admin}"),
    );
}

#[test]
fn what_is_no_frame_closes_the_connection_with_one_line_that_names_the_peer() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(dir.path(), &["socket.request.max.bytes=1000"]);
    let socket = broker.connect();
    let peer = socket.local_addr().unwrap().to_string();
    assert!(read_to_end(socket, &1001_i32.to_be_bytes()).is_empty());
    let closed = line(&mut broker.log, "connection closed");
    assert_eq!(closed["peer"], peer);
    assert_eq!(
        closed["reason"],
        "frame of 1001 bytes is larger than the maximum of 1000"
    );
    api_versions(&broker.connect());
}

#[test]
fn a_connection_above_the_bound_is_refused_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(dir.path(), &["max.connections=1", "num.shards=2"]);
    let first = broker.connect();
    api_versions(&first);
    // Outside of all bounds, for 127.0.0.1 alone.
    let own: Vec<_> = (0..4).map(|_| broker.connect()).collect();
    own.iter().for_each(api_versions);
    let mut second = broker.connect();
    assert_eq!(second.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(
        line(&mut broker.log, "connection refused, the bound is reached")["setting"],
        "max.connections"
    );
    api_versions(&first);
    let (_, metrics) = broker.ask("GET", "/metrics");
    assert!(metrics.contains("forebay_connections_refused_total{reason=\"max.connections\"} 1\n"));
    drop(first);
    // The broker sees the end of the first when it sees it; a refused client tries again.
    while !is_served(&broker) {}
    assert!(broker.stop(Signal::TERM).success());
}

#[test]
fn an_idle_connection_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), &["connections.max.idle.ms=100"]);
    let mut socket = broker.connect();
    assert_eq!(socket.read(&mut [0; 1]).unwrap(), 0);
}

/// Two tiers, the first declared to be persistent memory, which the tests' directory is not.
fn mapped(fast: &Path, bulk: &Path, durability: &str) -> Vec<String> {
    vec![
        "storage.tiers=fast,bulk".to_owned(),
        format!("storage.tier.fast.paths={}", fast.display()),
        format!("storage.tier.fast.durability={durability}"),
        "storage.tier.fast.medium=dax".to_owned(),
        "storage.tier.fast.capacity=16MiB".to_owned(),
        format!("storage.tier.bulk.paths={}", bulk.display()),
        "log.pmem.pool.ratio=0.25".to_owned(),
        "log.segment.bytes=1048576".to_owned(),
    ]
}

#[test]
fn a_durable_tier_on_a_mount_that_is_not_dax_refuses_the_start_and_says_so() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (fast, bulk) = (dir.path().join("fast"), dir.path().join("bulk"));
    let settings = mapped(&fast, &bulk, "durable");
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let refused = command(&fast, &settings).output().unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8(refused.stderr).unwrap();
    let path = fast.to_str().unwrap();
    for what in [
        "storage.tier.fast.medium=dax",
        path,
        "not on a DAX mount",
        "dax=always",
    ] {
        assert!(said.contains(what), "{what} is not in\n{said}");
    }
}

#[test]
fn a_log_that_nobody_reads_any_more_does_not_end_the_broker() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = command(dir.path(), &[]).spawn().unwrap();
    let mut log = BufReader::new(process.stderr.take().unwrap());
    line(&mut log, "ready");
    drop(log);
    let pid = Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let ended = process.wait().unwrap();
    assert!(ended.success(), "it says that it stops, to nobody: {ended}");
}

#[test]
fn a_lower_path_that_cannot_be_locked_is_named_and_the_rest_starts() {
    let dir = tempfile::tempdir().unwrap();
    let (fast, bulk) = (dir.path().join("fast"), dir.path().join("bulk"));
    // As on a disk that is read-only or broken, the file cannot be opened.
    std::fs::create_dir_all(bulk.join(".lock")).unwrap();
    let settings = [
        "storage.tiers=fast,bulk".to_owned(),
        format!("storage.tier.fast.paths={}", fast.display()),
        format!("storage.tier.bulk.paths={}", bulk.display()),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut process = command(&fast, &settings).spawn().unwrap();
    let mut log = BufReader::new(process.stderr.take().unwrap());
    let said = line(&mut log, "a path of a tier cannot be locked");
    assert_eq!(said["dir"], bulk.to_str().unwrap());
    line(&mut log, "ready");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn a_volatile_tier_on_such_a_mount_is_emulated_and_every_report_says_so() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (fast, bulk) = (dir.path().join("fast"), dir.path().join("bulk"));
    let settings = mapped(&fast, &bulk, "volatile");
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut process = command(&fast, &settings).spawn().unwrap();
    let mut log = BufReader::new(process.stderr.take().unwrap());
    let emulated = "not a DAX mount: the medium dax is EMULATED, nothing on it is durable";
    let said = line(&mut log, emulated);
    assert_eq!(
        (&said["tier"], &said["dir"]),
        (&"fast".into(), &fast.to_str().into())
    );
    let listening = line(&mut log, "listening");
    let ready = line(&mut log, "ready");
    let broker = Broker {
        process,
        log,
        address: (
            [127, 0, 0, 1],
            u16::try_from(listening["port"].as_u64().unwrap()).unwrap(),
        )
            .into(),
        admin: ready["admin"].as_str().unwrap().parse().unwrap(),
    };
    // A quarter of 16 MiB, but for what the metadata log takes, is made in the background in files
    // of a segment's length.
    let status = wait_for_status(&broker, |status| {
        status["tiers"][0]["pooled_bytes"] == 3 << 20
    });
    let [fast_tier, bulk_tier] = [&status["tiers"][0], &status["tiers"][1]];
    assert_eq!(
        (&fast_tier["medium"], &fast_tier["emulated"]),
        (&"dax".into(), &true.into())
    );
    assert_eq!(fast_tier["paths"][0]["emulated"], true);
    let used = fast_tier["used_bytes"].as_u64().unwrap();
    assert!(used < 1 << 20, "the pool is not data: {used}");
    assert_eq!(
        (&bulk_tier["emulated"], &bulk_tier["pooled_bytes"]),
        (&false.into(), &0.into())
    );
    let entries = std::fs::read_dir(&fast).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.ends_with(".pooled")).count(), 3);
    let metrics = broker.ask("GET", "/metrics").1;
    assert!(
        metrics.contains("forebay_tier_emulated{tier=\"fast\"} 1"),
        "{metrics}"
    );
    let admin = broker.admin.to_string();
    let shown = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["tier", "--admin", &admin, "status"])
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("fast (dax EMULATED, volatile)"), "{shown}");
    assert!(
        shown.contains("3.0 MiB of that in files made in advance"),
        "{shown}"
    );
}

/// What `/tiers` answers, as soon as it is so.
fn wait_for_status(broker: &Broker, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let status: Value = serde_json::from_str(&broker.ask("GET", "/tiers").1).unwrap();
        if is_so(&status) {
            return status;
        }
        assert!(
            std::time::Instant::now() < deadline,
            "not in time: {status}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn settings_come_from_file_environment_and_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.properties");
    std::fs::write(
        &file,
        "socket.request.max.bytes=10\nconnections.max.idle.ms=50\nlog.dirz=x\n",
    )
    .unwrap();
    let mut process = command(&dir.path().join("data"), &["--config"])
        .arg(&file)
        .env("FOREBAY_SOCKET_REQUEST_MAX_BYTES", "20")
        .env("FOREBAY_CONNECTIONS_MAX_IDLE_MS", "60000")
        .spawn()
        .unwrap();
    let mut log = BufReader::new(process.stderr.take().unwrap());
    assert_eq!(
        line(&mut log, "unknown key, is log.dirs meant?")["key"],
        "log.dirz"
    );
    let port = line(&mut log, "listening")["port"].as_u64().unwrap();
    let mut socket = TcpStream::connect(("127.0.0.1", u16::try_from(port).unwrap())).unwrap();
    assert!(read_to_end(socket.try_clone().unwrap(), &21_i32.to_be_bytes()).is_empty());
    assert_eq!(socket.read(&mut [0; 1]).unwrap_or(0), 0);
    let reason = line(&mut log, "connection closed")["reason"].clone();
    assert_eq!(reason, "frame of 21 bytes is larger than the maximum of 20");
    process.kill().unwrap();
    process.wait().unwrap();
}
