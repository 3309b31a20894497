//! Ops that a debugger puts behind others: they hand values on, or count what is in them.

use tfcore_base::{
    BFloat16, DType, Elem, Half, LoopFor, Result, TypedLoop, invalid, require, unimplemented_error,
};
use tfcore_framework::{Forward, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns};
use tfcore_tensor::{Elems, Shape, Tensor};

type Numeric = (f32, f64, Half, BFloat16, i8, i16, i32, i64, u8, u16, u32, u64);
type Summarised = (f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool);
type SummarisedV2 = (f32, f64, Half, BFloat16, i8, i16, i32, i64, u8, u16, u32, u64, bool);

pub(crate) fn register(r: &mut Registry) {
    // `Copy(input: T) -> output: T`, `CopyHost`, `DebugGradientIdentity`: the input.
    for op in ["Copy", "CopyHost", "DebugGradientIdentity"] {
        r.op(op).shape(shape_fns::unchanged).cpu(|_| Ok(Box::new(Forward)));
    }

    // `DebugIdentity(input: T; device_name, tensor_name, debug_urls, gated_grpc) -> output: T`, and its `V2`.
    for op in ["DebugIdentity", "DebugIdentityV2"] {
        r.op(op).shape(shape_fns::unchanged).cpu(|init| {
            check_urls(init)?;
            Ok(Box::new(Forward))
        });
    }

    // `DebugGradientRefIdentity(input: Ref(T)) -> output: Ref(T)`.
    r.op("DebugGradientRefIdentity").shape(shape_fns::unchanged).compute(|ctx| {
        let variable = ctx.input_ref(0)?.clone();
        ctx.set_output_ref(0, variable);
        Ok(())
    });

    // `DumpTensor(tensor_data: T; enabled, ...)` has no shape function in the reference, so that no graph can hold it.
    r.op("DumpTensor")
        .shape(|_| {
            Err(invalid!(
                "No shape inference function exists for op 'DumpTensor', did you forget to define it?"
            ))
        })
        .cpu(|_| Err(unimplemented_error!("DumpTensor: writing tensors to files is not supported")));

    // `DebugNanCount(input: T) -> output: int64`, a vector of one.
    // The reference's static shape is a scalar's all the same.
    r.op("DebugNanCount").shape(shape_fns::scalar).typed_kernel::<Tally, Numeric>(
        "T",
        |init, tally| {
            check_urls(init)?;
            kernel(move |ctx| {
                let counts = tally(ctx.input(0)?.elems(), f64::NEG_INFINITY, f64::INFINITY);
                ctx.set_output(0, Tensor::from_slice(Shape::vector(1), &[counts.nan as i64])?);
                Ok(())
            })
        },
    );

    // `DebugNumericSummary(input: T; lower_bound, upper_bound, mute_if_healthy) -> output: double`: initialised, count, NaN, at
    // or below the lower bound, negative, zero, positive, at or above the upper bound, minimum, maximum, mean, variance of
    // the rest, dtype, rank, dimensions.
    r.op("DebugNumericSummary")
        .shape(shape_fns::unknown)
        .typed_kernel::<Tally, Summarised>("T", summary);

    // `DebugNumericSummaryV2(input: T; tensor_debug_mode, tensor_id) -> output: output_dtype`.
    r.op("DebugNumericSummaryV2")
        .shape(shape_fns::unknown)
        .typed_kernel::<Tally, SummarisedV2>("T", summary_v2);
}

/// Values are sent nowhere: there is no debugger that would listen.
fn check_urls(init: &KernelInit<'_>) -> Result<()> {
    match init.attrs.string_list("debug_urls") {
        Ok(urls) if !urls.is_empty() => Err(unimplemented_error!(
            "{}: sending tensors to debug_urls is not supported",
            init.op.name
        )),
        _ => Ok(()),
    }
}

/// The numbers of a tensor by kind.
#[derive(Default, Clone, Copy)]
struct Counts {
    nan: u64,
    negative_infinite: u64,
    negative: u64,
    zero: u64,
    positive: u64,
    positive_infinite: u64,
    min: f64,
    max: f64,
    mean: f64,
    variance: f64,
}

/// Counts elements; those at or beyond the bounds count as infinite.
type TallyLoop = fn(Elems<'_>, f64, f64) -> Counts;

struct Tally;

impl TypedLoop for Tally {
    type Loop = TallyLoop;
}

/// A number as a double.
trait AsDouble: Elem + Copy {
    fn double(self) -> f64;
}

macro_rules! doubles {
    ($($t:ty)*) => {$(
        impl AsDouble for $t {
            fn double(self) -> f64 {
                self as f64
            }
        }
    )*};
}
doubles!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);

impl AsDouble for Half {
    fn double(self) -> f64 {
        self.to_f64()
    }
}

impl AsDouble for BFloat16 {
    fn double(self) -> f64 {
        self.to_f64()
    }
}

impl AsDouble for bool {
    fn double(self) -> f64 {
        f64::from(u8::from(self))
    }
}

impl<T: AsDouble> LoopFor<T> for Tally {
    const LOOP: TallyLoop = |values, low, high| {
        let values = values.typed::<T>();
        let is_regular = |value: &f64| !value.is_nan() && *value > low && *value < high;
        let mut counts = Counts { min: f64::INFINITY, max: f64::NEG_INFINITY, ..Counts::default() };
        let mut sum = 0.0;
        for value in values.iter().map(|value| value.double()) {
            let kind = if value.is_nan() {
                &mut counts.nan
            } else if value <= low {
                &mut counts.negative_infinite
            } else if value >= high {
                &mut counts.positive_infinite
            } else if value < 0.0 {
                &mut counts.negative
            } else if value == 0.0 {
                &mut counts.zero
            } else {
                &mut counts.positive
            };
            *kind += 1;
            if is_regular(&value) {
                counts.min = counts.min.min(value);
                counts.max = counts.max.max(value);
                sum += value;
            }
        }
        let regular = (counts.negative + counts.zero + counts.positive) as f64;
        counts.mean = sum / regular;
        let squares = values.iter().map(|value| value.double()).filter(is_regular);
        let squares: f64 = squares.map(|value| (value - counts.mean) * (value - counts.mean)).sum();
        counts.variance = squares / regular;
        counts
    };
}

fn summary(init: &KernelInit<'_>, tally: TallyLoop) -> Result<Box<dyn Kernel>> {
    check_urls(init)?;
    let name = init.attrs.str("tensor_name")?;
    require!(name.split(':').count() == 2, "Failed to parse tensor name: \"{name}\"");
    let low = f64::from(init.attrs.float("lower_bound")?);
    let high = f64::from(init.attrs.float("upper_bound")?);
    let mutes = init.attrs.bool("mute_if_healthy")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        let counts = tally(input.elems(), low, high);
        let ill = counts.nan + counts.negative_infinite + counts.positive_infinite;
        if mutes && ill == 0 {
            ctx.set_output(0, Tensor::zeros(DType::DOUBLE, Shape::vector(0))?);
            return Ok(());
        }
        let mut values = vec![1.0, input.count() as f64];
        values.extend(
            [
                counts.nan,
                counts.negative_infinite,
                counts.negative,
                counts.zero,
                counts.positive,
                counts.positive_infinite,
            ]
            .map(|count| count as f64),
        );
        values.extend([counts.min, counts.max, counts.mean, counts.variance]);
        values.extend([dtype_number(input.dtype()), input.rank() as f64]);
        values.extend(input.shape().dims().iter().map(|&dim| dim as f64));
        ctx.set_output(0, Tensor::from_slice(Shape::vector(values.len()), &values)?);
        Ok(())
    })
}

fn dtype_number(dtype: DType) -> f64 {
    f64::from(dtype.to_i32())
}

fn summary_v2(init: &KernelInit<'_>, tally: TallyLoop) -> Result<Box<dyn Kernel>> {
    let mode = init.attrs.int("tensor_debug_mode")?;
    let id = init.attrs.int("tensor_id")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        let (bits, kept) = match ctx.output_dtype(0) {
            DType::DOUBLE => (53, "2^53"),
            _ => (24, "2^24"),
        };
        if id > 1 << bits {
            return Err(invalid!(
                "DebugNumericSummaryV2Op requires tensor_id to be less than or equal to ({kept}). Given \
                 tensor_id:{id}"
            ));
        }
        let counts = tally(input.elems(), f64::NEG_INFINITY, f64::INFINITY);
        let (id, count, dtype) = (id as f64, input.count() as f64, dtype_number(input.dtype()));
        let [low, high, nan] =
            [counts.negative_infinite, counts.positive_infinite, counts.nan].map(|n| n as f64);
        let ill = low + high + nan > 0.0;
        let values: Vec<f64> = match mode {
            2 => vec![id, f64::from(u8::from(ill))],
            3 => vec![id, count, low, high, nan],
            4 => {
                let [negative, zero, positive] =
                    [counts.negative, counts.zero, counts.positive].map(|n| n as f64);
                let rank = input.rank() as f64;
                vec![id, -1.0, dtype, rank, count, low, high, nan, negative, zero, positive]
            }
            5 => {
                let dims = input.shape().dims();
                let last = &dims[dims.len().saturating_sub(6)..];
                let mut values = vec![id, dtype, dims.len() as f64, count];
                values.extend(last.iter().map(|&dim| dim as f64));
                values.resize(10, 0.0);
                values
            }
            8 => {
                let found = |count: f64, value: f64| if count > 0.0 { value } else { 0.0 };
                vec![
                    found(low, f64::NEG_INFINITY),
                    found(high, f64::INFINITY),
                    found(nan, f64::NAN),
                ]
            }
            other => {
                return Err(unimplemented_error!("Unimplemented tensor debug mode: {other}"));
            }
        };
        ctx.produce(0, Shape::vector(values.len()), |out| match out.dtype() {
            DType::DOUBLE => out.typed::<f64>().copy_from_slice(&values),
            _ => {
                for (out, value) in out.typed::<f32>().iter_mut().zip(&values) {
                    *out = *value as f32;
                }
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_by_kind() {
        let values = [f32::NAN, f32::NEG_INFINITY, -2.0, 0.0, 1.0, 4.0, f32::INFINITY];
        let run = <Tally as LoopFor<f32>>::LOOP;
        let counts = run(Elems::of(&values), f64::NEG_INFINITY, 4.0);
        let kinds = [counts.nan, counts.negative_infinite, counts.negative, counts.zero];
        assert_eq!(kinds, [1; 4]);
        assert_eq!((counts.positive, counts.positive_infinite), (1, 2));
        assert_eq!((counts.min, counts.max), (-2.0, 1.0));
        assert!((counts.mean + 1.0 / 3.0).abs() < 1e-12);
        assert!((counts.variance - 14.0 / 9.0).abs() < 1e-12);
    }
}
