//! Assignments to a strided slice of a variable.

use tfcore_base::{DType, Numbers, Result, TypeSet, invalid, unimplemented_error};
use tfcore_framework::geometry::{SliceMasks, SliceSpec, check_slice_operands};
use tfcore_framework::movement::write_view;
use tfcore_framework::{Kernel, KernelInit, OpContext, Registry, kernel, shape_fns};
use tfcore_tensor::{PartialShape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    let dtypes = [
        Numbers::dtypes(),
        vec![DType::BOOL, DType::STRING, DType::RESOURCE, DType::VARIANT],
        vec![DType::QINT8, DType::QUINT8, DType::QINT32],
        vec![DType::FLOAT8_E5M2, DType::FLOAT8_E4M3FN],
    ]
    .concat();

    // `StridedSliceAssign(ref: Ref(T), begin: Index, end: Index, strides: Index, value: T; masks) -> output_ref:
    // Ref(T)`, `ref[begin:end:strides] = value`.
    r.op("StridedSliceAssign").shape(shape_fns::unchanged).cpu_for("T", &dtypes, |init| {
        let masks = SliceMasks::from_attrs(init.attrs)?;
        kernel(move |ctx| {
            assign(ctx, masks)?;
            let variable = ctx.input_ref(0)?.clone();
            ctx.set_output_ref(0, variable);
            Ok(())
        })
    });

    // `ResourceStridedSliceAssign(ref: resource, begin: Index, end: Index, strides: Index, value: T; masks)`.
    r.op("ResourceStridedSliceAssign").shape(shape_fns::no_outputs).cpu_for(
        "T",
        &dtypes,
        assign_resource,
    );
}

fn assign_resource(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let masks = SliceMasks::from_attrs(init.attrs)?;
    kernel(move |ctx| assign(ctx, masks))
}

/// Replaces the slice of the variable at input 0 that inputs 1 to 3 describe by input 4.
fn assign(ctx: &OpContext<'_>, masks: SliceMasks) -> Result<()> {
    let value = ctx.input(4)?;
    let operands = [ctx.input(1)?, ctx.input(2)?, ctx.input(3)?];
    ctx.variable(0)?.update(&ctx.step().buffers, |tensor| {
        if tensor.dtype() != value.dtype() {
            return Err(invalid!(
                "l-value dtype {} does not match r-value dtype {}",
                tensor.dtype(),
                value.dtype()
            ));
        }
        let [begin, end, strides] = operands.map(Tensor::shape);
        check_slice_operands(begin, end, strides)?;
        let [begin, end, strides] = operands.map(Tensor::to_i64s);
        let (begin, end, strides) = (begin?, end?, strides?);
        let spec = SliceSpec { begin: Some(&begin), end: Some(&end), strides: &strides, masks };
        let dims = PartialShape::from(tensor.shape());
        let slice = spec.dense(dims.dims().unwrap_or_default())?;
        let view = slice.view(tensor.shape());
        // What an empty slice would get does not matter.
        if view.count() == 0 {
            return Ok(());
        }
        if !slice.output().is_fully_known() || !slice.output().admits(value.shape()) {
            return Err(unimplemented_error!(
                "sliced l-value shape {} does not match r-value shape {}. Automatic broadcasting not yet \
                 implemented.",
                slice.output(),
                value.shape()
            ));
        }
        write_view(value.elems(), &view, tensor.elems_mut()?);
        Ok(())
    })
}
