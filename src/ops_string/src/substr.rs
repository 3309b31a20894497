//! `Substr`.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::geometry::Broadcast;
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_tensor::TString;

use crate::text::begins_char;

pub(crate) fn register(r: &mut Registry) {
    // `Substr(input: string, pos: T, len: T) -> output: string`, with broadcasting; a negative position
    // counts from the end, a length is cut off at the end.
    r.op("Substr").shape(substr_shape).cpu(substr_kernel);
}

fn substr_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (pos, len) = (ctx.input(1), ctx.input(2));
    if let Some(rank) = len.rank() {
        shape_ops::with_rank(pos, rank)?;
    }
    // The reference compares what is known, and unknown is unlike known.
    for (axis, dim) in pos.dims().unwrap_or_default().iter().enumerate() {
        require!(
            dim.to_i64() == len.dim(axis).to_i64(),
            "pos and len shapes must match: {pos} vs. {len}"
        );
    }
    shape_fns::broadcast_binary(ctx)
}

fn substr_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let by_chars = init.attrs.str("unit")? == "UTF8_CHAR";
    kernel(move |ctx| substr(ctx, by_chars))
}

fn substr(ctx: &mut OpContext<'_>, by_chars: bool) -> Result<()> {
    let (input, pos, len) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    require!(
        pos.shape() == len.shape(),
        "pos and len should have the same shape, got: {} vs. {}",
        pos.shape(),
        len.shape()
    );
    let broadcast = Broadcast::new(input.shape(), pos.shape())?;
    let mut out = ctx.allocate_output(0, broadcast.output().clone())?;
    let texts = input.as_slice::<TString>()?;
    let (pos, len) = (pos.to_i64s()?, len.to_i64s()?);
    let advances = broadcast.advances().map(usize::from);
    let run_len = broadcast.run_len();
    for (index, out) in out.as_mut_slice::<TString>()?.iter_mut().enumerate() {
        let run = broadcast.run(index / run_len);
        let step = index % run_len;
        let text = texts[run.operands[0] + step * advances[0]].as_bytes();
        let at = run.operands[1] + step * advances[1];
        let part = if by_chars {
            char_range(text, pos[at], len[at])
        } else {
            range(text.len(), pos[at], len[at])
        };
        let Some(part) = part else {
            return Err(invalid!(
                "pos {} out of range for string b'{}' at index {index}",
                pos[at],
                tfcore_base::escape_bytes(text)
            ));
        };
        out.assign(&text[part]);
    }
    ctx.set_output(0, out);
    Ok(())
}

/// The units from `pos` on, at most `len`; `None` if `pos` is outside of the `size` units.
fn range(size: usize, pos: i64, len: i64) -> Option<std::ops::Range<usize>> {
    let start = if pos < 0 {
        size.checked_sub(usize::try_from(pos.unsigned_abs()).ok()?)?
    } else {
        usize::try_from(pos).ok().filter(|&pos| pos <= size)?
    };
    // A negative length is a very large one to the reference.
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    Some(start..start.saturating_add(len).min(size))
}

/// As [`range`], in bytes, where the units are characters.
fn char_range(text: &[u8], pos: i64, len: i64) -> Option<std::ops::Range<usize>> {
    let starts: Vec<usize> = (0..text.len()).filter(|&at| begins_char(text[at])).collect();
    let units = range(starts.len(), pos, len)?;
    let byte = |unit: usize| starts.get(unit).copied().unwrap_or(text.len());
    Some(byte(units.start)..byte(units.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_off_at_the_end() {
        let cases = [
            (0, 2, Some(0..2)),
            (-2, 5, Some(3..5)),
            (5, 1, Some(5..5)),
            (6, 1, None),
            (-6, 1, None),
            (i64::MIN, i64::MAX, None),
        ];
        for (pos, len, expected) in cases {
            assert_eq!(range(5, pos, len), expected, "{pos} {len}");
        }
        let text = "aßc".as_bytes();
        assert_eq!(char_range(text, 1, 1), Some(1..3));
        assert_eq!(char_range(text, -1, 9), Some(3..4));
    }
}
