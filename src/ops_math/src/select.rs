//! Choosing elements by a condition: `Select` and `SelectV2`.

use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Result, invalid};
use tfcore_framework::{
    InferenceContext, Kernel, OpContext, Registry, ScalarKernel, for_each_part, shape_ops,
};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{
    Elems, ElemsMut, Lane, PartialShape, ResourceHandle, Scalar, Shape, TString, Tensor, Variant,
};

pub(crate) fn register(r: &mut Registry) {
    // `Select(condition: bool, t: T, e: T) -> output: T`: element by element from `t` or `e`, whole rows if
    // the condition is a vector, one of the two if it is a scalar.
    r.op("Select")
        .shape(select_shape)
        .cpu(|init| Ok(Box::new(SelectKernel { node: Some(init.name.to_string()) })));
    // `SelectV2(condition: bool, t: T, e: T) -> output: T`, with broadcasting of all three.
    r.op("SelectV2").shape(select_v2_shape).cpu(|_| Ok(Box::new(SelectKernel { node: None })));
}

struct SelectKernel {
    /// The name of a node that does not broadcast, for its messages.
    node: Option<String>,
}

impl Kernel for SelectKernel {
    fn compute(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let condition = match &self.node {
            Some(name) => condition_shape(ctx, name)?,
            None => ctx.input(0)?.shape().clone(),
        };
        select(ctx, &condition)
    }

    fn on_scalars(self: Arc<Self>) -> Option<Arc<dyn ScalarKernel>> {
        Some(self)
    }
}

impl ScalarKernel for SelectKernel {
    fn apply(&self, [condition, then, other]: [&Scalar; 3], out: &mut Scalar) -> bool {
        *out = if condition.elems().typed::<bool>()[0] { *then } else { *other };
        true
    }
}

fn select_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let merged = shape_ops::merge(ctx.input(1), ctx.input(2))?;
    let condition = ctx.input(0);
    let output = match (condition.dims(), merged.dims()) {
        (Some([]), _) | (None, _) | (_, None) => merged,
        // A vector must agree with the number of rows, of which it tells no more.
        (Some([len]), Some([rows, ..])) => {
            shape_ops::merge(&PartialShape::vector(*len), &PartialShape::vector(*rows))?;
            merged
        }
        _ => shape_ops::merge(&merged, condition)?,
    };
    ctx.set_output(0, output);
    ctx.forward_handle(1, 0);
    Ok(())
}

fn select_v2_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    if ctx.inputs().iter().all(|shape| shape.rank().is_some()) {
        let branches = shape_ops::broadcast(ctx.input(1), ctx.input(2))?;
        let output = shape_ops::broadcast(ctx.input(0), &branches)?;
        ctx.set_output(0, output);
    }
    ctx.forward_handle(1, 0);
    Ok(())
}

/// The shape of the condition of a `Select`, with dimensions of size 1 so that it broadcasts.
///
/// # Errors
/// `InvalidArgument` if the shapes are not as `Select` has them; it broadcasts nothing but conditions.
fn condition_shape(ctx: &OpContext<'_>, name: &str) -> Result<Shape> {
    let [condition, then, other] = [ctx.input(0)?, ctx.input(1)?, ctx.input(2)?].map(Tensor::shape);
    let unlike = |index: usize, shape: &Shape, first: &Shape| {
        invalid!(
            "Inputs to operation {name} of type Select must have the same size and shape.  \
             Input 0: {first} != input {index}: {shape}"
        )
    };
    match condition.rank() {
        0 if then != other => Err(invalid!(
            "'then' and 'else' must have the same size.  but received: {then} vs. {other}"
        )),
        1 if then.rank() == 0 => {
            Err(invalid!("'then' must be at least a vector, but saw shape: {then}"))
        }
        1 if then.rank() > 1 => {
            if then.dims()[0] != condition.dims()[0] {
                return Err(invalid!(
                    "Number of batches of 'then' must match size of 'cond', but saw: {} vs. {}",
                    then.dims()[0],
                    condition.dims()[0]
                ));
            }
            if then != other {
                return Err(invalid!(
                    "'then' and 'else' must have the same size.  but received: {then} vs. {other}"
                ));
            }
            let mut dims = vec![1; then.rank()];
            dims[0] = condition.dims()[0];
            Shape::new(&dims)
        }
        0 => Ok(condition.clone()),
        _ if then != condition => Err(unlike(1, then, condition)),
        _ if other != condition => Err(unlike(2, other, condition)),
        _ => Ok(condition.clone()),
    }
}

/// How condition, `then` and `else` stretch to one shape. Neighbouring dimensions that behave alike are
/// merged.
struct Choice {
    output: Shape,
    /// From the outermost to the innermost; never empty.
    dims: SmallVec<[ChoiceDim; 4]>,
}

struct ChoiceDim {
    size: usize,
    /// How far each operand moves for one step, in elements; 0 where it repeats.
    strides: [usize; 3],
}

impl Choice {
    /// `None` if the shapes do not broadcast.
    fn new(operands: [&Shape; 3]) -> Option<Choice> {
        let rank = operands.iter().map(|shape| shape.rank()).max().unwrap_or(0);
        let mut output = vec![1; rank];
        let mut dims: SmallVec<[ChoiceDim; 4]> = SmallVec::new();
        let mut strides = [1; 3];
        for axis in (0..rank).rev() {
            let sizes = operands.map(|shape| {
                (axis + shape.rank()).checked_sub(rank).map_or(1, |axis| shape.dim(axis))
            });
            let size = sizes.into_iter().find(|&size| size != 1).unwrap_or(1);
            if sizes.iter().any(|&other| other != 1 && other != size) {
                return None;
            }
            output[axis] = size as i64;
            if size == 1 {
                continue;
            }
            let mut moves = [0; 3];
            for operand in 0..3 {
                if sizes[operand] != 1 {
                    moves[operand] = strides[operand];
                    strides[operand] *= size;
                }
            }
            match dims.last_mut() {
                // Both begin with the innermost dimension so far.
                Some(inner) if moves == inner.strides.map(|stride| stride * inner.size) => {
                    inner.size *= size;
                }
                _ => dims.push(ChoiceDim { size, strides: moves }),
            }
        }
        if dims.is_empty() {
            dims.push(ChoiceDim { size: 1, strides: [1; 3] });
        }
        dims.reverse();
        Some(Choice { output: Shape::new(&output).ok()?, dims })
    }

    fn innermost(&self) -> &ChoiceDim {
        self.dims.last().expect("there is always a dimension")
    }

    /// Where the operands are for the output's run number `index`.
    fn offsets(&self, mut index: usize) -> [usize; 3] {
        let mut offsets = [0; 3];
        for dim in self.dims[..self.dims.len() - 1].iter().rev() {
            let step = index % dim.size;
            index /= dim.size;
            for (offset, stride) in offsets.iter_mut().zip(dim.strides) {
                *offset += step * stride;
            }
        }
        offsets
    }
}

/// Sets the output to the elements of input 1 where the condition holds, and of input 2 elsewhere.
fn select(ctx: &mut OpContext<'_>, condition_shape: &Shape) -> Result<()> {
    let (condition, then, other) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let choice = Choice::new([condition_shape, then.shape(), other.shape()]).ok_or_else(|| {
        invalid!(
            "condition {}, then {}, and else {} must be broadcastable",
            condition.shape(),
            then.shape(),
            other.shape()
        )
    })?;
    let conditions = condition.as_slice::<bool>()?;
    if let [condition] = *conditions {
        let chosen = if condition { 1 } else { 2 };
        if ctx.input(chosen)?.shape() == &choice.output {
            let tensor = ctx.take_input(chosen)?;
            ctx.set_output(0, tensor);
            return Ok(());
        }
    }
    let (then, other) = (then.elems(), other.elems());
    let mut out = ctx.allocate_output(0, choice.output.clone())?;
    let inner = choice.innermost();
    for_each_part(ctx.parallel(), out.elems_mut()?, 2, &|start, mut part| {
        // A part may begin and end within a run.
        let (mut at, end) = (start, start + part.len());
        while at < end {
            let within = at % inner.size;
            let len = (inner.size - within).min(end - at);
            let offsets = choice.offsets(at / inner.size);
            let ranges: [_; 3] = std::array::from_fn(|operand| match inner.strides[operand] {
                0 => offsets[operand]..offsets[operand] + 1,
                _ => offsets[operand] + within..offsets[operand] + within + len,
            });
            let [conditions_at, then_at, other_at] = ranges;
            choose(
                &conditions[conditions_at],
                then.slice(then_at),
                other.slice(other_at),
                part.slice(at - start..at - start + len),
            );
            at += len;
        }
    });
    ctx.set_output(0, out);
    Ok(())
}

/// Chooses elements of any dtype; an operand with one element repeats it.
fn choose(conditions: &[bool], then: Elems<'_>, other: Elems<'_>, out: ElemsMut<'_>) {
    fn lanes<L: Lane>(conditions: &[bool], then: Elems<'_>, other: Elems<'_>, out: ElemsMut<'_>) {
        choose_typed::<L>(conditions, then.lanes(), other.lanes(), out.lanes());
    }
    match out.dtype() {
        DType::STRING => {
            choose_typed::<TString>(conditions, then.typed(), other.typed(), out.typed());
        }
        DType::RESOURCE => {
            choose_typed::<ResourceHandle>(conditions, then.typed(), other.typed(), out.typed());
        }
        DType::VARIANT => {
            choose_typed::<Variant>(conditions, then.typed(), other.typed(), out.typed());
        }
        dtype => match dtype.size() {
            1 => lanes::<u8>(conditions, then, other, out),
            2 => lanes::<u16>(conditions, then, other, out),
            4 => lanes::<u32>(conditions, then, other, out),
            8 => lanes::<u64>(conditions, then, other, out),
            _ => lanes::<[u64; 2]>(conditions, then, other, out),
        },
    }
}

fn choose_typed<E: Clone>(conditions: &[bool], then: &[E], other: &[E], out: &mut [E]) {
    if let [condition] = *conditions {
        return match if condition { then } else { other } {
            [single] => out.fill(single.clone()),
            chosen => out.clone_from_slice(chosen),
        };
    }
    if then.len() == out.len() && other.len() == out.len() {
        return vectorize(
            #[inline(always)]
            || {
                let branches = then.iter().zip(other);
                for ((out, &condition), (then, other)) in
                    out.iter_mut().zip(conditions).zip(branches)
                {
                    *out = if condition { then.clone() } else { other.clone() };
                }
            },
        );
    }
    let steps = [then, other].map(|branch| usize::from(branch.len() != 1));
    for (index, (out, &condition)) in out.iter_mut().zip(conditions).enumerate() {
        out.clone_from(if condition { &then[index * steps[0]] } else { &other[index * steps[1]] });
    }
}

#[cfg(test)]
mod tests {
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, run_op};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn attrs() -> [(&'static str, AttrValue); 1] {
        [("T", AttrValue::Type(DType::INT32))]
    }

    /// A condition that holds for even indices, `then` counting from 0, `else` from 100.
    fn run(op: &str, shapes: [&[i64]; 3]) -> Result<(Vec<i64>, Vec<i32>)> {
        let [condition, then, other] = shapes.map(|dims| Shape::new(dims).unwrap());
        let conditions: Vec<bool> = (0..condition.count()).map(|i| i % 2 == 0).collect();
        let numbers = |shape: &Shape, first: i32| -> Vec<i32> {
            (0..shape.count() as i32).map(|i| first + i).collect()
        };
        let (thens, others) = (numbers(&then, 0), numbers(&other, 100));
        let inputs = [
            Tensor::from_slice(condition, &conditions)?,
            Tensor::from_slice(then, &thens)?,
            Tensor::from_slice(other, &others)?,
        ];
        let out = run_op(&registry(), op, &attrs(), &inputs)?.remove(0);
        Ok((out.shape().dims().to_vec(), out.as_slice::<i32>()?.to_vec()))
    }

    #[test]
    fn choices() {
        let cases: [(&str, [&[i64]; 3], &[i64], &[i32]); 9] = [
            ("Select", [&[3], &[3], &[3]], &[3], &[0, 101, 2]),
            ("Select", [&[], &[2], &[2]], &[2], &[0, 1]),
            ("Select", [&[2], &[2, 2], &[2, 2]], &[2, 2], &[0, 1, 102, 103]),
            ("SelectV2", [&[2, 1], &[2], &[2]], &[2, 2], &[0, 1, 100, 101]),
            ("SelectV2", [&[2], &[2, 1], &[]], &[2, 2], &[0, 100, 1, 100]),
            ("SelectV2", [&[], &[1], &[2]], &[2], &[0, 0]),
            ("SelectV2", [&[3, 1], &[1, 2], &[3, 2]], &[3, 2], &[0, 1, 102, 103, 0, 1]),
            ("SelectV2", [&[0, 3], &[1, 3], &[]], &[0, 3], &[]),
            (
                "SelectV2",
                [&[2], &[2, 2, 2], &[2, 1, 1]],
                &[2, 2, 2],
                &[0, 100, 2, 100, 4, 101, 6, 101],
            ),
        ];
        for (op, shapes, dims, values) in cases {
            let (actual_dims, actual) = run(op, shapes).unwrap();
            assert_eq!(
                (actual_dims.as_slice(), actual.as_slice()),
                (dims, values),
                "{op} {shapes:?}"
            );
        }
    }

    #[test]
    fn refusals() {
        let cases: [(&str, [&[i64]; 3], &str); 5] = [
            (
                "Select",
                [&[3], &[2], &[2]],
                "Inputs to operation op of type Select must have the same size and shape.  \
                 Input 0: [3] != input 1: [2]",
            ),
            (
                "Select",
                [&[3], &[1, 2], &[1, 2]],
                "Number of batches of 'then' must match size of 'cond', but saw: 1 vs. 3",
            ),
            ("Select", [&[1], &[], &[]], "'then' must be at least a vector, but saw shape: []"),
            (
                "Select",
                [&[], &[1], &[]],
                "'then' and 'else' must have the same size.  but received: [1] vs. []",
            ),
            (
                "SelectV2",
                [&[3], &[2], &[2]],
                "condition [3], then [2], and else [2] must be broadcastable",
            ),
        ];
        for (op, shapes, message) in cases {
            assert_eq!(run(op, shapes).unwrap_err().message(), message);
        }
    }

    #[test]
    fn shapes() {
        let cases = [
            ("Select", "[?];[?,3];[2,?]", "[2,3]"),
            ("Select", "[5];[?,3];[?,?]", "[?,3]"),
            ("Select", "[5,3];[?,?];?", "[5,3]"),
            ("Select", "[5,3];?;?", "?"),
            ("SelectV2", "[5,1];?;[3]", "?"),
            ("SelectV2", "[5,1];[?];[3]", "[5,3]"),
        ];
        for (op, inputs, expected) in cases {
            let shape = infer(&registry(), op, &attrs(), inputs, &[]).unwrap();
            assert_eq!(shape, expected, "{op} {inputs}");
        }
        let error = infer(&registry(), "Select", &attrs(), "[5];[4,3];?", &[]).unwrap_err();
        assert_eq!(
            error.message(),
            "Dimension 0 in both shapes must be equal, but are 5 and 4. Shapes are [5] and [4]."
        );
    }
}
