//! `MirrorPadGrad`: a mirrored padding folded back onto what it mirrors.

use tfcore_base::{Result, require};
use tfcore_framework::{
    AddAssign, InferenceContext, Kernel, KernelInit, OpContext, Registry, add_assign_of_number,
    kernel, shape_ops,
};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::pad::Paddings;

pub(crate) fn register(r: &mut Registry) {
    // `MirrorPadGrad(input: T, paddings: Tpaddings) -> output: T`: the sum over all elements of the padded `input` that
    // `MirrorPad` copies from one place, in that place.
    r.op("MirrorPadGrad").shape(folded_shape).cpu(fold_kernel);
}

/// Every dimension shrinks by its two paddings.
fn folded_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let paddings_shape = shape_ops::with_rank(ctx.input(1), 2)?;
    let Some(rank) = paddings_shape.dim(0).value() else {
        return Ok(());
    };
    let input = shape_ops::with_rank(ctx.input(0), usize::try_from(rank).unwrap_or(usize::MAX))?;
    shape_ops::with_value(paddings_shape.dim(1), 2)?;
    let Some(paddings) = ctx.operand_i64s(1)? else {
        ctx.set_output(0, PartialShape::of_rank(rank as usize));
        return Ok(());
    };
    let mut dims = Vec::with_capacity(paddings.len() / 2);
    for (axis, pair) in paddings.chunks_exact(2).enumerate() {
        require!(pair[0] >= 0 && pair[1] >= 0, "Paddings must be non-negative");
        let padding = pair[0].saturating_add(pair[1]);
        dims.push(shape_ops::subtract(input.dim(axis), padding)?);
    }
    ctx.set_output(0, dims.into_iter().collect());
    Ok(())
}

fn fold_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let reflects = init.attrs.str("mode")? == "REFLECT";
    let add = add_assign_of_number(init.attrs.dtype("T")?)?;
    kernel(move |ctx| {
        let (input, paddings) = (ctx.input(0)?, ctx.input(1)?);
        let paddings = Paddings::new(input, paddings)?;
        for (&size, &[before, after]) in input.shape().iter().zip(&paddings.0) {
            check_paddings(size, before, after, reflects)?;
        }
        // One axis after the other: each has less to fold than the one before.
        let mut folded = input.clone();
        for (axis, &[before, after]) in paddings.0.iter().enumerate() {
            if [before, after] != [0, 0] {
                let (before, after) = (before as usize, after as usize);
                folded = Fold { axis, before, after, reflects, add }.run(ctx, &folded)?;
            }
        }
        ctx.set_output(0, folded);
        Ok(())
    })
}

fn check_paddings(size: i64, before: i64, after: i64, reflects: bool) -> Result<()> {
    require!(before >= 0 && after >= 0, "Paddings must be non-negative: {before}, {after}");
    let total = before.saturating_add(after);
    require!(
        total < size,
        "Total paddings must be less than the input dimension size: {total} was not less than {size}"
    );
    let (rest, most) = (size - total, before.max(after));
    require!(
        reflects || most <= rest,
        "paddings must be no greater than the output dimension size: {before}, {after} greater than {rest}"
    );
    require!(
        !reflects || most < rest,
        "paddings must be less than the output dimension size: {before}, {after} not less than {rest}"
    );
    Ok(())
}

/// The paddings of one axis, added to what they mirror.
struct Fold {
    axis: usize,
    before: usize,
    after: usize,
    /// Whether the border itself was left out of the mirror image.
    reflects: bool,
    add: AddAssign,
}

impl Fold {
    fn run(&self, ctx: &OpContext<'_>, input: &Tensor) -> Result<Tensor> {
        let Fold { axis, before, after, .. } = *self;
        let size = input.dim(axis);
        let rest = size - before - after;
        let mut dims = input.shape().dims().to_vec();
        let block: usize = dims[axis + 1..].iter().product::<i64>() as usize;
        dims[axis] = rest as i64;
        let mut out = ctx.allocate(input.dtype(), Shape::new(&dims)?)?;
        let count = out.count();
        let mut target = out.elems_mut()?;
        let source = input.elems();
        let skip = usize::from(self.reflects);
        let rows = rest * block;
        for row in 0..count.checked_div(rows).unwrap_or(0) {
            let from = |index: usize| {
                let start = (row * size + index) * block;
                source.slice(start..start + block)
            };
            let middle = (row * size + before) * block;
            target
                .slice(row * rows..(row + 1) * rows)
                .copy_from(source.slice(middle..middle + rows));
            let mut fold = |index: usize, to: usize| {
                let start = row * rows + to * block;
                (self.add)(target.slice(start..start + block), from(index));
            };
            for step in 0..before {
                fold(before - 1 - step, step + skip);
            }
            for step in 0..after {
                fold(before + rest + step, rest - 1 - skip - step);
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;

    fn attrs(mode: &str) -> [(&'static str, AttrValue); 3] {
        [int32(), ("Tpaddings", of(DType::INT32)), ("mode", AttrValue::string(mode))]
    }

    #[test]
    fn mirror_images_are_added() {
        let line = [ints(&[1, 2, 3, 4]), tensor(&[1, 2], &[1, 1])];
        assert_eq!(values::<i32>("MirrorPadGrad", &attrs("SYMMETRIC"), &line).unwrap().1, [3, 7]);
        // Padded, the indices 0 to 3 are 2 1 0 1 2 3 2 in columns and 1 0 1 2 3 in rows.
        let paddings = tensor(&[2, 2], &[1, 0, 2, 1]);
        let ones = tensor(&[5, 7], &[1i32; 35]);
        let found = values::<i32>("MirrorPadGrad", &attrs("REFLECT"), &[ones, paddings]).unwrap();
        let expected = [1, 2, 3, 1, 2, 4, 6, 2, 1, 2, 3, 1, 1, 2, 3, 1];
        assert_eq!(found, (vec![4, 4], expected.to_vec()));
    }

    #[test]
    fn paddings_that_are_none() {
        let cases = [
            (
                "REFLECT",
                [3, 3],
                "Total paddings must be less than the input dimension size: 6 was not less than 4",
            ),
            (
                "REFLECT",
                [1, 2],
                "paddings must be less than the output dimension size: 1, 2 not less than 1",
            ),
            (
                "SYMMETRIC",
                [1, 2],
                "paddings must be no greater than the output dimension size: 1, 2 greater than 1",
            ),
            ("REFLECT", [-1, 2], "Paddings must be non-negative: -1, 2"),
        ];
        for (mode, paddings, message) in cases {
            let inputs = [ints(&[1, 2, 3, 4]), tensor(&[1, 2], &paddings)];
            assert_eq!(failure("MirrorPadGrad", &attrs(mode), &inputs), message);
        }
        let constants = [(1, tensor(&[2, 2], &[1, 1, 0, 3]))];
        let found = shapes("MirrorPadGrad", &attrs("REFLECT"), "[4,?];[2,2]", &constants);
        assert_eq!(found, "[2,?]");
        assert_eq!(shapes("MirrorPadGrad", &attrs("REFLECT"), "[4,5];[2,2]", &[]), "[?,?]");
        assert_eq!(shapes("MirrorPadGrad", &attrs("REFLECT"), "[4,5];[?,2]", &[]), "?");
    }
}
