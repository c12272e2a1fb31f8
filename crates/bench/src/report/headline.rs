//! The first section: the first target against each rival, pair by pair, showing wins and losses
//! alike.

use std::fmt::Write as _;

use page::escape::html;
use page::number::{coordinate, ratio};
use page::scale::Scale;

use super::pairs::{Pair, Summary, Verdict, median, pairs};
use super::study::{Figure, MeasuredDevice, Phase, Study, WriteOrRead};

/// Limit on the lost cells listed here; the tables have all.
const NAMED_MAX: usize = 8;

/// One row: a phase at a place against a rival.
struct Row<'a, 'b> {
    phase: &'b Phase<'a>,
    way: WriteOrRead,
    place: &'b MeasuredDevice,
    pairs: Vec<Pair<'a, 'b>>,
    summary: Summary,
    p99: Option<f64>,
    cpu: Option<f64>,
}

/// Returns the section, with a note if there is nothing to compare.
pub(super) fn section(study: &Study) -> String {
    let mut page = String::from("<section id=\"ratios\">\n");
    let Some((ours, rivals)) = study.targets.split_first() else {
        return "<section id=\"ratios\"><h2>Ratios</h2><p>Nothing was measured.</p></section>\n"
            .to_owned();
    };
    let mut compared = false;
    for rival in rivals {
        let rows = rows(study, ours, rival);
        if !rows.is_empty() {
            against(&mut page, (ours, rival), &rows);
            compared = true;
        }
    }
    if !compared {
        let ours = html(ours);
        let _ = writeln!(
            page,
            "<h2>Ratios</h2><p>Only {ours} was measured: there is nothing to compare it with. \
             Add a rival with <code>targets</code> in the experiment's file.</p>"
        );
    }
    page.push_str("</section>\n");
    page
}

fn rows<'a, 'b>(study: &'b Study<'a>, ours: &str, rival: &str) -> Vec<Row<'a, 'b>> {
    let mut rows = Vec::new();
    for phase in &study.phases {
        for way in phase.ways() {
            for place in &phase.places {
                let of = |figure| pairs(phase, place, (ours, rival), figure);
                let pairs = of(Figure::Rate(way));
                let ratios: Vec<f64> = pairs.iter().map(|pair| pair.ratio).collect();
                let Some(summary) = Summary::of(&ratios) else {
                    continue;
                };
                let middle = |figure| {
                    let ratios: Vec<f64> = of(figure).iter().map(|pair| pair.ratio).collect();
                    median(&ratios)
                };
                rows.push(Row {
                    phase,
                    way,
                    place,
                    pairs,
                    summary,
                    p99: middle(Figure::P99(way)),
                    cpu: middle(Figure::CpuPerGb),
                });
            }
        }
    }
    rows
}

fn against(page: &mut String, (ours, rival): (&str, &str), rows: &[Row]) {
    let all: Vec<f64> = rows
        .iter()
        .flat_map(|row| row.pairs.iter().map(|pair| pair.ratio))
        .collect();
    // Pairs in which both kept a given rate do not compare their speed.
    let told = rows.iter().flat_map(|row| {
        let kept = |ratio: &f64| row.phase.is_paced() && Verdict::of(*ratio) == Verdict::Even;
        row.pairs
            .iter()
            .map(|pair| pair.ratio)
            .filter(move |ratio| !kept(ratio))
    });
    let told: Vec<f64> = told.collect();
    let Some(total) = Summary::of(if told.is_empty() { &all } else { &told }) else {
        return;
    };
    let (ours, rival) = (html(ours), html(rival));
    let _ = writeln!(
        page,
        "<h2>{ours} against {rival}</h2>\n<p class=\"lead\">In the median pair {ours} has \
         <b class=\"big {}\">{}</b> the throughput of {rival}. {}</p>",
        Verdict::of(total.median).class(),
        ratio(total.median),
        verdicts(&total),
    );
    let high = all.iter().copied().fold(2.0, f64::max);
    let low = all.iter().copied().fold(0.5, f64::min);
    let scale = Scale::log_around(low, high, (0.0, 100.0));
    page.push_str("<table class=\"strips\">\n<thead><tr><th scope=\"col\">load</th>");
    let _ = write!(
        page,
        "<th scope=\"col\" class=\"strip\"><span class=\"sr\">pairs</span><div class=\"ticks\" aria-hidden=\"true\">"
    );
    for tick in scale.ticks(7) {
        if let Some(at) = scale.at(tick) {
            let _ = write!(
                page,
                "<span style=\"left:{}%\">{}x</span>",
                coordinate(at),
                page::number::significant(tick)
            );
        }
    }
    page.push_str(
        "</div></th><th scope=\"col\">throughput</th><th scope=\"col\">p99 latency</th>\
         <th scope=\"col\">broker CPU per GB</th></tr></thead>\n<tbody>\n",
    );
    for row in rows {
        row.write(page, &scale);
    }
    page.push_str("</tbody></table>\n");
    let _ = writeln!(
        page,
        "<p class=\"note\">All figures are {ours}'s divided by {rival}'s. A dot is one pair: the same load on \
         both, one after the other; the bar is the median. Throughput: more is better, right of 1x {ours} is \
         faster, within 2 % neither is. Latency and CPU: less is better. Brackets: lowest and highest pair. Paced loads count in the sentence above only where a \
         rate was not kept.</p>"
    );
    losses(page, rows, &rival);
}

fn verdicts(total: &Summary) -> String {
    let pairs = total.pairs();
    let even = match total.even {
        0 => String::new(),
        even => format!(", even in {even}"),
    };
    let noun = if pairs == 1 { "pair" } else { "pairs" };
    format!(
        "Faster in {} of {pairs} {noun}{even}, slower in {}.",
        total.won, total.lost
    )
}

impl Row<'_, '_> {
    fn write(&self, page: &mut String, scale: &Scale) {
        let summary = &self.summary;
        let name = html(&self.phase.title(self.way));
        let place = html(&self.phase.place_name(self.place));
        let _ = write!(
            page,
            "<tr><th scope=\"row\">{name} <span>{place}</span></th><td class=\"strip\">{}</td>",
            self.strip(scale, &format!("{name}, {place}"))
        );
        let _ = write!(
            page,
            "<td class=\"figure\"><b class=\"{}\">{}</b>{}</td>",
            Verdict::of(summary.median).class(),
            ratio(summary.median),
            summary.brackets()
        );
        for (label, value) in [("p99", self.p99), ("CPU", self.cpu)] {
            match value {
                Some(value) => {
                    let class = Verdict::of(1.0 / value).class();
                    let _ = write!(
                        page,
                        "<td class=\"figure less\" data-name=\"{label}\"><span class=\"{class}\">{}</span></td>",
                        ratio(value)
                    );
                }
                None => {
                    let _ = write!(
                        page,
                        "<td class=\"figure less\" data-name=\"{label}\">-</td>"
                    );
                }
            }
        }
        page.push_str("</tr>\n");
    }

    /// Returns dots on a line that fills the page's width: positions are in percent.
    fn strip(&self, scale: &Scale, name: &str) -> String {
        let percent = |value: f64| scale.at(value).map_or_else(String::new, coordinate);
        let mut svg = format!(
            "<svg class=\"strip\" role=\"img\" aria-label=\"{name}: median {}, {} to {} in {} pairs\">",
            ratio(self.summary.median),
            ratio(self.summary.low),
            ratio(self.summary.high),
            self.summary.pairs()
        );
        svg.push_str("<line x1=\"0\" x2=\"100%\" y1=\"11\" y2=\"11\" class=\"grid\"/>");
        let one = percent(1.0);
        let _ = write!(
            svg,
            "<line x1=\"{one}%\" x2=\"{one}%\" y1=\"0\" y2=\"22\" class=\"axis\"/>"
        );
        for pair in &self.pairs {
            let _ = write!(
                svg,
                "<circle cx=\"{}%\" cy=\"11\" r=\"4\" class=\"{}\"><title>{}: {}</title></circle>",
                percent(pair.ratio),
                Verdict::of(pair.ratio).class(),
                html(&self.pair_name(pair)),
                ratio(pair.ratio)
            );
        }
        let middle = percent(self.summary.median);
        let _ = write!(
            svg,
            "<line x1=\"{middle}%\" x2=\"{middle}%\" y1=\"3\" y2=\"19\" class=\"median\"/></svg>"
        );
        svg
    }

    fn pair_name(&self, pair: &Pair) -> String {
        let row = self.phase.row_of(pair.ours);
        let mut parts = Vec::new();
        if !row.is_empty() {
            parts.push(self.phase.row_name(&row));
        }
        if let Some(along) = &self.phase.along
            && let Some(value) = pair.ours.cell.parameters.get(along)
        {
            parts.push(super::study::named(along, value));
        }
        if parts.is_empty() {
            // Nothing was varied, so this names the fixed parameters, which all repetitions share.
            let fixed = self.phase.fixed.iter();
            parts.extend(fixed.map(|(name, value)| super::study::named(name, value)));
        }
        parts.join(", ")
    }
}

/// A cell in which the rival was faster: its ratios, and the figures of its first pair.
struct Loss {
    name: String,
    ratios: Vec<f64>,
    figures: String,
}

fn losses(page: &mut String, rows: &[Row], rival: &str) {
    let mut cells: Vec<Loss> = Vec::new();
    for row in rows {
        for pair in &row.pairs {
            let title = row.phase.title(row.way);
            let place = row.phase.place_name(row.place);
            let name = page::svg::words(&[&title, &place, &row.pair_name(pair)], ", ");
            match cells.iter_mut().find(|cell| cell.name == name) {
                Some(cell) => cell.ratios.push(pair.ratio),
                None => cells.push(Loss {
                    name,
                    ratios: vec![pair.ratio],
                    figures: format!(
                        "{} against {}",
                        shown(row.way, pair.ours),
                        shown(row.way, pair.rival)
                    ),
                }),
            }
        }
    }
    let all = cells.len();
    let mut lost: Vec<(f64, Loss)> = cells
        .into_iter()
        .filter_map(|cell| Some((median(&cell.ratios)?, cell)))
        .filter(|(ratio, _)| Verdict::of(*ratio) == Verdict::Lost)
        .collect();
    if lost.is_empty() {
        let _ = writeln!(page, "<p>{rival} is faster in none of {all} cells.</p>");
        return;
    }
    lost.sort_by(|one, two| one.0.total_cmp(&two.0));
    let _ = writeln!(
        page,
        "<h3>Where {rival} is faster: {} of {all} cells</h3>\n<ul class=\"losses\">",
        lost.len()
    );
    for (value, cell) in lost.iter().take(NAMED_MAX) {
        let several = match cell.ratios.len() {
            1 => String::new(),
            pairs => format!(" (first of {pairs} pairs)"),
        };
        let _ = writeln!(
            page,
            "<li><b class=\"lost\">{}</b> {}: {}{several}</li>",
            ratio(*value),
            html(&cell.name),
            cell.figures
        );
    }
    page.push_str("</ul>\n");
    if lost.len() > NAMED_MAX {
        let more = lost.len() - NAMED_MAX;
        let _ = writeln!(
            page,
            "<p class=\"note\">And {more} more: see the <a href=\"#cells\">ratio of every cell</a>.</p>"
        );
    }
}

fn shown(way: WriteOrRead, measured: &super::study::CellPercentiles) -> String {
    let rate = Figure::Rate(way).of(measured);
    page::number::Quantity::Rate.show(rate.unwrap_or(f64::NAN))
}
