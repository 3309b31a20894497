//! `ParseExample` and its relatives: features of `Example` messages as sparse, dense and ragged tensors.

use tfcore_base::{DType, Error, Result, invalid, require};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_proto::wire::{Fields, Malformed};
use tfcore_tensor::{Dim, PartialShape, Shape, TString, Tensor};

use crate::feature::{Column, Feature, Slots};

pub(crate) fn register(r: &mut Registry) {
    // `ParseExample(serialized: string, names: string, sparse_keys, dense_keys, dense_defaults: Tdense) -> sparse_indices, sparse_values,
    // sparse_shapes, dense_values`, of a vector of messages.
    r.op("ParseExample")
        .shape(|ctx| {
            let input = shape_ops::with_rank(ctx.input(0), 1)?;
            shape_ops::with_rank(ctx.input(1), 1)?;
            shapes(ctx, &input)
        })
        .cpu(|init| example_kernel(init, Form::Lists));
    // `ParseExampleV2(serialized: string, names: string, sparse_keys: string, dense_keys: string, ragged_keys: string,
    // dense_defaults: Tdense) -> ... , ragged_values, ragged_row_splits`, of one message or a vector of them.
    r.op("ParseExampleV2")
        .shape(|ctx| {
            let input = shape_ops::with_rank_at_most(ctx.input(0), 1)?;
            shapes(ctx, &input)
        })
        .cpu(|init| example_kernel(init, Form::Vectors));
    // `ParseSingleExample(serialized: string, dense_defaults: Tdense) -> sparse_indices, sparse_values, sparse_shapes, dense_values`.
    r.op("ParseSingleExample")
        .shape(|ctx| {
            let input = shape_ops::with_rank(ctx.input(0), 0)?;
            shapes(ctx, &input)
        })
        .cpu(|init| example_kernel(init, Form::Attrs));
}

/// Where the keys stand.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// One input for each.
    Lists,
    /// An input with all of a kind.
    Vectors,
    /// Attrs.
    Attrs,
}

/// The types and shapes that the attrs of a node describe.
struct Types {
    sparse: Vec<DType>,
    dense: Vec<Dense>,
    ragged: Vec<(DType, DType)>,
}

/// A dense feature.
pub(crate) struct Dense {
    pub(crate) dtype: DType,
    pub(crate) shape: PartialShape,
    /// True if the first dimension is as long as the longest feature of the batch.
    pub(crate) is_variable: bool,
    /// The number of values, or of those of one step of a first dimension that varies.
    pub(crate) stride: usize,
}

/// # Errors
/// `InvalidArgument` for a shape of which more than the first dimension is unknown.
pub(crate) fn dense_features(dtypes: &[DType], shapes: &[PartialShape]) -> Result<Vec<Dense>> {
    require!(
        dtypes.len() == shapes.len(),
        "len(dense_keys) != len(dense_shapes): {} vs. {}",
        dtypes.len(),
        shapes.len()
    );
    let features = dtypes.iter().zip(shapes).enumerate().map(|(index, (&dtype, shape))| {
        let problem = || {
            invalid!("dense_shapes[{index}] has unknown rank or unknown inner dimensions: {shape}")
        };
        let dims = shape.dims().ok_or_else(problem)?;
        let is_variable = dims.first().is_some_and(|dim| !dim.is_known());
        let inner: PartialShape = dims[usize::from(is_variable)..].iter().copied().collect();
        let stride = inner.to_shape().ok_or_else(problem)?.count();
        require!(
            !is_variable || stride > 0,
            "dense_shapes[{index}] must have non-zero inner dimensions, got {shape}"
        );
        Ok(Dense { dtype, shape: shape.clone(), is_variable, stride })
    });
    features.collect()
}

impl Types {
    fn new(attrs: &Attrs, form: Form) -> Result<Types> {
        let ragged = match form {
            Form::Vectors => {
                let values = attrs.dtypes("ragged_value_types")?;
                let splits = attrs.dtypes("ragged_split_types")?;
                require!(
                    values.len() == splits.len(),
                    "len(ragged_value_types) != len(ragged_split_types): {} vs. {}",
                    values.len(),
                    splits.len()
                );
                values.iter().copied().zip(splits.iter().copied()).collect()
            }
            Form::Lists | Form::Attrs => Vec::new(),
        };
        Ok(Types {
            sparse: attrs.dtypes("sparse_types")?.to_vec(),
            dense: dense_features(attrs.dtypes("Tdense")?, attrs.shapes("dense_shapes")?)?,
            ragged,
        })
    }
}

/// `[?]`
pub(crate) fn some_vector() -> PartialShape {
    PartialShape::vector(Dim::fresh())
}

/// The shapes of the indices, of the values and of the shape of a sparse tensor with `more` dimensions than `input`.
pub(crate) fn sparse_shapes(input: &PartialShape, more: usize) -> [PartialShape; 3] {
    let rank = input.rank().map_or_else(Dim::fresh, |rank| Dim::new((rank + more) as i64));
    [PartialShape::matrix(Dim::fresh(), rank), some_vector(), PartialShape::vector(rank)]
}

fn shapes(ctx: &mut InferenceContext<'_>, input: &PartialShape) -> Result<()> {
    let form = match &*ctx.op.name {
        "ParseExample" => Form::Lists,
        "ParseExampleV2" => Form::Vectors,
        _ => Form::Attrs,
    };
    let types = Types::new(ctx.attrs, form)?;
    let sparse = types.sparse.len();
    let mut output = 0;
    let mut set = |ctx: &mut InferenceContext<'_>, shape| {
        ctx.set_output(output, shape);
        output += 1;
    };
    for part in sparse_shapes(input, 1) {
        (0..sparse).for_each(|_| set(ctx, part.clone()));
    }
    for dense in &types.dense {
        set(ctx, shape_ops::concatenate(input, &dense.shape));
    }
    types.ragged.iter().for_each(|_| set(ctx, some_vector()));
    for _ in &types.ragged {
        let splits = match input.dims() {
            Some([rows]) => PartialShape::vector(shape_ops::add(*rows, 1)?),
            _ => some_vector(),
        };
        set(ctx, splits);
    }
    Ok(())
}

fn example_kernel(init: &KernelInit<'_>, form: Form) -> Result<Box<dyn Kernel>> {
    let types = Types::new(init.attrs, form)?;
    let keys: Vec<Vec<u8>> = match form {
        Form::Attrs => {
            let list = |name: &str| init.attrs.string_list(name);
            let (sparse, dense) = (list("sparse_keys")?, list("dense_keys")?);
            require!(
                sparse.len() == types.sparse.len() && dense.len() == types.dense.len(),
                "There must be a key for each type"
            );
            sparse.iter().chain(dense).map(|key| key.to_vec()).collect()
        }
        Form::Lists | Form::Vectors => Vec::new(),
    };
    kernel(move |ctx| parse(ctx, form, &types, &keys))
}

fn parse(ctx: &OpContext<'_>, form: Form, types: &Types, fixed: &[Vec<u8>]) -> Result<()> {
    let counts = [types.sparse.len(), types.dense.len(), types.ragged.len()];
    let key_inputs = match form {
        Form::Lists => 2..2 + counts[0] + counts[1],
        Form::Vectors => 2..5,
        Form::Attrs => 1..1,
    };
    let mut keys: Vec<&[u8]> = fixed.iter().map(Vec::as_slice).collect();
    for input in key_inputs.clone() {
        let tensor = ctx.input(input)?;
        if form == Form::Lists {
            require!(tensor.rank() == 0, "Expected keys to be scalars, got {}", tensor.shape());
        } else {
            let expected = counts[input - 2];
            require!(
                tensor.count() == expected,
                "Expected len(keys) == {expected} but got {}",
                tensor.count()
            );
        }
        keys.extend(tensor.as_slice::<TString>()?.iter().map(TString::as_bytes));
    }
    let serialized = ctx.input(0)?;
    require!(
        serialized.rank() <= 1,
        "Expected serialized to be a vector, got shape: {}",
        serialized.shape()
    );
    require!(
        form == Form::Vectors || serialized.rank() == usize::from(form == Form::Lists),
        "Expected serialized to be a {}, got shape: {}",
        if form == Form::Lists { "vector" } else { "scalar" },
        serialized.shape()
    );
    let is_batch = serialized.rank() == 1;
    let names = match form {
        Form::Attrs => &[][..],
        Form::Lists | Form::Vectors => ctx.input_slice::<TString>(1)?,
    };
    require!(
        !is_batch || names.is_empty() || names.len() == serialized.count(),
        "Expected len(names) == len(serialized), but got {} vs. {}",
        names.len(),
        serialized.count()
    );
    let defaults = (0..types.dense.len())
        .map(|index| ctx.input(key_inputs.end + index))
        .collect::<Result<Vec<&Tensor>>>()?;
    for (index, (dense, default)) in types.dense.iter().zip(&defaults).enumerate() {
        check_default(index, dense, default)?;
    }
    let batch = Batch {
        serialized: serialized.as_slice::<TString>()?,
        names,
        is_batch,
        keys: &keys,
        types,
        defaults: &defaults,
    };
    batch.parse()?.output(ctx, &batch)
}

/// # Errors
/// `InvalidArgument` for a default that does not fit its feature.
pub(crate) fn check_default(index: usize, dense: &Dense, default: &Tensor) -> Result<()> {
    let shape = &dense.shape;
    if dense.is_variable {
        require!(
            default.count() == 1,
            "dense_shape[{index}] is a variable length shape: {shape}, therefore def_value[{index}] must contain a \
             single element (the padding element).  But its shape is: {}",
            default.shape()
        );
    } else if default.count() > 0 {
        require!(
            shape.admits(default.shape().dims()),
            "def_value[{index}].shape() == {} is not compatible with dense_shapes_[{index}] == {shape}",
            default.shape()
        );
    }
    Ok(())
}

/// What is parsed, and into what.
struct Batch<'a> {
    serialized: &'a [TString],
    names: &'a [TString],
    is_batch: bool,
    keys: &'a [&'a [u8]],
    types: &'a Types,
    defaults: &'a [&'a Tensor],
}

/// The values of a feature in all examples, and how many each has.
pub(crate) struct Values {
    pub(crate) column: Column,
    pub(crate) counts: Vec<usize>,
}

impl Values {
    pub(crate) fn new(dtype: DType) -> Result<Values> {
        Ok(Values { column: Column::new(dtype)?, counts: Vec::new() })
    }
}

/// The features of all examples.
struct Parsed {
    features: Vec<Values>,
}

/// The first field of a message that has the number, or all of them in turn: calls `each` with their bytes.
pub(crate) fn parts<'a>(
    message: &'a [u8],
    wanted: u32,
    each: &mut dyn FnMut(&'a [u8]) -> std::result::Result<(), Malformed>,
) -> std::result::Result<(), Malformed> {
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        if number == wanted {
            each(value.bytes()?)?;
        }
    }
    Ok(())
}

impl Batch<'_> {
    fn parse(&self) -> Result<Parsed> {
        let slots = Slots::new(self.keys.iter().copied());
        let types = self.types;
        let dtypes = types.sparse.iter().copied();
        let dtypes = dtypes.chain(types.dense.iter().map(|dense| dense.dtype));
        let dtypes = dtypes.chain(types.ragged.iter().map(|ragged| ragged.0));
        let mut features = dtypes.map(Values::new).collect::<Result<Vec<_>>>()?;
        let mut found = vec![None; slots.len()];
        let dense = types.sparse.len()..types.sparse.len() + types.dense.len();
        for (index, example) in self.serialized.iter().enumerate() {
            found.fill(None);
            let message = example.as_bytes();
            parts(message, 1, &mut |part| slots.fill(part, &mut found))
                .map_err(|_| not_an_example(message))?;
            for (slot, values) in features.iter_mut().enumerate() {
                let feature = match found[slot] {
                    Some(message) => {
                        Feature::read(message).map_err(|_| not_an_example(example.as_bytes()))?
                    }
                    None => None,
                };
                let count = match (feature, dense.contains(&slot)) {
                    (None, false) => 0,
                    (None, true) => self.add_default(index, slot, &mut values.column)?,
                    (Some(feature), is_dense) => {
                        self.check_type(index, slot, feature.dtype, is_dense)?;
                        let count = values.column.append(feature).map_err(|_| {
                            self.error(index, slot, "Can't parse serialized Example.")
                        })?;
                        if is_dense {
                            self.check_count(index, slot, count)?;
                        }
                        count
                    }
                };
                values.counts.push(count);
            }
        }
        Ok(Parsed { features })
    }

    fn dense(&self, slot: usize) -> (&Dense, &Tensor) {
        let index = slot - self.types.sparse.len();
        (&self.types.dense[index], self.defaults[index])
    }

    fn add_default(&self, index: usize, slot: usize, column: &mut Column) -> Result<usize> {
        let (dense, default) = self.dense(slot);
        if dense.is_variable {
            return Ok(0);
        }
        if default.count() == 0 && dense.stride > 0 {
            let text = format!(
                "Feature: {} (data type: {}) is required but could not be found.",
                self.key(slot),
                dense.dtype
            );
            return Err(match self.is_batch {
                true => invalid!("Name: {}, {text}", self.name(index)),
                false => invalid!("{text}"),
            });
        }
        column.extend(default, 1)?;
        Ok(default.count())
    }

    fn check_type(&self, index: usize, slot: usize, actual: DType, is_dense: bool) -> Result<()> {
        let types = self.types;
        let (expected, text) = if is_dense {
            let expected = self.dense(slot).0.dtype;
            (expected, format!("Data type: {actual} but expected type: {expected}"))
        } else {
            let ragged = slot.checked_sub(types.sparse.len() + types.dense.len());
            let expected =
                ragged.map_or_else(|| types.sparse[slot], |ragged| types.ragged[ragged].0);
            (expected, format!("Expected type: {expected}, Actual type: {actual}"))
        };
        match actual == expected {
            true => Ok(()),
            false => Err(self.error(index, slot, &format!("Data types don't match. {text}"))),
        }
    }

    fn check_count(&self, index: usize, slot: usize, count: usize) -> Result<()> {
        let Dense { dtype, shape, is_variable, stride } = self.dense(slot).0;
        let problem = match is_variable {
            true if !count.is_multiple_of(*stride) => format!(
                "Number of {dtype} values is not a multiple of stride length. Saw {count} values but output shape is: {shape}"
            ),
            false if count < *stride && !self.is_batch => {
                let list = match *dtype {
                    DType::STRING => "bytes",
                    DType::FLOAT => "float",
                    _ => "int64",
                };
                format!("Can't parse serialized Example: Some {list}_list slice was not parsed.")
            }
            false if count != *stride => format!(
                "Number of {dtype} values != expected.  Values size: {count} but output shape: {shape}"
            ),
            _ => return Ok(()),
        };
        Err(self.error(index, slot, &problem))
    }

    fn key(&self, slot: usize) -> String {
        String::from_utf8_lossy(self.keys[slot]).into_owned()
    }

    fn name(&self, index: usize) -> String {
        name_of(self.names, index)
    }

    #[cold]
    fn error(&self, index: usize, slot: usize, problem: &str) -> Error {
        let key = self.key(slot);
        match self.is_batch {
            true => invalid!("Name: {}, Key: {key}, Index: {index}.  {problem}", self.name(index)),
            false => invalid!("Key: {key}.  {problem}"),
        }
    }
}

/// The name of an example, for messages.
pub(crate) fn name_of(names: &[TString], index: usize) -> String {
    names.get(index).map_or_else(
        || "<unknown>".to_string(),
        |name| String::from_utf8_lossy(name.as_bytes()).into_owned(),
    )
}

#[cold]
pub(crate) fn not_an_example(message: &[u8]) -> Error {
    invalid!("Could not parse example input, value: '{}'", String::from_utf8_lossy(message))
}

/// The indices, the values and the shape of a sparse tensor; without a batch, of its only row.
pub(crate) fn sparse(values: Values, is_batch: bool) -> Result<[Tensor; 3]> {
    let counts = &values.counts;
    let rank = 1 + usize::from(is_batch);
    let mut indices = Vec::with_capacity(values.column.len() * rank);
    for (row, &count) in counts.iter().enumerate() {
        for column in 0..count {
            if is_batch {
                indices.push(row as i64);
            }
            indices.push(column as i64);
        }
    }
    let longest = counts.iter().copied().max().unwrap_or(0) as i64;
    let shape: &[i64] = if is_batch { &[counts.len() as i64, longest] } else { &[longest] };
    let indices_shape = Shape::new(&[values.column.len() as i64, rank as i64])?;
    Ok([
        Tensor::from_slice(indices_shape, &indices)?,
        values.column.into_vector()?,
        Tensor::from_slice(Shape::vector(rank), shape)?,
    ])
}

/// The tensor of a dense feature.
pub(crate) fn dense(
    values: Values,
    dense: &Dense,
    padding: &Tensor,
    is_batch: bool,
) -> Result<Tensor> {
    let rows = values.counts.len();
    let mut dims = if is_batch { vec![rows as i64] } else { Vec::new() };
    dims.extend(dense.shape.dims().into_iter().flatten().map(|dim| dim.to_i64()));
    if !dense.is_variable {
        return values.column.into_tensor(Shape::new(&dims)?);
    }
    let longest = values.counts.iter().copied().max().unwrap_or(0);
    dims[usize::from(is_batch)] = (longest / dense.stride) as i64;
    let padded = values.column.padded(&values.counts, longest, padding)?;
    padded.into_tensor(Shape::new(&dims)?)
}

/// Row splits of type `dtype`.
pub(crate) fn splits(dtype: DType, counts: &[usize]) -> Result<Tensor> {
    let mut ends = vec![0i64];
    let mut end = 0;
    for &count in counts {
        end += count as i64;
        ends.push(end);
    }
    let shape = Shape::vector(ends.len());
    if dtype == DType::INT64 {
        return Tensor::from_slice(shape, &ends);
    }
    let narrow =
        ends.iter().map(|&end| i32::try_from(end)).collect::<std::result::Result<Vec<_>, _>>();
    let narrow =
        narrow.map_err(|_| invalid!("{end} values are too many for splits of type int32"))?;
    Tensor::from_slice(shape, &narrow)
}

impl Parsed {
    fn output(self, ctx: &OpContext<'_>, batch: &Batch<'_>) -> Result<()> {
        let types = batch.types;
        let [num_sparse, num_dense, num_ragged] =
            [types.sparse.len(), types.dense.len(), types.ragged.len()];
        let mut features = self.features.into_iter();
        for index in 0..num_sparse {
            let Some(values) = features.next() else { break };
            for (part, tensor) in sparse(values, batch.is_batch)?.into_iter().enumerate() {
                ctx.set_output(part * num_sparse + index, tensor);
            }
        }
        let first = 3 * num_sparse;
        for (index, feature) in types.dense.iter().enumerate() {
            let Some(values) = features.next() else { break };
            let tensor = dense(values, feature, batch.defaults[index], batch.is_batch)?;
            ctx.set_output(first + index, tensor);
        }
        let first = first + num_dense;
        for (index, (_, split_type)) in types.ragged.iter().enumerate() {
            let Some(values) = features.next() else { break };
            let row_splits = match batch.is_batch {
                true => splits(*split_type, &values.counts)?,
                false => Tensor::zeros(*split_type, Shape::vector(0))?,
            };
            ctx.set_output(first + index, values.column.into_vector()?);
            ctx.set_output(first + num_ragged + index, row_splits);
        }
        Ok(())
    }
}
