//! `RandomCrop`.

use tfcore_base::{Result, failed_precondition, invalid, require};
use tfcore_framework::geometry::StridedView;
use tfcore_framework::movement::copy_view;
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, Shape};

use crate::stateful::Generator;

pub(crate) fn register(r: &mut Registry) {
    // `RandomCrop(image: T, size: int64; seed, seed2) -> output: T`: a window of `size` rows and columns somewhere in the
    // image, which has `[height, width, channels]`.
    r.op("RandomCrop").shape(crop_shape).cpu(crop);
}

fn crop_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let image = shape_ops::with_rank(ctx.input(0), 3)?;
    let size = shape_ops::with_rank(ctx.input(1), 1)?;
    shape_ops::with_value(size.dim(0), 2)?;
    let [rows, cols] = match ctx.operand_i64s(1)?.as_deref() {
        Some(&[rows, cols]) => {
            for size in [rows, cols] {
                require!(
                    size >= -1,
                    "Dimension size, given by a vector, must be >= -1, got {size}"
                );
            }
            [Dim::new(rows), Dim::new(cols)]
        }
        _ => [Dim::fresh(), Dim::fresh()],
    };
    ctx.set_output(0, [rows, cols, image.dim(2)].into_iter().collect());
    Ok(())
}

fn crop(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let generator = Generator::new(init)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (image, size) = (ctx.input(0)?, ctx.input(1)?);
        require!(image.rank() == 3, "input must be 3-dimensional{}", image.shape());
        require!(size.rank() == 1, "shape_t must be 1-dimensional{}", size.shape());
        let &[rows, cols] = size.as_slice::<i64>()? else {
            return Err(invalid!("shape_t must have two elements{}", size.shape()));
        };
        let &[height, width, channels] = image.shape().dims() else {
            return Err(invalid!("input must be 3-dimensional{}", image.shape()));
        };
        let shape = Shape::new(&[rows, cols, channels])?;
        if [rows, cols] == [height, width] {
            let image = ctx.take_input(0)?;
            ctx.set_output(0, image);
            return Ok(());
        }
        if width < cols {
            return Err(failed_precondition!(
                "width must be >= target_width: width = {width}, target_width = {cols}"
            ));
        }
        if height < rows {
            return Err(failed_precondition!(
                "height must be >= target_height: height = {height}, target_height = {rows}"
            ));
        }
        let mut draws = generator.reserve_words(2).next4().into_iter();
        let mut offset = |size: i64, target: i64| match size > target {
            true => i64::from(draws.next().unwrap_or(0)) % (size - target + 1),
            false => 0,
        };
        let left = offset(width, cols);
        let top = offset(height, rows);
        let begin = [top as usize, left as usize, 0];
        let view = StridedView::boxed(image.shape(), &begin, &shape.to_usizes());
        ctx.produce(0, shape, |out| copy_view(ctx.parallel(), image.elems(), &view, out))
    })
}
