//! Features, read straight from the bytes of `Example` and `SequenceExample` messages.

use std::collections::HashMap;

use tfcore_base::{DType, Result, internal, resource_exhausted};
use tfcore_proto::wire::{Fields, Malformed, Value};
use tfcore_tensor::{Shape, TString, Tensor};

/// A `Feature`: the type of its values and the message of their list. Of several lists, the first one counts.
#[derive(Clone, Copy)]
pub(crate) struct Feature<'a> {
    pub(crate) dtype: DType,
    list: &'a [u8],
}

impl<'a> Feature<'a> {
    /// `None` for a feature without a list.
    pub(crate) fn read(message: &'a [u8]) -> std::result::Result<Option<Feature<'a>>, Malformed> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            let dtype = match number {
                1 => DType::STRING,
                2 => DType::FLOAT,
                3 => DType::INT64,
                _ => continue,
            };
            return Ok(Some(Feature { dtype, list: value.bytes()? }));
        }
        Ok(None)
    }
}

/// Calls `each` with the key and the value of each entry of a map, which is field 1 of a message. They are in the order in which
/// they stand there: of entries with one key, the last one counts.
pub(crate) fn entries<'a>(
    message: &'a [u8],
    each: &mut dyn FnMut(&'a [u8], &'a [u8]) -> std::result::Result<(), Malformed>,
) -> std::result::Result<(), Malformed> {
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        if number != 1 {
            continue;
        }
        let (mut key, mut content) = (&[][..], &[][..]);
        let mut entry = Fields::new(value.bytes()?);
        while let Some((number, value)) = entry.next()? {
            match number {
                1 => key = value.bytes()?,
                2 => content = value.bytes()?,
                _ => {}
            }
        }
        each(key, content)?;
    }
    Ok(())
}

/// Where the values of keys are put: a key may be asked for more than once.
#[derive(Default)]
pub(crate) struct Slots<'k> {
    by_key: HashMap<&'k [u8], Vec<usize>>,
    count: usize,
}

impl<'k> Slots<'k> {
    pub(crate) fn new(keys: impl IntoIterator<Item = &'k [u8]>) -> Slots<'k> {
        let mut slots = Slots::default();
        for key in keys {
            slots.by_key.entry(key).or_default().push(slots.count);
            slots.count += 1;
        }
        slots
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Puts the values of a map's entries where their keys are asked for.
    pub(crate) fn fill<'a>(
        &self,
        message: &'a [u8],
        found: &mut [Option<&'a [u8]>],
    ) -> std::result::Result<(), Malformed> {
        entries(message, &mut |key, value| {
            // A value that nobody asks for has to be a message, too.
            for &slot in self.by_key.get(key).into_iter().flatten() {
                found[slot] = Some(value);
            }
            Ok(())
        })
    }
}

/// Values of one type, one after the other.
pub(crate) enum Column {
    Text(Vec<TString>),
    Float(Vec<f32>),
    Int(Vec<i64>),
}

impl Column {
    /// # Errors
    /// `Internal` for a type that no feature has.
    pub(crate) fn new(dtype: DType) -> Result<Column> {
        Ok(match dtype {
            DType::STRING => Column::Text(Vec::new()),
            DType::FLOAT => Column::Float(Vec::new()),
            DType::INT64 => Column::Int(Vec::new()),
            dtype => return Err(internal!("No feature has type {dtype}")),
        })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Column::Text(all) => all.len(),
            Column::Float(all) => all.len(),
            Column::Int(all) => all.len(),
        }
    }

    /// Appends the values of a feature of the column's type, and returns how many they are.
    pub(crate) fn append(&mut self, feature: Feature<'_>) -> std::result::Result<usize, Malformed> {
        let before = self.len();
        let mut fields = Fields::new(feature.list);
        while let Some((number, value)) = fields.next()? {
            if number == 1 {
                self.append_value(value)?;
            }
        }
        Ok(self.len() - before)
    }

    /// A value by itself or several packed ones.
    fn append_value(&mut self, value: Value<'_>) -> std::result::Result<(), Malformed> {
        match (self, value) {
            (Column::Text(all), Value::Bytes(bytes)) => all.push(bytes.into()),
            (Column::Float(all), Value::Bytes(bytes)) => {
                let (values, []) = bytes.as_chunks::<4>() else {
                    return Err(Malformed);
                };
                all.extend(values.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            }
            (Column::Float(all), value) => all.push(value.float()?),
            (Column::Int(all), Value::Bytes(bytes)) => varints(bytes, all)?,
            (Column::Int(all), value) => all.push(value.varint()? as i64),
            (Column::Text(_), _) => return Err(Malformed),
        }
        Ok(())
    }

    /// Appends the elements of a tensor of the column's type, `times` times.
    ///
    /// # Errors
    /// `Internal` for another type.
    pub(crate) fn extend(&mut self, values: &Tensor, times: usize) -> Result<()> {
        for _ in 0..times {
            match self {
                Column::Text(all) => all.extend_from_slice(values.as_slice()?),
                Column::Float(all) => all.extend_from_slice(values.as_slice()?),
                Column::Int(all) => all.extend_from_slice(values.as_slice()?),
            }
        }
        Ok(())
    }

    /// The values as a tensor.
    ///
    /// # Errors
    /// `Internal` if their number is not the shape's.
    pub(crate) fn into_tensor(self, shape: Shape) -> Result<Tensor> {
        match self {
            Column::Text(all) => Tensor::from_slice(shape, &all),
            Column::Float(all) => Tensor::from_slice(shape, &all),
            Column::Int(all) => Tensor::from_slice(shape, &all),
        }
    }

    /// The values as a vector.
    ///
    /// # Errors
    /// `ResourceExhausted` if there is no memory.
    pub(crate) fn into_vector(self) -> Result<Tensor> {
        let shape = Shape::vector(self.len());
        self.into_tensor(shape)
    }

    /// The values in rows of `width`, row `i` of which has the next `counts[i]` values and then padding.
    ///
    /// # Errors
    /// `ResourceExhausted` if there would be too many.
    pub(crate) fn padded(
        &self,
        counts: &[usize],
        width: usize,
        padding: &Tensor,
    ) -> Result<Column> {
        let total =
            counts.len().checked_mul(width).filter(|&total| total <= isize::MAX as usize / 32);
        let Some(total) = total else {
            return Err(resource_exhausted!(
                "{} rows of {width} values are too many",
                counts.len()
            ));
        };
        Ok(match self {
            Column::Text(all) => {
                Column::Text(padded(all, counts, width, total, padding.as_slice()?))
            }
            Column::Float(all) => {
                Column::Float(padded(all, counts, width, total, padding.as_slice()?))
            }
            Column::Int(all) => Column::Int(padded(all, counts, width, total, padding.as_slice()?)),
        })
    }
}

fn padded<T: Clone + Default>(
    values: &[T],
    counts: &[usize],
    width: usize,
    total: usize,
    padding: &[T],
) -> Vec<T> {
    let padding = padding.first().cloned().unwrap_or_default();
    let mut out = Vec::with_capacity(total);
    let mut at = 0;
    for (row, &count) in counts.iter().enumerate() {
        out.extend_from_slice(&values[at..at + count]);
        out.resize((row + 1) * width, padding.clone());
        at += count;
    }
    out
}

fn varints(mut bytes: &[u8], all: &mut Vec<i64>) -> std::result::Result<(), Malformed> {
    while let Some((&first, rest)) = bytes.split_first() {
        if first < 0x80 {
            all.push(first.into());
            bytes = rest;
            continue;
        }
        let mut value = 0u64;
        let mut len = 0;
        loop {
            let byte = *bytes.get(len).ok_or(Malformed)?;
            // Of the tenth byte, one bit fits.
            if len == 9 && byte > 1 || len > 9 {
                return Err(Malformed);
            }
            value |= u64::from(byte & 0x7f) << (7 * len);
            len += 1;
            if byte < 0x80 {
                break;
            }
        }
        all.push(value as i64);
        bytes = &bytes[len..];
    }
    Ok(())
}
