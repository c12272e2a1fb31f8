//! The ACLs that permit something which no other forbids, found in one walk over the names.
//!
//! Names that begin with a prefix follow it, so the walk remembers one prefix on which an ACL
//! forbids, and passes over all names up to the first that does not begin with it. It looks at each
//! name once, however ACLs that permit and ACLs that forbid lie within each other. A client may
//! have very many names, so a walk is made in pieces, between which other work is done.
//! Not here: ACLs on every name, which decide before ([`super::AclIndex::decide_any`]).

use std::iter;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::binding::AclBinding;
use super::codes::PermissionType;
use super::patterns::{OfNames, Patterns};
use super::rules::Rules;

/// How far a walk over names is.
#[derive(Clone, Default, Debug)]
pub struct NamesWalk {
    /// The last name that was looked at.
    last: Option<Arc<str>>,
    /// The last prefix on which an ACL forbids.
    forbidden: Option<Arc<str>>,
}

/// Returns the first ACL that permits something which no other forbids; `Continue` if more names
/// than `names_max` would have to be looked at, for a call that goes on after them.
///
/// `patterns` are those whose ACLs are meant for a client at `address`: its own, and those of
/// `User:*`. Their ACLs count if `applies` says true.
pub(super) fn first_worth<'a>(
    mut patterns: impl Iterator<Item = &'a Patterns<Rules>>,
    address: IpAddr,
    mut applies: impl FnMut(&AclBinding) -> bool,
    (walk, names_max): (&mut NamesWalk, usize),
) -> ControlFlow<Option<&'a AclBinding>> {
    let last = walk.last.take();
    let names = merged([patterns.next(), patterns.next()], last.as_deref());
    assert!(patterns.next().is_none(), "no third principal is meant");
    for (count, known) in (1..).zip(names) {
        let is_below = |prefix: &Arc<str>| known.text.starts_with(&**prefix);
        if !walk.forbidden.as_ref().is_some_and(is_below) {
            let prefixed = known.prefixed.into_iter().flatten();
            let prefixed = weighed(prefixed.flat_map(|rules| rules.at(address)), &mut applies);
            let is_forbidden = prefixed == PatternVerdict::Forbidden;
            walk.forbidden = is_forbidden.then(|| Arc::clone(known.text));
            let literal = known.literal.into_iter().flatten();
            let literal = literal.filter(|_| !is_forbidden);
            let literal = weighed(literal.flat_map(|rules| rules.at(address)), &mut applies);
            if let Some(acl) = literal.permitting().or(prefixed.permitting()) {
                return ControlFlow::Break(Some(acl));
            }
        }
        if count >= names_max {
            walk.last = Some(Arc::clone(known.text));
            return ControlFlow::Continue(());
        }
    }
    ControlFlow::Break(None)
}

/// What the ACLs with one pattern come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PatternVerdict<'a> {
    Nothing,
    Permitted(&'a AclBinding),
    Forbidden,
}

impl<'a> PatternVerdict<'a> {
    const fn permitting(self) -> Option<&'a AclBinding> {
        match self {
            Self::Permitted(acl) => Some(acl),
            Self::Nothing | Self::Forbidden => None,
        }
    }
}

fn weighed<'a>(
    acls: impl Iterator<Item = &'a AclBinding>,
    mut applies: impl FnMut(&AclBinding) -> bool,
) -> PatternVerdict<'a> {
    let mut weighed = PatternVerdict::Nothing;
    for acl in acls.filter(|acl| applies(acl)) {
        weighed = match (acl.effect(), weighed) {
            (PermissionType::Deny, _) => return PatternVerdict::Forbidden,
            (PermissionType::Allow, PatternVerdict::Permitted(found)) => {
                PatternVerdict::Permitted(found.min(acl))
            }
            (PermissionType::Allow, _) => PatternVerdict::Permitted(acl),
        };
    }
    weighed
}

/// A name that patterns have, with what each of two principals has for it.
struct WalkedName<'a> {
    text: &'a Arc<str>,
    literal: [Option<&'a Rules>; 2],
    prefixed: [Option<&'a Rules>; 2],
}

/// Returns the names of the patterns of two principals in ascending order, those after `last` if it
/// is given.
fn merged<'a>(
    patterns: [Option<&'a Patterns<Rules>>; 2],
    last: Option<&str>,
) -> impl Iterator<Item = WalkedName<'a>> {
    let lists = patterns.map(|patterns| patterns.map(Patterns::names));
    let literal = lists.map(|lists| lists.map(|(literal, _)| literal));
    let prefixed = lists.map(|lists| lists.map(|(_, prefixed)| prefixed));
    let walk = |list| walk(list, last);
    let (mut literal, mut prefixed) = (literal.map(walk), prefixed.map(walk));
    iter::from_fn(move || {
        let all = literal.iter_mut().chain(&mut prefixed);
        let heads = all.filter_map(|list| list.peek().copied());
        let text = heads.map(|(text, _)| text).min()?;
        Some(WalkedName {
            text,
            literal: literal.each_mut().map(|list| taken(list, text)),
            prefixed: prefixed.each_mut().map(|list| taken(list, text)),
        })
    })
}

type Walk<'a> = iter::Peekable<Box<dyn Iterator<Item = (&'a Arc<str>, &'a Rules)> + 'a>>;

fn walk<'a>(list: Option<&'a OfNames<Rules>>, last: Option<&str>) -> Walk<'a> {
    let boxed: Box<dyn Iterator<Item = _>> = match list {
        Some(list) => Box::new(list.iter_after(last)),
        None => Box::new(iter::empty()),
    };
    boxed.peekable()
}

/// Takes what a list has for the name.
fn taken<'a>(list: &mut Walk<'a>, name: &Arc<str>) -> Option<&'a Rules> {
    let (_, rules) = list.next_if(|(text, _)| *text == name)?;
    Some(rules)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::given::acl;
    use super::super::patterns::Recount;
    use super::*;

    fn patterns(texts: impl Iterator<Item = String>) -> Patterns<Rules> {
        let mut acls: Vec<Arc<AclBinding>> = texts.map(|text| Arc::new(acl(&text))).collect();
        acls.sort();
        let added = |acl| Recount {
            acl,
            before: 0,
            after: 1,
        };
        let mut patterns = Patterns::default();
        patterns.recount(&acls.iter().map(added).collect::<Vec<_>>());
        patterns
    }

    /// Returns whether an ACL is worth something, and how many were looked at.
    fn walk(one: &Patterns<Rules>, other: &Patterns<Rules>) -> (Option<String>, usize) {
        let (mut looks, mut walk) = (0, NamesWalk::default());
        loop {
            let applies = |acl: &AclBinding| {
                looks += 1;
                !acl.operation.is(super::super::Operation::Read)
            };
            let (patterns, piece) = ([one, other].into_iter(), (&mut walk, 2));
            if let ControlFlow::Break(found) =
                first_worth(patterns, [10, 0, 0, 1].into(), applies, piece)
            {
                return (found.map(|acl| acl.pattern.name.to_string()), looks);
            }
        }
    }

    #[test]
    fn each_acl_is_looked_at_once_however_they_lie_within_each_other() {
        // Prefixes of each other with nothing that applies, and below all of them names that are
        // permitted to one and forbidden to the other.
        let prefixes = (1..=200).map(|length| {
            let prefix = "a".repeat(length);
            format!("DENY READ PREFIXED TOPIC {prefix} User:a *")
        });
        let names = |permission: &'static str, user: &'static str| {
            let deep = "a".repeat(200);
            (0..1_000).map(move |number| {
                format!("{permission} WRITE LITERAL TOPIC {deep}{number} {user} *")
            })
        };
        let own = patterns(prefixes.chain(names("ALLOW", "User:a")));
        let everyone = patterns(names("DENY", "User:*"));
        let (found, looks) = walk(&own, &everyone);
        assert_eq!(found, None);
        assert!(looks <= 2_200, "{looks}");
    }

    #[test]
    fn names_below_a_forbidden_prefix_are_passed_over_and_the_next_one_is_not() {
        let allowed = ["b", "ba", "bb", "bba", "bc"];
        let allowed = allowed.map(|name| format!("ALLOW WRITE PREFIXED TOPIC {name} User:a *"));
        let own = patterns(allowed.into_iter());
        let forbidden = |names: &[&str]| {
            let texts = names.iter();
            patterns(texts.map(|name| format!("DENY WRITE PREFIXED TOPIC {name} User:* *")))
        };
        let (nothing, all) = (forbidden(&[]), forbidden(&["b"]));
        assert_eq!(walk(&own, &nothing).0.as_deref(), Some("b"));
        assert_eq!(walk(&own, &all), (None, 2));
        let some = forbidden(&["a", "b-"]);
        assert_eq!(walk(&own, &some).0.as_deref(), Some("b"));
        let without_first = patterns(
            ["ba", "bb", "bba", "bc"]
                .map(|name| format!("ALLOW WRITE PREFIXED TOPIC {name} User:a *"))
                .into_iter(),
        );
        let most = forbidden(&["ba", "bb"]);
        assert_eq!(walk(&without_first, &most).0.as_deref(), Some("bc"));
    }
}
