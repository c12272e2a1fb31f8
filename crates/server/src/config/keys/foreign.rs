//! Kafka's keys that have no meaning here, grouped by the reason. They cause a warning, never an
//! error.
//!
//! Only names: their values are not checked. A key moves from here to the table when the broker
//! implements it.

use super::all;
use super::scope::{PREFIX, before_setting};

/// Reason and names, separated by white space.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    (
        "GSSAPI and delegation tokens are not there yet, nor classes that log in; OAUTHBEARER is for \
         clients of this broker, which logs in nowhere",
        "delegation.token.expiry.check.interval.ms \
         delegation.token.expiry.time.ms delegation.token.master.key \
         delegation.token.max.lifetime.ms \
         delegation.token.secret.key principal.builder.class \
         sasl.client.callback.handler.class \
         sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin \
         sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name \
         sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor \
         sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms \
         sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds \
         sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor \
         sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms \
         sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol \
         sasl.mechanism.inter.broker.protocol sasl.oauthbearer.assertion.algorithm \
         sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds \
         sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include \
         sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub \
         sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file \
         sasl.oauthbearer.assertion.private.key.passphrase \
         sasl.oauthbearer.assertion.template.file \
         sasl.oauthbearer.client.credentials.client.id \
         sasl.oauthbearer.client.credentials.client.secret \
         sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class \
         sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url \
         sasl.server.callback.handler.class security.providers",
    ),
    (
        "Kafka 4 has no such setting any more",
        "auto.include.jmx.reporter broker.id.generation.enable control.plane.listener.name \
         controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms \
         inter.broker.protocol.version leader.imbalance.per.broker.percentage \
         log.message.downconversion.enable log.message.format.version offsets.commit.required.acks \
         reserved.broker.max.id",
    ),
    (
        "there is no tiered storage yet",
        "follower.fetch.last.tiered.offset.enable remote.fetch.max.wait.ms \
         remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes \
         remote.log.index.file.cache.ttl.ms remote.log.manager.copier.thread.pool.size \
         remote.log.manager.copy.max.bytes.per.second \
         remote.log.manager.copy.quota.window.num \
         remote.log.manager.copy.quota.window.size.seconds \
         remote.log.manager.expiration.thread.pool.size \
         remote.log.manager.fetch.max.bytes.per.second \
         remote.log.manager.fetch.quota.window.num \
         remote.log.manager.fetch.quota.window.size.seconds \
         remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms \
         remote.log.manager.task.retry.backoff.max.ms \
         remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter \
         remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes \
         remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path \
         remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name \
         remote.log.reader.max.pending.tasks remote.log.reader.threads \
         remote.log.storage.manager.class.name remote.log.storage.manager.class.path \
         remote.log.storage.manager.impl.prefix remote.log.storage.system.enable",
    ),
    (
        "share groups and streams groups are not there yet",
        "group.share.assignment.interval.ms \
         group.share.assignors group.share.delivery.count.limit \
         group.share.heartbeat.interval.ms group.share.initialize.retry.interval.ms \
         group.share.max.assignment.interval.ms group.share.max.delivery.count.limit \
         group.share.max.heartbeat.interval.ms group.share.max.partition.max.record.locks \
         group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms \
         group.share.max.share.sessions group.share.max.size \
         group.share.min.assignment.interval.ms group.share.min.delivery.count.limit \
         group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks \
         group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms \
         group.share.partition.max.record.locks group.share.persister.class.name \
         group.share.record.lock.duration.ms group.share.session.timeout.ms \
         group.streams.assignment.interval.ms group.streams.heartbeat.interval.ms \
         group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms \
         group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms \
         group.streams.max.size group.streams.max.standby.replicas \
         group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms \
         group.streams.min.session.timeout.ms group.streams.num.standby.replicas \
         group.streams.session.timeout.ms share.coordinator.append.linger.ms \
         share.coordinator.cached.buffer.max.bytes \
         share.coordinator.cold.partition.snapshot.interval.ms \
         share.coordinator.load.buffer.size \
         share.coordinator.snapshot.update.records.per.snapshot \
         share.coordinator.state.topic.compression.codec \
         share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions \
         share.coordinator.state.topic.prune.interval.ms \
         share.coordinator.state.topic.replication.factor \
         share.coordinator.state.topic.segment.bytes share.coordinator.threads \
         share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests",
    ),
    (
        "one node is its own controller",
        "controller.performance.always.log.threshold.ms \
         controller.performance.sample.period.ms controller.quorum.append.linger.ms \
         controller.quorum.auto.join.enable controller.quorum.election.backoff.max.ms \
         controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes \
         controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms \
         controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms \
         controller.socket.timeout.ms early.start.listeners \
         initial.broker.registration.timeout.ms internal.metadata.delete.delay.millis \
         internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes \
         leader.imbalance.check.interval.seconds server.max.startup.time.ms \
         unclean.leader.election.interval.ms",
    ),
    (
        "transactions in two phases are not there yet",
        "transaction.two.phase.commit.enable",
    ),
    (
        "a partition asks its coordinator again every 5 ms, 20 times",
        "add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms",
    ),
    (
        "there is no replication yet",
        "alter.log.dirs.replication.quota.window.num \
         alter.log.dirs.replication.quota.window.size.seconds replication.quota.window.num \
         replication.quota.window.size.seconds",
    ),
    (
        "metrics are served at admin.listener",
        "kafka.metrics.polling.interval.secs kafka.metrics.reporters metric.reporters \
         metrics.num.samples metrics.recording.level metrics.sample.window.ms",
    ),
    (
        "classes of the Java virtual machine cannot be loaded",
        "alter.config.policy.class.name client.quota.callback.class create.topic.policy.class.name \
         replica.selector.class",
    ),
    (
        "it tunes a mechanism that works otherwise here",
        "delete.records.purgatory.purge.interval.requests \
         fetch.purgatory.purge.interval.requests \
         group.coordinator.cached.buffer.max.bytes log.dir.failure.timeout.ms \
         log.initial.task.delay.ms \
         producer.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms \
         socket.connection.setup.timeout.ms unstable.api.versions.enable \
         unstable.feature.versions.enable",
    ),
];

/// Reason and first part of the names of a family.
const FAMILIES: &[(&str, &str)] = &[
    (
        "there is no ZooKeeper in a cluster of Kafka 4",
        "zookeeper.",
    ),
    (
        "there is no ZooKeeper in a cluster of Kafka 4, and no secret that it would keep",
        "password.encoder.",
    ),
    (
        "the config providers that are served have no such parameter",
        "config.providers.",
    ),
];

/// Returns why a key of Kafka that is not in the table has no effect; `None` if Kafka has no such
/// key.
pub fn why_without_effect(name: &str) -> Option<&'static str> {
    if let Some(rest) = name.strip_prefix(PREFIX) {
        // The name of a listener may have dots, so any known setting at the end is the setting.
        let mut known = all().map(|key| key.name).chain(names());
        return known
            .any(|setting| before_setting(rest, setting).is_some())
            .then_some("single listeners have no such setting of their own yet");
    }
    let holds = |(_, names): &&(&str, &str)| names.split_whitespace().any(|known| known == name);
    let alone = WITHOUT_EFFECT.iter().find(holds);
    let is_in_table = || super::find(name).is_some();
    let family = || {
        let found = FAMILIES.iter().find(|(_, start)| name.starts_with(start));
        found.filter(|_| !is_in_table())
    };
    alone.or_else(family).map(|(why, _)| *why)
}

fn names() -> impl Iterator<Item = &'static str> {
    let all = WITHOUT_EFFECT.iter();
    all.flat_map(|(_, names)| names.split_whitespace())
}
