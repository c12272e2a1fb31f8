//! Patterns of rules: regular expressions as Java reads them, matched in time that grows with the
//! length of the text.
//!
//! A pattern is translated, letter by letter, into one that means the same here. What would mean
//! something else, or cannot be matched in such time, is refused with what to write instead:
//! look-around, references to groups, possessive repetition, nested sets, names of Unicode
//! properties.
//!
//! Invariants: a pattern that is taken matches what it matches in Java, as far as texts have no
//! line breaks; texts that have any match nothing. Not here: what follows from a match.

use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

use regex::{Captures, Regex, RegexBuilder};

/// Memory of a compiled pattern.
const COMPILED_BYTES_MAX: usize = 256 << 10;
/// Longest pattern.
const PATTERN_BYTES_MAX: usize = 4096;
/// More matches in one subject are not what a rule is for.
const MATCHES_MAX: usize = 100;

/// Letters that Java's case-insensitive matching, which knows ASCII only, tells apart from `k` and
/// `s`.
const FOLDED_ELSEWHERE: [char; 2] = ['\u{212a}', '\u{17f}'];
/// What Java ends lines at.
const LINE_ENDS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// Matches whole texts.
    whole: Regex,
    /// Matches in a text, one after another.
    inside: Regex,
    ignores_case: bool,
}

impl Pattern {
    /// Reads a pattern of Java, or returns what is wrong with it and what to write instead.
    pub(super) fn parse(java: &str) -> Result<Self, String> {
        if java.len() > PATTERN_BYTES_MAX {
            return Err(format!(
                "its pattern is longer than {PATTERN_BYTES_MAX} bytes"
            ));
        }
        let mut translation = Translation {
            rest: java.chars().peekable(),
            to: String::with_capacity(java.len()),
            ignores_case: false,
        };
        translation.run()?;
        let Translation {
            to, ignores_case, ..
        } = translation;
        let compile = |text: &str| {
            let compiled = RegexBuilder::new(text)
                .size_limit(COMPILED_BYTES_MAX)
                .build();
            compiled.map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => "its pattern takes too much memory".to_owned(),
                _ => "its pattern is no regular expression".to_owned(),
            })
        };
        Ok(Self {
            whole: compile(&format!("\\A(?:{to})\\z"))?,
            inside: compile(&to)?,
            ignores_case,
        })
    }

    /// Returns how many groups it has.
    pub(super) fn groups(&self) -> usize {
        self.inside.captures_len().saturating_sub(1)
    }

    /// Returns the number of the group of that name.
    pub(super) fn group_of(&self, name: &str) -> Option<usize> {
        let mut names = self.inside.capture_names();
        names.position(|known| known == Some(name))
    }

    /// Returns true if the whole text matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        if text.contains(LINE_ENDS) || (self.ignores_case && text.contains(FOLDED_ELSEWHERE)) {
            return false;
        }
        self.whole.is_match(text)
    }

    /// Puts `put` in the place of each match, as `String.replaceAll` does: an empty match directly
    /// behind another one counts. `None` if there are too many.
    pub(super) fn replace(
        &self,
        text: &str,
        mut put: impl FnMut(&Captures<'_>, &mut String),
    ) -> Option<String> {
        let mut replaced = String::with_capacity(text.len());
        let (mut copied, mut at) = (0, 0);
        for _ in 0..MATCHES_MAX {
            let found = (at <= text.len()).then(|| self.inside.captures_at(text, at));
            let Some(found) = found.flatten() else {
                replaced.push_str(text.get(copied..)?);
                return Some(replaced);
            };
            let place = found.get(0)?;
            replaced.push_str(text.get(copied..place.start())?);
            put(&found, &mut replaced);
            copied = place.end();
            let step = if place.is_empty() {
                let next = text.get(copied..)?.chars().next();
                next.map_or(1, char::len_utf8)
            } else {
                0
            };
            at = copied.checked_add(step)?;
        }
        None
    }
}

/// A pattern that is being translated. Writing to a `String` cannot fail.
struct Translation<'a> {
    rest: Peekable<Chars<'a>>,
    to: String,
    ignores_case: bool,
}

impl Translation<'_> {
    fn run(&mut self) -> Result<(), String> {
        while let Some(letter) = self.rest.next() {
            match letter {
                '\\' => self.escape()?,
                '[' => self.set()?,
                '(' => self.group()?,
                '*' | '+' | '?' => {
                    self.to.push(letter);
                    self.repetition()?;
                }
                '{' => self.count()?,
                '.' | '^' | '$' | '|' | ')' => self.to.push(letter),
                other => self.literal(other),
            }
        }
        Ok(())
    }

    fn literal(&mut self, letter: char) {
        self.to
            .push_str(&regex::escape(letter.encode_utf8(&mut [0; 4])));
    }

    /// What may stand behind a repetition.
    fn repetition(&mut self) -> Result<(), String> {
        match self.rest.peek() {
            Some('+') => Err("possessive repetition (such as *+) is not served: write *".into()),
            Some('?') => {
                self.rest.next();
                self.to.push('?');
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self) -> Result<(), String> {
        let mut text = String::from("{");
        for letter in self.rest.by_ref() {
            text.push(letter);
            match letter {
                '0'..='9' | ',' => {}
                '}' => {
                    self.to.push_str(&text);
                    return self.repetition();
                }
                _ => break,
            }
        }
        Err("{ begins no count of repetitions: write \\{ for the letter".into())
    }

    fn group(&mut self) -> Result<(), String> {
        self.to.push('(');
        if self.rest.peek() != Some(&'?') {
            return Ok(());
        }
        self.rest.next();
        match self.rest.next() {
            Some(':') => self.to.push_str("?:"),
            Some('<') => self.group_name()?,
            Some('i') => {
                let end = self.rest.next().filter(|end| [':', ')'].contains(end));
                let end = end.ok_or("of flags only (?i) is served")?;
                self.to.push_str("?i");
                self.to.push(end);
                self.ignores_case = true;
            }
            Some('=' | '!') => return Err(LOOK_AROUND.into()),
            Some('>') => return Err("(?>..) is not served: write (?:..)".into()),
            _ => return Err("of flags only (?i) is served".into()),
        }
        Ok(())
    }

    fn group_name(&mut self) -> Result<(), String> {
        let mut name = String::new();
        for letter in self.rest.by_ref() {
            match letter {
                'a'..='z' | 'A'..='Z' | '0'..='9' => name.push(letter),
                '>' => {
                    let _ = write!(self.to, "?<{name}>");
                    return Ok(());
                }
                '=' | '!' if name.is_empty() => return Err(LOOK_AROUND.into()),
                _ => break,
            }
        }
        Err("the name of a group is not letters and digits".into())
    }

    /// A letter behind a backslash, outside of sets.
    fn escape(&mut self) -> Result<(), String> {
        let letter = self.rest.next().ok_or("it ends in a backslash")?;
        match letter {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => {
                let (members, is_without) = members_of(letter);
                let not = if is_without { "^" } else { "" };
                let _ = write!(self.to, "[{not}{members}]");
            }
            'b' => self.to.push_str("(?-u:\\b)"),
            'A' | 'z' => self.to.extend(['\\', letter]),
            'Z' => self.to.push_str("\\z"),
            'Q' => self.quoted(),
            '0'..='9' | 'k' => {
                return Err("references to groups are not served in patterns".into());
            }
            other => {
                let meant = self.named_letter(other)?;
                self.literal(meant);
            }
        }
        Ok(())
    }

    /// Everything up to `\E`, or the end.
    fn quoted(&mut self) {
        while let Some(letter) = self.rest.next() {
            if letter == '\\' && self.rest.peek() == Some(&'E') {
                self.rest.next();
                return;
            }
            self.literal(letter);
        }
    }

    /// Returns the letter that `\` and `letter` stand for.
    fn named_letter(&mut self, letter: char) -> Result<char, String> {
        let digits = match letter {
            't' => return Ok('\t'),
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            'f' => return Ok('\u{c}'),
            'a' => return Ok('\u{7}'),
            'x' => 2,
            'u' => 4,
            'p' | 'P' => {
                return Err("\\p is not served: write a set such as [A-Za-z]".into());
            }
            other if other.is_ascii_alphabetic() => {
                return Err(format!("\\{other} is not served"));
            }
            other => return Ok(other),
        };
        let mut number = 0_u32;
        for _ in 0..digits {
            let digit = self.rest.next().and_then(|digit| digit.to_digit(16));
            let digit = digit.ok_or("\\x wants two digits, \\u four")?;
            number = number.wrapping_mul(16).wrapping_add(digit);
        }
        char::from_u32(number).ok_or_else(|| "\\u names no letter".into())
    }

    /// A set in brackets.
    fn set(&mut self) -> Result<(), String> {
        self.to.push('[');
        if self.rest.peek() == Some(&'^') {
            self.rest.next();
            self.to.push('^');
        }
        let mut is_first = true;
        while let Some(letter) = self.rest.next() {
            match letter {
                ']' if !is_first => {
                    self.to.push(']');
                    return Ok(());
                }
                '\\' => self.escape_in_set()?,
                '[' => return Err("[ in a set is not served: write \\[ for the letter".into()),
                '&' if self.rest.peek() == Some(&'&') => {
                    return Err("&& in a set is not served".into());
                }
                '-' if self.rest.peek() == Some(&'-') => {
                    return Err("-- in a set is not served: write \\- for the letter".into());
                }
                '-' => self.to.push('-'),
                other => self.member(other),
            }
            is_first = false;
        }
        Err("a set has no ]".into())
    }

    fn escape_in_set(&mut self) -> Result<(), String> {
        let letter = self.rest.next().ok_or("it ends in a backslash")?;
        match letter {
            'd' | 'w' | 's' => self.to.push_str(members_of(letter).0),
            'D' | 'W' | 'S' => {
                let (members, _) = members_of(letter);
                let _ = write!(self.to, "[^{members}]");
            }
            'Q' => return Err("\\Q in a set is not served".into()),
            '0'..='9' => return Err("\\0 in a set is not served: write \\x00".into()),
            other => {
                let meant = self.named_letter(other)?;
                self.member(meant);
            }
        }
        Ok(())
    }

    fn member(&mut self, letter: char) {
        if "\\[]^&~-".contains(letter) {
            self.to.push('\\');
        }
        self.to.push(letter);
    }
}

const LOOK_AROUND: &str = "look-around such as (?=..) is not served: match it, and leave it out of \
                           the replacement";

/// Returns the members of a class of ASCII, and whether all but them are meant.
fn members_of(class: char) -> (&'static str, bool) {
    let members = match class.to_ascii_lowercase() {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        _ => " \\t\\n\\x0B\\f\\r",
    };
    (members, class.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Pattern;

    #[track_caller]
    fn check(java: &str, text: &str, expect: bool) {
        let pattern = Pattern::parse(java).unwrap_or_else(|why| panic!("{java}: {why}"));
        assert_eq!(pattern.matches(text), expect, "{java} {text}");
    }

    #[test]
    fn a_pattern_means_what_it_means_in_java() {
        check("CN=(.*?),OU=.*", "CN=a,OU=b", true);
        check("CN=(.*?)", "CN=a,OU=b", true);
        check("CN=[^,]*", "CN=a,OU=b", false);
        check("a|ab", "ab", true);
        check("\\d+", "\u{664}", false);
        check("\\w+", "caf\u{e9}", false);
        check("[\\w.-]+", "a-b.c_9", true);
        check("[^\\s]+", "a\u{a0}b", true);
        check("[\\D]+", "ab", true);
        check("[]a]+", "]a", true);
        check("[~#&]+", "~#&", true);
        check("\\Qa.b\\E.c", "a.bxc", true);
        check("\\Qa.b\\E.c", "axbxc", false);
        check("(?i)cn=K", "CN=k", true);
        check("(?i)k", "\u{212a}", false);
        check("a{2,3}", "aaa", true);
        check("\\u0041\\x42\\/", "AB/", true);
        check("\\<a\\>", "<a>", true);
        check(".*", "a\nb", false);
        check("[\\s\\S]*", "a\u{2028}b", false);
        check("(?<who>a)b$", "ab", true);
    }

    #[test]
    fn what_would_mean_something_else_is_refused() {
        for java in [
            "a*+",
            "a++b",
            "a{2}+",
            "(?=a)",
            "(?!a)",
            "(?<=a)b",
            "(?<!a)b",
            "(?>a)",
            "(?s)a",
            "(?m)a",
            "(a)\\1",
            "\\k<a>",
            "\\p{L}",
            "[a[b]]",
            "[a&&b]",
            "[a--b]",
            "\\h",
            "\\B",
            "\\R",
            "\\G",
            "a{",
            "a{x}",
            "(",
            "a)",
            "[a",
            "a\\",
            "\\uD800",
            "[\\Qa\\E]",
            "*",
        ] {
            assert!(Pattern::parse(java).is_err(), "{java}");
        }
        assert!(Pattern::parse(&"a".repeat(5000)).is_err());
        assert!(Pattern::parse("((a{999}){999}){999}").is_err());
    }

    #[test]
    fn an_empty_match_behind_another_counts() {
        let replaced = |java: &str, text: &str| {
            let pattern = Pattern::parse(java).unwrap();
            pattern.replace(text, |_, to| to.push('x'))
        };
        assert_eq!(replaced(".*", "abc").as_deref(), Some("xx"));
        assert_eq!(replaced("^.*$", "abc").as_deref(), Some("x"));
        assert_eq!(replaced("a*", "baac").as_deref(), Some("xbxxcx"));
        assert_eq!(replaced("a|ab", "ab").as_deref(), Some("xb"));
        assert_eq!(replaced("", "\u{e9}").as_deref(), Some("x\u{e9}x"));
        assert_eq!(replaced("a", &"a".repeat(1000)), None);
    }

    proptest! {
        #[test]
        fn any_pattern_is_taken_or_refused(java in "\\PC{0,40}", text in "\\PC{0,40}") {
            if let Ok(pattern) = Pattern::parse(&java) {
                let _ = pattern.matches(&text);
                let _ = pattern.replace(&text, |_, to| to.push('x'));
            }
        }
    }
}
