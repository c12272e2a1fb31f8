//! A guard that may be looked at all the time: a bettor against "the test arm is not worse than control by the margin".
//!
//! Each block gives a value in -1..1, above 0 where the test arm was worse by more than the margin. The bettor stakes
//! several shares of what he has on it, and his fortune is their mean. If nothing is worse, it grows beyond 100 times with
//! a chance of 1 in 100 at most, however often one looks (Ville).

/// The shares that are staked.
const STAKES: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 0.95];

/// What has to be reached.
pub const ALARM: f64 = 100.0;

/// The fortune.
#[derive(Clone, PartialEq, Debug)]
pub struct Bettor([f64; STAKES.len()]);

impl Default for Bettor {
    fn default() -> Bettor {
        Bettor([1.0; STAKES.len()])
    }
}

impl Bettor {
    /// A block was seen; says whether it is an alarm. What is no number says nothing.
    pub fn sees(&mut self, worse: f64) -> bool {
        if !worse.is_nan() {
            for (fortune, stake) in self.0.iter_mut().zip(STAKES) {
                *fortune *= 1.0 + stake * worse.clamp(-1.0, 1.0);
            }
        }
        self.alarms()
    }

    /// What one has become.
    pub fn fortune(&self) -> f64 {
        self.0.iter().sum::<f64>() / STAKES.len() as f64
    }

    /// Whether that is enough.
    pub fn alarms(&self) -> bool {
        self.fortune() >= ALARM
    }
}

/// How much worse the test arm is than the margin allows, in -1..1: the logarithm of the ratio, as a share of `span`. `lower`
/// says that less is better.
pub fn worse(test: f64, control: f64, margin: f64, span: f64) -> f64 {
    let ratio = (test.max(0.0) + 1.0) / (control.max(0.0) + 1.0);
    (ratio.ln() - (1.0 + margin).ln()) / span
}
