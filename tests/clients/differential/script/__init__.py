"""What is asked, in this order: each module leaves to the next what it made."""

from clients.differential.script import cluster, configs, consumer_groups, groups, malformed, records, security, topics, transactions

MODULES = [topics, records, groups, consumer_groups, transactions, configs, cluster, security, malformed]


def run(recorder):
    for module in MODULES:
        module.ask(recorder)
    recorder.close()
