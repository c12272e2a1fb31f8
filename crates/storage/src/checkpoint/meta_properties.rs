//! `meta.properties`, version 1: the cluster and node that a log directory belongs to, and the
//! directory's own id. Version 2 says in addition which rings of a journal count (`journal_mark`):
//! without them the segments may lack what was acknowledged, so it is in the file only while a
//! journal is used, and Kafka and older versions of Forebay refuse it.
//!
//! A broker refuses a directory of another cluster or node, so that it does not take a wrong mount
//! for an empty disk.

use std::path::Path;

use wire::types::{NodeId, TimestampMs, Uuid, uuid_from_base64, uuid_to_base64};

use super::MalformedFileError;
use super::journal_mark::JournalMark;
use super::properties::{self, encode_entry};

/// Name of the file.
pub const FILE: &str = "meta.properties";

/// The version that Kafka reads, too.
const VERSION: &str = "1";

/// The version of a directory with a journal that counts.
const MARKED_VERSION: &str = "2";

/// The content of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetaProperties {
    /// The id of the cluster.
    pub cluster_id: String,
    /// The node that owns the directory.
    pub node_id: NodeId,
    /// The id of this directory; absent in directories that older versions formatted.
    pub directory_id: Option<Uuid>,
    /// The rings of its journal that count; `None`: the segments have everything.
    pub journal: Option<JournalMark>,
}

/// Reads the file of a directory whose segments have everything, and ignores unknown keys, because
/// later versions add some.
///
/// For those who know nothing of journals: a directory with one that counts is refused.
pub fn parse(file: &Path, bytes: &[u8]) -> Result<MetaProperties, MalformedFileError> {
    let meta = parse_marked(file, bytes)?;
    if meta.journal.is_none() {
        return Ok(meta);
    }
    let entries = properties::parse(file, bytes)?;
    let version = entries.iter().find(|entry| entry.key == "version");
    Err(MalformedFileError::new(
        file,
        version.map_or(1, |entry| entry.line),
        "version 1 (its journal may have bytes that its logs lack: `forebay recover` gives them these)",
        MARKED_VERSION,
    ))
}

/// Does the same, also for a directory whose journal counts.
pub fn parse_marked(file: &Path, bytes: &[u8]) -> Result<MetaProperties, MalformedFileError> {
    let entries = properties::parse(file, bytes)?;
    let last_line = entries.last().map_or(1, |entry| entry.line);
    let find = |key: &str, expected: &'static str| {
        entries
            .iter()
            .find(|entry| entry.key == key)
            .ok_or_else(|| MalformedFileError::new(file, last_line, expected, "no such key"))
    };
    let version = find("version", "the key `version`")?;
    let is_marked = version.value == MARKED_VERSION;
    if version.value != VERSION && !is_marked {
        return Err(MalformedFileError::new(
            file,
            version.line,
            "version 1",
            &version.value,
        ));
    }
    let cluster_id = find("cluster.id", "the key `cluster.id`")?;
    if cluster_id.value.is_empty() {
        return Err(MalformedFileError::new(
            file,
            cluster_id.line,
            "the id of a cluster",
            "",
        ));
    }
    let node_id = find("node.id", "the key `node.id`")?;
    let node = match node_id.value.parse() {
        Ok(node) if node >= 0 => NodeId(node),
        _ => {
            return Err(MalformedFileError::new(
                file,
                node_id.line,
                "a node id",
                &node_id.value,
            ));
        }
    };
    let directory_id = match entries.iter().find(|entry| entry.key == "directory.id") {
        None => None,
        Some(entry) => Some(
            uuid_from_base64(&entry.value)
                .ok_or_else(|| MalformedFileError::new(file, entry.line, "an id", &entry.value))?,
        ),
    };
    if is_marked && directory_id.is_none() {
        // Its rings are known by the id, and it must not be given another one.
        return Err(MalformedFileError::new(
            file,
            last_line,
            "the key `directory.id`",
            "no such key",
        ));
    }
    let journal = is_marked.then(|| JournalMark::parse(file, &entries, version.line));
    Ok(MetaProperties {
        cluster_id: cluster_id.value.clone(),
        node_id: node,
        directory_id,
        journal: journal.transpose()?,
    })
}

/// Returns the bytes of the file, with a comment that has the current time, as Java's properties
/// do.
pub fn encode(meta: &MetaProperties, now: TimestampMs) -> Vec<u8> {
    let mut text = format!("#\n#{}\n", java_date(now));
    text.push_str(&encode_entry("node.id", &meta.node_id.0.to_string()));
    if let Some(id) = meta.directory_id {
        text.push_str(&encode_entry("directory.id", &uuid_to_base64(id)));
    }
    let is_marked = meta.journal.is_some();
    let version = if is_marked { MARKED_VERSION } else { VERSION };
    text.push_str(&encode_entry("version", version));
    text.push_str(&encode_entry("cluster.id", &meta.cluster_id));
    if let Some(journal) = &meta.journal {
        text.push_str(&journal.encode());
    }
    text.into_bytes()
}

/// Returns a time in UTC in Java's date format: `Sat Nov 21 09:25:41 UTC 2026`.
pub fn java_date(at: TimestampMs) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let seconds = at.0.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years that begin in March put the leap day last; the calendar repeats every 400 years, from
    // 0000-03-01.
    let day = days + 719_468;
    let (cycle, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_cycle = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let march_month = (5 * day + 2) / 153;
    let month = (march_month + 2) % 12;
    let year = cycle * 400 + year_of_cycle + i64::from(month < 2);
    let name = |names: &[&'static str], at: i64| {
        let name = usize::try_from(at).ok().and_then(|at| names.get(at));
        *name.expect("a remainder is a day of the week, or a month")
    };
    format!(
        "{} {} {:02} {:02}:{:02}:{:02} UTC {year:04}",
        name(&DAYS, days.rem_euclid(7)),
        name(&MONTHS, month),
        day - (153 * march_month + 2) / 5 + 1,
        second / 3600,
        second / 60 % 60,
        second % 60,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::journal_mark::RingMark;

    #[test]
    fn dates_are_printed_as_java_prints_them() {
        let check = |ms, expect: &str| assert_eq!(java_date(TimestampMs(ms)), expect);
        check(0, "Thu Jan 01 00:00:00 UTC 1970");
        check(951_782_400_000, "Tue Feb 29 00:00:00 UTC 2000");
        check(1_795_253_141_999, "Sat Nov 21 09:25:41 UTC 2026");
        check(-1, "Wed Dec 31 23:59:59 UTC 1969");
        check(4_107_542_400_000, "Mon Mar 01 00:00:00 UTC 2100");
    }

    #[test]
    fn errors_name_the_line_and_the_key() {
        let check = |text: &str, expect: &str| {
            let error = parse(Path::new("m"), text.as_bytes()).map_err(|error| error.to_string());
            assert_eq!(error.err().as_deref(), Some(expect), "{text:?}");
        };
        check(
            "",
            "m, line 1: expected the key `version`, found \"no such key\"",
        );
        check("version=0\n", "m, line 1: expected version 1, found \"0\"");
        check(
            "version=1\n\nnode.id=1\n",
            "m, line 3: expected the key `cluster.id`, found \"no such key\"",
        );
        check(
            "version=1\ncluster.id=c\nnode.id=x",
            "m, line 3: expected a node id, found \"x\"",
        );
        check(
            "version=1\ncluster.id=c\nnode.id=1\ndirectory.id=zz",
            "m, line 4: expected an id, found \"zz\"",
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        let meta = MetaProperties {
            cluster_id: "a b=c".to_owned(),
            node_id: NodeId(7),
            directory_id: Some(Uuid::from_u128(1 << 100)),
            journal: None,
        };
        let bytes = encode(&meta, TimestampMs(0));
        assert_eq!(parse(Path::new("m"), &bytes), Ok(meta));
    }

    #[test]
    fn a_directory_whose_journal_counts_is_read_only_by_those_who_know_journals() {
        let ring = |shard| RingMark {
            shard,
            generation: 7,
            fingerprint: 0x0102_0304,
        };
        for dir in [None, Some("/fast disk/a=b".into())] {
            let meta = MetaProperties {
                cluster_id: "c".to_owned(),
                node_id: NodeId(1),
                directory_id: Some(Uuid::from_u128(5)),
                journal: Some(JournalMark {
                    dir,
                    rings: vec![ring(0), ring(3)],
                }),
            };
            let bytes = encode(&meta, TimestampMs(0));
            assert_eq!(parse_marked(Path::new("m"), &bytes), Ok(meta));
            let refused = parse(Path::new("m"), &bytes).unwrap_err().to_string();
            assert!(refused.contains("forebay recover"), "{refused}");
        }
    }

    #[test]
    fn a_mark_that_names_no_ring_or_one_twice_is_refused() {
        let id = "directory.id=AAAAAAAAAAAAAAAAAAAABw";
        let text = |rings: &str| format!("version=2\ncluster.id=c\nnode.id=1\n{id}\n{rings}\n");
        let whole = text("journal.rings=0/1/00000002");
        assert!(parse_marked(Path::new("m"), whole.as_bytes()).is_ok());
        let nobodys = whole.replace(id, "");
        assert!(parse_marked(Path::new("m"), nobodys.as_bytes()).is_err());
        for rings in [
            "",
            "journal.rings=",
            "journal.rings=0",
            "journal.rings=0/1/00000002,0/1/00000002",
            "journal.rings=0/1/00000002,",
        ] {
            let parsed = parse_marked(Path::new("m"), text(rings).as_bytes());
            assert!(parsed.is_err(), "{rings}");
        }
    }
}
