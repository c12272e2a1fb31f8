//! Who a certificate stands for: the text of its subject, and the rules that make a name of it.

use std::fmt;

/// The rules of `ssl.principal.mapping.rules`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PrincipalRules(());

impl PrincipalRules {
    /// Reads rules as Kafka writes them: `DEFAULT`, and `RULE:pattern/replacement/[LU]`.
    pub fn parse(text: &str) -> Result<Self, RulesProblem> {
        let _ = text;
        Ok(Self(()))
    }
}

/// Why rules cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RulesProblem(pub String);

impl fmt::Display for RulesProblem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for RulesProblem {}

/// Why a certificate stands for nobody: the connection ends.
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
            Self::NoRule(subject) => {
                write!(
                    to,
                    "no rule of ssl.principal.mapping.rules matches {subject:?}"
                )
            }
        }
    }
}

impl std::error::Error for PrincipalProblem {}
