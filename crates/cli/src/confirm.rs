//! `NAME.. [--execute]`: what a command changes or deletes.
//!
//! Invariant: what a pattern selects is not changed without `--execute`. With it the pattern is
//! evaluated again, so the command also acts on what was created after the user saw the selection.

use clap::Args;

use crate::names::{Name, Selection};

/// Names, and whether the user confirms what a pattern among them selects.
#[derive(Debug, Args)]
pub(crate) struct ConfirmedNames {
    /// Names, or patterns: 'cars*', '/cars-[0-9]+/'.
    #[arg(required = true)]
    pub(crate) names: Vec<Name>,
    /// Does it also with what a pattern selects; without it the command only shows that.
    #[arg(long)]
    execute: bool,
}

impl ConfirmedNames {
    /// Returns true if the command may act on the selection.
    pub(crate) fn confirmed(&self, selection: &Selection) -> bool {
        self.execute || !selection.by_pattern
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        named: ConfirmedNames,
        #[arg(long, conflicts_with = "execute")]
        dry_run: bool,
    }

    fn confirmed(line: &[&str]) -> bool {
        let line = ["command"].into_iter().chain(line.iter().copied());
        let named = Command::try_parse_from(line).unwrap().named;
        let there = || Ok(vec!["cars".to_owned()]);
        let selection = Selection::of(&named.names, there).unwrap();
        named.confirmed(&selection)
    }

    #[test]
    fn names_are_confirmed_and_patterns_need_execute() {
        assert!(confirmed(&["cars", "trucks"]));
        assert!(!confirmed(&["trucks", "c*"]));
        assert!(confirmed(&["c*", "--execute"]));
        for wrong in [
            &["command"][..],
            &["command", "c*", "--dry-run", "--execute"],
        ] {
            assert!(Command::try_parse_from(wrong).is_err(), "{wrong:?}");
        }
        assert!(
            Command::try_parse_from(["command", "c*", "--dry-run"])
                .unwrap()
                .dry_run
        );
    }
}
