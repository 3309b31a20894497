//! `Cast`: elements of one type as elements of another.
//!
//! Values go through a wide type: small integers through `i32`, half types through `f32`. So there is a loop
//! for each source and for each pair of wide type and target, not for each pair of source and target. The
//! wide values of a block stay in the first-level cache.

use std::marker::PhantomData;
use std::sync::Arc;

use num_complex::Complex;
use tfcore_base::{
    BFloat16, Complex64, Complex128, DType, Elem, Float8E4M3Fn, Float8E5M2, Half, Int4, LoopFor,
    LoopSet, QInt8, QInt16, QInt32, QUInt8, QUInt16, Result, TypedLoop, UInt4, unimplemented_error,
};
use tfcore_framework::{
    Forward, Kernel, KernelInit, OpContext, Registry, ScalarKernel, for_each_part, shape_fns,
};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{Elems, ElemsMut, Scalar};

use crate::float8::{decode, encode};

/// A type that can be read as the wide type `W`.
trait Load<W>: Elem + Copy {
    fn load(self) -> W;
}

/// A type that can be made of the wide type `W`.
trait Store<W>: Elem {
    fn store(wide: W) -> Self;
}

macro_rules! loads {
    ($($wide:ty: $($type:ty)*, |$x:ident| $value:expr;)*) => {$($(
        impl Load<$wide> for $type {
            #[inline(always)]
            fn load(self) -> $wide {
                let $x = self;
                $value
            }
        }
    )*)*};
}

loads! {
    i32: bool i8 i16 u8 u16, |x| i32::from(x);
    i32: QInt8 QInt16 QUInt8 QUInt16, |x| i32::from(x.0);
    // A 4-bit integer is the low half of its byte.
    i32: Int4, |x| i32::from(x.0 << 4 >> 4);
    i32: UInt4, |x| i32::from(x.0 & 15);
    i32: QInt32, |x| x.0;
    i64: u32, |x| i64::from(x);
    f32: Half BFloat16, |x| x.to_f32();
    f32: Float8E5M2 Float8E4M3Fn, |x| decode(x);
    // As real numbers, complex ones lose their imaginary part.
    f32: Complex64, |x| x.re;
    f64: Complex128, |x| x.re;
}

/// Integers of up to 16 bits are made of the low bits of an `i32`, as on x86.
macro_rules! integer_stores {
    ($($type:ty: $through:ident;)*) => {$(
        impl Store<i32> for $type {
            #[inline(always)]
            fn store(wide: i32) -> $type {
                wide as $type
            }
        }

        impl Store<i64> for $type {
            #[inline(always)]
            fn store(wide: i64) -> $type {
                wide as $type
            }
        }

        impl Store<u64> for $type {
            #[inline(always)]
            fn store(wide: u64) -> $type {
                wide as $type
            }
        }

        impl Store<f32> for $type {
            #[inline(always)]
            fn store(wide: f32) -> $type {
                FloatBits::$through(wide) as $type
            }
        }

        impl Store<f64> for $type {
            #[inline(always)]
            fn store(wide: f64) -> $type {
                FloatBits::$through(wide) as $type
            }
        }
    )*};
}

integer_stores! {
    i8: to_i32;
    i16: to_i32;
    i32: to_i32;
    u8: to_i32;
    u16: to_i32;
    u32: to_i64;
    i64: to_i64;
    u64: to_u64;
}

/// Floats as integers, rounded towards zero. What does not fit, NaN included, is what the instructions of
/// x86 make of it: the number whose highest bit alone is set.
trait FloatBits {
    fn to_i32(self) -> i32;
    fn to_i64(self) -> i64;
    /// Negative numbers wrap around.
    fn to_u64(self) -> u64;
}

macro_rules! float_bits {
    ($($type:ty),*) => {$(
        impl FloatBits for $type {
            #[inline(always)]
            fn to_i32(self) -> i32 {
                // `as` saturates: only numbers beyond the upper bound and NaN come out differently.
                if self < 2147483648.0 { self as i32 } else { i32::MIN }
            }

            #[inline(always)]
            fn to_i64(self) -> i64 {
                if self < 9223372036854775808.0 { self as i64 } else { i64::MIN }
            }

            #[inline(always)]
            fn to_u64(self) -> u64 {
                if self < 9223372036854775808.0 {
                    self.to_i64() as u64
                } else if self < 18446744073709551616.0 {
                    self as u64
                } else {
                    1 << 63
                }
            }
        }
    )*};
}
float_bits!(f32, f64);

/// Targets made of any real number: `$convert` is a function of the wide value.
macro_rules! real_stores {
    ($($type:ty: |$x:ident| $value:expr;)*) => {
        real_stores! { @each [i32 i64 u64 f32 f64] $($type: |$x| $value;)* }
    };
    (@each $wides:tt $($type:ty: |$x:ident| $value:expr;)*) => {
        $(real_stores! { @one $wides $type: |$x| $value })*
    };
    (@one [$($wide:ty)*] $type:ty: |$x:ident| $value:expr) => {$(
        impl Store<$wide> for $type {
            #[inline(always)]
            fn store($x: $wide) -> $type {
                $value
            }
        }
    )*};
}

real_stores! {
    bool: |x| x != Default::default();
    f32: |x| x as f32;
    f64: |x| x as f64;
    // Through `f32`, as in Eigen: a `f64` is rounded twice.
    Half: |x| Half::from_f32(x as f32);
    BFloat16: |x| BFloat16::from_f32(x as f32);
    Complex64: |x| Complex::new(x as f32, 0.0);
    Complex128: |x| Complex::new(x as f64, 0.0);
    QInt8: |x| QInt8(Store::store(x));
    QInt16: |x| QInt16(Store::store(x));
    QInt32: |x| QInt32(Store::store(x));
    QUInt8: |x| QUInt8(Store::store(x));
    QUInt16: |x| QUInt16(Store::store(x));
}

macro_rules! stores {
    ($($wide:ty => $($type:ty)*: |$x:ident| $value:expr;)*) => {$($(
        impl Store<$wide> for $type {
            #[inline(always)]
            fn store($x: $wide) -> $type {
                $value
            }
        }
    )*)*};
}

stores! {
    f32 => Float8E5M2 Float8E4M3Fn: |x| encode(f64::from(x));
    f64 => Float8E5M2 Float8E4M3Fn: |x| encode(x);
    i32 => Int4: |x| Int4(x as i8 & 15);
    i64 => Int4: |x| Int4(x as i8 & 15);
    u64 => Int4: |x| Int4(x as i8 & 15);
    i32 => UInt4: |x| UInt4(x as u8 & 15);
    i64 => UInt4: |x| UInt4(x as u8 & 15);
    u64 => UInt4: |x| UInt4(x as u8 & 15);
    Complex64 => Complex128: |x| Complex::new(f64::from(x.re), f64::from(x.im));
    Complex128 => Complex64: |x| Complex::new(x.re as f32, x.im as f32);
}

/// A loop from elements of one type to as many of another.
type CastLoop = fn(Elems<'_>, ElemsMut<'_>);

struct LoadForm<W>(PhantomData<W>);
struct StoreForm<W>(PhantomData<W>);

impl<W> TypedLoop for LoadForm<W> {
    type Loop = CastLoop;
}

impl<T: Load<W>, W: Elem> LoopFor<T> for LoadForm<W> {
    const LOOP: CastLoop = |input, out| convert::<T, W>(input, out, |x| x.load());
}

impl<W> TypedLoop for StoreForm<W> {
    type Loop = CastLoop;
}

impl<T: Store<W>, W: Elem + Copy> LoopFor<T> for StoreForm<W> {
    const LOOP: CastLoop = |input, out| convert::<W, T>(input, out, |x| T::store(x));
}

#[inline(always)]
fn convert<A: Elem + Copy, B: Elem>(input: Elems<'_>, out: ElemsMut<'_>, f: impl Fn(A) -> B) {
    let (input, out) = (input.typed::<A>(), out.typed::<B>());
    vectorize(
        #[inline(always)]
        || {
            for (out, &x) in out.iter_mut().zip(input) {
                *out = f(x);
            }
        },
    );
}

type SmallIntegers = (bool, i8, i16, u8, u16, QInt8, QInt16, QUInt8, QUInt16, QInt32, Int4, UInt4);
type SmallFloats = (Half, BFloat16, Float8E5M2, Float8E4M3Fn, Complex64);
type Reals = (bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, Half, BFloat16);
type Others = (Complex64, Complex128, QInt8, QInt16, QInt32, QUInt8, QUInt16);

/// The wide type of elements of type `source`, and the loop that reads them where they are not of it
/// already.
fn loader(source: DType, target: DType) -> Option<(DType, Option<CastLoop>)> {
    fn pick<W: Elem, S: LoopSet<LoadForm<W>>>(source: DType) -> Option<(DType, CastLoop)> {
        S::loop_for(source).map(|load| (W::DTYPE, load))
    }
    match source {
        DType::INT32 | DType::INT64 | DType::UINT64 | DType::FLOAT | DType::DOUBLE => {
            return Some((source, None));
        }
        _ if source.is_complex() && target.is_complex() => return Some((source, None)),
        _ => {}
    }
    pick::<i32, SmallIntegers>(source)
        .or_else(|| pick::<f32, SmallFloats>(source))
        .or_else(|| pick::<i64, (u32,)>(source))
        .or_else(|| pick::<f64, (Complex128,)>(source))
        .map(|(wide, load)| (wide, Some(load)))
}

/// The loop that makes elements of type `target` of wide ones.
fn storer(wide: DType, target: DType) -> Option<CastLoop> {
    fn pick<W, S, O>(target: DType) -> Option<CastLoop>
    where
        S: LoopSet<StoreForm<W>>,
        O: LoopSet<StoreForm<W>>,
    {
        S::loop_for(target).or_else(|| O::loop_for(target))
    }
    fn real<W>(target: DType) -> Option<CastLoop>
    where
        Reals: LoopSet<StoreForm<W>>,
        Others: LoopSet<StoreForm<W>>,
    {
        pick::<W, Reals, Others>(target)
    }
    type Narrow = (Int4, UInt4);
    type Float8s = (Float8E5M2, Float8E4M3Fn);
    match wide {
        DType::INT32 => real::<i32>(target).or_else(|| pick::<i32, Narrow, Narrow>(target)),
        DType::INT64 => real::<i64>(target).or_else(|| pick::<i64, Narrow, Narrow>(target)),
        DType::UINT64 => real::<u64>(target).or_else(|| pick::<u64, Narrow, Narrow>(target)),
        DType::FLOAT => real::<f32>(target).or_else(|| pick::<f32, Float8s, Float8s>(target)),
        DType::DOUBLE => real::<f64>(target).or_else(|| pick::<f64, Float8s, Float8s>(target)),
        DType::COMPLEX64 => <(Complex128,) as LoopSet<StoreForm<Complex64>>>::loop_for(target),
        DType::COMPLEX128 => <(Complex64,) as LoopSet<StoreForm<Complex128>>>::loop_for(target),
        _ => None,
    }
}

/// Whether the reference converts between two different types: 4-bit integers only to and from
/// integers, to 8-bit floats only floats.
fn is_supported(source: DType, target: DType) -> bool {
    let is_narrow = |dtype| matches!(dtype, DType::INT4 | DType::UINT4);
    let is_float8 = |dtype| matches!(dtype, DType::FLOAT8_E5M2 | DType::FLOAT8_E4M3FN);
    let is_whole = |dtype: DType| dtype.is_integer() || dtype.is_quantized() || is_narrow(dtype);
    if is_narrow(source) || is_narrow(target) {
        return is_whole(source) && is_whole(target);
    }
    !is_float8(target) || source.is_float() || is_float8(source)
}

/// Returns the number of low bits that are cleared first if a node asks to truncate: of the mantissa, except for one pair.
fn truncated_bits(source: DType, target: DType) -> u32 {
    // The reference takes the mantissa of a complex number for one of 0 bits, and clears the lowest bit of the exponent too.
    if (source, target) == (DType::DOUBLE, DType::COMPLEX64) {
        return 53;
    }
    let mantissa = |dtype| -> u32 {
        match dtype {
            DType::DOUBLE | DType::COMPLEX128 => 52,
            DType::FLOAT | DType::COMPLEX64 => 23,
            DType::HALF => 10,
            DType::BFLOAT16 => 7,
            DType::FLOAT8_E4M3FN => 3,
            DType::FLOAT8_E5M2 => 2,
            _ => 0,
        }
    };
    // The reference truncates to `bfloat16` from `float` only.
    let truncates = mantissa(source) > 0
        && mantissa(target) > 0
        && (target != DType::BFLOAT16 || source == DType::FLOAT);
    if truncates { mantissa(source).saturating_sub(mantissa(target)) } else { 0 }
}

/// Clears low mantissa bits of numbers, but not of NaNs, whose bits might all be there.
fn clear_bits(elems: ElemsMut<'_>, bits: u32) {
    fn clear<T: Copy>(values: &mut [T], is_nan: impl Fn(T) -> bool, cleared: impl Fn(T) -> T) {
        for value in values.iter_mut().filter(|value| !is_nan(**value)) {
            *value = cleared(*value);
        }
    }
    let single = |x: f32| f32::from_bits(x.to_bits() >> bits << bits);
    let double = |x: f64| f64::from_bits(x.to_bits() >> bits << bits);
    match elems.dtype() {
        DType::FLOAT => clear(elems.typed(), f32::is_nan, single),
        DType::DOUBLE => clear(elems.typed(), f64::is_nan, double),
        DType::COMPLEX64 => clear(
            elems.typed(),
            |z: Complex64| z.is_nan(),
            |z| Complex::new(single(z.re), single(z.im)),
        ),
        DType::COMPLEX128 => clear(
            elems.typed(),
            |z: Complex128| z.is_nan(),
            |z| Complex::new(double(z.re), double(z.im)),
        ),
        DType::HALF => {
            clear(elems.typed(), Half::is_nan, |x| Half::from_bits(x.to_bits() >> bits << bits))
        }
        DType::BFLOAT16 => clear(elems.typed(), BFloat16::is_nan, |x| {
            BFloat16::from_bits(x.to_bits() >> bits << bits)
        }),
        _ => {}
    }
}

/// Elements that are converted at a time.
const BLOCK: usize = 256;
/// Memory for a block of the widest elements.
const SCRATCH: usize = BLOCK * 2;

/// Converts elements in up to three steps; a step that has nothing to do is left out.
struct CastKernel {
    target: DType,
    truncated_bits: u32,
    wide: DType,
    load: Option<CastLoop>,
    store: Option<CastLoop>,
}

impl CastKernel {
    fn build(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
        let (source, target) = (init.attrs.dtype("SrcT")?, init.attrs.dtype("DstT")?);
        if source == target {
            return Ok(Box::new(Forward));
        }
        let unsupported = || unimplemented_error!("Cast {source} to {target} is not supported");
        if !is_supported(source, target) {
            return Err(unsupported());
        }
        let (wide, load) = loader(source, target).ok_or_else(unsupported)?;
        let store = match wide == target {
            true => None,
            false => Some(storer(wide, target).ok_or_else(unsupported)?),
        };
        let truncated_bits =
            if init.attrs.bool("Truncate")? { truncated_bits(source, target) } else { 0 };
        Ok(Box::new(CastKernel { target, truncated_bits, wide, load, store }))
    }

    fn convert(&self, input: Elems<'_>, mut out: ElemsMut<'_>) {
        match (self.load, self.store) {
            (Some(only), None) | (None, Some(only)) if self.truncated_bits == 0 => {
                return only(input, out);
            }
            _ => {}
        }
        let (mut first, mut second) = ([0u64; SCRATCH], [0u64; SCRATCH]);
        let len = out.len();
        for start in (0..len).step_by(BLOCK) {
            let range = start..(start + BLOCK).min(len);
            let mut block = input.slice(range.clone());
            let mut cleared = ElemsMut::scratch(block.dtype(), block.len(), &mut first);
            if self.truncated_bits > 0 {
                cleared.reborrow().copy_from(block);
                clear_bits(cleared.reborrow(), self.truncated_bits);
                block = cleared.as_shared();
            }
            let mut wide = ElemsMut::scratch(self.wide, block.len(), &mut second);
            let target = out.slice(range);
            match (self.load, self.store) {
                (Some(load), Some(store)) => {
                    load(block, wide.reborrow());
                    store(wide.as_shared(), target);
                }
                (Some(only), None) | (None, Some(only)) => only(block, target),
                (None, None) => target.copy_from(block),
            }
        }
    }
}

impl Kernel for CastKernel {
    fn compute(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let input = ctx.input(0)?;
        let mut out = ctx.allocate(self.target, input.shape().clone())?;
        let elems = input.elems();
        for_each_part(ctx.parallel(), out.elems_mut()?, 2, &|start, part| {
            self.convert(elems.slice(start..start + part.len()), part);
        });
        ctx.set_output(0, out);
        Ok(())
    }

    fn on_scalars(self: Arc<Self>) -> Option<Arc<dyn ScalarKernel>> {
        Some(self)
    }
}

impl ScalarKernel for CastKernel {
    fn apply(&self, [x, ..]: [&Scalar; 3], out: &mut Scalar) -> bool {
        self.convert(x.elems(), out.elems_mut());
        true
    }
}

pub(crate) fn register(r: &mut Registry) {
    // `Cast(x: SrcT, Truncate: bool = false) -> y: DstT`.
    r.op("Cast").shape(shape_fns::unchanged).cpu(CastKernel::build);
    // `_HostCast(x: SrcT, Truncate: bool = false) -> y: DstT`, the same for tensors in host memory.
    r.op("_HostCast").shape(shape_fns::unchanged).cpu(CastKernel::build);
}

#[cfg(test)]
mod tests {
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op};
    use tfcore_tensor::{Shape, Tensor};

    use super::*;

    fn run(input: Tensor, target: DType, truncate: bool) -> Result<Tensor> {
        let registry = registry_of(register);
        let attrs = [
            ("SrcT", AttrValue::Type(input.dtype())),
            ("DstT", AttrValue::Type(target)),
            ("Truncate", AttrValue::Bool(truncate)),
        ];
        run_op(&registry, "Cast", &attrs, &[input]).map(|mut outputs| outputs.remove(0))
    }

    fn cast<A: Elem, B: Elem>(values: &[A]) -> Vec<B> {
        let input = Tensor::from_slice(Shape::vector(values.len()), values).unwrap();
        run(input, B::DTYPE, false).unwrap().as_slice().unwrap().to_vec()
    }

    #[test]
    fn floats_to_integers_as_on_x86() {
        let values = [f32::NAN, f32::INFINITY, 300.7, -1.5, 1e10, 3e9, 1e20, 70000.0];
        assert_eq!(cast::<f32, i8>(&values), [0, 0, 44, -1, 0, 0, 0, 112]);
        assert_eq!(cast::<f32, u8>(&values), [0, 0, 44, 255, 0, 0, 0, 112]);
        assert_eq!(cast::<f32, i16>(&values), [0, 0, 300, -1, 0, 0, 0, 4464]);
        let least = i32::MIN;
        assert_eq!(cast::<f32, i32>(&values), [least, least, 300, -1, least, least, least, 70000]);
        assert_eq!(
            cast::<f32, u32>(&values),
            [0, 0, 300, u32::MAX, 1410065408, 3_000_000_000, 0, 70000]
        );
        assert_eq!(
            cast::<f64, u64>(&[-1.5, 1.5e19, 1e20]),
            [u64::MAX, 15_000_000_000_000_000_000, 1 << 63]
        );
    }

    #[test]
    fn pairs() {
        assert_eq!(cast::<i64, i32>(&[1 << 40 | 7, -2]), [7, -2]);
        assert_eq!(cast::<u8, f32>(&[200, 1]), [200.0, 1.0]);
        assert_eq!(cast::<bool, f64>(&[true, false]), [1.0, 0.0]);
        assert_eq!(cast::<f32, bool>(&[0.0, -0.0, 0.1, f32::NAN]), [false, false, true, true]);
        assert_eq!(cast::<u64, f32>(&[u64::MAX]), [18446744073709551616.0]);
        assert_eq!(cast::<Complex64, i32>(&[Complex::new(3.7, 9.0)]), [3]);
        assert_eq!(cast::<i8, Complex128>(&[-3]), [Complex::new(-3.0, 0.0)]);
        assert_eq!(
            cast::<Complex128, Complex64>(&[Complex::new(0.5, 2.0)]),
            [Complex::new(0.5, 2.0)]
        );
        assert_eq!(cast::<i32, Int4>(&[1, -1, 15, 200]), [1, 15, 15, 8].map(Int4));
        assert_eq!(cast::<Int4, i64>(&[1, 15, 8].map(Int4)), [1, -1, -8]);
        assert_eq!(cast::<UInt4, u8>(&[UInt4(15)]), [15]);
        // Rounded by way of `f32`, where it is a tie.
        let tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(cast::<f64, Half>(&[tie]), [Half::ONE]);
        let long: Vec<u16> = (0..1000).collect();
        let expected: Vec<f32> = (0..1000u16).map(f32::from).collect();
        assert_eq!(cast::<u16, f32>(&long), expected);
    }

    #[test]
    fn truncation_clears_bits() {
        let input = Tensor::scalar(1.999f32);
        let half = run(input.clone(), DType::HALF, true).unwrap();
        assert_eq!(half.as_slice::<Half>().unwrap()[0].to_f32(), 1023.0 / 512.0);
        let half = run(input, DType::HALF, false).unwrap();
        assert_eq!(half.as_slice::<Half>().unwrap()[0].to_f32(), 2047.0 / 1024.0);
        let input = Tensor::from_slice(Shape::vector(4), &[1.0f64, -1.9, 3.0, 0.75]).unwrap();
        let complex = run(input, DType::COMPLEX64, true).unwrap();
        let expected = [0.5, -0.5, 2.0, 0.5].map(|re| Complex64::new(re, 0.0));
        assert_eq!(complex.as_slice::<Complex64>().unwrap(), expected);
        let input = Tensor::scalar(1.999f64);
        let rounded = run(input, DType::BFLOAT16, true).unwrap();
        assert_eq!(rounded.as_slice::<BFloat16>().unwrap()[0].to_f32(), 2.0);
    }

    #[test]
    fn unsupported_pairs() {
        let cases = [
            (DType::STRING, DType::FLOAT),
            (DType::FLOAT, DType::STRING),
            (DType::INT32, DType::FLOAT8_E5M2),
            (DType::BOOL, DType::INT4),
            (DType::FLOAT, DType::UINT4),
            (DType::FLOAT8_E4M3FNUZ, DType::FLOAT),
        ];
        for (source, target) in cases {
            let input = Tensor::zeros(source, Shape::vector(1)).unwrap();
            let error = run(input, target, false).unwrap_err();
            assert_eq!(error.message(), format!("Cast {source} to {target} is not supported"));
        }
        let strings = Tensor::zeros(DType::STRING, Shape::vector(1)).unwrap();
        assert!(run(strings, DType::STRING, false).is_ok());
    }
}
