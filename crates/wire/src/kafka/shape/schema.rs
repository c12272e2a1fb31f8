//! The language of shapes: a field has a name, a kind, and the versions that have it.
//!
//! Public only for tests that build requests of any shape. Not here: the shapes
//! (`kafka/shape/table.rs`).

/// The kind of a field's value.
#[derive(Clone, Copy, Debug)]
pub enum FieldKind {
    /// A value of this many bytes.
    Fixed(usize),
    /// A string, possibly null.
    Text,
    /// Bytes, possibly null.
    Blob,
    /// An array of simple values, possibly null.
    Each(&'static FieldKind),
    /// An array of structures, possibly null.
    List(&'static [Field]),
    /// A byte that is 1 when a structure follows.
    Optional(&'static [Field]),
    /// A structure.
    Struct(&'static [Field]),
    /// A value among the tagged fields, under this tag.
    Tagged(u32, &'static FieldKind),
}

pub(super) const BOOL: FieldKind = FieldKind::Fixed(1);
pub(super) const I8: FieldKind = FieldKind::Fixed(1);
pub(super) const I16: FieldKind = FieldKind::Fixed(2);
pub(super) const I32: FieldKind = FieldKind::Fixed(4);
pub(super) const I64: FieldKind = FieldKind::Fixed(8);
pub(super) const F64: FieldKind = FieldKind::Fixed(8);
pub(super) const ID: FieldKind = FieldKind::Fixed(16);
pub(super) const TEXT: FieldKind = FieldKind::Text;
pub(super) const BLOB: FieldKind = FieldKind::Blob;

/// One field of a structure.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name as in Kafka's message formats, with underscores.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: FieldKind,
    since: i16,
    until: i16,
}

/// Returns a field of every version.
pub(super) const fn field(name: &'static str, kind: FieldKind) -> Field {
    Field {
        name,
        kind,
        since: 0,
        until: i16::MAX,
    }
}

/// Returns an array of simple values.
pub(super) const fn each(name: &'static str, kind: &'static FieldKind) -> Field {
    field(name, FieldKind::Each(kind))
}

/// Returns an array of structures.
pub(super) const fn list(name: &'static str, fields: &'static [Field]) -> Field {
    field(name, FieldKind::List(fields))
}

/// Returns an optional structure.
pub(super) const fn optional(name: &'static str, fields: &'static [Field]) -> Field {
    field(name, FieldKind::Optional(fields))
}

/// Returns a tagged field.
pub(super) const fn tagged(tag: u32, name: &'static str, kind: &'static FieldKind) -> Field {
    field(name, FieldKind::Tagged(tag, kind))
}

impl Field {
    /// Sets the first version that has the field.
    pub(super) const fn since(mut self, version: i16) -> Self {
        self.since = version;
        self
    }

    /// Sets the last version that has the field.
    pub(super) const fn until(mut self, version: i16) -> Self {
        self.until = version;
        self
    }

    /// Returns true when this version has the field.
    pub const fn is_in(&self, version: i16) -> bool {
        self.since <= version && version <= self.until
    }
}

/// Returns an upper bound of the size of a decoded structure, without the contents of its arrays.
///
/// Alignment rounds every number up to eight bytes, and every structure has a map for unknown
/// tagged fields.
pub(super) fn struct_bytes(fields: &[Field]) -> usize {
    const MAP_BYTES: usize = 24;
    MAP_BYTES
        + fields
            .iter()
            .map(|field| value_bytes(field.kind))
            .sum::<usize>() // Bounded: fields of one structure.
}

fn value_bytes(kind: FieldKind) -> usize {
    match kind {
        FieldKind::Fixed(bytes) => bytes.max(8),
        FieldKind::Text | FieldKind::Blob => 32,
        FieldKind::Each(_) | FieldKind::List(_) => 24,
        FieldKind::Optional(fields) => 8 + struct_bytes(fields),
        FieldKind::Struct(fields) => struct_bytes(fields),
        FieldKind::Tagged(_, kind) => value_bytes(*kind),
    }
}

/// Returns the size of one element of an array of simple values.
pub(super) fn element_bytes(kind: FieldKind) -> usize {
    match kind {
        FieldKind::Fixed(bytes) => bytes,
        other => value_bytes(other),
    }
}
