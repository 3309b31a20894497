//! `Coo`: a sparse tensor as its indices, values and shape, checked once.

use std::cmp::Ordering;

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{InferenceContext, OpContext, shape_ops};
use tfcore_tensor::{
    Dim, Elems, ElemsMut, PartialShape, ResourceHandle, Shape, TString, Tensor, Variant,
};

/// A kernel that is a function for each type.
pub(crate) type Compute = fn(&mut OpContext<'_>) -> Result<()>;

/// Runs the function of a type.
pub(crate) fn run(ctx: &mut OpContext<'_>, compute: Compute) -> Result<()> {
    compute(ctx)
}

/// The indices and the shape of a sparse tensor, whose values are as many as the indices.
pub(crate) struct Coo<'a> {
    pub(crate) indices: &'a [i64],
    pub(crate) rank: usize,
    pub(crate) shape: &'a [i64],
}

impl<'a> Coo<'a> {
    /// The sparse tensor whose indices, values and shape are the inputs from `first` on.
    ///
    /// # Errors
    /// `InvalidArgument` unless the three fit together and all indices are inside of the shape.
    pub(crate) fn at(ctx: &'a OpContext<'_>, first: usize) -> Result<Coo<'a>> {
        let coo = Coo::unchecked(ctx, first)?;
        coo.check_bounds()?;
        Ok(coo)
    }

    /// As [`Coo::at`], but indices may be outside of the shape.
    pub(crate) fn unchecked(ctx: &'a OpContext<'_>, first: usize) -> Result<Coo<'a>> {
        let (values, shape) = (ctx.input(first + 1)?, ctx.input(first + 2)?);
        require!(values.rank() == 1, "Sparse values must be rank 1 but is rank {}", values.rank());
        let coo = Coo::of_indices(ctx.input(first)?, shape)?;
        require!(
            coo.len() == values.dim(0),
            "Number of elements in indices ({}) and values ({}) do not match",
            coo.len(),
            values.dim(0)
        );
        Ok(coo)
    }

    /// Indices and a shape.
    pub(crate) fn of_indices(indices: &'a Tensor, shape: &'a Tensor) -> Result<Coo<'a>> {
        require!(
            indices.rank() == 2,
            "Sparse indices must be rank 2 but is rank {}",
            indices.rank()
        );
        require!(shape.rank() == 1, "Sparse shape must be rank 1 but is rank {}", shape.rank());
        require!(
            indices.dim(1) == shape.dim(0),
            "Index rank ({}) and shape rank ({}) do not match",
            indices.dim(1),
            shape.dim(0)
        );
        let (rank, shape) = (indices.dim(1), shape.as_slice::<i64>()?);
        require!(rank > 0 || indices.dim(0) == 0, "Indices of rank 0 are no indices");
        Shape::new(shape)?;
        Ok(Coo { indices: indices.as_slice()?, rank, shape })
    }

    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.indices.len().checked_div(self.rank).unwrap_or(0)
    }

    /// The index of value `position`.
    pub(crate) fn index(&self, position: usize) -> &'a [i64] {
        &self.indices[position * self.rank..(position + 1) * self.rank]
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &'a [i64]> {
        (0..self.len()).map(|position| self.index(position))
    }

    /// # Errors
    /// `InvalidArgument` if an index is outside of the shape.
    pub(crate) fn check_bounds(&self) -> Result<()> {
        for (position, index) in self.iter().enumerate() {
            let inside = |(at, size): (&i64, &i64)| (0..*size).contains(at);
            if !index.iter().zip(self.shape).all(inside) {
                return Err(invalid!(
                    "indices[{position}] = [{}] is out of bounds: need 0 <= index < [{}]",
                    join(index),
                    join(self.shape)
                ));
            }
        }
        Ok(())
    }

    /// The positions of the values in the order of their indices.
    pub(crate) fn sorted(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        if !order.windows(2).all(|pair| self.index(pair[0]) <= self.index(pair[1])) {
            order.sort_by(|&a, &b| self.index(a).cmp(self.index(b)));
        }
        order
    }

    /// The offset of each value in a dense tensor of the shape. The indices must be inside of it.
    pub(crate) fn offsets(&self) -> Vec<usize> {
        self.iter().map(|index| offset(index, self.shape)).collect()
    }
}

/// The offset of an index that is inside of a shape.
pub(crate) fn offset(index: &[i64], shape: &[i64]) -> usize {
    index.iter().zip(shape).fold(0, |offset, (&at, &size)| offset * size as usize + at as usize)
}

/// The number of elements of a shape.
pub(crate) fn count(shape: &[i64]) -> Result<usize> {
    Ok(Shape::new(shape)?.count())
}

/// `1,2,3`
pub(crate) fn join(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

/// What the entries of two sparse tensors with sorted indices have in common.
pub(crate) fn merge(a: &Coo<'_>, b: &Coo<'_>, each: &mut dyn FnMut(Option<usize>, Option<usize>)) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let order = match (i < a.len(), j < b.len()) {
            (true, true) => a.index(i).cmp(b.index(j)),
            (true, false) => Ordering::Less,
            _ => Ordering::Greater,
        };
        each((order != Ordering::Greater).then_some(i), (order != Ordering::Less).then_some(j));
        i += usize::from(order != Ordering::Greater);
        j += usize::from(order != Ordering::Less);
    }
}

/// The elements at some positions, by the width of elements.
///
/// # Errors
/// `ResourceExhausted` if there is no memory.
pub(crate) fn gather(ctx: &OpContext<'_>, values: &Tensor, positions: &[usize]) -> Result<Tensor> {
    let mut out = ctx.allocate(values.dtype(), Shape::vector(positions.len()))?;
    if !positions.is_empty() {
        gather_into(values.elems(), positions, out.elems_mut()?);
    }
    Ok(out)
}

fn gather_into(source: Elems<'_>, positions: &[usize], out: ElemsMut<'_>) {
    fn copy<T: Clone>(source: &[T], positions: &[usize], out: &mut [T]) {
        for (out, &position) in out.iter_mut().zip(positions) {
            out.clone_from(&source[position]);
        }
    }
    match source.dtype() {
        DType::STRING => copy::<TString>(source.typed(), positions, out.typed()),
        DType::RESOURCE => copy::<ResourceHandle>(source.typed(), positions, out.typed()),
        DType::VARIANT => copy::<Variant>(source.typed(), positions, out.typed()),
        dtype => match dtype.size() {
            1 => copy::<u8>(source.lanes(), positions, out.lanes()),
            2 => copy::<u16>(source.lanes(), positions, out.lanes()),
            4 => copy::<u32>(source.lanes(), positions, out.lanes()),
            8 => copy::<u64>(source.lanes(), positions, out.lanes()),
            _ => copy::<[u64; 2]>(source.lanes(), positions, out.lanes()),
        },
    }
}

/// Indices of a rank as a matrix.
pub(crate) fn matrix(ctx: &OpContext<'_>, indices: &[i64], rank: usize) -> Result<Tensor> {
    let rows = indices.len().checked_div(rank).unwrap_or(0);
    let mut tensor = ctx.allocate(DType::INT64, Shape::new(&[rows as i64, rank as i64])?)?;
    if !indices.is_empty() {
        tensor.as_mut_slice()?.copy_from_slice(indices);
    }
    Ok(tensor)
}

/// A vector of numbers.
pub(crate) fn vector(numbers: &[i64]) -> Result<Tensor> {
    Tensor::from_slice(Shape::vector(numbers.len()), numbers)
}

/// The elements of a vector input.
///
/// # Errors
/// `InvalidArgument` for another rank.
pub(crate) fn vector_input<'c>(
    ctx: &'c OpContext<'_>,
    index: usize,
    name: &str,
) -> Result<&'c [i64]> {
    let tensor = ctx.input(index)?;
    require!(tensor.rank() == 1, "{name} should be a vector but received shape {}", tensor.shape());
    tensor.as_slice()
}

/// The static shapes of indices, values and shape from input `first` on.
///
/// # Errors
/// `InvalidArgument` if they cannot belong together.
pub(crate) fn static_parts(ctx: &InferenceContext<'_>, first: usize) -> Result<[PartialShape; 3]> {
    Ok([
        shape_ops::with_rank(ctx.input(first), 2)?,
        shape_ops::with_rank(ctx.input(first + 1), 1)?,
        shape_ops::with_rank(ctx.input(first + 2), 1)?,
    ])
}

/// Sets outputs 0, 1 and 2 to those of a sparse tensor of unknown size, of a known rank if `shape` tells it.
pub(crate) fn set_sparse(ctx: &mut InferenceContext<'_>, shape: PartialShape) {
    let rank = shape.dim(0);
    ctx.set_output(0, PartialShape::matrix(Dim::fresh(), rank));
    ctx.set_output(1, PartialShape::vector(Dim::fresh()));
    if ctx.num_outputs() > 2 {
        ctx.set_output(2, shape);
    }
}
