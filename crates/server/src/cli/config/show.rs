//! `forebay config show`: the settings that `serve` would run with, and where each comes from.
//!
//! It takes what `serve` takes. Secrets are hidden. With `--data`, values that were changed while a
//! broker ran stand in the place of those of the file, as they do after a start.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use wire::text::{EscapedText, escaped_json};

use super::directories::{changed, metadata_of};
use crate::cli::format::Format;
use crate::config::{EffectiveSetting, Settings};
use crate::machine::Machine;

/// The widest column of values that others are aligned with.
const VALUE_COLUMNS_MAX: usize = 32;

/// Arguments of `forebay config show`.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// File with settings, as for `serve`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only settings that are set, not those that have their default.
    #[arg(long)]
    given: bool,
    /// Also looks into the directories for values that were changed while a broker ran.
    #[arg(long)]
    data: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Names of settings to show (all, if none is named), and settings as for `serve`.
    #[arg(value_name = "KEY|KEY=VALUE")]
    settings: Vec<String>,
}

impl ShowArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let (settings, names): (Vec<String>, Vec<String>) = self
            .settings
            .iter()
            .cloned()
            .partition(|one| one.contains('='));
        let raw = super::super::raw_of(self.config.as_deref(), &settings)?;
        let machine = Machine::read();
        let refused = |problems: Vec<_>| super::super::wrong(&problems);
        let mut all = EffectiveSetting::list(&raw, &machine).map_err(refused)?;
        if self.data {
            let resolved = Settings::resolve(&raw, &machine).map_err(refused)?;
            if let Some((reading, node)) = metadata_of(&resolved.settings)? {
                EffectiveSetting::overlay(&mut all, |key| changed(reading.image(), node, key));
            }
        }
        if let Some(name) = names
            .iter()
            .find(|name| !all.iter().any(|one| one.key == **name))
        {
            anyhow::bail!("{name} is no setting that has an effect; a file goes after --config");
        }
        all.retain(|one| names.is_empty() || names.contains(&one.key));
        all.retain(|one| one.is_given || !self.given);
        super::super::print(&match self.format {
            Format::Text => text(&all),
            Format::Json => json(&all),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn text(all: &[EffectiveSetting]) -> String {
    let value = |one: &EffectiveSetting| match one.value.as_deref() {
        None => "(not set)".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(value) => EscapedText(value).to_string(),
    };
    let width = |of: &dyn Fn(&EffectiveSetting) -> usize| all.iter().map(of).max().unwrap_or(0);
    let keys = width(&|one| one.key.len());
    let values = width(&|one| value(one).len().min(VALUE_COLUMNS_MAX));
    let mut text = String::new();
    for one in all {
        let note = if one.note.is_empty() {
            String::new()
        } else {
            format!(" ({})", one.note)
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:keys$}  {:values$}  {}{}",
            EscapedText(&one.key),
            value(one),
            EscapedText(&one.origin),
            EscapedText(&note)
        );
    }
    text
}

fn json(all: &[EffectiveSetting]) -> String {
    let each = all.iter().map(|one| {
        json!({
            "key": one.key,
            "value": one.value,
            "from": one.origin,
            "given": one.is_given,
            "note": one.note,
        })
    });
    let each: Vec<_> = each.collect();
    escaped_json(&format!("{:#}\n", json!(each))).into_owned()
}
