//! A guard that may be checked at any time: a bettor against "the test arm is not worse than
//! control by the margin".
//!
//! Each block gives a value in -1..1, positive if the test arm was worse by more than the margin.
//! The bettor stakes several shares of the fortune on it; the fortune is their mean. If nothing is
//! worse, the fortune exceeds 100 times its start with a probability of at most 1 in 100, however
//! often it is checked (Ville).

/// The staked shares.
const STAKES: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 0.95];

/// The fortune that triggers the alarm.
pub const ALARM: f64 = 100.0;

/// The fortunes, one per staked share.
#[derive(Clone, PartialEq, Debug)]
pub struct Bettor([f64; STAKES.len()]);

impl Default for Bettor {
    fn default() -> Bettor {
        Bettor([1.0; STAKES.len()])
    }
}

impl Bettor {
    /// Takes the value of a block and returns whether it triggers the alarm; NaN is ignored.
    pub fn sees(&mut self, worse: f64) -> bool {
        if !worse.is_nan() {
            for (fortune, stake) in self.0.iter_mut().zip(STAKES) {
                *fortune *= 1.0 + stake * worse.clamp(-1.0, 1.0);
            }
        }
        self.alarms()
    }

    /// Returns the mean fortune, which starts at 1.
    pub fn fortune(&self) -> f64 {
        self.0.iter().sum::<f64>() / STAKES.len() as f64
    }

    /// Returns whether the alarm is triggered.
    pub fn alarms(&self) -> bool {
        self.fortune() >= ALARM
    }
}

/// Returns how much worse `test` is than the margin allows: the logarithm of the ratio, as a share
/// of `span`.
///
/// A larger value is worse. The caller swaps the arms of a figure that is better when larger.
pub fn worse(test: f64, control: f64, margin: f64, span: f64) -> f64 {
    let ratio = (test.max(0.0) + 1.0) / (control.max(0.0) + 1.0);
    (ratio.ln() - (1.0 + margin).ln()) / span
}
