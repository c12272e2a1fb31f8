//! Bounds on the metadata that clients create: every change copies their names on every shard, and
//! all of it is loaded again after a start.
//!
//! Kafka has no such bounds. Not here: topics and partitions, which have folders on a disk; client
//! metrics subscriptions, which have their own bounds (`client_metrics.rs`).

use wire::types::ErrorCode;

use super::Refusal;
use crate::image::Image;

/// Maximum number of entities of one kind: with quotas, with SCRAM credentials, groups with
/// settings.
pub(crate) const ENTITIES_MAX: usize = 20_000;
/// Maximum length of a name or text of such an entity.
pub(crate) const NAME_BYTES_MAX: usize = 1024;
/// Maximum length of a text of one item of a request, checked before the text is used.
///
/// It is what the protocol versions with a two-byte length can carry.
pub(crate) const TEXT_BYTES_MAX: usize = 0x7fff;
/// Maximum bytes of the settings of all resources, with their names.
pub(crate) const SETTINGS_BYTES_MAX: usize = 64 << 20;
/// Maximum bytes of all ACLs, as `image::acl_bytes` counts them.
pub(crate) const ACLS_BYTES_MAX: usize = 16 << 20;
/// Maximum number of settings of one broker, or of the cluster default: unknown keys are accepted
/// too.
pub(crate) const BROKER_SETTINGS_MAX: usize = 2_000;
/// Maximum bytes of their names and values.
pub(crate) const BROKER_BYTES_MAX: usize = 1 << 20;

/// Refuses one more entity of a kind that already has `count`.
pub(crate) fn check_entities(count: usize, what: &str) -> Result<(), Refusal> {
    if count >= ENTITIES_MAX {
        return Err(too_much(format!(
            "There are {what} of {ENTITIES_MAX} entities already"
        )));
    }
    Ok(())
}

/// Refuses a text that is longer than any legitimate one.
pub(crate) fn check_text(bytes: usize, what: &str) -> Result<(), Refusal> {
    if bytes > NAME_BYTES_MAX {
        return Err(too_much(format!(
            "The {what} may have {NAME_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

/// Refuses a text that is too long to copy and report, whether or not what it names exists.
pub(crate) fn check_length(bytes: usize, what: &str) -> Result<(), Refusal> {
    if bytes > TEXT_BYTES_MAX {
        return Err(too_much(format!(
            "The {what} may have {TEXT_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

/// Refuses too many settings of a broker, and any setting once all resources together have too many
/// bytes.
pub(crate) fn check_settings<'a>(
    image: &Image,
    is_broker: bool,
    settings: impl Iterator<Item = (&'a String, &'a String)>,
) -> Result<(), Refusal> {
    if image.settings_bytes() > SETTINGS_BYTES_MAX {
        return Err(too_much(format!(
            "There are {SETTINGS_BYTES_MAX} bytes of settings already"
        )));
    }
    if !is_broker {
        return Ok(());
    }
    let weigh = |(count, bytes): (usize, usize), (name, value): (&String, &String)| {
        let more = name.len().saturating_add(value.len());
        (count.saturating_add(1), bytes.saturating_add(more))
    };
    let (count, bytes) = settings.fold((0, 0), weigh);
    if count > BROKER_SETTINGS_MAX || bytes > BROKER_BYTES_MAX {
        return Err(too_much(format!(
            "There may be {BROKER_SETTINGS_MAX} settings of brokers, and {BROKER_BYTES_MAX} bytes of them"
        )));
    }
    Ok(())
}

/// Refuses an ACL with which all of them would have `bytes`.
pub(crate) fn check_acls(bytes: usize) -> Result<(), Refusal> {
    if bytes > ACLS_BYTES_MAX {
        return Err(too_much(format!(
            "There may be {ACLS_BYTES_MAX} bytes of ACLs"
        )));
    }
    Ok(())
}

fn too_much(message: String) -> Refusal {
    Refusal::new(ErrorCode::PolicyViolation, message)
}

#[cfg(test)]
mod tests {
    use wire::records::metadata::ConfigRecord;

    use super::*;
    use crate::access::Access;
    use crate::controller::Rules;
    use crate::controller::configs::Operation;
    use crate::controller::tests::{apply, create, options, started};
    use crate::image::ResourceType;

    const INTERVAL: &str = "consumer.heartbeat.interval.ms";

    /// Sets one setting of a resource, applies the records, and returns the error.
    fn set(
        image: &mut Image,
        (kind, resource): (ResourceType, &str),
        (name, value): (&str, Option<&str>),
    ) -> Option<ErrorCode> {
        let options = options();
        let rules = Rules {
            image,
            options: &options,
        };
        let code = i8::from(value.is_none());
        let operation = Operation { name, code, value };
        let access = Access::unlimited();
        match rules.alter_incrementally(&access, (kind, resource), &[operation]) {
            Ok(records) => {
                apply(image, records);
                None
            }
            Err(refusal) => Some(refusal.code),
        }
    }

    fn replay(image: &mut Image, kind: ResourceType, resource: &str, name: &str, value: &str) {
        let record = ConfigRecord {
            resource_type: kind.0,
            resource_name: resource.to_owned(),
            name: name.to_owned(),
            value: Some(value.to_owned()),
        };
        image.replay(record.into()).unwrap();
    }

    #[test]
    fn groups_with_settings_are_bounded_in_number_and_length() {
        let mut image = started();
        for group in 0..ENTITIES_MAX {
            let name = format!("g{group}");
            replay(&mut image, ResourceType::GROUP, &name, INTERVAL, "5000");
        }
        let another = (ResourceType::GROUP, "another");
        let known = (ResourceType::GROUP, "g0");
        let refused = Some(ErrorCode::PolicyViolation);
        assert_eq!(set(&mut image, another, (INTERVAL, Some("5000"))), refused);
        assert_eq!(set(&mut image, known, (INTERVAL, Some("6000"))), None);
        let long = format!("{}6000", " ".repeat(NAME_BYTES_MAX));
        assert_eq!(set(&mut image, known, (INTERVAL, Some(&long))), refused);
        assert_eq!(set(&mut image, known, (INTERVAL, None)), None);
        assert_eq!(set(&mut image, another, (INTERVAL, Some("5000"))), None);
        let long = "g".repeat(NAME_BYTES_MAX + 1);
        let mut image = started();
        let long = (ResourceType::GROUP, long.as_str());
        assert_eq!(set(&mut image, long, (INTERVAL, Some("5000"))), refused);
    }

    #[test]
    fn settings_of_brokers_that_nobody_knows_are_bounded_in_number_and_bytes() {
        let mut image = started();
        let all = (ResourceType::BROKER, "");
        for name in 0..BROKER_SETTINGS_MAX {
            let name = format!("plugin.{name}");
            replay(&mut image, ResourceType::BROKER, "", &name, "x");
        }
        let refused = Some(ErrorCode::PolicyViolation);
        assert_eq!(set(&mut image, all, ("plugin.more", Some("x"))), refused);
        assert_eq!(set(&mut image, all, ("plugin.0", None)), None);
        assert_eq!(set(&mut image, all, ("plugin.more", Some("x"))), None);
        let mut image = started();
        let value = "x".repeat(30_000);
        let names = (0..100).map(|name| format!("plugin.{name}"));
        let set: Vec<_> = names
            .map(|name| set(&mut image, all, (&name, Some(&value))))
            .collect();
        assert_eq!(set.iter().filter(|code| code.is_none()).count(), 34);
        assert_eq!(set[99], refused);
    }

    #[test]
    fn bytes_of_all_settings_are_counted_as_they_come_and_go() {
        const LIST: &str = "leader.replication.throttled.replicas";
        let mut image = started();
        let before = image.settings_bytes();
        create(&mut image, "t", 1, &[]);
        let (topic, list) = ((ResourceType::TOPIC, "t"), "0:1,".repeat(8000));
        assert_eq!(set(&mut image, topic, (LIST, Some(&list))), None);
        assert_eq!(image.settings_bytes(), before + 1 + LIST.len() + list.len());
        assert_eq!(set(&mut image, topic, (LIST, Some("0:1"))), None);
        assert_eq!(image.settings_bytes(), before + 1 + LIST.len() + 3);
        assert_eq!(set(&mut image, topic, (LIST, None)), None);
        assert_eq!(image.settings_bytes(), before);
        assert_eq!(set(&mut image, topic, (LIST, Some(&list))), None);
        for other in 0..=SETTINGS_BYTES_MAX / list.len() {
            replay(
                &mut image,
                ResourceType::TOPIC,
                &format!("o{other}"),
                LIST,
                &list,
            );
        }
        let refused = Some(ErrorCode::PolicyViolation);
        assert_eq!(set(&mut image, topic, ("retention.ms", Some("5"))), refused);
        assert_eq!(set(&mut image, topic, (LIST, None)), None);
    }
}
