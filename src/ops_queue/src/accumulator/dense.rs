//! Sums of tensors.

use tfcore_base::{Result, internal, invalid};
use tfcore_tensor::{PartialShape, Tensor};

use super::arithmetic::Loops;

/// A sum of tensors of one shape; nothing before the first.
#[derive(Default)]
pub(crate) struct DenseSum(Option<Tensor>);

impl DenseSum {
    /// Adds a tensor, which nobody else holds.
    ///
    /// # Errors
    /// `InvalidArgument` if its shape is not `shape` or that of the others.
    pub(crate) fn add(&mut self, shape: &PartialShape, gradient: Tensor) -> Result<()> {
        let mismatch = |expected: &dyn std::fmt::Display| {
            invalid!("Shape mismatch: expected {expected}, got {}", gradient.shape())
        };
        match &mut self.0 {
            Some(sum) if sum.shape() != gradient.shape() => Err(mismatch(sum.shape())),
            _ if !shape.admits(gradient.shape()) => Err(mismatch(shape)),
            Some(sum) => {
                let loops = Loops::of(sum.dtype())?;
                (loops.add)(sum.elems_mut()?, gradient.elems());
                Ok(())
            }
            None => {
                self.0 = Some(gradient);
                Ok(())
            }
        }
    }

    /// The sum, divided by `count` if there is one.
    pub(crate) fn finish(self, count: Option<i32>) -> Result<Tensor> {
        let mut sum = self.0.ok_or_else(|| internal!("A sum of no gradients"))?;
        if let Some(count) = count {
            let loops = Loops::of(sum.dtype())?;
            (loops.divide)(sum.elems_mut()?, count);
        }
        Ok(sum)
    }
}
