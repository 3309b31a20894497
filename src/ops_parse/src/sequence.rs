//! `ParseSequenceExample` and its relatives: contexts and lists of features of `SequenceExample` messages.

use tfcore_base::{DType, Error, Result, invalid, require};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_proto::wire::Malformed;
use tfcore_tensor::{Dim, PartialShape, Shape, TString, Tensor};

use crate::example::{
    self, Dense, Values, check_default, dense_features, name_of, parts, some_vector, sparse_shapes,
    splits,
};
use crate::feature::{Column, Feature, Slots};

pub(crate) fn register(r: &mut Registry) {
    // `ParseSequenceExample(serialized: string, debug_name: string, context_dense_defaults)`, with keys in attrs.
    r.op("ParseSequenceExample")
        .shape(|ctx| {
            let input = shape_ops::with_rank(ctx.input(0), 1)?;
            shapes(ctx, &input, Form::Attrs)
        })
        .cpu(|init| sequence_kernel(init, Form::Attrs));
    // `ParseSequenceExampleV2(serialized: string, debug_name: string, ...)`, with keys in vectors, of one message or a vector of them.
    r.op("ParseSequenceExampleV2")
        .shape(|ctx| {
            let input = shape_ops::with_rank_at_most(ctx.input(0), 1)?;
            shapes(ctx, &input, Form::Vectors)
        })
        .cpu(|init| sequence_kernel(init, Form::Vectors));
    // `ParseSingleSequenceExample(serialized: string, ...)`, with an input for each key.
    r.op("ParseSingleSequenceExample")
        .shape(|ctx| {
            let input = shape_ops::with_rank(ctx.input(0), 0)?;
            shapes(ctx, &input, Form::Single)
        })
        .cpu(|init| sequence_kernel(init, Form::Single));
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Attrs,
    Vectors,
    Single,
}

/// The types and shapes that the attrs of a node describe. `lists` are features of each step.
struct Types {
    sparse: Vec<DType>,
    dense: Vec<Dense>,
    ragged: Vec<(DType, DType)>,
    list_sparse: Vec<DType>,
    list_dense: Vec<Dense>,
    list_ragged: Vec<(DType, DType)>,
}

impl Types {
    fn new(attrs: &Attrs, form: Form) -> Result<Types> {
        let ragged = |prefix: &str| {
            if form != Form::Vectors {
                return Ok(Vec::new());
            }
            let values = attrs.dtypes(&format!("{prefix}_ragged_value_types"))?;
            let splits = attrs.dtypes(&format!("{prefix}_ragged_split_types"))?;
            require!(
                values.len() == splits.len(),
                "There must be a type of splits for each ragged feature, got {} and {}",
                splits.len(),
                values.len()
            );
            Ok(values.iter().copied().zip(splits.iter().copied()).collect())
        };
        let list_dense = dense_features(
            attrs.dtypes("feature_list_dense_types")?,
            attrs.shapes("feature_list_dense_shapes")?,
        )?;
        let dense =
            dense_features(attrs.dtypes("Tcontext_dense")?, attrs.shapes("context_dense_shapes")?)?;
        for feature in dense.iter().chain(&list_dense) {
            require!(!feature.is_variable, "Shape {} is not fully defined", feature.shape);
        }
        Ok(Types {
            sparse: attrs.dtypes("context_sparse_types")?.to_vec(),
            dense,
            ragged: ragged("context")?,
            list_sparse: attrs.dtypes("feature_list_sparse_types")?.to_vec(),
            list_dense,
            list_ragged: ragged("feature_list")?,
        })
    }

    /// The number of keys of each kind: sparse, dense and ragged, of the context and of the lists.
    fn counts(&self) -> [usize; 6] {
        [
            self.sparse.len(),
            self.dense.len(),
            self.ragged.len(),
            self.list_sparse.len(),
            self.list_dense.len(),
            self.list_ragged.len(),
        ]
    }
}

fn shapes(ctx: &mut InferenceContext<'_>, input: &PartialShape, form: Form) -> Result<()> {
    let types = Types::new(ctx.attrs, form)?;
    let mut all = Vec::new();
    let row_splits = match input.dims() {
        Some([rows]) => PartialShape::vector(shape_ops::add(*rows, 1)?),
        _ => some_vector(),
    };
    for part in sparse_shapes(input, 1) {
        all.extend(types.sparse.iter().map(|_| part.clone()));
    }
    all.extend(types.dense.iter().map(|dense| shape_ops::concatenate(input, &dense.shape)));
    all.extend(types.ragged.iter().map(|_| some_vector()));
    all.extend(types.ragged.iter().map(|_| row_splits.clone()));
    for part in sparse_shapes(input, 2) {
        all.extend(types.list_sparse.iter().map(|_| part.clone()));
    }
    for dense in &types.list_dense {
        let steps = shape_ops::concatenate(input, &PartialShape::vector(Dim::fresh()));
        all.push(shape_ops::concatenate(&steps, &dense.shape));
    }
    if form != Form::Single {
        all.extend(types.list_dense.iter().map(|_| input.clone()));
    }
    all.extend(types.list_ragged.iter().map(|_| some_vector()));
    all.extend(types.list_ragged.iter().map(|_| row_splits.clone()));
    all.extend(types.list_ragged.iter().map(|_| some_vector()));
    for (output, shape) in all.into_iter().enumerate() {
        ctx.set_output(output, shape);
    }
    Ok(())
}

/// The keys of a node's attrs, in the order of [`Types::counts`].
struct FixedKeys {
    keys: Vec<Vec<u8>>,
    missing_allowed: Vec<Vec<u8>>,
}

fn sequence_kernel(init: &KernelInit<'_>, form: Form) -> Result<Box<dyn Kernel>> {
    let types = Types::new(init.attrs, form)?;
    let mut fixed = FixedKeys { keys: Vec::new(), missing_allowed: Vec::new() };
    if form == Form::Attrs {
        let list = |name: &str| {
            init.attrs.string_list(name).map(|all| all.iter().map(|key| key.to_vec()).collect())
        };
        let [sparse, dense, _, list_sparse, list_dense, _] = types.counts();
        for (name, count) in [
            ("context_sparse_keys", sparse),
            ("context_dense_keys", dense),
            ("feature_list_sparse_keys", list_sparse),
            ("feature_list_dense_keys", list_dense),
        ] {
            let keys: Vec<Vec<u8>> = list(name)?;
            require!(keys.len() == count, "len({name}) != {count}, the number of types");
            fixed.keys.extend(keys);
        }
        fixed.missing_allowed = list("feature_list_dense_missing_assumed_empty")?;
    }
    kernel(move |ctx| parse(ctx, form, &types, &fixed))
}

fn texts<'c>(ctx: &'c OpContext<'_>, input: usize) -> Result<impl Iterator<Item = &'c [u8]>> {
    Ok(ctx.input_slice::<TString>(input)?.iter().map(TString::as_bytes))
}

fn parse(ctx: &OpContext<'_>, form: Form, types: &Types, fixed: &FixedKeys) -> Result<()> {
    let counts = types.counts();
    let mut keys: Vec<&[u8]> = fixed.keys.iter().map(Vec::as_slice).collect();
    let mut missing_allowed: Vec<bool> = Vec::new();
    let first_default = match form {
        Form::Attrs => 2,
        Form::Vectors => {
            for (input, count) in (2..8).zip(counts) {
                let before = keys.len();
                keys.extend(texts(ctx, input)?);
                require!(
                    keys.len() - before == count,
                    "Expected {count} keys but got {}",
                    keys.len() - before
                );
            }
            missing_allowed = ctx.input_slice::<bool>(8)?.to_vec();
            require!(
                missing_allowed.len() == counts[4],
                "Expected len(feature_list_dense_missing_assumed_empty) == {} but got {}",
                counts[4],
                missing_allowed.len()
            );
            9
        }
        Form::Single => {
            let count = counts.iter().sum::<usize>();
            for input in 2..2 + count {
                keys.extend(texts(ctx, input)?);
            }
            require!(keys.len() == count, "Expected keys to be scalars, got {}", keys.len());
            2 + count
        }
    };
    let list_dense_at = counts[..4].iter().sum::<usize>();
    if form != Form::Vectors {
        let named: Vec<&[u8]> = match form {
            Form::Single => texts(ctx, 1)?.collect(),
            _ => fixed.missing_allowed.iter().map(Vec::as_slice).collect(),
        };
        let dense = &keys[list_dense_at..list_dense_at + counts[4]];
        missing_allowed = dense.iter().map(|key| named.contains(key)).collect();
    }
    let defaults = (0..counts[1])
        .map(|index| ctx.input(first_default + index))
        .collect::<Result<Vec<&Tensor>>>()?;
    for (index, (dense, default)) in types.dense.iter().zip(&defaults).enumerate() {
        check_default(index, dense, default)?;
    }
    let serialized = ctx.input(0)?;
    require!(
        serialized.rank() <= 1 && (form != Form::Single || serialized.rank() == 0),
        "Expected serialized to be a scalar or a vector, got shape: {}",
        serialized.shape()
    );
    let names = match form {
        Form::Single => ctx.input_slice::<TString>(first_default + counts[1])?,
        Form::Attrs | Form::Vectors => ctx.input_slice::<TString>(1)?,
    };
    require!(
        names.is_empty() || names.len() == serialized.count(),
        "Expected len(debug_name) == len(serialized), but got {} vs. {}",
        names.len(),
        serialized.count()
    );
    let batch = Batch {
        form,
        names,
        is_batch: serialized.rank() == 1,
        keys: &keys,
        types,
        defaults: &defaults,
        missing_allowed: &missing_allowed,
    };
    let (contexts, lists) = batch.parse(serialized.as_slice::<TString>()?)?;
    let tensors = batch.tensors(contexts, lists)?;
    for (output, tensor) in tensors.into_iter().enumerate() {
        ctx.set_output(output, tensor);
    }
    Ok(())
}

struct Batch<'a> {
    form: Form,
    names: &'a [TString],
    is_batch: bool,
    keys: &'a [&'a [u8]],
    types: &'a Types,
    defaults: &'a [&'a Tensor],
    missing_allowed: &'a [bool],
}

/// The values of a list of features in all examples.
struct Lists {
    /// Those of each step.
    steps: Values,
    /// The steps of each example.
    lengths: Vec<usize>,
}

impl Batch<'_> {
    fn parse(&self, serialized: &[TString]) -> Result<(Vec<Values>, Vec<Lists>)> {
        let types = self.types;
        let contexts = types.sparse.len() + types.dense.len() + types.ragged.len();
        let (context_keys, list_keys) = self.keys.split_at(contexts);
        let context_slots = Slots::new(context_keys.iter().copied());
        let list_slots = Slots::new(list_keys.iter().copied());
        let dtypes = |sparse: &[DType], dense: &[Dense], ragged: &[(DType, DType)]| {
            let all = sparse.iter().copied().chain(dense.iter().map(|dense| dense.dtype));
            all.chain(ragged.iter().map(|ragged| ragged.0)).collect::<Vec<DType>>()
        };
        let context_types = dtypes(&types.sparse, &types.dense, &types.ragged);
        let list_types = dtypes(&types.list_sparse, &types.list_dense, &types.list_ragged);
        let mut features =
            context_types.iter().map(|&dtype| Values::new(dtype)).collect::<Result<Vec<_>>>()?;
        let mut lists = list_types
            .iter()
            .map(|&dtype| Ok(Lists { steps: Values::new(dtype)?, lengths: Vec::new() }))
            .collect::<Result<Vec<_>>>()?;
        let (mut context, mut list) =
            (vec![None; context_slots.len()], vec![None; list_slots.len()]);
        for (index, example) in serialized.iter().enumerate() {
            context.fill(None);
            list.fill(None);
            let message = example.as_bytes();
            let read = parts(message, 1, &mut |part| context_slots.fill(part, &mut context))
                .and_then(|()| parts(message, 2, &mut |part| list_slots.fill(part, &mut list)));
            read.map_err(|_| self.malformed(index))?;
            for (slot, values) in features.iter_mut().enumerate() {
                self.add_context(index, slot, context_types[slot], context[slot], values)?;
            }
            for (slot, values) in lists.iter_mut().enumerate() {
                self.add_list(index, slot, list_types[slot], list[slot], values)?;
            }
        }
        Ok((features, lists))
    }

    #[cold]
    fn malformed(&self, index: usize) -> Error {
        invalid!("Invalid protocol message input, serialized id: {}", self.name(index))
    }

    fn name(&self, index: usize) -> String {
        name_of(self.names, index)
    }

    fn key(&self, slot: usize) -> String {
        String::from_utf8_lossy(self.keys[slot]).into_owned()
    }

    fn add_context(
        &self,
        index: usize,
        slot: usize,
        dtype: DType,
        message: Option<&[u8]>,
        values: &mut Values,
    ) -> Result<()> {
        let feature = match message {
            Some(message) => Feature::read(message).map_err(|Malformed| self.malformed(index))?,
            None => None,
        };
        let dense_index = slot.checked_sub(self.types.sparse.len());
        let dense = dense_index.and_then(|at| Some((self.types.dense.get(at)?, self.defaults[at])));
        let Some(feature) = feature else {
            let count = match dense {
                Some((feature, default)) => {
                    if default.count() == 0 && feature.stride > 0 {
                        let key = self.key(slot);
                        return Err(match self.form {
                            Form::Single => invalid!(
                                "Name: {}, Context feature '{key}' is required but could not be found.",
                                self.name(index)
                            ),
                            _ => invalid!(
                                "Feature: {key} (data type: {dtype}) is required but could not be found."
                            ),
                        });
                    }
                    values.column.extend(default, 1)?;
                    default.count()
                }
                None => 0,
            };
            values.counts.push(count);
            return Ok(());
        };
        require!(
            feature.dtype == dtype,
            "Name: {}, Context feature: {}.  Data types don't match. Expected type: {dtype}",
            self.name(index),
            self.key(slot)
        );
        let count = values.column.append(feature).map_err(|Malformed| self.malformed(index))?;
        if let Some((feature, _)) = dense
            && count != feature.stride
        {
            return Err(match self.form {
                Form::Single => invalid!(
                    "Name: {}, Key: {}, Index: {index}.  Number of {dtype} values != expected.  values size: \
                     {count} but output shape: {}",
                    self.name(index),
                    self.key(slot),
                    feature.shape
                ),
                _ => invalid!(
                    "Inconsistent max number of elements for feature {}: expected {}, but found {count}",
                    self.key(slot),
                    feature.stride
                ),
            });
        }
        values.counts.push(count);
        Ok(())
    }

    fn add_list(
        &self,
        index: usize,
        slot: usize,
        dtype: DType,
        message: Option<&[u8]>,
        lists: &mut Lists,
    ) -> Result<()> {
        let key = || self.key(slot + self.types.counts()[..3].iter().sum::<usize>());
        let dense_index = slot.checked_sub(self.types.list_sparse.len());
        let dense = dense_index.and_then(|at| Some((at, self.types.list_dense.get(at)?)));
        let Some(message) = message else {
            if let Some((at, _)) = dense {
                require!(
                    self.missing_allowed.get(at) == Some(&true),
                    "Name: {}, Feature list '{}' is required but could not be found.  Did you mean to include it in \
                     feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?",
                    self.name(index),
                    key()
                );
            }
            lists.lengths.push(0);
            return Ok(());
        };
        let mut steps = Vec::new();
        parts(message, 1, &mut |feature| {
            steps.push(Feature::read(feature)?);
            Ok(())
        })
        .map_err(|Malformed| self.malformed(index))?;
        for (step, feature) in steps.iter().enumerate() {
            let count = match feature {
                None => 0,
                Some(feature) => {
                    require!(
                        feature.dtype == dtype,
                        "Name: {}, Feature list: {}, Index: {step}.  Data types don't match. Expected type: {dtype}",
                        self.name(index),
                        key()
                    );
                    let column = &mut lists.steps.column;
                    column.append(*feature).map_err(|Malformed| self.malformed(index))?
                }
            };
            if let Some((_, feature)) = dense {
                require!(
                    count == feature.stride,
                    "Name: {}, Key: {}, Index: {step}.  Number of {dtype} values != expected.  values size: {count} but \
                     output shape: {}",
                    self.name(index),
                    key(),
                    feature.shape
                );
            }
            lists.steps.counts.push(count);
        }
        lists.lengths.push(steps.len());
        Ok(())
    }

    /// The outputs, in order.
    fn tensors(&self, contexts: Vec<Values>, lists: Vec<Lists>) -> Result<Vec<Tensor>> {
        let types = self.types;
        let mut outputs = Vec::new();
        let mut contexts = contexts.into_iter();
        let sparse = contexts.by_ref().take(types.sparse.len());
        let sparse = sparse.map(|values| example::sparse(values, self.is_batch));
        by_part(sparse.collect::<Result<Vec<_>>>()?, &mut outputs);
        for (values, (dense, default)) in
            contexts.by_ref().take(types.dense.len()).zip(types.dense.iter().zip(self.defaults))
        {
            outputs.push(example::dense(values, dense, default, self.is_batch)?);
        }
        let ragged = contexts.zip(&types.ragged).map(|(values, (_, split_type))| {
            let row_splits = self.outer_splits(*split_type, &values.counts)?;
            Ok([values.column.into_vector()?, row_splits])
        });
        by_part(ragged.collect::<Result<Vec<_>>>()?, &mut outputs);

        let mut lists = lists.into_iter();
        let sparse = lists.by_ref().take(types.list_sparse.len());
        let sparse = sparse.map(|lists| self.sparse_lists(lists));
        by_part(sparse.collect::<Result<Vec<_>>>()?, &mut outputs);
        let dense = lists.by_ref().take(types.list_dense.len()).zip(&types.list_dense);
        let dense = dense.map(|(lists, feature)| self.dense_lists(lists, feature));
        let dense = dense.collect::<Result<Vec<_>>>()?;
        if self.form == Form::Single {
            outputs.extend(dense.into_iter().map(|[values, _]| values));
        } else {
            by_part(dense, &mut outputs);
        }
        let ragged = lists.zip(&types.list_ragged).map(|(lists, (_, split_type))| {
            let outer = self.outer_splits(*split_type, &lists.lengths)?;
            let inner = splits(*split_type, &lists.steps.counts)?;
            Ok([lists.steps.column.into_vector()?, outer, inner])
        });
        by_part(ragged.collect::<Result<Vec<_>>>()?, &mut outputs);
        Ok(outputs)
    }

    /// The splits of the batch; without a batch there is nothing to split, and a scalar without meaning.
    fn outer_splits(&self, dtype: DType, counts: &[usize]) -> Result<Tensor> {
        match self.is_batch {
            true => splits(dtype, counts),
            false => Tensor::zeros(dtype, Shape::scalar()),
        }
    }

    fn sparse_lists(&self, lists: Lists) -> Result<[Tensor; 3]> {
        let rank = 2 + usize::from(self.is_batch);
        let mut indices = Vec::with_capacity(lists.steps.column.len() * rank);
        let mut counts = lists.steps.counts.iter();
        for (row, &length) in lists.lengths.iter().enumerate() {
            for (step, &count) in counts.by_ref().take(length).enumerate() {
                for column in 0..count {
                    if self.is_batch {
                        indices.push(row as i64);
                    }
                    indices.extend([step as i64, column as i64]);
                }
            }
        }
        let longest = |counts: &[usize]| counts.iter().copied().max().unwrap_or(0) as i64;
        let shape =
            [lists.lengths.len() as i64, longest(&lists.lengths), longest(&lists.steps.counts)];
        let indices_shape = Shape::new(&[lists.steps.column.len() as i64, rank as i64])?;
        Ok([
            Tensor::from_slice(indices_shape, &indices)?,
            lists.steps.column.into_vector()?,
            Tensor::from_slice(Shape::vector(rank), &shape[3 - rank..])?,
        ])
    }

    /// The padded values of a list of dense features, and its lengths.
    fn dense_lists(&self, lists: Lists, feature: &Dense) -> Result<[Tensor; 2]> {
        let longest = lists.lengths.iter().copied().max().unwrap_or(0);
        let mut dims = if self.is_batch { vec![lists.lengths.len() as i64] } else { Vec::new() };
        dims.push(longest as i64);
        dims.extend(feature.shape.dims().into_iter().flatten().map(|dim| dim.to_i64()));
        let counts: Vec<usize> =
            lists.lengths.iter().map(|&length| length * feature.stride).collect();
        let none = Column::new(feature.dtype)?.into_vector()?;
        let padded = lists.steps.column.padded(&counts, longest * feature.stride, &none)?;
        let lengths: Vec<i64> = lists.lengths.iter().map(|&length| length as i64).collect();
        let lengths_shape =
            if self.is_batch { Shape::vector(lengths.len()) } else { Shape::scalar() };
        Ok([padded.into_tensor(Shape::new(&dims)?)?, Tensor::from_slice(lengths_shape, &lengths)?])
    }
}

/// Appends the first parts of all, then the second ones, and so on.
fn by_part<const N: usize>(all: Vec<[Tensor; N]>, outputs: &mut Vec<Tensor>) {
    for part in 0..N {
        outputs.extend(all.iter().map(|parts| parts[part].clone()));
    }
}
