"""For every request in every version: what it is when nothing is said, and bytes that are no such request."""

from clients.differential import codec, exchange, schema

# Nothing said of these makes something, or takes its time.
NOT_PLAIN = {"Fetch", "CreateDelegationToken"}

# Who asks for no acknowledgement gets no answer; Kafka has none for a list of no transactions.
UNANSWERED = {*(("Produce", version) for version in range(20)), ("AddPartitionsToTxn", 4), ("AddPartitionsToTxn", 5)}


def ask(r):
    names = schema.keys()
    for key in sorted(r.versions):
        api = names[key]
        request = schema.message(f"{api}Request")
        for version in r.range(api):
            if version not in request.versions:
                continue
            whole = codec.encode(request, version, {})
            if api not in NOT_PLAIN and (api, version) not in UNANSWERED:
                keep(r, api, "nothing said", version, whole)
            if whole:
                keep(r, api, "cut short", version, whole[:-1])
            keep(r, api, "nothing at all", version, b"")
            keep(r, api, "lengths that lie", version, b"\x7f\xff\xff\xff" * 8)
        # A version that nobody has.
        closed(r, api, key, 999)
        closed(r, api, key, -1)
    closed(r, "no request", 1234, 0)
    closed(r, "no request", -3, 0)


def keep(r, api, what, version, body):
    r.asking = api, what, version
    r.answers[api, what, version] = r.once(api, version, {}, body=body)


def closed(r, name, key, version):
    from peers.rawwire import header

    r.asking = name, "a version that is not there", version
    answer = r.raw(header(key, version, client="differential", flexible=True))
    r.answers[name, "a version that is not there", version if name != "no request" else key] = (
        exchange.CLOSED if answer is None else {"bytes": answer[4:] if key != 18 else answer[4:6]})
