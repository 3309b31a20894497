//! `EncodeBase64` and `DecodeBase64`: with `-` and `_` for the last two digits, so that the result can be part of a URL.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::{OpContext, Registry, kernel, shape_fns};
use tfcore_tensor::TString;

use crate::each;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The value of each byte as a digit; 64 for those that are none.
const VALUES: [u8; 256] = {
    let mut values = [64; 256];
    let mut value = 0;
    while value < 64 {
        values[DIGITS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

pub(crate) fn register(r: &mut Registry) {
    // `EncodeBase64(input: string) -> output: string`; with attr `pad`, `=` makes the length a multiple of four.
    r.op("EncodeBase64").shape(shape_fns::unchanged).cpu(|init| {
        let pad = init.attrs.bool("pad")?;
        kernel(move |ctx| {
            each::map::<TString>(ctx, 100, |text, out| out.assign(&encode(text, pad)))
        })
    });
    // `DecodeBase64(input: string) -> output: string`, padded or not.
    r.op("DecodeBase64").shape(shape_fns::unchanged).compute(decode_all);
}

fn decode_all(ctx: &mut OpContext<'_>) -> Result<()> {
    let texts = ctx.input_slice::<TString>(0)?;
    ctx.try_produce(0, ctx.input(0)?.shape().clone(), |out| {
        for (out, text) in out.typed::<TString>().iter_mut().zip(texts) {
            out.assign(&decode(text.as_bytes())?);
        }
        Ok(())
    })
}

fn encode(bytes: &[u8], pad: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digit = |place: usize| DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
        text.extend((0..=group.len()).map(digit));
        if pad {
            text.extend(std::iter::repeat_n(b'=', 3 - group.len()));
        }
    }
    text
}

fn decode(text: &[u8]) -> Result<Vec<u8>> {
    // Padding is there for the last of whole groups of four.
    let text = match text {
        [rest @ .., b'=', b'='] | [rest @ .., b'='] if text.len().is_multiple_of(4) => rest,
        text => text,
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        require!(group.len() != 1, "Base64 string length cannot be 1 modulo 4.");
        let mut bits = 0u32;
        for place in 0..4 {
            let value = group.get(place).map_or(0, |&digit| VALUES[usize::from(digit)]);
            if value > 63 {
                return Err(invalid!("Invalid character found in base64."));
            }
            bits = bits << 6 | u32::from(value);
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..][..group.len() * 3 / 4]);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 4648, and both digits that make the alphabet safe for URLs.
    #[test]
    fn published_vectors() {
        let cases: [(&[u8], &str, &str); 8] = [
            (b"", "", ""),
            (b"f", "Zg==", "Zg"),
            (b"fo", "Zm8=", "Zm8"),
            (b"foo", "Zm9v", "Zm9v"),
            (b"foob", "Zm9vYg==", "Zm9vYg"),
            (b"fooba", "Zm9vYmE=", "Zm9vYmE"),
            (b"foobar", "Zm9vYmFy", "Zm9vYmFy"),
            (b"\xfb\xff", "-_8=", "-_8"),
        ];
        for (bytes, padded, bare) in cases {
            assert_eq!(encode(bytes, true), padded.as_bytes());
            assert_eq!(encode(bytes, false), bare.as_bytes());
            assert_eq!(decode(padded.as_bytes()).unwrap(), bytes);
            assert_eq!(decode(bare.as_bytes()).unwrap(), bytes);
        }
        assert_eq!(decode(b"YR").unwrap(), b"a");
        for text in ["Y", "YQ=", "YQ===", "Y+/=", "YW=I", "===="] {
            assert!(decode(text.as_bytes()).is_err(), "{text}");
        }
    }
}
