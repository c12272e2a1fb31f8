//! `forebay tls check`: connects to servers as a client does and shows their TLS, or looks at files
//! with keys and certificates.
//!
//! It works against any server with TLS. Exit codes: 0 fine, 3 a certificate expires within
//! `--warn-days`, 1 broken. Text of a server is shown escaped.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use client::blocking::Client;
use client::inspect::{Acceptance, Inspection, inspect};
use client::settings::Tls;
use client::{ClientError, ClientSettings};
use platform::clock::Instant;
use platform::net::TcpNet;
use serde::Serialize;
use tls::inspect::CertificateView;

use super::files;
use super::view::{Certificate, Clock, Findings, order_problem, shown};
use crate::show::Table;
use crate::target::ChosenTarget;

const PROTOCOL: &str = "security.protocol";

#[derive(Debug, Args)]
pub(super) struct Check {
    /// Servers [default: the brokers of the command line, the file of properties or the profile].
    #[arg(value_name = "HOST:PORT")]
    servers: Vec<String>,
    /// Files to look at instead: PEM or PKCS#12. A key and its certificate may be in two of them.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "servers")]
    files: Vec<PathBuf>,
    /// File whose first line is the password of the files or of their keys.
    #[arg(long, value_name = "FILE", requires = "files")]
    password_file: Option<PathBuf>,
    /// Days before the end of a certificate from which on it counts as expiring.
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    warn_days: u32,
}

/// What was seen of one server.
#[derive(Debug, Serialize)]
struct ServerReport {
    server: String,
    #[serde(flatten)]
    findings: Findings,
    protocol: Option<String>,
    cipher: Option<String>,
    key_exchange: Option<String>,
    chain: Vec<Certificate>,
    /// Certificates that are not shown.
    more_certificates: usize,
    is_trusted: Option<bool>,
    is_for_host: Option<bool>,
    client_certificate: ClientCertificate,
    speaks_kafka: bool,
}

/// What became of the certificate of this client.
#[derive(Debug, Default, Serialize)]
struct ClientCertificate {
    is_asked: bool,
    shown: Vec<Certificate>,
    /// Whether the server goes on with it, or without one.
    is_accepted: Option<bool>,
}

impl Check {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let clock = Clock {
            now: jiff::Timestamp::now().as_second(),
            warn_days: self.warn_days,
        };
        if !self.files.is_empty() {
            let reports = files::reports(&self.files, self.password_file.as_deref(), clock)?;
            target.format.show(&reports, || files::text(&reports))?;
            let worst = reports.iter().map(|report| report.findings.status).max();
            return Ok(worst.unwrap_or_default().exit_code());
        }
        let reports = self.servers(target, clock)?;
        target.format.show(&reports, || {
            let each = reports.iter().map(ServerReport::text);
            each.collect::<Vec<_>>().join("\n")
        })?;
        let worst = reports.iter().map(|report| report.findings.status).max();
        Ok(worst.unwrap_or_default().exit_code())
    }

    fn servers(&self, target: &ChosenTarget, clock: Clock) -> anyhow::Result<Vec<ServerReport>> {
        let mut builder = target.settings()?;
        // The file may be one for another protocol; a login is not made here.
        builder.set(PROTOCOL, "SSL")?;
        let settings = target.finish(builder)?.client;
        let Some(tls) = settings.tls else {
            anyhow::bail!("{PROTOCOL}=SSL gives no TLS");
        };
        let servers = if self.servers.is_empty() {
            settings.bootstrap
        } else {
            let each = self
                .servers
                .iter()
                .map(|server| ClientSettings::new(server));
            let each = each.collect::<Result<Vec<_>, ClientError>>()?;
            each.into_iter()
                .flat_map(|settings| settings.bootstrap)
                .collect()
        };
        let client = Client::new()?;
        let each = servers.iter().map(|(host, port)| {
            let deadline = Instant::now() + target.within;
            let seen = client.run(inspect(&TcpNet, host, *port, &tls, deadline));
            ServerReport::of(format!("{host}:{port}"), seen, &tls, clock)
        });
        Ok(each.collect())
    }
}

impl ServerReport {
    fn of(server: String, seen: Result<Inspection, ClientError>, tls: &Tls, clock: Clock) -> Self {
        let mut findings = Findings::default();
        let seen = seen.unwrap_or_else(|error| {
            findings.broken(error.to_string());
            Inspection::default()
        });
        let chain = views(&seen.chain, "the server", &mut findings);
        judge_chain(&seen, &chain, &mut findings, clock);
        let own = views(&seen.own_chain, "this client", &mut findings);
        for view in &own {
            findings.judge_time("a certificate of this client", view, clock);
        }
        judge_client(&seen, tls, &mut findings);
        let (certificates, more_certificates) = shown(&chain, clock);
        let was_seen = !seen.chain.is_empty();
        Self {
            server,
            findings,
            chain: certificates,
            more_certificates,
            is_trusted: was_seen.then_some(seen.distrust.is_none()),
            is_for_host: was_seen.then_some(seen.other_name.is_none()),
            client_certificate: ClientCertificate {
                is_asked: seen.is_asked,
                shown: shown(&own, clock).0,
                is_accepted: match (&seen.acceptance, seen.is_asked) {
                    (Acceptance::Accepted, true) => Some(true),
                    (Acceptance::Refused(_), true) => Some(false),
                    _ => None,
                },
            },
            protocol: seen.protocol,
            cipher: seen.cipher,
            key_exchange: seen.key_exchange,
            speaks_kafka: seen.speaks_kafka,
        }
    }

    fn text(&self) -> String {
        let mut table = Table::plain();
        let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
        let yes = |is: bool| if is { "yes" } else { "no" };
        row(&self.server, self.findings.status.word().to_owned());
        if let (Some(protocol), Some(cipher)) = (&self.protocol, &self.cipher) {
            let group = self.key_exchange.as_deref().unwrap_or("-");
            row("protocol", format!("{protocol}, {cipher}, keys by {group}"));
            row("kafka", yes(self.speaks_kafka).to_owned());
        }
        for (name, is) in [
            ("trusted", self.is_trusted),
            ("for the host", self.is_for_host),
        ] {
            if let Some(is) = is {
                row(name, yes(is).to_owned());
            }
        }
        if self.protocol.is_some() || self.client_certificate.is_asked {
            row("client certificate", self.client_certificate.words());
        }
        for (certificate, number) in self.chain.iter().zip(1_usize..) {
            certificate.rows(&format!("certificate {number}"), &mut table);
        }
        if self.more_certificates > 0 {
            let more = format!("{} more", self.more_certificates);
            table.row(["certificates".to_owned(), more]);
        }
        for certificate in &self.client_certificate.shown {
            certificate.rows("of this client", &mut table);
        }
        self.findings.rows(&mut table);
        table.render()
    }
}

impl ClientCertificate {
    fn words(&self) -> String {
        let outcome = match self.is_accepted {
            Some(true) => "and the server goes on",
            Some(false) => "and the server refuses that",
            None => "and what the server makes of it is not known",
        };
        match (self.is_asked, self.shown.is_empty()) {
            (false, _) => "not asked for".to_owned(),
            (true, true) => format!("asked for, none was shown {outcome}"),
            (true, false) => format!("asked for, shown {outcome}"),
        }
    }
}

/// Reads the certificates of a chain.
fn views(chain: &[Vec<u8>], whose: &str, findings: &mut Findings) -> Vec<CertificateView> {
    let mut views = Vec::new();
    for (der, number) in chain.iter().zip(1_usize..) {
        match CertificateView::of(der) {
            Some(view) => views.push(view),
            None => findings.broken(format!("certificate {number} of {whose} cannot be read")),
        }
    }
    views
}

fn judge_chain(
    seen: &Inspection,
    chain: &[CertificateView],
    findings: &mut Findings,
    clock: Clock,
) {
    if let Some(failure) = &seen.failure {
        findings.broken(failure.clone());
    }
    for why in [&seen.distrust, &seen.other_name].into_iter().flatten() {
        findings.broken(why.clone());
    }
    for view in chain {
        findings.judge_time("a certificate of the server", view, clock);
    }
    if let Some(first) = chain.first().filter(|first| !first.is_for_servers) {
        findings.warn(format!(
            "the certificate is not for servers: {}",
            first.subject
        ));
    }
    if let Some(problem) = order_problem(chain) {
        // Java and others sort what they get; some clients do not.
        findings.warn(problem);
    }
    if chain.len() > 1 && chain.last().is_some_and(|last| last.is_self_issued) {
        findings.warn("the chain ends with a root, which clients have anyway".to_owned());
    }
}

fn judge_client(seen: &Inspection, tls: &Tls, findings: &mut Findings) {
    match &seen.acceptance {
        Acceptance::Refused(why) => findings.broken(why.clone()),
        Acceptance::Unknown(why) if seen.is_asked => {
            findings.broken(format!(
                "{why}: it may not take the certificate of this client"
            ));
        }
        Acceptance::Unknown(why) => findings.warn(why.clone()),
        Acceptance::Accepted if !seen.speaks_kafka => {
            findings.warn("it speaks TLS, and does not answer as a Kafka broker".to_owned());
        }
        Acceptance::Accepted | Acceptance::None => {}
    }
    if !seen.is_asked && seen.protocol.is_some() && tls.subject().is_some() {
        findings.warn("this client has a certificate, and the server asks for none".to_owned());
    }
    if seen.is_asked && seen.own_chain.is_empty() && seen.acceptance == Acceptance::Accepted {
        findings.warn("the server would take a certificate, and goes on without one".to_owned());
    }
}

#[cfg(test)]
mod tests;
