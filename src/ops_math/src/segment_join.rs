//! `UnsortedSegmentJoin`: strings joined by segments.

use tfcore_base::{DType, Result, out_of_range, require};
use tfcore_framework::{OpContext, Registry, kernel};
use tfcore_tensor::{Shape, TString};

use crate::unsorted_segment::reduced_shape;

pub(crate) fn register(r: &mut Registry) {
    // `UnsortedSegmentJoin(inputs: string, segment_ids: Tindices, num_segments: Tnumsegments) -> output: string`:
    // `output[s, ..]` is those `inputs[i.., ..]` for which `segment_ids[i..]` is `s`, concatenated with attr `separator`.
    r.op("UnsortedSegmentJoin").shape(reduced_shape).cpu(|init| {
        let separator = init.attrs.bytes("separator")?;
        // The reference takes the attr for a C string.
        let end = separator.iter().position(|&byte| byte == 0).unwrap_or(separator.len());
        let separator = separator[..end].to_vec();
        kernel(move |ctx| join(ctx, &separator))
    });
}

fn join(ctx: &mut OpContext<'_>, separator: &[u8]) -> Result<()> {
    let (inputs, ids, count) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    require!(count.count() != 0, "Number of segments cannot be empty.");
    require!(count.rank() == 0, "num_segments should be a scalar, not shape {}", count.shape());
    require!(ids.rank() != 0, "Segment_id cannot have rank 0");
    if ids.rank() > inputs.rank() {
        return Err(out_of_range!(
            "Invalid segment_id rank {} for input with {} dimension(s)",
            ids.rank(),
            inputs.rank()
        ));
    }
    for axis in 0..ids.rank() {
        require!(
            ids.dim(axis) == inputs.dim(axis),
            "Segment dimension is {} while input dimension is {} in rank {axis}",
            ids.dim(axis),
            inputs.rank()
        );
    }
    let count = count.to_i64s()?[0];
    let shape = Shape::new(&[&[count], &inputs.shape()[ids.rank()..]].concat())?;
    let width = shape[1..].iter().product::<i64>() as usize;
    let ids = ids.to_i64s()?;
    require!(
        ids.iter().all(|id| (0..count).contains(id)),
        "segment_ids are not allowed to exceed num_segments or to have negative values."
    );
    let mut out = ctx.allocate_zeros(DType::STRING, shape)?;
    let mut joined: Vec<Vec<u8>> = vec![Vec::new(); out.count()];
    let inputs = inputs.as_slice::<TString>()?;
    for (row, &id) in ids.iter().enumerate() {
        for column in 0..width {
            let text = &mut joined[id as usize * width + column];
            if !text.is_empty() {
                text.extend_from_slice(separator);
            }
            text.extend_from_slice(inputs[row * width + column].as_bytes());
        }
    }
    for (out, text) in out.as_mut_slice::<TString>()?.iter_mut().zip(joined) {
        *out = TString::from(text.as_slice());
    }
    ctx.set_output(0, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op, tensor};
    use tfcore_tensor::Tensor;

    use super::*;

    #[test]
    fn strings_are_joined() {
        let registry = registry_of(register);
        let run = |ids: &[i32]| {
            let attrs = [
                ("separator", AttrValue::string(", ")),
                ("Tindices", AttrValue::Type(DType::INT32)),
                ("Tnumsegments", AttrValue::Type(DType::INT32)),
            ];
            let inputs = ["", "a", "b", "c"].map(|text| TString::from(text.as_bytes()));
            let inputs = [tensor(&[4], &inputs), tensor(&[4], ids), Tensor::scalar(2i32)];
            run_op(&registry, "UnsortedSegmentJoin", &attrs, &inputs)
        };
        let out = run(&[1, 1, 0, 1]).unwrap();
        let texts: Vec<&[u8]> =
            out[0].as_slice::<TString>().unwrap().iter().map(|text| text.as_bytes()).collect();
        assert_eq!(texts, [&b"b"[..], b"a, c"]);
        assert_eq!(
            run(&[0, 2, 0, 0]).err().unwrap().message(),
            "segment_ids are not allowed to exceed num_segments or to have negative values."
        );
    }
}
