"""The cases of aiokafka_suite.py; run by the Python of fetch.python."""

import asyncio
import json
import ssl
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

GIVEN = json.loads(sys.argv[1])
COUNT = 500
WAIT = 60


def there(mechanism, password=GIVEN["password"]):
    return {
        "bootstrap_servers": GIVEN["login"], "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=GIVEN["ca"]),
        "sasl_mechanism": mechanism, "sasl_plain_username": GIVEN["user"], "sasl_plain_password": password}


async def topic(mechanism, name):
    admin = AIOKafkaAdminClient(**there(mechanism))
    await admin.start()
    try:
        made = await admin.create_topics([NewTopic(name, 3, 1)])
        assert all(error[1] == 0 for error in made.topic_errors), made
    finally:
        await admin.close()


async def read(mechanism, name, count, **settings):
    consumer = AIOKafkaConsumer(name, **there(mechanism), group_id=f"{name}-readers", auto_offset_reset="earliest", **settings)
    await consumer.start()
    values = []
    try:
        while len(values) < count:
            values.append((await consumer.getone()).value)
        await consumer.commit()
    finally:
        await consumer.stop()
    return values


async def records(mechanism):
    name = f"aio-records-{mechanism.lower()}"
    await topic(mechanism, name)
    producer = AIOKafkaProducer(**there(mechanism), enable_idempotence=True)
    await producer.start()
    sent = [f"{number}".encode() * 100 for number in range(COUNT)]
    for future in [await producer.send(name, value) for value in sent]:
        await future
    await producer.stop()
    assert sorted(await read(mechanism, name, COUNT)) == sorted(sent)


async def transactions(mechanism):
    name = f"aio-transactions-{mechanism.lower()}"
    await topic(mechanism, name)
    producer = AIOKafkaProducer(**there(mechanism), transactional_id=f"{name}-id")
    await producer.start()
    for number in range(10):
        await producer.begin_transaction()
        await producer.send_and_wait(name, f"{number}".encode())
        await (producer.commit_transaction() if number % 2 else producer.abort_transaction())
    await producer.stop()
    got = await read(mechanism, name, 5, isolation_level="read_committed")
    assert sorted(got) == [b"1", b"3", b"5", b"7", b"9"], got


async def wrong(mechanism):
    producer = AIOKafkaProducer(**there(mechanism, "wrong"))
    try:
        await producer.start()
    except KafkaError as error:
        assert "thenticat" in repr(error) or "Unable to bootstrap" in repr(error), repr(error)
    else:
        raise AssertionError("let in")
    finally:
        await producer.stop()


async def main():
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        for what, body in {"records": records, "transactions": transactions, "a wrong password": wrong}.items():
            saw = ""
            try:
                await asyncio.wait_for(body(mechanism), WAIT)
            except Exception as error:
                saw = repr(error)
            print(json.dumps({"case": f"{mechanism}: {what}", "passed": not saw, "saw": saw}), flush=True)


asyncio.run(main())
print(json.dumps({"ended": True}))
