//! `forebay auth whoami`: connects, and shows the principal of the connection.
//!
//! No request of Kafka asks for it: it follows from the login that the broker has accepted, or from
//! the certificate. A broker that maps names of certificates (`ssl.principal.mapping.rules`) may
//! make another name of it.

use std::process::ExitCode;
use std::time::Duration;

use client::ClientSettings;
use client::settings::Login;
use platform::clock::Instant;
use serde::Serialize;
use wire::acl::{NOT_ASKED, Operation};
use wire::messages::DescribeClusterRequest;

use crate::ask::check;
use crate::show::{Table, or_dash};
use crate::target::ChosenTarget;

/// How long an identity provider may take to give a token.
const TOKEN_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Identity {
    broker: String,
    protocol: &'static str,
    principal: String,
    /// What the principal follows from.
    by: String,
    /// The operations on the cluster; `None` if the broker does not tell them.
    cluster_operations: Option<Vec<&'static str>>,
}

pub(super) fn run(target: &ChosenTarget) -> anyhow::Result<ExitCode> {
    let settings = target.finish(target.settings()?)?.client;
    let mut cluster = target.cluster()?;
    let entrance = cluster.entrance()?;
    let broker = entrance.address().to_owned();
    let request =
        DescribeClusterRequest::default().with_include_cluster_authorized_operations(true);
    let answer = entrance.ask_newest(&request)?;
    check(answer.error_code, answer.error_message.as_ref())?;
    let bits = answer.cluster_authorized_operations;
    let user = settings.login.as_ref().map(user_of).transpose()?;
    let identity = identity(&settings, user, broker, bits);
    target.format.show(&identity, || table(&identity))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns who a login is: for a token whom it names, if it can be read at all.
fn user_of(login: &Login) -> anyhow::Result<String> {
    let Some(source) = &login.token else {
        return Ok(login.user.clone());
    };
    let client = client::blocking::Client::new()?;
    let token = client.run(source.token(Instant::now() + TOKEN_WITHIN))?;
    Ok(client::token::subject(&token).unwrap_or_else(|| "(not in the token)".to_owned()))
}

fn identity(
    settings: &ClientSettings,
    user: Option<String>,
    broker: String,
    bits: i32,
) -> Identity {
    let protocol = match (&settings.tls, &settings.login) {
        (None, None) => "PLAINTEXT",
        (None, Some(_)) => "SASL_PLAINTEXT",
        (Some(_), None) => "SSL",
        (Some(_), Some(_)) => "SASL_SSL",
    };
    let subject = settings
        .tls
        .as_ref()
        .and_then(client::settings::Tls::subject);
    let (name, by) = match (&settings.login, subject) {
        (Some(login), _) => (user.unwrap_or_default(), login.mechanism.name().to_owned()),
        (None, Some(subject)) => (
            subject,
            "certificate, if the broker asks for one".to_owned(),
        ),
        (None, None) => (
            "ANONYMOUS".to_owned(),
            "no login, no certificate".to_owned(),
        ),
    };
    let operations = Operation::ALL.iter().copied();
    let may = |operation: &Operation| bits & (1 << operation.code()) != 0;
    Identity {
        broker,
        protocol,
        principal: format!("User:{name}"),
        by,
        cluster_operations: (bits != NOT_ASKED)
            .then(|| operations.filter(may).map(Operation::name).collect()),
    }
}

fn table(identity: &Identity) -> String {
    let mut table = Table::plain();
    let operations = identity.cluster_operations.as_ref();
    let operations = operations.map(|all| match all.as_slice() {
        [] => "none".to_owned(),
        all => all.join(", "),
    });
    for (name, value) in [
        ("principal", identity.principal.clone()),
        ("by", identity.by.clone()),
        ("protocol", identity.protocol.to_owned()),
        ("broker", identity.broker.clone()),
        ("may with the cluster", or_dash(operations)),
    ] {
        table.row([name.to_owned(), value]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use client::SettingsBuilder;

    use super::*;

    fn of(properties: &[(&str, &str)], bits: i32) -> Identity {
        let mut builder = SettingsBuilder::new("a:1").unwrap();
        for (key, value) in properties {
            builder.set(key, value).unwrap();
        }
        let settings = builder.finish().unwrap().client;
        let user = settings.login.as_ref().map(|login| user_of(login).unwrap());
        identity(&settings, user, "a:1".to_owned(), bits)
    }

    #[test]
    fn a_login_says_who_a_client_is() {
        let login = [
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.username", "ada"),
            ("sasl.password", "hunter2"),
        ];
        let bits = (1 << Operation::Describe.code()) | (1 << Operation::Alter.code());
        let ada = of(&login, bits);
        assert_eq!(ada.principal, "User:ada");
        assert_eq!((ada.protocol, ada.by.as_str()), ("SASL_PLAINTEXT", "PLAIN"));
        assert_eq!(ada.cluster_operations, Some(vec!["ALTER", "DESCRIBE"]));
        assert!(!table(&ada).contains("hunter2"));
        let none = of(&[], NOT_ASKED);
        assert_eq!(none.principal, "User:ANONYMOUS");
        assert_eq!(none.cluster_operations, None);
    }
}
