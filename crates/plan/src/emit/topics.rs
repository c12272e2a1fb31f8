//! `topics.sh`: creates the topics of a cluster, with this project's own client, which works with
//! any Kafka.

use std::fmt::Write as _;

use super::{comment, topic_name, whole};
use crate::answer::{FleetFigures, Plan};

/// Returns the script. Its first argument, or `BROKERS`, names the brokers.
pub fn script(plan: &Plan, chosen: &FleetFigures) -> String {
    let mut text = String::from("#!/bin/sh\n");
    let _ = writeln!(
        text,
        "# Topics of one cluster of the plan {}: {} x {}",
        comment(&plan.name),
        chosen.cluster_brokers,
        comment(&chosen.mix)
    );
    text.push_str(
        "set -eu\nBROKERS=${1:-${BROKERS:-127.0.0.1:9092}}\nFOREBAY=${FOREBAY:-forebay}\n\
         # Copies on one broker only, to try the script out: REPLICAS=1\nREPLICAS=${REPLICAS:-}\n",
    );
    for topic in &chosen.topics {
        let mut settings = Vec::new();
        match (topic.keep_time, topic.keep_bytes) {
            (Some(time), _) => settings.push(format!("retention.ms={}", whole(time.0 * 1000.0))),
            (None, Some(bytes)) => {
                settings.push("retention.ms=-1".to_owned());
                settings.push(format!("retention.bytes={}", whole(bytes.0)));
            }
            (None, None) => settings.push("retention.ms=-1".to_owned()),
        }
        settings.push(format!(
            "segment.bytes={}",
            whole(chosen.segment.0.min(f64::from(i32::MAX)))
        ));
        if topic.compacted {
            settings.push("cleanup.policy=compact".to_owned());
        }
        let most = topic.record.0.max(topic.batch.0) * 1.1;
        if most > 1_048_588.0 {
            settings.push(format!("max.message.bytes={}", whole(most)));
        }
        if chosen.fast.is_some() && topic.only_bulk {
            settings.push("storage.tier.min=bulk".to_owned());
        }
        if chosen.fast.is_some() && topic.only_fast {
            settings.push("storage.tier.max=fast".to_owned());
        }
        let settings: Vec<String> = settings.iter().map(|pair| format!(" -s {pair}")).collect();
        let _ = writeln!(
            text,
            "\"$FOREBAY\" topic create {} -b \"$BROKERS\" -p {} -r \"${{REPLICAS:-{}}}\"{} --if-not-exists",
            topic_name(&topic.name),
            whole(topic.partitions),
            topic.replication,
            settings.concat(),
        );
    }
    text
}
