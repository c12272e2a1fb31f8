//! Settings of journals: whether there are any, where, and what goes through them.

use super::Key;

pub(super) const KEYS: &[Key] = &[
    Key::long("journal.bytes", "0").range(0, 64 << 30).ours().doc(
        "Size of the journal of each shard and log directory: a ring file that takes small synced \
         appends of all logs with one write, before their segments get them. 0 (the default: \
         many partitions with small writes gain, others do not): no journal. \
         Otherwise at least 1048576. Not with storage.tiers. A directory with a journal that was not left \
         by a clean stop is refused by Kafka and by older versions: `forebay recover` makes it \
         theirs.",
    ),
    Key::list("journal.dir", "").unset().not_empty().ours().doc(
        "Directories of the journals: one for all log directories, or one for each, in their order, \
         separated by commas; on a small fast device, for example. Unset: each log directory has its own \
         journals in it.",
    ),
    Key::long("journal.unlanded.bytes.max", "67108864").min(1_048_576).ours().doc(
        "Bytes, of each shard and log directory, that may be in the journal and not yet in the \
         segments. They are in memory, too, so at most half of the memory that a shard has for \
         unwritten bytes is used. At the half of it logs land at once, and at all of it appends wait.",
    ),
    Key::int("journal.bypass.bytes", "131072").range(4096, 4_194_304).ours().doc(
        "Appends to a log that come together to this many bytes are written to its segment at \
         once, past the journal.",
    ),
];
