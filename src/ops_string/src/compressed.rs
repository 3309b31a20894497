//! `DecodeCompressed`: the formats of zlib, gzip and Zstandard.

use std::io::Read;

use flate2::{Crc, Decompress, FlushDecompress, Status};
use tfcore_base::{Result, data_loss, internal, invalid};
use tfcore_framework::{Kernel, KernelInit, Registry, kernel, shape_fns};
use tfcore_tensor::TString;

pub(crate) fn register(r: &mut Registry) {
    // `DecodeCompressed(bytes: string) -> output: string`, of attr `compression_type`.
    r.op("DecodeCompressed").shape(shape_fns::unknown).cpu(decode_kernel);
}

fn decode_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let decode: fn(&[u8]) -> Result<Vec<u8>> = match init.attrs.bytes("compression_type")? {
        b"ZLIB" => zlib,
        b"GZIP" => gzip,
        b"ZSTD" => zstandard,
        b"" => |bytes| Ok(bytes.to_vec()),
        _ => {
            return Err(invalid!("Only ZLIB, ZSTD, GZIP or NONE are supported compressions"));
        }
    };
    kernel(move |ctx| {
        let texts = ctx.input_slice::<TString>(0)?;
        ctx.try_produce(0, ctx.input(0)?.shape().clone(), |out| {
            for (out, text) in out.typed::<TString>().iter_mut().zip(texts) {
                out.assign(&decode(text.as_bytes())?);
            }
            Ok(())
        })
    })
}

#[cold]
fn corrupt(problem: &str) -> tfcore_base::Error {
    data_loss!("inflate() failed with error -3: {problem}")
}

/// Inflates what `bytes` begin with. Returns how many bytes were read if the data has an end.
fn inflate(bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>> {
    let mut decoder = Decompress::new(false);
    loop {
        let read = decoder.total_in() as usize;
        out.try_reserve((bytes.len() - read).max(64) * 2)
            .map_err(|_| tfcore_base::resource_exhausted!("No memory for decompressed bytes"))?;
        let before = (decoder.total_in(), decoder.total_out());
        let status = decoder.decompress_vec(&bytes[read..], out, FlushDecompress::None);
        match status.map_err(|_| corrupt("invalid block type"))? {
            Status::StreamEnd => return Ok(Some(decoder.total_in() as usize)),
            // Data that ends too early counts as far as it goes.
            _ if before == (decoder.total_in(), decoder.total_out()) => return Ok(None),
            _ => {}
        }
    }
}

/// zlib's format, RFC 1950. What follows it is not looked at.
fn zlib(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let Some((&[method, flags], rest)) = bytes.split_first_chunk::<2>() else {
        return Ok(out);
    };
    if (u32::from(method) << 8 | u32::from(flags)) % 31 != 0 {
        return Err(corrupt("incorrect header check"));
    }
    if method & 15 != 8 {
        return Err(corrupt("unknown compression method"));
    }
    if method >> 4 > 7 {
        return Err(corrupt("invalid window size"));
    }
    if flags & 0x20 != 0 {
        return Err(data_loss!("inflate() failed with error 2: need dictionary"));
    }
    if let Some(len) = inflate(rest, &mut out)?
        && let Some((check, _)) = rest[len..].split_first_chunk::<4>()
        && u32::from_be_bytes(*check) != adler(&out)
    {
        return Err(corrupt("incorrect data check"));
    }
    Ok(out)
}

/// The check sum of zlib's format.
fn adler(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    // As many sums of bytes fit 32 bits.
    for part in bytes.chunks(5552) {
        for &byte in part {
            a += u32::from(byte);
            b += a;
        }
        (a, b) = (a % 65521, b % 65521);
    }
    b << 16 | a
}

/// gzip's format, RFC 1952: any number of members.
fn gzip(mut bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let Some(body) = gzip_body(bytes)? else {
            break;
        };
        let start = out.len();
        let Some(len) = inflate(body, &mut out)? else {
            break;
        };
        let Some((trailer, rest)) = body[len..].split_first_chunk::<8>() else {
            break;
        };
        let mut crc = Crc::new();
        crc.update(&out[start..]);
        if crc.sum().to_le_bytes() != trailer[..4] {
            return Err(corrupt("incorrect data check"));
        }
        if crc.amount().to_le_bytes() != trailer[4..] {
            return Err(corrupt("incorrect length check"));
        }
        bytes = rest;
    }
    Ok(out)
}

/// What follows the header of a member; `None` if the header has no end.
fn gzip_body(bytes: &[u8]) -> Result<Option<&[u8]>> {
    let magic = [0x1f, 0x8b];
    if bytes.len() >= 2 && bytes[..2] != magic {
        return Err(corrupt("incorrect header check"));
    }
    let Some((header, mut rest)) = bytes.split_first_chunk::<10>() else {
        return Ok(None);
    };
    let flags = header[3];
    if header[2] != 8 {
        return Err(corrupt("unknown compression method"));
    }
    if flags & 0xe0 != 0 {
        return Err(corrupt("unknown header flags set"));
    }
    let mut skip = |len: Option<usize>| match len.and_then(|len| rest.split_at_checked(len)) {
        Some((skipped, after)) => {
            rest = after;
            Some((skipped, after))
        }
        None => None,
    };
    let extra =
        |head: &[u8]| Some(usize::from(u16::from_le_bytes([*head.first()?, *head.get(1)?])));
    let mut parse = || {
        if flags & 4 != 0 {
            let len = skip(Some(2)).and_then(|(head, _)| extra(head));
            skip(Some(len?))?;
        }
        for flag in [8, 16] {
            if flags & flag != 0 {
                let (_, after) = skip(Some(0))?;
                skip(after.iter().position(|&byte| byte == 0).map(|at| at + 1))?;
            }
        }
        if flags & 2 != 0 {
            skip(Some(2))?;
        }
        skip(Some(0)).map(|(_, after)| after)
    };
    Ok(parse())
}

/// One frame of Zstandard's format, RFC 8878, that says how long its content is.
fn zstandard(bytes: &[u8]) -> Result<Vec<u8>> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let Some(size) = zstandard_size(bytes) else {
        return Err(invalid!("Failed to determine decompressed size"));
    };
    let failed = |error: &dyn std::fmt::Display| internal!("Failed to decompress: {error}");
    let mut source = bytes;
    let decoder = ruzstd::decoding::StreamingDecoder::new(&mut source).map_err(|e| failed(&e))?;
    let mut out = Vec::new();
    // The content is no longer than the frame says, whatever its blocks hold.
    decoder.take(size.saturating_add(1)).read_to_end(&mut out).map_err(|e| failed(&e))?;
    match out.len() as u64 == size {
        true => Ok(out),
        false => Err(internal!("Failed to decompress: the content is not {size} bytes long")),
    }
}

/// The size of the content as a frame's header has it.
fn zstandard_size(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(&0xfd2f_b528_u32.to_le_bytes())?;
    let (&descriptor, rest) = rest.split_first()?;
    let single_segment = descriptor & 0x20 != 0;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let rest = rest.get(usize::from(!single_segment) + dictionary..)?;
    let len = match descriptor >> 6 {
        0 if single_segment => 1,
        0 => return None,
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let mut size = [0; 8];
    size[..len].copy_from_slice(rest.get(..len)?);
    Some(u64::from_le_bytes(size) + if len == 2 { 256 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `abc` by Python's zlib and gzip.
    const ZLIB: &[u8] = b"x\x9cKLJ\x06\x00\x02M\x01'";
    const GZIP: &[u8] = b"\x1f\x8b\x08\x00\0\0\0\0\x02\xffKLJ\x06\x00\xc2A$5\x03\x00\x00\x00";

    #[test]
    fn formats() {
        assert_eq!(zlib(ZLIB).unwrap(), b"abc");
        assert_eq!(gzip(&[GZIP, GZIP].concat()).unwrap(), b"abcabc");
        // The frame of 3 raw bytes, written out by hand.
        let frame = b"\x28\xb5\x2f\xfd\x20\x03\x19\x00\x00abc";
        assert_eq!(zstandard(frame).unwrap(), b"abc");
        for end in 0..ZLIB.len() {
            assert!(zlib(&ZLIB[..end]).is_ok(), "{end}");
        }
        for end in 0..GZIP.len() {
            assert!(gzip(&GZIP[..end]).is_ok(), "{end}");
        }
        for end in 1..frame.len() {
            assert!(zstandard(&frame[..end]).is_err(), "{end}");
        }
        let message = |result: Result<Vec<u8>>| result.unwrap_err().message().to_string();
        let header = "inflate() failed with error -3: incorrect header check";
        assert_eq!(message(zlib(GZIP)), header);
        assert_eq!(message(gzip(ZLIB)), header);
        let mut damaged = ZLIB.to_vec();
        damaged[10] ^= 1;
        assert_eq!(message(zlib(&damaged)), "inflate() failed with error -3: incorrect data check");
        assert_eq!(message(zstandard(b"abc")), "Failed to determine decompressed size");
    }
}
