"""The driver for kafka-python (a client in pure Python). Usage: kafkapython.py ADDRESS"""

import sys

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.structs import OffsetAndMetadata
from protocol import described, event, payload, security, serve

WAIT_MS = 30_000


def secured():
    """Settings of a listener of SASL_SSL, if the driver is to go there."""
    wanted = security()
    return wanted and {
        "security_protocol": "SASL_SSL", "ssl_cafile": wanted["ca"], "sasl_mechanism": wanted["mechanism"],
        "sasl_plain_username": wanted["user"], "sasl_plain_password": wanted["password"]}


class Driver:
    def __init__(self, address):
        self.where = {"bootstrap_servers": address, **secured()}
        self._admin = None

    @property
    def admin(self):
        if self._admin is None:
            self._admin = KafkaAdminClient(**self.where, request_timeout_ms=WAIT_MS)
        return self._admin

    # Topics

    def create_topic(self, topic, partitions, configs):
        self.admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)], timeout_ms=WAIT_MS)

    def delete_topic(self, topic):
        self.admin.delete_topics([topic], timeout_ms=WAIT_MS)

    def topics(self):
        return sorted(self.admin.list_topics())

    def describe_topic(self, topic):
        (found,) = self.admin.describe_topics([topic])
        if found["error_code"]:
            raise LookupError(f"unknown topic: error {found['error_code']}")
        return {"partitions": len(found["partitions"])}

    def add_partitions(self, topic, total):
        self.admin.create_partitions({topic: NewPartitions(total)}, timeout_ms=WAIT_MS)

    def configs(self, topic):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self.admin.describe_configs([resource], config_filter="all")["topic"][topic]
        return {name: entry["value"] for name, entry in found.items()}

    def alter_config(self, topic, name, value):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})
        answer = self.admin.alter_configs([resource])["topic"][topic]
        if answer != "OK":
            raise ValueError(answer)

    def delete_records(self, topic, partition, offset):
        target = TopicPartition(topic, partition)
        found = self.admin.delete_records({target: offset}, timeout_ms=WAIT_MS)[target]
        return found["low_watermark"]

    # Records

    def produce(self, topic, records, codec="none", idempotent=False, acks="all"):
        producer = KafkaProducer(
            **self.where, compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent, max_request_size=32 << 20, linger_ms=5,
        )
        sent = [
            producer.send(
                topic, payload(record["seed"], record["size"]),
                None if record.get("key") is None else record["key"].encode(),
                [(name, None if value is None else value.encode()) for name, value in record.get("headers", [])],
                record["partition"], record.get("timestamp"),
            )
            for record in records
        ]
        producer.flush(60)
        offsets = [future.get(60).offset for future in sent]
        producer.close()
        return offsets

    def _consumer(self, group=None, **extra):
        return KafkaConsumer(
            **self.where, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
            max_partition_fetch_bytes=4 << 20, fetch_max_bytes=64 << 20, fetch_max_wait_ms=100, **extra,
        )

    def consume(self, topic, partition, offset, count):
        consumer = self._consumer()
        target = TopicPartition(topic, partition)
        consumer.assign([target])
        consumer.seek(target, offset)
        records = []
        while len(records) < count:
            polled = consumer.poll(timeout_ms=WAIT_MS, max_records=count - len(records))
            if not polled:
                raise TimeoutError("no record came")
            records += [_described(record) for record in polled[target]]
        consumer.close()
        return records

    def watermarks(self, topic, partition):
        consumer, target = self._consumer(), TopicPartition(topic, partition)
        answer = [consumer.beginning_offsets([target])[target], consumer.end_offsets([target])[target]]
        consumer.close()
        return answer

    def offset_for_time(self, topic, partition, timestamp):
        consumer, target = self._consumer(), TopicPartition(topic, partition)
        found = consumer.offsets_for_times({target: timestamp})[target]
        consumer.close()
        return None if found is None else found.offset

    # Transactions

    def transact(self, topic, identity, group, rounds):
        producer = KafkaProducer(**self.where, transactional_id=identity)
        producer.init_transactions()
        for one in rounds:
            producer.begin_transaction()
            for partition in range(one["partitions"]):
                producer.send(topic, one["value"].encode(), partition=partition)
            # What is still in the queue when a transaction is aborted is never sent, and leaves nothing behind.
            producer.flush()
            position = {TopicPartition(topic, 0): OffsetAndMetadata(one["position"], "", -1)}
            producer.send_offsets_to_transaction(position, group)
            (producer.commit_transaction if one["commit"] else producer.abort_transaction)()
        producer.close()

    # Groups

    def groups(self):
        return sorted(group["group_id"] for group in self.admin.list_groups())

    def describe_group(self, group):
        found = self.admin.describe_groups([group])[group]
        return {"state": found["group_state"], "members": len(found["members"])}

    def group_offsets(self, group, topic):
        found = self.admin.list_group_offsets(group)[group]
        return {str(target.partition): at.offset for target, at in found.items() if target.topic == topic}

    def reset_group(self, group, topic, offsets):
        wanted = {TopicPartition(topic, int(partition)): OffsetAndMetadata(offset, "", -1)
                  for partition, offset in offsets.items()}
        self.admin.alter_group_offsets(group, wanted)

    def delete_group(self, group):
        self.admin.delete_groups([group])

    def member(self, ended, group, topic, session_ms):
        # It may miss that it has to ask for its topic, and asks again only when its metadata is too old.
        consumer = self._consumer(group, session_timeout_ms=session_ms, heartbeat_interval_ms=session_ms // 4,
                                  metadata_max_age_ms=3000)
        # kafka-python 3.0 loses a rejoin whose poll times out between JoinGroup and SyncGroup when the rejoin was
        # caused by its own metadata: it believes itself joined, owns nothing and sends no heartbeats, for ever
        # (`need_rejoin` compares snapshots that the unfinished join has already made equal). A consumer that knows
        # the topic before it first joins has no such rejoin.
        consumer.partitions_for_topic(topic)
        consumer.subscribe([topic])
        owned = None
        while not ended.is_set():
            # It also forgets a join that completes between two polls and asks for another, which makes the other members
            # join again, too; on a busy machine, with short polls, they may never come to an end.
            polled = consumer.poll(timeout_ms=1000, max_records=1)
            now = sorted(target.partition for target in consumer.assignment())
            if now != owned:
                owned = now
                event("assigned", partitions=owned)
            for target, records in polled.items():
                for record in records:
                    event("record", **_described(record))
                    consumer.commit({target: OffsetAndMetadata(record.offset + 1, "", -1)})
                    event("committed", partition=record.partition, offset=record.offset + 1)
        consumer.close()
        event("left")


def _described(record):
    return described(record.partition, record.offset, record.key, record.value, record.headers, record.timestamp)


serve(Driver(sys.argv[1]))
