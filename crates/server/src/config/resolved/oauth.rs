//! How tokens of OAUTHBEARER are verified at one listener.
//!
//! Invariant: a listener knows where its keys are, and the issuer and the audience that its tokens
//! have to name, or an operator has said that it need not. Tokens without a signature, which Kafka
//! takes where no callback handler is set, are never taken.

use std::sync::Arc;

use broker::session::TokenVerifier;
use wire::sasl::jaas::Entry as Jaas;

use super::super::problem::{Problem, Warning};
use super::super::values::{ListenerValues, Values};
use super::milliseconds;
use crate::oauth::{Expectations, KeyPlace, KeySource, SourceSettings, TokenKeys, Verifier};

const MECHANISM: &str = "oauthbearer";
const URL: &str = "sasl.oauthbearer.jwks.endpoint.url";
const AUDIENCE: &str = "sasl.oauthbearer.expected.audience";
const ISSUER: &str = "sasl.oauthbearer.expected.issuer";
const INSECURE: &str = "sasl.oauthbearer.insecure.claims";

/// Classes of Kafka that do what this broker does, by the ends of the names of their settings: the
/// handler under its names of Kafka 4 and 3, and the validators that verify signatures.
const SERVED_CLASSES: [(&str, &[&str]); 2] = [
    (
        ".oauthbearer.sasl.server.callback.handler.class",
        &[
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
            "org.apache.kafka.common.security.oauthbearer.secured.\
             OAuthBearerValidatorCallbackHandler",
        ],
    ),
    (
        "sasl.oauthbearer.jwt.validator.class",
        &[
            "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
            "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
        ],
    ),
];

/// Returns true if a setting names a class that does what this broker does.
pub(super) fn is_served_class(name: &str, class: &str) -> bool {
    let mut served = SERVED_CLASSES.iter();
    served.any(|(end, classes)| name.ends_with(end) && classes.contains(&class))
}

/// Returns what verifies tokens, as the settings say, and adds its keys to those of `all`; `None`
/// with a problem.
pub(super) fn resolve(
    (values, listener, own): (&Values, &str, &ListenerValues<'_>),
    line: Option<&Jaas>,
    all: &mut TokenKeys,
    (warnings, problems): (&mut Vec<Warning>, &mut Vec<Problem>),
) -> Option<Arc<dyn TokenVerifier>> {
    let of = OfListener {
        values,
        listener,
        own,
    };
    of.check_line(line, warnings, problems);
    let expected = of.expected(warnings, problems);
    let settings = of.source(line).map_err(|problem| problems.push(problem));
    let keys = Arc::new(KeySource::new(settings.ok()?, all.metrics.clone()));
    all.sources.push(Arc::clone(&keys));
    Some(Arc::new(Verifier::new(expected, keys, all.metrics.clone())))
}

struct OfListener<'a> {
    values: &'a Values,
    listener: &'a str,
    own: &'a ListenerValues<'a>,
}

impl OfListener<'_> {
    fn text(&self, setting: &str) -> Option<&str> {
        let text = self.own.nearest(MECHANISM, setting);
        text.filter(|text| !text.is_empty())
    }

    fn number(&self, setting: &str) -> i64 {
        let text = self.text(setting);
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    fn problem(&self, setting: &str, why: impl Into<String>) -> Problem {
        let name = self.own.nearest_name(MECHANISM, setting);
        self.values.problem_of(&name, why)
    }

    /// Says what of the line of JAAS would not be as it says.
    fn check_line(
        &self,
        line: Option<&Jaas>,
        warnings: &mut Vec<Warning>,
        problems: &mut Vec<Problem>,
    ) {
        let Some(line) = line else { return };
        let name = self.own.mechanism_name(MECHANISM, "sasl.jaas.config");
        if line.names().any(|it| it.starts_with("unsecuredValidator")) {
            let why = "tokens without a signature are not served: take the options unsecured.. out, \
                       and name the keys in sasl.oauthbearer.jwks.endpoint.url";
            problems.push(self.values.problem_of(&name, why));
            return;
        }
        let others = line.names().filter(|it| !it.starts_with("ssl.")).count();
        if others > 0
            && let Some(entry) = self.values.any_entry(&name)
        {
            let why = format!(
                "has {others} options without effect: this broker logs in nowhere, and ssl.* alone \
                 has a meaning (for the JWKS endpoint)"
            );
            warnings.push(Warning::of(entry, why));
        }
    }

    fn expected(&self, warnings: &mut Vec<Warning>, problems: &mut Vec<Problem>) -> Expectations {
        let audiences = self.text(AUDIENCE).unwrap_or_default().split(',');
        let audiences = audiences.map(str::trim).filter(|one| !one.is_empty());
        let audiences: Vec<String> = audiences.map(str::to_owned).collect();
        let issuer = self.text(ISSUER).map(str::to_owned);
        let is_insecure = self
            .text(INSECURE)
            .is_some_and(|text| text.eq_ignore_ascii_case("true"));
        for (setting, is_missing, what) in [
            (AUDIENCE, audiences.is_empty(), "for other services"),
            (ISSUER, issuer.is_none(), "of any issuer"),
        ] {
            if !is_missing {
                continue;
            }
            if !is_insecure {
                let why = format!(
                    "must be set, or tokens {what} are taken ({INSECURE}=true allows that)"
                );
                problems.push(self.problem(setting, why));
            } else if let Some(entry) = self
                .values
                .any_entry(&self.own.nearest_name(MECHANISM, INSECURE))
            {
                let why = format!("takes tokens {what}, because {setting} is not set");
                warnings.push(Warning::of(entry, why));
            }
        }
        let seconds = self.number("sasl.oauthbearer.clock.skew.seconds");
        let claim = |setting| self.text(setting).unwrap_or_default().trim().to_owned();
        Expectations {
            issuer,
            audiences,
            subject_claim: claim("sasl.oauthbearer.sub.claim.name"),
            scope_claim: claim("sasl.oauthbearer.scope.claim.name"),
            skew_ms: seconds.saturating_mul(1000),
        }
    }

    fn source(&self, line: Option<&Jaas>) -> Result<SourceSettings, Problem> {
        const RETRY: &str = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms";
        let Some(url) = self.text(URL) else {
            let why = "must name the keys of the identity provider (https://.. or file:///..)";
            return Err(self.problem(URL, why));
        };
        let place = KeyPlace::parse(url).map_err(|why| self.problem(URL, why))?;
        let time = |setting| milliseconds(self.number(setting));
        let options = line.into_iter().flat_map(|line| {
            let names = line.names().filter(|name| name.starts_with("ssl."));
            names.filter_map(|name| Some((name.to_owned(), line.option(name)?.clone())))
        });
        Ok(SourceSettings {
            listener: self.listener.into(),
            setting: self.own.nearest_name(MECHANISM, URL),
            place,
            refresh: time("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
            retry: (
                time(RETRY),
                time("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
            ),
            look: milliseconds(self.values.int("ssl.reload.interval.ms")),
            tls: options.collect(),
        })
    }
}
