//! Ops that add slices to places given by tuples of indices: `ScatterNd`, `ScatterNdNonAliasingAdd`.

use tfcore_base::{DType, Result, internal, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, LEFT_OUT, OpContext, Registry, add_rows, kernel,
    shape_ops,
};
use tfcore_tensor::{PartialShape, Shape, TString, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `ScatterNd(indices: Tindices, updates: T, shape: Tindices) -> output: T`: zeros of that shape, to which
    // `output[indices[i.., 0], indices[i.., 1], .., ..] += updates[i.., ..]`. Strings are joined.
    r.op("ScatterNd")
        .shape(scatter_shape)
        .cpu(|init| scatter_kernel(init, [0, 1], output_of_zeros));
    // `ScatterNdNonAliasingAdd(input: T, indices: Tindices, updates: T) -> output: T`, the same with `input` for the zeros.
    r.op("ScatterNdNonAliasingAdd")
        .shape(add_shape)
        .cpu(|init| scatter_kernel(init, [1, 2], output_of_input));
}

fn scatter_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let output = ctx.operand_shape(2)?;
    let indices = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let updates = shape_ops::with_rank_at_least(ctx.input(1), 1)?;
    check_static(&indices, &updates, &output, "output")?;
    ctx.set_output(0, output);
    Ok(())
}

fn add_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let indices = shape_ops::with_rank_at_least(ctx.input(1), 1)?;
    let updates = shape_ops::with_rank_at_least(ctx.input(2), 1)?;
    check_static(&indices, &updates, &input, "input")?;
    ctx.set_output(0, input);
    Ok(())
}

/// Refuses updates that cannot be a slice of the output, which messages call `name`, for each tuple of indices.
pub(crate) fn check_static(
    indices: &PartialShape,
    updates: &PartialShape,
    output: &PartialShape,
    name: &str,
) -> Result<()> {
    let empty = |shape: &PartialShape| shape_ops::num_elements(shape).value() == Some(0);
    let filled = |shape: &PartialShape| shape_ops::num_elements(shape).value() > Some(0);
    require!(
        !(empty(output) && (filled(indices) || filled(updates))),
        "Indices and updates specified for empty {name}"
    );
    let (Some(index_dims), Some(update_rank)) = (indices.dims(), updates.rank()) else {
        return Ok(());
    };
    let outer = index_dims.len() - 1;
    let index_lead = shape_ops::subshape(indices, 0, Some(outer as i64))?;
    let update_lead = shape_ops::subshape(updates, 0, Some(outer as i64))?;
    shape_ops::merge(&index_lead, &update_lead).map_err(|error| {
        invalid!(
            "Dimensions [0,{outer}) of indices[shape={indices}] = {index_lead} must match dimensions \
             [0,{outer}) of updates[shape={updates}] = {update_lead}: {error}"
        )
    })?;
    let (Some(depth), Some(rank)) = (index_dims[outer].value(), output.rank()) else {
        return Ok(());
    };
    let slice = shape_ops::subshape(output, depth, None)?;
    let update_slice = shape_ops::subshape(updates, outer as i64, None)?;
    shape_ops::merge(&slice, &update_slice).map_err(|error| {
        invalid!(
            "Dimensions [{depth},{rank}) of input[shape={output}] = {slice} must match dimensions \
             [{outer},{update_rank}) of updates[shape={updates}] = {update_slice}: {error}"
        )
    })?;
    Ok(())
}

/// Makes the tensor that is added to.
type OutputFn = fn(&mut OpContext<'_>) -> Result<Tensor>;

fn output_of_zeros(ctx: &mut OpContext<'_>) -> Result<Tensor> {
    let [indices, updates, shape] = [ctx.input(0)?, ctx.input(1)?, ctx.input(2)?];
    for (name, tensor) in [("Indices", indices), ("Updates", updates)] {
        require!(
            tensor.rank() > 0,
            "{name} shape must have rank at least one. Found:{}",
            tensor.shape()
        );
    }
    require!(shape.rank() == 1, "Shape must be a vector");
    require!(
        (indices.count() == 0) == (updates.count() == 0),
        "Indices and updates specified for empty output shape"
    );
    ctx.allocate_zeros(updates.dtype(), Shape::new(&shape.to_i64s()?)?)
}

fn output_of_input(ctx: &mut OpContext<'_>) -> Result<Tensor> {
    let (indices, updates) = (ctx.input(1)?.shape(), ctx.input(2)?.shape());
    if let ([rows, ..], [other, ..]) = (indices.dims(), updates.dims()) {
        require!(
            rows == other,
            "Dimensions [0,1) of indices[shape={indices}] = {rows} must match dimensions [0,1) of \
             updates[shape={updates}] = {other}"
        );
    }
    let input = ctx.take_input(0)?;
    if input.is_exclusive() { Ok(input) } else { input.deep_copy() }
}

fn scatter_kernel(
    init: &KernelInit<'_>,
    [indices, updates]: [usize; 2],
    output: OutputFn,
) -> Result<Box<dyn Kernel>> {
    let ignores = ignores_bad_indices(init)?;
    kernel(move |ctx| {
        let mut out = output(ctx)?;
        let (indices, updates) = (ctx.input(indices)?, ctx.input(updates)?);
        let depth = check_shapes(indices.shape(), updates.shape(), out.shape())?;
        let rows = rows(indices, &out.shape()[..depth], out.shape(), ignores)?;
        add(&mut out, updates, &rows, depth)?;
        ctx.set_output(0, out);
        Ok(())
    })
}

/// True if attr `bad_indices_policy` says that indices outside of the tensor are left out.
pub(crate) fn ignores_bad_indices(init: &KernelInit<'_>) -> Result<bool> {
    match init.attrs.str("bad_indices_policy")? {
        "" | "DEFAULT" | "ERROR" => Ok(false),
        "IGNORE" => Ok(true),
        other => Err(invalid!("Unknown bad indices handling attribute: {other}")),
    }
}

/// The length of the tuples of indices.
fn check_shapes(indices: &Shape, updates: &Shape, output: &Shape) -> Result<usize> {
    require!(output.rank() > 0, "Output must be at least 1-D, got shape: {output}");
    let unfit = match indices.count() {
        0 => updates.count() > 0,
        _ => output.count() == 0,
    };
    require!(!unfit, "Indices and updates specified for empty output.  indices shape: {indices}");
    let (batch, depth) = match indices.dims() {
        [batch @ .., depth] => (batch, *depth as usize),
        [] => return Err(invalid!("Indices shape must have rank at least one. Found:{indices}")),
    };
    let outer = batch.len();
    require!(
        updates.starts_with(batch),
        "Dimensions [0,{outer}) of indices[shape={indices}] must match dimensions [0,{outer}) of \
         updates[shape={updates}]"
    );
    require!(
        depth <= output.rank() && updates[outer..] == output[depth..],
        "Dimensions [{depth},{}) of input[shape={output}] must match dimensions [{outer},{}) of \
         updates[shape={updates}]",
        output.rank(),
        updates.rank()
    );
    Ok(depth)
}

/// For each tuple the number of the slice that it names; bad ones name none if they are to be ignored. Of several bad ones, the last
/// is reported.
pub(crate) fn rows(
    indices: &Tensor,
    sizes: &[i64],
    output: &Shape,
    ignores: bool,
) -> Result<Vec<usize>> {
    let values = indices.to_i64s()?;
    let batch = Shape::new(&indices.shape()[..indices.rank() - 1])?;
    let mut rows = Vec::with_capacity(batch.count());
    let mut last_bad = None;
    for number in 0..batch.count() {
        let tuple = &values[number * sizes.len()..(number + 1) * sizes.len()];
        let inside = tuple.iter().zip(sizes).all(|(index, size)| (0..*size).contains(index));
        if !inside {
            last_bad = Some((number, tuple));
        }
        let row = tuple.iter().zip(sizes).fold(0, |row, (&index, &size)| {
            if inside { row * size as usize + index as usize } else { LEFT_OUT }
        });
        rows.push(row);
    }
    match last_bad {
        Some((number, tuple)) if !ignores => {
            let tuple: Vec<String> = tuple.iter().map(i64::to_string).collect();
            Err(invalid!(
                "indices{} = [{}] does not index into shape {output}",
                batch.coordinates(number),
                tuple.join(", ")
            ))
        }
        _ => Ok(rows),
    }
}

fn add(out: &mut Tensor, updates: &Tensor, rows: &[usize], depth: usize) -> Result<()> {
    let width = out.shape()[depth..].iter().product::<i64>() as usize;
    let (sums, terms) = (out.elems_mut()?, updates.elems());
    match terms.dtype() {
        DType::BOOL => {
            let (sums, terms) = (sums.typed::<bool>(), terms.typed());
            fold_rows(sums, terms, rows, width, |sum, term: &bool| *sum |= term);
        }
        DType::STRING => {
            let (sums, terms) = (sums.typed::<TString>(), terms.typed());
            fold_rows(sums, terms, rows, width, |sum, term: &TString| {
                *sum = TString::from([sum.as_bytes(), term.as_bytes()].concat().as_slice());
            });
        }
        dtype => {
            let add = add_rows(dtype).ok_or_else(|| internal!("No sums of type {dtype}"))?;
            add(sums, terms, rows, width);
        }
    }
    Ok(())
}

fn fold_rows<T>(
    sums: &mut [T],
    terms: &[T],
    rows: &[usize],
    width: usize,
    fold: impl Fn(&mut T, &T),
) {
    for (terms, &row) in terms.chunks_exact(width.max(1)).zip(rows) {
        if row != LEFT_OUT {
            let sums = &mut sums[row * width..(row + 1) * width];
            sums.iter_mut().zip(terms).for_each(|(sum, term)| fold(sum, term));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    fn attrs(dtype: DType, policy: &str) -> [(&'static str, AttrValue); 3] {
        [
            ("T", of(dtype)),
            ("Tindices", of(DType::INT32)),
            ("bad_indices_policy", AttrValue::string(policy)),
        ]
    }

    #[test]
    fn slices_are_added() {
        let int = attrs(DType::INT32, "");
        let cases = [
            (tensor(&[3, 1], &[3, 0, 3]), ints(&[5, 6, 7]), ints(&[4]), vec![6, 0, 0, 12]),
            (tensor(&[2, 2], &[0, 1, 1, 0]), ints(&[5, 6]), ints(&[2, 2]), vec![0, 5, 6, 0]),
            (tensor(&[1, 1], &[1]), tensor(&[1, 2], &[5, 6]), ints(&[2, 2]), vec![0, 0, 5, 6]),
            (tensor::<i32>(&[0, 1], &[]), ints(&[]), ints(&[2]), vec![0, 0]),
        ];
        for (indices, updates, shape, expected) in cases {
            let found = values::<i32>("ScatterNd", &int, &[indices, updates, shape]).unwrap();
            assert_eq!(found.1, expected);
        }
        let inputs = [ints(&[1, 2, 3]), tensor(&[2, 1], &[2, 2]), ints(&[10, 20])];
        let found = values::<i32>("ScatterNdNonAliasingAdd", &int, &inputs).unwrap();
        assert_eq!(found.1, [1, 2, 33]);
        let twice = tensor(&[2, 1], &[1, 1]);
        let inputs = [twice.clone(), tensor(&[2], &[true, true]), ints(&[2])];
        let found = values::<bool>("ScatterNd", &attrs(DType::BOOL, ""), &inputs).unwrap();
        assert_eq!(found.1, [false, true]);
        let words = tensor(&[2], &[TString::from(&b"a"[..]), TString::from(&b"b"[..])]);
        let inputs = [twice, words, ints(&[2])];
        let found = values::<TString>("ScatterNd", &attrs(DType::STRING, ""), &inputs).unwrap();
        assert_eq!(found.1[1].as_bytes(), b"ab");
    }

    #[test]
    fn what_does_not_fit() {
        let cases = [
            (
                tensor(&[2, 1], &[0, 4]),
                ints(&[5, 6]),
                ints(&[4]),
                "indices[1] = [4] does not index into shape [4]",
            ),
            (
                tensor(&[2, 2], &[0, 1, 1, 5]),
                ints(&[5, 6]),
                ints(&[2, 3]),
                "indices[1] = [1, 5] does not index into shape [2,3]",
            ),
            (
                tensor(&[2, 1], &[0, 3]),
                ints(&[5, 6, 7]),
                ints(&[4]),
                "Dimensions [0,1) of indices[shape=[2,1]] must match dimensions [0,1) of updates[shape=[3]]",
            ),
            (
                tensor(&[2, 2], &[0, 0, 1, 1]),
                ints(&[5, 6]),
                ints(&[4]),
                "Dimensions [2,1) of input[shape=[4]] must match dimensions [1,1) of updates[shape=[2]]",
            ),
            (
                Tensor::scalar(1),
                ints(&[5]),
                ints(&[4]),
                "Indices shape must have rank at least one. Found:[]",
            ),
            (
                tensor(&[1, 1], &[0]),
                ints(&[5]),
                ints(&[0]),
                "Indices and updates specified for empty output.  indices shape: [1,1]",
            ),
        ];
        for (indices, updates, shape, message) in cases {
            let inputs = [indices, updates, shape];
            assert_eq!(failure("ScatterNd", &attrs(DType::INT32, ""), &inputs), message);
        }
        let bad = [tensor(&[2, 1], &[4, 1]), ints(&[5, 6]), ints(&[2])];
        let found = values::<i32>("ScatterNd", &attrs(DType::INT32, "IGNORE"), &bad).unwrap();
        assert_eq!(found.1, [0, 6]);
    }

    #[test]
    fn shapes_are_compared() {
        let shape = [(2, ints(&[4, 2]))];
        let scatter = |inputs: &str| shapes("ScatterNd", &attrs(DType::INT32, ""), inputs, &shape);
        assert_eq!(scatter("[3,1];[3,?];[2]"), "[4,2]");
        assert!(scatter("[3,1];[2,2];[2]").contains("in both shapes must be equal, but are"));
        assert!(scatter("[3,1];[3,5];[2]").contains("must match dimensions [1,2) of updates"));
    }
}
