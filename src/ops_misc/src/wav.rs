//! Sound files: `DecodeWav` and `EncodeWav`, 16 bits for each sample.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, TString, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `DecodeWav(contents: string; desired_channels, desired_samples) -> (audio: float, sample_rate: int32)`: `audio` has
    // `[samples, channels]`, in [-1, 1).
    r.op("DecodeWav").shape(decode_shape).cpu(decode);
    // `EncodeWav(audio: float, sample_rate: int32) -> contents: string`.
    r.op("EncodeWav")
        .shape(|ctx| {
            shape_ops::with_rank(ctx.input(0), 2)?;
            shape_ops::with_rank(ctx.input(1), 0)?;
            ctx.set_output(0, PartialShape::scalar());
            Ok(())
        })
        .compute(encode_wav);
}

fn decode_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 0)?;
    let dim = |size: i64, name: &str| match size {
        -1 => Ok(Dim::fresh()),
        0.. => Ok(Dim::new(size)),
        _ => Err(invalid!("{name} must be non-negative, got {size}")),
    };
    let channels = dim(ctx.attrs.int("desired_channels")?, "channels")?;
    let samples = dim(ctx.attrs.int("desired_samples")?, "samples")?;
    ctx.set_output(0, PartialShape::matrix(samples, channels));
    ctx.set_output(1, PartialShape::scalar());
    Ok(())
}

fn decode(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let channels = init.attrs.int("desired_channels")?;
    let samples = init.attrs.int("desired_samples")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let contents = ctx.input(0)?;
        require!(contents.rank() == 0, "contents must be scalar, got shape {}", contents.shape());
        let contents = contents.scalar_value::<TString>()?;
        let sound = Sound::parse(contents.as_bytes())?;
        let wanted = |desired: i64, found: usize| if desired < 0 { found as i64 } else { desired };
        let shape =
            Shape::new(&[wanted(samples, sound.samples()), wanted(channels, sound.channels)])?;
        let width = shape.dim(1);
        ctx.produce(0, shape, |out| {
            for (index, out) in out.typed::<f32>().iter_mut().enumerate() {
                // Channels beyond the last one repeat it, samples beyond the end are silence.
                *out = sound.sample(index / width, (index % width).min(sound.channels - 1));
            }
        })?;
        ctx.set_output(1, Tensor::scalar(sound.rate as i32));
        Ok(())
    })
}

/// The content of a sound file.
struct Sound<'a> {
    channels: usize,
    rate: u32,
    /// Little-endian words of 16 bits, channel by channel.
    data: &'a [u8],
}

/// What is left of a file.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(len)
            .ok_or_else(|| invalid!("Data too short when trying to read {what}"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn tag(&mut self) -> Result<&'a [u8]> {
        self.take(4, "string")
    }

    fn expect(&mut self, tag: &str) -> Result<()> {
        let found = self.tag()?;
        require!(
            found == tag.as_bytes(),
            "Header mismatch: Expected {tag} but found {}",
            String::from_utf8_lossy(found)
        );
        Ok(())
    }

    fn u16(&mut self) -> Result<u16> {
        let bytes = self.take(2, "value")?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4, "value")?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }
}

impl<'a> Sound<'a> {
    /// # Errors
    /// `InvalidArgument` for other files and damaged ones.
    fn parse(bytes: &'a [u8]) -> Result<Sound<'a>> {
        let mut reader = Reader(bytes);
        reader.expect("RIFF")?;
        reader.u32()?;
        reader.expect("WAVE")?;
        let format_tag = reader.tag()?;
        require!(format_tag == b"fmt ", "Unexpected field {}", String::from_utf8_lossy(format_tag));
        let format_len = reader.u32()?;
        require!(
            matches!(format_len, 16 | 18),
            "Bad format chunk size for WAV: Expected 16 or 18, but got{format_len}"
        );
        let format = reader.u16()?;
        require!(format == 1, "Bad audio format for WAV: Expected 1 (PCM), but got{format}");
        let channels = usize::from(reader.u16()?);
        require!(
            channels > 0,
            "Bad number of channels for WAV: Expected at least 1, but got {channels}"
        );
        let rate = reader.u32()?;
        let bytes_per_second = reader.u32()?;
        let bytes_per_sample = reader.u16()?;
        let bits = reader.u16()?;
        require!(bits == 16, "Can only read 16-bit WAV files, but received {bits}");
        let expected = 2 * channels;
        require!(
            usize::from(bytes_per_sample) == expected,
            "Bad bytes per sample in WAV header: Expected {expected} but got {bytes_per_sample}"
        );
        let expected = u64::from(rate) * expected as u64;
        require!(
            u64::from(bytes_per_second) == expected,
            "Bad bytes per second in WAV header: Expected {expected} but got {bytes_per_second} (sample_rate={rate}, \
             bytes_per_sample={bytes_per_sample})"
        );
        if format_len == 18 {
            reader.u16()?;
        }
        let mut data = None;
        while !reader.0.is_empty() {
            let tag = reader.tag()?;
            let len = reader.u32()?;
            require!(
                len <= i32::MAX as u32,
                "WAV data chunk '{}' is too large: {len} bytes, but the limit is {}",
                String::from_utf8_lossy(tag),
                i32::MAX
            );
            if tag == b"data" {
                require!(data.is_none(), "More than one data chunk found in WAV");
                let whole = len as usize / (2 * channels) * (2 * channels);
                data = Some(reader.take(whole, "value")?);
            } else {
                reader.0 = reader.0.get(len as usize..).unwrap_or(&[]);
            }
        }
        let data = data.ok_or_else(|| invalid!("No data chunk found in WAV"))?;
        Ok(Sound { channels, rate, data })
    }

    fn samples(&self) -> usize {
        self.data.len() / (2 * self.channels)
    }

    /// A sample in [-1, 1); silence beyond the end.
    fn sample(&self, index: usize, channel: usize) -> f32 {
        let at = (index * self.channels + channel) * 2;
        match self.data.get(at..at + 2) {
            Some(bytes) => f32::from(i16::from_le_bytes([bytes[0], bytes[1]])) / 32768.0,
            None => 0.0,
        }
    }
}

/// A sound file of interleaved samples.
///
/// # Errors
/// `InvalidArgument` for a sound that a file cannot hold.
pub(crate) fn encode(audio: &[f32], channels: usize, rate: i64) -> Result<Vec<u8>> {
    require!((1..1 << 32).contains(&rate), "sample_rate must be in (0, 2^32), got: {rate}");
    require!(
        (1..1 << 16).contains(&channels),
        "num_channels must be in (0, 2^16), got: {channels}"
    );
    let data_len = audio.len() as u64 * 2;
    let bytes_per_second = rate as u64 * channels as u64 * 2;
    let too_large = || invalid!("Provided channels and samples do not fit in a WAV file");
    let file_len = u32::try_from(data_len + 36).map_err(|_| too_large())?;
    let bytes_per_second = u32::try_from(bytes_per_second).map_err(|_| too_large())?;
    let mut bytes = Vec::with_capacity(audio.len() * 2 + 44);
    bytes.extend(b"RIFF");
    bytes.extend(file_len.to_le_bytes());
    bytes.extend(b"WAVEfmt ");
    bytes.extend(16u32.to_le_bytes());
    bytes.extend(1u16.to_le_bytes());
    bytes.extend((channels as u16).to_le_bytes());
    bytes.extend((rate as u32).to_le_bytes());
    bytes.extend(bytes_per_second.to_le_bytes());
    bytes.extend((channels as u32 * 2).to_le_bytes()[..2].iter());
    bytes.extend(16u16.to_le_bytes());
    bytes.extend(b"data");
    bytes.extend((data_len as u32).to_le_bytes());
    for value in audio {
        // Casts from floats stop at the bounds.
        bytes.extend(((value * 32768.0).round() as i16).to_le_bytes());
    }
    Ok(bytes)
}

fn encode_wav(ctx: &mut OpContext<'_>) -> Result<()> {
    let (audio, rate) = (ctx.input(0)?, ctx.input(1)?);
    require!(audio.rank() == 2, "audio must be 2-dimensional{}", audio.shape());
    require!(
        rate.rank() == 0,
        "Input sample_rate should be a scalar tensor, got {} instead.",
        rate.shape()
    );
    let rate = rate.scalar_value::<i32>()?;
    let bytes = encode(audio.as_slice()?, audio.dim(1), rate.into())?;
    ctx.set_output(0, Tensor::scalar(TString::from(&bytes[..])));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sounds_come_back() {
        let bytes = encode(&[0.5, -0.25, 2.0, -2.0], 2, 8000).unwrap();
        let sound = Sound::parse(&bytes).unwrap();
        assert_eq!((sound.channels, sound.rate, sound.samples()), (2, 8000, 2));
        let samples = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)].map(|(i, c)| sound.sample(i, c));
        assert_eq!(samples, [0.5, -0.25, 32767.0 / 32768.0, -1.0, 0.0]);
    }

    #[test]
    fn damaged_files_are_errors() {
        let bytes = encode(&[0.5, -0.25, 2.0, -2.0], 2, 8000).unwrap();
        for len in 0..bytes.len() {
            assert!(Sound::parse(&bytes[..len]).is_err(), "{len}");
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                if let Ok(sound) = Sound::parse(&damaged) {
                    sound.sample(sound.samples(), sound.channels - 1);
                }
            }
        }
    }
}
