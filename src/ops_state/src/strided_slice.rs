//! Assignments to a strided slice of a variable.

use tfcore_base::{Result, invalid};
use tfcore_framework::geometry::SliceMasks;
use tfcore_framework::{Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, write_slice};

pub(crate) fn register(r: &mut Registry) {
    // `StridedSliceAssign(ref: Ref(T), begin: Index, end: Index, strides: Index, value: T; masks) -> output_ref:
    // Ref(T)`, `ref[begin:end:strides] = value`.
    r.op("StridedSliceAssign").shape(shape_fns::unchanged).cpu(|init| {
        let masks = SliceMasks::from_attrs(init.attrs)?;
        kernel(move |ctx| {
            assign(ctx, masks)?;
            ctx.set_output_ref(0, ctx.input_ref(0)?.clone());
            Ok(())
        })
    });

    // `ResourceStridedSliceAssign(ref: resource, begin: Index, end: Index, strides: Index, value: T; masks)`.
    r.op("ResourceStridedSliceAssign").shape(shape_fns::no_outputs).cpu(assign_resource);
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
        write_slice(ctx, tensor, operands, masks, value)
    })
}
