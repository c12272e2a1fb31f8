//! The form in which a knob's value is written and shown, and the canonical form in which values
//! are compared.
//!
//! Invariants: texts with the same meaning have the same canonical text; the written text is made
//! from the canonical one, never from the text of a file. The bounds are this program's: the kernel
//! accepts values that break a machine.

use crate::cpus::Cpus;

/// The form of a value.
#[derive(Clone, PartialEq, Debug)]
pub enum Form {
    /// A whole number between two bounds.
    Number(i64, i64),
    /// This many whole numbers, each between two bounds (`tcp_rmem`).
    Numbers(usize, i64, i64),
    /// A number of entries that the kernel rounds up to a power of two; 0 means none.
    PowerOfTwo(i64),
    /// One of several words; files that list all have the chosen one in brackets (`[none]
    /// mq-deadline`).
    Choice(&'static [&'static str]),
    /// A word from a list that the kernel has in another file.
    Word,
    /// A set of CPUs, shown and written as a mask.
    Mask,
    /// A set of CPUs, shown and written as a list.
    List,
    /// Numbers with names, `rx=256 tx=256`; the names listed here may be set.
    Fields(&'static [&'static str], i64),
    /// A table of queues, `0 1 2 0 1 2`, or `equal=3`: over that many of the first queues. The
    /// queues have numbers below this one.
    Spread(u32),
}

/// A table of queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Over this many of the first queues, equally.
    Equal(u32),
    /// The queue of each entry.
    Table(Vec<u32>),
}

/// Parses a table of queues; one that is equal is returned as such.
pub fn spread(text: &str) -> Option<Spread> {
    if let Some(count) = text.trim().strip_prefix("equal=") {
        return Some(Spread::Equal(count.parse().ok()?));
    }
    let entries = text
        .split_ascii_whitespace()
        .map(|entry| entry.parse().ok());
    let table: Vec<u32> = entries.collect::<Option<_>>()?;
    let count = table.iter().max()?.checked_add(1)?;
    let is_equal = (0..count)
        .cycle()
        .zip(&table)
        .all(|(queue, entry)| queue == *entry);
    Some(if is_equal {
        Spread::Equal(count)
    } else {
        Spread::Table(table)
    })
}

fn of_spread(spread: &Spread) -> String {
    match spread {
        Spread::Equal(count) => format!("equal={count}"),
        Spread::Table(table) => {
            let texts: Vec<String> = table.iter().map(u32::to_string).collect();
            texts.join(" ")
        }
    }
}

impl Form {
    /// Returns the canonical text of a file's text or of a wanted value.
    pub fn canonical(&self, text: &str) -> Option<String> {
        let text = text.trim();
        match self {
            Form::Number(..) | Form::PowerOfTwo(_) => Some(number(text)?.to_string()),
            Form::Numbers(count, ..) => {
                let numbers = text.split_ascii_whitespace().map(number);
                let numbers: Vec<i64> = numbers.collect::<Option<_>>()?;
                (numbers.len() == *count).then(|| joined(&numbers))
            }
            Form::Choice(_) | Form::Word => chosen(text),
            Form::Mask => Some(Cpus::from_mask(text)?.to_string()),
            Form::List => Some(Cpus::from_list(text)?.to_string()),
            Form::Fields(..) => {
                let mut fields = fields(text)?;
                fields.sort_unstable();
                Some(of_fields(&fields))
            }
            Form::Spread(_) => Some(of_spread(&spread(text)?)),
        }
    }

    /// Returns the canonical text of a wanted value, or why it is refused.
    pub fn wanted(&self, text: &str) -> Result<String, String> {
        // A mask is given as a list: `1` means CPU 1, not the mask.
        let canonical = match self {
            Form::Mask => Form::List.canonical(text),
            _ => self.canonical(text),
        };
        let canonical = canonical.ok_or_else(|| format!("{text:?} is no {}", self.name()))?;
        let between = |least: i64, most: i64, value: i64| {
            if value < least || value > most {
                return Err(format!("{value} is outside of {least}..{most}"));
            }
            Ok(())
        };
        match self {
            Form::Number(least, most) => between(*least, *most, number(&canonical).unwrap_or(0))?,
            Form::PowerOfTwo(most) => between(0, *most, number(&canonical).unwrap_or(0))?,
            Form::Numbers(_, least, most) => {
                let mut before = i64::MIN;
                for value in canonical.split(' ').filter_map(number) {
                    between(*least, *most, value)?;
                    if value < before {
                        return Err(format!("{canonical:?} does not rise"));
                    }
                    before = value;
                }
            }
            Form::Choice(words) if !words.contains(&canonical.as_str()) => {
                return Err(format!("{canonical:?} is none of {}", words.join(", ")));
            }
            // Of the letters that names of the kernel have: what is exported to other programs is
            // no expression of theirs.
            Form::Word
                if canonical.is_empty()
                    || !canonical
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte)) =>
            {
                return Err(format!("{canonical:?} is no word"));
            }
            Form::List if canonical.is_empty() => return Err("no CPU is left".to_owned()),
            Form::Fields(names, most) => {
                let fields = fields(&canonical).unwrap_or_default();
                for (at, (name, value)) in fields.iter().enumerate() {
                    if fields[..at].iter().any(|(other, _)| other == name) {
                        return Err(format!("{name:?} is there twice"));
                    }
                    if !names.contains(&name.as_str()) {
                        return Err(format!("{name:?} is none of {}", names.join(", ")));
                    }
                    between(0, *most, *value)?;
                }
            }
            Form::Spread(most) => {
                let last = match spread(&canonical) {
                    Some(Spread::Equal(count)) => i64::from(count) - 1,
                    Some(Spread::Table(table)) => {
                        table.iter().max().map_or(-1, |last| i64::from(*last))
                    }
                    None => -1,
                };
                between(0, i64::from(*most) - 1, last)
                    .map_err(|_| format!("{canonical:?} is no spread over 1..{most} queues"))?;
            }
            _ => {}
        }
        Ok(canonical)
    }

    /// Returns the value that the kernel is known to make of a wanted one.
    pub fn rounded(&self, canonical: &str) -> String {
        match self {
            Form::PowerOfTwo(_) => match number(canonical) {
                Some(value) if value > 1 => {
                    let power = value.unsigned_abs().checked_next_power_of_two();
                    power.map_or_else(|| canonical.to_owned(), |power| power.to_string())
                }
                _ => canonical.to_owned(),
            },
            _ => canonical.to_owned(),
        }
    }

    /// Returns the text to write for a canonical one.
    pub fn text(&self, canonical: &str) -> String {
        match self {
            Form::Mask => Cpus::from_list(canonical).map_or_else(String::new, |cpus| cpus.mask()),
            _ => canonical.to_owned(),
        }
    }

    /// Returns whether a value is the wanted one; for fields, only the wanted ones count.
    pub fn is(&self, found: &str, wanted: &str) -> bool {
        if found == wanted {
            return true;
        }
        let Form::Fields(..) = self else { return false };
        let (Some(found), Some(wanted)) = (fields(found), fields(wanted)) else {
            return false;
        };
        wanted.iter().all(|field| found.contains(field))
    }

    /// Returns the part of an old value to write back; for fields, those that the wanted value has.
    pub fn back(&self, old: &str, wanted: &str) -> String {
        let Form::Fields(..) = self else {
            return old.to_owned();
        };
        let (Some(old), Some(wanted)) = (fields(old), fields(wanted)) else {
            return old.to_owned();
        };
        let is_wanted = |field: &&(String, i64)| wanted.iter().any(|(name, _)| *name == field.0);
        let kept: Vec<_> = old.iter().filter(is_wanted).cloned().collect();
        of_fields(&kept)
    }

    /// Returns whether each wanted field has its old or its wanted value: a card takes some of them
    /// and refuses the next.
    pub fn is_half(&self, found: &str, old: &str, wanted: &str) -> bool {
        let Form::Fields(..) = self else { return false };
        let (Some(found), Some(old), Some(wanted)) = (fields(found), fields(old), fields(wanted))
        else {
            return false;
        };
        wanted.iter().all(|field| {
            let now = found.iter().find(|(name, _)| *name == field.0);
            now.is_some_and(|now| now == field || old.contains(now))
        })
    }

    /// Returns the part of a value that can be written; for fields, those that may be set.
    pub fn writable(&self, canonical: &str) -> String {
        let Form::Fields(names, _) = self else {
            return canonical.to_owned();
        };
        let fields = fields(canonical).unwrap_or_default();
        let may = |field: &(String, i64)| names.contains(&field.0.as_str());
        of_fields(&fields.into_iter().filter(may).collect::<Vec<_>>())
    }

    fn name(&self) -> &'static str {
        match self {
            Form::Number(..) | Form::PowerOfTwo(_) => "number",
            Form::Numbers(..) => "row of that many numbers",
            Form::Choice(_) | Form::Word => "word",
            Form::Mask | Form::List => "list of CPUs",
            Form::Fields(..) => "row of NAME=NUMBER",
            Form::Spread(_) => "equal=NUMBER or row of queues",
        }
    }
}

fn number(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

fn joined(numbers: &[i64]) -> String {
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    texts.join(" ")
}

/// Returns the word in brackets, or the whole text without brackets.
fn chosen(text: &str) -> Option<String> {
    if let Some((_, rest)) = text.split_once('[') {
        return Some(rest.split_once(']')?.0.to_owned());
    }
    Some(text.to_owned())
}

/// Parses the fields of `a=1 b=2`.
pub fn fields(text: &str) -> Option<Vec<(String, i64)>> {
    let field = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((name.to_owned(), number(value)?))
    };
    text.split_ascii_whitespace().map(field).collect()
}

fn of_fields(fields: &[(String, i64)]) -> String {
    let texts: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    texts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(form: &Form, shown: &str, canonical: &str) {
        assert_eq!(form.canonical(shown).as_deref(), Some(canonical), "{shown}");
    }

    #[test]
    fn what_means_the_same_is_the_same() {
        check(&Form::Number(0, 9), " 7\n", "7");
        check(
            &Form::Numbers(3, 0, 9_999_999),
            "4096\t131072\t6291456\n",
            "4096 131072 6291456",
        );
        check(
            &Form::Choice(&["none", "kyber"]),
            "[none] mq-deadline kyber\n",
            "none",
        );
        check(
            &Form::Choice(&["always", "madvise", "never"]),
            "always madvise [never]",
            "never",
        );
        check(&Form::Word, "performance\n", "performance");
        check(&Form::Mask, "00000000,00000003\n", "0-1");
        check(&Form::Mask, "3", "0-1");
        check(&Form::List, "0-1\n", "0-1");
        check(&Form::Fields(&["rx", "tx"], 9), "tx=4 rx=8", "rx=8 tx=4");
        check(&Form::Spread(64), "0 1 2 0 1 2 0 1\n", "equal=3");
        check(&Form::Spread(64), "0 0 0", "equal=1");
        check(&Form::Spread(64), "0 2 1", "0 2 1");
        check(&Form::Spread(64), "equal=4", "equal=4");
    }

    #[test]
    fn bounds_are_ours() {
        let refused = [
            (Form::Number(1, 10), "11"),
            (Form::Number(1, 10), "x"),
            (Form::Numbers(3, 1, 10), "1 2"),
            (Form::Numbers(3, 1, 10), "3 2 5"),
            (Form::PowerOfTwo(1024), "2048"),
            (Form::Choice(&["a", "b"]), "c"),
            (Form::Word, "two words"),
            (Form::Word, "two\nlines"),
            (Form::Word, "${f:exec:true}"),
            (Form::Fields(&["rx"], 8192), "rx=1 rx=2"),
            (Form::List, ""),
            (Form::List, "7-1"),
            (Form::Fields(&["rx"], 8192), "rx=9999"),
            (Form::Fields(&["rx"], 8192), "other=1"),
            (Form::Spread(8), "equal=0"),
            (Form::Spread(8), "equal=9"),
            (Form::Spread(8), "0 9"),
            (Form::Spread(8), ""),
        ];
        for (form, text) in refused {
            assert!(form.wanted(text).is_err(), "{form:?} {text}");
        }
        assert_eq!(Form::Mask.wanted("1").unwrap(), "1", "a CPU, not a mask");
        assert_eq!(Form::Mask.text("1"), "2");
    }

    #[test]
    fn rounding_is_foretold() {
        for (wanted, rounded) in [("0", "0"), ("1", "1"), ("3000", "4096"), ("4096", "4096")] {
            assert_eq!(Form::PowerOfTwo(1 << 20).rounded(wanted), rounded);
        }
    }

    #[test]
    fn half_of_the_fields_are_told_from_those_of_others() {
        let form = Form::Fields(&["a", "b"], 9);
        let is_half = |found: &str| form.is_half(found, "a=1 b=1 c=1", "a=2 b=2");
        for found in ["a=1 b=1", "a=2 b=1", "a=1 b=2 c=7", "a=2 b=2"] {
            assert!(is_half(found), "{found}");
        }
        for found in ["a=3 b=1", "a=2", "", "a"] {
            assert!(!is_half(found), "{found}");
        }
        assert!(!Form::Number(0, 9).is_half("1", "1", "2"));
    }

    #[test]
    fn of_fields_only_those_wanted_count() {
        let form = Form::Fields(&["rx", "tx"], 9999);
        assert!(form.is("rx=512 rx_max=4096 tx=256", "rx=512"));
        assert!(!form.is("rx=256 tx=256", "rx=512"));
        assert_eq!(form.back("rx=256 rx_max=4096 tx=256", "rx=512"), "rx=256");
    }
}
