//! Near misses: ACLs that would have decided otherwise but for one thing, as one does that was
//! written with a mistake.
//!
//! An ACL is a near miss if the decision takes it as soon as one of its fields is that of the
//! question: the host, the operation, the name or the principal. Any host and any operation is
//! near; a name or a principal is near if it is spelled alike. Pure.

use std::net::IpAddr;

use serde::Serialize;
use wire::acl::{AclBinding, Client, Host, PatternType, PermissionType, Policy, Principal};

use super::verdict::Question;

/// The field in which a near miss differs, in the order of lists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Field {
    Host,
    Principal,
    Name,
    Operation,
}

/// One ACL that nearly decided.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct NearMiss<'a> {
    pub(super) field: Field,
    pub(super) hint: &'static str,
    pub(super) acl: &'a AclBinding,
}

/// Returns the ACLs with this effect that miss the question by one field.
pub(super) fn near_misses<'a>(
    question: &Question,
    acls: &'a [AclBinding],
    effect: PermissionType,
) -> Vec<NearMiss<'a>> {
    let of_effect = acls.iter().filter(|acl| acl.effect() == effect);
    let missing = of_effect.filter(|acl| !decides(question, acl));
    let mut found: Vec<_> = missing.filter_map(|acl| missed_by(question, acl)).collect();
    found.sort();
    found.dedup();
    found
}

/// Returns true if an ACL by itself decides the question.
pub(super) fn decides(question: &Question, acl: &AclBinding) -> bool {
    // Any address will do where none was asked for: only ACLs for all hosts are for it.
    let address = question
        .host
        .unwrap_or(IpAddr::V4(std::net::Ipv4Addr::BROADCAST));
    let client = Client::new(&question.principal, address);
    let decision = wire::acl::decide(&Policy::default(), [acl], &client, &question.action());
    decision.acl().is_some()
}

fn missed_by<'a>(question: &Question, acl: &'a AclBinding) -> Option<NearMiss<'a>> {
    let miss = |field, hint| Some(NearMiss { field, hint, acl });
    let mut mended = acl.clone();
    mended.host = Host::new(Host::ANY);
    if decides(question, &mended) {
        return miss(Field::Host, host_hint(acl));
    }
    mended = AclBinding {
        operation: question.operation.into(),
        ..acl.clone()
    };
    if decides(question, &mended) {
        return miss(Field::Operation, operation_hint(acl));
    }
    mended = AclBinding {
        principal: question.principal.clone(),
        ..acl.clone()
    };
    if decides(question, &mended) {
        let hint = principal_hint(acl.principal.as_str(), question.principal.as_str())?;
        return miss(Field::Principal, hint);
    }
    if acl.pattern.resource_type != question.resource_type {
        return None;
    }
    mended = acl.clone();
    mended.pattern.pattern_type = PatternType::Literal;
    mended.pattern.name = question.name.as_str().into();
    if decides(question, &mended) {
        return miss(Field::Name, name_hint(acl, &question.name)?);
    }
    None
}

fn host_hint(acl: &AclBinding) -> &'static str {
    let text = acl.host.as_str();
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    if is_address(text) {
        "the client has to come from this address"
    } else if text.contains('/') {
        "a network is no host: an ACL is for one address, or for *"
    } else {
        "a name is no host: an ACL is for one address, or for *"
    }
}

fn operation_hint(acl: &AclBinding) -> &'static str {
    if acl.operation.known().is_none() {
        "an operation that is not known here"
    } else if acl.effect() == PermissionType::Deny {
        "what forbids implies nothing: it forbids this operation only"
    } else {
        "it permits another operation, which does not imply this one"
    }
}

fn principal_hint(own: &str, asked: &str) -> Option<&'static str> {
    let Some((kind, name)) = own.split_once(':') else {
        let name = asked.split_once(':').map_or(asked, |(_, name)| name);
        return (own == name || own == asked).then_some("it lacks its type, such as User:");
    };
    let (asked_kind, asked_name) = asked.split_once(':')?;
    if name == asked_name && kind != asked_kind {
        return Some("the type before the colon is another");
    }
    if let Some(begin) = name
        .strip_suffix('*')
        .filter(|_| own != Principal::EVERYONE)
        && asked_name.starts_with(begin)
    {
        return Some("* is a letter here: only User:* is for every principal");
    }
    if is_same_subject(name, asked_name) {
        return Some("the same attributes of a certificate, written otherwise");
    }
    if has_common_name(name, asked_name) || has_common_name(asked_name, name) {
        return Some("a subject and its CN: ssl.principal.mapping.rules makes one of the other");
    }
    spelled_alike(own, asked)
}

fn name_hint(acl: &AclBinding, name: &str) -> Option<&'static str> {
    let own = &*acl.pattern.name;
    if acl.pattern.pattern_type == PatternType::Prefixed {
        return if own == "*" {
            Some("PREFIXED * is for names that begin with a star; LITERAL * is for every name")
        } else if own.starts_with(name) {
            Some("the prefix is longer than the name")
        } else {
            begins_alike(own, name)
        };
    }
    match own.strip_suffix('*') {
        Some(begin) if name.starts_with(begin) => {
            return Some("* is a letter here: an ACL for a prefix is PREFIXED, without the star");
        }
        _ => {}
    }
    if name.starts_with(own) {
        return Some("LITERAL is for this name only; PREFIXED would be for what begins with it");
    }
    spelled_alike(own, name)
}

fn begins_alike(prefix: &str, name: &str) -> Option<&'static str> {
    let begins = name.get(..prefix.len())?;
    begins
        .eq_ignore_ascii_case(prefix)
        .then_some("only upper and lower case differ")
}

/// Returns why two texts are likely to be meant for the same.
fn spelled_alike(one: &str, other: &str) -> Option<&'static str> {
    if one.to_lowercase() == other.to_lowercase() {
        return Some("only upper and lower case differ");
    }
    if one.trim() == other.trim() {
        return Some("one has blanks around it");
    }
    if bare(one).eq(bare(other)) {
        return Some("only the signs between the words differ");
    }
    is_one_off(one, other).then_some("one letter differs")
}

/// Returns the letters and digits of a text.
fn bare(text: &str) -> impl Iterator<Item = char> {
    let letters = text
        .chars()
        .filter(|letter| !matches!(letter, '-' | '_' | '.' | ' '));
    letters.flat_map(char::to_lowercase)
}

/// Returns true if one letter is missing, is too much or is another; digits are counted with, for
/// which another one means another thing.
fn is_one_off(one: &str, other: &str) -> bool {
    const LENGTH_MIN: usize = 5;
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().min(other.len()) < LENGTH_MIN || one.len().abs_diff(other.len()) > 1 {
        return false;
    }
    let same = |(a, b): &(&char, &char)| a == b;
    let begin = one.iter().zip(&other).take_while(same).count();
    let (one, other) = (
        one.get(begin..).unwrap_or(&[]),
        other.get(begin..).unwrap_or(&[]),
    );
    let end = one
        .iter()
        .rev()
        .zip(other.iter().rev())
        .take_while(same)
        .count();
    let left = |part: &[char]| {
        part.get(..part.len().saturating_sub(end))
            .map(<[char]>::to_vec)
    };
    let left = (
        left(one).unwrap_or_default(),
        left(other).unwrap_or_default(),
    );
    let is_digit = |part: &[char]| part.iter().any(char::is_ascii_digit);
    left.0.len() <= 1 && left.1.len() <= 1 && !is_digit(&left.0) && !is_digit(&left.1)
}

/// Returns true for two subjects with the same attributes, in another order or with blanks.
fn is_same_subject(one: &str, other: &str) -> bool {
    let attributes = |text: &str| {
        let each = text.split(',').map(|part| part.trim().to_lowercase());
        let mut each: Vec<_> = each.collect();
        each.sort();
        each
    };
    one.contains('=') && one.contains(',') && attributes(one) == attributes(other)
}

fn has_common_name(subject: &str, name: &str) -> bool {
    let mut attributes = subject.split(',').map(str::trim);
    attributes.any(|one| one.strip_prefix("CN=").is_some_and(|found| found == name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::verdict::tests::{acl, question, rights};
    use super::*;

    #[track_caller]
    fn check(asked: &str, line: &str, expect: Option<(Field, &str)>) {
        let known = rights(None, &[line]);
        let acl = &known.acls[0];
        let found = near_misses(&question(asked), &known.acls, acl.effect());
        let found = found.first().map(|miss| (miss.field, miss.hint));
        match (found, expect) {
            (Some((field, hint)), Some((wanted, words))) => {
                assert_eq!(field, wanted, "{line}");
                assert!(hint.contains(words), "{line}: {hint}");
            }
            (found, expect) => assert_eq!(found, expect, "{asked}: {line}"),
        }
    }

    #[test]
    fn each_mistake_is_named() {
        const ASKED: &str = "User:ada 10.0.0.1 READ TOPIC orders-eu";
        use Field::{Host, Name, Operation, Principal};
        for (line, expect) in [
            (
                "ALLOW READ LITERAL TOPIC orders-eu User:ada 10.0.0.2",
                (Host, "address"),
            ),
            (
                "ALLOW READ LITERAL TOPIC orders-eu User:ada 10.0.0.0/8",
                (Host, "network"),
            ),
            (
                "ALLOW READ LITERAL TOPIC orders-eu User:ada app1",
                (Host, "name is no host"),
            ),
            (
                "ALLOW WRITE LITERAL TOPIC orders-eu User:ada *",
                (Operation, "another operation"),
            ),
            (
                "DENY DESCRIBE LITERAL TOPIC orders-eu User:ada *",
                (Operation, "forbids"),
            ),
            (
                "ALLOW READ LITERAL TOPIC orders-eu User:Ada *",
                (Principal, "case"),
            ),
            (
                "ALLOW READ LITERAL TOPIC orders-eu user:ada *",
                (Principal, "type"),
            ),
            (
                "ALLOW READ LITERAL TOPIC orders-eu ada *",
                (Principal, "lacks its type"),
            ),
            (
                "ALLOW READ LITERAL TOPIC orders-eu User:a* *",
                (Principal, "letter"),
            ),
            (
                "ALLOW READ LITERAL TOPIC orders-eu User:CN=ada,O=x *",
                (Principal, "mapping.rules"),
            ),
            (
                "ALLOW READ LITERAL TOPIC orders User:ada *",
                (Name, "PREFIXED would"),
            ),
            (
                "ALLOW READ LITERAL TOPIC orders-* User:ada *",
                (Name, "without the star"),
            ),
            (
                "ALLOW READ PREFIXED TOPIC * User:ada *",
                (Name, "LITERAL *"),
            ),
            (
                "ALLOW READ PREFIXED TOPIC orders-eu-1 User:ada *",
                (Name, "longer"),
            ),
            (
                "ALLOW READ PREFIXED TOPIC Orders User:ada *",
                (Name, "case"),
            ),
            (
                "ALLOW READ LITERAL TOPIC orders_eu User:ada *",
                (Name, "signs"),
            ),
            (
                "ALLOW READ LITERAL TOPIC order-eu User:ada *",
                (Name, "one letter"),
            ),
        ] {
            check(ASKED, line, Some(expect));
        }
        check(
            "User:CN=a,O=b * READ TOPIC t",
            "ALLOW READ LITERAL TOPIC t User:O=b,CN=a *",
            Some((Principal, "written otherwise")),
        );
    }

    #[test]
    fn what_is_far_off_or_fits_is_no_near_miss() {
        const ASKED: &str = "User:ada * READ TOPIC orders-1";
        for line in [
            "ALLOW READ LITERAL TOPIC orders-1 User:ada *",
            "ALLOW READ LITERAL TOPIC orders-1 User:bob *",
            "ALLOW READ LITERAL TOPIC orders-2 User:ada *",
            "ALLOW READ LITERAL GROUP orders-1 User:ada *",
            "ALLOW WRITE LITERAL TOPIC orders-1 User:ada 10.0.0.1",
            "ALLOW READ LITERAL TOPIC orders-1 User:* *",
        ] {
            check(ASKED, line, None);
        }
    }

    proptest! {
        #[test]
        fn a_near_miss_decides_nothing_and_any_text_is_compared(
            name in "[a-c*-]{0,4}", own in "[a-cA-C*= ,\u{e4}-]{0,6}", user in "[a-c:=,*]{1,6}"
        ) {
            let mut known = acl("ALLOW READ LITERAL TOPIC t User:a *");
            known.pattern.name = own.as_str().into();
            if let Ok(principal) = Principal::parse(&user) {
                known.principal = principal;
            }
            let mut asked = question("User:a * READ TOPIC t");
            asked.name = name;
            let known = [known];
            for miss in near_misses(&asked, &known, PermissionType::Allow) {
                prop_assert!(!decides(&asked, miss.acl));
            }
            let _ = (spelled_alike(&own, &user), is_one_off(&own, &user), begins_alike(&own, &user));
        }
    }
}
