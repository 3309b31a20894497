//! Strings and numbers as buckets, and fingerprints.

use tfcore_base::{DType, Elem, Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_math::hash::{fingerprint64, murmur64, sip_hash};
use tfcore_tensor::{Dim, PartialShape, Shape, TString, Tensor};

use crate::each;

pub(crate) fn register(r: &mut Registry) {
    // `StringToHashBucket(string_tensor: string) -> output: int64`, a hash modulo attr `num_buckets`.
    r.op("StringToHashBucket").shape(shape_fns::unchanged).cpu(|init| buckets(init, murmur64));
    // `StringToHashBucketFast(input: string) -> output: int64`.
    r.op("StringToHashBucketFast")
        .shape(shape_fns::unchanged)
        .cpu(|init| buckets(init, fingerprint64));
    // `StringToHashBucketStrong(input: string) -> output: int64`, by a secret key of two numbers.
    r.op("StringToHashBucketStrong").shape(shape_fns::unchanged).cpu(|init| {
        let [a, b] = *init.attrs.ints("key")? else {
            return Err(invalid!("Key must have 2 elements"));
        };
        let key = [a as u64, b as u64];
        buckets(init, move |text| sip_hash(key, text))
    });
    // `_TensorToHashBucketFast(input: T) -> output: int64`: of the digits of integers.
    r.op("_TensorToHashBucketFast").shape(shape_fns::unchanged).cpu(number_buckets);
    // `Fingerprint(data: T, method: string) -> fingerprint: uint8`, 8 bytes for each row.
    r.op("Fingerprint").shape(fingerprint_shape).compute(fingerprint);
}

fn num_buckets(init: &KernelInit<'_>) -> Result<u64> {
    let count = init.attrs.int("num_buckets")?;
    u64::try_from(count)
        .ok()
        .filter(|&count| count > 0)
        .ok_or_else(|| invalid!("num_buckets must be positive, got {count}"))
}

fn buckets(
    init: &KernelInit<'_>,
    hash: impl Fn(&[u8]) -> u64 + Send + Sync + 'static,
) -> Result<Box<dyn Kernel>> {
    let count = num_buckets(init)?;
    kernel(move |ctx| each::map::<i64>(ctx, 20, |text, out| *out = (hash(text) % count) as i64))
}

fn number_buckets(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let count = num_buckets(init)?;
    kernel(move |ctx| {
        let input = ctx.input(0)?;
        ctx.try_produce(0, input.shape().clone(), |out| {
            let out = out.typed();
            match input.dtype() {
                DType::UINT64 => digits::<u64>(input, out, count),
                DType::INT64 => digits::<i64>(input, out, count),
                _ => {
                    let wide = input.to_i64s()?;
                    fill(wide.iter(), out, count);
                    Ok(())
                }
            }
        })
    })
}

fn digits<T: Elem + ToString>(input: &Tensor, out: &mut [i64], count: u64) -> Result<()> {
    fill(input.as_slice::<T>()?.iter(), out, count);
    Ok(())
}

fn fill<'n, T: ToString + 'n>(numbers: impl Iterator<Item = &'n T>, out: &mut [i64], count: u64) {
    for (out, number) in out.iter_mut().zip(numbers) {
        *out = (fingerprint64(number.to_string().as_bytes()) % count) as i64;
    }
}

fn fingerprint_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    shape_ops::with_rank(ctx.input(1), 0)?;
    // The length is that of the method, which is known only if the input is constant.
    let size = match ctx.operand(1) {
        Some(method) => {
            let method = method.scalar_value::<TString>()?;
            require!(
                method.as_bytes() == b"farmhash64",
                "Unsupported method: {}",
                String::from_utf8_lossy(method.as_bytes())
            );
            Dim::new(8)
        }
        None => Dim::fresh(),
    };
    let rows = ctx.input(0).dims().map_or_else(Dim::fresh, |dims| dims[0]);
    ctx.set_output(0, PartialShape::matrix(rows, size));
    Ok(())
}

fn fingerprint(ctx: &mut OpContext<'_>) -> Result<()> {
    let (data, method) = (ctx.input(0)?, ctx.input(1)?);
    require!(method.rank() == 0, "`method` should be a scalar string: {}", method.shape());
    let method = method.scalar_value::<TString>()?;
    require!(
        method.as_bytes() == b"farmhash64",
        "Unsupported fingerprint method: {}",
        String::from_utf8_lossy(method.as_bytes())
    );
    require!(data.rank() >= 1, "`data` should have at least one dimension: {}", data.shape());
    let rows = data.dim(0);
    let row_len = data.count().checked_div(rows).unwrap_or(0);
    ctx.try_produce(0, Shape::new(&[rows as i64, 8])?, |out| {
        let out = out.typed::<u8>().as_chunks_mut::<8>().0;
        if data.dtype() == DType::STRING {
            // The fingerprint of a row of strings is that of their fingerprints.
            let texts = data.as_slice::<TString>()?;
            let of_text = |text: &TString| fingerprint64(text.as_bytes()).to_le_bytes();
            for (row, out) in out.iter_mut().enumerate() {
                *out = match &texts[row * row_len..(row + 1) * row_len] {
                    [text] if data.rank() == 1 || row_len == 1 => of_text(text),
                    texts => {
                        let bytes: Vec<u8> = texts.iter().flat_map(of_text).collect();
                        fingerprint64(&bytes).to_le_bytes()
                    }
                };
            }
            return Ok(());
        }
        require!(data.dtype().is_plain(), "Fingerprints of type {} are not known", data.dtype());
        let bytes = data.elems().bytes();
        let row_bytes = row_len * data.dtype().size();
        for (row, out) in out.iter_mut().enumerate() {
            let row = &bytes[row * row_bytes..(row + 1) * row_bytes];
            *out = fingerprint64(row).to_le_bytes();
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, run_op, tensor};

    #[test]
    fn buckets_of_strings_and_numbers() {
        let registry = registry_of(register);
        let attrs = [("num_buckets", AttrValue::Int(3))];
        // The example in the documentation of the op.
        let texts = ["Hello", "TensorFlow", "2.x"].map(TString::from);
        let out = run_op(&registry, "StringToHashBucketFast", &attrs, &[tensor(&[3], &texts)]);
        assert_eq!(out.unwrap()[0].as_slice::<i64>().unwrap(), [0, 2, 2]);
        // A number has the bucket of its digits.
        let texts = ["-12", "7"].map(TString::from);
        let attrs =
            [("num_buckets", AttrValue::Int(1 << 40)), ("T", AttrValue::Type(DType::INT16))];
        let of_texts =
            run_op(&registry, "StringToHashBucketFast", &attrs[..1], &[tensor(&[2], &texts)])
                .unwrap();
        let of_numbers =
            run_op(&registry, "_TensorToHashBucketFast", &attrs, &[tensor(&[2], &[-12i16, 7])])
                .unwrap();
        assert_eq!(
            of_texts[0].as_slice::<i64>().unwrap(),
            of_numbers[0].as_slice::<i64>().unwrap()
        );
    }

    #[test]
    fn fingerprints_of_rows() {
        let registry = registry_of(register);
        let method = tensor(&[], &[TString::from("farmhash64")]);
        let attrs = [("T", AttrValue::Type(DType::UINT8))];
        let out =
            run_op(&registry, "Fingerprint", &attrs, &[tensor(&[2, 0], &[0u8; 0]), method.clone()])
                .unwrap();
        // FarmHash's constant for no bytes.
        let empty = 0x9ae1_6a3b_2f90_404f_u64.to_le_bytes();
        assert_eq!(out[0].as_slice::<u8>().unwrap(), [empty, empty].concat());
        assert_eq!(
            infer(&registry, "Fingerprint", &attrs, "[2,?];[]", &[(1, method)]).unwrap(),
            "[2,8]"
        );
        assert_eq!(infer(&registry, "Fingerprint", &attrs, "?;[]", &[]).unwrap(), "[?,?]");
    }
}
