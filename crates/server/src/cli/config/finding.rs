//! One thing that `forebay config check` has to say, in one of three groups.
//!
//! Invariant: the group says what follows from it, and nothing else decides the exit code.

use std::fmt;

use broker::unserved::UnservedItem;
use wire::text::EscapedText;

use crate::config::{Effect, Origin, Problem, Warning, impact};

/// What follows from a finding, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Group {
    /// The broker does not start.
    Refuses,
    /// Clients see something else than before, or than the file says.
    Changes,
    /// Nothing.
    NoEffect,
}

impl Group {
    pub(super) const ALL: [Self; 3] = [Self::Refuses, Self::Changes, Self::NoEffect];

    /// Returns its name for programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Refuses => "refuses",
            Self::Changes => "changes",
            Self::NoEffect => "no-effect",
        }
    }

    /// Returns its name for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Refuses => "refuses to start",
            Self::Changes => "changes what your clients see",
            Self::NoEffect => "no effect",
        }
    }
}

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Finding {
    pub(super) group: Group,
    /// Where it was found: a line of the file, or a directory.
    pub(super) place: String,
    /// The line, if it is one of the file.
    pub(super) line: Option<usize>,
    /// The setting, or the kind of what is in the directories.
    pub(super) key: String,
    /// The value that is refused.
    pub(super) value: Option<String>,
    /// What is wrong, or what follows.
    pub(super) what: String,
    /// What to do; empty if nothing has to be done.
    pub(super) advice: String,
}

impl Finding {
    pub(super) fn of_problem(problem: &Problem) -> Self {
        Self {
            group: Group::Refuses,
            place: problem.origin.to_string(),
            line: line_of(&problem.origin),
            key: problem.key.clone(),
            value: Some(problem.value.clone()),
            what: problem.allowed.clone(),
            advice: impact::remedy(&problem.key).unwrap_or_default().to_owned(),
        }
    }

    pub(super) fn of_warning(warning: &Warning) -> Self {
        Self {
            group: match warning.effect {
                Effect::Clients => Group::Changes,
                Effect::Mistake | Effect::Nothing => Group::NoEffect,
            },
            place: warning.origin.to_string(),
            line: line_of(&warning.origin),
            key: warning.key.clone(),
            value: None,
            what: warning.why.clone(),
            advice: warning.advice.clone(),
        }
    }

    /// A finding about the directory `dir`.
    pub(super) fn of_unserved(dir: &str, unserved: &UnservedItem) -> Self {
        let (what, count) = (unserved.what, unserved.count);
        let least = if unserved.is_cut { "at least " } else { "" };
        Self {
            group: Group::Changes,
            place: dir.to_owned(),
            line: None,
            key: unserved.kind.to_owned(),
            value: None,
            what: format!("{what} ({least}{count}, such as {})", unserved.example),
            advice: unserved.advice.to_owned(),
        }
    }

    /// Returns by what findings are ordered: group, and line of the file.
    pub(super) fn rank(&self) -> (Group, usize) {
        (self.group, self.line.unwrap_or(usize::MAX))
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "group": self.group.name(),
            "place": self.place,
            "line": self.line,
            "key": self.key,
            "value": self.value,
            "what": self.what,
            "advice": self.advice,
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "{}: {}",
            EscapedText(&self.place),
            EscapedText(&self.key)
        )?;
        if let Some(value) = &self.value {
            write!(to, "={}", EscapedText(value))?;
        }
        write!(to, ": {}", EscapedText(&self.what))
    }
}

/// Returns the line of the file, if it comes from one.
pub(super) fn line_of(origin: &Origin) -> Option<usize> {
    match origin {
        Origin::File(_, line) => Some(*line),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_counted_to_its_end_is_said_to_be_more() {
        let mut unserved = UnservedItem {
            kind: "share-groups",
            what: "not served",
            advice: "",
            count: 10,
            is_cut: false,
            example: "g".into(),
        };
        let said = |unserved: &UnservedItem| Finding::of_unserved("/d", unserved).what;
        assert_eq!(said(&unserved), "not served (10, such as g)");
        unserved.is_cut = true;
        assert_eq!(said(&unserved), "not served (at least 10, such as g)");
    }
}
