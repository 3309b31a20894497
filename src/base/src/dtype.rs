//! `DType`: the element types of tensors, with TensorFlow's numbers and names.

use std::fmt;

/// The element type of a tensor, by its number in `TF_DataType`.
///
/// A value above 100 is the *reference* form of the type whose number is 100 less: what a
/// `Variable` hands out. Reference forms occur in graphs, never in tensors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DType(u8);

const REF_OFFSET: u8 = 100;

macro_rules! dtypes {
    ($($name:ident $number:literal $size:literal $lower:literal)*) => {
        impl DType {
            $(pub const $name: DType = DType($number);)*

            /// Every type, reference forms left out, by rising number.
            pub const ALL: &'static [DType] = &[$(DType::$name),*];

            /// Bytes an element by number, reference forms included, so that what every op asks for is one load; 0 where
            /// there is no type.
            const SIZES: [u8; 256] = {
                let mut sizes = [0; 256];
                $(
                    sizes[$number] = $size;
                    sizes[$number + REF_OFFSET as usize] = $size;
                )*
                sizes
            };

            fn describe(base: u8) -> Option<(&'static str, &'static str)> {
                match base {
                    $($number => Some((stringify!($name), $lower)),)*
                    _ => None,
                }
            }
        }
    };
}

dtypes! {
    FLOAT 1 4 "float"
    DOUBLE 2 8 "double"
    INT32 3 4 "int32"
    UINT8 4 1 "uint8"
    INT16 5 2 "int16"
    INT8 6 1 "int8"
    STRING 7 24 "string"
    COMPLEX64 8 8 "complex64"
    INT64 9 8 "int64"
    BOOL 10 1 "bool"
    QINT8 11 1 "qint8"
    QUINT8 12 1 "quint8"
    QINT32 13 4 "qint32"
    BFLOAT16 14 2 "bfloat16"
    QINT16 15 2 "qint16"
    QUINT16 16 2 "quint16"
    UINT16 17 2 "uint16"
    COMPLEX128 18 16 "complex128"
    HALF 19 2 "half"
    RESOURCE 20 8 "resource"
    VARIANT 21 16 "variant"
    UINT32 22 4 "uint32"
    UINT64 23 8 "uint64"
    FLOAT8_E5M2 24 1 "float8_e5m2"
    FLOAT8_E4M3FN 25 1 "float8_e4m3fn"
    FLOAT8_E4M3FNUZ 26 1 "float8_e4m3fnuz"
    FLOAT8_E4M3B11FNUZ 27 1 "float8_e4m3b11fnuz"
    FLOAT8_E5M2FNUZ 28 1 "float8_e5m2fnuz"
    INT4 29 1 "int4"
    UINT4 30 1 "uint4"
    INT2 31 1 "int2"
    UINT2 32 1 "uint2"
    FLOAT4_E2M1FN 33 1 "float4_e2m1fn"
}

impl DType {
    /// The type with this number, reference forms included.
    pub fn from_i32(value: i32) -> Option<DType> {
        let value = u8::try_from(value).ok()?;
        DType::describe(value % REF_OFFSET)?;
        (value < 2 * REF_OFFSET).then_some(DType(value))
    }

    #[inline]
    pub const fn to_i32(self) -> i32 {
        self.0 as i32
    }

    #[inline]
    pub const fn is_ref(self) -> bool {
        self.0 > REF_OFFSET
    }

    /// The reference form of this type.
    #[inline]
    #[must_use]
    pub const fn make_ref(self) -> DType {
        DType(self.0 % REF_OFFSET + REF_OFFSET)
    }

    /// The type without the reference mark.
    #[inline]
    #[must_use]
    pub const fn base(self) -> DType {
        DType(if self.0 >= REF_OFFSET { self.0 - REF_OFFSET } else { self.0 })
    }

    /// Bytes that one element takes in memory here. What `TF_DataTypeSize` reports is
    /// [`DType::c_size`].
    #[inline]
    pub fn size(self) -> usize {
        usize::from(DType::SIZES[usize::from(self.0)])
    }

    /// Bytes an element as the C API counts them: 0 for types that are not plain bytes.
    pub fn c_size(self) -> usize {
        if self.is_plain() { self.size() } else { 0 }
    }

    /// Whether elements may be copied byte by byte.
    #[inline]
    pub fn is_plain(self) -> bool {
        !matches!(self.base(), DType::STRING | DType::RESOURCE | DType::VARIANT)
    }

    pub fn is_complex(self) -> bool {
        matches!(self.base(), DType::COMPLEX64 | DType::COMPLEX128)
    }

    pub fn is_float(self) -> bool {
        matches!(self.base(), DType::FLOAT | DType::DOUBLE | DType::HALF | DType::BFLOAT16)
    }

    /// Signed and unsigned integers of 8 to 64 bits.
    pub fn is_integer(self) -> bool {
        matches!(
            self.base(),
            DType::INT8
                | DType::INT16
                | DType::INT32
                | DType::INT64
                | DType::UINT8
                | DType::UINT16
                | DType::UINT32
                | DType::UINT64
        )
    }

    pub fn is_quantized(self) -> bool {
        matches!(
            self.base(),
            DType::QINT8 | DType::QUINT8 | DType::QINT16 | DType::QUINT16 | DType::QINT32
        )
    }

    /// The lower-case name, as in op definitions and messages: `float`, `int32`, `float_ref`.
    pub fn name(self) -> String {
        let (_, lower) = DType::describe(self.base().0).unwrap_or(("", "unknown"));
        if self.is_ref() { format!("{lower}_ref") } else { lower.to_string() }
    }

    /// The name of the protobuf enum value: `DT_FLOAT`, `DT_FLOAT_REF`.
    pub fn enum_name(self) -> String {
        let (upper, _) = DType::describe(self.base().0).unwrap_or(("INVALID", ""));
        let suffix = if self.is_ref() { "_REF" } else { "" };
        format!("DT_{upper}{suffix}")
    }

    /// The inverse of [`DType::name`] and [`DType::enum_name`]; also accepts `float32`, `float64`.
    pub fn from_name(name: &str) -> Option<DType> {
        let name = match name {
            "float32" => "float",
            "float64" => "double",
            other => other,
        };
        let (stem, is_ref) = match name.strip_suffix("_ref").or(name.strip_suffix("_REF")) {
            Some(stem) => (stem, true),
            None => (name, false),
        };
        let base = *DType::ALL.iter().find(|dtype| {
            DType::describe(dtype.0).is_some_and(|(upper, lower)| {
                lower == stem || stem.strip_prefix("DT_") == Some(upper)
            })
        })?;
        Some(if is_ref { base.make_ref() } else { base })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.enum_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_round_trip() {
        for &dtype in DType::ALL {
            for form in [dtype, dtype.make_ref()] {
                assert_eq!(DType::from_i32(form.to_i32()), Some(form));
                assert_eq!(DType::from_name(&form.name()), Some(form));
                assert_eq!(DType::from_name(&form.enum_name()), Some(form));
            }
        }
        assert_eq!(DType::from_i32(0), None);
        assert_eq!(DType::from_i32(100), None);
        assert_eq!(DType::from_i32(34), None);
        assert_eq!(DType::from_i32(201), None);
        assert_eq!(DType::from_i32(-1), None);
    }

    #[test]
    fn sizes_follow_the_c_header() {
        let cases = [
            (DType::FLOAT, 4),
            (DType::COMPLEX128, 16),
            (DType::STRING, 0),
            (DType::RESOURCE, 0),
            (DType::VARIANT, 0),
            (DType::INT4, 1),
            (DType::HALF, 2),
        ];
        for (dtype, size) in cases {
            assert_eq!(dtype.c_size(), size, "{dtype}");
        }
    }
}
