//! The recorded counts, one line for each path and commit, and the comparison with them.
//!
//! The file has the columns `date,commit,environment,path,unit,instructions`; the last line of a
//! path in an environment is in force.

use anyhow::{Context, ensure};

const HEADER: &str = "date,commit,environment,path,unit,instructions";
/// The increase that is a failure, and the decrease that is worth recording, in thousandths.
const TOLERANCE: u64 = 10;

/// One count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Row {
    pub(super) date: String,
    pub(super) commit: String,
    /// Compiler, C library, valgrind, AVX2 and profile; without one it is `dist`.
    pub(super) environment: String,
    pub(super) path: String,
    /// The unit of the count.
    pub(super) unit: String,
    pub(super) instructions: u64,
}

/// All counts, the newest last.
#[derive(Default)]
pub(super) struct Record {
    rows: Vec<Row>,
}

/// The result of comparing a count with the recorded one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Same {
        before: Row,
    },
    Faster {
        before: Row,
    },
    Slower {
        before: Row,
    },
    /// No count is recorded for the path in this environment.
    New,
}

impl Record {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut rows = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if index == 0 {
                ensure!(line == HEADER, "the first line is not {HEADER}");
                continue;
            }
            let fields: Vec<&str> = line.split(',').collect();
            let [date, commit, environment, path, unit, instructions] = fields[..] else {
                anyhow::bail!("line {} has not six fields", index + 1);
            };
            rows.push(Row {
                date: date.to_owned(),
                commit: commit.to_owned(),
                environment: environment.to_owned(),
                path: path.to_owned(),
                unit: unit.to_owned(),
                instructions: instructions
                    .parse()
                    .with_context(|| format!("line {}", index + 1))?,
            });
        }
        Ok(Self { rows })
    }

    /// Makes a record of one row.
    pub(super) fn of(row: Row) -> Self {
        Self { rows: vec![row] }
    }

    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for row in &self.rows {
            let count = row.instructions.to_string();
            let fields: [&str; 6] = [
                &row.date,
                &row.commit,
                &row.environment,
                &row.path,
                &row.unit,
                &count,
            ];
            text += &fields.join(",");
            text.push('\n');
        }
        text
    }

    pub(super) fn judge(&self, row: &Row) -> Verdict {
        let same = |before: &&Row| {
            before.path == row.path
                && before.environment == row.environment
                && before.unit == row.unit
        };
        let Some(before) = self.rows.iter().rev().find(same).cloned() else {
            return Verdict::New;
        };
        let (now, then) = (row.instructions, before.instructions);
        let part = then.saturating_mul(TOLERANCE) / 1000;
        if now > then + part {
            Verdict::Slower { before }
        } else if now < then - part {
            Verdict::Faster { before }
        } else {
            Verdict::Same { before }
        }
    }
}

impl Verdict {
    /// Describes the verdict in one line for the developer.
    ///
    /// The test runner shows `SKIPPED` lines by default.
    pub(super) fn tell(&self, row: &Row) -> String {
        let (path, unit, now) = (&row.path, &row.unit, row.instructions);
        match self {
            Self::New => format!(
                "SKIPPED {path}: {now} instructions per {unit}; nothing recorded with {}: cargo xtask guard --record",
                row.environment
            ),
            Self::Same { before } => format!(
                "{path}: {now} instructions per {unit}, {} since {}",
                percent(before.instructions, now),
                before.commit
            ),
            Self::Faster { before } => format!(
                "{path}: {now} instructions per {unit}, {} since {}: worth recording (cargo xtask guard --record)",
                percent(before.instructions, now),
                before.commit
            ),
            Self::Slower { before } => format!(
                "FAILED {path}: {now} instructions per {unit}, {} more than the {} of {} ({}); {}.{} % are allowed",
                percent(before.instructions, now),
                before.instructions,
                before.commit,
                before.date,
                TOLERANCE / 10,
                TOLERANCE % 10
            ),
        }
    }
}

/// Returns the change in percent, to a tenth.
fn percent(before: u64, now: u64) -> String {
    let thousandths = (i128::from(now) - i128::from(before)) * 1000 / i128::from(before.max(1));
    let sign = if thousandths < 0 { "-" } else { "+" };
    let amount = thousandths.abs();
    format!("{sign}{}.{} %", amount / 10, amount % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(path: &str, environment: &str, instructions: u64) -> Row {
        Row {
            date: "2026-11-21".to_owned(),
            commit: "abc1234".to_owned(),
            environment: environment.to_owned(),
            path: path.to_owned(),
            unit: "GB".to_owned(),
            instructions,
        }
    }

    #[test]
    fn the_newest_record_of_the_same_path_and_environment_counts() {
        let mut record = Record::default();
        record.add(row("a", "one", 500_000));
        record.add(row("a", "one", 1_000_000));
        record.add(row("a", "two", 9_000_000));
        record.add(row("b", "one", 5_000_000));
        let verdict = |count| record.judge(&row("a", "one", count));
        assert!(matches!(verdict(1_010_000), Verdict::Same { .. }));
        assert!(matches!(verdict(990_000), Verdict::Same { .. }));
        assert!(matches!(verdict(1_010_001), Verdict::Slower { .. }));
        assert!(matches!(verdict(989_999), Verdict::Faster { .. }));
        assert_eq!(record.judge(&row("a", "three", 1)), Verdict::New);
        assert_eq!(record.judge(&row("c", "one", 1)), Verdict::New);
    }

    #[test]
    fn what_is_written_is_read_and_what_makes_no_sense_is_refused() {
        let mut record = Record::default();
        record.add(row("a", "one", 500));
        record.add(row("b", "one", 700));
        let text = record.text();
        assert_eq!(Record::parse(&text).unwrap().text(), text);
        assert!(Record::parse("").unwrap().rows.is_empty());
        for bad in [
            "nonsense\n",
            &text.replace(",GB", ""),
            &text.replace("500", "many"),
        ] {
            assert!(Record::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_failure_names_path_old_new_and_what_to_do() {
        let before = Record::of(row("fetch-tail", "one", 1_000_000));
        let now = row("fetch-tail", "one", 1_098_000);
        let told = before.judge(&now).tell(&now);
        for part in [
            "FAILED fetch-tail",
            "1098000",
            "1000000",
            "+9.8 %",
            "abc1234",
            "1.0 %",
        ] {
            assert!(told.contains(part), "{told}");
        }
        let told = Verdict::New.tell(&now);
        assert!(
            told.starts_with("SKIPPED") && told.contains("--record"),
            "{told}"
        );
    }
}
