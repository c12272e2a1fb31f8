//! What is shown of certificates, and how serious it is: shared by servers and files.
//!
//! Pure. Invariant: the status of a report is that of the worst thing in it.

use std::process::ExitCode;

use serde::Serialize;
use tls::inspect::CertificateView;

use crate::moment;
use crate::show::Table;

/// Certificates of one chain or file that are shown.
const SHOWN_MAX: usize = 20;
/// Seconds of a day.
const DAY: i64 = 86_400;

/// How serious it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    #[default]
    Fine,
    /// A certificate ends soon.
    Expires,
    Broken,
}

impl Status {
    /// Returns the exit code: 0, 3 or 1.
    pub(super) fn exit_code(self) -> ExitCode {
        match self {
            Self::Fine => ExitCode::SUCCESS,
            Self::Expires => ExitCode::from(3),
            Self::Broken => ExitCode::FAILURE,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Expires => "expires",
            Self::Broken => "broken",
        }
    }
}

/// When it is, and how early an end is worth a warning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Seconds since the beginning of 1970.
    pub(super) now: i64,
    pub(super) warn_days: u32,
}

/// What is wrong, and what is worth knowing.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub(super) struct Findings {
    pub(super) status: Status,
    pub(super) problems: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Findings {
    pub(super) fn broken(&mut self, problem: String) {
        self.status = Status::Broken;
        self.problems.push(problem);
    }

    pub(super) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// Looks at the time of a certificate.
    pub(super) fn judge_time(&mut self, what: &str, view: &CertificateView, clock: Clock) {
        let left = days_left(view, clock);
        if view.not_after < clock.now {
            let ended = moment::utc(view.not_after.saturating_mul(1000));
            self.broken(format!("{what} has expired on {ended}: {}", view.subject));
        } else if view.not_before > clock.now {
            let begins = moment::utc(view.not_before.saturating_mul(1000));
            self.broken(format!(
                "{what} is not valid before {begins}: {}",
                view.subject
            ));
        } else if left < i64::from(clock.warn_days) {
            self.status = self.status.max(Status::Expires);
            self.warn(format!("{what} expires in {left} days: {}", view.subject));
        }
    }

    /// Adds the rows that say what is wrong.
    pub(super) fn rows(&self, table: &mut Table) {
        for problem in &self.problems {
            table.row(["problem".to_owned(), problem.clone()]);
        }
        for warning in &self.warnings {
            table.row(["warning".to_owned(), warning.clone()]);
        }
    }
}

fn days_left(view: &CertificateView, clock: Clock) -> i64 {
    view.not_after.saturating_sub(clock.now).div_euclid(DAY)
}

/// One certificate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Certificate {
    subject: String,
    issuer: String,
    names: Vec<String>,
    valid_from: String,
    valid_until: String,
    days_left: i64,
    key: String,
    key_bits: Option<usize>,
    serial: String,
    sha256: String,
    is_authority: bool,
}

impl Certificate {
    pub(super) fn of(view: &CertificateView, clock: Clock) -> Self {
        let mut names = view.names.clone();
        if view.more_names > 0 {
            names.push(format!("{} more", view.more_names));
        }
        Self {
            subject: view.subject.clone(),
            issuer: view.issuer.clone(),
            names,
            valid_from: moment::utc(view.not_before.saturating_mul(1000)),
            valid_until: moment::utc(view.not_after.saturating_mul(1000)),
            days_left: days_left(view, clock),
            key: view.key.clone(),
            key_bits: view.key_bits,
            serial: view.serial.clone(),
            sha256: view.fingerprint.clone(),
            is_authority: view.is_authority,
        }
    }

    /// Adds the rows of the certificate; `what` is what it is in the report.
    pub(super) fn rows(&self, what: &str, table: &mut Table) {
        let bits = self
            .key_bits
            .map_or_else(String::new, |bits| format!(", {bits} bits"));
        let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
        row(what, self.subject.clone());
        row("  issuer", self.issuer.clone());
        if !self.names.is_empty() {
            row("  names", self.names.join(", "));
        }
        let (from, until) = (&self.valid_from, &self.valid_until);
        row(
            "  valid",
            format!("{from} to {until}, {} days left", self.days_left),
        );
        row("  key", format!("{}{bits}", self.key));
        row("  sha256", self.sha256.clone());
    }
}

/// Returns the certificates that are shown, and how many are not.
pub(super) fn shown<'a>(
    views: impl IntoIterator<Item = &'a CertificateView>,
    clock: Clock,
) -> (Vec<Certificate>, usize) {
    let mut views = views.into_iter();
    let first = views.by_ref().take(SHOWN_MAX);
    let first = first.map(|view| Certificate::of(view, clock)).collect();
    (first, views.count())
}

/// Returns what is wrong with the order of a chain: each certificate is issued by the next one.
pub(super) fn order_problem(chain: &[CertificateView]) -> Option<String> {
    let pairs = chain.windows(2).zip(1_usize..);
    for (pair, number) in pairs {
        if let [one, next] = pair
            && !one.may_be_issued_by(next)
        {
            return Some(format!(
                "certificate {number} of the chain is not issued by certificate {}: {} by {}, then {}",
                number.saturating_add(1),
                one.subject,
                one.issuer,
                next.subject
            ));
        }
    }
    None
}
