//! Tensors made from a rule: `OneHot`, `MatrixBandPart`.

use tfcore_base::{Result, require};
use tfcore_framework::movement::{Movement, for_each_units, move_elems};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns,
};
use tfcore_tensor::{PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `OneHot(indices: TI, depth: int32, on_value: T, off_value: T) -> output: T`: along a new axis,
    // `on_value` at the index and `off_value` elsewhere.
    r.op("OneHot").shape(one_hot_shape).cpu(one_hot_kernel);
    // `MatrixBandPart(input: T, num_lower: Tindex, num_upper: Tindex) -> band: T`: of each matrix the
    // diagonal and so many below and above it, negative meaning all; zero elsewhere.
    r.op("MatrixBandPart").shape(shape_fns::unchanged).compute(band_part);
    r.op("BatchMatrixBandPart").shape(shape_fns::unknown).compute(band_part);
}

fn one_hot_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let axis = ctx.attrs.int("axis")?;
    require!(axis >= -1, "axis must be >= -1");
    let depth = ctx.operand_dim(1)?;
    let Some(dims) = ctx.input(0).dims() else {
        return Ok(());
    };
    let rank = dims.len() as i64 + 1;
    let at = if axis == -1 { rank - 1 } else { axis % rank } as usize;
    let mut dims = dims.to_vec();
    dims.insert(at, depth);
    ctx.set_output(0, dims.into_iter().collect::<PartialShape>());
    Ok(())
}

fn one_hot_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let axis = init.attrs.int("axis")?;
    kernel(move |ctx| one_hot(ctx, axis))
}

fn one_hot(ctx: &mut OpContext<'_>, axis: i64) -> Result<()> {
    let (indices, depth) = (ctx.input(0)?, ctx.input(1)?);
    let (on, off) = (ctx.input(2)?, ctx.input(3)?);
    let rank = indices.rank() as i64 + 1;
    require!(
        axis == -1 || (0..rank).contains(&axis),
        "Expected axis to be -1 or between [0, {rank}).  But received: {axis}"
    );
    for (name, tensor) in [("depth", depth), ("on_value", on), ("off_value", off)] {
        require!(tensor.rank() == 0, "{name} must be a scalar, but got: {}", tensor.shape());
    }
    let axis = if axis == -1 { indices.rank() } else { axis as usize };
    let depth = depth.to_i64s()?[0];
    require!(depth >= 0, "depth must be non-negative, got: {depth}");
    let mut dims = indices.shape().dims().to_vec();
    dims.insert(axis, depth);
    let shape = Shape::new(&dims)?;
    let positions = indices.to_i64s()?;
    let (depth, sizes) = (depth as usize, shape.to_usizes());
    ctx.produce(0, shape, |out| {
        let suffix: usize = sizes[axis + 1..].iter().product();
        for_each_units(ctx.parallel(), out, depth * suffix, &|first, mut part| {
            part.reborrow().fill(off.elems());
            let rows = &positions[first * suffix..];
            move_elems(on.elems(), part, Mark { positions: rows, depth, suffix });
        });
    })
}

/// Sets, in blocks of `depth` rows of `suffix` columns, the row that each column's position names.
struct Mark<'m> {
    positions: &'m [i64],
    depth: usize,
    suffix: usize,
}

impl Movement for Mark<'_> {
    fn run<E: Clone>(self, on: &[E], out: &mut [E]) {
        let Mark { positions, depth, suffix } = self;
        let blocks = out.chunks_exact_mut(depth * suffix).zip(positions.chunks_exact(suffix));
        for (block, positions) in blocks {
            for (column, &row) in positions.iter().enumerate() {
                if (0..depth as i64).contains(&row) {
                    block[row as usize * suffix + column].clone_from(&on[0]);
                }
            }
        }
    }
}

fn band_part(ctx: &mut OpContext<'_>) -> Result<()> {
    let (input, lower, upper) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let rank = input.rank();
    require!(rank >= 2, "input must be at least 2-dim, received shape: {}", input.shape());
    let (rows, columns) = (input.dim(rank - 2), input.dim(rank - 1));
    let bound = |tensor: &Tensor, name: &str, what: &str, most: usize| {
        require!(tensor.rank() == 0, "{name} must be scalar, got shape {}", tensor.shape());
        let bound = tensor.to_i64s()?[0];
        require!(
            bound <= most as i64,
            "{name} must be negative or less or equal to number of {what} ({most}) got: {bound}"
        );
        Ok(if bound < 0 { most } else { bound as usize })
    };
    let lower = bound(lower, "num_lower", "rows", rows)?;
    let upper = bound(upper, "num_upper", "columns", columns)?;
    let shape = input.shape().clone();
    let (mut out, forwarded) = ctx.forward_or_allocate(&[0], 0, shape)?;
    if out.count() > 0 {
        let source = match forwarded {
            Some(_) => None,
            None => Some(ctx.input(0)?.elems()),
        };
        for_each_units(ctx.parallel(), out.elems_mut()?, columns, &|first, mut part| {
            for index in 0..part.len() / columns {
                let row = (first + index) % rows;
                let begin = row.saturating_sub(lower).min(columns);
                let end = row.saturating_add(upper).saturating_add(1).min(columns).max(begin);
                let at = index * columns;
                part.slice(at..at + begin).fill_default();
                part.slice(at + end..at + columns).fill_default();
                if let Some(source) = source {
                    let from = (first + index) * columns;
                    let band = source.slice(from + begin..from + end);
                    part.slice(at + begin..at + end).copy_from(band);
                }
            }
        });
    }
    ctx.set_output(0, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;

    fn attrs(axis: i64) -> [(&'static str, AttrValue); 3] {
        [int32(), ("TI", of(DType::INT32)), ("axis", AttrValue::Int(axis))]
    }

    #[test]
    fn one_value_at_each_index() {
        let scalar = Tensor::scalar::<i32>;
        let inputs = [ints(&[1, -1, 2, 5]), scalar(3), scalar(7), scalar(0)];
        let found = values::<i32>("OneHot", &attrs(-1), &inputs).unwrap();
        assert_eq!(found, (vec![4, 3], vec![0, 7, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]));
        let found = values::<i32>("OneHot", &attrs(0), &inputs).unwrap();
        assert_eq!(found, (vec![3, 4], vec![0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 7, 0]));
        assert_eq!(shapes("OneHot", &attrs(1), "[2,?];[];[];[]", &[(1, scalar(5))]), "[2,5,?]");
    }

    #[test]
    fn bands() {
        let bounds = |lower: i64, upper: i64| {
            [counting(&[3, 3]), Tensor::scalar(lower), Tensor::scalar(upper)]
        };
        let cases = [
            (0, 0, [0, 0, 0, 0, 4, 0, 0, 0, 8]),
            (0, -1, [0, 1, 2, 0, 4, 5, 0, 0, 8]),
            (1, 0, [0, 0, 0, 3, 4, 0, 0, 7, 8]),
            (-1, -1, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ];
        for (lower, upper, expected) in cases {
            let found = values::<i32>("MatrixBandPart", &[int32()], &bounds(lower, upper)).unwrap();
            assert_eq!(found.1, expected, "{lower} {upper}");
        }
    }
}
