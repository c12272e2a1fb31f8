"""A load of librdkafka producers: N threads, one topic, records of one size, everything acknowledged.

    produce_librdkafka.py ADDRESS TOPIC PRODUCERS RECORD_BYTES TOTAL_BYTES [key=value..]

Prints one line of JSON: bytes, seconds, records. The payload is one buffer of random bytes that is sent again and
again; the clock runs from the first send to the last acknowledgement. A record that is not acknowledged is an error.
"""

import json
import os
import sys
import threading
import time

from confluent_kafka import Producer


def load(address, topic, record, count, properties, failures):
    def done(error, _):
        if error is not None:
            failures.append(str(error))

    producer = Producer({"bootstrap.servers": address, "acks": "all", "queue.buffering.max.kbytes": 65536,
                         "message.max.bytes": 33554432, **properties})
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, record, on_delivery=done)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    if producer.flush(120) != 0:
        failures.append("records left unacknowledged")


def main(address, topic, producers, record_bytes, total_bytes, *properties):
    producers, record_bytes = int(producers), int(record_bytes)
    count = int(total_bytes) // record_bytes // producers
    record = os.urandom(record_bytes)
    failures = []
    properties = dict(pair.split("=", 1) for pair in properties)
    threads = [threading.Thread(target=load, args=(address, topic, record, count, properties, failures))
               for _ in range(producers)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begun
    if failures:
        raise SystemExit(f"{len(failures)} failures, the first: {failures[0]}")
    records = count * producers
    print(json.dumps({"bytes": records * record_bytes, "records": records, "seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
