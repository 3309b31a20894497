//! `QuantizeAndDequantize`: floats rounded to the reals of levels around 0, and the gradient.

use tfcore_base::{Elem, LoopFor, Result, TypedLoop, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_tensor::{Elems, ElemsMut, PartialShape, Shape};

use crate::shapes::slice_ranges;

type Types = (f32, f64);

pub(crate) fn register(r: &mut Registry) {
    // `QuantizeAndDequantizeV2(input: T, input_min: T, input_max: T) -> output: T`, attrs `signed_input`, `num_bits`,
    // `range_given`, `round_mode`, `narrow_range`, `axis`. The first version has the range in attrs, V3 the bits in
    // an input; V4 has another gradient.
    r.op("QuantizeAndDequantize")
        .shape(shape_fns::unchanged)
        .typed_kernel::<Rounding, Types>("T", |init, loops| round_trip(init, loops, Bits::Attr));
    r.ops(["QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4"], |op| {
        op.shape(shape).typed_kernel::<Rounding, Types>("T", |init, loops| {
            round_trip(init, loops, Bits::Attr)
        });
    });
    r.op("QuantizeAndDequantizeV3")
        .shape(shape)
        .typed_kernel::<Rounding, Types>("T", |init, loops| round_trip(init, loops, Bits::Input));

    // `QuantizeAndDequantizeV4Grad(gradients: T, input: T, input_min: T, input_max: T) -> input_backprop: T,
    // input_min_backprop: T, input_max_backprop: T`, attr `axis`.
    r.op("QuantizeAndDequantizeV4Grad")
        .shape(gradient_shape)
        .typed_kernel::<Rounding, Types>("T", gradient);

    // Those of V3 and V4 stand with the ops that pass their input on.
    r.ops(["QuantizeAndDequantize", "QuantizeAndDequantizeV2"], |op| {
        op.gradient(|c| {
            let mut gradients = vec![None; c.inputs().len()];
            gradients[0] = Some(c.grad(0));
            Ok(gradients)
        });
    });
}

fn shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    slice_ranges(ctx, 0, 1)?;
    shape_fns::unchanged(ctx)
}

fn gradient_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let ranges: PartialShape = slice_ranges(ctx, 0, 2)?;
    let shape = shape_ops::merge(ctx.input(0), ctx.input(1))?;
    ctx.set_output(0, shape);
    (1..3).for_each(|index| ctx.set_output(index, ranges.clone()));
    Ok(())
}

/// Where the number of bits stands.
#[derive(Clone, Copy, PartialEq)]
enum Bits {
    Attr,
    Input,
}

/// How levels lie.
#[derive(Clone, Copy)]
struct Grid {
    lowest: i64,
    highest: i64,
    to_even: bool,
}

/// Where elements begin: `count` slices of `inner` neighbours, over and over.
#[derive(Clone, Copy)]
struct Slices {
    count: usize,
    inner: usize,
}

impl Slices {
    fn of(shape: &Shape, axis: i64) -> Slices {
        match usize::try_from(axis) {
            Ok(axis) => Slices {
                count: shape.dim(axis),
                inner: (shape[axis + 1..].iter().product::<i64>() as usize).max(1),
            },
            Err(_) => Slices { count: 1, inner: shape.count().max(1) },
        }
    }

    fn index(self, element: usize) -> usize {
        element / self.inner % self.count
    }
}

#[derive(Clone, Copy)]
struct LoopsOf {
    /// Input, ranges of the slices if given, output.
    forward: fn(Elems<'_>, Slices, Grid, Option<[Elems<'_>; 2]>, ElemsMut<'_>) -> Result<()>,
    /// Gradient, input, ranges, output.
    backward: fn(Elems<'_>, Elems<'_>, Slices, [Elems<'_>; 2], ElemsMut<'_>),
    /// Elements of a float attribute.
    from_f32: fn(f32, ElemsMut<'_>),
}

struct Rounding;

impl TypedLoop for Rounding {
    type Loop = LoopsOf;
}

/// A float with the two ways of rounding.
trait Round: Elem + num_traits::Float {
    fn ties_to_even(self) -> Self;
    fn integer(value: i64) -> Self;
    fn single(value: f32) -> Self;
}

macro_rules! round {
    ($($t:ty)*) => {$(
        impl Round for $t {
            fn ties_to_even(self) -> $t {
                self.round_ties_even()
            }

            fn integer(value: i64) -> $t {
                value as $t
            }

            fn single(value: f32) -> $t {
                value as $t
            }
        }
    )*};
}
round!(f32 f64);

impl<T: Round> LoopFor<T> for Rounding {
    const LOOP: LoopsOf = LoopsOf {
        forward: forward::<T>,
        backward: |gradient, x, slices, [min, max], out| {
            let (min, max) = (min.typed::<T>(), max.typed::<T>());
            let pairs = gradient.typed::<T>().iter().zip(x.typed::<T>()).enumerate();
            for (to, (index, (&gradient, &x))) in out.typed::<T>().iter_mut().zip(pairs) {
                let slice = slices.index(index);
                let within = x >= min[slice] && x <= max[slice];
                *to = if within { gradient } else { T::zero() };
            }
        },
        from_f32: |value, out| out.typed::<T>().fill(T::single(value)),
    };
}

/// A slice's range and factors.
#[derive(Clone, Copy)]
struct Scale<T> {
    min: T,
    max: T,
    scale: T,
    inverse: T,
}

impl<T: Round> Scale<T> {
    /// The largest factor that keeps the range within the levels; one end is moved to the outermost level.
    fn new(grid: Grid, mut min: T, mut max: T) -> Scale<T> {
        let (lowest, highest) = (T::integer(grid.lowest), T::integer(grid.highest));
        let of = |level: T, end: T| {
            if level * end > T::zero() { level / end } else { T::max_value() }
        };
        let (from_min, from_max) = (of(lowest, min), of(highest, max));
        if from_min < from_max {
            let inverse = min / lowest;
            max = highest * inverse;
            Scale { min, max, scale: from_min, inverse }
        } else {
            let inverse = max / highest;
            min = lowest * inverse;
            Scale { min, max, scale: from_max, inverse }
        }
    }
}

fn forward<T: Round>(
    x: Elems<'_>,
    slices: Slices,
    grid: Grid,
    ranges: Option<[Elems<'_>; 2]>,
    out: ElemsMut<'_>,
) -> Result<()> {
    let (x, out) = (x.typed::<T>(), out.typed::<T>());
    let given = ranges.is_some();
    let (min, max) = match ranges {
        Some([min, max]) => (min.typed::<T>().to_vec(), max.typed::<T>().to_vec()),
        None => {
            let mut min = vec![T::infinity(); slices.count];
            let mut max = vec![T::neg_infinity(); slices.count];
            for (index, &x) in x.iter().enumerate() {
                let slice = slices.index(index);
                min[slice] = min[slice].min(x);
                max[slice] = max[slice].max(x);
            }
            (min, max)
        }
    };
    let scales: Vec<Scale<T>> =
        min.iter().zip(&max).map(|(&min, &max)| Scale::new(grid, min, max)).collect();
    let half = T::single(0.5);
    for (index, (to, &x)) in out.iter_mut().zip(x).enumerate() {
        let Scale { min, max, scale, inverse } = scales[slices.index(index)];
        let x = if given { x.min(max).max(min) } else { x };
        let scaled = x * scale;
        let level = if grid.to_even { scaled.ties_to_even() } else { (scaled + half).floor() };
        *to = level * inverse;
    }
    Ok(())
}

fn round_trip(init: &KernelInit<'_>, loops: LoopsOf, bits: Bits) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let signed = attrs.bool("signed_input")?;
    let given = attrs.bool("range_given")?;
    let narrow = attrs.contains("narrow_range") && attrs.bool("narrow_range")?;
    let to_even = !attrs.contains("round_mode") || attrs.str("round_mode")? == "HALF_TO_EVEN";
    let axis = if attrs.contains("axis") { attrs.int("axis")? } else { -1 };
    let check = move |num_bits: i64| {
        let limit = if signed { 62 } else { 63 };
        require!(
            num_bits > 0 && num_bits < limit,
            "num_bits is out of range: {num_bits} with signed_input_ {}",
            u8::from(signed)
        );
        Ok(())
    };
    let attr_bits = match bits {
        Bits::Attr => attrs.int("num_bits")?,
        Bits::Input => 8,
    };
    check(attr_bits)?;
    let in_attrs = match attrs.contains("input_min") {
        true => Some((attrs.float("input_min")?, attrs.float("input_max")?)),
        false => None,
    };
    if let Some((min, max)) = in_attrs.filter(|_| given) {
        require!(min <= max, "Invalid range: input_min {min} > input_max {max}");
    }
    kernel(move |ctx: &mut OpContext<'_>| {
        let x = ctx.input(0)?;
        let shape = x.shape();
        require!(axis >= -1, "Axis must be at least -1. Found {axis}");
        require!(
            axis < shape.rank() as i64,
            "Axis should be -1 or 0 or a positive value less than {}but given axis value was {axis}",
            shape.rank()
        );
        let slices = Slices::of(shape, axis);
        let mut num_bits = attr_bits;
        if bits == Bits::Input {
            let tensor = ctx.input(3)?;
            require!(
                tensor.count() == 1,
                "num_bits must be a scalar, got shape {}",
                tensor.shape()
            );
            num_bits = tensor.to_i64s()?[0];
            check(num_bits)?;
        }
        let half = 1i64 << (num_bits - 1);
        let grid = match signed {
            true => Grid { lowest: -half + i64::from(narrow), highest: half - 1, to_even },
            false => Grid { lowest: 0, highest: 2 * (half - 1) + 1, to_even },
        };
        let mut ends =
            [ctx.allocate(x.dtype(), Shape::scalar())?, ctx.allocate(x.dtype(), Shape::scalar())?];
        let ranges = match in_attrs {
            _ if !given => None,
            Some((min, max)) => {
                (loops.from_f32)(min, ends[0].elems_mut()?);
                (loops.from_f32)(max, ends[1].elems_mut()?);
                Some([ends[0].elems(), ends[1].elems()])
            }
            None => {
                // The reference takes ranges of slices from V3 alone.
                let axis = if bits == Bits::Attr { -1 } else { axis };
                Some(given_ranges(ctx, 1, axis, slices, true)?)
            }
        };
        let mut out = ctx.allocate_output(0, shape.clone())?;
        if out.count() > 0 {
            (loops.forward)(x.elems(), slices, grid, ranges, out.elems_mut()?)?;
        }
        ctx.set_output(0, out);
        Ok(())
    })
}

/// The ranges in inputs `first` and `first + 1`.
fn given_ranges<'a>(
    ctx: &'a OpContext<'_>,
    first: usize,
    axis: i64,
    slices: Slices,
    ordered: bool,
) -> Result<[Elems<'a>; 2]> {
    let tensors = [ctx.input(first)?, ctx.input(first + 1)?];
    for (tensor, name) in tensors.iter().zip(["input_min", "input_max"]) {
        if axis == -1 {
            require!(tensor.rank() == 0, "{name} must be a scalar.");
        } else {
            require!(
                tensor.rank() == 1 && tensor.count() == slices.count,
                "{name} must have as many elements as the axis, {}, got shape {}",
                slices.count,
                tensor.shape()
            );
        }
    }
    if ordered && axis == -1 {
        let value = |index: usize| -> Result<f64> {
            Ok(match tensors[index].as_slice::<f64>() {
                Ok(values) => values[0],
                Err(_) => f64::from(tensors[index].as_slice::<f32>()?[0]),
            })
        };
        let (min, max) = (value(0)?, value(1)?);
        require!(min <= max, "Invalid range: input_min {min} > input_max {max}");
    }
    Ok(tensors.map(|tensor| tensor.elems()))
}

fn gradient(init: &KernelInit<'_>, loops: LoopsOf) -> Result<Box<dyn Kernel>> {
    let axis = init.attrs.int("axis")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (gradient, x) = (ctx.input(0)?, ctx.input(1)?);
        require!(gradient.shape() == x.shape(), "gradient and input must be the same size");
        require!(axis >= -1, "Axis must be at least -1. Found {axis}");
        require!(
            axis < x.rank() as i64,
            "Axis should be -1 or 0 or a positive value less than {}but given axis value was {axis}",
            x.rank()
        );
        let slices = Slices::of(x.shape(), axis);
        let ranges = given_ranges(ctx, 2, axis, slices, false)?;
        ctx.produce(0, x.shape().clone(), |out| {
            (loops.backward)(gradient.elems(), x.elems(), slices, ranges, out);
        })?;
        for index in [1, 2] {
            let shape = ctx.input(index + 1)?.shape().clone();
            ctx.set_output(index, ctx.allocate_zeros(x.dtype(), shape)?);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op};

    use super::*;

    #[test]
    fn levels_around_zero() {
        let registry = registry_of(register);
        let attrs = |mode: &str| {
            [
                ("T", AttrValue::Type(DType::FLOAT)),
                ("num_bits", AttrValue::Int(4)),
                ("range_given", AttrValue::Bool(true)),
                ("round_mode", AttrValue::string(mode)),
            ]
        };
        // Levels -8 to 7 for the range up to 14: every second number.
        let x = floats(&[5], &[-20.0, -3.0, 1.0, 5.0, 13.2]);
        let inputs = [x.clone(), floats(&[], &[-2.0]), floats(&[], &[14.0])];
        let run = |mode| {
            let out = run_op(&registry, "QuantizeAndDequantizeV2", &attrs(mode), &inputs).unwrap();
            out[0].as_slice::<f32>().unwrap().to_vec()
        };
        assert_eq!(run("HALF_TO_EVEN"), [-16.0, -4.0, 0.0, 4.0, 14.0]);
        assert_eq!(run("HALF_UP"), [-16.0, -2.0, 2.0, 6.0, 14.0]);
        let inputs = [floats(&[5], &[1.0; 5]), x, inputs[1].clone(), inputs[2].clone()];
        let attrs = [("T", AttrValue::Type(DType::FLOAT))];
        let out = run_op(&registry, "QuantizeAndDequantizeV4Grad", &attrs, &inputs).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [0.0, 0.0, 1.0, 1.0, 1.0]);
        assert_eq!(out[1].as_slice::<f32>().unwrap(), [0.0]);
    }
}
