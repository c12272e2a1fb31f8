//! Circles of files: files that use each other, directly or through others.
//!
//! A file in a circle cannot be understood, moved or tested alone.

use std::collections::BTreeMap;

use super::graph::{self, Graph};
use crate::source::Source;

type ModulePath = Vec<String>;

/// Returns the circles of a crate's files, the largest first, each with the names of its files.
pub(crate) fn circles(sources: &[&Source]) -> Vec<Vec<String>> {
    let graph = graph::of(sources);
    let mut found = components(&graph);
    found.retain(|files| files.len() > 1);
    found.sort_by_key(|files| std::cmp::Reverse(files.len()));
    let name = |at: &ModulePath| match at.as_slice() {
        [] => "lib".to_owned(),
        parts => parts.join("/"),
    };
    let named = |files: Vec<ModulePath>| files.iter().map(name).collect();
    found.into_iter().map(named).collect()
}

/// Returns the strongly connected components, by Tarjan's algorithm.
fn components(graph: &Graph) -> Vec<Vec<ModulePath>> {
    let mut search = Search {
        graph,
        index: BTreeMap::new(),
        low: BTreeMap::new(),
        stack: Vec::new(),
        found: Vec::new(),
    };
    for at in graph.keys() {
        if !search.index.contains_key(at) {
            search.visit(at);
        }
    }
    search.found
}

struct Search<'a> {
    graph: &'a Graph,
    index: BTreeMap<&'a ModulePath, usize>,
    low: BTreeMap<&'a ModulePath, usize>,
    stack: Vec<&'a ModulePath>,
    found: Vec<Vec<ModulePath>>,
}

impl<'a> Search<'a> {
    fn visit(&mut self, at: &'a ModulePath) {
        let number = self.index.len();
        self.index.insert(at, number);
        self.low.insert(at, number);
        self.stack.push(at);
        for next in self.graph.get(at).into_iter().flatten() {
            if !self.index.contains_key(next) {
                self.visit(next);
                self.low.insert(at, self.low[at].min(self.low[next]));
            } else if self.stack.contains(&next) {
                self.low.insert(at, self.low[at].min(self.index[next]));
            }
        }
        if self.low[at] == number {
            let from = self.stack.iter().position(|other| *other == at);
            let files = self.stack.split_off(from.unwrap_or(0));
            let mut files: Vec<ModulePath> = files.into_iter().cloned().collect();
            files.sort();
            self.found.push(files);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::circles;
    use crate::source::Source;

    fn of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources = files
            .iter()
            .map(|(name, text)| Source::new(&format!("crates/x/src/{name}.rs"), text));
        let sources: Vec<_> = sources.collect();
        circles(&sources.iter().collect::<Vec<_>>())
    }

    #[test]
    fn files_that_use_each_other_are_found_over_reexports_and_names_of_modules() {
        let found = of(&[
            ("lib", "mod a; mod b; mod c; pub use c::C;"),
            ("a", "use crate::b::B;\npub struct A;"),
            ("b", "use crate::C;\npub struct B;"),
            ("c", "use crate::a;\npub struct C(a::A);"),
        ]);
        assert_eq!(found, [["a", "b", "c"]]);
    }

    #[test]
    fn a_front_page_and_its_mechanisms_are_one_room() {
        let found = of(&[
            ("lib", "mod a;"),
            ("a", "mod b;\nuse b::B;\npub struct A;"),
            ("a/b", "use super::A;\npub struct B;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn tests_make_no_circle() {
        let found = of(&[
            ("lib", "mod a; mod b;"),
            ("a", "use crate::b::B;\npub struct A;"),
            (
                "b",
                "pub struct B;\n#[cfg(test)]\nmod tests {\n use crate::a::A;\n}\n",
            ),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}
