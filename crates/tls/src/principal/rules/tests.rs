//! Rules as Kafka reads them.

use proptest::prelude::*;

use super::PrincipalRules;

#[track_caller]
fn check(rules: &str, subject: &str, expect: Option<&str>) {
    let parsed = PrincipalRules::parse(rules).unwrap_or_else(|why| panic!("{rules}: {why}"));
    assert_eq!(
        parsed.name_of(subject).as_deref(),
        expect,
        "{rules} {subject}"
    );
}

#[track_caller]
fn check_refused(rules: &str, expect: &str) {
    let problem = PrincipalRules::parse(rules).map(|_| ()).unwrap_err();
    assert_eq!(problem.to_string(), expect, "{rules}");
}

const DUKE: &str = "CN=Duke,OU=ServiceUsers,O=Org,C=US";

#[test]
fn the_first_rule_that_matches_wins() {
    let rules = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, RULE:^CN=(.*?),OU=Admin.*$/admin-$1/U,\
                 DEFAULT";
    check(rules, DUKE, Some("duke"));
    check(rules, "CN=Duke,OU=Admin", Some("ADMIN-DUKE"));
    check(rules, "CN=Duke", Some("CN=Duke"));
    check("DEFAULT", DUKE, Some(DUKE));
    check("RULE:CN=(.*?),.*/$1/", "O=x", None);
    check("RULE:OU=.*/x/,", DUKE, None);
    check("RULE:.*CN=([^,]+).*/$1/", DUKE, Some("Duke"));
}

#[test]
fn commas_slashes_and_spaces_are_where_kafka_has_them() {
    check("RULE:^CN=a,OU=b$/x,y/", "CN=a,OU=b", Some("x,y"));
    check("RULE:^CN=a\\/b$/c\\/d/", "CN=a/b", Some("c/d"));
    check(" , DEFAULT ,, ", DUKE, Some(DUKE));
    check("RULE:CN=\\\\,OU=b/x/", "CN=\\,OU=b", Some("x"));
    // The whole subject is matched, and then each match in it is replaced.
    check("RULE:.*/x/", "CN=a", Some("xx"));
    check("RULE:^.*$/x/", "CN=a", Some("x"));
    check("RULE:^.*$//", "CN=a", Some(""));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    check_refused(
        "",
        "must be DEFAULT, or rules such as RULE:^CN=(.*?),.*$/$1/",
    );
    check_refused(
        " ,",
        "must be DEFAULT, or rules such as RULE:^CN=(.*?),.*$/$1/",
    );
    check_refused(
        "default",
        "default: is neither DEFAULT nor RULE:pattern/replacement/",
    );
    check_refused(
        "DEFAULTS",
        "DEFAULTS: is neither DEFAULT nor RULE:pattern/replacement/",
    );
    check_refused("RULE:a", "RULE:a: has no / behind its pattern");
    check_refused("RULE:a/b", "RULE:a/b: has no / behind its replacement");
    check_refused(
        "RULE:a/b/l",
        "RULE:a/b/l: has more behind its last / than L or U",
    );
    check_refused(
        "RULE:a/b/LU",
        "RULE:a/b/LU: has more behind its last / than L or U",
    );
    check_refused(
        "RULE:(/b/",
        "RULE:(/b/: its pattern is no regular expression",
    );
    check_refused(
        "RULE:a/$1/",
        "RULE:a/$1/: it names a group, and the pattern has none",
    );
    let many = "DEFAULT,".repeat(101);
    check_refused(&many, "must have at most 100 rules");
    let long = "x".repeat(100_000);
    check_refused(&long, "must have at most 65536 bytes");
    let shown = format!(
        "{}..: is neither DEFAULT nor RULE:pattern/replacement/",
        "x".repeat(60)
    );
    check_refused(&"x".repeat(100), &shown);
}

#[test]
fn a_name_has_a_bound() {
    let rules = format!("RULE:^(.*)$/{}/", "$1".repeat(100));
    check(&rules, &"x".repeat(4096), None);
    check(&rules, "x", Some(&"x".repeat(100)));
}

#[test]
fn names_are_those_that_kafka_makes() {
    const RECORDED: &str = include_str!("../../../tests/golden/rules.txt");
    for line in RECORDED.lines() {
        let mut parts = line.split('\t');
        let (rules, subject, result) = (parts.next(), parts.next(), parts.next());
        let (rules, subject, result) = (rules.unwrap(), subject.unwrap(), result.unwrap());
        let parsed = PrincipalRules::parse(rules);
        match (result.strip_prefix('='), parsed) {
            (Some(expect), Ok(parsed)) => {
                assert_eq!(parsed.name_of(subject).as_deref(), Some(expect), "{line}");
            }
            (None, Ok(parsed)) => {
                assert_eq!((result, parsed.name_of(subject)), ("!none", None), "{line}");
            }
            (Some(_), Err(problem)) => panic!("{line}: {problem}"),
            // In Kafka no rules at all refuse every client; here they refuse the start.
            (None, Err(_)) => {
                let is_empty = rules.trim_matches([' ', ',']).is_empty();
                assert!(result != "!none" || is_empty, "{line}");
            }
        }
    }
    assert!(RECORDED.lines().count() > 200);
}

proptest! {
    #[test]
    fn any_text_is_read(
        text in "(RULE:|DEFAULT|[-^$.*+?()\\[\\]{}|/\\\\,LUa-c1-3&~ ]){0,30}", subject in "\\PC{0,60}"
    ) {
        if let Ok(rules) = PrincipalRules::parse(&text) {
            let _ = rules.name_of(&subject);
        }
    }
}
