//! Tables with the ratio of every cell; the colour shows the distance from even: blue better,
//! orange worse. The numbers show the same without colours.

use std::fmt::Write as _;

use page::escape::html;
use page::number::{Quantity, ratio};

use super::pairs::{Pair, Summary, Verdict, pairs};
use super::parameter::parameter;
use super::study::{
    CellPercentiles, Figure, MeasuredDevice, Phase, Study, WriteOrRead, order_of_rows,
};

/// Returns the section, empty without a rival.
pub(super) fn section(study: &Study) -> String {
    let Some((ours, rivals)) = study.targets.split_first() else {
        return String::new();
    };
    let mut tables = String::new();
    for rival in rivals {
        let mut of_rival = String::new();
        for phase in &study.phases {
            for way in phase.ways() {
                phase_tables(&mut of_rival, phase, way, (ours, rival));
            }
        }
        if !of_rival.is_empty() {
            let _ = writeln!(
                tables,
                "<h3>{}'s throughput divided by {}'s</h3>\n{of_rival}",
                html(ours),
                html(rival)
            );
        }
    }
    if tables.is_empty() {
        return tables;
    }
    format!(
        "<section id=\"cells\"><h2>Ratio of every cell</h2>\n<p class=\"note\">The median of the pairs of \
         each cell. <span class=\"key w4\">blue, above 1x</span> {} is faster; \
         <span class=\"key l4\">orange, below 1x, underlined</span> the rival is. Point at a cell for both \
         figures.</p>\n{tables}</section>\n",
        html(ours)
    )
}

fn phase_tables(page: &mut String, phase: &Phase, way: WriteOrRead, names: (&str, &str)) {
    let of_place = |place: &MeasuredDevice| pairs(phase, place, names, Figure::Rate(way));
    let measured: Vec<(&MeasuredDevice, Vec<Pair>)> = phase
        .places
        .iter()
        .map(|place| (place, of_place(place)))
        .filter(|(_, pairs)| !pairs.is_empty())
        .collect();
    if measured.is_empty() {
        return;
    }
    let table = Table::of(phase);
    let columns = if table.across.is_some() {
        measured.len()
    } else {
        1
    };
    let title = html(&phase.title(way));
    let _ = write!(page, "<h4>{title}</h4>\n{}", page::frame::panels(columns));
    if let Some(across) = table.across {
        let values = distinct(
            phase
                .cells
                .iter()
                .map(|measured| vec![value(measured, across)]),
        );
        let heads = values.iter().map(|value| parameter(across, &value[0]));
        let heads: Vec<String> = heads.collect();
        for (place, pairs) in &measured {
            open(page, &phase.place_name(place), &table.corner(), &heads);
            for row in table.rows(pairs.iter()) {
                let cells = values.iter().map(|head| {
                    in_cell(pairs, way, |pair| {
                        table.row(pair) == row && value(pair.ours, across) == head[0]
                    })
                });
                line(page, &table.row_head(phase, &row), cells);
            }
            page.push_str("</tbody></table></div>\n");
        }
    } else {
        let heads = measured.iter().map(|(place, _)| phase.place_name(place));
        let heads: Vec<String> = heads.collect();
        open(page, "", &table.corner(), &heads);
        for row in table.rows(measured.iter().flat_map(|(_, pairs)| pairs)) {
            let cells = measured
                .iter()
                .map(|(_, pairs)| in_cell(pairs, way, |pair| table.row(pair) == row));
            line(page, &table.row_head(phase, &row), cells);
        }
        page.push_str("</tbody></table></div>\n");
    }
    page.push_str("</div>\n");
}

/// The parameter of the columns and those of the rows; without one for columns, columns are
/// devices.
struct Table<'a> {
    across: Option<&'a String>,
    down: Vec<&'a String>,
}

impl<'a> Table<'a> {
    fn of(phase: &'a Phase) -> Table<'a> {
        // Sizes are last among the others, so that they remain rows.
        let of_two = || phase.others.first().filter(|_| phase.others.len() > 1);
        let across = phase.along.as_ref().or_else(of_two);
        let down = phase.others.iter().filter(|name| Some(*name) != across);
        Table {
            across,
            down: down.collect(),
        }
    }

    fn row(&self, pair: &Pair) -> Vec<String> {
        self.down
            .iter()
            .map(|name| value(pair.ours, name))
            .collect()
    }

    fn rows<'p>(&self, pairs: impl Iterator<Item = &'p Pair<'p, 'p>>) -> Vec<Vec<String>> {
        distinct(pairs.map(|pair| self.row(pair)))
    }

    fn row_head(&self, phase: &Phase, row: &[String]) -> String {
        if row.is_empty() {
            return phase.name.clone();
        }
        let values = self.down.iter().zip(row);
        let values = values.map(|(name, value)| parameter(name, value));
        values.collect::<Vec<_>>().join(", ")
    }

    fn corner(&self) -> String {
        let down: Vec<&str> = self.down.iter().map(|name| name.as_str()).collect();
        let down = down.join(", ");
        page::svg::words(&[&down, self.across.map_or("", String::as_str)], " by ")
    }
}

fn value(measured: &CellPercentiles, name: &str) -> String {
    let value = measured.cell.parameters.get(name);
    value.cloned().unwrap_or_default()
}

/// Returns each combination once, in order.
fn distinct(rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = rows.collect();
    rows.sort_by(|one, two| order_of_rows(one, two));
    rows.dedup();
    rows
}

fn open(page: &mut String, caption: &str, corner: &str, heads: &[String]) {
    page.push_str("<div class=\"scroll\"><table class=\"heat\">");
    if !caption.is_empty() {
        let _ = write!(page, "<caption>{}</caption>", html(caption));
    }
    let _ = write!(page, "<thead><tr><th scope=\"col\">{}</th>", html(corner));
    for head in heads {
        let _ = write!(page, "<th scope=\"col\">{}</th>", html(head));
    }
    page.push_str("</tr></thead><tbody>\n");
}

fn line(page: &mut String, head: &str, cells: impl Iterator<Item = String>) {
    let _ = write!(page, "<tr><th scope=\"row\">{}</th>", html(head));
    cells.for_each(|cell| page.push_str(&cell));
    page.push_str("</tr>\n");
}

fn in_cell(pairs: &[Pair], way: WriteOrRead, fits: impl Fn(&Pair) -> bool) -> String {
    let here: Vec<&Pair> = pairs.iter().filter(|pair| fits(pair)).collect();
    let ratios: Vec<f64> = here.iter().map(|pair| pair.ratio).collect();
    let Some(summary) = Summary::of(&ratios) else {
        return "<td class=\"none\" title=\"not measured\">-</td>".to_owned();
    };
    let figures = here.first().map(|pair| {
        let rate = |measured| Figure::Rate(way).of(measured).unwrap_or(f64::NAN);
        format!(
            "{} {} against {} {}",
            pair.ours.cell.target,
            Quantity::Rate.show(rate(pair.ours)),
            pair.rival.cell.target,
            Quantity::Rate.show(rate(pair.rival))
        )
    });
    let mut says = figures.unwrap_or_default();
    if summary.pairs() > 1 {
        let _ = write!(
            says,
            " in the first of {} pairs, {}..{}",
            summary.pairs(),
            ratio(summary.low),
            ratio(summary.high)
        );
    }
    format!(
        "<td class=\"{}\" title=\"{}\">{}</td>",
        shade(summary.median),
        html(&says),
        ratio(summary.median)
    )
}

/// Returns the class of a ratio: even, or five steps to either side, by factors of 1.2, 1.5, 2.5
/// and 5.
fn shade(ratio: f64) -> String {
    let verdict = Verdict::of(ratio);
    if verdict == Verdict::Even {
        return "even".to_owned();
    }
    let away = ratio.max(1.0 / ratio);
    let step = 1 + [1.2, 1.5, 2.5, 5.0]
        .iter()
        .filter(|bound| away >= **bound)
        .count();
    let side = if verdict == Verdict::Won { 'w' } else { 'l' };
    format!("{side}{step}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_far_to_either_side() {
        for (ratio, class) in [
            (1.01, "even"),
            (1.1, "w1"),
            (0.9, "l1"),
            (3.0, "w4"),
            (1.0 / 3.0, "l4"),
            (80.0, "w5"),
        ] {
            assert_eq!(shade(ratio), class, "{ratio}");
        }
    }
}
