//! What was run and on which machine: the notices that must not be missed, the targets, the
//! machine, the commands, and the figures of every cell.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use page::escape::html;
use page::number::{NONE, Quantity, count, significant};

use crate::outcome::{Cell, Run};

use super::study::{Figure, Study, WriteOrRead, named};

/// Limit on the listed kinds of errors of all cells.
const ERRORS_MAX: usize = 12;

/// Returns what a reader must know before any figure: the run was ended early, cells failed,
/// records were lost.
pub(super) fn notices(run: &Run) -> String {
    let mut page = String::new();
    let mut notice = |class: &str, text: &str| {
        let _ = writeln!(page, "<p class=\"notice {class}\" role=\"note\">{text}</p>");
    };
    if let Some(why) = &run.aborted {
        let why = html(why);
        notice(
            "bad",
            &format!("<b>Partial.</b> The run was ended before all was measured: {why}"),
        );
    }
    for cell in &run.cells {
        if let Some(why) = &cell.outcome.aborted {
            let text = format!(
                "<b>Aborted:</b> {}: {}. It is in no chart.",
                cell_name(cell),
                html(why)
            );
            notice("bad", &text);
        }
        if let Some(found) = &cell.outcome.verified
            && found.lost + found.duplicated + found.disordered + found.damaged > 0
        {
            let text = format!(
                "<b>Records:</b> {}: {} lost, {} duplicated, {} out of order, {} damaged, of {}.",
                cell_name(cell),
                count(found.lost),
                count(found.duplicated),
                count(found.disordered),
                count(found.damaged),
                count(found.acknowledged)
            );
            notice("bad", &text);
        }
    }
    for text in errors(run) {
        notice("bad", &format!("<b>Errors:</b> {text}"));
    }
    for what in &run.emulated {
        notice("", &format!("<b>Emulated:</b> {}", html(what)));
    }
    page
}

/// Returns a line per kind of error: how often, on which target, in how many cells.
fn errors(run: &Run) -> Vec<String> {
    let mut kinds: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for cell in &run.cells {
        for (text, times) in &cell.outcome.errors {
            let kind = kinds.entry((text, &cell.target)).or_default();
            kind.0 = kind.0.saturating_add(*times);
            kind.1 += 1;
        }
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (times, _))| std::cmp::Reverse(*times));
    let more = kinds.len().saturating_sub(ERRORS_MAX);
    let line = |((text, target), (times, cells)): ((&str, &str), (u64, u64))| {
        let (noun, times) = (if cells == 1 { "cell" } else { "cells" }, count(times));
        format!(
            "{}, {}: {times}x, in {cells} {noun}",
            html(target),
            html(text)
        )
    };
    let mut lines: Vec<String> = kinds.into_iter().take(ERRORS_MAX).map(line).collect();
    if more > 0 {
        lines.push(format!("{more} more kinds are in run.json"));
    }
    lines
}

fn cell_name(cell: &Cell) -> String {
    let mut parts = vec![cell.target.clone(), cell.phase.clone()];
    if !cell.device.is_empty() {
        parts.push(cell.device.clone());
    }
    parts.extend(
        cell.parameters
            .iter()
            .map(|(name, value)| named(name, value)),
    );
    if cell.repetition > 0 {
        parts.push(format!("repetition {}", cell.repetition + 1));
    }
    html(&parts.join(", "))
}

/// Returns the section on the machine, the targets and the commands.
pub(super) fn section(run: &Run) -> String {
    let mut page = String::from("<section id=\"setup\"><h2>What was run, on what</h2>\n");
    if !run.targets.is_empty() {
        page.push_str(
            "<div class=\"scroll\"><table class=\"plain\"><thead><tr><th scope=\"col\">target</th>\
             <th scope=\"col\">version</th><th scope=\"col\">durability</th><th scope=\"col\">command</th></tr></thead><tbody>\n",
        );
        let named = run
            .order
            .iter()
            .filter_map(|name| run.targets.get_key_value(name));
        let rest = run
            .targets
            .iter()
            .filter(|(name, _)| !run.order.contains(name));
        for (name, facts) in named.chain(rest) {
            let _ = writeln!(
                page,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
                html(name),
                html(&facts.version),
                html(&facts.durability),
                html(&facts.command)
            );
        }
        page.push_str("</tbody></table></div>\n");
    }
    if !run.machine.is_empty() {
        page.push_str("<h3>Machine</h3>\n<dl>\n");
        for (name, value) in &run.machine {
            let _ = writeln!(page, "<dt>{}</dt><dd>{}</dd>", html(name), html(value));
        }
        page.push_str("</dl>\n");
    }
    if !run.command.is_empty() {
        let command = html(&run.command);
        let _ = writeln!(page, "<h3>Command</h3>\n<pre><code>{command}</code></pre>");
    }
    page.push_str("</section>\n");
    page
}

/// Returns the figures of every cell, collapsed.
pub(super) fn cells(study: &Study) -> String {
    if study.phases.is_empty() {
        return String::new();
    }
    let mut page = String::from(
        "<section id=\"figures\"><h2>All figures</h2>\n<p class=\"note\">The same with all digits is in \
         <code>cells.csv</code>, with curves and histograms in <code>run.json</code>, both beside this file.</p>\n\
         <details><summary>Every cell</summary><div class=\"scroll\"><table class=\"plain\"><thead><tr>",
    );
    for head in ["phase", "device", "load", "target"] {
        let _ = write!(page, "<th scope=\"col\">{head}</th>");
    }
    for head in [
        "written", "p50", "p99", "max", "read", "p50", "p99", "max", "CPU-s/GB", "memory",
    ] {
        let _ = write!(page, "<th scope=\"col\" class=\"n\">{head}</th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    for phase in &study.phases {
        for measured in &phase.cells {
            let cell = measured.cell;
            let load = cell
                .parameters
                .iter()
                .map(|(name, value)| named(name, value));
            let load: Vec<String> = load.collect();
            let temperature = if cell.cold { ", cold" } else { "" };
            let _ = write!(
                page,
                "<tr><td>{}</td><td>{}{temperature}</td><td>{}</td><td>{}</td>",
                html(&cell.phase),
                html(&cell.device),
                html(&load.join(", ")),
                html(&cell.target)
            );
            let mut figure = |text: Option<String>| {
                let text = text.filter(|text| text != NONE).unwrap_or_default();
                let _ = write!(page, "<td class=\"n\">{text}</td>");
            };
            for way in WriteOrRead::BOTH {
                figure(
                    Figure::Rate(way)
                        .of(measured)
                        .map(|rate| Quantity::Rate.show(rate)),
                );
                let latency = measured.percentiles(way);
                let show = |value: u64| Quantity::Latency.show(value as f64);
                figure(latency.map(|found| show(found.p50)));
                figure(latency.map(|found| show(found.p99)));
                figure(latency.map(|found| show(found.max)));
            }
            figure(Figure::CpuPerGb.of(measured).map(significant));
            let broker = cell.outcome.broker.as_ref();
            let memory = broker
                .map(|usage| usage.resident_bytes_max as f64)
                .filter(|bytes| *bytes > 0.0);
            figure(memory.map(|bytes| Quantity::Bytes.show(bytes)));
            page.push_str("</tr>\n");
        }
    }
    page.push_str("</tbody></table></div></details></section>\n");
    page
}
