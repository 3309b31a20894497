//! Sums and maxima along axes of sparse tensors, and softmax.

use tfcore_base::{
    Half, LoopFor, Number, Numbers, RealNumbers, Result, Ring, TypedLoop, invalid, require,
};
use tfcore_framework::{InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::coo::{Compute, Coo, matrix, offset, run, static_parts, vector};

pub(crate) fn register(r: &mut Registry) {
    // `SparseReduceSum(input_indices, input_values: T, input_shape, reduction_axes: int32) -> output: T`; elements without a value are 0.
    r.op("SparseReduceSum").shape(unknown).typed_kernel::<Reduce<Sum>, Numbers>("T", reduce_kernel);
    r.op("SparseReduceMax")
        .shape(unknown)
        .typed_kernel::<Reduce<Max>, RealNumbers>("T", reduce_kernel);
    // `SparseReduceSumSparse(...) -> output_indices: int64, output_values: T, output_shape: int64`.
    r.op("SparseReduceSumSparse")
        .shape(unknown)
        .typed_kernel::<Reduce<Sum>, Numbers>("T", reduce_kernel);
    r.op("SparseReduceMaxSparse")
        .shape(unknown)
        .typed_kernel::<Reduce<Max>, RealNumbers>("T", reduce_kernel);
    // `SparseSoftmax(sp_indices: int64, sp_values: T, sp_shape: int64) -> output: T`, of the values along the last dimension.
    r.op("SparseSoftmax")
        .shape(|ctx| {
            let [_, values, _] = static_parts(ctx, 0)?;
            ctx.set_output(0, values);
            Ok(())
        })
        .typed::<Softmax, (f32, f64, Half)>("T", run);
}

fn unknown(ctx: &mut InferenceContext<'_>) -> Result<()> {
    (0..ctx.num_outputs()).for_each(|output| ctx.set_output(output, PartialShape::unknown()));
    Ok(())
}

type ReduceLoop = fn(&OpContext<'_>, &Groups) -> Result<Tensor>;

/// What the reduction does with one more value.
trait Fold<T>: 'static {
    fn fold(sum: T, value: T) -> T;
}

struct Sum;
struct Max;

impl<T: Number> Fold<T> for Sum
where
    T::Wide: Ring,
{
    fn fold(sum: T, value: T) -> T {
        T::narrow(sum.widen().plus(value.widen()))
    }
}

impl<T: Number + PartialOrd> Fold<T> for Max {
    fn fold(most: T, value: T) -> T {
        if value > most { value } else { most }
    }
}

struct Reduce<F>(F);

impl<F: 'static> TypedLoop for Reduce<F> {
    type Loop = ReduceLoop;
}

impl<F: Fold<T>, T: Number> LoopFor<T> for Reduce<F> {
    const LOOP: ReduceLoop = fold::<F, T>;
}

/// The value of each group, in the order of groups.
fn fold<F: Fold<T>, T: Number>(ctx: &OpContext<'_>, groups: &Groups) -> Result<Tensor> {
    let values = ctx.input_slice::<T>(1)?;
    let folded = groups.members.iter().map(|members| {
        let mut members = members.iter().map(|&at| values[at]);
        let first = members.next().unwrap_or_default();
        members.fold(first, F::fold)
    });
    let folded: Vec<T> = folded.collect();
    Tensor::from_slice(Shape::vector(folded.len()), &folded)
}

/// Values that are reduced together.
struct Groups {
    /// The index of each group in the dimensions that stay, one after the other, sorted.
    indices: Vec<i64>,
    /// The positions of the values of each group.
    members: Vec<Vec<usize>>,
    /// The sizes of the dimensions that stay.
    kept: Vec<i64>,
    /// The shape of the result.
    shape: Vec<i64>,
    /// Which dimensions of the result the groups' indices are for.
    places: Vec<usize>,
}

fn reduce_kernel(init: &KernelInit<'_>, found: ReduceLoop) -> Result<Box<dyn Kernel>> {
    let keep_dims = init.attrs.bool("keep_dims")?;
    let is_sparse = init.output_dtypes.len() == 3;
    kernel(move |ctx| {
        let groups = group(ctx, keep_dims)?;
        let values = found(ctx, &groups)?;
        if is_sparse { set_sparse(ctx, &groups, values) } else { set_dense(ctx, &groups, &values) }
    })
}

fn group(ctx: &OpContext<'_>, keep_dims: bool) -> Result<Groups> {
    let coo = Coo::at(ctx, 0)?;
    let rank = coo.rank as i64;
    let mut reduced = vec![false; coo.rank];
    for axis in ctx.input(3)?.to_i64s()? {
        require!(
            (-rank..rank).contains(&axis),
            "Invalid reduction dimension {axis}, for input with {rank} dimensions."
        );
        reduced[(if axis < 0 { axis + rank } else { axis }) as usize] = true;
    }
    let stays: Vec<usize> = (0..coo.rank).filter(|&axis| !reduced[axis]).collect();
    let kept: Vec<i64> = stays.iter().map(|&axis| coo.shape[axis]).collect();
    let (entries, axes) = (&coo, &stays);
    let key = |at: usize| axes.iter().map(move |&axis| entries.index(at)[axis]);
    let mut order: Vec<usize> = coo.sorted();
    order.sort_by(|&a, &b| key(a).cmp(key(b)));
    let (mut indices, mut members): (Vec<i64>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
    for at in order {
        let last = indices.len().saturating_sub(stays.len());
        match members.last_mut() {
            Some(group) if indices[last..].iter().copied().eq(key(at)) => group.push(at),
            _ => {
                indices.extend(key(at));
                members.push(vec![at]);
            }
        }
    }
    let shape = (0..coo.rank)
        .filter(|&axis| keep_dims || !reduced[axis])
        .map(|axis| if reduced[axis] { 1 } else { coo.shape[axis] })
        .collect();
    let places = if keep_dims { stays } else { (0..kept.len()).collect() };
    Ok(Groups { indices, members, kept, shape, places })
}

impl Groups {
    /// The index of each group among those that stay.
    fn keys(&self) -> impl Iterator<Item = &[i64]> {
        let len = self.kept.len();
        (0..self.members.len()).map(move |group| &self.indices[group * len..(group + 1) * len])
    }
}

fn set_dense(ctx: &OpContext<'_>, groups: &Groups, values: &Tensor) -> Result<()> {
    let mut out = ctx.allocate_zeros(values.dtype(), Shape::new(&groups.shape)?)?;
    for (group, key) in groups.keys().enumerate() {
        let at = offset(key, &groups.kept);
        let value = values.elems().slice(group..group + 1);
        out.elems_mut()?.slice(at..at + 1).copy_from(value);
    }
    ctx.set_output(0, out);
    Ok(())
}

fn set_sparse(ctx: &OpContext<'_>, groups: &Groups, values: Tensor) -> Result<()> {
    let rank = groups.shape.len();
    let mut indices = vec![0; groups.members.len() * rank];
    for (index, key) in indices.chunks_exact_mut(rank.max(1)).zip(groups.keys()) {
        for (&place, &at) in groups.places.iter().zip(key) {
            index[place] = at;
        }
    }
    let indices = match rank {
        // A scalar's values have no index.
        0 => Tensor::zeros(
            tfcore_base::DType::INT64,
            Shape::new(&[groups.members.len() as i64, 0])?,
        )?,
        _ => matrix(ctx, &indices, rank)?,
    };
    ctx.set_output(0, indices);
    ctx.set_output(1, values);
    ctx.set_output(2, vector(&groups.shape)?);
    Ok(())
}

struct Softmax;

impl TypedLoop for Softmax {
    type Loop = Compute;
}

/// Numbers with exponentials, computed in their wide type.
trait Exponential: Number {
    fn exp(self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
}

macro_rules! exponentials {
    ($($type:ty: $exp:expr;)*) => {$(
        impl Exponential for $type {
            fn exp(self) -> $type {
                $exp(self)
            }

            fn minus(self, other: $type) -> $type {
                self - other
            }

            fn plus(self, other: $type) -> $type {
                self + other
            }

            fn over(self, other: $type) -> $type {
                self / other
            }
        }
    )*};
}

exponentials! {
    f32: f32::exp;
    f64: f64::exp;
    Half: |x: Half| Half::from_f32(x.to_f32().exp());
}

impl<T: Exponential + PartialOrd> LoopFor<T> for Softmax {
    const LOOP: Compute = softmax::<T>;
}

fn softmax<T: Exponential + PartialOrd>(ctx: &mut OpContext<'_>) -> Result<()> {
    let coo = Coo::unchecked(ctx, 0)?;
    require!(
        coo.rank >= 2,
        "Input should have rank >= 2, but received shape: {}",
        ctx.input(2)?.shape()
    );
    coo.check_bounds()?;
    let values = ctx.input_slice::<T>(1)?;
    let row = |at: usize| &coo.index(at)[..coo.rank - 1];
    ctx.try_produce(0, Shape::vector(coo.len()), |out| {
        let out = out.typed::<T>();
        let mut start = 0;
        while start < out.len() {
            let len = (start..out.len()).take_while(|&at| row(at) == row(start)).count();
            let (part, out) = (&values[start..start + len], &mut out[start..start + len]);
            let mut most = part[0];
            for &value in part {
                most = if value > most { value } else { most };
            }
            let mut sum = None::<T>;
            for (out, &value) in out.iter_mut().zip(part) {
                *out = value.minus(most).exp();
                sum = Some(sum.map_or(*out, |sum| sum.plus(*out)));
            }
            let sum = sum.ok_or_else(|| invalid!("A row without values"))?;
            out.iter_mut().for_each(|out| *out = out.over(sum));
            start += len;
        }
        Ok(())
    })
}
