//! `GenerateVocabRemapping`.

use std::collections::HashMap;

use tfcore_base::{Result, invalid, require, try_filled};
use tfcore_framework::{InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_tensor::{PartialShape, Shape, TString, Tensor};

use crate::args::{path, scalars};

pub(crate) fn register(r: &mut Registry) {
    // `GenerateVocabRemapping(new_vocab_file: string, old_vocab_file: string; new_vocab_offset, num_new_vocab,
    // old_vocab_size) -> (remapping: int64, num_present: int32)`: for lines of the new file the number of the same line in
    // the old one, -1 if there is none.
    r.op("GenerateVocabRemapping").shape(remapping_shape).cpu(remapping);
}

fn remapping_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    scalars(ctx, &[0, 1])?;
    let count = ctx.attrs.int("num_new_vocab")?;
    ctx.set_output(0, PartialShape::vector(count));
    ctx.set_output(1, PartialShape::scalar());
    Ok(())
}

/// The lines of a vocabulary.
fn lines(ctx: &OpContext<'_>, index: usize, name: &str) -> Result<Vec<Vec<u8>>> {
    let file = ctx.input(index)?;
    require!(file.rank() == 0, "{name} should be a single string, but got {}", file.shape());
    let content = ctx.step().files.read(path(&file.scalar_value::<TString>()?))?;
    let content = content.strip_suffix(b"\n").unwrap_or(&content);
    if content.is_empty() {
        return Ok(Vec::new());
    }
    Ok(content.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect())
}

fn remapping(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let offset = init.attrs.int("new_vocab_offset")?;
    let count = init.attrs.int("num_new_vocab")?;
    let old_size = init.attrs.int("old_vocab_size")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let new = lines(ctx, 0, "new_vocab_file")?;
        require!(
            offset.checked_add(count).is_some_and(|end| end <= new.len() as i64),
            "lookup table size must be larger than last new vocab entry's line"
        );
        let mut old = lines(ctx, 1, "old_vocab_file")?;
        if let Ok(size) = usize::try_from(old_size) {
            if size > old.len() {
                return Err(invalid!(
                    "Invalid vocab_size in the old vocabulary: expected {} but got {size}",
                    old.len()
                ));
            }
            old.truncate(size);
        }
        let mut numbers: HashMap<&[u8], i64> = HashMap::new();
        for (number, line) in (0..).zip(&old) {
            numbers.entry(line).or_insert(number);
        }
        let mut remapping = try_filled(-1i64, count as usize)?;
        let mut present = 0;
        for (target, line) in remapping.iter_mut().zip(&new[offset as usize..]) {
            if let Some(&number) = numbers.get(&line[..]) {
                *target = number;
                present += 1;
            }
        }
        ctx.set_output(0, Tensor::from_slice(Shape::vector(remapping.len()), &remapping)?);
        ctx.set_output(1, Tensor::scalar(present));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op_in, step};

    use super::*;

    #[test]
    fn lines_are_found_again() {
        let registry = registry_of(crate::register);
        let step = step();
        let text = |text: &str| Tensor::scalar(TString::from(text));
        for (name, content) in [("ram://new", "a\nb\nc\n"), ("ram://old", "c\na")] {
            run_op_in(&step, &registry, "WriteFile", &[], vec![text(name), text(content)]).unwrap();
        }
        let run = |offset: i64, count: i64, old: i64| {
            let attrs = [
                ("new_vocab_offset", AttrValue::Int(offset)),
                ("num_new_vocab", AttrValue::Int(count)),
                ("old_vocab_size", AttrValue::Int(old)),
            ];
            let inputs = vec![text("ram://new"), text("ram://old")];
            run_op_in(&step, &registry, "GenerateVocabRemapping", &attrs, inputs)
        };
        let out = run(0, 3, -1).unwrap();
        assert_eq!(out[0].as_slice::<i64>().unwrap(), [1, -1, 0]);
        assert_eq!(out[1].as_slice::<i32>().unwrap(), [2]);
        assert_eq!(run(1, 2, 1).unwrap()[0].as_slice::<i64>().unwrap(), [-1, 0]);
        assert!(run(1, 3, -1).is_err() && run(0, 1, 3).is_err());
    }
}
