//! Crossed columns: each combination of the values that several columns have in a row.

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_math::hash::{concatenated, fingerprint64, sip_hash};
use tfcore_tensor::{Dim, PartialShape, Shape, TString, Tensor};

use crate::coo::{matrix, vector};
use crate::ragged::splits_tensor;

/// The most combinations that one op makes.
const MAX_COMBINATIONS: usize = 1 << 31;

pub(crate) fn register(r: &mut Registry) {
    // `SparseCross(indices: N*int64, values, shapes: N*int64, dense_inputs) -> output_indices, output_values: out_type, output_shape`,
    // as strings or as hashes.
    r.op("SparseCross").shape(cross_shape).cpu(|init| {
        let attrs = init.attrs;
        let hashed = attrs.bool("hashed_output")?;
        let hash = Hash::Chained {
            key: attrs.int("hash_key")? as u64,
            buckets: attrs.int("num_buckets")?,
        };
        let internal = attrs.dtype("internal_type")?;
        cross_kernel(init, 0, move |_, columns| {
            require!(
                internal != DType::STRING
                    || columns.iter().all(|c| c.values.dtype() == DType::STRING),
                "Input values should be of internal type string, but some are int64"
            );
            // With integers inside, strings stand for their fingerprints.
            let as_numbers = internal == DType::INT64;
            Ok(match hashed {
                true => Form::Hashes(hash),
                false => Form::Text { separator: b"_X_".to_vec(), as_numbers },
            })
        })
    });
    // `SparseCrossV2(indices, values, shapes, dense_inputs, sep: string) -> ...`, as strings.
    r.op("SparseCrossV2").shape(cross_shape).cpu(|init| {
        cross_kernel(init, 1, |ctx, _| {
            let separator = ctx.input(ctx.num_inputs() - 1)?.scalar_value::<TString>()?;
            Ok(Form::Text { separator: separator.as_bytes().to_vec(), as_numbers: false })
        })
    });
    // `SparseCrossHashed(indices, values, shapes, dense_inputs, num_buckets: int64, strong_hash: bool, salt: int64) -> ...`, as hashes.
    r.op("SparseCrossHashed").shape(cross_shape).cpu(|init| {
        cross_kernel(init, 3, |ctx, _| {
            let first = ctx.num_inputs() - 3;
            let buckets = ctx.input(first)?.scalar_value::<i64>()?;
            let strong = ctx.input(first + 1)?.scalar_value::<bool>()?;
            let [a, b] = *ctx.input_slice::<i64>(first + 2)? else {
                return Err(invalid!(
                    "Salt must have 2 elements, got {}",
                    ctx.input(first + 2)?.shape()
                ));
            };
            let key = strong.then_some([a as u64, b as u64]);
            Ok(Form::Hashes(Hash::Keyed { key, buckets }))
        })
    });
    // `RaggedCross(ragged_values, ragged_row_splits, sparse_indices, sparse_values, sparse_shape, dense_inputs) -> output_values,
    // output_row_splits`.
    r.op("RaggedCross")
        .shape(|ctx| {
            for output in 0..2 {
                ctx.set_output(output, PartialShape::vector(Dim::fresh()));
            }
            Ok(())
        })
        .cpu(ragged_kernel);
}

fn cross_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    ctx.set_output(0, PartialShape::matrix(Dim::fresh(), 2));
    ctx.set_output(1, PartialShape::vector(Dim::fresh()));
    ctx.set_output(2, PartialShape::vector(2));
    Ok(())
}

/// The values of a column.
struct Column<'a> {
    values: &'a Tensor,
    /// Where the values of each row are.
    rows: Vec<std::ops::Range<usize>>,
    is_dense: bool,
}

/// How combinations become numbers.
#[derive(Clone, Copy)]
enum Hash {
    /// Of the first version: integers stand for themselves, and a key comes first.
    Chained { key: u64, buckets: i64 },
    /// Of the second version, with a key for the strong hash.
    Keyed { key: Option<[u64; 2]>, buckets: i64 },
}

/// What combinations become.
enum Form {
    Text { separator: Vec<u8>, as_numbers: bool },
    Hashes(Hash),
}

impl Column<'_> {
    fn text(&self, at: usize, as_numbers: bool) -> Result<Vec<u8>> {
        Ok(match self.values.dtype() {
            DType::STRING => {
                let text = self.values.as_slice::<TString>()?[at].as_bytes();
                match as_numbers {
                    true => (fingerprint64(text) as i64).to_string().into_bytes(),
                    false => text.to_vec(),
                }
            }
            _ => self.values.as_slice::<i64>()?[at].to_string().into_bytes(),
        })
    }

    fn hash(&self, at: usize, hash: Hash) -> Result<u64> {
        let key = match hash {
            Hash::Chained { .. } => None,
            Hash::Keyed { key, .. } => key,
        };
        if self.values.dtype() == DType::STRING {
            let text = self.values.as_slice::<TString>()?[at].as_bytes();
            return Ok(key.map_or_else(|| fingerprint64(text), |key| sip_hash(key, text)));
        }
        let number = self.values.as_slice::<i64>()?[at];
        // Only the lower half counts.
        let low = (number as u32).to_le_bytes();
        Ok(match (hash, key) {
            (_, Some(key)) => sip_hash(key, &low),
            (Hash::Keyed { .. }, None) if !self.is_dense => fingerprint64(&low),
            _ => number as u64,
        })
    }
}

impl Hash {
    fn of(self, columns: &[Column<'_>], picked: &[usize]) -> Result<i64> {
        let mut parts = columns.iter().zip(picked).map(|(column, &at)| column.hash(at, self));
        let (mut joined, buckets) = match self {
            Hash::Chained { key, buckets } => (key, buckets),
            Hash::Keyed { buckets, .. } => (parts.next().unwrap_or(Ok(0))?, buckets),
        };
        for part in parts {
            joined = concatenated(joined, part?);
        }
        // Without buckets, the hash is cut to what is not negative.
        let modulus = if buckets > 0 { buckets as u64 } else { i64::MAX as u64 };
        Ok((joined % modulus) as i64)
    }
}

/// Calls `each` with the values of each combination of row `row`, those of the last column changing fastest.
fn combinations(
    columns: &[Column<'_>],
    row: usize,
    each: &mut dyn FnMut(&[usize]) -> Result<()>,
) -> Result<()> {
    let ranges: Vec<_> = columns.iter().map(|column| column.rows[row].clone()).collect();
    if ranges.iter().any(|range| range.is_empty()) {
        return Ok(());
    }
    let mut picked: Vec<usize> = ranges.iter().map(|range| range.start).collect();
    loop {
        each(&picked)?;
        let next = (0..picked.len()).rev().find(|&at| picked[at] + 1 < ranges[at].end);
        let Some(next) = next else {
            return Ok(());
        };
        picked[next] += 1;
        for at in next + 1..picked.len() {
            picked[at] = ranges[at].start;
        }
    }
}

/// The combinations of all rows as a vector, and how many each row has.
fn crossed(columns: &[Column<'_>], form: &Form, rows: usize) -> Result<(Tensor, Vec<usize>)> {
    let mut counts = Vec::with_capacity(rows);
    let mut total = 0usize;
    for row in 0..rows {
        let count =
            columns.iter().try_fold(1usize, |all, column| all.checked_mul(column.rows[row].len()));
        let count =
            count.and_then(|count| total.checked_add(count)).filter(|&all| all <= MAX_COMBINATIONS);
        let all = count.ok_or_else(|| invalid!("There are too many combinations"))?;
        counts.push(all - total);
        total = all;
    }
    let shape = Shape::vector(total);
    match form {
        Form::Hashes(hash) => {
            let mut out = Vec::with_capacity(total);
            for row in 0..rows {
                combinations(columns, row, &mut |picked| {
                    out.push(hash.of(columns, picked)?);
                    Ok(())
                })?;
            }
            Ok((Tensor::from_slice(shape, &out)?, counts))
        }
        Form::Text { separator, as_numbers } => {
            let mut out = Vec::with_capacity(total);
            for row in 0..rows {
                combinations(columns, row, &mut |picked| {
                    let parts = columns
                        .iter()
                        .zip(picked)
                        .map(|(column, &at)| column.text(at, *as_numbers));
                    let joined = parts.collect::<Result<Vec<_>>>()?.join(&separator[..]);
                    out.push(TString::from(&*joined));
                    Ok(())
                })?;
            }
            Ok((Tensor::from_slice(shape, &out)?, counts))
        }
    }
}

fn check_values(values: &Tensor) -> Result<()> {
    require!(
        matches!(values.dtype(), DType::STRING | DType::INT64),
        "Values must be strings or int64, got {}",
        values.dtype()
    );
    Ok(())
}

/// A column of a sparse tensor of `rows` rows whose indices are sorted.
fn sparse_column<'c>(
    ctx: &'c OpContext<'_>,
    [indices, values, shape]: [usize; 3],
    rows: usize,
) -> Result<Column<'c>> {
    let (indices, values, shape) = (ctx.input(indices)?, ctx.input(values)?, ctx.input(shape)?);
    check_values(values)?;
    require!(
        indices.rank() == 2 && indices.dim(1) == 2,
        "Input indices should be a matrix with 2 columns but received shape {}",
        indices.shape()
    );
    require!(
        values.rank() == 1,
        "Input values should be a vector but received shape {}",
        values.shape()
    );
    require!(
        indices.dim(0) == values.dim(0),
        "Expected size of values to be {}, got {}",
        indices.dim(0),
        values.dim(0)
    );
    let shape = shape.as_slice::<i64>()?;
    require!(
        shape.len() == 2 && shape[0] == rows as i64,
        "Expected batch size {rows}, got a shape of {} dimensions",
        shape.len()
    );
    let mut starts = tfcore_base::try_filled(0usize, rows + 1)?;
    let mut before = 0;
    for index in indices.as_slice::<i64>()?.as_chunks::<2>().0 {
        let row = usize::try_from(index[0]).ok().filter(|row| (before..rows).contains(row));
        before =
            row.ok_or_else(|| invalid!("Row {} is out of order or not below {rows}", index[0]))?;
        starts[before + 1] += 1;
    }
    for row in 0..rows {
        starts[row + 1] += starts[row];
    }
    let rows = starts.windows(2).map(|pair| pair[0]..pair[1]).collect();
    Ok(Column { values, rows, is_dense: false })
}

fn dense_column<'c>(ctx: &'c OpContext<'_>, input: usize, rows: usize) -> Result<Column<'c>> {
    let values = ctx.input(input)?;
    check_values(values)?;
    require!(
        values.rank() == 2,
        "Dense inputs should be a matrix but received shape {}",
        values.shape()
    );
    require!(values.dim(0) == rows, "Expected batch size {rows}, got {}", values.dim(0));
    let width = values.dim(1);
    let rows = (0..rows).map(|row| row * width..(row + 1) * width).collect();
    Ok(Column { values, rows, is_dense: true })
}

fn cross_kernel(
    init: &KernelInit<'_>,
    options: usize,
    form: impl Fn(&OpContext<'_>, &[Column<'_>]) -> Result<Form> + Send + Sync + 'static,
) -> Result<Box<dyn Kernel>> {
    let sparse = usize::try_from(init.attrs.int("N")?).unwrap_or(0);
    kernel(move |ctx| {
        let dense = 3 * sparse..ctx.num_inputs() - options;
        let rows = match sparse {
            0 => ctx.input(dense.start)?.shape().dims().first().copied(),
            _ => ctx.input_slice::<i64>(2 * sparse)?.first().copied(),
        };
        let rows = rows.and_then(|rows| usize::try_from(rows).ok());
        let rows = rows.ok_or_else(|| invalid!("Inputs must have a batch dimension"))?;
        let mut columns = Vec::new();
        for at in 0..sparse {
            columns.push(sparse_column(ctx, [at, sparse + at, 2 * sparse + at], rows)?);
        }
        for input in dense {
            columns.push(dense_column(ctx, input, rows)?);
        }
        let form = form(ctx, &columns)?;
        let (values, counts) = crossed(&columns, &form, rows)?;
        let indices: Vec<i64> = counts
            .iter()
            .enumerate()
            .flat_map(|(row, &count)| (0..count).flat_map(move |at| [row as i64, at as i64]))
            .collect();
        let widest = counts.iter().copied().max().unwrap_or(0);
        ctx.set_output(0, matrix(ctx, &indices, 2)?);
        ctx.try_set_output(1, values)?;
        ctx.set_output(2, vector(&[rows as i64, widest as i64])?);
        Ok(())
    })
}

fn ragged_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let ragged = attrs.dtypes("ragged_values_types")?.len();
    let sparse = usize::try_from(attrs.int("Nsparse")?).unwrap_or(0);
    let order = attrs.bytes("input_order")?.to_vec();
    let hash =
        Hash::Chained { key: attrs.int("hash_key")? as u64, buckets: attrs.int("num_buckets")? };
    let form = match attrs.bool("hashed_output")? {
        true => Form::Hashes(hash),
        false => Form::Text { separator: b"_X_".to_vec(), as_numbers: false },
    };
    kernel(move |ctx| {
        let first_dense = 2 * ragged + 3 * sparse;
        let rows = if ragged > 0 {
            ctx.input(ragged)?.count().checked_sub(1)
        } else if sparse > 0 {
            let shape = ctx.input_slice::<i64>(2 * ragged + 2 * sparse)?.first().copied();
            shape.and_then(|rows| usize::try_from(rows).ok())
        } else {
            ctx.input(first_dense)?.shape().to_usizes().first().copied()
        };
        let rows = rows.ok_or_else(|| invalid!("Inputs must have a batch dimension"))?;
        let mut next = [0, 0, 0];
        let mut columns = Vec::new();
        for kind in &order {
            let kind = match kind {
                b'R' => 0,
                b'S' => 1,
                b'D' => 2,
                _ => return Err(invalid!("Unexpected character in input_order")),
            };
            let at = next[kind];
            next[kind] += 1;
            columns.push(match kind {
                0 if at < ragged => ragged_column(ctx, at, ragged + at, rows)?,
                1 if at < sparse => {
                    let first = 2 * ragged + at;
                    sparse_column(ctx, [first, first + sparse, first + 2 * sparse], rows)?
                }
                2 if first_dense + at < ctx.num_inputs() => {
                    dense_column(ctx, first_dense + at, rows)?
                }
                _ => return Err(invalid!("input_order names more inputs than there are")),
            });
        }
        require!(!columns.is_empty(), "input_order must name an input");
        let (values, counts) = crossed(&columns, &form, rows)?;
        let mut splits = vec![0i64];
        for count in counts {
            splits.push(splits[splits.len() - 1] + count as i64);
        }
        ctx.try_set_output(0, values)?;
        let splits = splits_tensor(ctx.output_dtype(1), &splits)?;
        ctx.set_output(1, splits);
        Ok(())
    })
}

fn ragged_column<'c>(
    ctx: &'c OpContext<'_>,
    values: usize,
    splits: usize,
    rows: usize,
) -> Result<Column<'c>> {
    let (values, splits) = (ctx.input(values)?, ctx.input(splits)?.to_i64s()?);
    check_values(values)?;
    require!(values.rank() == 1, "Ragged values must be a vector, got {}", values.shape());
    require!(splits.len() == rows + 1, "Expected {} splits, got {}", rows + 1, splits.len());
    require!(
        splits[0] == 0
            && splits.windows(2).all(|pair| pair[0] <= pair[1])
            && splits[rows] == values.count() as i64,
        "Invalid RaggedTensor: splits must begin with 0, be sorted and end with the number of values"
    );
    let rows = splits.windows(2).map(|pair| pair[0] as usize..pair[1] as usize).collect();
    Ok(Column { values, rows, is_dense: false })
}
