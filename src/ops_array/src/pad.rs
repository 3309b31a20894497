//! Ops that surround a tensor: `Pad`, `PadV2`, `MirrorPad`.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::movement::{Movement, for_each_units, move_elems};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, Elems, PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `Pad(input: T, paddings: Tpaddings) -> output: T`, with zeros around.
    r.op("Pad").shape(pad_shape).compute(pad);
    // `PadV2(input: T, paddings: Tpaddings, constant_values: T) -> output: T`.
    r.op("PadV2").shape(pad_shape).compute(pad);
    // `MirrorPad(input: T, paddings: Tpaddings) -> output: T`, with a reflection around: `SYMMETRIC`
    // repeats the border, `REFLECT` does not.
    r.op("MirrorPad").shape(pad_shape).cpu(mirror_pad_kernel);
}

/// Every dimension grows by its two paddings.
fn pad_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let paddings_shape = shape_ops::with_rank(ctx.input(1), 2)?;
    shape_ops::with_value(paddings_shape.dim(1), 2)?;
    let rows = paddings_shape.dim(0);
    let input = match (rows.value(), ctx.input(0).rank()) {
        (Some(rank), _) => {
            shape_ops::with_rank(ctx.input(0), usize::try_from(rank).unwrap_or(usize::MAX))?
        }
        _ => ctx.input(0).clone(),
    };
    let Some(paddings) = ctx.operand_i64s(1)? else {
        ctx.set_output(0, input.rank().map_or_else(PartialShape::unknown, PartialShape::of_rank));
        return Ok(());
    };
    let input = shape_ops::with_rank(&input, paddings.len() / 2)?;
    let mut dims: Vec<Dim> = Vec::with_capacity(paddings.len() / 2);
    for (axis, pair) in paddings.chunks_exact(2).enumerate() {
        require!(pair[0] >= 0 && pair[1] >= 0, "Paddings must be non-negative");
        let sum = shape_ops::add(Dim::new(pair[0]), pair[1])?;
        dims.push(shape_ops::add(input.dim(axis), sum)?);
    }
    ctx.set_output(0, dims.into_iter().collect());
    Ok(())
}

/// How many elements come before and after, by axis.
pub(crate) struct Paddings(pub(crate) Vec<[i64; 2]>);

impl Paddings {
    pub(crate) fn new(input: &Tensor, paddings: &Tensor) -> Result<Paddings> {
        require!(
            paddings.rank() == 2 && paddings.dim(1) == 2,
            "paddings must be a matrix with 2 columns: {}",
            paddings.shape()
        );
        require!(
            paddings.dim(0) == input.rank(),
            "The first dimension of paddings must be the rank of inputs{} {}",
            paddings.shape(),
            input.shape()
        );
        let values = paddings.to_i64s()?;
        Ok(Paddings(values.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect()))
    }

    fn is_none(&self) -> bool {
        self.0.iter().all(|pair| *pair == [0, 0])
    }

    fn output(&self, input: &Shape) -> Result<Shape> {
        let dims = input.iter().zip(&self.0).map(|(&size, &[before, after])| {
            size.checked_add(before)
                .and_then(|sum| sum.checked_add(after))
                .ok_or_else(|| invalid!("Paddings overflow: {before} {after}"))
        });
        Shape::new(&dims.collect::<Result<Vec<i64>>>()?)
    }
}

/// The source index of every index along an axis of the output, or `None` in a padding.
type AxisMap = Vec<Option<usize>>;

fn pad(ctx: &mut OpContext<'_>) -> Result<()> {
    let (input, paddings) = (ctx.input(0)?, ctx.input(1)?);
    let paddings = Paddings::new(input, paddings)?;
    let value = match ctx.num_inputs() {
        2 => Tensor::zeros(input.dtype(), Shape::scalar())?,
        _ => ctx.input(2)?.clone(),
    };
    require!(
        value.rank() == 0,
        "Constant padding value must be scalar, but got shape {}",
        value.shape()
    );
    for [before, after] in &paddings.0 {
        require!(*before >= 0 && *after >= 0, "Paddings must be non-negative: {before} {after}");
    }
    let axis_map = |size: usize, [before, after]: [i64; 2]| {
        let around = |count: i64| std::iter::repeat_n(None, count as usize);
        around(before).chain((0..size).map(Some)).chain(around(after)).collect()
    };
    fill_padded(ctx, &paddings, &axis_map, Some(value.elems()))
}

fn mirror_pad_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let reflects = init.attrs.str("mode")? == "REFLECT";
    kernel(move |ctx| {
        let (input, paddings) = (ctx.input(0)?, ctx.input(1)?);
        let paddings = Paddings::new(input, paddings)?;
        for (axis, &[before, after]) in paddings.0.iter().enumerate() {
            let size = input.shape()[axis];
            require!(before >= 0 && after >= 0, "paddings must be non-negative: {before} {after}");
            let most = before.max(after);
            require!(
                reflects || most <= size,
                "paddings must be no greater than the dimension size: {before}, {after} greater than {size}"
            );
            require!(
                !reflects || most < size,
                "paddings must be less than the dimension size: {before}, {after} not less than {size}"
            );
        }
        // How many elements of the border a reflection leaves out.
        let skip = usize::from(reflects);
        let axis_map = |size: usize, [before, after]: [i64; 2]| {
            let before = (skip..before as usize + skip).rev();
            let after = (0..after as usize).map(|step| size - 1 - skip - step);
            before.chain(0..size).chain(after).map(Some).collect()
        };
        fill_padded(ctx, &paddings, &axis_map, None)
    })
}

/// Sets output 0 to input 0 with every axis mapped; `value` stands where a map has no index.
fn fill_padded(
    ctx: &mut OpContext<'_>,
    paddings: &Paddings,
    axis_map: &dyn Fn(usize, [i64; 2]) -> AxisMap,
    value: Option<Elems<'_>>,
) -> Result<()> {
    if paddings.is_none() {
        let out = ctx.take_input(0)?;
        ctx.set_output(0, out);
        return Ok(());
    }
    let input = ctx.input(0)?;
    let shape = paddings.output(input.shape())?;
    ctx.produce(0, shape, |out| {
        let sizes = input.shape().to_usizes();
        // Trailing axes without paddings move as one with the last axis that has some.
        let last = paddings.0.iter().rposition(|pair| *pair != [0, 0]).unwrap_or(0);
        let block: usize = sizes[last + 1..].iter().product();
        let maps: Vec<AxisMap> =
            (0..=last).map(|axis| axis_map(sizes[axis], paddings.0[axis])).collect();
        let strides = input.shape().strides();
        let plan = PadPlan { maps: &maps, strides: &strides[..=last], block };
        let row = maps[last].len() * block;
        for_each_units(ctx.parallel(), out, row, &|first, mut part| {
            // Rows are filled with the padding and then written, so few at a time that both stay near.
            let step = (CACHED_BYTES / (row * part.dtype().size())).max(1);
            let rows = part.len() / row;
            for begin in (0..rows).step_by(step) {
                let end = (begin + step).min(rows);
                let mut block = part.slice(begin * row..end * row);
                if let Some(value) = value {
                    block.reborrow().fill(value);
                }
                move_elems(input.elems(), block, PadRows { plan: &plan, first: first + begin });
            }
        });
    })
}

/// Bytes that fit the first-level cache with room to spare.
const CACHED_BYTES: usize = 16 * 1024;

struct PadPlan<'p> {
    /// From the outermost axis to the last that is padded.
    maps: &'p [AxisMap],
    /// The input's, for the same axes.
    strides: &'p [usize],
    /// Elements that belong to one index of the last axis.
    block: usize,
}

/// Copies what is not padding into rows of the last padded axis.
struct PadRows<'p> {
    plan: &'p PadPlan<'p>,
    /// The number of the first row.
    first: usize,
}

impl Movement for PadRows<'_> {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        let PadPlan { maps, strides, block } = *self.plan;
        let last = maps.len() - 1;
        let map = &maps[last];
        // Paddings of a constant surround one run; reflections do not, and go index by index.
        let begin = map.iter().position(Option::is_some).unwrap_or(map.len());
        let inside = map.iter().flatten().count();
        let is_run = map[begin..].iter().take(inside).enumerate().all(|(i, at)| *at == Some(i));
        for (row, out) in out.chunks_exact_mut(map.len() * block).enumerate() {
            let Some(at) = outer_index(&maps[..last], strides, self.first + row) else {
                continue;
            };
            if is_run {
                let len = inside * block;
                out[begin * block..begin * block + len].clone_from_slice(&source[at..at + len]);
                continue;
            }
            for (out, index) in out.chunks_exact_mut(block).zip(map.iter().flatten()) {
                let at = at + index * block;
                out.clone_from_slice(&source[at..at + block]);
            }
        }
    }
}

/// Where row number `row` of the output begins in the input, unless it is all padding.
fn outer_index(maps: &[AxisMap], strides: &[usize], row: usize) -> Option<usize> {
    let mut rest = row;
    let mut at = 0;
    for (map, stride) in maps.iter().zip(strides).rev() {
        at += map[rest % map.len()]? * stride;
        rest /= map.len();
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    #[test]
    fn constants_go_around() {
        let x = counting(&[2, 2]);
        let paddings = tensor(&[2, 2], &[0i32, 1, 2, 0]);
        let found =
            values::<i32>("PadV2", &[int32()], &[x.clone(), paddings, Tensor::scalar(9i32)]);
        assert_eq!(found.unwrap(), (vec![3, 4], vec![9, 9, 0, 1, 9, 9, 2, 3, 9, 9, 9, 9]));
        let outer = tensor(&[2, 2], &[1i32, 0, 0, 0]);
        let found = values::<i32>("Pad", &[int32()], &[x.clone(), outer]).unwrap();
        assert_eq!(found.1, [0, 0, 0, 1, 2, 3]);
        let negative = tensor(&[2, 2], &[-1i32, 0, 0, 0]);
        assert_eq!(
            failure("Pad", &[int32()], &[x, negative]),
            "Paddings must be non-negative: -1 0"
        );
    }

    #[test]
    fn mirrors() {
        let x = || counting(&[2, 3]);
        let mode = |mode: &str| [int32(), ("mode", AttrValue::string(mode))];
        let paddings = || tensor(&[2, 2], &[0i32, 1, 2, 1]);
        let found = values::<i32>("MirrorPad", &mode("REFLECT"), &[x(), paddings()]).unwrap();
        let expected = [2, 1, 0, 1, 2, 1, 5, 4, 3, 4, 5, 4, 2, 1, 0, 1, 2, 1];
        assert_eq!(found, (vec![3, 6], expected.to_vec()));
        let found = values::<i32>("MirrorPad", &mode("SYMMETRIC"), &[x(), paddings()]).unwrap();
        assert_eq!(found.1, [1, 0, 0, 1, 2, 2, 4, 3, 3, 4, 5, 5, 4, 3, 3, 4, 5, 5]);
        let wide = tensor(&[2, 2], &[2i32, 0, 0, 0]);
        let message = failure("MirrorPad", &mode("REFLECT"), &[x(), wide]);
        assert_eq!(message, "paddings must be less than the dimension size: 2, 0 not less than 2");
    }

    #[test]
    fn shapes_grow() {
        let constants = [(1, tensor(&[2, 2], &[1i32, 1, 0, 3]))];
        assert_eq!(shapes("Pad", &[int32()], "[2,?];[2,2]", &constants), "[4,?]");
        assert_eq!(shapes("Pad", &[int32()], "?;[2,2]", &[]), "[?,?]");
        assert_eq!(
            shapes("Pad", &[int32()], "[2];[2,2]", &[]),
            "Shape must be rank 2 but is rank 1"
        );
    }
}
