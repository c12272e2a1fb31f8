//! The frame that Kafka's checkpoint files share: a line with the version (0), a line with the
//! number of entries, and for each entry a line of fields separated by white space.

use std::path::Path;
use std::str::FromStr;

use super::{MalformedFileError, text};

/// One entry of a checkpoint file, to be split into fields.
pub(super) struct Entry<'a> {
    file: &'a Path,
    line: usize,
    text: &'a str,
}

impl<'a> Entry<'a> {
    /// Returns the fields; there must be exactly `N`.
    pub(super) fn fields<const N: usize>(
        &self,
        expected: &'static str,
    ) -> Result<[&'a str; N], MalformedFileError> {
        let fields: Vec<&str> = self.text.split_whitespace().collect();
        fields.try_into().map_err(|_| self.malformed(expected))
    }

    /// Returns a field as a number that is at least `min`.
    pub(super) fn number<T: FromStr + PartialOrd + Copy>(
        &self,
        field: &str,
        min: T,
        expected: &'static str,
    ) -> Result<T, MalformedFileError> {
        match field.parse() {
            Ok(number) if number >= min => Ok(number),
            _ => Err(self.malformed(expected)),
        }
    }

    pub(super) fn malformed(&self, expected: &'static str) -> MalformedFileError {
        MalformedFileError::new(self.file, self.line, expected, self.text)
    }
}

/// Returns the entries of a checkpoint file; their number must match its second line.
pub(super) fn entries<'a>(
    file: &'a Path,
    bytes: &'a [u8],
) -> Result<Vec<Entry<'a>>, MalformedFileError> {
    let mut lines = text(file, bytes)?.lines().zip(1_usize..);
    let (version, _) = lines.next().unwrap_or(("", 1));
    if version.trim() != "0" {
        return Err(MalformedFileError::new(file, 1, "the version, 0", version));
    }
    let (count, _) = lines.next().unwrap_or(("", 2));
    let count: usize = count
        .trim()
        .parse()
        .map_err(|_| MalformedFileError::new(file, 2, "the number of entries", count))?;
    let entries: Vec<_> = lines
        .map(|(text, line)| Entry { file, line, text })
        .collect();
    if entries.len() != count {
        let found = format!("{} entries", entries.len());
        return Err(MalformedFileError::new(
            file,
            2,
            "the number of entries that follow",
            &found,
        ));
    }
    Ok(entries)
}

/// Returns each line as an entry or as what is wrong with it, and what is wrong with the frame, if
/// anything.
///
/// A wrong number of entries does not invalidate the entries. A file of another version has none.
pub(super) fn entries_of<'a>(
    file: &'a Path,
    bytes: &'a [u8],
) -> (
    Vec<Result<Entry<'a>, MalformedFileError>>,
    Option<MalformedFileError>,
) {
    let mut lines = bytes.split(|byte| *byte == b'\n').zip(1_usize..);
    let mut line = || lines.next().unwrap_or((&[], 1));
    let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let (version, count) = (show(line().0), show(line().0));
    if version != "0" {
        let malformed = MalformedFileError::new(file, 1, "the version, 0", &version);
        return (Vec::new(), Some(malformed));
    }
    let entries: Vec<_> = lines
        .filter(|(bytes, _)| !bytes.is_empty())
        .map(|(bytes, line)| match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Entry { file, line, text }),
            Err(_) => Err(MalformedFileError::new(file, line, "text", &show(bytes))),
        })
        .collect();
    let is_right = count.parse() == Ok(entries.len());
    let malformed =
        || MalformedFileError::new(file, 2, "the number of entries that follow", &count);
    (entries, (!is_right).then(malformed))
}

/// Returns a checkpoint file with these entries.
pub(super) fn file(entries: impl ExactSizeIterator<Item = String>) -> Vec<u8> {
    let mut text = format!("0\n{}\n", entries.len());
    for entry in entries {
        text.push_str(&entry);
        text.push('\n');
    }
    text.into_bytes()
}
