//! Optionals: an element or none, as the value of a variant.

use std::any::Any;

use tfcore_base::{Result, invalid};
use tfcore_framework::{OpContext, Registry, shape_fns};
use tfcore_tensor::{Tensor, Variant, VariantValue};

use crate::args::{components_shape, kernel, set_components};
use crate::dataset::Element;
use crate::iterators::check_components;

pub(crate) fn register(r: &mut Registry) {
    // `OptionalFromValue(components: Toutput_types) -> optional: variant`.
    r.op("OptionalFromValue").shape(shape_fns::scalar).cpu(|init| {
        kernel(init, |args| {
            let components = args.tensors("components")?;
            args.ctx.set_output(0, optional(Some(components)));
            Ok(())
        })
    });
    // `OptionalNone() -> optional: variant`.
    r.op("OptionalNone").shape(shape_fns::scalar).compute(|ctx| {
        ctx.set_output(0, optional(None));
        Ok(())
    });
    // `OptionalHasValue(optional: variant) -> has_value: bool`.
    r.op("OptionalHasValue").shape(shape_fns::scalar).compute(|ctx| {
        let has_value = input(ctx, "OptionalHasValue")?.is_some();
        ctx.set_output(0, Tensor::scalar(has_value));
        Ok(())
    });
    // `OptionalGetValue(optional: variant) -> components: output_types`.
    r.op("OptionalGetValue").shape(components_shape).cpu(|init| {
        kernel(init, |args| {
            let element = input(args.ctx, "OptionalGetValue")?;
            let element =
                element.ok_or_else(|| invalid!("The given optional does not have a value."))?;
            check_components(args, &element)?;
            set_components(args.ctx, element)
        })
    });
}

/// An element or none.
#[derive(Clone)]
struct Optional(Option<Element>);

impl VariantValue for Optional {
    fn type_name(&self) -> &str {
        "tensorflow::data::Optional"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    /// The zeros of none are none.
    fn zeros_like(&self) -> Result<Option<Variant>> {
        let zeros = |tensor: &Tensor| Tensor::zeros(tensor.dtype(), tensor.shape().clone());
        let components = match &self.0 {
            None => None,
            Some(element) => Some(element.iter().map(zeros).collect::<Result<_>>()?),
        };
        Ok(Some(Variant::new(Optional(components))))
    }
}

/// A tensor with an optional.
pub(crate) fn optional(element: Option<Element>) -> Tensor {
    Tensor::scalar(Variant::new(Optional(element)))
}

/// The optional at input 0.
fn input(ctx: &OpContext<'_>, op: &str) -> Result<Option<Element>> {
    let tensor = ctx.input(0)?;
    if tensor.rank() != 0 {
        return Err(invalid!("Input to {op} must be a scalar."));
    }
    let variant: Variant = tensor.scalar_value()?;
    let found = variant.get::<Optional>().map(|optional| optional.0.clone());
    found.ok_or_else(|| invalid!("Input is not an Optional."))
}
