//! Maps values to places in a drawing, and chooses which values to name on the axis.
//!
//! Invariant: a place is always between the two ends, whatever the value; a value without a place
//! (not a number, or not above zero on a logarithmic axis) gets none.

/// With more ticks than this at 1, 2 and 5, only powers of ten are used.
const FINE_TICKS_MAX: usize = 8;

/// The scale of a chart in one direction.
#[derive(Clone, PartialEq, Debug)]
pub struct Scale {
    form: Form,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Linear,
    Log,
}

impl Scale {
    /// Creates a linear scale from `low` at `from` to `high` at `to`.
    pub fn linear(low: f64, high: f64, (from, to): (f64, f64)) -> Scale {
        let (low, high) = ordered(low, high).unwrap_or((0.0, 1.0));
        Scale {
            form: Form::Linear,
            low,
            high,
            from,
            to,
        }
    }

    /// Creates a logarithmic scale: equal factors have equal distances; both ends must be above
    /// zero.
    pub fn log(low: f64, high: f64, (from, to): (f64, f64)) -> Scale {
        let (low, high) = ordered(low, high)
            .filter(|(low, high)| *low > 0.0 && (high / low).is_finite())
            .unwrap_or((1.0, 10.0));
        Scale {
            form: Form::Log,
            low,
            high,
            from,
            to,
        }
    }

    /// Creates a linear scale from zero to a round number at or above `high`.
    pub fn from_nothing(high: f64, ends: (f64, f64)) -> Scale {
        let high = if high.is_finite() && high > 0.0 {
            high
        } else {
            1.0
        };
        let step = nice_step(high / 4.0);
        Scale::linear(0.0, (high / step - 1e-9).ceil() * step, ends)
    }

    /// Creates a logarithmic scale whose ends are 1, 2 or 5 times powers of ten, or powers of ten
    /// if there are too many ticks.
    pub fn log_around(low: f64, high: f64, ends: (f64, f64)) -> Scale {
        let (low, high) = ordered(low, high)
            .filter(|(low, high)| *low > 0.0 && (high / low).is_finite())
            .unwrap_or((1.0, 10.0));
        let around = |steps: &[f64]| {
            let below = steps_of_tens(steps)
                .take_while(|tick| *tick <= low * (1.0 + 1e-9))
                .last();
            let above = steps_of_tens(steps).find(|tick| *tick >= high * (1.0 - 1e-9));
            (below.unwrap_or(low), above.unwrap_or(high))
        };
        let (mut low, mut high) = around(&ONE_TWO_FIVE);
        if one_two_five()
            .filter(|tick| *tick >= low && *tick <= high)
            .count()
            > FINE_TICKS_MAX
        {
            (low, high) = around(&[1.0]);
        }
        if high <= low {
            high = low * 10.0;
        }
        Scale::log(low, high, ends)
    }

    /// Returns the place of a value; a value beyond an end is placed at the end.
    pub fn at(&self, value: f64) -> Option<f64> {
        let share = match self.form {
            Form::Linear => (value - self.low) / (self.high - self.low),
            Form::Log if value <= 0.0 => return None,
            Form::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        (value.is_finite() && share.is_finite())
            .then(|| self.from + share.clamp(0.0, 1.0) * (self.to - self.from))
    }

    /// Returns the value that determines the unit of the axis; on a logarithmic axis it is the
    /// middle one.
    pub fn typical(&self) -> f64 {
        match self.form {
            Form::Linear => self.high,
            Form::Log => (self.low * self.high).sqrt(),
        }
    }

    /// Returns the number of ticks that suits the scale.
    pub fn ticks_max(&self) -> usize {
        match self.form {
            Form::Linear => 4,
            Form::Log => FINE_TICKS_MAX,
        }
    }

    /// Returns the value at the far end.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// Returns round values between the ends, at most about `most` of them.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        match self.form {
            Form::Linear => self.linear_ticks(most),
            Form::Log => self.log_ticks(most),
        }
    }

    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        let most = u32::try_from(most.max(1)).unwrap_or(u32::MAX);
        let step = nice_step((self.high - self.low) / f64::from(most));
        let first = (self.low / step - 1e-9).ceil();
        (0..=most)
            .map(|at| (first + f64::from(at)) * step)
            .take_while(|tick| *tick <= self.high + step * 1e-6)
            .collect()
    }

    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let inside =
            |tick: &f64| *tick >= self.low * (1.0 - 1e-9) && *tick <= self.high * (1.0 + 1e-9);
        let fine: Vec<f64> = one_two_five().filter(inside).collect();
        if fine.len() <= most.clamp(2, FINE_TICKS_MAX) {
            return fine;
        }
        let decades: Vec<f64> = (-12..=18)
            .map(|power| 10f64.powi(power))
            .filter(inside)
            .collect();
        let every = decades.len().div_ceil(most.max(1)).max(1);
        decades.into_iter().step_by(every).collect()
    }
}

/// Returns both ends in order and apart from each other.
fn ordered(low: f64, high: f64) -> Option<(f64, f64)> {
    let fits = low.is_finite() && high.is_finite() && (high - low).is_finite();
    if !fits {
        return None;
    }
    let (low, high) = if low <= high {
        (low, high)
    } else {
        (high, low)
    };
    // Ends that are almost equal are moved apart, with the value in the middle.
    if high - low > low.abs().max(high.abs()) * 1e-9 {
        return Some((low, high));
    }
    let around = if low == 0.0 { 1.0 } else { low.abs() / 2.0 };
    Some((low - around, high + around))
}

/// Returns the smallest of 1, 2, 2.5 or 5 times a power of ten that is not below `least`.
fn nice_step(least: f64) -> f64 {
    if !(least.is_finite() && least > 1e-300) {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

const ONE_TWO_FIVE: [f64; 3] = [1.0, 2.0, 5.0];

fn one_two_five() -> impl Iterator<Item = f64> {
    steps_of_tens(&ONE_TWO_FIVE)
}

/// Returns the steps times every power of ten that an axis can need.
fn steps_of_tens(steps: &[f64]) -> impl Iterator<Item = f64> {
    (-12..=18).flat_map(move |power| steps.iter().map(move |step| step * 10f64.powi(power)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            Scale::from_nothing(1.83, (0.0, 1.0)).ticks(5),
            [0.0, 0.5, 1.0, 1.5, 2.0]
        );
        assert_eq!(Scale::from_nothing(1.83, (0.0, 1.0)).high(), 2.0);
        assert_eq!(
            Scale::log_around(0.6, 80.0, (0.0, 1.0)).ticks(9),
            [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
        );
        assert_eq!(
            Scale::log_around(300.0, 4e7, (0.0, 1.0)).ticks(8),
            [1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8]
        );
        assert_eq!(
            Scale::linear(0.0, 60.0, (0.0, 1.0)).ticks(4),
            [0.0, 20.0, 40.0, 60.0]
        );
    }

    #[test]
    fn one_value_is_in_the_middle() {
        assert_eq!(Scale::linear(5.0, 5.0, (0.0, 100.0)).at(5.0), Some(50.0));
        assert_eq!(Scale::linear(0.0, 0.0, (0.0, 100.0)).at(0.0), Some(50.0));
    }

    proptest! {
        #[test]
        fn nothing_is_outside(
            low in any::<f64>(), high in any::<f64>(), value in any::<f64>(),
            from in -1e4..1e4, to in -1e4..1e4, most in 0_usize..12,
        ) {
            let (least, largest) = if from < to { (from, to) } else { (to, from) };
            for scale in [
                Scale::linear(low, high, (from, to)),
                Scale::log(low, high, (from, to)),
                Scale::log_around(low, high, (from, to)),
                Scale::from_nothing(high, (from, to)),
            ] {
                if let Some(place) = scale.at(value) {
                    prop_assert!(place >= least - 1e-6 && place <= largest + 1e-6, "{scale:?} {place}");
                }
                let ticks = scale.ticks(most);
                prop_assert!(ticks.len() <= most.max(2) + 1, "{scale:?} {ticks:?}");
                prop_assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{ticks:?}");
                prop_assert!(ticks.iter().all(|tick| scale.at(*tick).is_some()), "{ticks:?}");
            }
        }

        #[test]
        fn more_is_further(low in 0.1..1e6, factor in 1.1..1e6, one in 0.0..1.0_f64, two in 0.0..1.0_f64) {
            let high = low * factor;
            for scale in [Scale::linear(low, high, (10.0, 90.0)), Scale::log(low, high, (10.0, 90.0))] {
                let places = [one.min(two), one.max(two)]
                    .map(|share| scale.at(low + share * (high - low)).unwrap());
                prop_assert!(places[0] <= places[1] + 1e-9);
            }
        }
    }
}
