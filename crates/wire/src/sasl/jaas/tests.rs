//! Lines as Kafka reads them, and what it refuses.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::sasl::recorded;

const MODULE: &str = "org.apache.kafka.common.security.scram.ScramLoginModule";

/// Checks that a text has this module and these options.
#[track_caller]
fn check(text: &str, module: &str, options: &[(&str, &str)]) {
    let entry = Entry::parse(text).unwrap();
    assert_eq!(entry.module(), module);
    let found = entry
        .names()
        .map(|name| (name, entry.option(name).unwrap()));
    let found: Vec<(&str, &str)> = found
        .map(|(name, value)| (name, value.expose().as_str()))
        .collect();
    assert_eq!(found, options);
}

/// Checks that a text is refused at this line and column.
#[track_caller]
fn check_refused(text: &str, reason: Reason, line: usize, column: usize) {
    let error = Entry::parse(text).unwrap_err();
    let at = TextPlace { line, column };
    assert_eq!(error, JaasError { at, reason }, "{text}");
}

#[test]
fn a_line_has_a_module_a_flag_and_options() {
    let text = format!(r#"{MODULE} required username="ada" password='pencil 7';"#);
    check(
        &text,
        MODULE,
        &[("password", "pencil 7"), ("username", "ada")],
    );
    check("m required;", "m", &[]);
    check("\n m\trequired\r\n a\n=\nx1.5 ;\n ", "m", &[("a", "x1.5")]);
    check("m required a=x b=y a=z;", "m", &[("a", "z"), ("b", "y")]);
    let text = "m required b=y a=x a=v c=w b=x a=z b='';";
    check(text, "m", &[("a", "z"), ("b", ""), ("c", "w")]);
}

#[test]
fn flags_are_four_words() {
    for (text, flag) in [
        ("m required;", Flag::Required),
        ("m Requisite;", Flag::Requisite),
        ("m SUFFICIENT;", Flag::Sufficient),
        ("m 'optional';", Flag::Optional),
    ] {
        assert_eq!(Entry::parse(text).unwrap().flag(), flag);
    }
    check_refused("m needed;", Reason::Flag, 1, 3);
    check_refused("m ;", Reason::Flag, 1, 3);
    check_refused("m", Reason::Flag, 1, 2);
}

#[test]
fn quotes_may_be_around_everything_and_keep_what_is_in_them() {
    check(r#""m" "required" "a"="b";"#, "m", &[("a", "b")]);
    check(r#"m required a="b;c=d//e" ;"#, "m", &[("a", "b;c=d//e")]);
    check(
        r#"m required a='say "x"' b="it's";"#,
        "m",
        &[("a", r#"say "x""#), ("b", "it's")],
    );
    check(r#"m required a="";"#, "m", &[("a", "")]);
    check(
        "m required a='\u{e4}\u{8eca}\u{1f697}';",
        "m",
        &[("a", "\u{e4}\u{8eca}\u{1f697}")],
    );
    // A quote ends with its line, as it does in Java.
    check("m required a=\"b\n;", "m", &[("a", "b")]);
}

#[test]
fn a_backslash_has_a_meaning_in_quotes_only() {
    check(r#"m required a="\"\\\'\q";"#, "m", &[("a", r#""\'q"#)]);
    check(
        r#"m required a="\a\b\f\n\r\t\v";"#,
        "m",
        &[("a", "\u{7}\u{8}\u{c}\n\r\t\u{b}")],
    );
    check(
        r#"m required a="\0\101\1012\47\477\378";"#,
        "m",
        &[("a", "\0AA2''7\u{1f}8")],
    );
    check(r#"m required a="\377";"#, "m", &[("a", "\u{ff}")]);
    check_refused(r"m required a=b\n;", Reason::Name, 1, 15);
    check("m required a=\"b\\\nc\";", "m", &[("a", "b\nc")]);
}

#[test]
fn a_slash_outside_of_quotes_begins_a_comment() {
    check(
        "// x\nm required /* ; */ a=b /* c=\n***/ ;// y",
        "m",
        &[("a", "b")],
    );
    check("m required a=b/ c;\n;", "m", &[("a", "b")]);
    check("m required a=b/**/;", "m", &[("a", "b")]);
    // Java takes the end of the line for the character after the slash.
    check("m required a=b /\n c=d\n;", "m", &[("a", "b")]);
    check_refused("m required a=b/c;", Reason::Semicolon, 1, 18);
    check("m required a=b; /*/ n required;", "m", &[("a", "b")]);
}

#[test]
fn words_end_at_signs_and_quotes() {
    check("m required a=b c= d;", "m", &[("a", "b"), ("c", "d")]);
    check("m required _a-1.b=$x-9..;", "m", &[("_a-1.b", "$x-9..")]);
    check(
        "m required a=\u{a0}\u{e4}\u{2028}1;",
        "m",
        &[("a", "\u{a0}\u{e4}\u{2028}1")],
    );
    check_refused("m required a=b\"c\";", Reason::Equals, 1, 18);
    check_refused("m required a=b=c;", Reason::Name, 1, 15);
    check_refused("m required a=b!;", Reason::Name, 1, 15);
    check_refused("m required user_a@b=c;", Reason::Equals, 1, 18);
}

#[test]
fn a_number_is_no_value_without_quotes() {
    for text in [
        "1", "0x1", "-1", "-", ".", "-.5", "1.5.6", "!", "\\", "\u{85}",
    ] {
        check_refused(&format!("m required a={text};"), Reason::Value, 1, 14);
        let quoted = format!("m required a='{}';", text.replace('\\', "\\\\"));
        check(&quoted, "m", &[("a", text)]);
    }
    check_refused("m required 5=x;", Reason::Name, 1, 12);
    check_refused("5 required;", Reason::Module, 1, 1);
    check_refused("m 5;", Reason::Flag, 1, 3);
}

#[test]
fn what_is_missing_is_named_with_its_place() {
    check_refused("", Reason::Module, 1, 1);
    check_refused(" // nothing", Reason::Module, 1, 12);
    check_refused("; required;", Reason::Module, 1, 1);
    check_refused("'' required;", Reason::Module, 1, 1);
    check_refused("m required a=b", Reason::Semicolon, 1, 15);
    check_refused("m required a=\"b;", Reason::Semicolon, 1, 17);
    check_refused("m required\r\n a;", Reason::Equals, 2, 3);
    check_refused("m required\r\r a=;", Reason::Value, 3, 4);
    check_refused("m required a=", Reason::Value, 1, 14);
    check_refused("m required a b=c;", Reason::Equals, 1, 14);
    check_refused("m required = = x;", Reason::Name, 1, 12);
    check_refused("m required; n required;", Reason::Second, 1, 13);
    check_refused("m required;;", Reason::Second, 1, 12);
    check_refused(&"x".repeat(TEXT_BYTES_MAX + 1), Reason::TooLong, 1, 1);
    let error = Entry::parse("m required a b;").unwrap_err();
    let told = "line 1, column 14: an equals sign is missing after the name of an option";
    assert_eq!(error.to_string(), told);
}

#[test]
fn users_of_a_server_are_options() {
    let text =
        r#"m required username="broker" password="x" user_ada="pencil" user_=x user_b.c='2';"#;
    let entry = Entry::parse(text).unwrap();
    let users = entry.users();
    let users: Vec<(&str, &str)> = users
        .map(|(name, value)| (name, value.expose().as_str()))
        .collect();
    assert_eq!(users, [("", "x"), ("ada", "pencil"), ("b.c", "2")]);
    assert!(entry.option("user").is_none());
}

#[test]
fn users_who_could_never_log_in_are_told_without_their_names_and_passwords() {
    let entry = Entry::parse(
        r#"m required username="" password="" user_="canary" user_ada="pencil" user_canary=""
           user_nul="can\0ary" "user_n\0l"="canary" user_esc='\33[2J canary';"#,
    )
    .unwrap();
    let told = entry.locked_out();
    let told: Vec<(usize, String)> = told
        .iter()
        .map(|one| (one.place, one.reason.to_string()))
        .collect();
    let message = "the PLAIN message";
    assert_eq!(
        told,
        [
            (0, format!("{message}: a name is empty")),
            (2, format!("{message}: the password is empty")),
            (4, format!("{message}: a name has a NUL")),
            (5, format!("{message}: the password has a NUL")),
        ]
    );
    assert!(!format!("{:?}", entry.locked_out()).contains("canary"));
    let long = |name: usize, password: usize| {
        let (name, password) = ("n".repeat(name), "p".repeat(password));
        Entry::parse(&format!("m required user_{name}={password};"))
            .unwrap()
            .locked_out()
    };
    assert!(long(1024, plain::PASSWORD_BYTES_MAX).is_empty());
    for (name, password) in [(1025, 1), (1, plain::PASSWORD_BYTES_MAX + 1)] {
        let told = long(name, password);
        let [LockedOut { place: 0, reason }] = told.as_slice() else {
            panic!("{told:?}");
        };
        assert!(matches!(reason, Refusal::TooLong { .. }), "{reason}");
    }
}

#[test]
fn nothing_of_a_line_is_shown() {
    let good = Entry::parse("m required password='canary' canary=x;").unwrap();
    assert!(!format!("{good:?}").contains("canary"));
    for text in [
        "m canary;",
        "canary",
        "m required canary;",
        "m required password=x'canary';",
        "m required password='canary",
        "m required password=canary;canary required;",
        "m required password==canary;",
    ] {
        let error = Entry::parse(text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{text}");
    }
}

/// Texts that were given to Kafka's parser, and what it made of them: `refused`; `nameless` for an
/// option without a name, which is refused here; or the module, the flag and the options.
#[test]
fn texts_are_read_as_kafka_reads_them() {
    let golden = include_str!("../../../tests/golden/kafka-4.3/jaas.txt");
    for (text, expected) in recorded::lines(golden) {
        let text = String::from_utf8(text).unwrap();
        let found = match Entry::parse(&text) {
            Ok(entry) => {
                let module = recorded::hex(entry.module());
                let flag = format!("{:?}", entry.flag()).to_lowercase();
                let value = |name| entry.option(name).unwrap().expose().as_str();
                let pairs = entry.names().map(|name| (name, value(name)));
                format!("{module} {flag}{}", recorded::pairs(pairs))
            }
            Err(error) if error.reason == Reason::Name && expected == "nameless" => continue,
            Err(_) => "refused".to_owned(),
        };
        assert_eq!(found, expected, "{text:?}");
    }
}

/// Writes a text in quotes.
fn quoted(text: &str, quote: char) -> String {
    let mut shown = String::from(quote);
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\\' => shown.push_str("\\\\"),
            _ if character == quote => shown.extend(['\\', quote]),
            _ => shown.push(character),
        }
    }
    shown.push(quote);
    shown
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_at_a_place_in_it(
        text in any::<String>(),
        line in "[mar \n\r=;/*'\"\\\\17\u{85}\u{e4}]{0,40}",
    ) {
        for text in [text, format!("m required {line};"), line] {
            if let Err(error) = Entry::parse(&text) {
                let ends = text.matches(['\n', '\r']).count();
                prop_assert!((1..=ends + 1).contains(&error.at.line));
                prop_assert!((1..=text.chars().count() + 1).contains(&error.at.column));
            }
        }
    }

    #[test]
    fn what_is_quoted_comes_back(
        module in "[a-z.]{1,20}",
        options in proptest::collection::btree_map(any::<String>(), any::<String>(), 0..5),
        quote in prop_oneof![Just('"'), Just('\'')],
    ) {
        let mut text = format!("{} required", quoted(&module, quote));
        for (name, value) in &options {
            text.extend([" ", &quoted(name, quote), "=", &quoted(value, quote)]);
        }
        text.push(';');
        let entry = Entry::parse(&text).unwrap();
        prop_assert_eq!(entry.module(), module);
        let found = entry.names().map(|name| {
            (name.to_owned(), entry.option(name).unwrap().expose().clone())
        });
        prop_assert_eq!(found.collect::<BTreeMap<_, _>>(), options);
    }
}
