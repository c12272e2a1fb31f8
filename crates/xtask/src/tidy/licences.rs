//! Checks that every dependency has an accepted licence and comes from crates.io.
//!
//! It is a light substitute for `cargo deny check` (deny.toml has the same list), which takes
//! minutes to install.

use super::Finding;
use crate::metadata::{Metadata, Package};

const ACCEPTED: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "MIT-0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "BSL-1.0",
    "CC0-1.0",
    "Unlicense",
    "Unicode-3.0",
];
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Returns the findings on all packages of the lock file.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    metadata.packages.iter().filter_map(check_package).collect()
}

fn check_package(package: &Package) -> Option<Finding> {
    let place = format!("{} {}", package.name, package.version);
    match &package.source {
        Some(source) if source != CRATES_IO => {
            return Some(Finding::new(place, format!("comes from {source}")));
        }
        _ => {}
    }
    let Some(expression) = &package.license else {
        return Some(Finding::new(place, "names no licence"));
    };
    (!accepted(expression))
        .then(|| Finding::new(place, format!("licence not accepted: {expression}")))
}

/// Returns whether the accepted licences satisfy an SPDX expression.
///
/// `/` is the old way to write OR.
fn accepted(expression: &str) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    any_of(&mut rest) && rest.is_empty()
}

fn any_of(rest: &mut &[&str]) -> bool {
    let mut good = all_of(rest);
    while let ["OR", tail @ ..] = *rest {
        *rest = tail;
        good |= all_of(rest);
    }
    good
}

fn all_of(rest: &mut &[&str]) -> bool {
    let mut good = one(rest);
    while let ["AND", tail @ ..] = *rest {
        *rest = tail;
        good &= one(rest);
    }
    good
}

fn one(rest: &mut &[&str]) -> bool {
    match *rest {
        ["(", tail @ ..] => {
            *rest = tail;
            let good = any_of(rest);
            if let [")", tail @ ..] = *rest {
                *rest = tail;
            }
            good
        }
        [name, "WITH", exception, tail @ ..] => {
            *rest = tail;
            ACCEPTED.contains(&format!("{name} WITH {exception}").as_str())
        }
        [name, tail @ ..] => {
            *rest = tail;
            ACCEPTED.contains(name)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::accepted;

    #[test]
    fn expressions() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
        ] {
            assert!(accepted(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR ISC) AND AGPL-3.0",
            "MIT ISC",
        ] {
            assert!(!accepted(bad), "{bad}");
        }
        assert!(accepted("Apache-2.0 WITH LLVM-exception OR Apache-2.0"));
    }
}
