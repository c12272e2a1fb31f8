"""Settings of topics, brokers, groups; quotas."""

from clients.differential.script.topics import TOPIC, make

TOPICS, BROKERS, LOGGERS, METRICS, GROUPS = 2, 4, 8, 16, 32


def of(kind, name, keys=None):
    return {"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": keys}


def ask(r):
    make(r, TOPIC)
    make(r, "settled", partitions=1, configs=[("retention.ms", "5000"), ("cleanup.policy", "compact,delete")])
    described(r)
    replaced(r)
    changed(r)
    quotas(r)


def described(r):
    r.ask("DescribeConfigs", "a topic", {"Resources": [of(TOPICS, TOPIC)]})
    r.ask("DescribeConfigs", "a topic with settings", {"Resources": [of(TOPICS, "settled")], "IncludeSynonyms": True})
    r.ask("DescribeConfigs", "some keys", {"Resources": [of(TOPICS, "settled", ["retention.ms", "no.such"])]})
    r.ask("DescribeConfigs", "no keys", {"Resources": [of(TOPICS, "settled", [])]})
    keys = ["message.max.bytes", "log.retention.ms", "num.partitions", "auto.create.topics.enable", "offsets.topic.num.partitions", "no.such"]
    r.ask("DescribeConfigs", "a broker", {"Resources": [of(BROKERS, "1", keys)], "IncludeSynonyms": True})
    r.ask("DescribeConfigs", "all brokers", {"Resources": [of(BROKERS, "", keys)]})
    r.ask("DescribeConfigs", "a group", {"Resources": [of(GROUPS, "readers")], "IncludeSynonyms": True})
    for what, kind, name in [("a topic that is not there", TOPICS, "missing"), ("a bad name", TOPICS, "bad name"), ("no topic", TOPICS, ""),
                             ("a broker that is not there", BROKERS, "77"), ("no broker", BROKERS, "abc"), ("a kind that is not there", 99, "1"),
                             ("no group", GROUPS, ""), ("no metrics", METRICS, ""), ("metrics", METRICS, "subscription")]:
        r.ask("DescribeConfigs", what, {"Resources": [of(kind, name)]})
    r.ask("DescribeConfigs", "none", {"Resources": []})
    r.ask("ListConfigResources", "all", {})
    r.ask("ListConfigResources", "topics", {"ResourceTypes": [TOPICS]}, versions=range(1, 99))
    r.ask("ListConfigResources", "each kind", {"ResourceTypes": [TOPICS, BROKERS, LOGGERS, METRICS, GROUPS]}, versions=range(1, 99))
    r.ask("ListConfigResources", "a kind that is not there", {"ResourceTypes": [99]}, versions=range(1, 99))


REFUSED = [
    ("a topic that is not there", TOPICS, "missing", "retention.ms", "1"), ("a bad name", TOPICS, "bad name", "retention.ms", "1"),
    ("no topic", TOPICS, "", "retention.ms", "1"), ("a key that is not there", TOPICS, TOPIC, "no.such", "1"),
    ("a wrong number", TOPICS, TOPIC, "retention.ms", "soon"), ("a number below", TOPICS, TOPIC, "segment.bytes", "0"),
    ("a wrong word", TOPICS, TOPIC, "cleanup.policy", "burn"), ("no value", TOPICS, TOPIC, "retention.ms", None),
    ("a broker that is not there", BROKERS, "77", "log.retention.ms", "1"), ("no broker", BROKERS, "abc", "log.retention.ms", "1"),
    ("what a broker cannot change", BROKERS, "1", "num.partitions", "5"), ("a broker's wrong number", BROKERS, "1", "log.retention.ms", "soon"),
    ("a kind that is not there", 99, "1", "a", "1"), ("a group's wrong number", GROUPS, "readers", "consumer.session.timeout.ms", "1"),
    ("a group's key that is not there", GROUPS, "readers", "no.such", "1"), ("no group", GROUPS, "", "consumer.session.timeout.ms", "5000"),
    ("a key of metrics that is not there", METRICS, "subscription", "no.such", "1"), ("metrics too often", METRICS, "subscription", "interval.ms", "1"),
]


def replaced(r):
    def to(kind, name, *configs, check=True):
        resource = {"ResourceType": kind, "ResourceName": name, "Configs": [{"Name": key, "Value": value} for key, value in configs]}
        return {"Resources": [resource], "ValidateOnly": check}

    for what, kind, name, key, value in REFUSED:
        r.ask("AlterConfigs", f"refuses {what}", to(kind, name, (key, value)))
    r.ask("AlterConfigs", "would", to(TOPICS, TOPIC, ("retention.ms", "9000")))
    r.ask("AlterConfigs", "none", {"Resources": [], "ValidateOnly": True})
    r.ask("AlterConfigs", "does", to(TOPICS, "settled", ("retention.ms", "9000"), check=False))
    own = {"Resources": [of(TOPICS, "settled", ["retention.ms", "cleanup.policy"])]}
    r.until("DescribeConfigs", own, lambda a: [c["Value"] for c in a["Results"][0]["Configs"] if c["Name"] == "retention.ms"] == ["9000"])
    r.newest("DescribeConfigs", "what was replaced", own)


def changed(r):
    def to(kind, name, *configs, check=True):
        changes = [{"Name": key, "ConfigOperation": operation, "Value": value} for key, operation, value in configs]
        return {"Resources": [{"ResourceType": kind, "ResourceName": name, "Configs": changes}], "ValidateOnly": check}

    for what, kind, name, key, value in REFUSED:
        r.ask("IncrementalAlterConfigs", f"refuses {what}", to(kind, name, (key, 0, value)))
    for what, key, operation, value in [("an operation that is not there", "retention.ms", 9, "1"), ("adds to what is no list", "retention.ms", 2, "1"),
                                        ("takes from what is no list", "retention.ms", 3, "1"), ("removes", "retention.ms", 1, None),
                                        ("removes what is not there", "segment.ms", 1, None), ("adds nothing", "cleanup.policy", 2, None)]:
        r.ask("IncrementalAlterConfigs", what, to(TOPICS, "settled", (key, operation, value)))
    r.ask("IncrementalAlterConfigs", "a key twice", to(TOPICS, "settled", ("retention.ms", 0, "1"), ("retention.ms", 0, "2")))
    twice = to(TOPICS, "settled", ("retention.ms", 0, "1"))
    twice["Resources"] *= 2
    r.ask("IncrementalAlterConfigs", "a resource twice", twice)
    r.ask("IncrementalAlterConfigs", "nothing", to(TOPICS, "settled"))
    r.newest("IncrementalAlterConfigs", "takes from a list", to(TOPICS, "settled", ("cleanup.policy", 0, "compact,delete"), check=False))
    r.newest("IncrementalAlterConfigs", "takes one", to(TOPICS, "settled", ("cleanup.policy", 3, "delete"), ("retention.ms", 1, None), check=False))
    own = {"Resources": [of(TOPICS, "settled", ["cleanup.policy", "retention.ms"])]}
    r.until("DescribeConfigs", own, lambda a: "compact" in [c["Value"] for c in a["Results"][0]["Configs"]])
    r.newest("DescribeConfigs", "what was taken", own)


def quotas(r):
    def entity(**parts):
        return [{"EntityType": kind, "EntityName": name} for kind, name in parts.items()]

    def to(entity, key, value, remove=False, check=True):
        return {"Entries": [{"Entity": entity, "Ops": [{"Key": key, "Value": value, "Remove": remove}]}], "ValidateOnly": check}

    for what, values in {
        "a rate": to(entity(**{"client-id": "a"}), "producer_byte_rate", 5.0), "a key that is not there": to(entity(user="a"), "speed", 5.0),
        "nothing a second": to(entity(user="a"), "producer_byte_rate", 0.0), "below": to(entity(user="a"), "producer_byte_rate", -1.0),
        "half a byte": to(entity(user="a"), "producer_byte_rate", 1.5), "a kind that is not there": to(entity(planet="a"), "producer_byte_rate", 5.0),
        "nobody": to([], "producer_byte_rate", 5.0), "connections of a user": to(entity(user="a"), "connection_creation_rate", 5.0),
        "an address": to(entity(ip="10.0.0.1"), "connection_creation_rate", 5.0), "no address": to(entity(ip="not an address!"), "connection_creation_rate", 5.0),
        "removes what is not there": to(entity(user="a"), "producer_byte_rate", 0.0, remove=True), "no name": to(entity(user=""), "producer_byte_rate", 1.0),
    }.items():
        r.ask("AlterClientQuotas", what, values)
    r.newest("AlterClientQuotas", "does", to(entity(user="u", **{"client-id": "c"}), "producer_byte_rate", 1e9, check=False))
    every = {"Components": [], "Strict": False}
    r.until("DescribeClientQuotas", every, lambda a: a["Entries"])
    r.ask("DescribeClientQuotas", "all", every)
    for what, parts in {"a user": [("user", 0, "u")], "any user": [("user", 2, None)], "the default user": [("user", 1, None)],
                        "a kind that is not there": [("planet", 0, "u")], "a way that is not there": [("user", 9, "u")],
                        "twice": [("user", 0, "u"), ("user", 0, "u")], "no name": [("user", 0, None)],
                        "an address and a user": [("user", 0, "u"), ("ip", 0, "10.0.0.1")]}.items():
        components = [{"EntityType": kind, "MatchType": way, "Match": match} for kind, way, match in parts]
        for strict in (False, True):
            r.ask("DescribeClientQuotas", f"{what}{', only that' * strict}", {"Components": components, "Strict": strict})
