//! The ops that gradients are written with, as methods of [`GradientContext`], and what several gradients share.

use tfcore_base::{DType, Result};
use tfcore_tensor::Tensor;

use crate::AttrValue;
use crate::gradient::{GradientContext, Gradients, Operand, Output};

/// Defines methods `name(x) -> Output` for ops of one tensor.
macro_rules! unary {
    ($($name:ident $op:literal;)*) => {
        impl GradientContext<'_> {$(
            #[doc = concat!("`", $op, "`")]
            pub fn $name(&self, x: Output) -> Output {
                self.apply($op, [x])
            }
        )*}
    };
}

/// Defines methods `name(x, y) -> Output` for ops of two tensors.
macro_rules! binary {
    ($($name:ident $op:literal;)*) => {
        impl GradientContext<'_> {$(
            #[doc = concat!("`", $op, "`")]
            pub fn $name(&self, x: Output, y: Output) -> Output {
                self.apply($op, [x, y])
            }
        )*}
    };
}

unary! {
    cos "Cos";
    cosh "Cosh";
    exp "Exp";
    identity "Identity";
    invert_permutation "InvertPermutation";
    log "Log";
    neg "Neg";
    ones_like "OnesLike";
    rank "Rank";
    reciprocal "Reciprocal";
    shape "Shape";
    sign "Sign";
    sin "Sin";
    sinh "Sinh";
    size "Size";
    sqrt "Sqrt";
    square "Square";
    squeeze "Squeeze";
    zeros_like "ZerosLike";
}

binary! {
    add "Add";
    div "Div";
    equal "Equal";
    fill "Fill";
    gather "Gather";
    greater "Greater";
    less "Less";
    maximum "Maximum";
    mul "Mul";
    pow "Pow";
    reshape "Reshape";
    sub "Sub";
    tile "Tile";
    transpose "Transpose";
}

impl GradientContext<'_> {
    /// `Cast`, also to the dtype that `x` has.
    pub fn cast(&self, x: Output, dtype: DType) -> Output {
        self.node("Cast", &[x], &[("DstT", AttrValue::Type(dtype))])
    }

    /// The shape of `x` as a vector of type `dtype`.
    pub fn shape_as(&self, x: Output, dtype: DType) -> Output {
        self.node("Shape", &[x], &[("out_type", AttrValue::Type(dtype))])
    }

    /// An `int32` that the reference writes as a plain argument; see [`GradientContext::literal`].
    pub fn int(&self, value: i32) -> Output {
        self.literal(Tensor::scalar(value))
    }

    /// An integer as a scalar of type `dtype`.
    pub fn integer(&self, value: i32, dtype: DType) -> Output {
        self.number(Tensor::scalar(value), dtype)
    }

    /// A real number as a scalar of type `dtype`.
    pub fn real(&self, value: f64, dtype: DType) -> Output {
        self.number(Tensor::scalar(value), dtype)
    }

    fn number(&self, value: Tensor, dtype: DType) -> Output {
        let constant = self.constant(value);
        self.without_controls().cast(constant, dtype)
    }

    /// The complex conjugate; real values as they are.
    pub fn conj(&self, x: Output) -> Output {
        if self.dtype(x).is_complex() { self.apply("Conj", [x]) } else { x }
    }

    /// The real part of a complex value.
    pub fn real_part(&self, x: Output) -> Output {
        self.node("Real", &[x], &[("Tout", AttrValue::Type(part_type(self.dtype(x))))])
    }

    /// The imaginary part of a complex value.
    pub fn imaginary_part(&self, x: Output) -> Output {
        self.node("Imag", &[x], &[("Tout", AttrValue::Type(part_type(self.dtype(x))))])
    }

    /// A complex value made of its parts.
    pub fn complex(&self, re: Output, im: Output) -> Output {
        let dtype =
            if self.dtype(re) == DType::DOUBLE { DType::COMPLEX128 } else { DType::COMPLEX64 };
        self.node("Complex", &[re, im], &[("Tout", AttrValue::Type(dtype))])
    }

    /// The sum over `axes`.
    pub fn sum(&self, x: Output, axes: Output, keep_dims: bool) -> Output {
        self.node("Sum", &[x, axes], &[("keep_dims", AttrValue::Bool(keep_dims))])
    }

    /// The product over `axes`.
    pub fn prod(&self, x: Output, axes: Output) -> Output {
        self.apply("Prod", [x, axes])
    }

    /// `x` where `condition` holds, else `y`: `Select`, all of one shape.
    pub fn choose(&self, condition: Output, x: Output, y: Output) -> Output {
        self.apply("Select", [condition, x, y])
    }

    /// `SelectV2`, which broadcasts.
    pub fn choose_broadcast(&self, condition: Output, x: Output, y: Output) -> Output {
        self.apply("SelectV2", [condition, x, y])
    }

    /// Several tensors one behind the other along `axis`.
    pub fn concat(&self, parts: &[Output], axis: Output) -> Output {
        self.node_of("ConcatV2", &[Operand::List(parts), Operand::One(axis)], &[])
    }

    /// Several tensors stacked along a new axis.
    pub fn pack(&self, parts: &[Output], axis: i64) -> Output {
        self.node_of("Pack", &[Operand::List(parts)], &[("axis", AttrValue::Int(axis))])
    }

    /// `x` with a new axis of size 1 at the front.
    pub fn expand_front(&self, x: Output) -> Output {
        let axis = self.int(0);
        self.apply("ExpandDims", [x, axis])
    }

    /// The part of `x` that begins at `begin`; a size of -1 is all that is left.
    pub fn slice(&self, x: Output, begin: Output, size: Output) -> Output {
        self.apply("Slice", [x, begin, size])
    }

    /// The integers from `start` to `limit`, without it.
    pub fn range(&self, start: Output, limit: Output, delta: Output) -> Output {
        self.apply("Range", [start, limit, delta])
    }

    /// A matrix product.
    pub fn matmul(&self, a: Output, b: Output, transpose_a: bool, transpose_b: bool) -> Output {
        let flags = [
            ("transpose_a", AttrValue::Bool(transpose_a)),
            ("transpose_b", AttrValue::Bool(transpose_b)),
        ];
        self.node("MatMul", &[a, b], &flags)
    }

    /// Along which axes operands of these shapes were stretched to each other: outputs 0 and 1.
    pub fn stretched_axes(&self, shape: Output, other: Output) -> Output {
        self.apply("BroadcastGradientArgs", [shape, other])
    }

    /// `grad` summed over the axes along which an operand was stretched, in the operand's shape.
    pub fn sum_to_shape(&self, grad: Output, axes: Output, shape: Output) -> Output {
        self.reshape(self.sum(grad, axes, false), shape)
    }

    /// The gradients of an op of two operands that broadcast, from what they are element by element.
    pub fn sum_to_operands(&self, dx: Output, dy: Output) -> Result<Gradients> {
        let x_shape = self.shape(self.input(0));
        let y_shape = self.shape(self.input(1));
        let axes = self.stretched_axes(x_shape, y_shape);
        let dx = self.sum_to_shape(dx, axes, x_shape);
        let dy = self.sum_to_shape(dy, axes.at(1), y_shape);
        Ok(vec![Some(dx), Some(dy)])
    }
}

/// The type of the parts of a complex type.
fn part_type(complex: DType) -> DType {
    if complex == DType::COMPLEX128 { DType::DOUBLE } else { DType::FLOAT }
}
