//! One line about a right that a client does not have: of a broker's audit file, or of its log, as
//! text or as JSON.
//!
//! An audit line is one object of JSON, so no text of a client is outside of its field. The log
//! quotes all text of clients. Invariant: only a line whose message is this one is taken,
//! never one in whose fields a client has put the same words: what stands before the message has
//! neither a quotation mark nor a field.

use std::str::Chars;

use serde_json::{Map, Value};
use wire::acl::{Operation, ResourceType};

/// The messages of the broker.
const WOULD_DENY: &str = "would_deny: a client does what ACLs deny, because authorizer.mode is log";
const DENIED: &str = "a client was denied what it asked for";

const UNREADABLE: &str = "the line cannot be read";

/// A right that a client asked for and does not have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LoggedDenial {
    pub(super) principal: String,
    pub(super) address: String,
    pub(super) resource_type: ResourceType,
    pub(super) name: String,
    pub(super) operation: Operation,
    /// How many of the same kind were left out since the last line of the kind.
    pub(super) unsaid: u64,
    /// True if the line is of an audit file, which says if it has cut a name.
    pub(super) is_audited: bool,
}

/// Returns what an audit line says; `None` if it is about something else.
fn audited(event: &Map<String, Value>, denied: bool) -> Option<Result<LoggedDenial, &'static str>> {
    const CUT: &str = "the name is longer than audit files show names";
    const ANY: &str = "it asks for any resource of the type: what it needs of one has its own line";
    let text = |key: &str| event.get(key)?.as_str().map(str::to_owned);
    match text("class")?.as_str() {
        "would_deny" => {}
        "denied" if denied => {}
        _ => return None,
    }
    if event
        .get("cut")
        .is_some_and(|cut| *cut != Value::Bool(false))
    {
        return Some(Err(CUT));
    }
    if text("pattern").is_some_and(|pattern| pattern == "ANY") {
        return Some(Err(ANY));
    }
    let found = denial(text, |_| None).map(|found| LoggedDenial {
        is_audited: true,
        ..found
    });
    Some(found.ok_or(UNREADABLE))
}

/// Reads a line; `None` if it is another one, an error if it is one that cannot be read.
pub(super) fn parse(line: &str, denied: bool) -> Option<Result<LoggedDenial, &'static str>> {
    let plain = without_colours(line.trim_end());
    let messages = [Some(WOULD_DENY), denied.then_some(DENIED)];
    let messages = || messages.iter().flatten();
    if let Some(at) = plain.find('{').filter(|at| is_before_message(&plain, *at))
        && let Ok(Value::Object(event)) = serde_json::from_str(plain.split_at(at).1)
    {
        if at == 0 && !event.contains_key("message") {
            return audited(&event, denied);
        }
        let text = |key: &str| event.get(key)?.as_str().map(str::to_owned);
        let message = text("message")?;
        if !messages().any(|known| *known == message) {
            return None;
        }
        let number = |key: &str| event.get(key).and_then(Value::as_u64);
        return Some(denial(text, number).ok_or(UNREADABLE));
    }
    let fields = messages().find_map(|message| {
        let at = plain
            .find(message)
            .filter(|at| is_before_message(&plain, *at))?;
        plain.split_at(at).1.strip_prefix(message)
    })?;
    // The rule has blanks and is not quoted; what follows it is a number.
    let (fields, rule) = fields.split_once(" rule=").unwrap_or((fields, ""));
    let unsaid = rule
        .rsplit_once(" unsaid=")
        .and_then(|(_, number)| number.parse().ok());
    let denial = each_field(fields).and_then(|fields| {
        let text = |key: &str| {
            let found = fields.iter().find(|(name, _)| *name == key);
            found.map(|(_, value)| value.clone())
        };
        denial(text, |_| unsaid)
    });
    Some(denial.ok_or(UNREADABLE))
}

fn is_before_message(line: &str, at: usize) -> bool {
    !line.split_at(at).0.contains(['"', '='])
}

fn denial(
    text: impl Fn(&str) -> Option<String>,
    number: impl Fn(&str) -> Option<u64>,
) -> Option<LoggedDenial> {
    Some(LoggedDenial {
        principal: text("principal")?,
        address: text("address")?,
        resource_type: ResourceType::parse(&text("resource_type")?)?,
        name: text("name")?,
        operation: Operation::parse(&text("operation")?)?,
        unsaid: number("unsaid").unwrap_or(0),
        is_audited: false,
    })
}

/// Returns the fields `name=value`, with blanks between them; a value with blanks is in quotes.
fn each_field(text: &str) -> Option<Vec<(&str, String)>> {
    let mut fields = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=')?;
        let (value, after) = if let Some(quoted) = value.strip_prefix('"') {
            unquoted(quoted)?
        } else {
            let (value, after) = value.split_once(' ').unwrap_or((value, ""));
            (value.to_owned(), after)
        };
        fields.push((name, value));
        rest = after.trim_start();
    }
    Some(fields)
}

/// Returns a text without its escapes, up to its quotation mark, and what is behind that.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut plain = String::new();
    let mut letters = text.chars();
    loop {
        match letters.next()? {
            '"' => return Some((plain, letters.as_str())),
            '\\' => plain.push(match letters.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'u' => code(&mut letters)?,
                other => other,
            }),
            other => plain.push(other),
        }
    }
}

/// Reads `{1b}`.
fn code(letters: &mut Chars<'_>) -> Option<char> {
    let (digits, rest) = letters.as_str().strip_prefix('{')?.split_once('}')?;
    *letters = rest.chars();
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

/// Returns a line without the colours that a log on a terminal has.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        let end = after.find(|letter: char| !letter.is_ascii_digit() && letter != ';');
        // Bounded: the end is within the text.
        let after = after.split_at(end.unwrap_or(after.len())).1;
        rest = after.strip_prefix('m').unwrap_or(after);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expected(name: &str) -> LoggedDenial {
        LoggedDenial {
            principal: "User:ada".to_owned(),
            address: "10.0.0.1".to_owned(),
            resource_type: ResourceType::Topic,
            name: name.to_owned(),
            operation: Operation::DescribeConfigs,
            unsaid: 7,
            is_audited: false,
        }
    }

    fn audit_line(class: &str, more: &str) -> String {
        format!(
            "{{\"time\":\"2026-11-28T07:00:00.000Z\",\"class\":\"{class}\",\"outcome\":\"allowed\",\
             \"principal\":\"User:ada\",\"address\":\"10.0.0.1\",\"operation\":\"DESCRIBE_CONFIGS\",\
             \"resource_type\":\"TOPIC\",{more},\"rule\":\"no ACL\",\"count\":3}}\n"
        )
    }

    #[test]
    fn audit_lines_are_read() {
        let audited = |name: &str| LoggedDenial {
            unsaid: 0,
            is_audited: true,
            ..expected(name)
        };
        let named = "\"name\":\"a\\u001b\",\"pattern\":\"LITERAL\"";
        let line = audit_line("would_deny", named);
        assert_eq!(parse(&line, false), Some(Ok(audited("a\x1b"))));
        let enforced = audit_line("denied", named);
        assert_eq!(parse(&enforced, false), None);
        assert_eq!(parse(&enforced, true), Some(Ok(audited("a\x1b"))));
        for class in ["admin", "auth_failure", "allowed", "audit", ""] {
            assert_eq!(parse(&audit_line(class, named), true), None, "{class}");
        }
        for (more, why) in [
            ("\"pattern\":\"ANY\"", "any resource"),
            ("\"name\":\"a\",\"cut\":true", "longer"),
            ("\"pattern\":\"LITERAL\"", "cannot be read"),
        ] {
            let refused = parse(&audit_line("would_deny", more), false);
            let refused = refused.unwrap().unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        // A line of the log whose fields are those of an audit line is none.
        let log = line.replacen('{', "{\"message\":\"a group is new\",", 1);
        assert_eq!(parse(&log, true), None);
        assert_eq!(parse(&format!("x {line}"), true), None);
    }

    fn text(name: &str) -> String {
        format!(
            "2026-11-28T07:00:00Z  INFO broker::access::denials: {WOULD_DENY} \
             principal=\"User:ada\" address=10.0.0.1 operation=DESCRIBE_CONFIGS \
             resource_type=TOPIC name={name:?} rule=DENY ALL on LITERAL TOPIC \"x unsaid=3\" to \
             \"User:*\" from \"*\" unsaid=7\n"
        )
    }

    #[test]
    fn lines_of_both_forms_are_read() {
        assert_eq!(parse(&text("a b"), false), Some(Ok(expected("a b"))));
        let journal = format!("Nov 28 07:00:00 host forebay[7]: {}", text("a"));
        assert_eq!(parse(&journal, false), Some(Ok(expected("a"))));
        let json = format!(
            "{{\"level\":\"INFO\",\"message\":{WOULD_DENY:?},\"principal\":\"User:ada\",\
             \"address\":\"10.0.0.1\",\"operation\":\"DESCRIBE_CONFIGS\",\"unsaid\":7,\
             \"resource_type\":\"TOPIC\",\"name\":\"a\",\"rule\":\"no ACL\"}}"
        );
        assert_eq!(parse(&json, false), Some(Ok(expected("a"))));
        let coloured = text("a").replace("principal=", "\x1b[3mprincipal\x1b[0m\x1b[2m=\x1b[0m");
        assert_eq!(parse(&coloured, false), Some(Ok(expected("a"))));
        let enforced = text("a").replace(WOULD_DENY, DENIED);
        assert_eq!(parse(&enforced, false), None);
        assert_eq!(parse(&enforced, true), Some(Ok(expected("a"))));
        assert!(
            parse(&text("a").replace("TOPIC", "ROCK"), false)
                .unwrap()
                .is_err()
        );
        assert_eq!(parse("", false), None);
    }

    #[test]
    fn a_client_cannot_put_a_line_into_a_field() {
        let own = text("x").replace("User:ada", "User:mallory");
        for forged in [
            format!("INFO broker::groups: a group is new group={own:?}"),
            format!("INFO broker::groups: a group is new group={own}"),
            format!("{{\"message\":\"a group is new\",\"group\":{own:?}}}"),
        ] {
            assert_eq!(parse(&forged, true), None, "{forged}");
        }
        // In a name of a denial it stays a name.
        let name = format!("\" name=\"y\" {WOULD_DENY}");
        assert_eq!(parse(&text(&name), false), Some(Ok(expected(&name))));
    }

    proptest! {
        #[test]
        fn any_name_is_read_as_it_was(name in any::<String>()) {
            prop_assert_eq!(parse(&text(&name), false), Some(Ok(expected(&name))));
        }

        #[test]
        fn any_line_is_read_or_not(line in "(would_deny: |name=|\"|\\\\|\\{|=| |\x1b\\[|[a-z])*") {
            let _ = parse(&line, true);
            let _ = parse(&format!("{WOULD_DENY}{line}"), true);
        }
    }
}
