//! Lines for a shell: `forebay acl add` and `kafka-acls.sh`, which permit the same.
//!
//! Invariant: text of clients is one word of the line, whatever it holds.

use wire::acl::{Host, Operation, PatternType, ResourceType};

use super::rights::{Grant, Role};

/// Returns the line for our own command; `None` for a type of resource that it has no option for.
pub(super) fn forebay(principal: &str, host: &str, grant: &Grant) -> Option<String> {
    let mut line = format!("forebay acl add --allow-principal {}", quoted(principal));
    if host != Host::ANY {
        line += &format!(" --host {}", quoted(host));
    }
    for (resource, names) in &grant.names {
        let option = match resource {
            ResourceType::Topic => "topic",
            ResourceType::Group => "group",
            ResourceType::TransactionalId => "transactional-id",
            ResourceType::Cluster => {
                line += " --cluster";
                continue;
            }
            ResourceType::DelegationToken | ResourceType::User => return None,
        };
        for name in names {
            line += &given(option, name);
        }
    }
    match &grant.role {
        Role::Producer => line += " --producer",
        Role::Consumer => line += " --consumer",
        Role::Operations(operations) => {
            for operation in operations {
                let name = operation.name().to_ascii_lowercase().replace('_', "-");
                line += &format!(" --operation {name}");
            }
        }
    }
    if grant.pattern == PatternType::Prefixed {
        line += " --prefixed";
    }
    Some(line)
}

/// Returns the line for Kafka's tool.
pub(super) fn kafka(principal: &str, host: &str, grant: &Grant) -> Option<String> {
    let mut line = format!(
        "kafka-acls.sh --bootstrap-server \"$BROKERS\" --add --allow-principal {}",
        quoted(principal)
    );
    if host != Host::ANY {
        line += &format!(" --allow-host {}", quoted(host));
    }
    for (resource, names) in &grant.names {
        let option = match resource {
            ResourceType::Topic => "topic",
            ResourceType::Group => "group",
            ResourceType::TransactionalId => "transactional-id",
            ResourceType::DelegationToken => "delegation-token",
            ResourceType::User => "user-principal",
            ResourceType::Cluster => {
                line += " --cluster";
                continue;
            }
        };
        for name in names {
            line += &given(option, name);
        }
    }
    match &grant.role {
        Role::Producer => line += " --producer",
        Role::Consumer => line += " --consumer",
        Role::Operations(operations) => {
            for operation in operations {
                line += &format!(" --operation {}", camel(*operation));
            }
        }
    }
    if grant.pattern == PatternType::Prefixed {
        line += " --resource-pattern-type prefixed";
    }
    Some(line)
}

/// Returns an option with its value; one that begins like an option is joined to its own.
fn given(option: &str, value: &str) -> String {
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!(" --{option}{between}{}", quoted(value))
}

/// Returns a text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/@,=+".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
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
            kafka("User:a", "*", &grant).unwrap(),
            "kafka-acls.sh --bootstrap-server \"$BROKERS\" --add --allow-principal User:a \
             --topic='--x y' --operation DescribeConfigs --resource-pattern-type prefixed"
        );
    }
}
