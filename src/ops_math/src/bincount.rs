//! Counts of integers: `Bincount`, `DenseBincount`, `RaggedBincount`.

use tfcore_base::{LoopFor, Numbers, Result, TypedLoop, invalid, require};
use tfcore_framework::{InferenceContext, OpContext, Registry, kernel, shape_ops};
use tfcore_tensor::{Dim, Elems, ElemsMut, PartialShape, Shape, Tensor};

use crate::number::{Number, Ring};

pub(crate) fn register(r: &mut Registry) {
    // `Bincount(arr: int32, size: int32, weights: T) -> bins: T`: `bins[i]` is the sum of the weights of the elements that
    // are i, or their number where `weights` is empty. Elements from `size` on are left out.
    r.op("Bincount")
        .shape(|ctx| {
            let size = counted(ctx, 1)?;
            ctx.set_output(0, PartialShape::vector(size.unwrap_or(Dim::UNKNOWN)));
            Ok(())
        })
        .typed::<CountForm, Numbers>("T", bincount);
    // `DenseBincount(input: Tidx, size: Tidx, weights: T) -> output: T`, as `Bincount`, row by row for a matrix; 1 for
    // what occurs at all if `binary_output`.
    r.op("DenseBincount").shape(dense_shape).typed_kernel::<CountForm, Numbers>(
        "T",
        |init, body| {
            let binary = init.attrs.bool("binary_output")?;
            kernel(move |ctx| dense_bincount(ctx, body, binary))
        },
    );
    // `RaggedBincount(splits: int64, values: Tidx, size: Tidx, weights: T) -> output: T`, as `DenseBincount`, for the
    // rows of a ragged matrix.
    r.op("RaggedBincount")
        .shape(|ctx| {
            let size = counted(ctx, 2)?;
            let Some(size) = size else {
                return Ok(());
            };
            let splits = shape_ops::with_rank(ctx.input(0), 1)?;
            let rows = shape_ops::subtract(splits.dim(0), 1)?;
            ctx.set_output(0, PartialShape::matrix(rows, size));
            Ok(())
        })
        .typed_kernel::<CountForm, Numbers>("T", |init, body| {
            let binary = init.attrs.bool("binary_output")?;
            kernel(move |ctx| ragged_bincount(ctx, body, binary))
        });
}

/// The constant number of bins at input `index`; `None` where it is not known.
///
/// # Errors
/// `InvalidArgument` for a negative number or another rank.
fn counted(ctx: &mut InferenceContext<'_>, index: usize) -> Result<Option<Dim>> {
    let Some(operand) = ctx.operand(index) else {
        return Ok(None);
    };
    require!(operand.rank() == 0, "Shape must be rank 0 but is rank {}", operand.rank());
    let size = operand.to_i64s()?[0];
    require!(size >= 0, "size ({size}) must be non-negative");
    Ok(Some(Dim::new(size)))
}

fn dense_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = ctx.input(0);
    let size = counted(ctx, 1)?;
    let shape = match (input.rank(), size) {
        (None, _) => return Ok(()),
        (Some(0), _) => return Err(invalid!("Shape must be at least rank 1 but is rank 0")),
        (Some(3..), _) => {
            return Err(invalid!(
                "Shape must be at most rank 2 but is rank {}",
                input.rank().unwrap_or_default()
            ));
        }
        // Without the number of bins, that of rows is left open too, as in the reference.
        (Some(rank), None) => PartialShape::of_rank(rank),
        (Some(1), Some(size)) => PartialShape::vector(size),
        (Some(_), Some(size)) => PartialShape::matrix(input.dim(0), size),
    };
    ctx.set_output(0, shape);
    Ok(())
}

/// Adds weights, or 1 where there are none, to the bins of `values`; sets the bins to 1 if `binary`. Values that are no bin
/// are left out.
type CountLoop = fn(values: &[i64], weights: Option<Elems<'_>>, binary: bool, bins: ElemsMut<'_>);

struct CountForm;

impl TypedLoop for CountForm {
    type Loop = CountLoop;
}

impl<T: Number<Wide: Ring>> LoopFor<T> for CountForm {
    const LOOP: CountLoop = |values, weights, binary, bins| {
        let bins = bins.typed::<T>();
        let weights = weights.map(|weights| weights.typed::<T>());
        let one = T::narrow(Ring::ONE);
        for (index, &value) in values.iter().enumerate() {
            let Some(bin) = usize::try_from(value).ok().and_then(|value| bins.get_mut(value))
            else {
                continue;
            };
            *bin = match weights {
                _ if binary => one,
                Some(weights) => T::narrow(bin.widen().plus(weights[index].widen())),
                None => T::narrow(bin.widen().plus(Ring::ONE)),
            };
        }
    };
}

/// The number of bins.
fn size_of(size: &Tensor) -> Result<i64> {
    require!(size.rank() == 0, "Shape must be rank 0 but is rank {}", size.rank());
    let size = size.to_i64s()?[0];
    require!(size >= 0, "size ({size}) must be non-negative");
    Ok(size)
}

/// The weights, if there are any.
fn weights_of(weights: &Tensor) -> Option<Elems<'_>> {
    (weights.count() > 0).then(|| weights.elems())
}

fn bincount(ctx: &mut OpContext<'_>, body: CountLoop) -> Result<()> {
    let size = size_of(ctx.input(1)?)?;
    let mut out = ctx.allocate_zeros(ctx.output_dtype(0), Shape::new(&[size])?)?;
    let (values, weights) = (ctx.input(0)?.to_i64s()?, ctx.input(2)?);
    require!(values.iter().all(|&value| value >= 0), "Input arr must be non-negative!");
    require!(
        weights.count() == 0 || weights.count() == values.len(),
        "Input indices and weights must have the same size."
    );
    body(&values, weights_of(weights), false, out.elems_mut()?);
    ctx.set_output(0, out);
    Ok(())
}

fn dense_bincount(ctx: &mut OpContext<'_>, body: CountLoop, binary: bool) -> Result<()> {
    let (input, weights) = (ctx.input(0)?, ctx.input(2)?);
    require!(input.rank() <= 2, "Shape must be at most rank 2 but is rank {}", input.rank());
    require!(
        weights.shape() == input.shape() || weights.count() == 0,
        "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts as \
         all weights equal to 1. Received {}",
        weights.shape()
    );
    let size = size_of(ctx.input(1)?)?;
    let values = input.to_i64s()?;
    let negative = values.iter().find(|&&value| value < 0);
    if let Some(negative) = negative {
        return Err(match input.rank() {
            2 => {
                invalid!("Input 'in' must be non-negative! Negative input value found: {negative}")
            }
            _ => invalid!("Input arr must be non-negative!"),
        });
    }
    let weights = weights_of(weights);
    if input.rank() < 2 {
        let mut out = ctx.allocate_zeros(ctx.output_dtype(0), Shape::new(&[size])?)?;
        body(&values, weights, binary, out.elems_mut()?);
        ctx.set_output(0, out);
        return Ok(());
    }
    let (rows, width) = (input.dim(0), input.dim(1));
    let shape = Shape::new(&[rows as i64, size])?;
    let mut out = ctx.allocate_zeros(ctx.output_dtype(0), shape)?;
    let mut bins = out.elems_mut()?;
    for row in 0..rows {
        let range = row * width..(row + 1) * width;
        let weights = weights.map(|weights| weights.slice(range.clone()));
        let size = size as usize;
        body(&values[range], weights, binary, bins.slice(row * size..(row + 1) * size));
    }
    ctx.set_output(0, out);
    Ok(())
}

fn ragged_bincount(ctx: &mut OpContext<'_>, body: CountLoop, binary: bool) -> Result<()> {
    let size = size_of(ctx.input(2)?)?;
    let (splits, values) = (ctx.input(0)?.to_i64s()?, ctx.input(1)?.to_i64s()?);
    let (Some(&first), Some(&last)) = (splits.first(), splits.last()) else {
        return Err(invalid!("Splits must be non-empty"));
    };
    require!(first == 0, "Splits must start with 0, not with {first}");
    require!(
        last == values.len() as i64,
        "Splits must end with the number of values, got {last} instead of {}",
        values.len()
    );
    let weights = ctx.input(3)?;
    require!(
        binary || weights.count() == 0 || weights.count() == values.len(),
        "Input indices and weights must have the same size."
    );
    let weights = weights_of(weights).filter(|_| !binary);
    let rows = splits.len() - 1;
    let shape = Shape::new(&[rows as i64, size])?;
    let mut out = ctx.allocate_zeros(ctx.output_dtype(0), shape)?;
    let (mut bins, size) = (out.elems_mut()?, size as usize);
    // A value belongs to the first row whose end has not been passed, so that a split below its predecessor makes an
    // empty row.
    let (mut row, mut start) = (0, 0);
    while start < values.len() {
        let Some(&end) = splits.get(row + 1) else {
            break;
        };
        let end = usize::try_from(end).unwrap_or(0).min(values.len());
        if end > start {
            let part = &values[start..end];
            require!(part.iter().all(|&value| value >= 0), "Input must be non-negative");
            let weights = weights.map(|weights| weights.slice(start..end));
            body(part, weights, binary, bins.slice(row * size..(row + 1) * size));
            start = end;
        }
        row += 1;
    }
    ctx.set_output(0, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::testing::{floats, infer, registry_of, run_op, tensor};
    use tfcore_framework::{AttrValue, Registry};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn run(op: &str, inputs: &[Tensor], binary: bool) -> Result<Vec<f32>> {
        let attrs = [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("Tidx", AttrValue::Type(DType::INT32)),
            ("binary_output", AttrValue::Bool(binary)),
        ];
        let attrs = if op == "Bincount" { &attrs[..1] } else { &attrs };
        Ok(run_op(&registry(), op, attrs, inputs)?[0].as_slice()?.to_vec())
    }

    #[test]
    fn counts() {
        let (none, size) = (floats(&[0], &[]), Tensor::scalar(4i32));
        let values = tensor(&[4], &[1, 2, 1, 7]);
        let plain = [values.clone(), size.clone(), none.clone()];
        let weighted = [values, size.clone(), floats(&[4], &[0.5, 2.0, 0.25, 9.0])];
        assert_eq!(run("Bincount", &plain, false).unwrap(), [0.0, 2.0, 1.0, 0.0]);
        assert_eq!(run("DenseBincount", &weighted, false).unwrap(), [0.0, 0.75, 2.0, 0.0]);
        assert_eq!(run("DenseBincount", &weighted, true).unwrap(), [0.0, 1.0, 1.0, 0.0]);
        let rows = [tensor(&[2, 2], &[0, 0, 3, 1]), size.clone(), none.clone()];
        let expected = [2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0];
        assert_eq!(run("DenseBincount", &rows, false).unwrap(), expected);
        let splits = tensor(&[4], &[0i64, 2, 1, 3]);
        let ragged = [splits, tensor(&[3], &[1, 2, 1]), size, none];
        // As in the reference: the last value is of the last row.
        let expected = [[0.0, 1.0, 1.0, 0.0], [0.0; 4], [0.0, 1.0, 0.0, 0.0]].concat();
        assert_eq!(run("RaggedBincount", &ragged, false).unwrap(), expected);
    }

    #[test]
    fn what_does_not_fit() {
        let none = || floats(&[0], &[]);
        let size = |size: i32| Tensor::scalar(size);
        let values = |values: &[i32]| tensor(&[values.len() as i64], values);
        let ragged = |splits: &[i64]| {
            [tensor(&[splits.len() as i64], splits), values(&[1, 2]), size(3), none()].to_vec()
        };
        let cases = [
            ("Bincount", vec![values(&[-1]), size(3), none()], "Input arr must be non-negative!"),
            ("Bincount", vec![values(&[1]), size(-3), none()], "size (-3) must be non-negative"),
            ("RaggedBincount", ragged(&[]), "Splits must be non-empty"),
            ("RaggedBincount", ragged(&[1, 2]), "Splits must start with 0, not with 1"),
            (
                "RaggedBincount",
                ragged(&[0, 3]),
                "Splits must end with the number of values, got 3 instead of 2",
            ),
        ];
        for (op, inputs, message) in cases {
            assert_eq!(run(op, &inputs, false).unwrap_err().message(), message);
        }
        let attrs = [("T", AttrValue::Type(DType::FLOAT)), ("Tidx", AttrValue::Type(DType::INT32))];
        let infer = |inputs: &str, size: &[(usize, Tensor)]| {
            infer(&registry(), "DenseBincount", &attrs, inputs, size).unwrap()
        };
        assert_eq!(infer("[2,?];[];?", &[(1, Tensor::scalar(5i32))]), "[2,5]");
        assert_eq!(infer("[?];[];?", &[]), "[?]");
        assert_eq!(infer("?;[];?", &[]), "?");
    }
}
