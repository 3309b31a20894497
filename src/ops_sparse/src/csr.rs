//! Sparse matrices by rows, inside of variants: making them, taking them apart, transposes and products.

use std::any::Any;

use tfcore_base::{
    Complex64, Complex128, DType, LoopFor, Number, Result, Ring, TypedLoop, invalid, require,
};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, ShapeAndType, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor, Variant, VariantValue};

use crate::coo::{Coo, gather, matrix, offset, vector};

type Types = (f32, f64, Complex64, Complex128);

pub(crate) fn register(r: &mut Registry) {
    // `SparseTensorToCSRSparseMatrix(indices, values: T, dense_shape) -> sparse_matrix: variant`, of a matrix or a batch of them.
    r.op("SparseTensorToCSRSparseMatrix").shape(from_sparse_shape).compute(from_sparse);
    // `DenseToCSRSparseMatrix(dense_input: T, indices: int64) -> sparse_output: variant`, of the elements at the indices.
    r.op("DenseToCSRSparseMatrix").shape(from_dense_shape).compute(from_dense);
    // `CSRSparseMatrixToSparseTensor(sparse_matrix) -> indices, values: type, dense_shape`.
    r.op("CSRSparseMatrixToSparseTensor").shape(to_sparse_shape).compute(to_sparse);
    // `CSRSparseMatrixToDense(sparse_input) -> dense_output: type`.
    r.op("CSRSparseMatrixToDense")
        .shape(|ctx| {
            let shape = at_most_3(&operand(ctx, 0)?)?;
            ctx.set_output(0, shape);
            Ok(())
        })
        .compute(to_dense);
    // `CSRSparseMatrixComponents(csr_sparse_matrix, index: int32) -> row_ptrs: int32, col_inds: int32, values: type`, of one matrix.
    r.op("CSRSparseMatrixComponents").shape(components_shape).compute(components);
    // `SparseMatrixNNZ(sparse_matrix) -> nnz: int32`, the number of values of each matrix.
    r.op("SparseMatrixNNZ").shape(nnz_shape).compute(nnz);
    // `SparseMatrixTranspose(input) -> output`, conjugate by attr.
    r.op("SparseMatrixTranspose")
        .shape(transpose_shape)
        .typed_kernel::<Products, Types>("type", transpose_kernel);
    // `SparseMatrixMatMul(a: variant, b: T) -> output: T`.
    r.op("SparseMatrixMatMul")
        .shape(product_shape)
        .typed_kernel::<Products, Types>("T", product_kernel);
    // `SparseMatrixSparseMatMul(a: variant, b: variant) -> c: variant`.
    r.op("SparseMatrixSparseMatMul")
        .shape(sparse_product_shape)
        .typed_kernel::<Products, Types>("type", sparse_product_kernel);
}

/// A matrix or a batch of matrices: their entries in the order of their indices.
#[derive(Clone)]
pub(crate) struct Csr {
    /// The sizes of two or three dimensions.
    shape: Vec<i64>,
    /// Where the entries of each row of each matrix begin, and the end of all.
    rows: Vec<usize>,
    columns: Vec<i64>,
    values: Tensor,
}

impl VariantValue for Csr {
    fn type_name(&self) -> &str {
        "tensorflow::CSRSparseMatrix"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Csr {
    /// Of entries that are sorted and inside of the shape.
    fn new(shape: &[i64], indices: &[i64], values: Tensor) -> Result<Csr> {
        let rank = shape.len();
        let outer = &shape[..rank - 1];
        let count = Shape::new(outer)?.count();
        let mut rows = tfcore_base::try_filled(0usize, count + 1)?;
        let mut columns = Vec::with_capacity(values.count());
        for index in indices.chunks_exact(rank) {
            rows[offset(&index[..rank - 1], outer) + 1] += 1;
            columns.push(index[rank - 1]);
        }
        for row in 0..count {
            rows[row + 1] += rows[row];
        }
        Ok(Csr { shape: shape.to_vec(), rows, columns, values })
    }

    fn batch(&self) -> usize {
        if self.shape.len() == 3 { self.shape[0] as usize } else { 1 }
    }

    /// The rows and the columns of each matrix.
    fn sizes(&self) -> [usize; 2] {
        let rank = self.shape.len();
        [self.shape[rank - 2] as usize, self.shape[rank - 1] as usize]
    }

    /// The entries of row `row` of matrix `batch`.
    fn row(&self, batch: usize, row: usize) -> std::ops::Range<usize> {
        let at = batch * self.sizes()[0] + row;
        self.rows[at]..self.rows[at + 1]
    }

    /// The row of all matrices that each entry is in.
    fn row_of_entries(&self) -> Vec<usize> {
        let lens = self.rows.windows(2).map(|pair| pair[1] - pair[0]).enumerate();
        lens.flat_map(|(row, len)| std::iter::repeat_n(row, len)).collect()
    }

    /// The index of each entry.
    fn indices(&self) -> Vec<i64> {
        let rows = self.sizes()[0].max(1);
        let mut indices = Vec::with_capacity(self.columns.len() * self.shape.len());
        for (row, &column) in self.row_of_entries().into_iter().zip(&self.columns) {
            if self.shape.len() == 3 {
                indices.push((row / rows) as i64);
            }
            indices.extend([(row % rows) as i64, column]);
        }
        indices
    }

    /// The entries in the order of the transposes, and the transposes' indices.
    fn transposed(&self) -> Result<Csr> {
        let mut indices = self.indices();
        let rank = self.shape.len();
        indices.chunks_exact_mut(rank).for_each(|index| index.swap(rank - 2, rank - 1));
        let mut shape = self.shape.clone();
        shape.swap(rank - 2, rank - 1);
        let moved = Coo { indices: &indices, rank, shape: &shape };
        let order = moved.sorted();
        let sorted: Vec<i64> = order.iter().flat_map(|&at| moved.index(at)).copied().collect();
        let mut values = Tensor::zeros(self.values.dtype(), Shape::vector(order.len()))?;
        for (to, &from) in order.iter().enumerate() {
            let value = self.values.elems().slice(from..from + 1);
            values.elems_mut()?.slice(to..to + 1).copy_from(value);
        }
        Csr::new(&shape, &sorted, values)
    }
}

/// The matrix at an input.
fn input_matrix<'c>(ctx: &'c OpContext<'_>, index: usize) -> Result<&'c Csr> {
    let tensor = ctx.input(index)?;
    let variants = tensor.as_slice::<Variant>()?;
    let matrix = variants.first().and_then(Variant::get::<Csr>);
    let dtype = ctx.input(index)?.dtype();
    matrix.ok_or_else(|| invalid!("Input {index} of type {dtype} holds no CSRSparseMatrix"))
}

fn set_matrix(ctx: &OpContext<'_>, matrix: Csr) {
    ctx.set_output(0, Tensor::scalar(Variant::new(matrix)));
}

/// What is known of the matrix at an input.
fn operand(ctx: &InferenceContext<'_>, index: usize) -> Result<PartialShape> {
    match ctx.input_handle(index) {
        Some([known]) => Ok(known.shape.clone()),
        _ => Err(invalid!("Unable to access shape and type info from variant input {index}")),
    }
}

fn set_operand(ctx: &mut InferenceContext<'_>, shape: PartialShape, attr: &str) -> Result<()> {
    let dtype = ctx.attrs.dtype(attr)?;
    ctx.set_output(0, PartialShape::scalar());
    ctx.set_output_handle(0, vec![ShapeAndType { shape, dtype }]);
    Ok(())
}

fn at_most_3(shape: &PartialShape) -> Result<PartialShape> {
    let shape = shape_ops::with_rank_at_least(shape, 2)?;
    shape_ops::with_rank_at_most(&shape, 3)
}

fn of_known_rank(shape: &PartialShape) -> Result<usize> {
    match shape.rank() {
        Some(rank @ 2..=3) => Ok(rank),
        Some(rank) => {
            Err(invalid!("Shape must be at least rank 2 and at most 3 but is rank {rank}"))
        }
        None => Err(invalid!(
            "sparse_matrix has an unknown rank. Expected a known rank of either 2 or 3"
        )),
    }
}

/// The shape with the rank that indices have; without such a rank it must not have one either.
fn with_rank_of(shape: &PartialShape, indices: &PartialShape) -> Result<PartialShape> {
    let indices = shape_ops::with_rank(indices, 2)?;
    match (indices.dim(1).value(), shape.rank()) {
        (Some(rank), _) => shape_ops::with_rank(shape, usize::try_from(rank).unwrap_or(0)),
        (None, None) => Ok(shape.clone()),
        (None, Some(rank)) => Err(invalid!("Shape must be rank -1 but is rank {rank}")),
    }
}

fn from_sparse_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 2)?;
    shape_ops::with_rank(ctx.input(1), 1)?;
    let shape = with_rank_of(&ctx.operand_shape(2)?, ctx.input(0))?;
    set_operand(ctx, shape, "T")
}

fn from_dense_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = with_rank_of(ctx.input(0), ctx.input(1))?;
    set_operand(ctx, shape, "T")
}

fn check_rank(rank: usize) -> Result<()> {
    require!(
        (2..=3).contains(&rank),
        "SparseTensor must have rank 2 or 3; but indices has rank: {rank}"
    );
    Ok(())
}

fn from_sparse(ctx: &mut OpContext<'_>) -> Result<()> {
    let coo = Coo::at(ctx, 0)?;
    check_rank(coo.rank)?;
    let order = coo.sorted();
    let indices: Vec<i64> = order.iter().flat_map(|&at| coo.index(at)).copied().collect();
    let values = gather(ctx, ctx.input(1)?, &order)?;
    set_matrix(ctx, Csr::new(coo.shape, &indices, values)?);
    Ok(())
}

fn from_dense(ctx: &mut OpContext<'_>) -> Result<()> {
    let (dense, indices) = (ctx.input(0)?, ctx.input(1)?);
    check_rank(dense.rank())?;
    let shape = vector(dense.shape().dims())?;
    let coo = Coo::of_indices(indices, &shape)?;
    coo.check_bounds()?;
    let order = coo.sorted();
    let sorted: Vec<i64> = order.iter().flat_map(|&at| coo.index(at)).copied().collect();
    let offsets = coo.offsets();
    let places: Vec<usize> = order.iter().map(|&at| offsets[at]).collect();
    let flat = dense.clone().with_shape(Shape::vector(dense.count()))?;
    set_matrix(ctx, Csr::new(coo.shape, &sorted, gather(ctx, &flat, &places)?)?);
    Ok(())
}

fn to_sparse_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let rank = of_known_rank(&operand(ctx, 0)?)? as i64;
    ctx.set_output(0, PartialShape::matrix(Dim::fresh(), rank));
    ctx.set_output(1, PartialShape::vector(Dim::fresh()));
    ctx.set_output(2, PartialShape::vector(rank));
    Ok(())
}

/// # Errors
/// `InvalidArgument` if the matrix holds other values than the output has.
fn check_dtype(csr: &Csr, dtype: DType) -> Result<()> {
    require!(
        csr.values.dtype() == dtype,
        "dtype of sparse matrix is not equal to 'type': {} vs. {dtype}",
        csr.values.dtype()
    );
    Ok(())
}

fn to_sparse(ctx: &mut OpContext<'_>) -> Result<()> {
    let csr = input_matrix(ctx, 0)?;
    check_dtype(csr, ctx.output_dtype(1))?;
    ctx.set_output(0, matrix(ctx, &csr.indices(), csr.shape.len())?);
    ctx.set_output(1, csr.values.clone());
    ctx.set_output(2, vector(&csr.shape)?);
    Ok(())
}

fn to_dense(ctx: &mut OpContext<'_>) -> Result<()> {
    let csr = input_matrix(ctx, 0)?;
    check_dtype(csr, ctx.output_dtype(0))?;
    let mut dense = ctx.allocate_zeros(csr.values.dtype(), Shape::new(&csr.shape)?)?;
    let columns = csr.sizes()[1];
    for (entry, (row, &column)) in csr.row_of_entries().into_iter().zip(&csr.columns).enumerate() {
        let at = row * columns + column as usize;
        let value = csr.values.elems().slice(entry..entry + 1);
        dense.elems_mut()?.slice(at..at + 1).copy_from(value);
    }
    ctx.set_output(0, dense);
    Ok(())
}

fn components_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = operand(ctx, 0)?;
    let rank = of_known_rank(&shape)?;
    shape_ops::with_rank(ctx.input(1), 0)?;
    let pointers = shape_ops::add(shape.dim(rank - 2), 1)?;
    ctx.set_output(0, PartialShape::vector(pointers));
    for output in 1..3 {
        ctx.set_output(output, PartialShape::vector(Dim::fresh()));
    }
    Ok(())
}

fn to_i32s(numbers: impl Iterator<Item = i64>) -> Result<Tensor> {
    let narrow: std::result::Result<Vec<i32>, _> = numbers.map(i32::try_from).collect();
    let narrow =
        narrow.map_err(|_| invalid!("An index of a sparse matrix does not fit an int32"))?;
    Tensor::from_slice(Shape::vector(narrow.len()), &narrow)
}

fn components(ctx: &mut OpContext<'_>) -> Result<()> {
    let csr = input_matrix(ctx, 0)?;
    check_dtype(csr, ctx.output_dtype(2))?;
    let index = ctx.input(1)?;
    require!(index.rank() == 0, "index should be a scalar, saw: {}", index.shape());
    let index = index.scalar_value::<i32>()?;
    let batch = csr.batch();
    let at = usize::try_from(index).ok().filter(|&at| at < batch);
    let at = at.ok_or_else(|| invalid!("index ({index}) not in [0, {batch})"))?;
    let rows = csr.sizes()[0];
    let pointers = &csr.rows[at * rows..=(at + 1) * rows];
    let (start, end) = (pointers[0], pointers[rows]);
    ctx.set_output(0, to_i32s(pointers.iter().map(|&pointer| (pointer - start) as i64))?);
    ctx.set_output(1, to_i32s(csr.columns[start..end].iter().copied())?);
    let entries: Vec<usize> = (start..end).collect();
    ctx.set_output(2, gather(ctx, &csr.values, &entries)?);
    Ok(())
}

fn nnz_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = operand(ctx, 0)?;
    let out = match of_known_rank(&shape)? {
        2 => PartialShape::scalar(),
        _ => PartialShape::vector(shape.dim(0)),
    };
    ctx.set_output(0, out);
    Ok(())
}

fn nnz(ctx: &mut OpContext<'_>) -> Result<()> {
    let csr = input_matrix(ctx, 0)?;
    let rows = csr.sizes()[0];
    let counts =
        (0..csr.batch()).map(|at| (csr.rows[(at + 1) * rows] - csr.rows[at * rows]) as i64);
    let counts = to_i32s(counts)?;
    let shape = if csr.shape.len() == 2 { Shape::scalar() } else { Shape::vector(csr.batch()) };
    ctx.set_output(0, counts.with_shape(shape)?);
    Ok(())
}

/// A shape with its last two dimensions swapped, if `swapped`.
fn swap(shape: &PartialShape, swapped: bool) -> PartialShape {
    let mut dims = shape.dims().map(<[Dim]>::to_vec).unwrap_or_default();
    if swapped && let [.., a, b] = &mut dims[..] {
        std::mem::swap(a, b);
    }
    match shape.rank() {
        Some(_) => dims.into_iter().collect(),
        None => PartialShape::unknown(),
    }
}

fn transpose_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = at_most_3(&operand(ctx, 0)?)?;
    set_operand(ctx, swap(&shape, true), "type")
}

/// How products take their operands.
#[derive(Clone, Copy, Default)]
struct Options {
    transpose: [bool; 2],
    conjugate: [bool; 2],
    transpose_output: bool,
    conjugate_output: bool,
}

impl Options {
    fn new(attrs: &tfcore_framework::Attrs) -> Result<Options> {
        let (transpose_a, transpose_b) = (attrs.bool("transpose_a")?, attrs.bool("transpose_b")?);
        let (adjoint_a, adjoint_b) = (attrs.bool("adjoint_a")?, attrs.bool("adjoint_b")?);
        require!(!(transpose_a && adjoint_a), "Only one of adjoint_a and transpose_a may be true.");
        require!(!(transpose_b && adjoint_b), "Only one of adjoint_b and transpose_b may be true.");
        let of_output = |name: &str| Ok(attrs.contains(name) && attrs.bool(name)?);
        Ok(Options {
            transpose: [transpose_a || adjoint_a, transpose_b || adjoint_b],
            conjugate: [adjoint_a, adjoint_b],
            transpose_output: of_output("transpose_output")?,
            conjugate_output: of_output("conjugate_output")?,
        })
    }
}

/// The shape of a product.
fn multiplied(a: &PartialShape, b: &PartialShape, options: Options) -> Result<PartialShape> {
    let (a, b) = (at_most_3(a)?, at_most_3(b)?);
    let Some(rank) = a.rank().or(b.rank()) else {
        return Ok(PartialShape::unknown());
    };
    let (a, b) = (shape_ops::with_rank(&a, rank)?, shape_ops::with_rank(&b, rank)?);
    let (a, b) = (swap(&a, options.transpose[0]), swap(&b, options.transpose[1]));
    shape_ops::merge_dims(a.dim(rank - 1), b.dim(rank - 2))?;
    let batch = if rank == 3 { Some(shape_ops::merge_dims(a.dim(0), b.dim(0))?) } else { None };
    let product = batch.into_iter().chain([a.dim(rank - 2), b.dim(rank - 1)]).collect();
    Ok(swap(&product, options.transpose_output))
}

fn product_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let options = Options::new(ctx.attrs)?;
    let product = multiplied(&operand(ctx, 0)?, ctx.input(1), options)?;
    ctx.set_output(0, product);
    Ok(())
}

fn sparse_product_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let options = Options::new(ctx.attrs)?;
    let (a, b) = (operand(ctx, 0)?, operand(ctx, 1)?);
    of_known_rank(&a)?;
    of_known_rank(&b)?;
    let product = multiplied(&a, &b, options)?;
    set_operand(ctx, product, "type")
}

/// The typed loops of products and conjugates.
#[derive(Clone, Copy)]
struct Loops {
    dense: fn(&OpContext<'_>, &Csr, &Tensor, Options) -> Result<()>,
    sparse: fn(&Csr, &Csr, Options) -> Result<Csr>,
    conjugate: fn(&mut Tensor) -> Result<()>,
}

struct Products;

impl TypedLoop for Products {
    type Loop = Loops;
}

impl<T: Number> LoopFor<T> for Products
where
    T::Wide: Ring,
{
    const LOOP: Loops =
        Loops { dense: dense_product::<T>, sparse: sparse_product::<T>, conjugate: conjugate::<T> };
}

fn conjugate<T: Number>(values: &mut Tensor) -> Result<()>
where
    T::Wide: Ring,
{
    if values.count() > 0 {
        for value in values.as_mut_slice::<T>()? {
            *value = T::narrow(value.widen().conjugate());
        }
    }
    Ok(())
}

fn transpose_kernel(init: &KernelInit<'_>, loops: Loops) -> Result<Box<dyn Kernel>> {
    let conjugate = init.attrs.bool("conjugate")?;
    let dtype = init.attrs.dtype("type")?;
    kernel(move |ctx| {
        let csr = input_matrix(ctx, 0)?;
        check_dtype(csr, dtype)?;
        let mut transposed = csr.transposed()?;
        if conjugate {
            (loops.conjugate)(&mut transposed.values)?;
        }
        set_matrix(ctx, transposed);
        Ok(())
    })
}

fn product_kernel(init: &KernelInit<'_>, loops: Loops) -> Result<Box<dyn Kernel>> {
    let options = Options::new(init.attrs)?;
    let dtype = init.attrs.dtype("T")?;
    kernel(move |ctx| {
        let (a, b) = (input_matrix(ctx, 0)?, ctx.input(1)?);
        check_dtype(a, dtype)?;
        require!(
            a.shape.len() == b.rank(),
            "Ranks of a and b must match, saw: {} and {}",
            a.shape.len(),
            b.rank()
        );
        require!(
            b.rank() == 2 || b.dim(0) == a.batch(),
            "Batch dimensions of a and b must match, saw: {} and {}",
            a.batch(),
            b.dim(0)
        );
        let transposed;
        let a = if options.transpose[0] {
            transposed = a.transposed()?;
            &transposed
        } else {
            a
        };
        (loops.dense)(ctx, a, b, options)
    })
}

/// The product of `a`, which is transposed already, and a dense tensor.
fn dense_product<T: Number>(
    ctx: &OpContext<'_>,
    a: &Csr,
    b: &Tensor,
    options: Options,
) -> Result<()>
where
    T::Wide: Ring,
{
    let rank = b.rank();
    let [rows, inner] = a.sizes();
    let (stored_rows, stored_columns) = (b.dim(rank - 2), b.dim(rank - 1));
    let (b_inner, columns) = match options.transpose[1] {
        true => (stored_columns, stored_rows),
        false => (stored_rows, stored_columns),
    };
    require!(
        inner == b_inner,
        "Inner product dimensions of A and B do not agree.  Shapes are: [{rows},{inner}] vs. [{b_inner},{columns}]"
    );
    let (left, right) = (a.values.as_slice::<T>()?, b.as_slice::<T>()?);
    let (out_rows, out_columns) =
        if options.transpose_output { (columns, rows) } else { (rows, columns) };
    let mut dims = vec![out_rows as i64, out_columns as i64];
    if rank == 3 {
        dims.insert(0, a.batch() as i64);
    }
    let shape = Shape::new(&dims)?;
    let mut out = tfcore_base::try_filled(T::Wide::ZERO, shape.count())?;
    let conjugated = |value: T, conjugate: bool| match conjugate {
        true => value.widen().conjugate(),
        false => value.widen(),
    };
    for batch in 0..a.batch() {
        let right = &right[batch * b_inner * columns..(batch + 1) * b_inner * columns];
        let out = &mut out[batch * rows * columns..(batch + 1) * rows * columns];
        for row in 0..rows {
            for entry in a.row(batch, row) {
                let value = conjugated(left[entry], options.conjugate[0]);
                let k = a.columns[entry] as usize;
                for column in 0..columns {
                    let at = if options.transpose[1] {
                        column * inner + k
                    } else {
                        k * columns + column
                    };
                    let to = if options.transpose_output {
                        column * rows + row
                    } else {
                        row * columns + column
                    };
                    let other = conjugated(right[at], options.conjugate[1]);
                    out[to] = out[to].plus(value.times(other));
                }
            }
        }
    }
    ctx.produce(0, shape, |elems| {
        for (elem, &sum) in elems.typed::<T>().iter_mut().zip(&out) {
            *elem = T::narrow(if options.conjugate_output { sum.conjugate() } else { sum });
        }
    })
}

fn sparse_product_kernel(init: &KernelInit<'_>, loops: Loops) -> Result<Box<dyn Kernel>> {
    let options = Options::new(init.attrs)?;
    let dtype = init.attrs.dtype("type")?;
    kernel(move |ctx| {
        let take = |index: usize| {
            let csr = input_matrix(ctx, index)?;
            check_dtype(csr, dtype)?;
            let mut csr = if options.transpose[index] { csr.transposed()? } else { csr.clone() };
            if options.conjugate[index] {
                csr.values = csr.values.deep_copy()?;
                (loops.conjugate)(&mut csr.values)?;
            }
            Ok(csr)
        };
        let (a, b) = (take(0)?, take(1)?);
        require!(
            a.shape.len() == b.shape.len(),
            "Ranks of a and b must match, saw: {} and {}",
            a.shape.len(),
            b.shape.len()
        );
        require!(
            a.batch() == b.batch(),
            "Batch sizes of A and B do not agree.  Batch sizes are: {} vs. {}",
            a.batch(),
            b.batch()
        );
        require!(
            a.sizes()[1] == b.sizes()[0],
            "Inner product dimensions of A and B do not agree.  Shapes are: {:?} vs. {:?}",
            a.sizes(),
            b.sizes()
        );
        let product = (loops.sparse)(&a, &b, options)?;
        set_matrix(ctx, product);
        Ok(())
    })
}

/// The product of two matrices that are transposed already.
fn sparse_product<T: Number>(a: &Csr, b: &Csr, _: Options) -> Result<Csr>
where
    T::Wide: Ring,
{
    let (left, right) = (a.values.as_slice::<T>()?, b.values.as_slice::<T>()?);
    let (rows, columns) = (a.sizes()[0], b.sizes()[1]);
    let mut shape = vec![rows as i64, columns as i64];
    if a.shape.len() == 3 {
        shape.insert(0, a.shape[0]);
    }
    let (mut indices, mut values) = (Vec::new(), Vec::new());
    let mut sums = std::collections::BTreeMap::new();
    for batch in 0..a.batch() {
        for row in 0..rows {
            sums.clear();
            for entry in a.row(batch, row) {
                for other in b.row(batch, a.columns[entry] as usize) {
                    let product = left[entry].widen().times(right[other].widen());
                    let sum = sums.entry(b.columns[other]).or_insert(T::Wide::ZERO);
                    *sum = sum.plus(product);
                }
            }
            for (&column, &sum) in &sums {
                if shape.len() == 3 {
                    indices.push(batch as i64);
                }
                indices.extend([row as i64, column]);
                values.push(T::narrow(sum));
            }
        }
    }
    Csr::new(&shape, &indices, Tensor::from_slice(Shape::vector(values.len()), &values)?)
}
