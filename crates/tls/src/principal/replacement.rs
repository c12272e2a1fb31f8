//! The second part of a rule: what stands in the place of a match, as Java's `replaceAll` reads it
//! after Kafka has changed it.
//!
//! `$1` is the first group, `${name}` one with a name, `\` takes the next letter as it is. As many
//! digits behind `$` count as make the number of a group. If even the first digit is the number of
//! no group, `$` and the digits stay as written: Kafka does that once for each rule with groups,
//! and fails for every client at the second, or where there are no groups. Such a rule is refused
//! when it is read.

use regex::Captures;

/// Longer names make no principals.
const NAME_BYTES_MAX: usize = 8192;

/// What stands in the place of a match.
#[derive(Clone, Debug)]
pub(super) struct Replacement(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Group(usize),
}

impl Replacement {
    /// Reads a replacement for a pattern with that many groups; some groups have names.
    pub(super) fn parse(
        java: &str,
        groups: usize,
        group_of: impl Fn(&str) -> Option<usize>,
    ) -> Result<Self, String> {
        let mut pieces = Pieces::default();
        let mut kept_as_written = 0_u32;
        let mut rest = java;
        while let Some(letter) = rest.chars().next() {
            rest = rest.get(letter.len_utf8()..).unwrap_or_default();
            match letter {
                '\\' => {
                    let next = rest.chars().next().ok_or("it ends in a backslash")?;
                    pieces.text(next);
                    rest = rest.get(next.len_utf8()..).unwrap_or_default();
                }
                '$' if rest.starts_with('{') => {
                    let inner = rest.get(1..).unwrap_or_default();
                    let (name, after) = inner.split_once('}').ok_or("${ has no }")?;
                    let group = group_of(name);
                    let group = group.ok_or("${..} names no group of the pattern")?;
                    pieces.group(group);
                    rest = after;
                }
                '$' => match reference(rest, groups)? {
                    Reference::Group(group, digits) => {
                        pieces.group(group);
                        rest = rest.get(digits..).unwrap_or_default();
                    }
                    Reference::AsWritten => {
                        pieces.text('$');
                        kept_as_written = kept_as_written.saturating_add(1);
                    }
                },
                other => pieces.text(other),
            }
        }
        if kept_as_written > 1 {
            return Err("it names two groups that the pattern does not have".into());
        }
        Ok(Self(pieces.0))
    }

    /// Writes it for one match. What goes beyond the longest name is left out, and
    /// [`Self::is_too_long`] tells.
    pub(super) fn write(&self, found: &Captures<'_>, to: &mut String) {
        for piece in &self.0 {
            if Self::is_too_long(to) {
                return;
            }
            match piece {
                Piece::Text(text) => to.push_str(text),
                Piece::Group(group) => {
                    to.push_str(found.get(*group).map_or("", |group| group.as_str()));
                }
            }
        }
    }

    /// Returns true for a name that is too long to be one.
    pub(super) fn is_too_long(name: &str) -> bool {
        name.len() > NAME_BYTES_MAX
    }
}

/// What the digits behind `$` mean.
enum Reference {
    /// A group, and how many digits its number has.
    Group(usize, usize),
    /// Nothing.
    AsWritten,
}

fn reference(rest: &str, groups: usize) -> Result<Reference, String> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let first = rest.chars().next().and_then(|digit| digit.to_digit(10));
    let (Some(first), true) = (first, digits > 0) else {
        return Err("$ is no reference to a group: write \\$ for the letter".into());
    };
    // Kafka reads all of them as one number of 32 bits.
    if digits > 9 {
        return Err("it names a group with too many digits".into());
    }
    let mut number = usize::try_from(first).unwrap_or(usize::MAX);
    if number > groups {
        return match groups {
            0 => Err("it names a group, and the pattern has none".into()),
            _ => Ok(Reference::AsWritten),
        };
    }
    let mut taken = 1;
    for digit in rest.bytes().take(digits).skip(1) {
        let digit = usize::from(digit.saturating_sub(b'0'));
        let longer = number.saturating_mul(10).saturating_add(digit);
        if longer > groups {
            break;
        }
        number = longer;
        taken += 1;
    }
    Ok(Reference::Group(number, taken))
}

#[derive(Default)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn text(&mut self, letter: char) {
        if let Some(Piece::Text(text)) = self.0.last_mut() {
            text.push(letter);
        } else {
            self.0.push(Piece::Text(letter.to_string()));
        }
    }

    fn group(&mut self, group: usize) {
        self.0.push(Piece::Group(group));
    }
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::Replacement;

    #[track_caller]
    fn check(java: &str, expect: Result<&str, ()>) {
        let pattern = Regex::new("(?<one>a)(b)?(c)").unwrap();
        let parsed = Replacement::parse(java, 3, |name| (name == "one").then_some(1));
        let written = parsed.map(|replacement| {
            let mut written = String::new();
            replacement.write(&pattern.captures("ac").unwrap(), &mut written);
            written
        });
        assert_eq!(written.as_deref().map_err(|_| ()), expect, "{java}");
    }

    #[test]
    fn groups_are_written_as_java_and_kafka_do() {
        check("$1-$2-$3", Ok("a--c"));
        check("$0", Ok("ac"));
        check("$01", Ok("a"));
        check("$12", Ok("a2"));
        check("${one}\\$1", Ok("a$1"));
        check("$1@$4", Ok("a@$4"));
        check("$49", Ok("$49"));
        check("\\/", Ok("/"));
        check("", Ok(""));
    }

    #[test]
    fn what_fails_for_every_client_of_kafka_is_refused() {
        for java in ["$", "$x", "${two}", "${one", "$4$5", "$4444444444"] {
            check(java, Err(()));
        }
        assert!(Replacement::parse("$1", 0, |_| None).is_err());
        assert!(Replacement::parse("a\\", 0, |_| None).is_err());
    }
}
