//! Dimensions of data formats: `DataFormatDimMap`, `DataFormatVecPermute`.

use tfcore_base::{DType, Result, require};
use tfcore_framework::geometry::{StridedDim, StridedView};
use tfcore_framework::movement::copy_view;
use tfcore_framework::{InferenceContext, Kernel, KernelInit, Registry, kernel, shape_fns};

pub(crate) fn register(r: &mut Registry) {
    // `DataFormatDimMap(x: T; src_format, dst_format) -> y: T`: numbers of dimensions of the one format as those of the other.
    r.op("DataFormatDimMap").shape(shape_fns::unchanged).cpu(dim_map_kernel);
    // `DataFormatVecPermute(x: T; src_format, dst_format) -> y: T`: what belongs to the dimensions of the one format, an element
    // or a pair each, in the order of the other. Fewer are about the spatial dimensions.
    r.op("DataFormatVecPermute").shape(permute_shape).cpu(permute_kernel);
}

/// The formats of the attrs; each has the letters of the other.
fn formats(init: &KernelInit<'_>) -> Result<[Vec<u8>; 2]> {
    let (source, target) = (init.attrs.str("src_format")?, init.attrs.str("dst_format")?);
    for (name, attr, format) in
        [("Source", "src_format", source), ("Destination", "dst_format", target)]
    {
        require!(
            matches!(format.len(), 4 | 5),
            "{name} format must be of length 4 or 5, received {attr} = {format}"
        );
    }
    let sorted = |format: &str| {
        let mut letters = format.as_bytes().to_vec();
        letters.sort_unstable();
        letters
    };
    let letters = sorted(source);
    require!(
        letters == sorted(target) && letters.windows(2).all(|pair| pair[0] != pair[1]),
        "Destination and source format must determine a permutation, got {source} and {target}"
    );
    Ok([source.as_bytes().to_vec(), target.as_bytes().to_vec()])
}

/// For each letter of `of` its place in `within`.
fn places(of: &[u8], within: &[u8]) -> Vec<usize> {
    of.iter().filter_map(|letter| within.iter().position(|other| other == letter)).collect()
}

fn dim_map_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let [source, target] = formats(init)?;
    let places = places(&source, &target);
    kernel(move |ctx| {
        let dims = ctx.input(0)?;
        let rank = places.len() as i64;
        let mapped = dims.to_i64s()?.into_iter().map(|dim| places[dim.rem_euclid(rank) as usize]);
        ctx.produce(0, dims.shape().clone(), |out| {
            if out.dtype() == DType::INT32 {
                out.typed::<i32>().iter_mut().zip(mapped).for_each(|(out, dim)| *out = dim as i32);
            } else {
                out.typed::<i64>().iter_mut().zip(mapped).for_each(|(out, dim)| *out = dim as i64);
            }
        })
    })
}

fn permute_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    ctx.set_output(0, ctx.input(0).clone());
    Ok(())
}

fn permute_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let formats = formats(init)?;
    kernel(move |ctx| {
        let x = ctx.input(0)?;
        let shape = x.shape();
        require!(
            matches!(shape.rank(), 1 | 2),
            "input must be a vector or 2D tensor, but got shape {shape}"
        );
        let (count, all) = (shape.dim(0), formats[0].len());
        let spatial = all - 2;
        if shape.rank() == 1 {
            require!(
                count == spatial || count == all,
                "1D input must be of size {spatial} or {all}, but got shape {shape}"
            );
        } else {
            require!(
                count == spatial || count == all,
                "First dimension of 2D input must be of size {spatial} or {all}, but got shape {shape}"
            );
            require!(
                shape.dim(1) == 2,
                "Second dimension of 2D input must be of size 2, but got shape {shape}"
            );
        }
        let [source, target] = formats.clone().map(|mut format| {
            format.retain(|letter| count == all || b"DHW".contains(letter));
            format
        });
        require!(
            source.len() == count && target.len() == count,
            "Format specifier must contain H and W for 2D case"
        );
        let width = x.count() / count;
        // One view for each element of the result: there are five at most.
        let from = places(&target, &source);
        let elems = x.elems();
        ctx.produce(0, shape.clone(), |mut out| {
            for (place, from) in from.into_iter().enumerate() {
                let view = StridedView::new(from * width, [StridedDim { size: width, stride: 1 }]);
                let part = out.slice(place * width..(place + 1) * width);
                copy_view(ctx.parallel(), elems, &view, part);
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    fn attrs(source: &str, target: &str) -> [(&'static str, AttrValue); 3] {
        [
            int32(),
            ("src_format", AttrValue::string(source)),
            ("dst_format", AttrValue::string(target)),
        ]
    }

    #[test]
    fn dimensions_are_renamed() {
        let attrs = attrs("NHWC", "NCHW");
        let found = values::<i32>("DataFormatDimMap", &attrs, &[ints(&[0, 1, 2, 3, -1, -4])]);
        assert_eq!(found.unwrap().1, [0, 2, 3, 1, 1, 0]);
        let found = values::<i32>("DataFormatVecPermute", &attrs, &[ints(&[1, 2, 3, 4])]);
        assert_eq!(found.unwrap().1, [1, 4, 2, 3]);
        let pairs = tensor(&[4, 2], &[1, 2, 3, 4, 5, 6, 7, 8]);
        let found = values::<i32>("DataFormatVecPermute", &attrs, &[pairs]).unwrap();
        assert_eq!(found, (vec![4, 2], vec![1, 2, 7, 8, 3, 4, 5, 6]));
        assert_eq!(
            failure("DataFormatVecPermute", &attrs, &[ints(&[1])]),
            "1D input must be of size 2 or 4, but got shape [1]"
        );
    }

    #[test]
    fn spatial_dimensions_alone() {
        let found = values::<i32>("DataFormatVecPermute", &attrs("WHCN", "NHWC"), &[ints(&[1, 2])]);
        assert_eq!(found.unwrap().1, [2, 1]);
        let cases = [
            ("NHW", "NHWC", "Source format must be of length 4 or 5, received src_format = NHW"),
            (
                "NHWX",
                "NHWC",
                "Destination and source format must determine a permutation, got NHWX and NHWC",
            ),
            ("NXYC", "NCXY", "Format specifier must contain H and W for 2D case"),
        ];
        for (source, target, message) in cases {
            let attrs = attrs(source, target);
            assert_eq!(failure("DataFormatVecPermute", &attrs, &[ints(&[1, 2])]), message);
        }
    }
}
