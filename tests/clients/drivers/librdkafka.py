"""The driver for librdkafka, through confluent-kafka. Usage: librdkafka.py ADDRESS"""

import sys

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic
from protocol import described, event, payload, security, serve

WAIT = 30


def secured():
    """Settings of a listener of SASL_SSL, if the driver is to go there."""
    wanted = security()
    return wanted and {
        "security.protocol": "SASL_SSL", "ssl.ca.location": wanted["ca"], "sasl.mechanism": wanted["mechanism"],
        "sasl.username": wanted["user"], "sasl.password": wanted["password"]}


class Driver:
    def __init__(self, address):
        self.common = {"bootstrap.servers": address, "socket.timeout.ms": WAIT * 1000, **secured()}
        self.admin = AdminClient(self.common)

    # Topics

    def create_topic(self, topic, partitions, configs):
        futures = self.admin.create_topics([NewTopic(topic, partitions, 1, config=configs)], operation_timeout=WAIT)
        futures[topic].result(WAIT)

    def delete_topic(self, topic):
        self.admin.delete_topics([topic], operation_timeout=WAIT)[topic].result(WAIT)

    def topics(self):
        return sorted(self.admin.list_topics(timeout=WAIT).topics)

    def describe_topic(self, topic):
        found = self.admin.list_topics(topic, timeout=WAIT).topics[topic]
        if found.error:
            raise KafkaException(found.error)
        return {"partitions": len(found.partitions)}

    def add_partitions(self, topic, total):
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(WAIT)

    def configs(self, topic):
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = self.admin.describe_configs([resource])[resource].result(WAIT)
        return {name: entry.value for name, entry in found.items()}

    def alter_config(self, topic, name, value):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(WAIT)

    def delete_records(self, topic, partition, offset):
        target = TopicPartition(topic, partition, offset)
        return self.admin.delete_records([target])[target].result(WAIT).low_watermark

    # Records

    def produce(self, topic, records, codec="none", idempotent=False, acks="all"):
        producer = Producer({
            **self.common, "compression.codec": codec, "enable.idempotence": idempotent, "acks": acks,
            "message.max.bytes": 32 << 20, "linger.ms": 5, "queue.buffering.max.kbytes": 256 << 10,
        })
        done = [None] * len(records)

        def delivered(index):
            def callback(error, message):
                done[index] = KafkaException(error) if error else -1 if acks == "0" else message.offset()
            return callback

        for index, record in enumerate(records):
            producer.produce(
                topic, payload(record["seed"], record["size"]), record.get("key"), record["partition"],
                on_delivery=delivered(index), timestamp=record.get("timestamp") or 0,
                headers=[(name, None if value is None else value.encode()) for name, value in record.get("headers", [])],
            )
        producer.flush(2 * WAIT)
        for offset in done:
            if not isinstance(offset, int):
                raise offset or TimeoutError("no delivery report")
        return done

    def _consumer(self, group, **extra):
        return Consumer({
            **self.common, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 4 << 20, "fetch.max.bytes": 64 << 20, "receive.message.max.bytes": 100 << 20,
            "fetch.wait.max.ms": 100, **extra,
        })

    def consume(self, topic, partition, offset, count):
        consumer = self._consumer("no-group")
        consumer.assign([TopicPartition(topic, partition, offset)])
        try:
            return [self._next(consumer) for _ in range(count)]
        finally:
            consumer.close()

    @staticmethod
    def _next(consumer):
        message = consumer.poll(WAIT)
        if message is None:
            raise TimeoutError("no record came")
        if message.error():
            raise KafkaException(message.error())
        return _described(message)

    def watermarks(self, topic, partition):
        consumer = self._consumer("no-group")
        try:
            return list(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT))
        finally:
            consumer.close()

    def offset_for_time(self, topic, partition, timestamp):
        consumer = self._consumer("no-group")
        try:
            (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=WAIT)
            return None if found.offset < 0 else found.offset
        finally:
            consumer.close()

    # Transactions

    def transact(self, topic, identity, group, rounds):
        """Transactions one after the other: a record in each of some partitions and a position of a group."""
        producer = Producer({**self.common, "transactional.id": identity})
        producer.init_transactions(WAIT)
        reader = self._consumer(group)
        for one in rounds:
            producer.begin_transaction()
            for partition in range(one["partitions"]):
                producer.produce(topic, one["value"], partition=partition)
            # What is still in the queue when a transaction is aborted is never sent, and leaves nothing behind.
            if producer.flush(WAIT):
                raise TimeoutError("records of a transaction were not delivered")
            position = [TopicPartition(topic, 0, one["position"])]
            producer.send_offsets_to_transaction(position, reader.consumer_group_metadata(), WAIT)
            (producer.commit_transaction if one["commit"] else producer.abort_transaction)(WAIT)
        reader.close()

    def read_committed(self, topic, partition):
        """What counts in a partition, up to where transactions are still open."""
        reader = self._consumer("no-group", **{"isolation.level": "read_committed", "enable.partition.eof": True})
        reader.assign([TopicPartition(topic, partition, 0)])
        values = []
        while True:
            message = reader.poll(WAIT)
            if message is None:
                raise TimeoutError("no end came")
            if message.error():
                reader.close()
                return values
            values.append(message.value().decode())

    # Groups

    def groups(self):
        return sorted(group.group_id for group in self.admin.list_consumer_groups().result(WAIT).valid)

    def describe_group(self, group):
        found = self.admin.describe_consumer_groups([group])[group].result(WAIT)
        return {"state": found.state.name.title().replace("_", ""), "members": len(found.members)}

    def group_offsets(self, group, topic):
        request = [ConsumerGroupTopicPartitions(group)]
        found = self.admin.list_consumer_group_offsets(request)[group].result(WAIT).topic_partitions
        return {str(entry.partition): entry.offset for entry in found if entry.topic == topic and entry.offset >= 0}

    def reset_group(self, group, topic, offsets):
        targets = [TopicPartition(topic, int(partition), offset) for partition, offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, targets)]
        found = self.admin.alter_consumer_group_offsets(request)[group].result(WAIT).topic_partitions
        for entry in found:
            if entry.error:
                raise KafkaException(entry.error)

    def delete_group(self, group):
        self.admin.delete_consumer_groups([group])[group].result(WAIT)

    def member(self, ended, group, topic, session_ms, strategy="range", instance=None, protocol="classic", assignor=None):
        extra = {"session.timeout.ms": session_ms, "heartbeat.interval.ms": session_ms // 4,
                 "partition.assignment.strategy": strategy}
        if protocol == "consumer":
            extra = {"group.protocol": "consumer"}
            if assignor:
                extra["group.remote.assignor"] = assignor
            strategy = "cooperative-sticky"  # what the callbacks may do
        if instance:
            extra["group.instance.id"] = instance
        consumer = self._consumer(group, **extra)
        cooperative = strategy == "cooperative-sticky"

        def owned(change):
            def callback(consumer, partitions):
                if ended.is_set():
                    return  # closing: the library gives everything up by itself
                getattr(consumer, ("incremental_" if cooperative else "") + change)(
                    *([partitions] if cooperative or change == "assign" else []))
                event("assigned", partitions=sorted(entry.partition for entry in consumer.assignment()))
            return callback

        consumer.subscribe([topic], on_assign=owned("assign"), on_revoke=owned("unassign"))
        while not ended.is_set():
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error():
                # A subscription may name topics that are not there yet.
                if message.error().code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    event("error", text=str(message.error()))
                continue
            event("record", **_described(message))
            consumer.commit(message, asynchronous=False)
            event("committed", partition=message.partition(), offset=message.offset() + 1)
        consumer.close()
        event("left")


def _described(message):
    return described(message.partition(), message.offset(), message.key(), message.value(), message.headers(),
                     message.timestamp()[1])


serve(Driver(sys.argv[1]))
