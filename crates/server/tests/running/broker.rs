//! A broker as a process, for tests from outside.

#![allow(dead_code, reason = "each test uses some of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A running broker; killed when dropped.
pub(crate) struct Broker {
    pub(crate) process: Child,
    pub(crate) log: BufReader<ChildStderr>,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn command(dir: &Path, settings: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command
        .args([
            "serve",
            "listeners=PLAINTEXT://127.0.0.1:0",
            "admin.listener=127.0.0.1:0",
        ])
        .args(["log.format=json", &format!("log.dirs={}", dir.display())])
        .args(settings)
        .stderr(Stdio::piped());
    command
}

impl Broker {
    pub(crate) fn start(dir: &Path, settings: &[&str]) -> Self {
        Self::start_with(|| command(dir, settings))
    }

    pub(crate) fn start_with(command: impl FnOnce() -> Command) -> Self {
        let mut process = command().stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let listening = line(&mut log, "listening");
        let ready = line(&mut log, "ready");
        let port = u16::try_from(listening["port"].as_u64().unwrap()).unwrap();
        let admin = ready["admin"].as_str().unwrap().parse().unwrap();
        Self {
            process,
            log,
            address: ([127, 0, 0, 1], port).into(),
            admin,
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// Head and body of the answer to a request on the admin port.
    pub(crate) fn ask(&self, method: &str, path: &str) -> (String, String) {
        let mut socket = TcpStream::connect(self.admin).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            socket,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    pub(crate) fn stop(&mut self, signal: Signal) -> ExitStatus {
        let id = i32::try_from(self.process.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
        self.process.wait().unwrap()
    }
}

/// The next line of the log with this message.
pub(crate) fn line(log: &mut impl BufRead, message: &str) -> Value {
    let mut seen = String::new();
    loop {
        let mut text = String::new();
        assert_ne!(
            log.read_line(&mut text).unwrap(),
            0,
            "no line {message:?} in\n{seen}"
        );
        seen.push_str(&text);
        let line: Value = serde_json::from_str(&text).unwrap_or_default();
        if line["message"] == message {
            return line;
        }
    }
}

/// `ApiVersions` version 0 with correlation id 7.
pub(crate) const API_VERSIONS: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0, 0];

pub(crate) fn api_versions(mut socket: &TcpStream) {
    socket.write_all(&API_VERSIONS).unwrap();
    let mut head = [0; 8];
    socket.read_exact(&mut head).unwrap();
    assert_eq!(head[4..], [0, 0, 0, 7], "the correlation id comes back");
    let len = usize::try_from(u32::from_be_bytes(*head.first_chunk().unwrap())).unwrap();
    socket.read_exact(&mut vec![0; len - 4]).unwrap();
}
