//! Fourier transforms of one to three dimensions: `FFT`, `IFFT`, `RFFT`, `IRFFT` and their 2-D and 3-D forms.

use std::sync::Arc;

use num_complex::Complex;
use num_traits::FromPrimitive;
use parking_lot::Mutex;
use rustfft::{Fft, FftNum, FftPlanner};
use tfcore_base::{DType, Elem, Result, internal, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Dim, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `FFT(input: Tcomplex) -> output: Tcomplex`, over the innermost dimensions; the inverses are divided by the number of
    // elements that are transformed.
    for (rank, forward, backward) in
        [(1, "FFT", "IFFT"), (2, "FFT2D", "IFFT2D"), (3, "FFT3D", "IFFT3D")]
    {
        for (op, is_forward) in [(forward, true), (backward, false)] {
            r.op(op)
                .shape(shape_fns::unchanged_of_rank_at_least(rank))
                .cpu(move |init| transform(init, Kind { rank, is_forward, is_real: false }));
        }
    }
    // `RFFT(input: Treal, fft_length: int32) -> output: Tcomplex`: the first half of the spectrum of the first `fft_length`
    // elements of each innermost dimension; `IRFFT` is its inverse.
    for (rank, forward, backward) in
        [(1, "RFFT", "IRFFT"), (2, "RFFT2D", "IRFFT2D"), (3, "RFFT3D", "IRFFT3D")]
    {
        for (op, is_forward) in [(forward, true), (backward, false)] {
            r.op(op)
                .shape(move |ctx| real_shape(ctx, rank, is_forward))
                .cpu(move |init| transform(init, Kind { rank, is_forward, is_real: true }));
        }
    }
}

#[derive(Clone, Copy)]
struct Kind {
    rank: usize,
    is_forward: bool,
    is_real: bool,
}

fn real_shape(ctx: &mut InferenceContext<'_>, rank: usize, is_forward: bool) -> Result<()> {
    let mut shape = shape_ops::with_rank_at_least(ctx.input(0), rank)?;
    let lengths = shape_ops::with_rank(ctx.input(1), 1)?;
    shape_ops::with_value(lengths.dim(0), rank as i64)?;
    let lengths = ctx.operand_i64s(1)?;
    if shape.rank().is_some() {
        for i in 0..rank {
            let dim = match &lengths {
                None => Dim::UNKNOWN,
                Some(lengths) if is_forward && i + 1 == rank => Dim::new(half(lengths[i])),
                Some(lengths) => Dim::new(lengths[i]),
            };
            shape = shape_ops::replace_dim(&shape, i as i64 - rank as i64, dim)?;
        }
    }
    ctx.set_output(0, shape);
    Ok(())
}

/// The length of the half of a spectrum that tells the rest.
fn half(length: i64) -> i64 {
    if length == 0 { 0 } else { length / 2 + 1 }
}

/// The last few plans, of both directions: a plan costs more than a short transform.
struct Plans<T: FftNum> {
    recent: Mutex<Vec<(usize, bool, Arc<dyn Fft<T>>)>>,
}

/// A node that transforms other lengths each time keeps no more than these.
const KEPT: usize = 8;

impl<T: FftNum> Plans<T> {
    fn new() -> Plans<T> {
        Plans { recent: Mutex::new(Vec::new()) }
    }

    fn get(&self, length: usize, is_forward: bool) -> Arc<dyn Fft<T>> {
        let mut recent = self.recent.lock();
        let known =
            recent.iter().find(|(len, forward, _)| (*len, *forward) == (length, is_forward));
        if let Some((_, _, plan)) = known {
            return plan.clone();
        }
        let mut planner = FftPlanner::new();
        let plan = match is_forward {
            true => planner.plan_fft_forward(length),
            false => planner.plan_fft_inverse(length),
        };
        if recent.len() == KEPT {
            recent.remove(0);
        }
        recent.push((length, is_forward, plan.clone()));
        plan
    }
}

fn transform(init: &KernelInit<'_>, kind: Kind) -> Result<Box<dyn Kernel>> {
    let (from, to) = (init.input_dtypes[0], init.output_dtypes[0]);
    let pairs = match (kind.is_real, kind.is_forward) {
        (false, _) => {
            [(DType::COMPLEX64, DType::COMPLEX64), (DType::COMPLEX128, DType::COMPLEX128)]
        }
        (true, true) => [(DType::FLOAT, DType::COMPLEX64), (DType::DOUBLE, DType::COMPLEX128)],
        (true, false) => [(DType::COMPLEX64, DType::FLOAT), (DType::COMPLEX128, DType::DOUBLE)],
    };
    let what = match (kind.is_real, kind.is_forward) {
        (false, _) => "FFT",
        (true, true) => "forward real FFT",
        (true, false) => "backward real FFT",
    };
    match pairs.iter().position(|&pair| pair == (from, to)) {
        Some(0) => {
            let plans = Plans::<f32>::new();
            kernel(move |ctx| compute(ctx, kind, &plans))
        }
        Some(_) => {
            let plans = Plans::<f64>::new();
            kernel(move |ctx| compute(ctx, kind, &plans))
        }
        None => {
            let message =
                invalid!("Wrong types for {what}: in={} out={}", from.to_i32(), to.to_i32());
            kernel(move |_: &mut OpContext<'_>| Err(message.clone()))
        }
    }
}

fn compute<T>(ctx: &mut OpContext<'_>, kind: Kind, plans: &Plans<T>) -> Result<()>
where
    T: FftNum + Elem,
    Complex<T>: Elem,
{
    let Kind { rank, is_forward, is_real } = kind;
    let input = ctx.input(0)?;
    let shape = input.shape();
    require!(shape.rank() >= rank, "Input must have rank of at least {rank} but got: {shape}");
    let outer = shape.rank() - rank;
    let mut dims = shape.to_vec();
    // The numbers of elements that take part, along each transformed dimension.
    let mut lengths: Vec<usize> = (outer..shape.rank()).map(|axis| shape.dim(axis)).collect();
    if is_real {
        let asked = ctx.input(1)?;
        require!(asked.shape()[..] == [rank as i64], "fft_length must have shape [{rank}]");
        for (i, length) in asked.to_i64s()?.into_iter().enumerate() {
            require!(length >= 0, "fft_length[{i}] must >= 0, but got: {length}");
            let is_last = i + 1 == rank;
            let needed = if !is_forward && is_last { length / 2 + 1 } else { length };
            let size = dims[outer + i];
            require!(
                size == 0 || size >= needed,
                "Input dimension {} must have length of at least {needed} but got: {size}",
                outer + i
            );
            lengths[i] = length as usize;
            dims[outer + i] = if is_forward && is_last { half(length) } else { length };
        }
    }
    let mut out = ctx.allocate_zeros(ctx.output_dtype(0), Shape::new(&dims)?)?;
    if input.count() > 0 && out.count() > 0 {
        let task = Task { plans, lengths: &lengths, is_forward, parallel: ctx.parallel() };
        match (is_real, is_forward) {
            (false, _) => {
                out.as_mut_slice::<Complex<T>>()?.copy_from_slice(input.as_slice()?);
                task.transform(out.as_mut_slice()?, &lengths, 0..rank)?;
            }
            (true, true) => task.of_real(input, &mut out)?,
            (true, false) => task.to_real(input, &mut out)?,
        }
    }
    ctx.set_output(0, out);
    Ok(())
}

/// A transform of many blocks of the same lengths.
struct Task<'a, T: FftNum> {
    plans: &'a Plans<T>,
    lengths: &'a [usize],
    is_forward: bool,
    parallel: Parallel<'a>,
}

/// Elements that are worth a thread of their own.
const GRAIN: usize = 4096;

impl<T> Task<'_, T>
where
    T: FftNum + Elem,
    Complex<T>: Elem,
{
    /// Transforms blocks of the dimensions `dims` in place, along some of them, and divides by their lengths if it is an
    /// inverse.
    fn transform(
        &self,
        data: &mut [Complex<T>],
        dims: &[usize],
        axes: std::ops::Range<usize>,
    ) -> Result<()> {
        let mut scale = 1.0;
        for axis in axes.rev() {
            let (length, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
            let plan = self.plans.get(length, self.is_forward);
            let slab = length * inner;
            let grain = GRAIN.next_multiple_of(slab);
            par_chunks_mut(self.parallel, data, slab, grain, &|_, piece: &mut [Complex<T>]| {
                let zero = Complex::new(T::zero(), T::zero());
                let mut scratch = vec![zero; plan.get_inplace_scratch_len()];
                if inner == 1 {
                    return plan.process_with_scratch(piece, &mut scratch);
                }
                let mut line = vec![zero; length];
                for slab in piece.chunks_exact_mut(slab) {
                    for column in 0..inner {
                        for (i, x) in line.iter_mut().enumerate() {
                            *x = slab[i * inner + column];
                        }
                        plan.process_with_scratch(&mut line, &mut scratch);
                        for (i, &x) in line.iter().enumerate() {
                            slab[i * inner + column] = x;
                        }
                    }
                }
            });
            scale *= length as f64;
        }
        if !self.is_forward {
            let factor = <T as FromPrimitive>::from_f64(1.0 / scale)
                .ok_or_else(|| internal!("a scale that is no float"))?;
            data.iter_mut().for_each(|x| *x = *x * factor);
        }
        Ok(())
    }

    /// The spectrum of the leading part of each block of real numbers.
    fn of_real(&self, input: &Tensor, out: &mut Tensor) -> Result<()> {
        let rank = self.lengths.len();
        let from = inner_dims(input.shape(), rank);
        let mut whole = Vec::with_capacity(out.count() * 2);
        let values = input.as_slice::<T>()?;
        for_each_row(&from, self.lengths, values.len(), &mut |start| {
            let row = &values[start..start + self.lengths[rank - 1]];
            whole.extend(row.iter().map(|&x| Complex::new(x, T::zero())));
        });
        let last = rank - 1;
        self.transform(&mut whole, self.lengths, last..rank)?;
        let width = self.lengths[last];
        let kept = out.dim(out.rank() - 1);
        let rows = whole.chunks_exact(width);
        let target = out.as_mut_slice::<Complex<T>>()?;
        for (to, row) in target.chunks_exact_mut(kept).zip(rows) {
            to.copy_from_slice(&row[..kept]);
        }
        let mut dims = self.lengths.to_vec();
        dims[last] = kept;
        self.transform(target, &dims, 0..last)
    }

    /// The real numbers whose half spectrum is the leading part of each block.
    fn to_real(&self, input: &Tensor, out: &mut Tensor) -> Result<()> {
        let rank = self.lengths.len();
        let last = rank - 1;
        let from = inner_dims(input.shape(), rank);
        let mut dims = self.lengths.to_vec();
        dims[last] = self.lengths[last] / 2 + 1;
        let values = input.as_slice::<Complex<T>>()?;
        let mut spectrum = Vec::with_capacity(out.count());
        for_each_row(&from, &dims, values.len(), &mut |start| {
            spectrum.extend_from_slice(&values[start..start + dims[last]]);
        });
        self.transform(&mut spectrum, &dims, 0..last)?;
        let (width, kept) = (self.lengths[last], dims[last]);
        let mut whole = Vec::with_capacity(spectrum.len() * 2);
        for row in spectrum.chunks_exact(kept) {
            // Parts of the spectrum that would give what is not real do not count.
            let real = |x: Complex<T>| Complex::new(x.re, T::zero());
            for i in 0..width {
                whole.push(match i {
                    0 => real(row[0]),
                    i if 2 * i == width => real(row[i]),
                    i if i < kept => row[i],
                    i => row[width - i].conj(),
                });
            }
        }
        self.transform(&mut whole, self.lengths, last..rank)?;
        for (out, x) in out.as_mut_slice::<T>()?.iter_mut().zip(whole) {
            *out = x.re;
        }
        Ok(())
    }
}

/// The last `rank` dimensions.
fn inner_dims(shape: &Shape, rank: usize) -> Vec<usize> {
    shape[shape.rank() - rank..].iter().map(|&dim| dim as usize).collect()
}

/// Calls `f` with the start of each row of the leading part, of dimensions `part`, of each block of dimensions `dims`, in
/// order.
fn for_each_row(dims: &[usize], part: &[usize], len: usize, f: &mut dyn FnMut(usize)) {
    let block: usize = dims.iter().product();
    let last = dims.len() - 1;
    let rows: usize = part[..last].iter().product();
    for first in (0..len).step_by(block.max(1)) {
        for row in 0..rows {
            let (mut rest, mut offset, mut stride) = (row, 0, dims[last]);
            for axis in (0..last).rev() {
                offset += rest % part[axis] * stride;
                rest /= part[axis];
                stride *= dims[axis];
            }
            f(first + offset);
        }
    }
}
