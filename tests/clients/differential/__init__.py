"""One script of requests for two brokers: Apache Kafka and the one under test; their answers, field by field.

    schema.py     Kafka's own descriptions of its messages, read from its jar
    codec.py      values to bytes and back, after such a description, in any version
    exchange.py   a connection; a recorder of what was asked and answered
    script/       what is asked: a module per group of requests
    compare.py    which fields differ, after ids, ports and clocks were given names
    reasons.toml  every difference that there is, with its reason
"""
