//! `Einsum`: sums of products over labelled axes.
//!
//! Each operand is brought into the order batch, free, contracted by one strided copy, which takes
//! diagonals too; labels that nobody else has are summed out; what is left is a batched product.

use std::collections::{BTreeMap, BTreeSet};

use tfcore_base::{
    BFloat16, Complex64, Complex128, Elem, Half, LoopFor, Result, TypedLoop, internal, invalid,
};
use tfcore_framework::geometry::{StridedDim, StridedView};
use tfcore_framework::movement::copy_view;
use tfcore_framework::{InferenceContext, OpContext, Registry, kernel, shape_ops};
use tfcore_math::pool::Parallel;
use tfcore_math::reduce::{self, Reducer, Sum};
use tfcore_tensor::{Dim, Elems, ElemsMut, PartialShape, Shape, Tensor};

use crate::matmul::{MatrixProduct, Operands, ProductLoop};

/// The types that the reference has kernels for.
type Types = (f32, f64, Half, BFloat16, Complex64, Complex128, i32, i64);

pub(crate) fn register(r: &mut Registry) {
    // `Einsum(inputs: N * T, equation: string) -> output: T`
    r.op("Einsum").shape(einsum_shape).cpu(|init| {
        let equation = Equation::parse(init.attrs.str("equation")?)?;
        equation.check_count(init.input_dtypes.len())?;
        let dtype = init.output_dtypes[0];
        let product = init.loop_for::<MatrixProduct, Types>(dtype)?;
        let sum = init.loop_for::<InnermostSum, Types>(dtype)?;
        kernel(move |ctx| compute(ctx, &equation, product, sum))
    });
}

/// Sums out the innermost axis: `[outer, len]` to `[outer]`.
type SumLoop = fn(Parallel<'_>, [usize; 2], Elems<'_>, ElemsMut<'_>);

struct InnermostSum;

impl TypedLoop for InnermostSum {
    type Loop = SumLoop;
}

impl<T: Elem + Copy> LoopFor<T> for InnermostSum
where
    Sum: Reducer<T>,
{
    const LOOP: SumLoop = |parallel, [outer, len], x, out| {
        reduce::reduce::<Sum, T>(parallel, [outer, len, 1], x.typed(), out.typed());
    };
}

/// An axis by its label, or one of those that an ellipsis stands for, counted from the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Label {
    /// Sorted before the letters and from the outermost inwards, as results have them.
    Ellipsis(std::cmp::Reverse<usize>),
    Letter(char),
}

/// The labels of one operand; an ellipsis stands between two of them.
#[derive(Debug, Clone)]
struct Term {
    labels: Vec<char>,
    /// How many labels come before the ellipsis, if there is one.
    ellipsis: Option<usize>,
}

impl Term {
    fn parse(text: &str) -> Result<Term> {
        let mut term = Term { labels: Vec::new(), ellipsis: None };
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            if let Some(tail) = rest.strip_prefix("...") {
                if term.ellipsis.replace(term.labels.len()).is_some() {
                    return Err(invalid!("Found multiple ellipses in subscript: {text}"));
                }
                rest = tail;
                continue;
            }
            term.labels.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
        Ok(term)
    }

    /// The label of each axis of an operand of rank `rank`, which must fit.
    fn axes(&self, rank: usize) -> Vec<Label> {
        let mut axes: Vec<Label> =
            self.labels.iter().map(|&letter| Label::Letter(letter)).collect();
        if let Some(position) = self.ellipsis {
            let count = rank - self.labels.len();
            let hidden = (0..count).rev().map(|index| Label::Ellipsis(std::cmp::Reverse(index)));
            axes.splice(position..position, hidden);
        }
        axes
    }

    fn fits(&self, rank: usize) -> bool {
        match self.ellipsis {
            Some(_) => rank >= self.labels.len(),
            None => rank == self.labels.len(),
        }
    }
}

#[derive(Debug, Clone)]
struct Equation {
    text: String,
    inputs: Vec<Term>,
    output: Term,
}

impl Equation {
    /// # Errors
    /// `InvalidArgument` for anything but one or two terms, an arrow and a term of labels that they have.
    fn parse(text: &str) -> Result<Equation> {
        let plain: String = text.chars().filter(|c| *c != ' ').collect();
        let sides: Vec<&str> = plain.split("->").collect();
        let [left, right] = sides[..] else {
            return Err(invalid!("Expecting exactly one '->' in einsum equation: {text}"));
        };
        let inputs: Vec<Term> = left.split(',').map(Term::parse).collect::<Result<_>>()?;
        if inputs.len() > 2 {
            return Err(invalid!(
                "Expecting 1 or 2 input subscripts in equation '{text}' but got: {}",
                inputs.len()
            ));
        }
        let output = Term::parse(right)?;
        for label in &output.labels {
            if !inputs.iter().any(|input| input.labels.contains(label)) {
                return Err(invalid!(
                    "Explicit output subscripts contain the label {label} which is not present in the \
                     input subscripts"
                ));
            }
        }
        Ok(Equation { text: text.to_string(), inputs, output })
    }

    fn check_count(&self, actual: usize) -> Result<()> {
        if self.inputs.len() == actual {
            return Ok(());
        }
        Err(invalid!(
            "Expected {} inputs for equation {} but got: {actual}",
            self.inputs.len(),
            self.text
        ))
    }
}

fn einsum_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let equation = Equation::parse(ctx.attrs.str("equation")?)?;
    equation.check_count(ctx.num_inputs())?;
    let mut sizes: BTreeMap<char, Dim> = BTreeMap::new();
    let mut hidden = PartialShape::scalar();
    for (term, shape) in equation.inputs.iter().zip(ctx.inputs()) {
        let count = term.labels.len();
        let shape = match term.ellipsis {
            Some(_) => shape_ops::with_rank_at_least(shape, count)?,
            None => shape_ops::with_rank(shape, count)?,
        };
        let Some(dims) = shape.dims() else {
            hidden = PartialShape::unknown();
            continue;
        };
        let before = term.ellipsis.unwrap_or(count);
        let after = dims.len() - (count - before);
        let ellipsis: PartialShape = dims[before..after].iter().copied().collect();
        hidden = shape_ops::broadcast(&hidden, &ellipsis)?;
        let labelled = dims[..before].iter().chain(&dims[after..]);
        for (&label, &dim) in term.labels.iter().zip(labelled) {
            let merged = match sizes.get(&label) {
                Some(&known) => shape_ops::merge_dims(known, dim)?,
                None => dim,
            };
            sizes.insert(label, merged);
        }
    }
    let output = &equation.output;
    let size = |label: &char| sizes.get(label).copied().unwrap_or_else(Dim::fresh);
    let shape = match (output.ellipsis, hidden.dims()) {
        (Some(_), None) => PartialShape::unknown(),
        (Some(before), Some(hidden)) => {
            let (head, tail) = output.labels.split_at(before);
            let head = head.iter().map(size);
            head.chain(hidden.iter().copied()).chain(tail.iter().map(size)).collect()
        }
        (None, _) => {
            shape_ops::with_rank_at_most(&hidden, 0)?;
            output.labels.iter().map(size).collect()
        }
    };
    ctx.set_output(0, shape);
    Ok(())
}

/// The size of each label.
type Sizes = BTreeMap<Label, usize>;

/// An operand and the labels of its axes.
struct Labelled {
    tensor: Tensor,
    axes: Vec<Label>,
}

impl Labelled {
    fn labels(&self) -> BTreeSet<Label> {
        self.axes.iter().copied().collect()
    }

    /// How far the elements for neighbouring values of a label are apart: along a diagonal for a repeated
    /// label, 0 for one that broadcasts.
    fn stride(&self, label: Label) -> usize {
        let strides = self.tensor.shape().strides();
        let axes = self.axes.iter().enumerate().filter(|(_, axis)| **axis == label);
        axes.map(|(axis, _)| if self.tensor.dim(axis) == 1 { 0 } else { strides[axis] }).sum()
    }

    /// A copy with the axes in the given order.
    fn arranged(&self, ctx: &OpContext<'_>, order: &[Label], sizes: &Sizes) -> Result<Labelled> {
        let dims = order
            .iter()
            .map(|label| StridedDim { size: sizes[label], stride: self.stride(*label) as isize });
        let view = StridedView::new(0, dims);
        let shape: Vec<i64> = order.iter().map(|label| sizes[label] as i64).collect();
        let shape = Shape::new(&shape)?;
        let axes = order.to_vec();
        if view.is_contiguous() && shape.count() == self.tensor.count() {
            return Ok(Labelled { tensor: self.tensor.clone().with_shape(shape)?, axes });
        }
        let mut tensor = ctx.allocate(self.tensor.dtype(), shape)?;
        if tensor.count() > 0 {
            copy_view(ctx.parallel(), self.tensor.elems(), &view, tensor.elems_mut()?);
        }
        Ok(Labelled { tensor, axes })
    }

    /// Without the labels that are not wanted: summed out.
    fn summed(
        self,
        ctx: &OpContext<'_>,
        keep: &BTreeSet<Label>,
        sizes: &Sizes,
        sum: SumLoop,
    ) -> Result<Labelled> {
        let own = self.labels();
        let (kept, gone): (Vec<Label>, Vec<Label>) =
            own.into_iter().partition(|label| keep.contains(label));
        if gone.is_empty() {
            return Ok(self);
        }
        // An ellipsis axis of size 1 that broadcasts is summed as what it is.
        let mut own_sizes = sizes.clone();
        for (axis, label) in self.axes.iter().enumerate() {
            own_sizes.insert(*label, self.tensor.dim(axis));
        }
        let order = [&kept[..], &gone[..]].concat();
        let arranged = self.arranged(ctx, &order, &own_sizes)?;
        let outer = count(&kept, &own_sizes);
        let len = count(&gone, &own_sizes);
        let dims: Vec<i64> = kept.iter().map(|label| own_sizes[label] as i64).collect();
        let mut tensor = ctx.allocate(arranged.tensor.dtype(), Shape::new(&dims)?)?;
        sum(ctx.parallel(), [outer, len], arranged.tensor.elems(), tensor.elems_mut()?);
        Ok(Labelled { tensor, axes: kept })
    }
}

fn count(labels: &[Label], sizes: &Sizes) -> usize {
    labels.iter().map(|label| sizes[label]).product()
}

fn compute(
    ctx: &mut OpContext<'_>,
    equation: &Equation,
    product: ProductLoop,
    sum: SumLoop,
) -> Result<()> {
    let (operands, sizes) = read_operands(ctx, equation)?;
    let hidden = sizes.keys().filter(|label| matches!(label, Label::Ellipsis(_))).count();
    if equation.output.ellipsis.is_none() && hidden > 0 {
        return Err(invalid!(
            "The output of equation {} has no ellipsis for the {hidden} axes of the inputs'",
            equation.text
        ));
    }
    let output = equation.output.axes(equation.output.labels.len() + hidden);
    let wanted: BTreeSet<Label> = output.iter().copied().collect();
    let mut operands = operands.into_iter();
    let first = operands.next().ok_or_else(|| internal!("Einsum without operands"))?;
    let result = match operands.next() {
        None => first.summed(ctx, &wanted, &sizes, sum)?,
        Some(second) => {
            let keep = |other: &Labelled| wanted.union(&other.labels()).copied().collect();
            let (keep_first, keep_second): (BTreeSet<Label>, _) = (keep(&second), keep(&first));
            let first = first.summed(ctx, &keep_first, &sizes, sum)?;
            let second = second.summed(ctx, &keep_second, &sizes, sum)?;
            multiply(ctx, &first, &second, &wanted, &sizes, product)?
        }
    };
    let out = write_output(ctx, &result, &output, &sizes)?;
    ctx.set_output(0, out);
    Ok(())
}

fn read_operands(ctx: &OpContext<'_>, equation: &Equation) -> Result<(Vec<Labelled>, Sizes)> {
    let mut sizes = Sizes::new();
    let mut operands = Vec::with_capacity(equation.inputs.len());
    for (index, term) in equation.inputs.iter().enumerate() {
        let tensor = ctx.input(index)?.clone();
        if !term.fits(tensor.rank()) {
            let at_least = if term.ellipsis.is_some() { "at least " } else { "" };
            return Err(invalid!(
                "Expected input {index} to have rank {at_least}{} but got: {}",
                term.labels.len(),
                tensor.rank()
            ));
        }
        let axes = term.axes(tensor.rank());
        for (axis, &label) in axes.iter().enumerate() {
            let size = tensor.dim(axis);
            let known = *sizes.entry(label).or_insert(size);
            let broadcasts = matches!(label, Label::Ellipsis(_)) && (size == 1 || known == 1);
            if broadcasts {
                // 1 gives way, also to 0.
                sizes.insert(label, if known == 1 { size } else { known });
            } else if size != known {
                return Err(invalid!(
                    "Expected dimension {known} at axis {axis} of the input shaped {} but got dimension \
                     {size}",
                    tensor.shape()
                ));
            }
        }
        operands.push(Labelled { tensor, axes });
    }
    Ok((operands, sizes))
}

/// The batched product of two operands: labels of both that the output wants are batches, those that it does
/// not want are contracted.
fn multiply(
    ctx: &OpContext<'_>,
    a: &Labelled,
    b: &Labelled,
    wanted: &BTreeSet<Label>,
    sizes: &Sizes,
    product: ProductLoop,
) -> Result<Labelled> {
    let (of_a, of_b) = (a.labels(), b.labels());
    let both = of_a.intersection(&of_b).copied();
    let (batch, contracted): (Vec<Label>, Vec<Label>) =
        both.partition(|label| wanted.contains(label));
    let free_a: Vec<Label> = of_a.difference(&of_b).copied().collect();
    let free_b: Vec<Label> = of_b.difference(&of_a).copied().collect();
    let a = a.arranged(ctx, &[&batch[..], &free_a, &contracted].concat(), sizes)?;
    let b = b.arranged(ctx, &[&batch[..], &contracted, &free_b].concat(), sizes)?;
    let [m, n, k] = [&free_a, &free_b, &contracted].map(|labels| count(labels, sizes));
    let batches = count(&batch, sizes);
    let axes = [batch, free_a, free_b].concat();
    let dims: Vec<i64> = axes.iter().map(|label| sizes[label] as i64).collect();
    let mut tensor = ctx.allocate(a.tensor.dtype(), Shape::new(&dims)?)?;
    if tensor.count() > 0 {
        let offsets = (batches != 1).then(|| {
            let starts = |size: usize| -> Vec<usize> { (0..batches).map(|i| i * size).collect() };
            [starts(m * k), starts(k * n)]
        });
        let operands = Operands {
            size: [m, n, k],
            transposed: [false; 2],
            a: a.tensor.elems(),
            b: b.tensor.elems(),
            offsets,
        };
        product(ctx.parallel(), &operands, tensor.elems_mut()?);
    }
    Ok(Labelled { tensor, axes })
}

/// The result with the axes of the output. A label that the output repeats stands on its diagonal.
fn write_output(
    ctx: &OpContext<'_>,
    result: &Labelled,
    output: &[Label],
    sizes: &Sizes,
) -> Result<Tensor> {
    let mut distinct: Vec<Label> = Vec::new();
    for label in output {
        if !distinct.contains(label) {
            distinct.push(*label);
        }
    }
    let arranged = result.arranged(ctx, &distinct, sizes)?;
    if distinct.len() == output.len() {
        return Ok(arranged.tensor);
    }
    let dims: Vec<i64> = output.iter().map(|label| sizes[label] as i64).collect();
    let mut out = ctx.allocate_zeros(arranged.tensor.dtype(), Shape::new(&dims)?)?;
    let strides = out.shape().strides();
    let stride = |label: Label| -> usize {
        let axes = output.iter().zip(&strides).filter(|(axis, _)| **axis == label);
        axes.map(|(_, stride)| stride).sum()
    };
    let mut target = out.elems_mut()?;
    for index in 0..arranged.tensor.count() {
        let (mut rest, mut position) = (index, 0);
        for &label in distinct.iter().rev() {
            position += rest % sizes[&label] * stride(label);
            rest /= sizes[&label];
        }
        target
            .slice(position..position + 1)
            .copy_from(arranged.tensor.elems().slice(index..index + 1));
    }
    Ok(out)
}
