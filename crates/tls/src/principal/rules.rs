//! `ssl.principal.mapping.rules`: which name the subject of a certificate stands for.
//!
//! `DEFAULT` is the subject itself; `RULE:pattern/replacement/` with an `L` or `U` behind it, for
//! small or capital letters, is about subjects that the whole pattern matches. Commas separate
//! rules, a backslash takes the meaning from a slash, the first rule that matches wins.
//!
//! Invariants: rules mean what they mean in Kafka, or are refused when they are read; reading is
//! total and its result is bounded. A list without rules is refused: in Kafka no client with a
//! certificate gets in with one.

use std::fmt;
use std::sync::Arc;

use super::pattern::Pattern;
use super::replacement::Replacement;

/// Longest text of rules.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Most rules; each takes memory for its pattern.
const RULES_MAX: usize = 100;
/// How much of a rule a message repeats, in bytes.
const SHOWN_BYTES_MAX: usize = 60;

/// The rules of `ssl.principal.mapping.rules`.
#[derive(Clone)]
pub struct PrincipalRules {
    text: String,
    rules: Arc<[Rule]>,
}

#[derive(Clone, Debug)]
enum Rule {
    /// The subject itself.
    Subject,
    /// What a pattern makes of it.
    Pattern(Pattern, Replacement, Letters),
}

#[derive(Clone, Copy, Debug)]
enum Letters {
    AsTheyAre,
    Small,
    Capital,
}

/// Why rules cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RulesProblem(String);

impl fmt::Display for RulesProblem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for RulesProblem {}

impl PrincipalRules {
    /// Reads rules as Kafka writes them.
    pub fn parse(text: &str) -> Result<Self, RulesProblem> {
        if text.len() > TEXT_BYTES_MAX {
            let why = format!("must have at most {TEXT_BYTES_MAX} bytes");
            return Err(RulesProblem(why));
        }
        let mut rules = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            if rules.len() >= RULES_MAX {
                return Err(RulesProblem(format!("must have at most {RULES_MAX} rules")));
            }
            let (rule, after) = first_rule(rest).map_err(|why| about(rest, &why))?;
            rules.extend(rule);
            rest = after.trim_start();
        }
        if rules.is_empty() {
            let why = "must be DEFAULT, or rules such as RULE:^CN=(.*?),.*$/$1/";
            return Err(RulesProblem(why.into()));
        }
        Ok(Self {
            text: text.to_owned(),
            rules: rules.into(),
        })
    }

    /// Returns the name that a subject stands for; `None` if no rule is about it.
    pub fn name_of(&self, subject: &str) -> Option<String> {
        self.rules.iter().find_map(|rule| rule.apply(subject))
    }
}

/// The subject itself.
impl Default for PrincipalRules {
    fn default() -> Self {
        Self {
            text: "DEFAULT".to_owned(),
            rules: [Rule::Subject].into(),
        }
    }
}

/// The same text has the same meaning.
impl PartialEq for PrincipalRules {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PrincipalRules {}

impl fmt::Debug for PrincipalRules {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_tuple("PrincipalRules").field(&self.text).finish()
    }
}

impl Rule {
    fn apply(&self, subject: &str) -> Option<String> {
        match self {
            Self::Subject => Some(subject.to_owned()),
            Self::Pattern(pattern, replacement, letters) => {
                if !pattern.matches(subject) {
                    return None;
                }
                let put = |found: &regex::Captures<'_>, to: &mut String| {
                    replacement.write(found, to);
                };
                let name = pattern.replace(subject, put)?;
                if Replacement::is_too_long(&name) {
                    return None;
                }
                Some(match letters {
                    Letters::AsTheyAre => name,
                    Letters::Small => name.to_lowercase(),
                    Letters::Capital => name.to_uppercase(),
                })
            }
        }
    }
}

/// Reads the rule at the beginning; returns it, unless it is empty, and what is behind its comma.
fn first_rule(text: &str) -> Result<(Option<Rule>, &str), String> {
    if let Some(after) = text.strip_prefix("RULE:") {
        let (pattern, after) = up_to_slash(after).ok_or("has no / behind its pattern")?;
        let (replacement, after) = up_to_slash(after).ok_or("has no / behind its replacement")?;
        let (letters, after) = match after.split_at_checked(1) {
            Some(("L", after)) => (Letters::Small, after),
            Some(("U", after)) => (Letters::Capital, after),
            _ => (Letters::AsTheyAre, after),
        };
        let after = behind_comma(after).ok_or("has more behind its last / than L or U")?;
        let pattern = Pattern::parse(pattern)?;
        let group_of = |name: &str| pattern.group_of(name);
        let replacement = Replacement::parse(replacement, pattern.groups(), group_of)?;
        return Ok((Some(Rule::Pattern(pattern, replacement, letters)), after));
    }
    if let Some(after) = text.strip_prefix("DEFAULT").and_then(behind_comma) {
        return Ok((Some(Rule::Subject), after));
    }
    match behind_comma(text) {
        Some(after) => Ok((None, after)),
        None => Err("is neither DEFAULT nor RULE:pattern/replacement/".into()),
    }
}

/// Splits at the first slash that no backslash stands before.
fn up_to_slash(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '/' => return Some((text.get(..at)?, text.get(at.checked_add(1)?..)?)),
            _ => {}
        }
    }
    None
}

/// Returns what is behind the comma that comes next, or nothing at the end of the text.
fn behind_comma(text: &str) -> Option<&str> {
    let text = text.trim_start();
    if text.is_empty() {
        return Some(text);
    }
    text.strip_prefix(',')
}

fn about(rule: &str, why: &str) -> RulesProblem {
    let mut end = rule.len().min(SHOWN_BYTES_MAX);
    while !rule.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    let shown = rule.get(..end).unwrap_or_default();
    let more = if end < rule.len() { ".." } else { "" };
    RulesProblem(format!("{shown}{more}: {why}"))
}

#[cfg(test)]
mod tests;
