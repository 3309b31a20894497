//! `EditDistance`: how many insertions, deletions and replacements lead from one sequence to another.

use tfcore_base::{
    BFloat16, Complex64, Complex128, DType, Elem, Half, LoopFor, Result, TypedLoop, internal,
    require,
};
use tfcore_framework::{InferenceContext, OpContext, Registry, kernel, shape_ops};
use tfcore_tensor::{Dim, Elems, PartialShape, Shape, TString};

use crate::sparse_groups::Positions;

/// The types of the elements of sequences.
type Symbols = (
    f32,
    f64,
    Half,
    BFloat16,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    bool,
    Complex64,
    Complex128,
    TString,
);

pub(crate) fn register(r: &mut Registry) {
    // `EditDistance(hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape: int64, truth_indices: int64,
    // truth_values: T, truth_shape: int64) -> output: float`: the distances of the sequences in the last dimension of two
    // sparse tensors, divided by the true one's length if attr `normalize` is set.
    r.op("EditDistance").shape(distance_shape).typed_kernel::<Distance, Symbols>(
        "T",
        |init, distance| {
            let normalize = init.attrs.bool("normalize")?;
            kernel(move |ctx| edit_distance(ctx, normalize, distance))
        },
    );
}

fn distance_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for at in [0, 3] {
        let indices = shape_ops::with_rank(ctx.input(at), 2)?;
        let values = shape_ops::with_rank(ctx.input(at + 1), 1)?;
        let shape = shape_ops::with_rank(ctx.input(at + 2), 1)?;
        shape_ops::merge_dims(indices.dim(0), values.dim(0))?;
        shape_ops::merge_dims(indices.dim(1), shape.dim(0))?;
    }
    let (Some(hypothesis), Some(truth)) = (ctx.operand_i64s(2)?, ctx.operand_i64s(5)?) else {
        return Ok(());
    };
    require!(
        hypothesis.len() == truth.len(),
        "Num elements of hypothesis_shape does not match truth_shape: {} vs. {}",
        hypothesis.len(),
        truth.len()
    );
    let outer = hypothesis.len().saturating_sub(1);
    let dims = hypothesis.iter().zip(&truth).take(outer).map(|(&a, &b)| a.max(b));
    require!(dims.clone().all(|size| size >= 0), "Shapes must not be negative");
    ctx.set_output(0, dims.map(Dim::new).collect::<PartialShape>());
    Ok(())
}

/// The distance of two sequences.
type DistanceLoop = fn(Elems<'_>, Elems<'_>) -> usize;

struct Distance;

impl TypedLoop for Distance {
    type Loop = DistanceLoop;
}

impl<T: Elem> LoopFor<T> for Distance {
    const LOOP: DistanceLoop = |a, b| distance(a.typed::<T>(), b.typed::<T>());
}

/// Levenshtein's distance, row by row.
fn distance<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (above, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (column, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

fn edit_distance(ctx: &mut OpContext<'_>, normalize: bool, distance: DistanceLoop) -> Result<()> {
    check_inputs(ctx)?;
    let shape_of = |index: usize| Shape::new(&ctx.input(index)?.to_i64s()?);
    let (hypothesis_shape, truth_shape) = (shape_of(2)?, shape_of(5)?);
    let outer = truth_shape.rank() - 1;
    let dims = hypothesis_shape.iter().zip(truth_shape.iter()).take(outer);
    let dims: Vec<i64> = dims.map(|(&a, &b)| a.max(b)).collect();
    let shape = Shape::new(&dims)?;
    let count = shape.count();
    require!(count > 0, "Got output shape {shape} which has 0 elements");
    let strides = shape.strides();
    let mut output = ctx.allocate_zeros(DType::FLOAT, shape)?;
    let out = output.as_mut_slice::<f32>()?;

    let hypotheses = Positions::new(ctx.input(0)?)?.groups();
    let truths = Positions::new(ctx.input(3)?)?.groups();
    let (hypothesis_values, truth_values) = (ctx.input(1)?.elems(), ctx.input(4)?.elems());
    let (mut h, mut t) = (hypotheses.iter().peekable(), truths.iter().peekable());
    loop {
        let order = match (h.peek(), t.peek()) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(h), Some(t)) => h.key.cmp(t.key),
        };
        let hypothesis = if order.is_le() { h.next() } else { None };
        let truth = if order.is_ge() { t.next() } else { None };
        let (key, value) = match (hypothesis, truth) {
            (Some(h), Some(t)) => {
                let steps = distance(
                    truth_values.slice(t.entries.clone()),
                    hypothesis_values.slice(h.entries.clone()),
                ) as f32;
                (t.key, if normalize { steps / t.entries.len() as f32 } else { steps })
            }
            // A sequence that should be empty is infinitely wrong.
            (Some(h), None) => {
                (h.key, if normalize { f32::INFINITY } else { h.entries.len() as f32 })
            }
            (None, Some(t)) => (t.key, if normalize { 1.0 } else { t.entries.len() as f32 }),
            (None, None) => break,
        };
        let at = key
            .iter()
            .zip(&strides)
            .fold(0i64, |sum, (&key, &stride)| sum.wrapping_add(key.wrapping_mul(stride as i64)));
        let slot = usize::try_from(at).ok().and_then(|at| out.get_mut(at)).ok_or_else(|| {
            internal!(
                "Got an inner product {at} which would require writing to outside of the buffer for the output \
                 tensor (max elements {count})"
            )
        })?;
        *slot = value;
    }
    ctx.set_output(0, output);
    Ok(())
}

/// Checks the shapes of all inputs, in the reference's order.
fn check_inputs(ctx: &OpContext<'_>) -> Result<()> {
    let of = |what: usize| Ok::<_, tfcore_base::Error>([ctx.input(what)?, ctx.input(what + 3)?]);
    let [indices, values, shapes] = [of(0)?, of(1)?, of(2)?];
    let sides = ["hypothesis", "truth"];
    for (what, form, rank, tensors) in [
        ("indices", "matrix", 2, indices),
        ("values", "vector", 1, values),
        ("shape", "vector", 1, shapes),
    ] {
        for (side, tensor) in sides.iter().zip(tensors) {
            require!(
                tensor.rank() == rank,
                "{side}_{what} should be a {form}, but got shape: {}",
                tensor.shape()
            );
        }
    }
    for (side, name) in sides.iter().enumerate() {
        let (values, indices, shape) = (values[side], indices[side], shapes[side]);
        require!(
            values.count() == indices.dim(0),
            "Expected {name}_values.NumElements == #rows({name}_indices), their shapes are: {} and {}",
            values.shape(),
            indices.shape()
        );
        if side == 1 {
            require!(
                shape.count() >= 2,
                "Input SparseTensors must have rank at least 2, but truth_shape rank is: {}",
                shape.count()
            );
        }
        require!(
            shape.count() == indices.dim(1),
            "Expected {name}_shape.NumElements == #cols({name}_indices), their shapes are: {} and {}",
            shape.shape(),
            indices.shape()
        );
    }
    let [hypothesis, truth] = shapes.map(|shape| shape.shape());
    require!(
        hypothesis == truth,
        "Expected truth and hypothesis to have matching ranks, but their shapes are: {truth} and {hypothesis}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;
    use tfcore_tensor::Tensor;

    #[test]
    fn distances_of_words() {
        let cases = [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "abc", 0), ("ab", "ba", 2)];
        for (a, b, expected) in cases {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }

    fn sparse(indices: &[i64], values: &[i32], shape: &[i64]) -> [Tensor; 3] {
        [
            tensor(&[values.len() as i64, 2], indices),
            ints(values),
            tensor(&[shape.len() as i64], shape),
        ]
    }

    #[test]
    fn distances_by_row() {
        let run = |normalize: bool| {
            let hypothesis = sparse(&[0, 0, 0, 1, 1, 0], &[1, 2, 3], &[3, 2]);
            let truth = sparse(&[0, 0, 2, 0], &[1, 4], &[3, 2]);
            let inputs = [hypothesis, truth].concat();
            let attrs = [int32(), ("normalize", AttrValue::Bool(normalize))];
            values::<f32>("EditDistance", &attrs, &inputs).unwrap().1
        };
        assert_eq!(run(false), [1.0, 1.0, 1.0]);
        assert_eq!(run(true), [1.0, f32::INFINITY, 1.0]);
        let outside = [sparse(&[5, 0], &[1], &[1, 1]), sparse(&[0, 0], &[1], &[1, 2])].concat();
        assert!(
            failure("EditDistance", &[int32()], &outside).starts_with("Got an inner product 5")
        );
        let constants = [(2, tensor(&[2], &[3i64, 4])), (5, tensor(&[2], &[2i64, 5]))];
        assert_eq!(
            shapes("EditDistance", &[int32()], "[?,2];[?];[2];[?,2];[?];[2]", &constants),
            "[3]"
        );
    }
}
