//! Charts of an answer, drawn with the same crate as the reports of measurements.

use page::bars::{Bar, Bars, Group};
use page::chart::{Chart, Line, Point, XAxis, YAxis};
use page::frame::{panel, panels};
use page::number::Quantity;

use crate::answer::{FleetFigures, Plan};
use crate::quantity::significant;
use crate::sensitivity::PriceSweep;

/// Factor from dollars to thousands of dollars.
const THOUSAND: f64 = 1e-3;

/// Largest share in percent that is drawn; larger ones are drawn as this.
const SHARE_MAX: f64 = 150.0;

/// Returns all charts.
pub(super) fn section(plan: &Plan, chosen: &FleetFigures) -> String {
    let mut markup = String::from("<section id=\"charts\"><h2>At a glance</h2>\n");
    markup.push_str(&panels(2));
    markup.push_str(&panel(
        "Cost",
        "thousands of dollars over the years",
        &cost(plan, chosen),
        None,
    ));
    markup.push_str(&panel(
        "Used",
        "percent of what is allowed, one broker",
        &uses(chosen),
        None,
    ));
    if let Some(chart) = fill(chosen) {
        let below = "Straight lines of the model; the policy itself moves whole segments.";
        markup.push_str(&panel(
            "First tier",
            "percent full, over two bursts",
            &chart,
            Some(below),
        ));
    }
    markup.push_str("</div>\n");
    let prices: Vec<&PriceSweep> = plan
        .sensitivity
        .iter()
        .flat_map(|all| &all.prices)
        .collect();
    if !prices.is_empty() {
        markup.push_str("<h3>What each price does</h3>\n<p class=\"note\">The cost of the cheapest mix over one price. Where a line ends another mix begins.</p>\n");
        markup.push_str(&panels(3));
        for price in prices {
            markup.push_str(&panel(
                &price.id,
                &format!("now {}", price.now),
                &envelope(price),
                None,
            ));
        }
        markup.push_str("</div>\n");
    }
    markup.push_str("</section>\n");
    markup
}

fn cost(plan: &Plan, chosen: &FleetFigures) -> String {
    let bar = |label: String, series: usize, value: f64| Bar {
        label,
        series: Some(series),
        value: value * THOUSAND,
        spread: None,
    };
    let mut bars = vec![bar(
        format!("forebay, {}", chosen.brokers),
        0,
        chosen.cost.total.0,
    )];
    for (series, beside) in (1..).zip(&plan.kafka) {
        if let Some(other) = &beside.chosen {
            bars.push(bar(
                format!("{}, {}", beside.software, other.brokers),
                series,
                other.cost.total.0,
            ));
        }
    }
    for other in &plan.alternatives {
        if let Some(cost) = other.cost {
            bars.push(bar(format!("{} x {}", other.brokers, other.mix), 3, cost.0));
        }
    }
    let high = bars.iter().map(Bar::highest).fold(1e-9, f64::max);
    Bars {
        name: "Cost of the answer, of plain Kafka, and of the next kinds".to_owned(),
        quantity: Quantity::Plain,
        high,
        groups: vec![Group {
            title: String::new(),
            bars,
        }],
    }
    .draw()
}

fn uses(chosen: &FleetFigures) -> String {
    let bars = chosen
        .uses
        .iter()
        .filter(|used| used.checked && used.allowed.is_finite())
        .map(|used| Bar {
            label: used.name.clone(),
            series: Some(usize::from(used.name == chosen.binding)),
            value: (used.share * 100.0).min(SHARE_MAX),
            spread: None,
        })
        .collect();
    Bars {
        name: "Used of everything that is limited".to_owned(),
        quantity: Quantity::Plain,
        high: 100.0,
        groups: vec![Group {
            title: String::new(),
            bars,
        }],
    }
    .draw()
}

fn fill(chosen: &FleetFigures) -> Option<String> {
    let curve = &chosen.burst.as_ref()?.curve;
    let points: Vec<Point> = curve
        .iter()
        .map(|(at, fill)| Point {
            x: *at,
            y: fill * 100.0,
            spread: None,
        })
        .collect();
    let mut steps: Vec<(f64, String)> = Vec::new();
    for (at, _) in curve {
        if steps.last().is_none_or(|(last, _)| at > last) {
            steps.push((*at, significant(*at)));
        }
    }
    (!points.is_empty()).then(|| {
        Chart {
            name: "Fill of what takes the bursts".to_owned(),
            x: XAxis {
                title: "seconds".to_owned(),
                steps,
                even: false,
            },
            y: YAxis {
                quantity: Quantity::Plain,
                high: 100.0,
                log_from: None,
            },
            lines: vec![Line {
                label: "full".to_owned(),
                series: Some(0),
                points,
            }],
        }
        .draw()
    })
}

/// Returns a chart with one line for each mix of the envelope.
fn envelope(price: &PriceSweep) -> String {
    let mut steps: Vec<(f64, String)> = Vec::new();
    let mut lines = Vec::new();
    let mut high = 1e-9_f64;
    for (series, piece) in price.pieces.iter().enumerate() {
        let points = [(piece.from, piece.cost.0.0), (piece.to, piece.cost.1.0)].map(|(x, y)| {
            high = high.max(y * THOUSAND);
            Point {
                x,
                y: y * THOUSAND,
                spread: None,
            }
        });
        for point in &points {
            if steps.iter().all(|(known, _)| *known < point.x) {
                steps.push((point.x, format!("x{}", significant(point.x))));
            }
        }
        lines.push(Line {
            label: if piece.chosen {
                "answer".to_owned()
            } else {
                format!("{} brokers", piece.brokers)
            },
            series: Some(series),
            points: points.to_vec(),
        });
    }
    Chart {
        name: format!("Cost over the price of {}: {}", price.id, price.says),
        x: XAxis {
            title: "times the price".to_owned(),
            steps,
            even: false,
        },
        y: YAxis {
            quantity: Quantity::Plain,
            high,
            log_from: None,
        },
        lines,
    }
    .draw()
}
