//! Lines for a shell: `forebay acl add` and `kafka-acls.sh`, which permit the same.
//!
//! Invariant: text of clients is one word of the line, whatever it holds.

use wire::acl::{Host, Operation, PatternType, ResourceType};

use super::rights::{Grant, Role};

/// Returns the line for our own command; `None` for a type of resource that it has no option for.
pub(super) fn forebay(principal: &str, host: &str, grant: &Grant) -> Option<String> {
    let mut words = vec![
        "forebay acl add --allow-principal".to_owned(),
        quoted(principal),
    ];
    if host != Host::ANY {
        words.push(given("host", host));
    }
    for (resource, names) in &grant.names {
        let option = match resource {
            ResourceType::DelegationToken | ResourceType::User => return None,
            known => option(*known),
        };
        words.extend(resources(*resource, option, names));
    }
    words.extend(role(grant, |operation| {
        operation.name().to_ascii_lowercase().replace('_', "-")
    }));
    if grant.pattern == PatternType::Prefixed {
        words.push("--prefixed".to_owned());
    }
    Some(words.join(" "))
}

/// Returns the line for Kafka's tool.
pub(super) fn kafka(principal: &str, host: &str, grant: &Grant) -> String {
    let mut words = vec![
        "kafka-acls.sh --bootstrap-server \"$BROKERS\" --add --allow-principal".to_owned(),
        quoted(principal),
    ];
    if host != Host::ANY {
        words.push(given("allow-host", host));
    }
    for (resource, names) in &grant.names {
        words.extend(resources(*resource, option(*resource), names));
    }
    words.extend(role(grant, camel));
    if grant.pattern == PatternType::Prefixed {
        words.push("--resource-pattern-type prefixed".to_owned());
    }
    words.join(" ")
}

/// Returns the option for a type of resource.
fn option(resource: ResourceType) -> &'static str {
    match resource {
        ResourceType::Topic => "topic",
        ResourceType::Group => "group",
        ResourceType::TransactionalId => "transactional-id",
        ResourceType::DelegationToken => "delegation-token",
        ResourceType::User => "user-principal",
        ResourceType::Cluster => "cluster",
    }
}

/// Returns the options for resources of a type; the cluster has no name.
fn resources(resource: ResourceType, option: &str, names: &[String]) -> Vec<String> {
    if resource == ResourceType::Cluster {
        return vec![format!("--{option}")];
    }
    names.iter().map(|name| given(option, name)).collect()
}

/// Returns the options for what is permitted; `named` writes an operation as the tool does.
fn role(grant: &Grant, named: fn(Operation) -> String) -> Vec<String> {
    match &grant.role {
        Role::Producer => vec!["--producer".to_owned()],
        Role::Consumer => vec!["--consumer".to_owned()],
        Role::Operations(operations) => {
            let each = operations
                .iter()
                .map(|one| format!("--operation {}", named(*one)));
            each.collect()
        }
    }
}

/// Returns an option with its value; one that begins like an option is joined to its own.
fn given(option: &str, value: &str) -> String {
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!("--{option}{between}{}", quoted(value))
}

/// Returns a text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/@,=+".contains(&byte);
    // To zsh a word with this beginning is the path of a command.
    let is_command = text.starts_with('=');
    if !text.is_empty() && !is_command && text.bytes().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Returns an operation as `kafka-acls.sh` writes it: `DescribeConfigs`.
fn camel(operation: Operation) -> String {
    let words = operation.name().split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{first}{}", rest.to_ascii_lowercase())
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_clients_is_one_word() {
        for (text, word) in [
            ("orders-1", "orders-1"),
            ("a b", "'a b'"),
            ("$(reboot)", "'$(reboot)'"),
            ("it's; rm -rf /", "'it'\\''s; rm -rf /'"),
            ("", "''"),
            ("=ls", "'=ls'"),
            ("a=b", "a=b"),
        ] {
            assert_eq!(quoted(text), word);
        }
        let grant = Grant {
            role: Role::Operations(vec![Operation::DescribeConfigs]),
            pattern: PatternType::Prefixed,
            names: vec![(ResourceType::Topic, vec!["--x y".to_owned()])],
        };
        assert_eq!(
            forebay("User:CN=a,O=b", "::1", &grant).unwrap(),
            "forebay acl add --allow-principal User:CN=a,O=b --host ::1 --topic='--x y' \
             --operation describe-configs --prefixed"
        );
        assert_eq!(
            kafka("User:a", "*", &grant),
            "kafka-acls.sh --bootstrap-server \"$BROKERS\" --add --allow-principal User:a \
             --topic='--x y' --operation DescribeConfigs --resource-pattern-type prefixed"
        );
    }
}
