//! A slice put into a tensor: `StridedSliceGrad`, `TensorStridedSliceUpdate`.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::geometry::{SliceMasks, SliceSpec, check_slice_operands};
use tfcore_framework::movement::write_view;
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, Registry, kernel, shape_fns, write_slice,
};
use tfcore_tensor::{PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `StridedSliceGrad(shape: Index, begin: Index, end: Index, strides: Index, dy: T) -> output: T`: zeros of that shape,
    // but for `output[begin:end:strides] = dy`.
    r.op("StridedSliceGrad").shape(grad_shape).cpu(grad_kernel);
    // `TensorStridedSliceUpdate(input: T, begin: Index, end: Index, strides: Index, value: T) -> output: T`: the input, but for
    // `output[begin:end:strides] = value`, which is repeated to fill the slice.
    r.op("TensorStridedSliceUpdate").shape(shape_fns::unchanged).cpu(|init| {
        let masks = SliceMasks::from_attrs(init.attrs)?;
        kernel(move |ctx| {
            let mut out = ctx.take_or_copy_input(0)?;
            let operands = [ctx.input(1)?, ctx.input(2)?, ctx.input(3)?];
            write_slice(ctx, &mut out, operands, masks, ctx.input(4)?)?;
            ctx.set_output(0, out);
            Ok(())
        })
    });
}

fn grad_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = ctx.operand_shape(0)?;
    ctx.set_output(0, shape);
    Ok(())
}

fn grad_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let masks = SliceMasks::from_attrs(init.attrs)?;
    kernel(move |ctx| {
        let shape = ctx.input(0)?;
        require!(shape.rank() == 1, "shape must be 1-D, got shape.shape = {}", shape.shape());
        let shape = Shape::new(&shape.to_i64s()?)?;
        let operands = [ctx.input(1)?, ctx.input(2)?, ctx.input(3)?];
        let [begin, end, strides] = operands.map(Tensor::shape);
        check_slice_operands(begin, end, strides)?;
        let [begin, end, strides] = operands.map(Tensor::to_i64s);
        let (begin, end, strides) = (begin?, end?, strides?);
        let spec = SliceSpec { begin: Some(&begin), end: Some(&end), strides: &strides, masks };
        let dims = PartialShape::from(&shape);
        let slice = spec.dense(dims.dims().unwrap_or_default())?;
        let sliced = slice
            .output()
            .to_shape()
            .ok_or_else(|| invalid!("Invalid shape {} of the slice", slice.output()))?;
        let dy = ctx.input(4)?;
        require!(*dy.shape() == sliced, "shape of dy was {} instead of {sliced}", dy.shape());
        let mut out = ctx.allocate_zeros(dy.dtype(), shape.clone())?;
        write_view(dy.elems(), &slice.view(&shape), out.elems_mut()?);
        ctx.set_output(0, out);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_tensor::Tensor;

    fn attrs(shrink_axis: i64, new_axis: i64) -> [(&'static str, AttrValue); 4] {
        [
            int32(),
            ("Index", of(DType::INT32)),
            ("shrink_axis_mask", AttrValue::Int(shrink_axis)),
            ("new_axis_mask", AttrValue::Int(new_axis)),
        ]
    }

    fn inputs(shape: &[i32], [begin, end, strides]: [&[i32]; 3], dy: Tensor) -> [Tensor; 5] {
        [ints(shape), ints(begin), ints(end), ints(strides), dy]
    }

    #[test]
    fn slices_go_back() {
        let backwards =
            inputs(&[2, 4], [&[0, 3], &[2, 0], &[1, -2]], tensor(&[2, 2], &[1, 2, 3, 4]));
        let found = values::<i32>("StridedSliceGrad", &attrs(0, 0), &backwards).unwrap();
        assert_eq!(found, (vec![2, 4], vec![0, 2, 0, 1, 0, 4, 0, 3]));
        let row = inputs(&[2, 2], [&[-1, 0], &[0, 0], &[1, 1]], tensor(&[1, 2], &[5, 6]));
        let found = values::<i32>("StridedSliceGrad", &attrs(1, 2), &row).unwrap();
        assert_eq!(found, (vec![2, 2], vec![0, 0, 5, 6]));
        let nothing = inputs(&[2], [&[1], &[1], &[1]], ints(&[]));
        assert_eq!(values::<i32>("StridedSliceGrad", &attrs(0, 0), &nothing).unwrap().1, [0, 0]);
    }

    #[test]
    fn slices_are_replaced() {
        let update = |value: Tensor| {
            [counting(&[2, 3]), ints(&[0, -1]), ints(&[2, 0]), ints(&[1, -1]), value]
        };
        let found = values::<i32>("TensorStridedSliceUpdate", &attrs(0, 0), &update(ints(&[7, 8])));
        assert_eq!(found.unwrap(), (vec![2, 3], vec![0, 8, 7, 3, 8, 7]));
        assert_eq!(
            failure("TensorStridedSliceUpdate", &attrs(0, 0), &update(ints(&[1, 2, 3]))),
            "Cannot broadcast input shape [3] into final shape [2,2]"
        );
    }

    #[test]
    fn what_does_not_fit() {
        let range: [&[i32]; 3] = [&[1], &[3], &[1]];
        let cases = [
            (inputs(&[4], range, ints(&[7, 8, 9])), "shape of dy was [3] instead of [2]"),
            (inputs(&[-4], range, ints(&[7, 8])), "Dimension -4 must be >= 0"),
            (
                inputs(&[4], [&[1, 1], &[2, 2], &[1, 1]], ints(&[7])),
                "Index out of range using input dim 1; input has only 1 dims",
            ),
        ];
        for (inputs, message) in cases {
            assert_eq!(failure("StridedSliceGrad", &attrs(0, 0), &inputs), message);
        }
        let shape = [(0, ints(&[4, 2]))];
        let found = shapes("StridedSliceGrad", &attrs(0, 0), "[2];[1];[1];[1];[2,2]", &shape);
        assert_eq!(found, "[4,2]");
    }
}
