//! The grid of peak by retention, precomputed: a table, in which two sliders look up answers if the
//! page runs its script.

use std::fmt::Write as _;

use page::escape::html;

use crate::answer::Plan;
use crate::quantity::significant;
use crate::sensitivity::{Point, grid_factor};

const SCRIPT: &str = include_str!("grid.js");

pub(super) fn section(markup: &mut String, plan: &Plan) {
    let grid = plan
        .sensitivity
        .iter()
        .flat_map(|all| &all.grid)
        .collect::<Vec<_>>();
    let rows = u32::try_from(grid.len()).unwrap_or(u32::MAX);
    let Some(columns) = grid.first().and_then(|row| u32::try_from(row.len()).ok()) else {
        return;
    };
    markup.push_str(
        "<section id=\"grid\"><h2>Peak and retention</h2>\n<p class=\"note\">Answers that were computed before, from a quarter \
         to four times of what is asked for. Nothing is computed here.</p>\n<div id=\"sliders\" hidden>\n",
    );
    for (id, label, steps) in [
        ("grid-peak", "peak", rows),
        ("grid-retention", "retention", columns),
    ] {
        let _ = writeln!(
            markup,
            "<p><label for=\"{id}\">{label}</label> <input type=\"range\" id=\"{id}\" min=\"0\" max=\"{}\" value=\"{}\"> <output for=\"{id}\"></output></p>",
            steps.saturating_sub(1),
            steps / 2
        );
    }
    markup.push_str("<p class=\"lead\" id=\"grid-answer\" aria-live=\"polite\"></p>\n</div>\n<details><summary>All of them</summary>\n");
    markup.push_str("<div class=\"scroll\"><table class=\"plain\" id=\"grid-table\"><caption>Brokers, and dollars</caption><thead><tr><th scope=\"col\">peak, times</th>");
    for column in 0..columns {
        let factor = significant(grid_factor(column, columns));
        let _ = write!(
            markup,
            "<th scope=\"col\" class=\"n\" data-factor=\"{factor}\">retention x {factor}</th>"
        );
    }
    markup.push_str("</tr></thead><tbody>\n");
    for (row, line) in (0..).zip(&grid) {
        let factor = significant(grid_factor(row, rows));
        let _ = write!(
            markup,
            "<tr><th scope=\"row\" data-factor=\"{factor}\">x {factor}</th>"
        );
        for point in *line {
            let _ = write!(markup, "{}", cell(point.as_ref()));
        }
        markup.push_str("</tr>\n");
    }
    let _ = writeln!(
        markup,
        "</tbody></table></div></details>\n<script>\n{SCRIPT}</script></section>"
    );
}

fn cell(point: Option<&Point>) -> String {
    match point {
        Some(point) => {
            let says = format!("{} x {}, {}", point.brokers, point.mix, point.cost);
            format!(
                "<td class=\"n\" data-answer=\"{}\">{}, {}</td>",
                html(&says),
                point.brokers,
                point.cost
            )
        }
        None => "<td class=\"n\" data-answer=\"nothing carries it\">-</td>".to_owned(),
    }
}
