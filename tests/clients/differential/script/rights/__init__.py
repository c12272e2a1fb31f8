"""Rights: what clients with different ACLs are answered, by every request.

    acls.py          ACLs made, listed and removed, and what can be wrong with them
    given.py         who may do what
    things.py        the topics, groups and transactions that there are
    topics.py, records.py, groups.py, members.py, transactions.py, settings.py, cluster.py
                     what is asked, by everybody in the same words
    changes.py       rights that come and go while a client is at work
"""

from clients.differential.exchange import User
from clients.differential.script.rights import (
    acls, changes, cluster, given, groups, members, records, settings, things, topics, transactions,
)

MODULES = [topics, records, groups, members, transactions, settings, cluster]


def run(r, port):
    """Asks as everybody; `port` is where one logs in, `r` may do everything."""
    acls.ask(r)
    things.make(r)
    given.give(r, "what some may do", given.SOME)
    for name in given.LIMITED:
        everything(r, name, port)
    for name in given.WRITERS:
        transactions.idempotent(as_user(r, name, port))
    changes.ask(r, port)
    given.give(r, "what all may do", given.ALL_BUT_ONE)
    everything(r, given.UNLIMITED, port)
    r.close()


def as_user(r, name, port):
    return User(r, name, port)


def everything(r, name, port):
    user = as_user(r, name, port)
    for module in MODULES:
        module.ask(user)
    user.close()
