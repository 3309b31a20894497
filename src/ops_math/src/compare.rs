//! Comparisons and logic, element by element with broadcasting.

use tfcore_base::{
    BFloat16, Complex64, Complex128, Elem, Half, LoopFor, QInt8, QInt16, QInt32, QUInt8, QUInt16,
    RealNumbers, Result,
};
use tfcore_framework::geometry::Broadcast;
use tfcore_framework::{
    Binary, BinaryKernel, BinaryLoop, BinaryLoops, InferenceContext, Kernel, KernelInit, Registry,
    kernel, shape_fns, shape_ops,
};
use tfcore_tensor::{PartialShape, TString, Tensor};

use crate::number::Number;

/// Defines functors from `Name |x, y| result;` for ordered types.
macro_rules! orders {
    ($($name:ident |$x:ident, $y:ident| $result:expr;)*) => {$(
        struct $name;

        impl<T: Number<Wide: PartialOrd>> Binary<T> for $name {
            type Out = bool;

            #[inline(always)]
            fn apply(x: T, y: T) -> bool {
                let ($x, $y) = (x.widen(), y.widen());
                $result
            }
        }
    )*};
}

orders! {
    Less |x, y| x < y;
    LessEqual |x, y| x <= y;
    Greater |x, y| x > y;
    GreaterEqual |x, y| x >= y;
}

struct Equal;
struct NotEqual;

impl<T: Elem> Binary<T> for Equal {
    type Out = bool;

    #[inline(always)]
    fn apply(x: T, y: T) -> bool {
        x == y
    }
}

impl<T: Elem> Binary<T> for NotEqual {
    type Out = bool;

    #[inline(always)]
    fn apply(x: T, y: T) -> bool {
        x != y
    }
}

/// Numbers, and types that can only be compared for equality.
type Comparable = (
    f32,
    f64,
    Half,
    BFloat16,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    Complex64,
    Complex128,
    bool,
    QInt8,
    QUInt8,
    QInt16,
    QUInt16,
    QInt32,
    TString,
);

struct LogicalAnd;
struct LogicalOr;

impl Binary<bool> for LogicalAnd {
    type Out = bool;

    #[inline(always)]
    fn apply(x: bool, y: bool) -> bool {
        x & y
    }
}

impl Binary<bool> for LogicalOr {
    type Out = bool;

    #[inline(always)]
    fn apply(x: bool, y: bool) -> bool {
        x | y
    }
}

pub(crate) fn register(r: &mut Registry) {
    // `Less(x: T, y: T) -> z: bool` and the like.
    r.op("Less").shape(shape_fns::broadcast_binary).binary::<Less, RealNumbers>();
    r.op("LessEqual").shape(shape_fns::broadcast_binary).binary::<LessEqual, RealNumbers>();
    r.op("Greater").shape(shape_fns::broadcast_binary).binary::<Greater, RealNumbers>();
    r.op("GreaterEqual").shape(shape_fns::broadcast_binary).binary::<GreaterEqual, RealNumbers>();

    // `Equal(x: T, y: T, incompatible_shape_error: bool = true) -> z: bool`.
    r.op("Equal")
        .shape(equality_shape)
        .typed_kernel::<BinaryLoops<Equal>, Comparable>("T", |init, body| {
            equality(init, body, false)
        });
    r.op("NotEqual")
        .shape(equality_shape)
        .typed_kernel::<BinaryLoops<NotEqual>, Comparable>("T", |init, body| {
            equality(init, body, true)
        });

    // `LogicalAnd(x: bool, y: bool) -> z: bool`.
    r.op("LogicalAnd").shape(shape_fns::broadcast_binary).cpu(of_bools::<LogicalAnd>);
    r.op("LogicalOr").shape(shape_fns::broadcast_binary).cpu(of_bools::<LogicalOr>);
}

/// The kernel of an op of bools, which has no type attr.
fn of_bools<F: Binary<bool>>(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    Ok(Box::new(BinaryKernel::new(init, <BinaryLoops<F> as LoopFor<bool>>::LOOP)))
}

/// A test for equality. Without `incompatible_shape_error`, shapes that do not broadcast make the
/// operands differ as a whole: the result is the scalar `unlike`.
fn equality(init: &KernelInit<'_>, body: BinaryLoop, unlike: bool) -> Result<Box<dyn Kernel>> {
    let elementwise = BinaryKernel::new(init, body);
    if init.attrs.bool("incompatible_shape_error")? {
        return Ok(Box::new(elementwise));
    }
    kernel(move |ctx| {
        if Broadcast::new(ctx.input(0)?.shape(), ctx.input(1)?.shape()).is_ok() {
            return elementwise.compute(ctx);
        }
        ctx.set_output(0, Tensor::scalar(unlike));
        Ok(())
    })
}

/// As for any elementwise op, unless incompatible shapes are no error: then the result of such is a
/// scalar, and unknown where the shapes might turn out to be incompatible.
fn equality_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    if ctx.attrs.bool("incompatible_shape_error")? {
        return shape_fns::broadcast_binary(ctx);
    }
    let (x, y) = (ctx.input(0), ctx.input(1));
    if let (Some(a), Some(b)) = (x.dims(), y.dims()) {
        let undecided = a.iter().rev().zip(b.iter().rev()).any(|(a, b)| {
            let other_than_one = |size: Option<i64>| size.is_some_and(|size| size != 1);
            (a.value().is_none() && other_than_one(b.value()))
                || (b.value().is_none() && other_than_one(a.value()))
        });
        let shape = match shape_ops::broadcast(x, y) {
            Ok(_) if undecided => PartialShape::unknown(),
            Ok(shape) => shape,
            Err(_) => PartialShape::scalar(),
        };
        ctx.set_output(0, shape);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, run_op};
    use tfcore_tensor::Shape;

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn compare<T: Elem>(op: &str, x: &[T], y: &[T]) -> Vec<bool> {
        let vector = |values| Tensor::from_slice(Shape::vector(x.len()), values).unwrap();
        let attrs = [("T", AttrValue::Type(T::DTYPE))];
        let outputs = run_op(&registry(), op, &attrs, &[vector(x), vector(y)]).unwrap();
        outputs[0].as_slice().unwrap().to_vec()
    }

    #[test]
    fn comparisons() {
        let nan = f32::NAN;
        let cases = [
            ("Less", [true, false, false, false]),
            ("LessEqual", [true, true, false, false]),
            ("Greater", [false, false, true, false]),
            ("GreaterEqual", [false, true, true, false]),
            ("Equal", [false, true, false, false]),
            ("NotEqual", [true, false, true, true]),
        ];
        for (op, expected) in cases {
            let results = compare(op, &[1.0, 2.0, 3.0, nan], &[2.0, 2.0, 2.0, nan]);
            assert_eq!(results, expected, "{op}");
        }
        let text = |text: &str| TString::from(text.as_bytes());
        assert_eq!(
            compare("Equal", &[text("a"), text("b")], &[text("a"), text("c")]),
            [true, false]
        );
        assert_eq!(compare("Less", &[-1i8], &[1]), [true]);
        assert_eq!(compare("LogicalAnd", &[true, true], &[false, true]), [false, true]);
        assert_eq!(compare("LogicalOr", &[true, false], &[false, false]), [true, false]);
    }

    #[test]
    fn unlike_shapes_may_compare_as_a_whole() {
        let attrs = [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("incompatible_shape_error", AttrValue::Bool(false)),
        ];
        let vector = |len| Tensor::zeros(DType::FLOAT, Shape::vector(len)).unwrap();
        for (op, unlike) in [("Equal", false), ("NotEqual", true)] {
            let outputs = run_op(&registry(), op, &attrs, &[vector(2), vector(3)]).unwrap();
            assert_eq!(outputs[0].as_slice::<bool>().unwrap(), [unlike], "{op}");
        }
        let shapes = [
            ("[2];[3]", "[]"),
            ("[2];[?]", "?"),
            ("[0];[?]", "?"),
            ("[1];[?]", "[?]"),
            ("[?];[?]", "[?]"),
            ("[2,1];[3]", "[2,3]"),
        ];
        for (inputs, expected) in shapes {
            let shape = infer(&registry(), "Equal", &attrs, inputs, &[]).unwrap();
            assert_eq!(shape, expected, "{inputs}");
        }
    }
}
