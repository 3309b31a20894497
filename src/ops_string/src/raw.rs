//! `DecodeRaw` and `DecodePaddedRaw`: strings as the bytes of numbers.

use tfcore_base::{DType, Result, require};
use tfcore_framework::{InferenceContext, Kernel, KernelInit, Registry, kernel, shape_ops};
use tfcore_tensor::{Buffer, Dim, PartialShape, Shape, TString, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `DecodeRaw(bytes: string) -> output: out_type`, for strings of one length.
    r.op("DecodeRaw").shape(raw_shape).cpu(raw_kernel);
    // `DecodePaddedRaw(input_bytes: string, fixed_length: int32) -> output: out_type`: strings are cut off at or filled up with
    // zeros to a length in bytes.
    r.op("DecodePaddedRaw").shape(padded_shape).cpu(padded_kernel);
}

fn raw_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let last = PartialShape::vector(Dim::fresh());
    ctx.set_output(0, shape_ops::concatenate(ctx.input(0), &last));
    Ok(())
}

fn padded_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 0)?;
    let size = match ctx.operand_i64(1)? {
        None => Dim::fresh(),
        Some(len) => {
            let width = ctx.attrs.dtype("out_type")?.size() as i64;
            require!(
                len % width == 0,
                "fixed_length ({len}) must be a multiple of the size of out_type ({width})"
            );
            require!(len > 0, "fixed_length ({len}) must be greater than zero.");
            Dim::new(len / width)
        }
    };
    ctx.set_output(0, shape_ops::concatenate(ctx.input(0), &PartialShape::vector(size)));
    Ok(())
}

/// How the bytes of a dtype are put in the machine's order.
#[derive(Clone, Copy)]
struct Order {
    dtype: DType,
    /// The length of the groups of bytes that are turned around; 1 for none.
    swapped: usize,
}

impl Order {
    fn new(init: &KernelInit<'_>) -> Result<Order> {
        let dtype = init.attrs.dtype("out_type")?;
        let swapped = match init.attrs.bool("little_endian")? {
            true => 1,
            false if dtype.is_complex() => dtype.size() / 2,
            false => dtype.size(),
        };
        Ok(Order { dtype, swapped })
    }

    fn tensor(self, shape: Shape, mut bytes: Vec<u8>) -> Result<Tensor> {
        if self.swapped > 1 {
            bytes.chunks_exact_mut(self.swapped).for_each(<[u8]>::reverse);
        }
        Tensor::from_buffer(self.dtype, shape, Buffer::from_bytes(bytes.into()))
    }
}

fn with_last(shape: &Shape, last: usize) -> Result<Shape> {
    let mut dims = shape.dims().to_vec();
    dims.push(last as i64);
    Shape::new(&dims)
}

fn raw_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let order = Order::new(init)?;
    kernel(move |ctx| {
        let input = ctx.input(0)?;
        let texts = input.as_slice::<TString>()?;
        let len = texts.first().map_or(0, TString::len);
        for (index, text) in texts.iter().enumerate() {
            require!(
                text.len() == len,
                "DecodeRaw requires input strings to all be the same size, but element {index} has size {len} != {}",
                text.len()
            );
        }
        let width = order.dtype.size();
        require!(
            len.is_multiple_of(width),
            "Input to DecodeRaw has length {len} that is not a multiple of {width}, the size of {}",
            order.dtype
        );
        let shape = with_last(input.shape(), len / width)?;
        let bytes = texts.iter().flat_map(TString::as_bytes).copied().collect();
        ctx.set_output(0, order.tensor(shape, bytes)?);
        Ok(())
    })
}

fn padded_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let order = Order::new(init)?;
    kernel(move |ctx| {
        let (input, len) = (ctx.input(0)?, ctx.input(1)?);
        require!(len.rank() == 0, "fixed_length must be scalar, got shape {}", len.shape());
        let len = len.scalar_value::<i32>()?;
        let width = order.dtype.size();
        require!(
            len as i64 % width as i64 == 0,
            "fixed_length ({len}) must be a multiple of the size of out_type ({width})"
        );
        require!(len > 0, "fixed_length ({len}) must be greater than zero.");
        let len = usize::try_from(len).unwrap_or(0);
        let shape = with_last(input.shape(), len / width)?;
        let mut tensor = ctx.allocate_zeros(DType::UINT8, Shape::vector(shape.count() * width))?;
        let rows = tensor.as_mut_slice::<u8>()?.chunks_exact_mut(len);
        for (row, text) in rows.zip(input.as_slice::<TString>()?) {
            let text = text.as_bytes();
            let text = &text[..text.len().min(len)];
            row[..text.len()].copy_from_slice(text);
            if order.swapped > 1 {
                row.chunks_exact_mut(order.swapped).for_each(<[u8]>::reverse);
            }
        }
        ctx.set_output(0, tensor.bitcast(order.dtype, shape)?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op, tensor};

    #[test]
    fn bytes_become_numbers() {
        let registry = registry_of(register);
        let attrs = |dtype, little| {
            [("out_type", AttrValue::Type(dtype)), ("little_endian", AttrValue::Bool(little))]
        };
        let texts = |texts: &[&[u8]]| {
            let texts: Vec<TString> = texts.iter().map(|&text| text.into()).collect();
            tensor(&[texts.len() as i64], &texts)
        };
        let run = |op, attrs: &[(&str, AttrValue)], inputs: &[Tensor]| {
            run_op(&registry, op, attrs, inputs)
        };
        let input = texts(&[&[1, 0, 0, 2], &[0xff, 0xff, 3, 0]]);
        let out =
            run("DecodeRaw", &attrs(DType::INT16, true), std::slice::from_ref(&input)).unwrap();
        assert_eq!(out[0].as_slice::<i16>().unwrap(), [1, 512, -1, 3]);
        let out =
            run("DecodeRaw", &attrs(DType::INT16, false), std::slice::from_ref(&input)).unwrap();
        assert_eq!(out[0].as_slice::<i16>().unwrap(), [256, 2, -1, 768]);
        let out =
            run("DecodeRaw", &attrs(DType::BOOL, true), std::slice::from_ref(&input)).unwrap();
        assert_eq!(
            out[0].as_slice::<bool>().unwrap(),
            [true, false, false, true, true, true, true, false]
        );
        assert!(
            run("DecodeRaw", &attrs(DType::INT64, true), std::slice::from_ref(&input)).is_err()
        );
        let input = texts(&[b"", &[1, 0, 2, 0, 3], &[5]]);
        let len = Tensor::scalar(4i32);
        let out = run("DecodePaddedRaw", &attrs(DType::INT16, true), &[input.clone(), len.clone()])
            .unwrap();
        assert_eq!(out[0].as_slice::<i16>().unwrap(), [0, 0, 1, 2, 5, 0]);
        let out = run("DecodePaddedRaw", &attrs(DType::INT32, false), &[input, len]).unwrap();
        assert_eq!(out[0].as_slice::<i32>().unwrap(), [0, 0x0100_0200, 0x0500_0000]);
    }
}
