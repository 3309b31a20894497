//! `TensorList`: a list of tensors as the value of a variant, and how kernels get at it.

use std::any::Any;

use tfcore_base::{DType, Result, internal, invalid, require, resource_exhausted};
use tfcore_framework::{OpContext, add_assign};
use tfcore_tensor::{PartialShape, Tensor, Variant, VariantValue};

use crate::element_shape::{are_compatible, merged, shape_operand, text};
use crate::nested;

/// Tensors of one dtype whose shapes agree with one that may be partly known.
#[derive(Clone)]
pub(crate) struct TensorList {
    /// The elements; `None` for those that have not been set.
    pub(crate) elements: Vec<Option<Tensor>>,
    pub(crate) dtype: DType,
    pub(crate) shape: PartialShape,
    /// How long the list may become by pushing; negative for no limit.
    pub(crate) max_elements: i32,
}

impl TensorList {
    /// A list without elements and without a limit.
    pub(crate) fn new(dtype: DType, shape: PartialShape) -> TensorList {
        TensorList { elements: Vec::new(), dtype, shape, max_elements: -1 }
    }

    pub(crate) fn len(&self) -> usize {
        self.elements.len()
    }

    /// Changes the length. Elements that come in have not been set.
    ///
    /// # Errors
    /// `ResourceExhausted` if there is no memory for so many.
    pub(crate) fn resize(&mut self, len: usize) -> Result<()> {
        let more = len.saturating_sub(self.len());
        self.elements
            .try_reserve(more)
            .map_err(|_| resource_exhausted!("OOM when allocating a list of {len} tensors"))?;
        self.elements.resize(len, None);
        Ok(())
    }

    /// # Errors
    /// `InvalidArgument` if the list has elements of another type than an op is for.
    pub(crate) fn require_dtype(&self, dtype: DType) -> Result<()> {
        require!(
            self.dtype == dtype,
            "Invalid data types; op elements {dtype} but list elements {}",
            self.dtype
        );
        Ok(())
    }

    /// The index of an element.
    ///
    /// # Errors
    /// `InvalidArgument` "Trying to `verb` element 2 in a list with 2 elements."
    pub(crate) fn index(&self, index: i32, verb: &str) -> Result<usize> {
        match usize::try_from(index) {
            Ok(found) if found < self.len() => Ok(found),
            _ => Err(invalid!(
                "Trying to {verb} element {index} in a list with {} elements.",
                self.len()
            )),
        }
    }

    /// What the list and the shape operand at input `index` tell of the elements' shape.
    ///
    /// # Errors
    /// `InvalidArgument` if they contradict each other.
    pub(crate) fn shape_with_operand(
        &self,
        ctx: &OpContext<'_>,
        index: usize,
    ) -> Result<PartialShape> {
        merged(&shape_operand(ctx.input(index)?)?, &self.shape)
    }

    fn add(&self, other: &TensorList) -> Result<TensorList> {
        require!(
            self.dtype == other.dtype,
            "Trying to add two lists of tensors of different dtypes. One is {} and the other is {}",
            self.dtype,
            other.dtype
        );
        require!(
            are_compatible(&self.shape, &other.shape),
            "Trying to add two lists of tensors with incompatible element shapes. One is {} and the other is \
             {}",
            text(&self.shape),
            text(&other.shape)
        );
        require!(
            self.len() == other.len(),
            "Trying to add two lists of tensors with different lengths. One is {} and the other is {}",
            self.len(),
            other.len()
        );
        let mut sum = TensorList::new(self.dtype, merged(&self.shape, &other.shape)?);
        sum.resize(self.len())?;
        for (sum, pair) in sum.elements.iter_mut().zip(self.elements.iter().zip(&other.elements)) {
            *sum = match pair {
                (Some(a), Some(b)) => Some(add_tensors(a, b)?),
                // What has not been set is zeros.
                (a, b) => a.as_ref().or(b.as_ref()).cloned(),
            };
        }
        Ok(sum)
    }
}

impl VariantValue for TensorList {
    fn type_name(&self) -> &str {
        "tensorflow::TensorList"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn zeros_like(&self) -> Result<Option<Variant>> {
        nested::descend(|| {
            let mut zeros = TensorList::new(self.dtype, self.shape.clone());
            zeros.resize(self.len())?;
            for (zeros, element) in zeros.elements.iter_mut().zip(&self.elements) {
                *zeros = element.as_ref().map(zeros_like).transpose()?;
            }
            Ok(Some(Variant::new(zeros)))
        })
    }

    fn plus(&self, other: &Variant) -> Result<Option<Variant>> {
        let Some(other) = other.get::<TensorList>() else {
            return Ok(None);
        };
        nested::descend(|| self.add(other).map(|sum| Some(Variant::new(sum))))
    }
}

impl Drop for TensorList {
    fn drop(&mut self) {
        if nested::may_nest(self.dtype) {
            nested::drop_tensors(self.elements.drain(..).flatten().collect());
        }
    }
}

/// The sum of two tensors of one shape.
///
/// # Errors
/// `InvalidArgument` for unlike shapes and types without sums.
pub(crate) fn add_tensors(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    require!(
        a.dtype() == b.dtype(),
        "Trying to add two tensors with incompatible element types. One is {} and the other is {}",
        a.dtype(),
        b.dtype()
    );
    require!(
        a.shape() == b.shape(),
        "Trying to add two tensors with incompatible element shapes. One is {} and the other is {}",
        a.shape(),
        b.shape()
    );
    if a.dtype() == DType::VARIANT {
        let pairs = a.as_slice::<Variant>()?.iter().zip(b.as_slice::<Variant>()?);
        let sums = pairs.map(|(a, b)| a.plus(b)).collect::<Result<Vec<Variant>>>()?;
        return Tensor::from_slice(a.shape().clone(), &sums);
    }
    let add = add_assign(a.dtype())
        .ok_or_else(|| invalid!("Trying to add unsupported dtype {}", a.dtype().to_i32()))?;
    let mut sum = a.deep_copy()?;
    add(sum.elems_mut()?, b.elems());
    Ok(sum)
}

/// Zeros of a tensor's shape.
fn zeros_like(tensor: &Tensor) -> Result<Tensor> {
    match tensor.dtype() {
        DType::VARIANT => {
            let zeros = tensor.as_slice::<Variant>()?.iter().map(Variant::zeros_like);
            Tensor::from_slice(tensor.shape().clone(), &zeros.collect::<Result<Vec<Variant>>>()?)
        }
        DType::STRING | DType::RESOURCE => {
            Err(invalid!("Trying to compute zeros_like for unsupported dtype {}", tensor.dtype()))
        }
        dtype => Tensor::zeros(dtype, tensor.shape().clone()),
    }
}

/// A variant as messages show it; `value` is what the kinds here show of theirs.
pub(crate) fn variant_text(variant: &Variant) -> String {
    let name = variant.type_name();
    match name.rsplit("::").next() {
        Some(value) if !value.is_empty() => format!("Variant<type: {name} value: {value}>"),
        _ => "Variant<type:  value: >".to_string(),
    }
}

/// The list at input `index`.
///
/// # Errors
/// `InvalidArgument` if the input is no scalar that holds a list.
pub(crate) fn input_list<'c>(ctx: &'c OpContext<'_>, index: usize) -> Result<&'c TensorList> {
    let tensor = ctx.input(index)?;
    require!(tensor.rank() == 0, "Input list must be a scalar saw: {}", tensor.shape());
    let [variant] = tensor.as_slice::<Variant>()? else {
        return Err(internal!("A scalar of {} elements", tensor.count()));
    };
    variant
        .get()
        .ok_or_else(|| invalid!("Input handle is not a list. Saw: '{}'", variant_text(variant)))
}

/// As [`input_list`], for a list of elements of type `dtype`.
///
/// # Errors
/// `InvalidArgument` for a list of others, too.
pub(crate) fn input_list_of<'c>(
    ctx: &'c OpContext<'_>,
    index: usize,
    dtype: DType,
) -> Result<&'c TensorList> {
    let list = input_list(ctx, index)?;
    list.require_dtype(dtype)?;
    Ok(list)
}

/// A scalar that holds a list.
pub(crate) fn list_value(list: TensorList) -> Tensor {
    Tensor::scalar(Variant::new(list))
}

/// Takes the tensor of collections at input `index` for writing: the input's own where nobody else will
/// read it, so that a list grows in place; else one with the same collections.
pub(crate) fn take_variants(ctx: &mut OpContext<'_>, index: usize) -> Result<Tensor> {
    let tensor = ctx.take_input(index)?;
    if tensor.is_exclusive() {
        return Ok(tensor);
    }
    Tensor::from_slice(tensor.shape().clone(), tensor.as_slice::<Variant>()?)
}

/// Sets output 0 to the list at input 0 after a change; `change` comes after [`input_list`] has accepted it.
///
/// # Errors
/// What `change` reports.
pub(crate) fn output_changed_list(
    ctx: &mut OpContext<'_>,
    change: impl FnOnce(&mut TensorList) -> Result<()>,
) -> Result<()> {
    let mut tensor = take_variants(ctx, 0)?;
    let [variant] = tensor.as_mut_slice::<Variant>()? else {
        return Err(internal!("Changing a list that has not been checked"));
    };
    change(variant.make_mut().ok_or_else(|| internal!("Changing what is no list"))?)?;
    ctx.set_output(0, tensor);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(elements: Vec<Option<Tensor>>) -> TensorList {
        let mut list = TensorList::new(DType::FLOAT, PartialShape::unknown());
        list.elements = elements;
        list
    }

    #[test]
    fn sums_and_zeros() {
        let element = |value: f32| Some(Tensor::scalar(value));
        let a = Variant::new(list(vec![element(1.0), None, element(3.0), None]));
        let b = Variant::new(list(vec![element(10.0), element(20.0), None, None]));
        let values = |variant: Result<Variant>| -> Vec<Option<f32>> {
            let variant = variant.unwrap();
            let list = variant.get::<TensorList>().unwrap();
            let value = |element: &Option<Tensor>| element.as_ref()?.scalar_value().ok();
            list.elements.iter().map(value).collect()
        };
        assert_eq!(values(a.plus(&b)), [Some(11.0), Some(20.0), Some(3.0), None]);
        assert_eq!(values(a.zeros_like()), [Some(0.0), None, Some(0.0), None]);
        let longer = Variant::new(list(vec![None]));
        assert_eq!(
            a.plus(&longer).unwrap_err().message(),
            "Trying to add two lists of tensors with different lengths. One is 4 and the other is 1"
        );
        let words = Tensor::scalar(tfcore_tensor::TString::new());
        let message = add_tensors(&words, &words).unwrap_err();
        assert_eq!(message.message(), "Trying to add unsupported dtype 7");
    }

    #[test]
    fn deep_lists_are_dropped_and_refused() {
        let mut deep = Variant::new(TensorList::new(DType::VARIANT, PartialShape::unknown()));
        for _ in 0..200_000 {
            let mut outer = TensorList::new(DType::VARIANT, PartialShape::unknown());
            outer.elements.push(Some(Tensor::scalar(deep)));
            deep = Variant::new(outer);
        }
        let error = deep.zeros_like().unwrap_err();
        assert_eq!(error.code(), tfcore_base::Code::ResourceExhausted);
        assert!(deep.plus(&deep.clone()).is_err());
        drop(deep);
    }

    #[test]
    fn lists_without_end_are_refused() {
        let mut long = list(Vec::new());
        let error = long.resize(usize::MAX / 2).unwrap_err();
        assert_eq!(error.code(), tfcore_base::Code::ResourceExhausted);
        assert_eq!(long.len(), 0);
    }
}
