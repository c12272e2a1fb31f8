"""librdkafka as an application uses it, with its own log on stderr. Usage: plain.py ADDRESS TOPIC

Makes the topic, produces (plainly, idempotently, in transactions), reads as a member of a group of each protocol, and asks as an administrator.
"""

import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

WAIT = 30
COUNT = 50


def produced(address, topic, **settings):
    producer = Producer({"bootstrap.servers": address, **settings})
    if "transactional.id" in settings:
        producer.init_transactions(WAIT)
        producer.begin_transaction()
    for number in range(COUNT):
        producer.produce(topic, f"value {number}")
    assert producer.flush(WAIT) == 0
    if "transactional.id" in settings:
        producer.commit_transaction(WAIT)


def read(address, topic, count, **settings):
    consumer = Consumer({"bootstrap.servers": address, "auto.offset.reset": "earliest", **settings})
    consumer.subscribe([topic])
    while count > 0:
        message = consumer.poll(WAIT)
        assert message is not None and not message.error(), message and message.error()
        count -= 1
    consumer.commit(asynchronous=False)
    consumer.close()


def main(address, topic):
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(WAIT)
    produced(address, topic)
    produced(address, topic, **{"enable.idempotence": True, "compression.codec": "zstd"})
    produced(address, topic, **{"transactional.id": f"{topic}-id"})
    read(address, topic, 3 * COUNT, **{"group.id": f"{topic}-classic"})
    read(address, topic, 3 * COUNT, **{"group.id": f"{topic}-consumer", "group.protocol": "consumer"})
    assert topic in admin.list_topics(timeout=WAIT).topics
    assert admin.list_consumer_groups().result(WAIT).valid


main(*sys.argv[1:])
