//! `StringNGrams`.

use tfcore_base::{DType, Elem, Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, TString};

pub(crate) fn register(r: &mut Registry) {
    // `StringNGrams(data: string, data_splits: Tsplits) -> ngrams: string, ngrams_splits: Tsplits`: the runs of some numbers of
    // strings of each row of a ragged tensor, padded at both ends.
    r.op("StringNGrams").shape(ngrams_shape).cpu(ngrams_kernel);
}

fn ngrams_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 1)?;
    let splits = shape_ops::with_rank(ctx.input(1), 1)?;
    ctx.set_output(0, PartialShape::vector(Dim::fresh()));
    ctx.set_output(1, splits);
    Ok(())
}

/// The attrs of a node.
struct NGrams {
    separator: Vec<u8>,
    left: Vec<u8>,
    right: Vec<u8>,
    widths: Vec<usize>,
    /// The most strings that are padded at each end; as many as fit without one.
    pad: Option<usize>,
    preserve_short: bool,
}

fn ngrams_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let widths = attrs.ints("ngram_widths")?.iter().map(|&width| {
        usize::try_from(width)
            .ok()
            .filter(|&width| width > 0)
            .ok_or_else(|| invalid!("ngram_widths must contain positive values"))
    });
    let ngrams = NGrams {
        separator: attrs.bytes("separator")?.to_vec(),
        left: attrs.bytes("left_pad")?.to_vec(),
        right: attrs.bytes("right_pad")?.to_vec(),
        widths: widths.collect::<Result<_>>()?,
        pad: usize::try_from(attrs.int("pad_width")?).ok(),
        preserve_short: attrs.bool("preserve_short_sequences")?,
    };
    let wide = attrs.dtype("Tsplits")? == i64::DTYPE;
    kernel(move |ctx| match wide {
        true => ngrams.compute::<i64>(ctx),
        false => ngrams.compute::<i32>(ctx),
    })
}

impl NGrams {
    fn compute<S: Elem + Copy + TryFrom<usize>>(&self, ctx: &mut OpContext<'_>) -> Result<()>
    where
        i64: From<S>,
    {
        let data = ctx.input_slice::<TString>(0)?;
        let given = ctx.input_slice::<S>(1)?;
        let splits = checked_splits(given, data.len())?;
        if data.is_empty() || splits.is_empty() {
            // Without data, not even padding makes an ngram.
            ctx.set_output(0, ctx.allocate_zeros(DType::STRING, Shape::vector(data.len()))?);
            ctx.set_output(1, ctx.allocate_zeros(S::DTYPE, Shape::vector(given.len()))?);
            return Ok(());
        }
        let mut ends = Vec::with_capacity(splits.len());
        let mut total = 0usize;
        ends.push(0);
        for row in splits.windows(2) {
            total = total
                .checked_add(self.count(row[1] - row[0]))
                .filter(|&total| total < i32::MAX as usize * 8)
                .ok_or_else(|| invalid!("Too many ngrams"))?;
            ends.push(total);
        }
        let too_many = || invalid!("{total} ngrams do not fit the type of the splits");
        let out_splits = ends
            .iter()
            .map(|&end| S::try_from(end).map_err(|_| too_many()))
            .collect::<Result<Vec<S>>>()?;
        ctx.produce(0, Shape::vector(total), |out| {
            let mut out = out.typed::<TString>().iter_mut();
            let mut text = Vec::new();
            for row in splits.windows(2) {
                self.row(&data[row[0]..row[1]], &mut |width, padding| {
                    if let Some(out) = out.next() {
                        self.join(width, padding, &mut text);
                        out.assign(&text);
                    }
                });
            }
        })?;
        ctx.produce(1, Shape::vector(out_splits.len()), |out| {
            out.typed::<S>().copy_from_slice(&out_splits);
        })
    }

    /// The strings that are padded at each end for ngrams of a width.
    fn padding(&self, width: usize) -> usize {
        self.pad.map_or(width - 1, |pad| pad.min(width - 1))
    }

    /// True if a row of `len` strings has no ngram of any width, but becomes one as a whole.
    fn is_preserved(&self, len: usize, of_widths: usize) -> bool {
        self.preserve_short && of_widths == 0 && len > 0
    }

    fn count_of(&self, width: usize, len: usize) -> usize {
        (len.saturating_add(2 * self.padding(width)) + 1).saturating_sub(width)
    }

    fn count(&self, len: usize) -> usize {
        let count = self
            .widths
            .iter()
            .fold(0usize, |sum, &width| sum.saturating_add(self.count_of(width, len)));
        if self.is_preserved(len, count) { 1 } else { count }
    }

    /// Calls `each` with the strings of each ngram of a row, and how many paddings stand before and behind them.
    fn row<'t>(&self, row: &'t [TString], each: &mut dyn FnMut(&'t [TString], [usize; 2])) {
        let mut count = 0;
        for &width in &self.widths {
            let padding = self.padding(width);
            let of_width = self.count_of(width, row.len());
            count += of_width;
            for start in 0..of_width {
                let before = padding.saturating_sub(start).min(width);
                let first = start.saturating_sub(padding);
                let end = (start + width).saturating_sub(padding).min(row.len());
                let texts = row.get(first..end).unwrap_or_default();
                each(texts, [before, width - before - texts.len()]);
            }
        }
        if self.is_preserved(row.len(), count) {
            // The width is the row's with all the padding there can be.
            let padding = self.pad.unwrap_or(0);
            each(row, [padding, padding]);
        }
    }

    fn join(&self, texts: &[TString], padding: [usize; 2], out: &mut Vec<u8>) {
        out.clear();
        let left = std::iter::repeat_n(&*self.left, padding[0]);
        let right = std::iter::repeat_n(&*self.right, padding[1]);
        let texts = texts.iter().map(TString::as_bytes);
        for (index, text) in left.chain(texts).chain(right).enumerate() {
            if index > 0 {
                out.extend_from_slice(&self.separator);
            }
            out.extend_from_slice(text);
        }
    }
}

/// The splits as indices of the data.
fn checked_splits<S: Copy>(given: &[S], len: usize) -> Result<Vec<usize>>
where
    i64: From<S>,
{
    let mut splits = Vec::with_capacity(given.len());
    let Some(&first) = given.first() else {
        return Ok(splits);
    };
    let first = i64::from(first);
    require!(first == 0, "First split value must be 0, got {first}");
    let mut last = 0;
    for &split in given {
        let split = i64::from(split);
        let index = usize::try_from(split).ok().filter(|index| (last..=len).contains(index));
        last = index
            .ok_or_else(|| invalid!("Invalid split value {split}, must be in [{last}, {len}]"))?;
        splits.push(last);
    }
    require!(last == len, "Last split value must be data size. Expected {len}, got {last}");
    Ok(splits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ngrams(widths: &[usize], pad: Option<usize>, preserve_short: bool, row: &[&str]) -> String {
        let ngrams = NGrams {
            separator: b"|".to_vec(),
            left: b"L".to_vec(),
            right: b"R".to_vec(),
            widths: widths.to_vec(),
            pad,
            preserve_short,
        };
        let row: Vec<TString> = row.iter().map(|&text| text.into()).collect();
        let mut all = Vec::new();
        let mut text = Vec::new();
        ngrams.row(&row, &mut |texts, padding| {
            ngrams.join(texts, padding, &mut text);
            all.push(String::from_utf8(text.clone()).unwrap());
        });
        assert_eq!(all.len(), ngrams.count(row.len()));
        all.join(" ")
    }

    #[test]
    fn ngrams_of_a_row() {
        let abc = ["a", "b", "c"];
        assert_eq!(ngrams(&[1, 2], Some(0), false, &abc), "a b c a|b b|c");
        assert_eq!(ngrams(&[2], None, false, &abc), "L|a a|b b|c c|R");
        assert_eq!(ngrams(&[3], None, false, &["a"]), "L|L|a L|a|R a|R|R");
        assert_eq!(ngrams(&[3], Some(1), false, &abc), "L|a|b a|b|c b|c|R");
        assert_eq!(ngrams(&[2, 3], None, false, &[]), "L|R L|L|R L|R|R");
        assert_eq!(ngrams(&[5], Some(0), false, &abc), "");
        assert_eq!(ngrams(&[5], Some(0), true, &abc), "a|b|c");
    }
}
