//! The page of the samples: shows the report of a fleet, drawn from a model and labelled as such.

use page::bars::{Bar, Bars, Group};
use page::chart::{Chart, Line, Point, XAxis, YAxis};
use page::frame::{self, Chip, Page};
use page::number::{Quantity, significant};

use super::table;
use crate::experiment::assign::Arm;
use crate::experiment::fleet::Days;
use crate::experiment::sample::{self, Fleet, Health, SWITCHES};
use crate::statistics::mean;

/// Returns the whole file.
pub fn page() -> String {
    let mut markup = frame::header(
        "forebay tune report --samples",
        "Samples of a fleet",
        "Made-up days of made-up hosts, from a seeded model: nothing here was measured. They show what a report of a fleet says, and \
         that the arithmetic gives the figures that an operator of 20,000 servers published.",
        "48 hosts at 6 sites, each site halved; intervals at 95 %",
    );
    let chips = [("control", "as it was"), ("test", "with the change")];
    markup.push_str(&frame::chips(
        "Arms",
        &chips.map(|(name, says)| Chip { name, says }),
    ));
    for (name, says, made) in [
        (
            "Failover",
            "the traffic of another site comes on day 8",
            sample::failover(),
        ),
        ("Week", "the change is made on day 8", sample::week()),
    ] {
        if let Some(fleet) = made {
            markup.push_str(&of_fleet(name, says, &fleet));
        }
    }
    markup.push_str(&split());
    markup.push_str(&kernel());
    markup.push_str(&summary());
    Page {
        title: "Samples of a fleet - forebay tune",
        markup: &markup,
        footer: &format!("Drawn by forebay tune {}.", env!("CARGO_PKG_VERSION")),
    }
    .draw()
}

fn section(name: &str, columns: usize, panels: &str) -> String {
    format!(
        "<section><h2>{}</h2>\n{}{panels}</div></section>\n",
        page::escape::html(name),
        frame::panels(columns)
    )
}

/// Draws a chart of days.
fn days(name: &str, quantity: Quantity, lines: Vec<Line>) -> String {
    let points = lines.iter().flat_map(|line| &line.points);
    let high = points.map(|point| point.y).fold(0.0, f64::max);
    let count = lines
        .iter()
        .map(|line| line.points.len())
        .max()
        .unwrap_or(0);
    Chart {
        name: name.to_owned(),
        x: XAxis {
            title: "day".to_owned(),
            steps: (1..=count)
                .map(|day| (day as f64, day.to_string()))
                .collect(),
            even: true,
        },
        y: YAxis {
            quantity,
            high,
            log_from: None,
        },
        lines,
    }
    .draw()
}

fn line(label: &str, series: usize, values: impl Iterator<Item = f64>) -> Line {
    let point = |(day, y): (usize, f64)| Point {
        x: (day + 1) as f64,
        y,
        spread: None,
    };
    Line {
        label: label.to_owned(),
        series: Some(series),
        points: values.enumerate().map(point).collect(),
    }
}

/// Returns the drops per server and day of an arm, day by day.
fn of_arm(hosts: &[&Days], arm: Arm) -> Vec<f64> {
    let days = hosts
        .first()
        .map_or(0, |host| host.before.len() + host.after.len());
    let of_day = |day: usize| {
        let of_arm = hosts.iter().filter(|host| host.arm == arm);
        let values: Vec<f64> = of_arm
            .filter_map(|host| host.before.iter().chain(&host.after).nth(day).copied())
            .collect();
        mean(&values)
    };
    (0..days).map(of_day).collect()
}

fn of_fleet(name: &str, says: &str, fleet: &Fleet) -> String {
    let compared = &fleet.compared;
    let mut sites: Vec<&str> = fleet.hosts.iter().map(|host| host.block.as_str()).collect();
    sites.dedup();
    let mut panels = String::new();
    for site in sites {
        let hosts: Vec<&Days> = fleet
            .hosts
            .iter()
            .filter(|host| host.block == site)
            .collect();
        let lines = [(Arm::Control, "control", 0), (Arm::Test, "test", 1)]
            .map(|(arm, label, series)| line(label, series, of_arm(&hosts, arm).into_iter()));
        let drawn = days(&format!("{name}: {site}"), Quantity::Plain, lines.to_vec());
        panels.push_str(&frame::panel(site, "drops a server and day", &drawn, None));
    }
    let rows = vec![
        vec![
            "control".to_owned(),
            significant(compared.control.before),
            significant(compared.control.after),
            times(compared.control.factor()),
        ],
        vec![
            "test".to_owned(),
            significant(compared.test.before),
            significant(compared.test.after),
            times(compared.test.factor()),
        ],
    ];
    let heads = ["drops a server and day", "before", "after", "factor"];
    let said = vec![vec![
        significant(compared.saved),
        less(compared.share),
        format!(
            "{} to {}",
            less(compared.benefit.high),
            less(compared.benefit.low)
        ),
        significant(compared.p),
    ]];
    let effect = [
        "fewer drops a server and day",
        "of what there would have been",
        "interval (95 %)",
        "p",
    ];
    section(&format!("{name}: {says}"), 3, &panels)
        + &table(&format!("{name}: arms"), &heads, rows)
        + &table(&format!("{name}: effect"), &effect, said)
}

/// Returns a reduction in whole percent.
fn less(share: f64) -> String {
    format!("{:.0} %", -share * 100.0)
}

fn times(factor: f64) -> String {
    // Two decimals, as published.
    format!("{factor:.2}x")
}

/// Returns one figure of a day.
type Figure = fn(&Health) -> f64;

fn split() -> String {
    let groups = sample::split();
    let mut panels = String::new();
    let figures: [(&str, Figure); 4] = [
        ("median in the peaks", |day| day.peak_median),
        ("p95 in the peaks", |day| day.peak_p95),
        ("median in the valleys", |day| day.valley_median),
        ("p95 in the valleys", |day| day.valley_p95),
    ];
    for (name, figure) in figures {
        let lines = ["first group", "second group"]
            .iter()
            .zip(&groups)
            .enumerate();
        let lines =
            lines.map(|(series, (label, days))| line(label, series, days.iter().map(figure)));
        let under = format!(
            "switched on days {} and {}",
            SWITCHES[0] + 1,
            SWITCHES[1] + 1
        );
        let drawn = days(&format!("Split: {name}"), Quantity::Plain, lines.collect());
        panels.push_str(&frame::panel(name, &under, &drawn, None));
    }
    section(
        "Split: server and interrupts on CPUs of their own",
        2,
        &panels,
    )
}

fn kernel() -> String {
    let all = sample::kernel();
    let p99 = days(
        "Kernel: p99 in milliseconds",
        Quantity::Plain,
        vec![line("p99", 0, all.iter().map(|day| day.p99))],
    );
    let share = days(
        "Kernel: share of hosts upgraded, in percent",
        Quantity::Plain,
        vec![line("upgraded", 1, all.iter().map(|day| day.share * 100.0))],
    );
    let panels = frame::panel("p99", "milliseconds, all hosts", &p99, None)
        + &frame::panel("hosts upgraded", "percent", &share, None);
    section("Kernel: six weeks of upgrades", 2, &panels)
}

fn summary() -> String {
    let drops = sample::all().map_or(0.0, |fleet| fleet.compared.share);
    let bars = |name: &str, bars: Vec<(String, f64)>| {
        let high = bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let bar = |(label, value): (String, f64)| Bar {
            label,
            series: Some(1),
            value,
            spread: None,
        };
        Bars {
            name: name.to_owned(),
            quantity: Quantity::Plain,
            high,
            groups: vec![Group {
                title: String::new(),
                bars: bars.into_iter().map(bar).collect(),
            }],
        }
        .draw()
    };
    let capacity = sample::capacity().map(|(name, times)| (name.to_owned(), (times - 1.0) * 100.0));
    let more = bars(
        "Summary: capacity at the objective, percent more",
        capacity.to_vec(),
    );
    let fewer = bars(
        "Summary: percent less",
        vec![
            ("drops".to_owned(), drops * 100.0),
            ("health metric".to_owned(), sample::HEALTH_SHARE * 100.0),
        ],
    );
    let panels = frame::panel("less", "percent", &fewer, None)
        + &frame::panel("capacity", "percent more, by profile of load", &more, None);
    let rows = vec![
        vec!["drops".to_owned(), less(drops)],
        vec!["health metric".to_owned(), less(sample::HEALTH_SHARE)],
        vec!["capacity".to_owned(), "+10 to +40 %".to_owned()],
    ];
    section("Summary", 2, &panels) + &table("All together", &["", "change"], rows)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_says_that_it_is_made_up_and_what_comes_out() {
        let page = super::page();
        for words in [
            "nothing here was measured",
            "13.75x",
            "6.75x",
            "-51 %",
            "-95 %",
            "-98 %",
            "+10 to +40 %",
        ] {
            assert!(page.contains(words), "{words}");
        }
        for words in ["NaN", ">inf", "http://", "https://", "src=\""] {
            assert!(!page.contains(words), "{words}");
        }
        assert_eq!(page, super::page(), "the same each time");
    }
}
