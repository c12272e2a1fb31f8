//! The comparisons of a plan: all of it with nothing, each item with those adopted before it, or
//! all of it with all but one item. Pure.

use super::design::Mode;
use crate::apply::Change;

/// One comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All items, compared with nothing.
    All,
    /// One item on top of the adopted ones, compared with the adopted ones.
    One(usize),
    /// All items, compared with all but one.
    AllBut(usize),
}

/// Returns the comparisons of a mode, in order.
pub fn parts(mode: Mode, changes: &[Change]) -> Vec<Part> {
    match mode {
        Mode::Bundle => vec![Part::All],
        Mode::Each => (0..changes.len()).map(Part::One).collect(),
        Mode::Ablate => (0..changes.len()).map(Part::AllBut).collect(),
    }
}

impl Part {
    /// Returns the changes of the control arm and of the test arm, in the order of writing.
    pub fn arms(self, changes: &[Change], adopted: &[Change]) -> (Vec<Change>, Vec<Change>) {
        let of = |is: &dyn Fn(usize, &Change) -> bool| {
            let numbered = changes.iter().enumerate();
            let kept = numbered.filter(|(at, change)| is(*at, change));
            kept.map(|(_, change)| change.clone()).collect::<Vec<_>>()
        };
        match self {
            Part::All => (Vec::new(), changes.to_vec()),
            Part::One(one) => (
                of(&|_, change| adopted.contains(change)),
                of(&|at, change| at == one || adopted.contains(change)),
            ),
            Part::AllBut(one) => (of(&|at, _| at != one), changes.to_vec()),
        }
    }

    /// Returns the changes that differ between the arms.
    pub fn changed(self, changes: &[Change]) -> Vec<Change> {
        match self {
            Part::All => changes.to_vec(),
            Part::One(one) | Part::AllBut(one) => changes.get(one).cloned().into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes() -> Vec<Change> {
        let change = |item: &str| Change {
            item: item.to_owned(),
            want: "1".to_owned(),
        };
        ["a", "b", "c"].map(change).to_vec()
    }

    fn names(changes: &[Change]) -> String {
        changes.iter().map(|change| change.item.as_str()).collect()
    }

    fn arms(part: Part, adopted: &[Change]) -> (String, String) {
        let (control, test) = part.arms(&changes(), adopted);
        (names(&control), names(&test))
    }

    #[test]
    fn the_arms_differ_by_what_is_asked_about() {
        let all = changes();
        assert_eq!(parts(Mode::Bundle, &all), [Part::All]);
        assert_eq!(arms(Part::All, &[]), (String::new(), "abc".to_owned()));
        let each: Vec<_> = parts(Mode::Each, &all)
            .into_iter()
            .map(|part| arms(part, &all[..1]))
            .collect();
        let pair = |control: &str, test: &str| (control.to_owned(), test.to_owned());
        assert_eq!(each, [pair("a", "a"), pair("a", "ab"), pair("a", "ac")]);
        let ablate: Vec<_> = parts(Mode::Ablate, &all)
            .into_iter()
            .map(|part| arms(part, &[]))
            .collect();
        assert_eq!(
            ablate,
            [pair("bc", "abc"), pair("ac", "abc"), pair("ab", "abc")]
        );
        assert_eq!(names(&Part::AllBut(1).changed(&all)), "b");
    }
}
