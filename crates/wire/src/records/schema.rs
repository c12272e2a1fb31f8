//! The `schema!` language: one table per record generates the struct, its default, and both
//! directions of the codec.
//!
//! ```text
//! schema! {
//!     /// Doc of the struct.
//!     Name, versions 0..=4, flexible 4.. {
//!         /// Doc of the field.
//!         field: Type = default, in 0..=4;
//!         /// A tagged field: written only when it differs from its default. Tags ascend.
//!         other: Type = default, in 4..=4, tag 0;
//!     }
//! }
//! ```
//! A field outside its versions is not written and reads as its default. Not here: the codec of the
//! field types (`records/codec.rs`).

macro_rules! schema {
    ($(
        $(#[$meta:meta])*
        $name:ident, versions $low:literal ..= $high:literal, flexible $flexible:literal .. {
            $(
                $(#[$field_meta:meta])*
                $field:ident : $type:ty = $default:expr,
                    in $from:literal ..= $to:literal $(, tag $tag:literal)? ;
            )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        const _: () = {
            use $crate::records::schema::{ascend, within};
            assert!(within($high, $low, i16::MAX), "a record has a version");
            $(assert!(
                within($from, $low, $to) && within($to, $from, $high),
                "the versions of a field are versions of its record"
            );)*
            assert!(ascend(&[$($($tag,)?)*]), "tags ascend");
        };

        impl $name {
            /// The schema versions that the codec reads and writes.
            pub const VERSIONS: ::std::ops::RangeInclusive<i16> = $low..=$high;

            /// Returns the form of `version`.
            pub const fn form(version: i16) -> $crate::records::Form {
                $crate::records::Form { version, flexible: version >= $flexible }
            }
        }

        #[allow(
            unused_variables, unused_mut, clippy::float_cmp,
            reason = "a schema may have no fields, and a default is compared to the bit"
        )]
        impl $crate::records::Field for $name {
            fn write(&self, out: &mut Vec<u8>, form: $crate::records::Form) {
                let version = form.version;
                let mut tagged: Vec<(u32, Vec<u8>)> = Vec::new();
                $(
                    if $crate::records::schema::within(version, $from, $to) {
                        match $crate::records::schema::tag!($($tag)?) {
                            None => self.$field.write(out, form),
                            Some(tag) if self.$field != { let unset: $type = $default; unset } => {
                                let mut value = Vec::new();
                                self.$field.write(&mut value, form);
                                tagged.push((tag, value));
                            }
                            Some(_) => {}
                        }
                    }
                )*
                if form.flexible {
                    $crate::records::schema::write_tagged(out, &tagged);
                }
            }

            fn read(
                input: &mut $crate::records::Reader<'_>,
                form: $crate::records::Form,
            ) -> Result<Self, $crate::records::DecodeError> {
                let version = form.version;
                let mut value = Self::default();
                $(
                    if $crate::records::schema::within(version, $from, $to)
                        && $crate::records::schema::tag!($($tag)?).is_none()
                    {
                        value.$field = $crate::records::Field::read(input, form)?;
                    }
                )*
                if form.flexible {
                    input.tagged(|tag, bytes| {
                        $(
                            if $crate::records::schema::tag!($($tag)?) == Some(tag)
                                && $crate::records::schema::within(version, $from, $to)
                            {
                                value.$field = $crate::records::Field::read(bytes, form)?;
                                return bytes.finish();
                            }
                        )*
                        Ok(())
                    })?;
                }
                Ok(value)
            }
        }
    )*};
}
pub(super) use schema;

macro_rules! tag {
    () => {
        None::<u32>
    };
    ($tag:literal) => {
        Some::<u32>($tag)
    };
}
pub(super) use tag;

/// Returns true when a field with the versions `from..=to` exists in `version`.
pub(super) const fn within(version: i16, from: i16, to: i16) -> bool {
    version >= from && version <= to
}

/// Returns true when each number is larger than the one before it.
pub(super) const fn ascend(mut numbers: &[i16]) -> bool {
    while let [before, rest @ ..] = numbers {
        if let [after, ..] = rest
            && *before >= *after
        {
            return false;
        }
        numbers = rest;
    }
    true
}

/// Appends the section of tagged fields, in ascending order of tag.
pub(super) fn write_tagged(out: &mut Vec<u8>, fields: &[(u32, Vec<u8>)]) {
    let number = |length: usize| u32::try_from(length).expect("a field is shorter than a frame");
    super::write_unsigned_varint(out, number(fields.len()));
    for (tag, value) in fields {
        super::write_unsigned_varint(out, *tag);
        super::write_unsigned_varint(out, number(value.len()));
        out.extend_from_slice(value);
    }
}
