"""Settings of topics, groups, brokers and clients' metrics; quotas."""

from clients.differential.script.configs import BROKERS, GROUPS, LOGGERS, METRICS, TOPICS, of
from clients.differential.script.rights import things

ALL = [*things.TOPICS, *things.ABSENT]
KEYS = ["retention.ms", "cleanup.policy"]


def resources(u):
    """(kind, name, the setting to change)."""
    yield from ((TOPICS, name, "retention.ms") for name in ALL)
    yield from ((GROUPS, name, "consumer.session.timeout.ms") for name in ("settable", "team", "foreign", "mine-g"))
    yield BROKERS, "1", "log.retention.ms"
    yield BROKERS, "", "log.retention.ms"
    yield METRICS, "subscription", "interval.ms"
    # Loggers are named after classes.
    if u.name not in ("every", "maker"):
        yield LOGGERS, "1", "kafka.server"


def ask(u):
    described(u)
    changed(u)
    quotas(u)


def described(u):
    u.ask("DescribeConfigs", "topics", {"Resources": [of(TOPICS, name, KEYS) for name in ALL]})
    for kind, name, key in resources(u):
        if kind != TOPICS:
            u.ask("DescribeConfigs", f"{name!r} of kind {kind}", {"Resources": [of(kind, name, [key])]})
    u.ask("DescribeConfigs", "of a kind that is not there", {"Resources": [of(99, "1")]})
    u.ask("DescribeConfigs", "a bad name", {"Resources": [of(TOPICS, "bad name"), of(TOPICS, ""), of(GROUPS, ""), of(BROKERS, "77"), of(METRICS, "")]})
    u.ask("ListConfigResources", "all", {})
    u.ask("ListConfigResources", "topics", {"ResourceTypes": [TOPICS]}, versions=range(1, 99))
    u.ask("ListConfigResources", "a kind that is not there", {"ResourceTypes": [99]}, versions=range(1, 99))


def changed(u):
    def to(listed, change, check=True):
        return {"ValidateOnly": check, "Resources": [
            {"ResourceType": kind, "ResourceName": name, "Configs": [change(key)]} for kind, name, key in listed]}

    topics = [one for one in resources(u) if one[0] == TOPICS]
    others = [one for one in resources(u) if one[0] != TOPICS] + [(99, "1", "a"), (GROUPS, "", "consumer.session.timeout.ms"), (BROKERS, "77", "log.retention.ms")]
    for api, change in {"AlterConfigs": lambda key: {"Name": key, "Value": "60000"},
                        "IncrementalAlterConfigs": lambda key: {"Name": key, "ConfigOperation": 0, "Value": "60000"}}.items():
        u.ask(api, "would change topics", to(topics, change))
        for one in others:
            if one[0] != LOGGERS or api == "IncrementalAlterConfigs":
                u.ask(api, f"would change {one[1]!r} of kind {one[0]}", to([one], change))
        if api == "IncrementalAlterConfigs":
            # The other is not answered by Kafka.
            u.ask(api, "a topic twice", to([topics[0]] * 2, change))
        u.ask(api, "a setting that is not there", to([(TOPICS, "granted", "no.such"), (TOPICS, "mine-a", "no.such"), (TOPICS, "settable", "no.such")], change))
        u.ask(api, "none", {"Resources": [], "ValidateOnly": True})
        u.newest(api, "does", to([(TOPICS, "settable", "retention.ms")], change, check=False))


def quotas(u):
    entity = [{"EntityType": "user", "EntityName": "a"}]
    u.ask("AlterClientQuotas", "would", {"ValidateOnly": True, "Entries": [
        {"Entity": entity, "Ops": [{"Key": "producer_byte_rate", "Value": 5.0, "Remove": False}]}]})
    u.ask("AlterClientQuotas", "none", {"Entries": [], "ValidateOnly": True})
    u.ask("DescribeClientQuotas", "all", {"Components": [], "Strict": False})
    u.ask("DescribeClientQuotas", "a kind that is not there", {"Strict": False, "Components": [{"EntityType": "planet", "MatchType": 0, "Match": "u"}]})
