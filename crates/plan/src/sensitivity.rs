//! What would change the answer: the load, the measurements it rests on, and each price, with exact
//! break-evens.
//!
//! The cost of a mix is linear in a price, and its number of brokers does not depend on the price.
//! So the cost of the cheapest mix over a price is the lower envelope of lines. It is found by
//! solving at the intersection of two lines until no line is below.

use serde::Serialize;

use crate::catalogue::{Catalogue, PriceUnit};
use crate::load::{Load, Retention, Scenario};
use crate::quantity::{Dollars, significant};
use crate::search::{FoundFleet, PricedFleet, Problem, UnfinishedSearch};
use crate::software::Calibration;

/// Range of factors on a price.
const PRICE_LOW: f64 = 0.25;
const PRICE_HIGH: f64 = 4.0;

/// Factors on a load.
const FACTORS: [f64; 5] = [
    0.5,
    std::f64::consts::FRAC_1_SQRT_2,
    1.0,
    std::f64::consts::SQRT_2,
    2.0,
];

/// Maximum solves for one price; each finds a new mix.
const SOLVES_MAX: usize = 64;

/// What would change the answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sensitivity {
    /// For changes of the load.
    pub loads: Vec<LoadSweep>,
    /// For changes of each price.
    pub prices: Vec<PriceSweep>,
    /// For the ends of the measurements.
    pub calibrations: Vec<CalibrationAnswer>,
    /// The grid of peak by retention, for lookups without solving.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grid: Vec<Vec<Option<Point>>>,
}

/// One property of the load, at several multiples.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LoadSweep {
    /// The property.
    pub what: String,
    /// Each factor with its answer; `None` if nothing carries the load.
    pub points: Vec<(f64, Option<Point>)>,
}

/// A summary of an answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Point {
    /// The mix, in words.
    pub mix: String,
    /// Brokers in total.
    pub brokers: u64,
    /// Cost over the years.
    pub cost: Dollars,
    /// True if the mix is of another kind than the answer.
    pub other: bool,
}

/// The effect of one price.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PriceSweep {
    /// The entry of the catalogue.
    pub id: String,
    /// The price now, in words.
    pub now: String,
    /// Pieces of the envelope, from the lowest price to the highest.
    pub pieces: Vec<Piece>,
    /// A summary, in words.
    pub says: String,
}

/// The range in which one mix is the cheapest.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Piece {
    /// Lower end, as a factor on the price.
    pub from: f64,
    /// Upper end, as a factor on the price.
    pub to: f64,
    /// The mix.
    pub mix: String,
    /// Brokers in total.
    pub brokers: u64,
    /// Cost at both ends.
    pub cost: (Dollars, Dollars),
    /// True if it is the answer.
    pub chosen: bool,
}

/// The answer with one end of the measurements.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CalibrationAnswer {
    /// The end.
    pub calibration: Calibration,
    /// The answer; `None` if nothing carries the load.
    pub point: Option<Point>,
}

/// Returns the sensitivity of an answer, without the grid.
pub fn of(problem: &Problem<'_>, best: &PricedFleet) -> Result<Sensitivity, UnfinishedSearch> {
    Ok(Sensitivity {
        loads: loads(problem, best)?,
        prices: prices(problem, best)?,
        calibrations: calibrations(problem, best)?,
        grid: Vec::new(),
    })
}

fn point(problem: &Problem<'_>, priced: &PricedFleet, best: &PricedFleet) -> Option<Point> {
    let mix = problem.mix(&priced.found.choice)?;
    let chosen = problem.mix(&best.found.choice)?;
    Some(Point {
        mix: mix.describe(),
        brokers: priced.found.of_site() * u64::from(problem.scenario.fleet.sites),
        cost: priced.cost,
        other: mix.kind() != chosen.kind(),
    })
}

/// A change of one load by a factor.
type Change = fn(&mut Load, f64);

/// Returns the answer for another scenario with the same catalogue.
fn solved(
    problem: &Problem<'_>,
    scenario: &Scenario,
    best: &PricedFleet,
) -> Result<Option<Point>, UnfinishedSearch> {
    let other = problem.of(scenario);
    Ok(other
        .best()?
        .and_then(|priced| point(&other, &priced, best)))
}

fn changed(scenario: &Scenario, change: Change, factor: f64) -> Scenario {
    let mut scenario = scenario.clone();
    for load in &mut scenario.load {
        change(load, factor);
    }
    scenario
}

fn peak(load: &mut Load, factor: f64) {
    *load = load.peaked(factor);
}

fn retention(load: &mut Load, factor: f64) {
    load.retention = match load.retention {
        Retention::Time(time) => Retention::Time(time * factor),
        Retention::Bytes(bytes) => Retention::Bytes(bytes * factor),
        Retention::Forever => Retention::Forever,
    };
}

fn loads(problem: &Problem<'_>, best: &PricedFleet) -> Result<Vec<LoadSweep>, UnfinishedSearch> {
    let has_burst = problem
        .scenario
        .load
        .iter()
        .any(|load| load.burst.is_some());
    let turns: [(&str, Change, bool); 4] = [
        ("peak", peak, true),
        (
            "burst length",
            |load, factor| {
                if let Some(burst) = &mut load.burst {
                    burst.length = (burst.length * factor).min(burst.interval);
                }
            },
            has_burst,
        ),
        ("retention", retention, true),
        ("groups", |load, factor| load.fan_out *= factor, true),
    ];
    let mut all = Vec::new();
    for (what, change, _) in turns.iter().filter(|(.., applies)| *applies) {
        let mut points = Vec::new();
        for factor in FACTORS {
            let scenario = changed(problem.scenario, *change, factor);
            points.push((factor, solved(problem, &scenario, best)?));
        }
        all.push(LoadSweep {
            what: (*what).to_owned(),
            points,
        });
    }
    Ok(all)
}

/// Returns the grid of peak (rows) by retention (columns), each from a quarter to four times.
pub fn grid(
    problem: &Problem<'_>,
    best: &PricedFleet,
    rows: u32,
    columns: u32,
) -> Result<Vec<Vec<Option<Point>>>, UnfinishedSearch> {
    let mut all = Vec::new();
    for row in 0..rows {
        let mut line = Vec::new();
        let one = changed(problem.scenario, peak, grid_factor(row, rows));
        for column in 0..columns {
            let scenario = changed(&one, retention, grid_factor(column, columns));
            line.push(solved(problem, &scenario, best)?);
        }
        all.push(line);
    }
    Ok(all)
}

/// Returns the factor of a step of the grid: evenly spaced in logarithms, from a quarter to four.
pub fn grid_factor(step: u32, steps: u32) -> f64 {
    let share = f64::from(step) / f64::from(steps.max(2) - 1);
    4.0_f64.powf(2.0 * share - 1.0)
}

fn calibrations(
    problem: &Problem<'_>,
    best: &PricedFleet,
) -> Result<Vec<CalibrationAnswer>, UnfinishedSearch> {
    let ends = [Calibration::Lowest, Calibration::Highest];
    let mut all = Vec::new();
    for calibration in ends {
        let other = problem.calibrated(calibration);
        let point = other
            .best()?
            .and_then(|priced| point(&other, &priced, best));
        all.push(CalibrationAnswer { calibration, point });
    }
    Ok(all)
}

/// Returns the effect of each price that a mix may have, those of the answer first.
fn prices(problem: &Problem<'_>, best: &PricedFleet) -> Result<Vec<PriceSweep>, UnfinishedSearch> {
    let mut all = Vec::new();
    for id in problem.parts(&best.found.choice) {
        if let Some(envelope) = Envelope::new(problem, id) {
            all.extend(envelope.sweep(best)?);
        }
    }
    Ok(all)
}

/// The cheapest mixes over one price.
struct Envelope<'a> {
    problem: &'a Problem<'a>,
    id: &'a str,
    usd: f64,
    per: PriceUnit,
}

/// A mix, and its cost as a line over the price.
#[derive(Clone, Copy, PartialEq, Debug)]
struct CostLine {
    found: FoundFleet,
    at_nothing: f64,
    slope: f64,
}

impl CostLine {
    fn at(&self, times: f64) -> f64 {
        self.at_nothing + self.slope * times
    }
}

impl<'a> Envelope<'a> {
    fn new(problem: &'a Problem<'a>, id: &'a str) -> Option<Self> {
        let price = problem
            .catalogue
            .prices()
            .find(|(known, _)| *known == id)?
            .1;
        (price.usd > 0.0).then_some(Self {
            problem,
            id,
            usd: price.usd,
            per: price.per,
        })
    }

    fn catalogue(&self, times: f64) -> Catalogue {
        self.problem.catalogue.with_price_times(self.id, times)
    }

    fn cheapest(&self, times: f64) -> Result<Option<CostLine>, UnfinishedSearch> {
        let catalogue = self.catalogue(times);
        let Some(best) = self.problem.priced_by(&catalogue).best()? else {
            return Ok(None);
        };
        let found = best.found;
        let at = |times: f64| {
            let catalogue = self.catalogue(times);
            let priced = self.problem.priced_by(&catalogue).price(&found);
            priced.map(|priced| priced.cost.0)
        };
        Ok(at(0.0).zip(at(1.0)).map(|(none, once)| CostLine {
            found,
            at_nothing: none,
            slope: once - none,
        }))
    }

    /// Returns the lines of the envelope, each with the factor at which it begins.
    fn lines(&self) -> Result<Vec<(f64, CostLine)>, UnfinishedSearch> {
        let Some(low) = self.cheapest(PRICE_LOW)? else {
            return Ok(Vec::new());
        };
        if low.slope <= 0.0 {
            // The cheapest mix does not contain the part even at its lowest price, so none does at
            // a higher one.
            return Ok(vec![(PRICE_LOW, low)]);
        }
        let Some(high) = self.cheapest(PRICE_HIGH)? else {
            return Ok(Vec::new());
        };
        let mut open = vec![(low, high)];
        let mut lines = vec![(PRICE_LOW, low)];
        let mut solves = 0;
        while let Some((left, right)) = open.pop() {
            if left.found == right.found || (left.slope - right.slope).abs() < 1e-12 {
                continue;
            }
            let meet = (right.at_nothing - left.at_nothing) / (left.slope - right.slope);
            if !(PRICE_LOW..=PRICE_HIGH).contains(&meet) {
                continue;
            }
            let Some(below) = self.cheapest(meet)? else {
                continue;
            };
            solves += 1;
            let is_below = below.at(meet) < left.at(meet) * (1.0 - 1e-9);
            if is_below && solves < SOLVES_MAX {
                open.push((below, right));
                open.push((left, below));
            } else {
                lines.push((meet, right));
            }
        }
        lines.sort_by(|one, other| one.0.total_cmp(&other.0));
        Ok(lines)
    }

    fn sweep(&self, best: &PricedFleet) -> Result<Option<PriceSweep>, UnfinishedSearch> {
        let lines = self.lines()?;
        let sites = u64::from(self.problem.scenario.fleet.sites);
        let mut pieces = Vec::new();
        for (at, (from, line)) in lines.iter().enumerate() {
            let to = lines.get(at + 1).map_or(PRICE_HIGH, |(next, _)| *next);
            let mix = self.problem.mix(&line.found.choice);
            pieces.push(Piece {
                from: *from,
                to,
                mix: mix.map_or_else(String::new, |mix| mix.describe()),
                brokers: line.found.of_site() * sites,
                cost: (Dollars(line.at(*from)), Dollars(line.at(to))),
                chosen: line.found == best.found,
            });
        }
        Ok((!pieces.is_empty()).then(|| PriceSweep {
            id: self.id.to_owned(),
            now: self.show(1.0),
            says: self.says(&pieces),
            pieces,
        }))
    }

    fn show(&self, times: f64) -> String {
        let unit = match self.per {
            PriceUnit::Piece => "",
            PriceUnit::Gigabyte => " a GB",
            PriceUnit::Hour => " an hour",
            PriceUnit::GigabyteMonth => " a GB and month",
        };
        let usd = self.usd * times;
        format!("${}{unit}", significant(usd))
    }

    fn says(&self, pieces: &[Piece]) -> String {
        let around = pieces
            .iter()
            .position(|piece| piece.from <= 1.0 && piece.to >= 1.0);
        let here = around.and_then(|at| pieces.get(at));
        let below = around.and_then(|at| pieces.get(at.checked_sub(1)?));
        let above = around.and_then(|at| pieces.get(at + 1));
        let mut said = Vec::new();
        if let (Some(here), Some(below)) = (here, below) {
            said.push(format!(
                "below {} it is {} x {}",
                self.show(here.from),
                below.brokers,
                below.mix
            ));
        }
        if let (Some(here), Some(above)) = (here, above) {
            said.push(format!(
                "above {} it is {} x {}",
                self.show(here.to),
                above.brokers,
                above.mix
            ));
        }
        if said.is_empty() {
            return format!(
                "the answer stays from {} to {}",
                self.show(PRICE_LOW),
                self.show(PRICE_HIGH)
            );
        }
        said.join("; ")
    }
}

#[cfg(test)]
mod tests;
