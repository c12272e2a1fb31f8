//! Files with keys and certificates: whether they can be read, belong together, are in order, in
//! their time, and closed to other users.
//!
//! Reading is [`tls::inspect`]'s; the judgement is pure. Invariant: nothing of a private key is
//! shown, and of a password nothing either.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tls::Password;
use tls::inspect::{self, CertificateView, InspectedFile};

use super::view::{Certificate, Clock, Findings, order_problem, shown};
use crate::show::Table;
use crate::user::password;

/// Bits of a file's mode that let others than its owner read it.
const READ_BY_OTHERS: u32 = 0o044;
/// Bits that let others than its owner write it.
const WRITTEN_BY_OTHERS: u32 = 0o022;

/// What was seen of one file.
#[derive(Debug, Serialize)]
pub(super) struct FileReport {
    pub(super) file: String,
    #[serde(flatten)]
    pub(super) findings: Findings,
    format: Option<&'static str>,
    /// As chmod writes it.
    mode: Option<String>,
    keys: usize,
    certificates: Vec<Certificate>,
    more_certificates: usize,
}

/// A file as it was read.
#[derive(Debug)]
struct ReadFile {
    path: PathBuf,
    mode: Option<u32>,
    seen: Result<InspectedFile, String>,
}

/// Reads files, and judges them together.
pub(super) fn reports(
    files: &[PathBuf],
    password_file: Option<&Path>,
    clock: Clock,
) -> anyhow::Result<Vec<FileReport>> {
    let password = match password_file {
        Some(path) => {
            let read = password::read(Some(path), "")?;
            Some(Password::new(read.expose().as_str()))
        }
        None => None,
    };
    let read = files.iter().map(|path| ReadFile {
        path: path.clone(),
        mode: fs::metadata(path)
            .ok()
            .map(|about| about.permissions().mode() & 0o7777),
        seen: inspect::file(path, password.as_ref()),
    });
    Ok(judge(&read.collect::<Vec<_>>(), clock))
}

fn judge(files: &[ReadFile], clock: Clock) -> Vec<FileReport> {
    let read = files.iter().filter_map(|file| file.seen.as_ref().ok());
    let all: Vec<&CertificateView> = read
        .flat_map(|seen| seen.certificates.iter().flatten())
        .collect();
    files.iter().map(|file| report(file, &all, clock)).collect()
}

fn report(file: &ReadFile, all: &[&CertificateView], clock: Clock) -> FileReport {
    let mut findings = Findings::default();
    let mut report = FileReport {
        file: file.path.display().to_string(),
        findings: Findings::default(),
        format: None,
        mode: file.mode.map(|mode| format!("{mode:04o}")),
        keys: 0,
        certificates: Vec::new(),
        more_certificates: 0,
    };
    match &file.seen {
        Err(why) => findings.broken(why.clone()),
        Ok(seen) => {
            let views: Vec<CertificateView> = seen.certificates.iter().flatten().cloned().collect();
            judge_contents(seen, &views, &mut findings, clock);
            judge_keys(seen, &views, all, &mut findings);
            judge_mode(file.mode, !seen.keys.is_empty(), &mut findings);
            (report.format, report.keys) = (Some(seen.format), seen.keys.len());
            (report.certificates, report.more_certificates) = shown(&views, clock);
        }
    }
    report.findings = findings;
    report
}

fn judge_contents(
    seen: &InspectedFile,
    views: &[CertificateView],
    findings: &mut Findings,
    clock: Clock,
) {
    if seen.keys.is_empty() && seen.certificates.is_empty() {
        findings.broken("it holds neither a key nor a certificate".to_owned());
    }
    for (view, number) in seen.certificates.iter().zip(1_usize..) {
        if view.is_none() {
            findings.broken(format!("certificate {number} cannot be read"));
        }
    }
    for view in views {
        findings.judge_time("a certificate", view, clock);
    }
    // Trusted certificates have no order; a chain begins with one that issues no others.
    let is_chain = views.first().is_some_and(|first| !first.is_authority);
    let is_chain = is_chain || !seen.keys.is_empty();
    if let Some(problem) = order_problem(views).filter(|_| is_chain && !seen.is_unordered) {
        findings.broken(problem);
    }
}

/// Looks for the certificate of each key: first in its file, or in another one.
fn judge_keys(
    seen: &InspectedFile,
    views: &[CertificateView],
    all: &[&CertificateView],
    findings: &mut Findings,
) {
    if seen.keys.len() > 1 && !seen.is_unordered {
        findings.broken("it holds more than one private key".to_owned());
    }
    for key in &seen.keys {
        let public = match key {
            Ok(public) => public,
            Err(why) => {
                findings.broken(why.clone());
                continue;
            }
        };
        let is_of = |view: &CertificateView| view.public_key == *public;
        match views.iter().position(is_of) {
            Some(0) => {}
            Some(_) if seen.is_unordered => {}
            Some(place) => findings.broken(format!(
                "the certificate of the key is number {}, and has to be the first",
                place.saturating_add(1)
            )),
            None if !views.is_empty() => {
                findings.broken("the key belongs to no certificate of its file".to_owned());
            }
            None if all.iter().any(|view| is_of(view)) => {}
            None if all.is_empty() => {
                findings.warn("no certificate was named to compare the key with".to_owned());
            }
            None => findings.broken("the key belongs to none of the certificates".to_owned()),
        }
    }
}

fn judge_mode(mode: Option<u32>, has_key: bool, findings: &mut Findings) {
    let Some(mode) = mode else { return };
    if has_key && mode & READ_BY_OTHERS != 0 {
        findings.warn(format!(
            "others than its owner may read this key (mode {mode:04o}): chmod 600"
        ));
    }
    if mode & WRITTEN_BY_OTHERS != 0 {
        findings.warn(format!(
            "others than its owner may write it (mode {mode:04o})"
        ));
    }
}

/// Returns the reports as text.
pub(super) fn text(reports: &[FileReport]) -> String {
    let each = reports.iter().map(|report| {
        let mut table = Table::plain();
        let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
        row(&report.file, report.findings.status.word().to_owned());
        if let Some(format) = report.format {
            let mode = report.mode.as_deref().unwrap_or("-");
            row(
                "form",
                format!("{format}, mode {mode}, {} private keys", report.keys),
            );
        }
        for (certificate, number) in report.certificates.iter().zip(1_usize..) {
            certificate.rows(&format!("certificate {number}"), &mut table);
        }
        if report.more_certificates > 0 {
            let more = format!("{} more", report.more_certificates);
            table.row(["certificates".to_owned(), more]);
        }
        report.findings.rows(&mut table);
        table.render()
    });
    each.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
