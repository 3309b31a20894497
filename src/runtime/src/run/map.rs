//! `MapDefun`: a function called for every row of some tensors.

use std::sync::Arc;

use tfcore_base::{Result, internal, invalid};
use tfcore_framework::{Outputs, Value};
use tfcore_plan::plan::Map;
use tfcore_tensor::{Shape, Tensor};

use crate::run::exec::{Exec, Inputs};
use crate::run::repeat::{Next, Repeat};

/// One execution of a map: the rows one after the other.
pub(crate) struct Rows {
    map: Arc<Map>,
    tensors: Vec<Tensor>,
    captured: Vec<Tensor>,
    count: usize,
    /// So many rows have been given to a call.
    called: usize,
    outputs: Vec<Option<Tensor>>,
}

impl Repeat for Rows {
    fn next(&mut self, results: Outputs, exec: Exec<'_>) -> Result<Next> {
        if let Some(index) = self.called.checked_sub(1) {
            self.put(index, results, exec)?;
        }
        if self.called == self.count {
            return self.end().map(Next::End);
        }
        let mut args = Inputs::new();
        for tensor in &self.tensors {
            args.push(Value::Tensor(row(tensor, self.called)?));
        }
        args.extend(self.captured.iter().cloned().map(Value::Tensor));
        self.called += 1;
        Ok(Next::Call(self.map.function.clone(), args))
    }
}

impl Rows {
    /// The calls for the rows of `inputs`.
    pub(crate) fn new(map: &Arc<Map>, inputs: Inputs) -> Result<Rows> {
        let mut tensors = Vec::with_capacity(inputs.len());
        for input in inputs {
            match input {
                Value::Tensor(tensor) => tensors.push(tensor),
                _ => return Err(internal!("An input is not a tensor")),
            }
        }
        let captured = tensors.split_off(map.num_mapped.min(tensors.len()));
        let count = row_count(&tensors)?;
        let outputs = vec![None; map.output_shapes.len()];
        Ok(Rows { map: map.clone(), tensors, captured, count, called: 0, outputs })
    }

    /// Stores what the call for a row has returned.
    fn put(&mut self, index: usize, results: Outputs, exec: Exec<'_>) -> Result<()> {
        if results.len() != self.outputs.len() {
            return Err(invalid!("The function must return {} values", self.outputs.len()));
        }
        let expected = &self.map.output_shapes;
        for ((output, result), expected) in self.outputs.iter_mut().zip(results).zip(expected) {
            let Value::Tensor(result) = result else {
                return Err(invalid!("The function returned a value that is no tensor"));
            };
            if !expected.admits(result.shape()) {
                return Err(invalid!(
                    "Mismatch in function retval shape, {}, and expected output shape, {expected}.",
                    result.shape()
                ));
            }
            put_row(output, self.count, index, &result, exec)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<Outputs> {
        let outputs = std::mem::take(&mut self.outputs);
        let outputs = outputs.into_iter().enumerate().map(|(index, output)| match output {
            Some(tensor) => Ok(Value::Tensor(tensor)),
            None => without_rows(&self.map, index).map(Value::Tensor),
        });
        outputs.collect()
    }
}

/// What an output is if there are no rows.
fn without_rows(map: &Map, index: usize) -> Result<Tensor> {
    let plan = map.function.known_plan();
    let dtype = plan.and_then(|plan| plan.result_dtypes.get(index).copied());
    let shape = map.output_shapes[index].to_shape();
    let (Some(dtype), Some(shape)) = (dtype, shape) else {
        return Err(invalid!("The shape of output {index} is not known without any rows"));
    };
    let dims = [&[0], shape.dims()].concat();
    Tensor::zeros(dtype, Shape::new(&dims)?)
}

/// How many rows the tensors have.
fn row_count(tensors: &[Tensor]) -> Result<usize> {
    if let Some(index) = tensors.iter().position(|tensor| tensor.rank() == 0) {
        return Err(invalid!(
            "All inputs must have rank at least 1. Input {index} has a rank of 0."
        ));
    }
    let count = tensors.first().map_or(0, |tensor| tensor.dim(0));
    if tensors.iter().any(|tensor| tensor.dim(0) != count) {
        return Err(invalid!("All inputs must have the same dimension 0."));
    }
    Ok(count)
}

/// Row `index` of a tensor: shared if it is aligned, else copied.
fn row(tensor: &Tensor, index: usize) -> Result<Tensor> {
    let shape = Shape::new(&tensor.shape().dims()[1..])?;
    if let Some(shared) = tensor.share_rows(index, 1) {
        return shared.with_shape(shape);
    }
    let len = shape.count();
    let mut copy = Tensor::zeros(tensor.dtype(), shape)?;
    copy.elems_mut()?.copy_from(tensor.elems().slice(index * len..(index + 1) * len));
    Ok(copy)
}

/// Stores a row of an output, which is made with its first row.
fn put_row(
    output: &mut Option<Tensor>,
    count: usize,
    index: usize,
    row: &Tensor,
    exec: Exec<'_>,
) -> Result<()> {
    if output.is_none() {
        let dims = [&[count as i64], row.shape().dims()].concat();
        let buffers = &exec.run.step.buffers;
        *output = Some(Tensor::allocate(row.dtype(), Shape::new(&dims)?, Some(buffers))?);
    }
    let output = output.as_mut().ok_or_else(|| internal!("No output"))?;
    if &output.shape().dims()[1..] != row.shape().dims() || output.dtype() != row.dtype() {
        return Err(invalid!("The rows of an output must all have the shape of the first"));
    }
    let len = row.count();
    let (_, rest) = output.elems_mut()?.split_at(index * len);
    rest.split_at(len).0.copy_from(row.elems());
    Ok(())
}
