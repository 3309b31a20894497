//! Ops that exchange places in space for batch entries or channels: `SpaceToBatch`, `BatchToSpace`, their forms for any number
//! of axes, `SpaceToDepth`, `DepthToSpace`.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::geometry::{StridedDim, StridedView};
use tfcore_framework::movement::{Movement, copy_view, for_each_units, move_elems};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::no_kernel;

pub(crate) fn register(r: &mut Registry) {
    // `SpaceToBatchND(input: T, block_shape: Tblock_shape, paddings: Tpaddings) -> output: T`: the input, padded with zeros,
    // is cut into blocks. `output[o * batch + b, i..] = padded[b, i.. * block.. + o..]`.
    r.op("SpaceToBatchND").shape(|ctx| nd_shape(ctx, &TO_BATCH)).compute(|ctx| nd(ctx, &TO_BATCH));
    // `SpaceToBatch(input: T, paddings: Tpaddings) -> output: T`, the same for square blocks of images.
    r.op("SpaceToBatch")
        .shape(|ctx| image_shape(ctx, &TO_BATCH))
        .cpu(|init| image_kernel(init, &TO_BATCH));
    // `BatchToSpaceND(input: T, block_shape: Tblock_shape, crops: Tcrops) -> output: T`, the way back; the result is cropped.
    r.op("BatchToSpaceND").shape(|ctx| nd_shape(ctx, &TO_SPACE)).compute(|ctx| nd(ctx, &TO_SPACE));
    // `BatchToSpace(input: T, crops: Tidx) -> output: T`.
    r.op("BatchToSpace")
        .shape(|ctx| image_shape(ctx, &TO_SPACE))
        .cpu(|init| image_kernel(init, &TO_SPACE));
    // `SpaceToDepth(input: T) -> output: T`: the elements of a block become channels of one place.
    r.op("SpaceToDepth").shape(|ctx| depth_shape(ctx, false)).cpu(|init| depth_kernel(init, false));
    // `DepthToSpace(input: T) -> output: T`, the way back.
    r.op("DepthToSpace").shape(|ctx| depth_shape(ctx, true)).cpu(|init| depth_kernel(init, true));
}

/// The direction of a move, and its name for the operand that pads or crops.
struct Direction {
    to_batch: bool,
    margins: &'static str,
}

const TO_BATCH: Direction = Direction { to_batch: true, margins: "paddings" };
const TO_SPACE: Direction = Direction { to_batch: false, margins: "crops" };

/// The number of axes that blocks may have after those with neither blocks nor margins are left out.
const MAX_BLOCK_AXES: usize = 4;

fn nd_shape(ctx: &mut InferenceContext<'_>, direction: &Direction) -> Result<()> {
    let block_shape = ctx.input(1).clone();
    let block = ctx.operand_i64s(1)?;
    infer(ctx, direction, ctx.input(0).clone(), &block_shape, block, 2)
}

fn image_shape(ctx: &mut InferenceContext<'_>, direction: &Direction) -> Result<()> {
    let input = shape_ops::with_rank(ctx.input(0), 4)?;
    let block = ctx.attrs.int("block_size")?;
    infer(ctx, direction, input, &PartialShape::vector(2), Some(vec![block; 2]), 1)
}

/// Sets the shape of output 0; `margins` is the number of the operand that pads or crops.
fn infer(
    ctx: &mut InferenceContext<'_>,
    direction: &Direction,
    input: PartialShape,
    block_shape: &PartialShape,
    block: Option<Vec<i64>>,
    margins: usize,
) -> Result<()> {
    require!(block_shape.rank() == Some(1), "block_shape must have rank 1.");
    let axes = block_shape.dim(0).value().and_then(|axes| usize::try_from(axes).ok());
    let axes = axes.ok_or_else(|| invalid!("block_shape must have known size."))?;
    let input = shape_ops::with_rank_at_least(&input, axes.saturating_add(1))?;
    let margins_shape = shape_ops::with_rank(ctx.input(margins), 2)?;
    shape_ops::merge(&margins_shape, &PartialShape::matrix(axes as i64, 2))?;
    let input_dim = |axis: usize| input.dims().map_or(Dim::UNKNOWN, |dims| dims[axis]);

    let mut batch = input_dim(0);
    match block.as_deref() {
        Some(sizes) => {
            for &size in sizes {
                require!(size >= 1, "block_shape must be positive");
                batch = match (batch.is_known(), direction.to_batch) {
                    (false, _) => Dim::UNKNOWN,
                    (true, true) => shape_ops::multiply(batch, size)?,
                    (true, false) => shape_ops::divide(batch, size, true)?,
                };
            }
        }
        None if axes > 0 => batch = Dim::UNKNOWN,
        None => {}
    }
    let mut dims = vec![batch];
    let known = ctx.operand_i64s(margins)?;
    for axis in 0..axes {
        let Some(margins) = &known else {
            dims.push(Dim::UNKNOWN);
            continue;
        };
        let (before, after) = (margins[2 * axis], margins[2 * axis + 1]);
        require!(before >= 0 && after >= 0, "{} cannot be negative", direction.margins);
        let size = input_dim(axis + 1);
        dims.push(match &block {
            None => Dim::UNKNOWN,
            Some(block) if direction.to_batch => {
                let padded = shape_ops::add(shape_ops::add(size, before)?, after)?;
                shape_ops::divide(padded, block[axis], true)?
            }
            Some(block) => {
                let whole = shape_ops::multiply(size, block[axis])?;
                shape_ops::subtract(shape_ops::subtract(whole, before)?, after)?
            }
        });
    }
    let rest = shape_ops::subshape(&input, axes as i64 + 1, None)?;
    ctx.set_output(0, shape_ops::concatenate(&dims.into_iter().collect(), &rest));
    Ok(())
}

fn nd(ctx: &mut OpContext<'_>, direction: &Direction) -> Result<()> {
    let block = ctx.input(1)?;
    require!(block.rank() == 1, "block_shape rank should be 1 instead of {}", block.rank());
    let block = block.to_i64s()?;
    run(ctx, direction, &block, 2)
}

fn image_kernel(init: &KernelInit<'_>, direction: &'static Direction) -> Result<Box<dyn Kernel>> {
    let size = init.attrs.int("block_size")?;
    require!(size > 1, "Block size should be > 1: {size}");
    kernel(move |ctx| {
        let rank = ctx.input(0)?.rank();
        require!(rank == 4, "Input rank should be: 4instead of: {rank}");
        run(ctx, direction, &[size; 2], 1)
    })
}

/// Moves input 0; `margins` is the number of the input that pads or crops.
fn run(
    ctx: &mut OpContext<'_>,
    direction: &Direction,
    block: &[i64],
    margins: usize,
) -> Result<()> {
    let input = ctx.input(0)?;
    let axes = block.len();
    require!(
        input.rank() > axes,
        "input rank should be >= {} instead of {}",
        axes + 1,
        input.rank()
    );
    let margins = ctx.input(margins)?;
    require!(
        *margins.shape().dims() == [axes as i64, 2],
        "{} should have shape [{axes}, 2] instead of {}",
        direction.margins,
        margins.shape()
    );
    let margins = margins.to_i64s()?;
    let Some((blocks, shape)) = Blocks::new(direction, input, block, &margins)? else {
        let input = ctx.take_input(0)?;
        ctx.set_output(0, input);
        return Ok(());
    };
    let elems = input.elems();
    ctx.produce(0, shape, |mut out| {
        if direction.to_batch {
            out.reborrow().fill_default();
        }
        if elems.is_empty() {
            return;
        }
        for_each_units(ctx.parallel(), out, blocks.depth, &|first, part| {
            move_elems(elems, part, MoveBlocks { blocks: &blocks, first });
        });
    })
}

/// One axis that is cut into blocks.
struct BlockAxis {
    block: usize,
    /// Padding or cropped elements before the first one that is kept.
    before: usize,
    /// Sizes of input and output.
    input: usize,
    output: usize,
}

struct Blocks {
    to_batch: bool,
    axes: Vec<BlockAxis>,
    /// The smaller of both batches.
    batch: usize,
    /// Elements behind the axes, which stay together.
    depth: usize,
}

impl Blocks {
    /// The blocks and the shape of the output; `None` if nothing changes.
    fn new(
        direction: &Direction,
        input: &Tensor,
        block: &[i64],
        margins: &[i64],
    ) -> Result<Option<(Blocks, Shape)>> {
        let changes = |axis: &usize| margins[2 * axis..2 * axis + 2] != [0, 0] || block[*axis] != 1;
        // The axes at both ends that do not change count as batch and depth.
        let first = (0..block.len()).find(changes);
        let last = (0..block.len()).rev().find(changes);
        let mut product = Some(1i64);
        for (axis, &size) in block.iter().enumerate() {
            require!(
                size >= 1 || !direction.to_batch,
                "All values in block_shape must be positive, got value, {size} at index {axis}."
            );
            product = product.and_then(|product| product.checked_mul(size));
        }
        let product = product.unwrap_or(-1);
        require!(product > 0, "Product of block sizes must be positive, got {product}");
        let batch = input.shape()[0];
        if !direction.to_batch {
            require!(
                batch % product == 0,
                "Input batch dimension ({batch}) is not divisible by product of block sizes ({product})"
            );
        }
        let (Some(first), Some(last)) = (first, last) else {
            return Ok(None);
        };
        let inner = last + 1 - first;
        require!(
            inner <= MAX_BLOCK_AXES,
            "Maximum number of non-combined block dimensions is {inner} but must not exceed {MAX_BLOCK_AXES}"
        );
        let output_batch = if direction.to_batch {
            batch.checked_mul(product).ok_or_else(|| {
                invalid!(
                    "Negative output dimension size caused by overflow when multiplying {batch} and {product}"
                )
            })?
        } else {
            batch / product
        };
        let mut dims = vec![output_batch];
        let mut axes = Vec::with_capacity(last + 1);
        for axis in 0..=last {
            let size = input.shape()[axis + 1];
            let (block, before, after) = (block[axis], margins[2 * axis], margins[2 * axis + 1]);
            let output = if axis < first {
                size
            } else if direction.to_batch {
                require!(before >= 0 && after >= 0, "Paddings must be non-negative");
                let padded = size.checked_add(before).and_then(|sum| sum.checked_add(after));
                let padded = padded.ok_or_else(|| invalid!("Paddings are too large"))?;
                require!(
                    padded % block == 0,
                    "padded_shape[{axis}]={padded} is not divisible by block_shape[{axis}]={block}"
                );
                padded / block
            } else {
                require!(before >= 0 && after >= 0, "Crops must be non-negative");
                let whole = i128::from(size) * i128::from(block);
                let cropped = whole - i128::from(before) - i128::from(after);
                require!(cropped >= 0, "cropped_shape[{axis}]={cropped} must be non-negative");
                i64::try_from(cropped).map_err(|_| invalid!("The result is too large"))?
            };
            dims.push(output);
            axes.push(BlockAxis {
                block: block as usize,
                before: before as usize,
                input: size as usize,
                output: output as usize,
            });
        }
        let rest = &input.shape()[last + 2..];
        dims.extend(rest);
        let blocks = Blocks {
            to_batch: direction.to_batch,
            axes,
            batch: batch.min(output_batch) as usize,
            depth: rest.iter().product::<i64>() as usize,
        };
        Ok(Some((blocks, Shape::new(&dims)?)))
    }

    /// The unit of the input that unit `number` of the output is; `None` for padding.
    fn source(&self, number: usize) -> Option<usize> {
        let mut rest = number;
        // The input's batch entry, as far as the axes decide, and the place in it.
        let (mut entry, mut entries) = (0, 1);
        let (mut place, mut stride) = (0, 1);
        let mut outer = number;
        for axis in &self.axes {
            outer /= axis.output;
        }
        // For a move into the batch, the output's entry tells the place within the block.
        let mut within = outer / self.batch;
        for axis in self.axes.iter().rev() {
            let at = rest % axis.output;
            rest /= axis.output;
            let at = if self.to_batch {
                let padded = at * axis.block + within % axis.block;
                within /= axis.block;
                padded.checked_sub(axis.before).filter(|&at| at < axis.input)?
            } else {
                let whole = at + axis.before;
                entry += whole % axis.block * entries;
                entries *= axis.block;
                whole / axis.block
            };
            place += at * stride;
            stride *= axis.input;
        }
        let entry = if self.to_batch { outer % self.batch } else { entry * self.batch + outer };
        Some(entry * stride + place)
    }
}

struct MoveBlocks<'b> {
    blocks: &'b Blocks,
    /// The number of the first unit.
    first: usize,
}

impl Movement for MoveBlocks<'_> {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        let depth = self.blocks.depth;
        for (number, out) in out.chunks_exact_mut(depth).enumerate() {
            if let Some(at) = self.blocks.source(self.first + number) {
                out.clone_from_slice(&source[at * depth..(at + 1) * depth]);
            }
        }
    }
}

fn depth_shape(ctx: &mut InferenceContext<'_>, to_space: bool) -> Result<()> {
    let block = ctx.attrs.int("block_size")?;
    let format = ctx.attrs.str("data_format")?;
    let rank = if format == "NCHW_VECT_C" { 5 } else { 4 };
    let input = shape_ops::with_rank(ctx.input(0), rank)?;
    let (space, channels) = if format == "NHWC" { ([1, 2], 3) } else { ([2, 3], 1) };
    let area =
        block.checked_mul(block).ok_or_else(|| invalid!("Block size {block} is too large"))?;
    let mut dims: Vec<Dim> = input.dims().unwrap_or_default().to_vec();
    for axis in space {
        dims[axis] = match to_space {
            true => shape_ops::multiply(dims[axis], block)?,
            false => shape_ops::divide(dims[axis], block, true)?,
        };
    }
    dims[channels] = match to_space {
        true => shape_ops::divide(dims[channels], area, true)?,
        false => shape_ops::multiply(dims[channels], area)?,
    };
    if let Some(last) = dims.get_mut(4) {
        *last = Dim::new(4);
    }
    ctx.set_output(0, dims.into_iter().collect());
    Ok(())
}

/// Kernels exist for the format `NHWC` only, as in the reference on CPUs.
fn depth_kernel(init: &KernelInit<'_>, to_space: bool) -> Result<Box<dyn Kernel>> {
    let format = init.attrs.str("data_format")?;
    if format != "NHWC" {
        return Err(no_kernel(init, "data_format", format));
    }
    let block = init.attrs.int("block_size")?;
    require!(block > 1, "Block size should be > 1, but was: {block}");
    let area =
        block.checked_mul(block).ok_or_else(|| invalid!("Block size {block} is too large"))?;
    kernel(move |ctx| {
        let input = ctx.input(0)?;
        let &[batch, rows, columns, depth] = input.shape().dims() else {
            return Err(invalid!("Input rank should be: 4 instead of: {}", input.rank()));
        };
        // Both have six axes: batch, rows, rows of a block, columns, columns of a block, channels; in the input the
        // third and the fourth are exchanged, or in the output.
        let (rows, columns, channels) = if to_space {
            require!(
                depth % area == 0,
                "Input depth dimension {depth} should be divisible by: {area}"
            );
            (rows, columns, depth / area)
        } else {
            require!(
                columns % block == 0 && rows % block == 0,
                "Image width {columns} and height {rows} should be divisible by block_size: {block}"
            );
            (rows / block, columns / block, depth)
        };
        let shape = match to_space {
            true => Shape::new(&[batch, rows * block, columns * block, channels])?,
            false => Shape::new(&[batch, rows, columns, channels * area])?,
        };
        let (outer, inner) = if to_space { (columns, block) } else { (block, columns) };
        let entries = [batch * rows, inner, outer, block * channels];
        let mut stride = 1;
        let mut dims = entries.map(|size| size as usize).map(|size| StridedDim { size, stride: 0 });
        // In the input, the second and the third of the four axes stand the other way round.
        for axis in [3, 1, 2, 0] {
            dims[axis].stride = stride;
            stride *= dims[axis].size as isize;
        }
        let elems = input.elems();
        ctx.produce(0, shape, |out| {
            copy_view(ctx.parallel(), elems, &StridedView::new(0, dims), out);
        })
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    fn block(size: i64) -> [(&'static str, AttrValue); 2] {
        [int32(), ("block_size", AttrValue::Int(size))]
    }

    #[test]
    fn space_becomes_batch_and_back() {
        // The image 0 1 2 / 3 4 5 with a row of zeros below and a column of them at the left.
        let inputs = [counting(&[1, 2, 3, 1]), ints(&[2, 2]), tensor(&[2, 2], &[0, 2, 1, 0])];
        let found = values::<i32>("SpaceToBatchND", &[int32()], &inputs).unwrap();
        let batches = [0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 3, 5, 0, 0];
        assert_eq!(found, (vec![4, 2, 2, 1], batches.to_vec()));
        let back = [tensor(&[4, 2, 2, 1], &batches), ints(&[2, 2]), inputs[2].clone()];
        let found = values::<i32>("BatchToSpaceND", &[int32()], &back).unwrap();
        assert_eq!(found, (vec![1, 2, 3, 1], vec![0, 1, 2, 3, 4, 5]));
        let image = [inputs[0].clone(), inputs[2].clone()];
        let found = values::<i32>("SpaceToBatch", &block(2), &image).unwrap();
        assert_eq!(found.1, batches);
        // Two batches, and an axis before the blocks that has none.
        let inputs = [counting(&[2, 2, 2]), ints(&[1, 2]), tensor(&[2, 2], &[0, 0, 0, 0])];
        let found = values::<i32>("SpaceToBatchND", &[int32()], &inputs).unwrap();
        assert_eq!(found, (vec![4, 2, 1], vec![0, 2, 4, 6, 1, 3, 5, 7]));
    }

    #[test]
    fn blocks_that_do_not_fit() {
        let margins = |before: i32, after: i32| tensor(&[1, 2], &[before, after]);
        let cases = [
            (
                "SpaceToBatchND",
                [counting(&[1, 3, 1]), ints(&[2]), margins(0, 0)],
                "padded_shape[0]=3 is not divisible by block_shape[0]=2",
            ),
            (
                "SpaceToBatchND",
                [counting(&[1, 3, 1]), ints(&[0]), margins(0, 0)],
                "All values in block_shape must be positive, got value, 0 at index 0.",
            ),
            (
                "SpaceToBatchND",
                [counting(&[1, 3, 1]), ints(&[2]), margins(-1, 0)],
                "Paddings must be non-negative",
            ),
            (
                "BatchToSpaceND",
                [counting(&[3, 3, 1]), ints(&[2]), margins(0, 0)],
                "Input batch dimension (3) is not divisible by product of block sizes (2)",
            ),
            (
                "BatchToSpaceND",
                [counting(&[2, 1, 1]), ints(&[2]), margins(2, 1)],
                "cropped_shape[0]=-1 must be non-negative",
            ),
            (
                "BatchToSpaceND",
                [counting(&[2, 1, 1]), ints(&[-1]), margins(2, 1)],
                "Product of block sizes must be positive, got -1",
            ),
        ];
        for (op, inputs, message) in cases {
            assert_eq!(failure(op, &[int32()], &inputs), message);
        }
    }

    #[test]
    fn space_becomes_depth_and_back() {
        let found = values::<i32>("SpaceToDepth", &block(2), &[counting(&[1, 2, 4, 1])]).unwrap();
        let depth = vec![0, 1, 4, 5, 2, 3, 6, 7];
        assert_eq!(found, (vec![1, 1, 2, 4], depth.clone()));
        let found = values::<i32>("DepthToSpace", &block(2), &[tensor(&[1, 1, 2, 4], &depth)]);
        assert_eq!(found.unwrap(), (vec![1, 2, 4, 1], (0..8).collect()));
        assert_eq!(
            failure("DepthToSpace", &block(2), &[counting(&[1, 1, 1, 3])]),
            "Input depth dimension 3 should be divisible by: 4"
        );
    }

    #[test]
    fn shapes_of_blocks() {
        let constants = vec![(1, ints(&[2])), (2, tensor(&[1, 2], &[1, 0]))];
        let infer = |op: &str, inputs: &str| shapes(op, &[int32()], inputs, &constants);
        assert_eq!(infer("SpaceToBatchND", "[3,5,7];[1];[1,2]"), "[6,3,7]");
        assert_eq!(infer("SpaceToBatchND", "?;[1];[1,2]"), "?");
        assert_eq!(infer("BatchToSpaceND", "[6,3,7];[1];[1,2]"), "[3,5,7]");
        assert_eq!(shapes("BatchToSpaceND", &[int32()], "[6,3,7];[1];[1,2]", &[]), "[?,?,7]");
        assert_eq!(
            shapes("BatchToSpaceND", &[int32()], "[6,3,7];?;[1,2]", &[]),
            "block_shape must have rank 1."
        );
        assert_eq!(shapes("DepthToSpace", &block(2), "[1,?,3,8]", &[]), "[1,?,6,2]");
        let vectors =
            [&block(2)[..], &[("data_format", AttrValue::string("NCHW_VECT_C"))]].concat();
        assert_eq!(shapes("SpaceToDepth", &vectors, "[1,4,2,2,4]", &[]), "[1,16,1,1,4]");
    }
}
