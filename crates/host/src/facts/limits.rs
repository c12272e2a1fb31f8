//! The limits of the broker that runs, by the kernel's text about its process (`server/limits` in
//! the tree).
//!
//! Invariant: reported and advised, never written: a limit is the service manager's, and comes with
//! the next start of the process.

use serde::Serialize;

use crate::root::Tree;

/// Beginnings of the kernel's lines, with the names that units have for them.
const NAMES: &[(&str, &str)] = &[
    ("Max open files", "LimitNOFILE"),
    ("Max locked memory", "LimitMEMLOCK"),
    ("Max processes", "LimitNPROC"),
];

/// A limit; none is unlimited.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Limit {
    /// Its name in a unit.
    pub name: &'static str,
    /// What the process may have now.
    pub soft: Option<u64>,
    /// To what it may raise that.
    pub hard: Option<u64>,
}

/// Returns the known limits; none without a broker.
pub(super) fn all(tree: &dyn Tree) -> Vec<Limit> {
    let text = tree.read("server/limits").unwrap_or_default();
    let of_line = |(begin, name): &(&str, &'static str)| {
        let mut lines = text.lines();
        let rest = lines.find_map(|line| line.strip_prefix(begin))?;
        let mut words = rest.split_ascii_whitespace();
        let mut number = || match words.next()? {
            "unlimited" => Some(None),
            word => word.parse().ok().map(Some),
        };
        let (soft, hard) = (number()?, number()?);
        Some(Limit { name, soft, hard })
    };
    NAMES.iter().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn limits_are_numbers_or_none() {
        let fake = Fake::new(&[(
            "server/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max processes             unlimited            x                    processes \n\
             Max open files            1024                 524288               files     \n\
             Max locked memory         8388608              unlimited            bytes     \n",
        )]);
        let limit = |name, soft, hard| Limit { name, soft, hard };
        assert_eq!(
            all(&fake),
            [
                limit("LimitNOFILE", Some(1_024), Some(524_288)),
                limit("LimitMEMLOCK", Some(8_388_608), None),
            ]
        );
        assert!(all(&Fake::default()).is_empty());
    }
}
