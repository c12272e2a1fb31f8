//! The report of an experiment: one file that loads nothing and can be read without scripts, drawn
//! from the stored result.
//!
//! Pure. Invariant: a verdict other than adopt is shown as prominently; each effect is shown with
//! the smallest effect that could be detected.

pub mod sample;

use std::fmt::Write as _;

use page::chart::{Chart, Line, Point, XAxis, YAxis};
use page::escape::html;
use page::frame::{self, Chip, Page};
use page::number::{Quantity, significant};
use serde::{Deserialize, Serialize};

use crate::experiment::assign::Arm;
use crate::experiment::decide::{Effect, Verdict};
use crate::experiment::design::{Design, Mode};
use crate::experiment::run::{Result, Sample};

/// The stored part of an experiment that is drawn.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct StoredExperiment {
    /// The design.
    pub design: Design,
    /// The changes.
    pub changes: Vec<ChangedItem>,
    /// Facts on the host.
    pub host: Vec<(String, String)>,
    /// The result.
    #[serde(flatten)]
    pub result: Result,
}

/// An item of the change.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct ChangedItem {
    /// The knob.
    pub item: String,
    /// The old value.
    pub old: String,
    /// The value in the test arm.
    pub want: String,
}

/// Returns the whole file, for one comparison or several with the same design.
pub fn page(kept: &[StoredExperiment]) -> String {
    let Some(first) = kept.first() else {
        return String::new();
    };
    let design = &first.design;
    let note = format!(
        "{} pairs of blocks of {}, after {} pairs without a change; seed {}",
        design.pairs,
        Quantity::Latency.show(design.block_ms as f64 * 1e3),
        design.pairs_of_same(),
        design.seed
    );
    let head = headline(kept);
    let why = if kept.len() == 1 {
        first.result.why.as_str()
    } else {
        asked(design.mode)
    };
    let mut markup = frame::header("forebay tune experiment", &head, why, &note);
    let chips = [("control", "as it was"), ("test", "with the change")];
    markup.push_str(&frame::chips(
        "Arms",
        &chips.map(|(name, says)| Chip { name, says }),
    ));
    if kept.len() > 1 {
        let row = |kept: &StoredExperiment| {
            vec![
                items(kept),
                verdict(kept.result.verdict).to_owned(),
                kept.result.why.clone(),
            ]
        };
        let rows = kept.iter().map(row).collect();
        markup.push_str(&table("Item by item", &["item", "verdict", "why"], rows));
    }
    for one in kept {
        let of = if kept.len() > 1 {
            format!(": {}", items(one))
        } else {
            String::new()
        };
        markup.push_str(&effects(&one.result, &of));
        markup.push_str(&panels(one, &of));
    }
    markup.push_str(&table(
        "What was changed",
        &["knob", "before", "in the test arm"],
        kept.iter().flat_map(changes).collect(),
    ));
    let host = first
        .host
        .iter()
        .map(|(name, value)| vec![name.clone(), value.clone()]);
    markup.push_str(&table("The host", &["", ""], host.collect()));
    markup.push_str("<p class=\"note\">The change was taken back after the last block. It is applied with forebay tune apply, and \
                     taken back with forebay tune undo.</p>\n");
    Page {
        title: &format!("{head} - forebay tune"),
        markup: &markup,
        footer: &format!("Drawn by forebay tune {}.", env!("CARGO_PKG_VERSION")),
    }
    .draw()
}

fn items(kept: &StoredExperiment) -> String {
    let items: Vec<&str> = kept
        .changes
        .iter()
        .map(|change| change.item.as_str())
        .collect();
    items.join(", ")
}

fn asked(mode: Mode) -> &'static str {
    match mode {
        Mode::Bundle => "All items together.",
        Mode::Each => "Each item beside those that were adopted before it.",
        Mode::Ablate => "All items against all but one: adopted is what is needed.",
    }
}

/// Returns the verdict; for several comparisons, how many were adopted.
fn headline(kept: &[StoredExperiment]) -> String {
    match kept {
        [one] => verdict(one.result.verdict).to_owned(),
        more => {
            let of = |wanted: Verdict| {
                more.iter()
                    .filter(|one| one.result.verdict == wanted)
                    .count()
            };
            let (adopted, harmful) = (of(Verdict::Adopt), of(Verdict::Harmful));
            format!("{adopted} of {} adopted, {harmful} harmful", more.len())
        }
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Adopt => "Adopt",
        Verdict::NoBenefit => "No benefit",
        Verdict::Harmful => "Harmful",
        Verdict::Inconclusive => "Inconclusive",
    }
}

fn percent(share: f64) -> String {
    if share.is_finite() {
        format!("{} %", significant(share * 100.0))
    } else {
        "unknown".to_owned()
    }
}

fn effects(result: &Result, of: &str) -> String {
    let row = |kind: &str, effect: &Effect| {
        let benefit = &effect.benefit;
        vec![
            format!("{} {kind}", effect.name).trim_end().to_owned(),
            percent(benefit.estimate),
            format!("{} to {}", percent(benefit.low), percent(benefit.high)),
            significant(effect.p),
            percent(effect.threshold),
            effect.least.map_or_else(|| "unknown".to_owned(), percent),
        ]
    };
    let mut rows: Vec<_> = result
        .effects
        .iter()
        .map(|effect| row("", effect))
        .collect();
    rows.extend(
        result
            .same
            .iter()
            .map(|effect| row("(without a change)", effect)),
    );
    let heads = [
        "figure",
        "benefit",
        "interval (95 %)",
        "p",
        "what matters",
        "least that is seen",
    ];
    table(&format!("Effects{of}"), &heads, rows)
}

/// Draws a panel for each figure: both arms, pair by pair, without and with the change.
fn panels(kept: &StoredExperiment, of: &str) -> String {
    let questions = kept.design.primary.iter().chain(&kept.design.guard);
    let mut text = format!("<section><h2>Pair by pair{}</h2>\n", html(of));
    text.push_str(&frame::panels(2));
    for question in questions {
        for same in [true, false] {
            let samples = kept
                .result
                .samples
                .iter()
                .filter(|sample| sample.same == same);
            let samples: Vec<&Sample> = samples.collect();
            let under = if same {
                "without a change"
            } else {
                "with the change in the test arm"
            };
            text.push_str(&frame::panel(
                &question.name,
                under,
                &chart(&question.name, under, &samples),
                None,
            ));
        }
    }
    text.push_str("</div></section>\n");
    text
}

fn chart(name: &str, under: &str, samples: &[&Sample]) -> String {
    let line = |arm: Arm, label: &str, series: usize| {
        let of_arm = samples.iter().filter(|sample| sample.arm == arm);
        let point = |sample: &&Sample| {
            let y = *sample.figures.get(name)?;
            let x = sample.pair as f64;
            Some(Point { x, y, spread: None })
        };
        Line {
            label: label.to_owned(),
            series: Some(series),
            points: of_arm.filter_map(point).collect(),
        }
    };
    let lines = vec![line(Arm::Control, "control", 0), line(Arm::Test, "test", 1)];
    let points = lines.iter().flat_map(|line| &line.points);
    let high = points.map(|point| point.y).fold(0.0, f64::max);
    let pairs = samples
        .iter()
        .map(|sample| sample.pair + 1)
        .max()
        .unwrap_or(0);
    Chart {
        name: format!("{name}, {under}, {pairs} pairs"),
        x: XAxis {
            title: "pair".to_owned(),
            steps: (0..pairs)
                .map(|pair| (pair as f64, (pair + 1).to_string()))
                .collect(),
            even: true,
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

fn changes(kept: &StoredExperiment) -> Vec<Vec<String>> {
    let row =
        |change: &ChangedItem| vec![change.item.clone(), change.old.clone(), change.want.clone()];
    kept.changes.iter().map(row).collect()
}

fn table(title: &str, heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut text = format!(
        "<section><h2>{}</h2>\n<div class=\"scroll\"><table class=\"plain\">\n",
        html(title)
    );
    if heads.iter().any(|head| !head.is_empty()) {
        text.push_str("<thead><tr>");
        for head in heads {
            let _ = write!(text, "<th scope=\"col\">{}</th>", html(head));
        }
        text.push_str("</tr></thead>\n");
    }
    text.push_str("<tbody>\n");
    for row in rows {
        text.push_str("<tr>");
        for cell in row {
            let _ = write!(text, "<td>{}</td>", html(&cell));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div></section>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::run::BlockFigures;
    use crate::statistics::Interval;

    fn kept(name: &str) -> StoredExperiment {
        let design = format!(
            "version = 1\nplan = \"p\"\nseed = 1\npairs = 6\nblock_ms = 500\n[[primary]]\nname = {name:?}\n"
        );
        let effect = Effect {
            name: name.to_owned(),
            benefit: Interval {
                estimate: 0.95,
                low: f64::NEG_INFINITY,
                high: f64::NAN,
            },
            p: 0.0078,
            threshold: 0.1,
            least: None,
            pairs_needed: None,
        };
        let sample = |pair: usize, arm: Arm| Sample {
            pair,
            arm,
            same: false,
            figures: BlockFigures::from([(name.to_owned(), 10.0 + pair as f64)]),
        };
        StoredExperiment {
            design: Design::parse(&design).unwrap(),
            changes: vec![ChangedItem {
                item: name.to_owned(),
                old: "1".to_owned(),
                want: "2".to_owned(),
            }],
            host: vec![("kernel".to_owned(), name.to_owned())],
            result: Result {
                verdict: Verdict::Inconclusive,
                why: name.to_owned(),
                effects: vec![effect.clone()],
                same: vec![effect],
                samples: (0..6)
                    .flat_map(|pair| [sample(pair, Arm::Control), sample(pair, Arm::Test)])
                    .collect(),
                failed: None,
            },
        }
    }

    #[test]
    fn a_report_is_whole_and_prints_nothing_that_is_no_number() {
        let page = page(&[kept("drops")]);
        assert!(page.contains("<h1>Inconclusive</h1>"), "{page}");
        for word in ["NaN", ">inf", "-inf", "http://", "https://", "src=\""] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(
            page.contains("<title>control: 10 at 1 pair</title>"),
            "{page}"
        );
        assert_eq!(
            page.matches("<svg").count(),
            page.matches("role=\"img\"").count()
        );
    }

    #[test]
    fn several_comparisons_are_one_page_that_says_how_many_are_worth_it() {
        let mut other = kept("b");
        other.result.verdict = Verdict::Adopt;
        let page = page(&[kept("a"), other]);
        assert!(
            page.contains("<h1>1 of 2 adopted, 0 harmful</h1>"),
            "{page}"
        );
        assert!(
            page.contains("Effects: a") && page.contains("Effects: b"),
            "{page}"
        );
    }

    #[test]
    fn what_it_is_told_is_no_markup() {
        let page = page(&[kept("</table><script>x</script>")]);
        assert_eq!(page.matches("<script>").count(), 1, "ours only");
        assert_eq!(page.matches("</table>").count(), 3);
    }
}
