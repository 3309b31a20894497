//! `LoadAndRemapMatrix`.

use std::collections::HashMap;

use tfcore_base::{DType, Result, invalid, require, unimplemented_error};
use tfcore_checkpoint::{BundleReader, Request, TensorSlice};
use tfcore_framework::{InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_tensor::{PartialShape, Shape};

use crate::args::{path, scalars, show, single};

pub(crate) fn register(r: &mut Registry) {
    // `LoadAndRemapMatrix(ckpt_path: string, old_tensor_name: string, row_remapping: int64, col_remapping: int64,
    // initializing_values: float) -> output_matrix: float`: a matrix of a checkpoint with rows and columns in another
    // order; negative numbers stand for new ones, which take the initializing values in turn.
    r.op("LoadAndRemapMatrix").shape(remap_shape).cpu(remap_kernel);
}

fn remap_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    scalars(ctx, &[1])?;
    let (rows, cols) = (ctx.attrs.int("num_rows")?, ctx.attrs.int("num_cols")?);
    ctx.set_output(0, PartialShape::from_i64s(&[rows, cols])?);
    Ok(())
}

/// The attrs of the op.
struct Remap {
    rows: i64,
    cols: i64,
    /// Rows that are read at a time; all of them if it is not positive.
    max_rows: i64,
}

fn remap_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let remap = Remap {
        rows: init.attrs.int("num_rows")?,
        cols: init.attrs.int("num_cols")?,
        max_rows: init.attrs.int("max_rows_in_memory")?,
    };
    kernel(move |ctx| remap.compute(ctx))
}

/// The new number of each old row or column.
fn invert(old_ids: &[i64]) -> Result<HashMap<i64, usize>> {
    let mut new_ids = HashMap::new();
    for (new, &old) in old_ids.iter().enumerate().filter(|(_, old)| **old >= 0) {
        if let Some(first) = new_ids.insert(old, new) {
            return Err(unimplemented_error!(
                "Old ID {old} is mapped to both new ID {first} and {new}, which is not supported."
            ));
        }
    }
    Ok(new_ids)
}

impl Remap {
    fn compute(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let (rows, cols) = (ctx.input(2)?, ctx.input(3)?);
        require!(
            rows.rank() == 1,
            "The `row_remapping` tensor must be 1-D, got a tensor of shape {}",
            rows.shape()
        );
        let rows = rows.as_slice::<i64>()?;
        require!(
            rows.len() as i64 == self.rows,
            "Size of row_remapping is {} instead of being equal to num_rows={}",
            rows.len(),
            self.rows
        );
        let new_rows = invert(rows)?;
        require!(
            cols.rank() == 1,
            "The `col_remapping` tensor must be 1-D, got a tensor of shape {}",
            cols.shape()
        );
        let cols = cols.as_slice::<i64>()?;
        require!(
            cols.is_empty() || cols.len() as i64 == self.cols,
            "Provided col_remapping, but its size is {} instead of being equal to num_cols={}",
            cols.len(),
            self.cols
        );
        let new_cols = invert(cols)?;
        let prefix = ctx.input(0)?;
        let Some(prefix) = single(prefix) else {
            return Err(invalid!(
                "The `ckpt_path` tensor must have exactly one element, got tensor of shape {}",
                prefix.shape()
            ));
        };
        let name = ctx.input(1)?;
        let Some(name) = single(name) else {
            return Err(invalid!(
                "The `old_tensor_name` tensor must have exactly one element, got tensor of shape {}",
                name.shape()
            ));
        };
        let reader = BundleReader::open(&ctx.step().files, path(prefix))?;
        let (dtype, old) = reader.dtype_and_shape(name.as_bytes())?;
        let shown = show(name);
        require!(
            dtype == DType::FLOAT,
            "Tensor {shown} has invalid type {dtype} instead of expected type float"
        );
        require!(
            old.rank() == 2,
            "Tensor {shown} has shape {old} of invalid rank {} instead of expected shape of rank 2.",
            old.rank()
        );
        require!(
            !cols.is_empty() || old.dims()[1] == self.cols,
            "Tensor {shown} has shape {old}, where the size of its 2nd dimension is {} instead of being equal \
             to num_cols={}",
            old.dims()[1],
            self.cols
        );
        let mut out = ctx.allocate_zeros(DType::FLOAT, Shape::new(&[self.rows, self.cols])?)?;
        let matrix = out.as_mut_slice::<f32>()?;
        let width = self.cols as usize;
        let (first, last) = (new_rows.keys().min().copied(), new_rows.keys().max().copied());
        let mut start = first.unwrap_or(0);
        let end = last.map_or(0, |last| last.saturating_add(1));
        while start < end {
            let left = end - start;
            let len = if self.max_rows <= 0 { left } else { left.min(self.max_rows) };
            let slice = TensorSlice::parse(&format!("{start},{len}:-"))?;
            slice.shape_of(&old)?;
            let request = Request { key: name.as_bytes(), slice: Some(slice) };
            let part = reader.read_all(&[request], ctx.parallel())?;
            let part = part[0].as_slice::<f32>()?;
            for (old_row, values) in (start..).zip(part.chunks_exact(old.dim(1).max(1))) {
                let Some(&new_row) = new_rows.get(&old_row) else { continue };
                let target = &mut matrix[new_row * width..(new_row + 1) * width];
                if cols.is_empty() {
                    target.copy_from_slice(values);
                }
                for (&old_col, &new_col) in &new_cols {
                    if let Some(&value) = values.get(old_col as usize) {
                        target[new_col] = value;
                    }
                }
            }
            start += len;
        }
        let initial = ctx.input(4)?.as_slice::<f32>()?;
        let mut unused = initial.iter();
        for (row, old_row) in rows.iter().enumerate() {
            for col in 0..width {
                if *old_row >= 0 && cols.get(col).is_none_or(|old| *old >= 0) {
                    continue;
                }
                matrix[row * width + col] = *unused.next().ok_or_else(|| {
                    invalid!(
                        "initializing_values contained {} elements, but more missing values remain.",
                        initial.len()
                    )
                })?;
            }
        }
        require!(
            unused.len() == 0,
            "initializing_values contained {} elements, but only {} elements were used to fill in missing values.",
            initial.len(),
            initial.len() - unused.len()
        );
        ctx.set_output(0, out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tfcore_framework::testing::{floats, registry_of, run_op_in, step, tensor};
    use tfcore_framework::{AttrList, AttrValue};
    use tfcore_tensor::{TString, Tensor};

    use super::*;

    fn types(dtypes: &[DType]) -> AttrValue {
        AttrValue::List(AttrList::Type(dtypes.to_vec()).into())
    }

    #[test]
    fn rows_and_columns_change_places() {
        let registry = registry_of(crate::register);
        let step = step();
        let prefix = Tensor::scalar(TString::from("ram://remap/ckpt"));
        let old = floats(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let texts = |text: &str| tensor(&[1], &[TString::from(text)]);
        let inputs = vec![prefix.clone(), texts("m"), texts(""), old];
        let dtypes = [("dtypes", types(&[DType::FLOAT]))];
        run_op_in(&step, &registry, "SaveV2", &dtypes, inputs).unwrap();
        let run = |rows: &[i64], cols: &[i64], initial: &[f32], num_cols: i64, max_rows: i64| {
            let attrs = [
                ("num_rows", AttrValue::Int(rows.len() as i64)),
                ("num_cols", AttrValue::Int(num_cols)),
                ("max_rows_in_memory", AttrValue::Int(max_rows)),
            ];
            let inputs = vec![
                prefix.clone(),
                Tensor::scalar(TString::from("m")),
                tensor(&[rows.len() as i64], rows),
                tensor(&[cols.len() as i64], cols),
                floats(&[initial.len() as i64], initial),
            ];
            run_op_in(&step, &registry, "LoadAndRemapMatrix", &attrs, inputs)
        };
        for max_rows in [-1, 1, 2] {
            let out = run(&[2, -1, 0], &[], &[7.0, 8.0], 2, max_rows).unwrap();
            assert_eq!(out[0].as_slice::<f32>().unwrap(), [5.0, 6.0, 7.0, 8.0, 1.0, 2.0]);
            let out = run(&[1, 2], &[1, -1, 0], &[7.0, 8.0], 3, max_rows).unwrap();
            assert_eq!(out[0].as_slice::<f32>().unwrap(), [4.0, 7.0, 3.0, 6.0, 8.0, 5.0]);
        }
        for (rows, cols, initial, num_cols, part) in [
            (&[0i64, 0][..], &[][..], &[][..], 2, "Old ID 0 is mapped to both new ID 0 and 1"),
            (&[0, 9], &[], &[], 2, "Extent in dimension 0 out of bounds: shape = [3,2]"),
            (&[-1], &[], &[1.0], 2, "contained 1 elements, but more missing values remain."),
            (&[0], &[], &[1.0], 2, "but only 0 elements were used"),
            (&[0], &[0], &[], 2, "Provided col_remapping, but its size is 1"),
            (&[0], &[], &[], 3, "the size of its 2nd dimension is 2"),
        ] {
            let error = run(rows, cols, initial, num_cols, -1).unwrap_err();
            assert!(error.message().contains(part), "{error}");
        }
    }
}
