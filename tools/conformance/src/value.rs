//! Tensors as plain data, and what has to be known of the dtypes.

pub(crate) const STRING: i32 = 7;
pub(crate) const RESOURCE: i32 = 20;
pub(crate) const VARIANT: i32 = 21;

/// A tensor on the player's side of the C functions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    /// `TF_DataType` number.
    pub(crate) dtype: i32,
    pub(crate) dims: Vec<i64>,
    pub(crate) data: Data,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    /// Little-endian elements in row-major order. Empty for resources and variants, which are
    /// opaque.
    Bytes(Vec<u8>),
    Strings(Vec<Vec<u8>>),
}

/// Number, name and element size in bytes (0: not plain bytes) of the dtypes a tensor may have.
const DTYPES: [(i32, &str, usize); 30] = [
    (1, "float", 4),
    (2, "double", 8),
    (3, "int32", 4),
    (4, "uint8", 1),
    (5, "int16", 2),
    (6, "int8", 1),
    (STRING, "string", 0),
    (8, "complex64", 8),
    (9, "int64", 8),
    (10, "bool", 1),
    (11, "qint8", 1),
    (12, "quint8", 1),
    (13, "qint32", 4),
    (14, "bfloat16", 2),
    (15, "qint16", 2),
    (16, "quint16", 2),
    (17, "uint16", 2),
    (18, "complex128", 16),
    (19, "half", 2),
    (RESOURCE, "resource", 0),
    (VARIANT, "variant", 0),
    (22, "uint32", 4),
    (23, "uint64", 8),
    (24, "float8_e5m2", 1),
    (25, "float8_e4m3fn", 1),
    (26, "float8_e4m3fnuz", 1),
    (27, "float8_e4m3b11fnuz", 1),
    (28, "float8_e5m2fnuz", 1),
    (29, "int4", 1),
    (30, "uint4", 1),
];

/// Bytes of one element, for dtypes that are plain bytes in memory.
pub(crate) fn item_size(dtype: i32) -> Option<usize> {
    let &(_, _, size) = DTYPES.iter().find(|d| d.0 == dtype)?;
    (size > 0).then_some(size)
}

pub(crate) fn dtype_name(dtype: i32) -> String {
    match DTYPES.iter().find(|d| d.0 == dtype) {
        Some((_, name, _)) => (*name).to_owned(),
        None => format!("dtype {dtype}"),
    }
}

/// How the elements of a floating-point dtype are read.
#[derive(Clone, Copy)]
pub(crate) struct FloatFormat {
    /// Bytes of one real number.
    width: usize,
    read: fn(&[u8]) -> f64,
    pub(crate) complex: bool,
}

impl FloatFormat {
    pub(crate) fn of(dtype: i32) -> Option<Self> {
        let (width, read, complex): (_, fn(&[u8]) -> f64, _) = match dtype {
            1 => (4, read_f32, false),
            2 => (8, read_f64, false),
            8 => (4, read_f32, true),
            14 => (2, |b| half::bf16::from_le_bytes(first(b)).to_f64(), false),
            18 => (8, read_f64, true),
            19 => (2, |b| half::f16::from_le_bytes(first(b)).to_f64(), false),
            _ => return None,
        };
        Some(Self { width, read, complex })
    }

    /// Real numbers per element.
    pub(crate) fn parts(self) -> usize {
        1 + usize::from(self.complex)
    }

    /// All real numbers of a buffer; complex elements give two.
    pub(crate) fn decode(self, bytes: &[u8]) -> Vec<f64> {
        bytes.chunks_exact(self.width).map(self.read).collect()
    }
}

fn read_f32(bytes: &[u8]) -> f64 {
    f32::from_le_bytes(first(bytes)).into()
}

fn read_f64(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(first(bytes))
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().expect("chunks have the width of the format")
}

/// Replaces every occurrence of `from` in `text`.
pub(crate) fn replace_bytes(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if !from.is_empty() && text[at..].starts_with(from) {
            out.extend_from_slice(to);
            at += from.len();
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    out
}

impl Value {
    /// The same tensor with a piece of text replaced in its strings.
    pub(crate) fn replace_in_strings(mut self, from: &[u8], to: &[u8]) -> Self {
        if let Data::Strings(strings) = &mut self.data {
            for text in strings {
                *text = replace_bytes(text, from, to);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtypes_are_numbered_from_one() {
        for (k, (number, ..)) in DTYPES.iter().enumerate() {
            assert_eq!(*number, k as i32 + 1);
        }
        assert_eq!((item_size(18), item_size(STRING), item_size(31)), (Some(16), None, None));
        assert_eq!(dtype_name(99), "dtype 99");
    }

    #[test]
    fn floats_are_read_without_loss() {
        let read = |dtype, bytes: &[u8]| FloatFormat::of(dtype).unwrap().decode(bytes);
        assert_eq!(read(14, &[0x80, 0x3f, 0, 0xc0]), [1.0, -2.0]);
        assert_eq!(read(19, &[0, 0x3c, 0xff, 0x7b]), [1.0, 65504.0]);
        assert!(read(1, &(-0.0_f32).to_le_bytes())[0].is_sign_negative());
        assert_eq!(read(8, &[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]), [1.0, 2.0]);
        assert!(FloatFormat::of(3).is_none());
    }

    #[test]
    fn text_is_replaced_everywhere() {
        assert_eq!(replace_bytes(b"@T@/a:@T@", b"@T@", b"/x"), b"/x/a:/x");
        assert_eq!(replace_bytes(b"@T", b"@T@", b"/x"), b"@T");
        assert_eq!(replace_bytes(b"ab", b"", b"/x"), b"ab");
    }
}
