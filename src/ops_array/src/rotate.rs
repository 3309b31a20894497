//! Ops that move elements along their axis: `Roll`, `ReverseSequence`.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::movement::{Movement, for_each_units, move_elems};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `Roll(input: T, shift: Tshift, axis: Taxis) -> output: T`: along `axis[k]` every element goes `shift[k]` places on;
    // those that leave at the end come back at the beginning.
    r.op("Roll").shape(roll_shape).compute(roll);
    // `ReverseSequence(input: T, seq_lengths: Tlen) -> output: T`: in slice `b` along `batch_dim` the first
    // `seq_lengths[b]` elements along `seq_dim`, in reverse.
    r.op("ReverseSequence").shape(reverse_shape).cpu(reverse_kernel);
}

fn roll_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let shift = shape_ops::with_rank_at_most(ctx.input(1), 1)?;
    let axis = shape_ops::with_rank_at_most(ctx.input(2), 1)?;
    shape_ops::merge(&shift, &axis)?;
    ctx.set_output(0, input);
    Ok(())
}

fn roll(ctx: &mut OpContext<'_>) -> Result<()> {
    let [input, shift, axis] = [ctx.input(0)?, ctx.input(1)?, ctx.input(2)?];
    require!(input.rank() >= 1, "input must be 1-D or higher");
    for (name, tensor) in [("shift", shift), ("axis", axis)] {
        require!(
            tensor.rank() <= 1,
            "{name} must be a scalar or a 1-D vector. Found: {}",
            tensor.shape()
        );
    }
    require!(shift.shape() == axis.shape(), "shift and axis must have the same size");
    let shifts = total_shifts(input.shape(), &shift.to_i64s()?, &axis.to_i64s()?)?;
    let mut rolled = input.clone();
    for (axis, &shift) in shifts.iter().enumerate().filter(|(_, shift)| **shift != 0) {
        let block = rolled.shape()[axis + 1..].iter().product::<i64>() as usize;
        let (unit, front) = (rolled.dim(axis) * block, shift * block);
        let mut out = ctx.allocate(rolled.dtype(), rolled.shape().clone())?;
        for_each_units(ctx.parallel(), out.elems_mut()?, unit, &|first, part| {
            move_elems(rolled.elems(), part, Rolled { unit, front, first });
        });
        rolled = out;
    }
    ctx.set_output(0, rolled);
    Ok(())
}

/// By axis: how many places elements go on, less than there are.
fn total_shifts(shape: &Shape, shifts: &[i64], axes: &[i64]) -> Result<Vec<usize>> {
    let rank = shape.rank() as i64;
    let mut totals = vec![0; shape.rank()];
    for (&shift, &given) in shifts.iter().zip(axes) {
        let axis = if given < 0 { given.saturating_add(rank) } else { given };
        require!((0..rank).contains(&axis), "axis {axis} is out of range");
        let axis = axis as usize;
        let size = shape[axis].max(1);
        totals[axis] = (totals[axis] + shift.rem_euclid(size) as usize) % size as usize;
    }
    Ok(totals)
}

/// Brings the last `front` elements of each run of `unit` to its beginning.
struct Rolled {
    unit: usize,
    front: usize,
    /// The number of the first run.
    first: usize,
}

impl Movement for Rolled {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        let source = &source[self.first * self.unit..];
        for (source, out) in source.chunks_exact(self.unit).zip(out.chunks_exact_mut(self.unit)) {
            let (head, tail) = source.split_at(self.unit - self.front);
            out[..self.front].clone_from_slice(tail);
            out[self.front..].clone_from_slice(head);
        }
    }
}

fn reverse_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = ctx.input(0);
    let lengths = shape_ops::with_rank(ctx.input(1), 1)?;
    let Some(rank) = input.rank() else {
        return Ok(());
    };
    let axis = |name: &str| -> Result<Option<usize>> {
        let axis = ctx.attrs.int(name)?;
        require!(axis < rank as i64, "{name} must be < input rank: {axis} vs. {rank}");
        Ok(usize::try_from(axis).ok())
    };
    let batch_dim = axis("batch_dim")?;
    axis("seq_dim")?;
    let output = match batch_dim {
        Some(batch_dim) => {
            let size = shape_ops::merge_dims(input.dim(batch_dim), lengths.dim(0))?;
            shape_ops::replace_dim(input, batch_dim as i64, size)?
        }
        None => input.clone(),
    };
    ctx.set_output(0, output);
    Ok(())
}

fn reverse_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let (batch_dim, seq_dim) = (init.attrs.int("batch_dim")?, init.attrs.int("seq_dim")?);
    kernel(move |ctx| {
        let (input, lengths) = (ctx.input(0)?, ctx.input(1)?);
        let plan = Reversal::new(input, lengths, batch_dim, seq_dim)?;
        ctx.produce(0, input.shape().clone(), |out| {
            for_each_units(ctx.parallel(), out, plan.block, &|first, part| {
                move_elems(input.elems(), part, Reversed { plan: &plan, first });
            });
        })
    })
}

/// What goes where, in blocks that stay together.
struct Reversal {
    lengths: Vec<i64>,
    block: usize,
    /// Blocks from one index to the next, and the number of indices.
    batch: (usize, usize),
    sequence: (usize, usize),
}

impl Reversal {
    fn new(input: &Tensor, lengths: &Tensor, batch_dim: i64, seq_dim: i64) -> Result<Reversal> {
        require!(lengths.rank() == 1, "seq_lengths must be 1-dim, not {}", lengths.rank());
        require!(batch_dim != seq_dim, "batch_dim == seq_dim == {seq_dim}");
        let rank = input.rank();
        let axis = |name: &str, axis: i64| {
            require!(axis < rank as i64, "{name} must be < input rank ( {axis} vs. {rank})");
            usize::try_from(axis).map_err(|_| invalid!("Invalid {name} {axis}"))
        };
        let (seq, batch) = (axis("seq_dim", seq_dim)?, axis("batch_dim", batch_dim)?);
        require!(
            lengths.count() == input.dim(batch),
            "Length of seq_lengths != input.dims({batch}), ({} vs. {})",
            lengths.count(),
            input.dim(batch)
        );
        let lengths = lengths.to_i64s()?;
        for (index, &length) in lengths.iter().enumerate() {
            require!(length >= 0, "seq_lens({index}) < 0");
            require!(length <= input.shape()[seq], "seq_lens({index}) > input.dims({seq})");
        }
        let blocks = &input.shape()[..=seq.max(batch)];
        let product = |dims: &[i64]| dims.iter().product::<i64>() as usize;
        Ok(Reversal {
            lengths,
            block: product(&input.shape()[blocks.len()..]),
            batch: (product(&blocks[batch + 1..]), input.dim(batch)),
            sequence: (product(&blocks[seq + 1..]), input.dim(seq)),
        })
    }

    /// The block of the input that block `number` of the output is.
    fn source(&self, number: usize) -> usize {
        let index = |(stride, size): (usize, usize)| number / stride % size;
        let length = self.lengths[index(self.batch)] as usize;
        let step = index(self.sequence);
        if step >= length {
            return number;
        }
        let stride = self.sequence.0;
        number - step * stride + (length - 1 - step) * stride
    }
}

struct Reversed<'p> {
    plan: &'p Reversal,
    /// The number of the first block.
    first: usize,
}

impl Movement for Reversed<'_> {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        let block = self.plan.block;
        for (number, out) in out.chunks_exact_mut(block).enumerate() {
            let start = self.plan.source(self.first + number) * block;
            out.clone_from_slice(&source[start..start + block]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_tensor::Tensor;

    fn roll_attrs() -> [(&'static str, AttrValue); 3] {
        [int32(), ("Tshift", of(DType::INT32)), ("Taxis", of(DType::INT32))]
    }

    fn reverse_attrs(seq_dim: i64, batch_dim: i64) -> [(&'static str, AttrValue); 4] {
        [
            int32(),
            ("Tlen", of(DType::INT32)),
            ("seq_dim", AttrValue::Int(seq_dim)),
            ("batch_dim", AttrValue::Int(batch_dim)),
        ]
    }

    #[test]
    fn rolling() {
        let roll = |shift: Tensor, axis: Tensor| [counting(&[2, 3]), shift, axis];
        let cases = [
            (roll(Tensor::scalar(1), Tensor::scalar(1)), vec![2, 0, 1, 5, 3, 4]),
            (roll(ints(&[1, -1]), ints(&[0, -1])), vec![4, 5, 3, 1, 2, 0]),
            (roll(ints(&[1, 1]), ints(&[1, 1])), vec![1, 2, 0, 4, 5, 3]),
            (roll(ints(&[i32::MIN]), ints(&[1])), vec![2, 0, 1, 5, 3, 4]),
            (roll(ints(&[]), ints(&[])), vec![0, 1, 2, 3, 4, 5]),
        ];
        for (inputs, expected) in cases {
            assert_eq!(values::<i32>("Roll", &roll_attrs(), &inputs).unwrap().1, expected);
        }
        let cases = [
            (roll(ints(&[1]), ints(&[2])), "axis 2 is out of range"),
            (roll(ints(&[1]), ints(&[-3])), "axis -1 is out of range"),
            (roll(ints(&[1]), ints(&[0, 1])), "shift and axis must have the same size"),
            (
                roll(tensor(&[1, 1], &[1]), ints(&[0])),
                "shift must be a scalar or a 1-D vector. Found: [1,1]",
            ),
        ];
        for (inputs, message) in cases {
            assert_eq!(failure("Roll", &roll_attrs(), &inputs), message);
        }
        assert_eq!(shapes("Roll", &roll_attrs(), "[2,?];[];[]", &[]), "[2,?]");
    }

    #[test]
    fn sequences() {
        let attrs = reverse_attrs(1, 0);
        let found = values::<i32>("ReverseSequence", &attrs, &[counting(&[2, 3]), ints(&[2, 3])]);
        assert_eq!(found.unwrap().1, [1, 0, 2, 5, 4, 3]);
        // Batches inside of sequences, and what belongs together behind both.
        let attrs = reverse_attrs(0, 1);
        let found =
            values::<i32>("ReverseSequence", &attrs, &[counting(&[2, 2, 2]), ints(&[0, 2])]);
        assert_eq!(found.unwrap().1, [0, 1, 6, 7, 4, 5, 2, 3]);
        let cases = [
            (1, 0, ints(&[4, 1]), "seq_lens(0) > input.dims(1)"),
            (1, 0, ints(&[1, -1]), "seq_lens(1) < 0"),
            (1, 0, ints(&[1, 1, 1]), "Length of seq_lengths != input.dims(0), (3 vs. 2)"),
            (0, 0, ints(&[1, 1]), "batch_dim == seq_dim == 0"),
            (2, 0, ints(&[1, 1]), "seq_dim must be < input rank ( 2 vs. 2)"),
            (-1, 0, ints(&[1, 1]), "Invalid seq_dim -1"),
        ];
        for (seq_dim, batch_dim, lengths, message) in cases {
            let attrs = reverse_attrs(seq_dim, batch_dim);
            let inputs = [counting(&[2, 3]), lengths];
            assert_eq!(failure("ReverseSequence", &attrs, &inputs), message);
        }
        let attrs = reverse_attrs(1, 0);
        assert_eq!(shapes("ReverseSequence", &attrs, "[?,3];[2]", &[]), "[2,3]");
        assert_eq!(shapes("ReverseSequence", &attrs, "?;[2]", &[]), "?");
    }
}
