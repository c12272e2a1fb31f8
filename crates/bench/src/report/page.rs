//! The page around the charts: one file with its styles and its few lines of script inside, nothing from outside.

use std::fmt::Write as _;

use crate::outcome::Run;

use super::chart::TARGET_COLOURS;
use super::escape::html;
use super::number::Quantity;
use super::study::Study;
use super::{cost, facts, headline, heat, limits, percentile, surge, sweep, timeline};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole file.
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
    let title = html(&format!("{} - forebay bench", run.experiment));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
    );
    page.push_str(&top(run));
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
    let _ = writeln!(
        page,
        "<footer>Drawn by forebay bench {} from run.json.</footer>\n<script>\n{SCRIPT}</script>\n</body>\n</html>",
        env!("CARGO_PKG_VERSION")
    );
    Ok(page)
}

fn top(run: &Run) -> String {
    let ended = run
        .cells
        .iter()
        .map(|cell| cell.outcome.started_ms as f64 + cell.outcome.seconds * 1e3)
        .fold(run.started_ms as f64, f64::max);
    let took = (ended - run.started_ms as f64) / 1e3;
    let mut line = super::date::utc(run.started_ms);
    let cells = run.cells.len();
    let _ = write!(
        line,
        ", {cells} {}",
        if cells == 1 { "cell" } else { "cells" }
    );
    if took > 0.0 && took.is_finite() {
        let _ = write!(line, " in {}", Quantity::Time.show(took));
    }
    format!(
        "<header>\n<p class=\"over\">forebay bench</p>\n<h1>{}</h1>\n<p class=\"about\">{}</p>\n<p class=\"note\">{line}</p>\n</header>\n",
        html(&run.experiment),
        html(&run.about)
    )
}

/// Which colour and form is whose; with a script, what to show.
fn targets(study: &Study) -> String {
    let mut bar = String::from("<nav class=\"targets\" aria-label=\"Targets\">");
    for (number, name) in study.targets.iter().enumerate() {
        let mut key = super::svg::Drawing::new(12.0, 12.0);
        key.mark(
            (6.0, 6.0),
            number,
            &super::chart::target_class("m", Some(number)),
            "",
        );
        let facts = study.run.targets.get(name);
        let says = facts.map_or_else(String::new, |facts| {
            format!("{}, {}", facts.version, facts.durability)
        });
        let _ = write!(
            bar,
            "<span class=\"chip\" data-target=\"{}\" title=\"{}\">{}{}</span>",
            number % TARGET_COLOURS,
            html(&says),
            key.finish(&format!("mark of {name}")).trim_end(),
            html(name)
        );
    }
    bar.push_str("</nav>\n");
    bar
}

/// Opens a group of panels, in as many columns as fit, at most three.
pub(super) fn panels(columns: usize) -> String {
    format!("<div class=\"panels c{}\">\n", columns.clamp(1, 3))
}

/// A chart with its heading.
pub(super) fn panel(title: &str, under: &str, svg: &str, below: Option<&str>) -> String {
    let mut panel = String::from("<figure class=\"panel\"><figcaption>");
    if !title.is_empty() {
        let _ = write!(panel, "<b>{}</b> ", html(title));
    }
    let _ = write!(panel, "<span>{}</span></figcaption>\n{svg}", html(under));
    if let Some(below) = below {
        let _ = writeln!(panel, "<p class=\"below\">{}</p>", html(below));
    }
    panel.push_str("</figure>\n");
    panel
}
