//! `InferenceContext`: what a shape function sees of a node.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Result, invalid};
use tfcore_tensor::{Dim, PartialShape, Tensor};

use crate::{Attrs, OpDef, describe_tensor, shape_ops};

/// The dtype and shape of a value behind a resource handle.
#[derive(Debug, Clone, PartialEq)]
pub struct ShapeAndType {
    pub shape: PartialShape,
    pub dtype: DType,
}

/// What is known of the values behind a resource handle, if anything.
pub type HandleData = Option<Arc<[ShapeAndType]>>;

/// Where shape functions get the values of operands from, as far as they are known before the run.
pub trait Operands {
    /// The value of input `index`, if it is constant.
    fn tensor(&self, index: usize) -> Option<Tensor>;

    /// The value of input `index` taken as a shape, if some of it is known.
    fn partial_shape(&self, index: usize) -> Result<Option<PartialShape>>;
}

/// A node as its shape function sees it.
pub struct InferenceContext<'a> {
    pub attrs: &'a Attrs,
    pub op: &'a OpDef,
    inputs: &'a [PartialShape],
    input_handles: &'a [HandleData],
    operands: &'a dyn Operands,
    outputs: SmallVec<[PartialShape; 1]>,
    output_handles: SmallVec<[HandleData; 1]>,
    used: RefCell<Vec<UsedOperand>>,
    of_operand: Cell<bool>,
    producer: i32,
}

/// An operand value that a shape function has looked at, for the message if it fails.
enum UsedOperand {
    Tensor(usize, Tensor),
    Shape(usize, PartialShape),
}

impl<'a> InferenceContext<'a> {
    /// `input_handles` may be shorter than `inputs`. All outputs begin unknown.
    pub fn new(
        op: &'a OpDef,
        attrs: &'a Attrs,
        inputs: &'a [PartialShape],
        input_handles: &'a [HandleData],
        operands: &'a dyn Operands,
        num_outputs: usize,
    ) -> InferenceContext<'a> {
        InferenceContext {
            attrs,
            op,
            inputs,
            input_handles,
            operands,
            outputs: SmallVec::from_elem(PartialShape::unknown(), num_outputs),
            output_handles: SmallVec::from_elem(None, num_outputs),
            used: RefCell::new(Vec::new()),
            of_operand: Cell::new(false),
            producer: i32::MAX,
        }
    }

    /// In a graph whose producer has this version; the newest, unless this is called.
    #[must_use]
    pub fn of_producer(mut self, version: i32) -> Self {
        self.producer = version;
        self
    }

    /// The version of the graph's producer, by which old graphs mean other things.
    pub fn producer(&self) -> i32 {
        self.producer
    }

    pub fn num_inputs(&self) -> usize {
        self.inputs.len()
    }

    pub fn num_outputs(&self) -> usize {
        self.outputs.len()
    }

    /// The shape of input `index`, which the op's definition must have.
    pub fn input(&self, index: usize) -> &'a PartialShape {
        &self.inputs[index]
    }

    pub fn inputs(&self) -> &'a [PartialShape] {
        self.inputs
    }

    /// The shapes of the list argument `name`.
    ///
    /// # Errors
    /// `InvalidArgument` if the op has no such argument.
    pub fn input_list(&self, name: &str) -> Result<&'a [PartialShape]> {
        let range = self.op.input_range(name, self.attrs)?;
        self.inputs.get(range).ok_or_else(|| invalid!("Input arg '{name}' not found"))
    }

    pub fn set_output(&mut self, index: usize, shape: PartialShape) {
        self.outputs[index] = shape;
    }

    pub fn output(&self, index: usize) -> &PartialShape {
        &self.outputs[index]
    }

    /// What is known of the values behind the resource handle at input `index`.
    pub fn input_handle(&self, index: usize) -> Option<&'a [ShapeAndType]> {
        self.input_handles.get(index)?.as_deref()
    }

    pub fn set_output_handle(&mut self, index: usize, data: Vec<ShapeAndType>) {
        self.output_handles[index] = Some(data.into());
    }

    /// Hands on what is known of the handle at input `input`.
    pub fn forward_handle(&mut self, input: usize, output: usize) {
        self.output_handles[output] = self.input_handles.get(input).cloned().flatten();
    }

    /// The value of input `index`, if it is constant.
    pub fn operand(&self, index: usize) -> Option<Tensor> {
        let tensor = self.operands.tensor(index)?;
        self.used.borrow_mut().push(UsedOperand::Tensor(index, tensor.clone()));
        Some(tensor)
    }

    /// The integers of input `index`, if it is constant.
    pub fn operand_i64s(&self, index: usize) -> Result<Option<Vec<i64>>> {
        self.operand(index).map(|tensor| tensor.to_i64s()).transpose()
    }

    /// The integer of the scalar input `index`, if it is constant.
    ///
    /// # Errors
    /// `InvalidArgument` if it is no scalar.
    pub fn operand_i64(&self, index: usize) -> Result<Option<i64>> {
        let Some(tensor) = self.operand(index) else {
            return Ok(None);
        };
        if tensor.rank() != 0 {
            return Err(invalid!("Input must be scalar but has rank {}", tensor.rank()));
        }
        Ok(tensor.to_i64s()?.first().copied())
    }

    /// The scalar input `index` as a dimension: its value, or unknown where it is not constant.
    ///
    /// # Errors
    /// `InvalidArgument` "Dimension size, given by scalar input 1 must be non-negative but is -2".
    pub fn operand_dim(&self, index: usize) -> Result<Dim> {
        match self.operand_i64(index)? {
            None => Ok(Dim::fresh()),
            Some(value) if value < 0 => Err(invalid!(
                "Dimension size, given by scalar input {index}, must be non-negative but is {value}"
            )),
            Some(value) => Ok(Dim::new(value)),
        }
    }

    /// The vector input `index` taken as a shape, of which as much is known as the operand's value
    /// tells; -1 is an unknown dimension.
    ///
    /// # Errors
    /// `InvalidArgument` if the operand is no vector, or holds what is no dimension.
    pub fn operand_shape(&self, index: usize) -> Result<PartialShape> {
        let known = shape_ops::with_rank(self.input(index), 1)?;
        self.operand_of(index, &known)
    }

    /// Like [`operand_shape`](Self::operand_shape) of an input that may be the scalar -1 as well, which stands for
    /// an unknown shape.
    ///
    /// # Errors
    /// `InvalidArgument` if the operand is neither a vector nor the scalar -1, or holds what is no dimension.
    pub fn operand_shape_or_unknown(&self, index: usize) -> Result<PartialShape> {
        let known = shape_ops::with_rank_at_most(self.input(index), 1)?;
        self.operand_of(index, &known)
    }

    /// The shape that is the value of input `index`, which has itself the shape `known`.
    fn operand_of(&self, index: usize, known: &PartialShape) -> Result<PartialShape> {
        let value = self.operand_value(index).inspect_err(|_| self.of_operand.set(true))?;
        if let Some(shape) = value {
            self.used.borrow_mut().push(UsedOperand::Shape(index, shape.clone()));
            return Ok(shape);
        }
        Ok(match known.dims() {
            Some([len]) => match len.value().and_then(|len| usize::try_from(len).ok()) {
                Some(rank) if rank <= tfcore_tensor::MAX_RANK => PartialShape::of_rank(rank),
                Some(_) => return Err(invalid!("Shape has too many dimensions")),
                None => PartialShape::unknown(),
            },
            _ => PartialShape::unknown(),
        })
    }

    fn operand_value(&self, index: usize) -> Result<Option<PartialShape>> {
        match self.operands.tensor(index) {
            Some(tensor) => shape_from_tensor(&tensor).map(Some),
            None => self.operands.partial_shape(index),
        }
    }

    /// Whether the shape function failed at what an operand holds. That is said of the operand, not of the node.
    pub fn failed_at_operand(&self) -> bool {
        self.of_operand.get()
    }

    /// The result: shapes and handle data of all outputs.
    pub fn into_outputs(self) -> (SmallVec<[PartialShape; 1]>, SmallVec<[HandleData; 1]>) {
        (self.outputs, self.output_handles)
    }

    /// What the message of a failed shape function says of the operand values it has used.
    pub fn describe_operands(&self) -> String {
        let mut tensors = Vec::new();
        let mut shapes = Vec::new();
        let all_used = self.used.borrow();
        let is_shape = |index: usize| {
            all_used
                .iter()
                .any(|used| matches!(used, UsedOperand::Shape(other, _) if *other == index))
        };
        for used in all_used.iter() {
            match used {
                UsedOperand::Tensor(index, _) if is_shape(*index) => {}
                UsedOperand::Tensor(index, tensor) if tensor.count() <= 100 => {
                    let values = crate::summarize_values(tensor, tensor.count());
                    tensors.push((*index, format!("input[{index}] = <{values}>")));
                }
                UsedOperand::Tensor(..) => {}
                UsedOperand::Shape(_, shape) if shape.rank().is_none() => {}
                UsedOperand::Shape(index, shape) => {
                    shapes.push((*index, format!("input[{index}] = {shape}")));
                }
            }
        }
        let mut text = String::new();
        for (phrase, mut list) in [
            (" and with computed input tensors: ", tensors),
            (" and with input tensors computed as partial shapes: ", shapes),
        ] {
            list.sort();
            list.dedup();
            if !list.is_empty() {
                let items: Vec<String> = list.into_iter().map(|(_, item)| item).collect();
                text.push_str(phrase);
                text.push_str(&items.join(", "));
            }
        }
        text
    }
}

/// A vector of integers as a shape; -1 is an unknown dimension, the scalar -1 an unknown shape.
///
/// # Errors
/// `InvalidArgument` for other ranks and numbers below -1.
pub fn shape_from_tensor(tensor: &Tensor) -> Result<PartialShape> {
    let values = tensor.to_i64s()?;
    if tensor.rank() == 0 {
        return match values[..] {
            [-1] => Ok(PartialShape::unknown()),
            _ => Err(invalid!(
                "Received an invalid shape scalar with a static value that is not '-1': {}",
                describe_tensor(tensor)
            )),
        };
    }
    if tensor.rank() != 1 {
        return Err(invalid!("Input tensor must be rank 1, but was rank {}", tensor.rank()));
    }
    if let Some(value) = values.iter().find(|value| **value < -1) {
        return Err(invalid!("Invalid value in tensor used for shape: {value}"));
    }
    PartialShape::from_i64s(&values)
}
