//! How a client logs in, from the properties of Java's clients or of librdkafka.
//!
//! Invariant: no error shows a password, or any part of a JAAS line.

use wire::sasl::jaas::Entry;
use wire::sasl::{Mechanism, Secret};

use super::Login;
use super::oauth::RawOauth;
use crate::error::ClientError;

/// The properties about logins as they were given.
#[derive(Clone, Default, Debug)]
pub(super) struct RawLogin {
    protocol: Option<String>,
    mechanism: Option<String>,
    user: Option<String>,
    password: Option<Secret<String>>,
    jaas: Option<Secret<String>>,
    oauth: RawOauth,
}

impl RawLogin {
    /// Takes a property; returns false if it is another.
    pub(super) fn set(&mut self, key: &str, value: &str) -> bool {
        let text = || Some(value.to_owned());
        let secret = || Some(Secret::new(value.to_owned()));
        match key {
            "security.protocol" => self.protocol = text(),
            "sasl.mechanism" | "sasl.mechanisms" => self.mechanism = text(),
            "sasl.username" => self.user = text(),
            "sasl.password" => self.password = secret(),
            "sasl.jaas.config" => self.jaas = secret(),
            _ => return self.oauth.set(key, value),
        }
        true
    }

    /// Returns whether connections are by TLS, and how the client logs in, if it does.
    pub(super) fn resolve(self) -> Result<(bool, Option<Login>), ClientError> {
        let protocol = self.protocol.as_deref().unwrap_or("PLAINTEXT");
        let (is_tls, logs_in) = match protocol.to_ascii_uppercase().as_str() {
            "PLAINTEXT" => (false, false),
            "SSL" => (true, false),
            "SASL_PLAINTEXT" => (false, true),
            "SASL_SSL" => (true, true),
            _ => {
                let known = "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL";
                let reason = format!("{protocol:?} is not one of {known}");
                return Err(ClientError::invalid("security.protocol", reason));
            }
        };
        let login = if logs_in { Some(self.login()?) } else { None };
        Ok((is_tls, login))
    }

    fn login(self) -> Result<Login, ClientError> {
        const SERVED: &str = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER";
        let wrong = |reason| ClientError::invalid("sasl.mechanism", reason);
        let Some(named) = self.mechanism.as_deref() else {
            let reason =
                format!("it is not set, and GSSAPI, Kafka's default, is not one of {SERVED}");
            return Err(wrong(reason));
        };
        let mechanism = Mechanism::from_name(named);
        let mechanism =
            mechanism.ok_or_else(|| wrong(format!("{named:?} is not one of {SERVED}")))?;
        if mechanism == Mechanism::Oauthbearer {
            let line = self.entry()?;
            let (token, extensions) = self.oauth.resolve(line.as_ref())?;
            let nothing = Secret::new(String::new());
            return Ok(Login {
                token: Some(token),
                extensions,
                ..Login::with_password(mechanism, "", nothing)
            });
        }
        let (user, password) = self.credentials()?;
        Ok(Login::with_password(mechanism, &user, password))
    }

    /// Returns the JAAS line, if there is one.
    fn entry(&self) -> Result<Option<Entry>, ClientError> {
        let wrong = |reason: String| ClientError::invalid("sasl.jaas.config", reason);
        let entry = self.jaas.as_ref().map(|jaas| Entry::parse(jaas.expose()));
        entry.transpose().map_err(|error| wrong(error.to_string()))
    }

    fn credentials(self) -> Result<(String, Secret<String>), ClientError> {
        if let Some(entry) = self.entry()? {
            let wrong = |reason: String| ClientError::invalid("sasl.jaas.config", reason);
            let option = |name: &'static str| {
                let option = entry.option(name).cloned();
                option.ok_or_else(|| wrong(format!("there is no {name} in it")))
            };
            let user = option("username")?;
            return Ok((user.expose().clone(), option("password")?));
        }
        let reason = "a login needs it, or sasl.jaas.config";
        let missing = |key: &str| ClientError::invalid(key, reason);
        let user = self.user.ok_or_else(|| missing("sasl.username"))?;
        let password = self.password.ok_or_else(|| missing("sasl.password"))?;
        Ok((user, password))
    }
}

#[cfg(test)]
mod tests {
    use wire::sasl::scram::ScramHash;

    use super::*;

    fn resolve(properties: &[(&str, &str)]) -> Result<Option<Login>, ClientError> {
        let mut raw = RawLogin::default();
        for (key, value) in properties {
            assert!(raw.set(key, value), "{key}");
        }
        Ok(raw.resolve()?.1)
    }

    #[test]
    fn java_and_librdkafka_are_understood() {
        let java = [
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.mechanism", "SCRAM-SHA-512"),
            (
                "sasl.jaas.config",
                "org.apache.kafka.common.security.scram.ScramLoginModule required \
                 username=\"ada\" password=\"pen;cil\";",
            ),
        ];
        let other = [
            ("security.protocol", "sasl_plaintext"),
            ("sasl.mechanisms", "SCRAM-SHA-512"),
            ("sasl.username", "ada"),
            ("sasl.password", "pen;cil"),
        ];
        for properties in [&java[..], &other] {
            let login = resolve(properties).unwrap().unwrap();
            assert_eq!(login.mechanism, Mechanism::Scram(ScramHash::Sha512));
            assert_eq!(login.user, "ada");
            assert_eq!(login.password.expose(), "pen;cil");
        }
        assert!(resolve(&[]).unwrap().is_none());
        assert!(resolve(&other[2..]).unwrap().is_none());
    }

    #[test]
    fn a_token_is_in_a_file_the_environment_or_at_a_provider() {
        const MODULE: &str = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule";
        let url = "sasl.oauthbearer.token.endpoint.url";
        let of = |more: &[(&str, &str)], options: &str| {
            let line = format!("{MODULE} required {options};");
            let mut all = vec![
                ("security.protocol", "SASL_PLAINTEXT"),
                ("sasl.mechanism", "OAUTHBEARER"),
                ("sasl.jaas.config", line.as_str()),
            ];
            all.extend(more);
            resolve(&all).map(Option::unwrap)
        };
        let at = |more: &[(&str, &str)], options| format!("{:?}", of(more, options).unwrap().token);
        assert!(at(&[(url, "file:///a/b")], "").contains(r#"File("/a/b")"#));
        assert!(at(&[(url, "file:/a%20b")], "").contains(r#"File("/a b")"#));
        assert!(at(&[], r#"token.file="/a""#).contains(r#"File("/a")"#));
        assert!(at(&[], "token.env=TOKEN").contains(r#"Environment("TOKEN")"#));
        let asked = [(url, "http://localhost:1/token")];
        let options = r#"clientId=ada clientSecret="hunter2" extension_traceId=x"#;
        let login = of(&asked, options).unwrap();
        assert_eq!(login.extensions["traceId"], "x");
        assert!(!format!("{login:?}").contains("hunter2"));
        let librdkafka = [
            asked[0],
            ("sasl.oauthbearer.method", "oidc"),
            ("sasl.oauthbearer.client.id", "ada"),
            ("sasl.oauthbearer.client.secret", "hunter2"),
        ];
        assert!(at(&librdkafka, "").contains("Provider"));
        for (more, options, expected) in [
            (&[][..], "", url),
            (&asked, "", "sasl.oauthbearer.client.credentials.client.id"),
            (
                &asked,
                "clientId=ada",
                "sasl.oauthbearer.client.credentials.client.secret",
            ),
            (&[(url, "http://example.org/")], "clientId=hunter2", url),
            (&[(url, "file://host/a")], "", url),
            (&[(url, "file:a")], "", url),
            (
                &[(url, "https://localhost:1/")],
                "clientId=a clientSecret=b ssl.endpoint.identification.algorithm=\"\"",
                "ssl.endpoint.identification.algorithm",
            ),
            (
                &[(url, "file:///a")],
                r#"token.file="/hunter2""#,
                "sasl.jaas.config",
            ),
        ] {
            let said = of(more, options).unwrap_err().to_string();
            assert!(
                said.starts_with(expected) && !said.contains("hunter2"),
                "{said}"
            );
        }
    }

    #[test]
    fn what_is_missing_is_said_and_no_secret() {
        let told = |properties: &[(&str, &str)]| resolve(properties).unwrap_err().to_string();
        let sasl = ("security.protocol", "SASL_PLAINTEXT");
        let plain = ("sasl.mechanism", "PLAIN");
        assert!(told(&[("security.protocol", "TLS")]).contains("SASL_SSL"));
        assert!(told(&[sasl]).contains("SCRAM-SHA-256"));
        assert!(told(&[sasl]).contains("is not set"));
        assert!(told(&[sasl, plain]).starts_with("sasl.username"));
        let broken = (
            "sasl.jaas.config",
            "PlainLoginModule required password=\"hunter2\"",
        );
        let error = told(&[sasl, plain, broken]);
        assert!(
            error.starts_with("sasl.jaas.config") && !error.contains("hunter"),
            "{error}"
        );
    }
}
