//! Checks whether a text is a valid value of a setting. The messages are those that Kafka's users
//! know.

use std::collections::BTreeMap;

use super::broker_settings::BrokerSettings;
use super::kind::{InvalidSetting, invalid, parse_kind, parse_number, parse_whole, parts};
use super::table::{Check, DEFINITIONS, Definition, definition};
use super::tiers;

/// Checks all of a topic's own settings.
pub fn validate(
    settings: &BTreeMap<String, String>,
    image: &crate::image::Image,
    options: &crate::options::BrokerOptions,
) -> Result<(), InvalidSetting> {
    if let Some(unknown) = settings.keys().find(|name| definition(name).is_none()) {
        return Err(InvalidSetting(format!(
            "Unknown topic config name: {unknown}"
        )));
    }
    for definition in DEFINITIONS {
        if let Some(text) = settings.get(definition.name) {
            definition.check(text)?;
        }
    }
    tiers::check(settings, &options.tiers)?;
    let broker = BrokerSettings { image, options };
    let number = |name: &str| -> i64 {
        let of_broker = || definition(name).map(|definition| definition.of_broker(&broker));
        let text = settings.get(name).cloned().or_else(of_broker);
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    let (least, most) = (
        number("min.compaction.lag.ms"),
        number("max.compaction.lag.ms"),
    );
    if least > most {
        return Err(InvalidSetting(format!(
            "conflict topic config setting min.compaction.lag.ms ({least}) > \
             max.compaction.lag.ms ({most})"
        )));
    }
    let remote = settings.get("remote.storage.enable");
    if remote.is_some_and(|text| text.trim().eq_ignore_ascii_case("true")) {
        return Err(InvalidSetting(
            "Tiered Storage functionality is disabled in the broker. \
             Topic cannot be configured with remote log storage."
                .to_owned(),
        ));
    }
    Ok(())
}

impl Definition {
    /// Checks a value of the broker key `name`, which stands for this setting.
    pub(crate) fn check_as(&self, name: &'static str, text: &str) -> Result<(), InvalidSetting> {
        Self { name, ..*self }.check(text)
    }

    fn check(&self, text: &str) -> Result<(), InvalidSetting> {
        let shown = parse_kind(self.name, self.kind, text)?;
        let refuse = |message: String| Err(invalid(self.name, text.trim(), &message));
        match self.check {
            Check::AtLeast(least) => {
                if parse_whole(self.name, self.kind, text)? < least {
                    return refuse(format!("Value must be at least {least}"));
                }
                Ok(())
            }
            Check::Between(least, most) => self.check_between(&shown, least, most),
            Check::BetweenOr(least, most, other) => {
                let number = parse_whole(self.name, self.kind, text)?;
                if number != other && !(least..=most).contains(&number) {
                    return refuse(format!(
                        "Value must be between {least} and {most} or equal to {other}"
                    ));
                }
                Ok(())
            }
            // The names of the tiers are checked where the options are known.
            Check::Any | Check::Tier => Ok(()),
            Check::OneOf(allowed) if allowed.contains(&text.trim()) => Ok(()),
            Check::OneOf(allowed) => {
                refuse(format!("String must be one of: {}", allowed.join(", ")))
            }
            Check::ListOf(allowed) => self.check_list(text, allowed),
            Check::ThrottledReplicas => self.check_throttled(text),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "bounds are small numbers")]
    fn check_between(&self, shown: &str, least: i64, most: i64) -> Result<(), InvalidSetting> {
        let number = parse_number(self.name, self.kind, shown)?;
        if number < least as f64 {
            return Err(invalid(
                self.name,
                shown,
                &format!("Value must be at least {least}"),
            ));
        }
        if number > most as f64 {
            return Err(invalid(
                self.name,
                shown,
                &format!("Value must be no more than {most}"),
            ));
        }
        Ok(())
    }

    fn check_list(&self, text: &str, allowed: &[&str]) -> Result<(), InvalidSetting> {
        let name = self.name;
        let listed: Vec<_> = parts(text.trim()).collect();
        for part in &listed {
            if part.is_empty() {
                return Err(InvalidSetting(format!(
                    "Configuration '{name}' values must not be empty."
                )));
            }
            if !allowed.contains(part) {
                let message = format!("String must be one of: {}", allowed.join(", "));
                return Err(invalid(name, part, &message));
            }
        }
        let is_twice = |at: usize| listed[..at].contains(&listed[at]);
        if (0..listed.len()).any(is_twice) {
            return Err(InvalidSetting(format!(
                "Configuration '{name}' values must not be duplicated."
            )));
        }
        Ok(())
    }

    fn check_throttled(&self, text: &str) -> Result<(), InvalidSetting> {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let replica = |part: &str| {
            part.is_empty()
                || part
                    .split_once(':')
                    .is_some_and(|(a, b)| digits(a) && digits(b))
        };
        let listed: Vec<_> = parts(text.trim()).collect();
        if listed.concat() == "*" || listed.iter().all(|part| replica(part)) {
            return Ok(());
        }
        let message = format!(
            "{} must be the literal '*' or a list of replicas in the following format: \
             [partitionId]:[brokerId],[partitionId]:[brokerId],...",
            self.name
        );
        Err(invalid(
            self.name,
            &format!("[{}]", listed.join(", ")),
            &message,
        ))
    }
}
