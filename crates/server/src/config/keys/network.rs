//! Settings of sockets, connections and request memory.

use super::{Key, Scope};

const SHARDS: &str = "threads are shards, see num.shards";

pub(super) const KEYS: &[Key] = &[
    Key::list("listeners", "PLAINTEXT://127.0.0.1:9092")
        .not_empty()
        .doc(
            "Where to listen, as NAME://host:port. An empty host is all addresses; port 0 \
             picks a free one.",
        ),
    Key::list("advertised.listeners", "")
        .unset()
        .not_empty()
        .doc(
            "Addresses that clients connect to, per listener name. Unset: listeners, \
             with an empty host replaced by the host name.",
        ),
    Key::string(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    )
    .doc(
        "Security protocol per listener name: PLAINTEXT, SSL (TLS), and SASL_PLAINTEXT or SASL_SSL \
             where clients have to log in.",
    ),
    Key::string("inter.broker.listener.name", "")
        .unset()
        .not_empty()
        .doc("Listener between brokers; it is the one shown first."),
    Key::string("security.inter.broker.protocol", "PLAINTEXT")
        .one_of(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
        .without_effect("one node sends no requests")
        .doc("Protocol between brokers."),
    Key::int("socket.send.buffer.bytes", "-1")
        .min(-1)
        .doc("Send buffer of a socket; -1 leaves it to the system."),
    Key::int("socket.receive.buffer.bytes", "-1")
        .min(-1)
        .doc("Receive buffer of a socket; -1 leaves it to the system."),
    Key::int("socket.request.max.bytes", "104857600")
        .min(1)
        .doc("Largest request. A longer one closes its connection before it is read."),
    Key::int("socket.listen.backlog.size", "50")
        .min(1)
        .doc("Connections that may wait to be accepted."),
    Key::int("socket.stall.timeout.ms", "30000")
        .min(1)
        .ours()
        .doc(
            "A request that has begun, and a response that is being sent, must make \
             progress within this time: a twentieth of its length, so that it is over after \
             twenty times as long.",
        ),
    Key::long("connections.max.idle.ms", "600000").min(-1).doc(
        "A connection with nothing to do, or with a fetch that waits, is closed after this \
             time; -1 never.",
    ),
    Key::int("max.connections", "2147483647")
        .min(0)
        .dynamic()
        .scope(Scope::Listener)
        .doc(
            "Connections in all. One more is closed as soon as it is accepted, and so is one \
             for which there is no descriptor that the logs do not need (one each, and 64; at \
             most half of the limit of open files). \
             `listener.name.<listener>.max.connections` is such a bound of one listener, beside this one. Four seats for 127.0.0.1 and ::1 are outside \
             of this and of all other bounds on connections.",
        ),
    Key::int("max.connections.per.ip", "2147483647")
        .min(0)
        .dynamic()
        .doc("Connections from one address. One more is closed as soon as it is accepted."),
    Key::string("max.connections.per.ip.overrides", "")
        .dynamic()
        .doc("Other limits for certain addresses, as address:count,address:count."),
    Key::int("max.connection.creation.rate", "2147483647")
        .min(0)
        .dynamic()
        .scope(Scope::Listener)
        .doc(
            "Connections accepted in a second, of all listeners together, measured over the \
             samples of quota.window.num. One that comes too soon waits before it is served, and \
             those of its listener behind it: at most quota.window.size.seconds each. \
             `listener.name.<listener>.max.connection.creation.rate` is the same for one listener.",
        ),
    Key::long("queued.max.request.bytes", "-1").min(-1).doc(
        "Memory of all requests being read or handled, taken as their bytes arrive. An \
             eighth is for requests of up to 64 KiB alone, and no address gets more than half; \
             one request at a time may be read to its end beyond it. -1: a quarter of the memory \
             of the machine (or of the container). At least socket.request.max.bytes.",
    ),
    Key::long("queued.max.response.bytes", "-1")
        .min(-1)
        .ours()
        .doc(
            "Memory of all answers that clients have not taken yet, from 64 KiB of each on. The \
             more of it is used, the less a fetch reads at once. -1: an eighth of the memory of \
             the machine (or of the container).",
        ),
    Key::int("queued.max.requests", "500")
        .min(1)
        .without_effect("requests wait in their sockets, not in a queue")
        .doc("Requests waiting for a thread."),
    Key::int("num.network.threads", "3")
        .min(1)
        .dynamic()
        .without_effect(SHARDS)
        .doc("Threads that read and write sockets."),
    Key::int("num.io.threads", "8")
        .min(1)
        .dynamic()
        .without_effect(SHARDS)
        .doc("Threads that handle requests."),
    Key::int("background.threads", "10")
        .min(1)
        .dynamic()
        .without_effect(SHARDS)
        .doc("Threads for background work."),
    Key::int("fetch.max.bytes", "57671680")
        .min(1024)
        .doc("Largest answer to a fetch, whatever the client asks for."),
    Key::int("max.incremental.fetch.session.cache.slots", "1000")
        .min(0)
        .doc(
            "Incremental fetch sessions kept; a client without one sends its whole list \
             each time.",
        ),
    Key::int("max.request.partition.size.limit", "2000")
        .min(1)
        .doc("Partitions that one DescribeTopicPartitions answer holds."),
    Key::int("request.timeout.ms", "30000")
        .without_effect("one node sends no requests")
        .doc("How long a request to another node may take."),
];
