//! Labels at the ends of lines, moved apart so that none covers another, and bounds on the width of
//! texts.
//!
//! It does not measure fonts: widths are those of a wide font, so that a narrower one fits as well.

/// The size of letters in charts.
pub const LETTER: f64 = 11.0;
/// The least distance between the base lines of two labels.
pub const APART: f64 = 13.0;

/// Returns a width that no common font exceeds for this text.
pub fn width(text: &str) -> f64 {
    let letters: f64 = text
        .chars()
        .map(|letter| match letter {
            'i' | 'l' | 'j' | '.' | ',' | ':' | '|' | ' ' => 0.4,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 1.0,
            upper if upper.is_uppercase() => 0.75,
            _ => 0.65,
        })
        .sum();
    letters * LETTER
}

/// Returns the text, shortened to fit the width.
pub fn fitted(text: &str, most: f64) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut kept = text.to_owned();
    while width(&kept) > most - width("..") && kept.pop().is_some() {}
    format!("{}..", kept.trim_end())
}

/// Returns places near the wanted ones, in the same order, at least `APART` from each other and
/// inside `from..to`.
///
/// If they do not fit, the last ones (lowest in the drawing) are left out: `None`.
pub fn apart(wanted: &[f64], (from, to): (f64, f64)) -> Vec<Option<f64>> {
    let fits = ((to - from) / APART).floor().max(0.0);
    let mut order: Vec<usize> = (0..wanted.len())
        .filter(|at| wanted[*at].is_finite())
        .collect();
    order.sort_by(|one, two| wanted[*one].total_cmp(&wanted[*two]));
    while order.len() as f64 > fits + 1.0 {
        order.pop();
    }
    let mut places = vec![None; wanted.len()];
    // First downwards, each below the one before; then upwards from the lower edge.
    let mut at: Vec<f64> = order.iter().map(|one| wanted[*one]).collect();
    let mut least = from;
    for place in &mut at {
        *place = place.max(least);
        least = *place + APART;
    }
    let mut most = to;
    for place in at.iter_mut().rev() {
        *place = place.min(most);
        most = *place - APART;
    }
    for (one, place) in order.into_iter().zip(at) {
        places[one] = Some(place);
    }
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_that_are_apart_stay() {
        assert_eq!(apart(&[50.0, 20.0], (0.0, 100.0)), [Some(50.0), Some(20.0)]);
        assert_eq!(apart(&[20.0, 20.0], (0.0, 100.0)), [Some(20.0), Some(33.0)]);
        assert_eq!(apart(&[99.0, 99.0], (0.0, 99.0)), [Some(86.0), Some(99.0)]);
        assert_eq!(apart(&[5.0, 5.0], (0.0, 5.0)), [Some(5.0), None]);
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(fitted("forebay", 100.0), "forebay");
        let cut = fitted(&"long ".repeat(20), 60.0);
        assert!(cut.ends_with(".."));
        assert!(width(&cut) <= 60.0);
    }

    proptest! {
        #[test]
        fn none_covers_another(
            wanted in prop::collection::vec(-50.0..250.0, 0..30), height in 0.0..300.0,
        ) {
            let placed = apart(&wanted, (0.0, height));
            let mut seen: Vec<f64> = placed.into_iter().flatten().collect();
            prop_assert_eq!(wanted.is_empty(), seen.is_empty());
            seen.sort_by(f64::total_cmp);
            prop_assert!(seen.iter().all(|place| (-1e-9..=height + 1e-9).contains(place)), "{seen:?}");
            prop_assert!(seen.windows(2).all(|pair| pair[1] - pair[0] >= APART - 1e-9), "{seen:?}");
        }
    }
}
