//! Gradients of reductions by segments.

use tfcore_base::Result;
use tfcore_framework::{GradientContext, Gradients, Output, Registry};
use tfcore_tensor::Tensor;

pub(crate) fn register(r: &mut Registry) {
    r.op("SegmentSum")
        .gradient(|c| Ok(vec![Some(c.apply("Gather", [c.grad(0), c.input(1)])), None]));
    r.op("UnsortedSegmentSum").gradient(|c| {
        let rows = Rows::of(c, c.grad(0));
        Ok(vec![Some(rows.gather_or_zero(c, c.grad(0))), None, None])
    });
    r.ops(["UnsortedSegmentMax", "UnsortedSegmentMin"], |op| {
        op.gradient(extremum);
    });
}

/// Where the rows of the input went: segments by row, of which negative ones were left out.
struct Rows {
    segments: Output,
    /// Which rows went anywhere, in the shape of the input.
    present: Output,
}

impl Rows {
    /// `by_segment` has a row for each segment, as the result of the op.
    fn of(c: &GradientContext<'_>, by_segment: Output) -> Rows {
        let ids = c.input(1);
        let segments = c.maximum(ids, c.zeros_like(ids));
        let present = c.apply("GreaterEqual", [ids, c.zeros_like(ids)]);
        // One more dimension of 1 for each that a row has.
        let shape = c.shape(present);
        let one = c.constant(one());
        let extra = c.sub(c.rank(by_segment), c.vector(&[1i32]));
        let ones = c.tile(one, extra);
        let shape = c.concat(&[shape, ones], c.literal(Tensor::scalar(0i32)));
        let present = c.reshape(present, shape);
        let present = c.apply("LogicalAnd", [present, c.ones_like(present)]);
        Rows { segments, present }
    }

    /// For each row that of its segment; zeros for rows that were left out.
    fn gather_or_zero(&self, c: &GradientContext<'_>, by_segment: Output) -> Output {
        let rows = c.apply("Gather", [by_segment, self.segments]);
        let zeros = c.zeros_like(rows);
        c.choose_broadcast(self.present, rows, zeros)
    }
}

fn one() -> Tensor {
    Tensor::from_slice(tfcore_tensor::Shape::vector(1), &[1i32]).expect("one element fits")
}

/// The gradient goes to the elements that won, in equal parts.
fn extremum(c: &GradientContext<'_>) -> Result<Gradients> {
    let rows = Rows::of(c, c.output(0));
    let best = rows.gather_or_zero(c, c.output(0));
    let winners = c.apply("LogicalAnd", [c.equal(c.input(0), best), rows.present]);
    let counted = c.cast(winners, c.dtype(c.grad(0)));
    let count = c.apply("UnsortedSegmentSum", [counted, c.input(1), c.input(2)]);
    let share = c.div(c.grad(0), count);
    let share = rows.gather_or_zero(c, share);
    let zeros = c.zeros_like(share);
    Ok(vec![Some(c.choose_broadcast(winners, share, zeros)), None, None])
}
