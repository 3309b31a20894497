//! `ReduceJoin`.

use tfcore_base::{Result, invalid, out_of_range, require};
use tfcore_framework::geometry::Reduction;
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{PartialShape, Shape, TString};

pub(crate) fn register(r: &mut Registry) {
    // `ReduceJoin(inputs: string, reduction_indices: int32) -> output: string`: the strings along some dimensions, the first
    // that is listed running fastest, with the separator between them.
    r.op("ReduceJoin").shape(reduce_join_shape).cpu(reduce_join_kernel);
}

fn reduce_join_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let keep_dims = ctx.attrs.bool("keep_dims")?;
    let shape = match ctx.operand_i64s(1)? {
        Some(axes) => Reduction::infer(ctx.input(0), &axes, keep_dims)?,
        None => match ctx.input(0).rank() {
            Some(rank) if keep_dims => PartialShape::of_rank(rank),
            _ => PartialShape::unknown(),
        },
    };
    ctx.set_output(0, shape);
    Ok(())
}

fn reduce_join_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let separator = init.attrs.bytes("separator")?.to_vec();
    let keep_dims = init.attrs.bool("keep_dims")?;
    kernel(move |ctx| reduce_join(ctx, &separator, keep_dims))
}

fn reduce_join(ctx: &mut OpContext<'_>, separator: &[u8], keep_dims: bool) -> Result<()> {
    let input = ctx.input(0)?;
    let rank = input.rank();
    let given = ctx.input_slice::<i32>(1)?;
    let mut is_reduced = vec![false; rank];
    let mut axes = Vec::with_capacity(given.len());
    for &axis in given {
        let index = shape_ops::resolve_axis(axis.into(), rank).map_err(|_| {
            out_of_range!("Invalid reduction dimension {axis} for input with {rank} dimension(s)")
        })?;
        if std::mem::replace(&mut is_reduced[index], true) {
            return Err(invalid!("Duplicate reduction dimension {axis}"));
        }
        axes.push(index);
    }
    if axes.is_empty() {
        let input = ctx.take_input(0)?;
        ctx.set_output(0, input);
        return Ok(());
    }
    let dims = input.shape().dims();
    let kept: Vec<usize> = (0..rank).filter(|&axis| !is_reduced[axis]).collect();
    let out_dims: Vec<i64> = (0..rank)
        .filter(|&axis| keep_dims || !is_reduced[axis])
        .map(|axis| if is_reduced[axis] { 1 } else { dims[axis] })
        .collect();
    let shape = Shape::new(&out_dims)?;
    let starts = offsets(input.shape(), &kept);
    axes.reverse();
    let steps = offsets(input.shape(), &axes);
    let texts = input.as_slice::<TString>()?;
    require!(
        starts.len() == shape.count(),
        "Internal error: the kept dimensions are not the output's"
    );
    ctx.produce(0, shape, |out| {
        let mut joined = Vec::new();
        for (out, start) in out.typed::<TString>().iter_mut().zip(&starts) {
            joined.clear();
            for (index, step) in steps.iter().enumerate() {
                if index > 0 {
                    joined.extend_from_slice(separator);
                }
                joined.extend_from_slice(texts[start + step].as_bytes());
            }
            out.assign(&joined);
        }
    })
}

/// The offsets of the elements that `axes` span, the last axis running fastest.
fn offsets(shape: &Shape, axes: &[usize]) -> Vec<usize> {
    let strides = shape.strides();
    let mut offsets = vec![0];
    for &axis in axes {
        let steps = || (0..shape.dim(axis)).map(|index| index * strides[axis]);
        offsets =
            offsets.iter().flat_map(|offset| steps().map(move |step| offset + step)).collect();
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, run_op, tensor};

    #[test]
    fn strings_are_joined_in_the_order_of_the_axes() {
        let registry = registry_of(register);
        let texts = tensor(&[2, 2], &["a", "b", "c", "d"].map(TString::from));
        let run = |axes: &[i32], keep| {
            let attrs =
                [("keep_dims", AttrValue::Bool(keep)), ("separator", AttrValue::string("-"))];
            let axes = tensor(&[axes.len() as i64], axes);
            let out =
                run_op(&registry, "ReduceJoin", &attrs, &[texts.clone(), axes])?.swap_remove(0);
            let joined: Vec<String> = out
                .as_slice::<TString>()?
                .iter()
                .map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned())
                .collect();
            Ok::<_, tfcore_base::Error>((out.shape().dims().to_vec(), joined.join(" ")))
        };
        let cases: [(&[i32], bool, &[i64], &str); 5] = [
            (&[0], false, &[2], "a-c b-d"),
            (&[-1], true, &[2, 1], "a-b c-d"),
            (&[0, 1], false, &[], "a-c-b-d"),
            (&[1, 0], false, &[], "a-b-c-d"),
            (&[], false, &[2, 2], "a b c d"),
        ];
        for (axes, keep, dims, text) in cases {
            assert_eq!(run(axes, keep).unwrap(), (dims.to_vec(), text.to_string()));
        }
        assert_eq!(run(&[0, -2], false).unwrap_err().message(), "Duplicate reduction dimension -2");
        assert_eq!(
            run(&[3], false).unwrap_err().message(),
            "Invalid reduction dimension 3 for input with 2 dimension(s)"
        );
        let axes = [(1, Tensor::from_slice(Shape::vector(1), &[1i32]).unwrap())];
        assert_eq!(infer(&registry, "ReduceJoin", &[], "[?,3];[1]", &axes).unwrap(), "[?]");
    }

    use tfcore_tensor::Tensor;
}
