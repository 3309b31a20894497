//! Summaries as serialized messages, for TensorBoard.

use std::collections::HashSet;

use tfcore_base::{BFloat16, Elem, Half, LoopFor, Result, TypedLoop, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
    tensor_to_proto,
};
use tfcore_tensor::{Elems, PartialShape, TString, Tensor};

use crate::histogram;
use crate::wav;
use crate::wire::{Message, fields};

type Real = (f32, f64, Half, BFloat16, i8, i16, i32, i64, u8, u16, u32, u64);

pub(crate) fn register(r: &mut Registry) {
    // `ScalarSummary(tags: string, values: T) -> summary: string`.
    r.op("ScalarSummary").shape(shape_fns::scalar).typed::<ToDoubles, Real>("T", scalars);
    // `HistogramSummary(tag: string, values: T) -> summary: string`.
    r.op("HistogramSummary").shape(shape_fns::scalar).typed_kernel::<ToDoubles, Real>(
        "T",
        |init, convert| {
            let name = init.name.to_string();
            kernel(move |ctx| histogram_summary(ctx, convert, &name))
        },
    );
    // `MergeSummary(inputs: N * string) -> summary: string`.
    r.op("MergeSummary").shape(shape_fns::scalar).compute(merge);
    // `TensorSummary(tensor: T; description, labels, display_name) -> summary: string`.
    r.op("TensorSummary").shape(shape_fns::scalar).cpu(|init| {
        let name = init.name.to_string();
        kernel(move |ctx| {
            let mut value = Message::default();
            value.bytes(7, name.as_bytes());
            value.bytes_set(8, &proto(ctx.input(0)?));
            emit(ctx, &[value])
        })
    });
    // `TensorSummaryV2(tag: string, tensor: T, serialized_summary_metadata: string) -> summary: string`.
    r.op("TensorSummaryV2").shape(shape_fns::scalar).compute(|ctx| {
        let tag = ctx.input(0)?;
        require!(tag.rank() == 0, "tag must be scalar");
        let metadata = ctx.input(2)?;
        require!(metadata.rank() == 0, "serialized_summary_metadata must be scalar");
        let metadata = metadata.scalar_value::<TString>()?;
        require!(
            fields(metadata.as_bytes()).is_some(),
            "Could not parse serialized summary metadata"
        );
        let mut value = Message::default();
        value.bytes(1, tag.scalar_value::<TString>()?.as_bytes());
        value.bytes_set(8, &proto(ctx.input(1)?));
        value.bytes_set(9, metadata.as_bytes());
        emit(ctx, &[value])
    });
    // `AudioSummary(tag: string, tensor: float; sample_rate, max_outputs) -> summary: string`; `V2` has `sample_rate: float`
    // for an input.
    r.op("AudioSummary").shape(shape_fns::scalar).cpu(|init| {
        let rate = init.attrs.float("sample_rate")?;
        audio_summary(init, Some(rate))
    });
    r.op("AudioSummaryV2")
        .shape(|ctx: &mut InferenceContext<'_>| {
            shape_ops::with_rank(ctx.input(0), 0)?;
            shape_ops::with_rank(ctx.input(2), 0)?;
            ctx.set_output(0, PartialShape::scalar());
            Ok(())
        })
        .cpu(|init| audio_summary(init, None));
}

/// Sets the output to a summary of these values.
fn emit(ctx: &OpContext<'_>, values: &[Message]) -> Result<()> {
    let mut summary = Message::default();
    for value in values {
        summary.bytes_set(1, &value.0);
    }
    ctx.set_output(0, Tensor::scalar(TString::from(&summary.0[..])));
    Ok(())
}

fn proto(tensor: &Tensor) -> Vec<u8> {
    prost::Message::encode_to_vec(&tensor_to_proto(tensor))
}

struct ToDoubles;

impl TypedLoop for ToDoubles {
    type Loop = fn(Elems<'_>) -> Vec<f64>;
}

/// A number as a double.
trait AsDouble: Elem + Copy {
    fn double(self) -> f64;
}

macro_rules! doubles {
    ($($t:ty)*) => {$(
        impl AsDouble for $t {
            fn double(self) -> f64 {
                self as f64
            }
        }
    )*};
}
doubles!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);

impl AsDouble for Half {
    fn double(self) -> f64 {
        self.to_f64()
    }
}

impl AsDouble for BFloat16 {
    fn double(self) -> f64 {
        self.to_f64()
    }
}

impl<T: AsDouble> LoopFor<T> for ToDoubles {
    const LOOP: fn(Elems<'_>) -> Vec<f64> =
        |values| values.typed::<T>().iter().map(|value| value.double()).collect();
}

fn scalars(ctx: &mut OpContext<'_>, convert: fn(Elems<'_>) -> Vec<f64>) -> Result<()> {
    let (tags, values) = (ctx.input(0)?, ctx.input(1)?);
    let names = tags.as_slice::<TString>()?;
    if tags.shape() != values.shape() {
        let single = match names {
            [tag] => format!(" (tag '{}')", String::from_utf8_lossy(tag.as_bytes())),
            _ => String::new(),
        };
        return Err(invalid!(
            "tags and values are not the same shape: {} != {}{single}",
            tags.shape(),
            values.shape()
        ));
    }
    let messages: Vec<Message> = names
        .iter()
        .zip(convert(values.elems()))
        .map(|(tag, value)| {
            let mut message = Message::default();
            message.bytes(1, tag.as_bytes());
            message.float_set(2, value as f32);
            message
        })
        .collect();
    emit(ctx, &messages)
}

fn histogram_summary(
    ctx: &mut OpContext<'_>,
    convert: fn(Elems<'_>) -> Vec<f64>,
    name: &str,
) -> Result<()> {
    let tag = ctx.input(0)?;
    require!(tag.rank() == 0, "tags must be scalar");
    let values = convert(ctx.input(1)?.elems());
    for value in &values {
        require!(!value.is_nan(), "Nan in summary histogram for: {name}");
        require!(!value.is_infinite(), "Infinity in Histogram for: {name}");
    }
    let mut message = Message::default();
    message.bytes(1, tag.scalar_value::<TString>()?.as_bytes());
    message.bytes_set(5, &histogram::encode(values.into_iter()));
    emit(ctx, &[message])
}

fn merge(ctx: &mut OpContext<'_>) -> Result<()> {
    let mut merged = Message::default();
    let mut tags = HashSet::new();
    for index in 0..ctx.num_inputs() {
        for summary in ctx.input(index)?.as_slice::<TString>()? {
            let broken = || invalid!("Could not parse one of the summary inputs");
            for (number, value) in fields(summary.as_bytes()).ok_or_else(broken)? {
                if number != 1 {
                    continue;
                }
                let inner = fields(value).ok_or_else(broken)?;
                let tag = inner.iter().rev().find(|(number, _)| *number == 1);
                // Values without a tag need not be told apart.
                if let Some((_, tag)) = tag
                    && !tag.is_empty()
                    && !tags.insert(tag.to_vec())
                {
                    return Err(invalid!(
                        "Duplicate tag {} found in summary inputs",
                        String::from_utf8_lossy(tag)
                    ));
                }
                merged.bytes_set(1, value);
            }
        }
    }
    ctx.set_output(0, Tensor::scalar(TString::from(&merged.0[..])));
    Ok(())
}

fn audio_summary(init: &KernelInit<'_>, rate: Option<f32>) -> Result<Box<dyn Kernel>> {
    let limit = init.attrs.int("max_outputs")?;
    require!(limit > 0, "max_outputs must be > 0");
    kernel(move |ctx: &mut OpContext<'_>| {
        let (tag, tensor) = (ctx.input(0)?, ctx.input(1)?);
        require!(tag.rank() == 0, "Tag must be a scalar");
        require!(
            matches!(tensor.rank(), 2 | 3),
            "Tensor must be 3-D or 2-D, got: {}",
            tensor.shape()
        );
        let tag = tag.scalar_value::<TString>()?;
        let rate = match rate {
            Some(rate) => rate,
            None => {
                let rate = ctx.input(2)?;
                require!(rate.rank() == 0, "sample_rate must be a scalar");
                rate.scalar_value()?
            }
        };
        require!(rate > 0.0, "sample_rate must be > 0");
        let (batch, frames) = (tensor.dim(0), tensor.dim(1));
        let channels = if tensor.rank() == 3 { tensor.dim(2) } else { 1 };
        let sound_len = frames * channels;
        let values = tensor.as_slice::<f32>()?;
        let mut messages = Vec::new();
        for index in 0..batch.min(limit as usize) {
            let name = String::from_utf8_lossy(tag.as_bytes());
            let name =
                if limit > 1 { format!("{name}/audio/{index}") } else { format!("{name}/audio") };
            let sound = &values[index * sound_len..(index + 1) * sound_len];
            let encoded = wav::encode(sound, channels, rate.round() as i64)?;
            let mut audio = Message::default();
            audio.float(1, rate);
            audio.int(2, channels as i64);
            audio.int(3, frames as i64);
            audio.bytes(4, &encoded);
            audio.bytes(5, b"audio/wav");
            let mut message = Message::default();
            message.bytes(1, name.as_bytes());
            message.bytes_set(6, &audio.0);
            messages.push(message);
        }
        emit(ctx, &messages)
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op, tensor};

    use super::*;

    #[test]
    fn scalars_are_merged_unless_their_tags_are_the_same() {
        let registry = registry_of(register);
        let attrs = [("T", AttrValue::Type(DType::FLOAT))];
        let tags = tensor(&[2], &["a", "b"].map(TString::from));
        let values = floats(&[2], &[1.0, 2.0]);
        let summary = run_op(&registry, "ScalarSummary", &attrs, &[tags, values]).unwrap();
        let bytes = summary[0].scalar_value::<TString>().unwrap();
        assert_eq!(bytes.as_bytes(), b"\n\x08\n\x01a\x15\0\0\x80?\n\x08\n\x01b\x15\0\0\0@");
        let attrs = [("N", AttrValue::Int(1))];
        let merged = run_op(&registry, "MergeSummary", &attrs, &summary).unwrap();
        assert_eq!(merged[0].scalar_value::<TString>().unwrap(), bytes);
        let twice = [summary[0].clone(), summary[0].clone()];
        let error =
            run_op(&registry, "MergeSummary", &[("N", AttrValue::Int(2))], &twice).unwrap_err();
        assert_eq!(error.message(), "Duplicate tag a found in summary inputs");
    }
}
