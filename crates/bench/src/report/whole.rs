//! The whole report: its sections in order, with the run's name on top and the legend of the
//! targets.

use std::fmt::Write as _;

use page::frame::{Chip, Page};
use page::number::Quantity;

use crate::outcome::Run;

use super::study::Study;
use super::{cost, facts, headline, heat, limits, percentile, surge, sweep, timeline};

/// Returns the whole file.
pub(super) fn of(run: &Run) -> anyhow::Result<String> {
    let study = Study::of(run)?;
    let sections = [
        headline::section(&study),
        sweep::section(&study),
        heat::section(&study),
        percentile::section(&study)?,
        surge::section(run),
        timeline::section(&study),
        cost::section(&study),
        limits::section(run),
        facts::section(run),
        facts::cells(&study),
    ];
    let mut page = top(run);
    page.push_str(&facts::notices(run));
    if study.phases.is_empty() {
        page.push_str("<p class=\"notice\">No cell was measured: there is nothing to show.</p>\n");
    } else {
        page.push_str(&targets(&study));
        let empty = |section: &&String| section.is_empty();
        sections[..8]
            .iter()
            .filter(|section| !empty(section))
            .for_each(|section| page.push_str(section));
    }
    page.push_str(&sections[8]);
    page.push_str(&sections[9]);
    Ok(Page {
        title: &format!("{} - forebay bench", run.experiment),
        markup: &page,
        footer: &format!(
            "Drawn by forebay bench {} from run.json.",
            env!("CARGO_PKG_VERSION")
        ),
    }
    .draw())
}

fn top(run: &Run) -> String {
    let ended = run
        .cells
        .iter()
        .map(|cell| cell.outcome.started_ms as f64 + cell.outcome.seconds * 1e3)
        .fold(run.started_ms as f64, f64::max);
    let took = (ended - run.started_ms as f64) / 1e3;
    let mut line = page::date::utc(run.started_ms);
    let cells = run.cells.len();
    let _ = write!(
        line,
        ", {cells} {}",
        if cells == 1 { "cell" } else { "cells" }
    );
    if took > 0.0 && took.is_finite() {
        let _ = write!(line, " in {}", Quantity::Time.show(took));
    }
    page::frame::header("forebay bench", &run.experiment, &run.about, &line)
}

/// Returns the legend of the targets' colours and shapes; with scripts it selects what is shown.
fn targets(study: &Study) -> String {
    let says = |name: &String| {
        let facts = study.run.targets.get(name);
        facts.map_or_else(String::new, |facts| {
            format!("{}, {}", facts.version, facts.durability)
        })
    };
    let said: Vec<String> = study.targets.iter().map(says).collect();
    let named = study.targets.iter().zip(&said);
    let chips: Vec<Chip> = named.map(|(name, says)| Chip { name, says }).collect();
    page::frame::chips("Targets", &chips)
}
