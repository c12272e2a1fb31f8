//! Who a certificate stands for: the text of its subject as Java writes it, and the rules that make
//! a name of that text.
//!
//! Invariant: a certificate that no rule matches gives no principal. Rules cannot be made to run
//! for long: patterns are matched in time that grows with the length of the subject, which has a
//! bound.

mod pattern;
mod replacement;
mod rules;
mod subject;

use std::fmt;

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

pub use rules::{PrincipalRules, RulesProblem};
pub use subject::{canonical_subject, subject_text};

/// The name of a client without a certificate.
const ANONYMOUS: &str = "ANONYMOUS";

/// Why a certificate gives no principal: the connection has to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PrincipalProblem {
    /// Its subject cannot be read.
    Unreadable,
    /// No rule matches its subject, which is this.
    NoRule(String),
}

impl fmt::Display for PrincipalProblem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => to.write_str("the subject of the certificate cannot be read"),
            Self::NoRule(subject) => write!(
                to,
                "no rule of ssl.principal.mapping.rules matches {subject:?}"
            ),
        }
    }
}

impl std::error::Error for PrincipalProblem {}

/// Returns the name of a client with this chain.
pub(crate) fn principal_of(
    rules: &PrincipalRules,
    chain: &[CertificateDer<'_>],
) -> Result<String, PrincipalProblem> {
    let Some(certificate) = chain.first() else {
        return Ok(ANONYMOUS.to_owned());
    };
    let (_, certificate) =
        X509Certificate::from_der(certificate).map_err(|_| PrincipalProblem::Unreadable)?;
    let subject = subject_text(certificate.subject().as_raw());
    let subject = subject.ok_or(PrincipalProblem::Unreadable)?;
    match rules.name_of(&subject) {
        Some(name) => Ok(name),
        None => Err(PrincipalProblem::NoRule(subject)),
    }
}
