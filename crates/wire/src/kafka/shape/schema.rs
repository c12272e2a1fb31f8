//! The words in which shapes are written: a field has a name, a kind, and the versions that have
//! it. Open to tests that make requests of any shape; nobody else outside looks at it.

/// What lies at a field.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// So many bytes.
    Fixed(usize),
    /// A string, possibly null.
    Text,
    /// Bytes, possibly null.
    Blob,
    /// An array of something simple, possibly null.
    Each(&'static Kind),
    /// An array of structures, possibly null.
    List(&'static [Field]),
    /// A byte that is 1 when a structure follows.
    Optional(&'static [Field]),
}

pub(super) const BOOL: Kind = Kind::Fixed(1);
pub(super) const I8: Kind = Kind::Fixed(1);
pub(super) const I16: Kind = Kind::Fixed(2);
pub(super) const I32: Kind = Kind::Fixed(4);
pub(super) const I64: Kind = Kind::Fixed(8);
pub(super) const F64: Kind = Kind::Fixed(8);
pub(super) const ID: Kind = Kind::Fixed(16);
pub(super) const TEXT: Kind = Kind::Text;
pub(super) const BLOB: Kind = Kind::Blob;

/// One field of a structure.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// As Kafka's message formats have it, with underscores.
    pub name: &'static str,
    /// What lies there.
    pub kind: Kind,
    since: i16,
    until: i16,
}

/// A field of every version.
pub(super) const fn field(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        since: 0,
        until: i16::MAX,
    }
}

/// An array of something simple.
pub(super) const fn each(name: &'static str, kind: &'static Kind) -> Field {
    field(name, Kind::Each(kind))
}

/// An array of structures.
pub(super) const fn list(name: &'static str, fields: &'static [Field]) -> Field {
    field(name, Kind::List(fields))
}

/// A structure that may be missing.
pub(super) const fn optional(name: &'static str, fields: &'static [Field]) -> Field {
    field(name, Kind::Optional(fields))
}

impl Field {
    /// The first version that has it.
    pub(super) const fn since(mut self, version: i16) -> Self {
        self.since = version;
        self
    }

    /// The last version that has it.
    pub(super) const fn until(mut self, version: i16) -> Self {
        self.until = version;
        self
    }

    /// True when this version has it.
    pub const fn is_in(&self, version: i16) -> bool {
        self.since <= version && version <= self.until
    }
}

/// Bytes that a decoded structure takes, without what its arrays hold. An upper bound: alignment
/// rounds every number up to eight, and every structure has a map for unknown tagged fields.
pub(super) fn struct_bytes(fields: &[Field]) -> usize {
    const MAP_BYTES: usize = 24;
    MAP_BYTES
        + fields
            .iter()
            .map(|field| value_bytes(field.kind))
            .sum::<usize>() // Bounded: fields of one structure.
}

fn value_bytes(kind: Kind) -> usize {
    match kind {
        Kind::Fixed(bytes) => bytes.max(8),
        Kind::Text | Kind::Blob => 32,
        Kind::Each(_) | Kind::List(_) => 24,
        Kind::Optional(fields) => 8 + struct_bytes(fields),
    }
}

/// Bytes that one element of an array of simple things takes.
pub(super) fn element_bytes(kind: Kind) -> usize {
    match kind {
        Kind::Fixed(bytes) => bytes,
        other => value_bytes(other),
    }
}
