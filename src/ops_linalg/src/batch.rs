//! The driver of ops on matrices: the innermost two dimensions are a matrix, the others count problems, which the threads
//! of the pool share.

use std::marker::PhantomData;
use std::ops::Range;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tfcore_base::{Elem, Error, LoopFor, Result, TypedLoop, require};
use tfcore_framework::{Kernel, KernelInit};
use tfcore_framework::{OpContext, kernel};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Elems, ElemsMut, Shape, Tensor};

use crate::matrix::{Matrix, Scalar};

/// Rows and columns.
pub(crate) type Size = [usize; 2];

/// The dimensions of one output of one problem: of a matrix, a vector or a scalar.
pub(crate) type OutputDims = SmallVec<[i64; 2]>;

/// One problem: the matrices that are its inputs.
pub(crate) struct Problem<'a> {
    inputs: &'a [Elems<'a>],
    pub(crate) sizes: &'a [Size],
    /// The boolean attrs of the op, in the order of [`BatchOp::flags`].
    pub(crate) flags: &'a [bool],
    /// A number from an input that is no matrix.
    pub(crate) parameter: f64,
}

impl Problem<'_> {
    pub(crate) fn slice<T: Elem>(&self, index: usize) -> &[T] {
        self.inputs[index].typed()
    }

    pub(crate) fn matrix<T: Scalar>(&self, index: usize) -> Matrix<T> {
        Matrix::from_slice(self.sizes[index], self.slice(index))
    }
}

/// What solves the problems of an op, for elements of type `T`.
pub(crate) trait Algorithm<T>: 'static {
    /// Solves one problem; writes every element of each output.
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()>;
}

/// The family of the algorithms `A` for all types.
pub(crate) struct Algorithms<A>(PhantomData<A>);

impl<A> TypedLoop for Algorithms<A> {
    type Loop = Solve;
}

impl<T: Elem, A: Algorithm<T>> LoopFor<T> for Algorithms<A> {
    const LOOP: Solve = A::solve;
}

/// [`Algorithm::solve`] for some type.
pub(crate) type Solve = fn(&Problem<'_>, &mut [ElemsMut<'_>]) -> Result<()>;

/// The form of an op on batches of matrices.
#[derive(Clone, Copy)]
pub(crate) struct BatchOp {
    /// The number of inputs that are matrices.
    pub(crate) inputs: usize,
    pub(crate) flags: &'static [&'static str],
    /// Reads and checks the inputs that are no matrices. Returns [`Problem::parameter`].
    pub(crate) parameter: Option<fn(&OpContext<'_>) -> Result<f64>>,
    /// Checks the sizes and flags and returns the dimensions of the outputs.
    pub(crate) outputs: fn(&[Size], &[bool]) -> Result<SmallVec<[OutputDims; 2]>>,
    /// Roughly the multiplications of one problem.
    pub(crate) cost: fn(&[Size]) -> usize,
}

impl BatchOp {
    /// An op of one square matrix with one output of the same size.
    pub(crate) const SQUARE: BatchOp = BatchOp {
        inputs: 1,
        flags: &[],
        parameter: None,
        outputs: |sizes, _| {
            check_square(sizes[0])?;
            Ok(SmallVec::from_iter([dims(&sizes[0])]))
        },
        cost: |sizes| cube(sizes[0][0]),
    };

    /// The kernel of a node, which solves each problem by `solve`.
    pub(crate) fn kernel(self, init: &KernelInit<'_>, solve: Solve) -> Result<Box<dyn Kernel>> {
        let flags = self.flags.iter().map(|flag| init.attrs.bool(flag));
        let flags: SmallVec<[bool; 2]> = flags.collect::<Result<_>>()?;
        kernel(move |ctx| self.run(ctx, &flags, solve))
    }

    fn run(&self, ctx: &mut OpContext<'_>, flags: &[bool], solve: Solve) -> Result<()> {
        let (batch, sizes) = self.sizes(ctx)?;
        let dims = (self.outputs)(&sizes, flags)?;
        let mut outputs: SmallVec<[Tensor; 3]> = SmallVec::new();
        for index in 0..ctx.num_outputs() {
            outputs.push(match dims.get(index) {
                Some(dims) => {
                    let shape = Shape::new(&[&batch[..], &dims[..]].concat())?;
                    ctx.allocate_output(index, shape)?
                }
                // An output that the attrs leave out is a scalar in the reference.
                None => ctx.allocate_zeros(ctx.output_dtype(index), Shape::scalar())?,
            });
        }
        let count = batch.iter().product::<i64>() as usize;
        let problems = Problems { op: self, solve, sizes: &sizes, flags, count };
        if count > 0 {
            problems.solve_all(ctx, &mut outputs[..dims.len()])?;
        }
        for (index, output) in outputs.into_iter().enumerate() {
            ctx.set_output(index, output);
        }
        Ok(())
    }

    /// The outer dimensions and the size of each input's matrices.
    fn sizes(&self, ctx: &OpContext<'_>) -> Result<(Vec<i64>, SmallVec<[Size; 4]>)> {
        let first = ctx.input(0)?.shape().clone();
        let rank = first.rank();
        require!(rank >= 2, "Input tensor 0 must have rank >= 2, got {rank}");
        let mut sizes = SmallVec::new();
        for index in 0..self.inputs {
            let shape = ctx.input(index)?.shape();
            require!(shape.rank() == rank, "All input tensors must have the same rank.");
            require!(
                shape[..rank - 2] == first[..rank - 2],
                "All input tensors must have the same outer dimensions."
            );
            sizes.push([shape.dim(rank - 2), shape.dim(rank - 1)]);
        }
        Ok((first[..rank - 2].to_vec(), sizes))
    }
}

/// The problems of one run.
struct Problems<'a> {
    op: &'a BatchOp,
    solve: Solve,
    sizes: &'a [Size],
    flags: &'a [bool],
    count: usize,
}

impl Problems<'_> {
    fn solve_all(&self, ctx: &OpContext<'_>, outputs: &mut [Tensor]) -> Result<()> {
        let parameter = self.op.parameter.map_or(Ok(0.0), |read| read(ctx))?;
        let inputs: SmallVec<[Elems<'_>; 4]> = (0..self.op.inputs)
            .map(|index| Ok(ctx.input(index)?.elems()))
            .collect::<Result<_>>()?;
        let parallel = ctx.parallel();
        let chunk = self.chunk(parallel);
        let mut rest: SmallVec<[ElemsMut<'_>; 3]> =
            outputs.iter_mut().map(Tensor::elems_mut).collect::<Result<_>>()?;
        let lengths: SmallVec<[usize; 3]> =
            rest.iter().map(|output| output.len() / self.count).collect();
        let mut cells = Vec::new();
        for start in (0..self.count).step_by(chunk) {
            let end = (start + chunk).min(self.count);
            let mut part = SmallVec::<[ElemsMut<'_>; 3]>::new();
            let mut tail = SmallVec::new();
            for (output, &len) in rest.into_iter().zip(&lengths) {
                let (head, remaining) = output.split_at((end - start) * len);
                part.push(head);
                tail.push(remaining);
            }
            cells.push(Mutex::new(Some((start..end, part))));
            rest = tail;
        }
        let failure: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        parallel.for_each_chunk(cells.len(), 1, &|range| {
            for cell in &cells[range] {
                let Some((problems, mut outputs)) = cell.lock().take() else {
                    continue;
                };
                let first = problems.start;
                if let Err(error) =
                    self.solve_some(problems, &inputs, &mut outputs, &lengths, parameter)
                {
                    let mut failure = failure.lock();
                    if failure.as_ref().is_none_or(|(at, _)| first < *at) {
                        *failure = Some((first, error));
                    }
                }
            }
        });
        match failure.into_inner() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// The problems that one thread solves in a row.
    fn chunk(&self, parallel: Parallel<'_>) -> usize {
        const WORTH_A_THREAD: usize = 1 << 15;
        let cost = (self.op.cost)(self.sizes).max(1);
        let least = WORTH_A_THREAD.div_ceil(cost);
        if parallel.threads() == 1 {
            return self.count;
        }
        self.count.div_ceil(parallel.threads() * 4).max(least)
    }

    fn solve_some(
        &self,
        problems: Range<usize>,
        inputs: &[Elems<'_>],
        outputs: &mut [ElemsMut<'_>],
        lengths: &[usize],
        parameter: f64,
    ) -> Result<()> {
        let start = problems.start;
        for index in problems {
            let matrices: SmallVec<[Elems<'_>; 4]> = inputs
                .iter()
                .zip(self.sizes)
                .map(|(input, [rows, cols])| {
                    let len = rows * cols;
                    input.slice(index * len..(index + 1) * len)
                })
                .collect();
            let at = index - start;
            let mut parts: SmallVec<[ElemsMut<'_>; 3]> = outputs
                .iter_mut()
                .zip(lengths)
                .map(|(output, len)| output.slice(at * len..(at + 1) * len))
                .collect();
            let problem =
                Problem { inputs: &matrices, sizes: self.sizes, flags: self.flags, parameter };
            (self.solve)(&problem, &mut parts)?;
        }
        Ok(())
    }
}

/// The elements of an output.
pub(crate) fn output<'a, T: Elem>(outputs: &'a mut [ElemsMut<'_>], index: usize) -> &'a mut [T] {
    outputs[index].reborrow().typed()
}

pub(crate) fn check_square([rows, cols]: Size) -> Result<()> {
    require!(rows == cols, "Input matrix must be square.");
    Ok(())
}

pub(crate) fn dims(dims: &[usize]) -> OutputDims {
    dims.iter().map(|&dim| dim as i64).collect()
}

/// `n³`, or as much as fits.
pub(crate) fn cube(n: usize) -> usize {
    n.saturating_mul(n).saturating_mul(n)
}
