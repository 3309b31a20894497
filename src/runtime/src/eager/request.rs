//! `EagerOp`: an op with its inputs and attrs, put together call by call.

use std::sync::Arc;

use tfcore_base::{DType, Error, Result, invalid, not_found};
use tfcore_framework::{ArgKind, AttrValue, Attrs, OpDef};
use tfcore_proto::Message;

use crate::eager::handle::TensorHandle;

/// An op that is to be executed, once or several times.
#[derive(Clone)]
pub struct EagerOp {
    op: Arc<OpDef>,
    device: String,
    inputs: Vec<Arc<TensorHandle>>,
    /// How many inputs each call added; `None` for a call that added one tensor.
    calls: Vec<Option<usize>>,
    attrs: Attrs,
    /// What of the request, besides the dtypes of the inputs, decides which kernel runs.
    key: Vec<u8>,
}

impl EagerOp {
    pub fn new(op: Arc<OpDef>) -> EagerOp {
        let key = op.name.as_bytes().to_vec();
        let (inputs, calls) = (Vec::new(), Vec::new());
        EagerOp { op, device: String::new(), inputs, calls, attrs: Attrs::new(), key }
    }

    pub fn op(&self) -> &Arc<OpDef> {
        &self.op
    }

    /// The device that was asked for; empty if none was.
    pub fn device(&self) -> &str {
        &self.device
    }

    pub fn set_device(&mut self, device: impl Into<String>) {
        self.device = device.into();
    }

    pub fn inputs(&self) -> &[Arc<TensorHandle>] {
        &self.inputs
    }

    /// The next input, where the op takes one tensor.
    pub fn add_input(&mut self, input: Arc<TensorHandle>) {
        self.inputs.push(input);
        self.calls.push(None);
    }

    /// The next input, where the op takes a list.
    pub fn add_input_list(&mut self, inputs: impl IntoIterator<Item = Arc<TensorHandle>>) {
        let before = self.inputs.len();
        self.inputs.extend(inputs);
        self.calls.push(Some(self.inputs.len() - before));
    }

    /// The attrs that were set.
    pub fn attrs(&self) -> &Attrs {
        &self.attrs
    }

    pub fn set_attr(&mut self, name: &str, value: AttrValue) {
        self.key.push(0);
        self.key.extend_from_slice(name.as_bytes());
        self.key.push(0);
        // Between lengths nothing is ambiguous.
        let before = self.key.len();
        match &value {
            AttrValue::Int(number) => self.key.extend_from_slice(&number.to_le_bytes()),
            AttrValue::Bool(flag) => self.key.push(u8::from(*flag)),
            AttrValue::Type(dtype) => self.key.extend_from_slice(&dtype.to_i32().to_le_bytes()),
            _ => self.key.extend(value.to_proto().encode_to_vec()),
        }
        let len = (self.key.len() - before) as u32;
        self.key.extend_from_slice(&len.to_le_bytes());
        self.attrs.set(name, value);
    }

    /// What tells requests apart that need different kernels.
    pub(crate) fn key(&self, device: u16) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.key.len() + 4 * self.inputs.len() + 16);
        key.extend_from_slice(&self.key);
        key.push(0xff);
        key.extend_from_slice(&device.to_le_bytes());
        for count in &self.calls {
            key.extend_from_slice(&count.map_or(u32::MAX, |count| count as u32).to_le_bytes());
        }
        key.push(0xff);
        for input in &self.inputs {
            key.extend_from_slice(&input.dtype().to_i32().to_le_bytes());
        }
        key
    }

    /// How many tensors input argument `name` has, as far as inputs and attrs tell.
    ///
    /// # Errors
    /// `InvalidArgument` for no such argument.
    pub fn input_len(&self, name: &str) -> Result<usize> {
        let arg = self.op.inputs.iter().find(|arg| arg.name == name);
        arg.ok_or_else(|| invalid!("Input '{name}' not found"))?.len(&self.known_attrs())
    }

    /// How many tensors output argument `name` has, as far as inputs and attrs tell.
    ///
    /// # Errors
    /// `InvalidArgument` for no such argument.
    pub fn output_len(&self, name: &str) -> Result<usize> {
        let arg = self.op.outputs.iter().find(|arg| arg.name == name);
        arg.ok_or_else(|| invalid!("Output '{name}' not found"))?.len(&self.known_attrs())
    }

    /// The attrs that were set, those that the inputs settle, and defaults.
    fn known_attrs(&self) -> Attrs {
        let mut attrs = self.attrs.clone();
        let mut settle = |name: &str, value: AttrValue| {
            if !attrs.contains(name) {
                attrs.set(name, value);
            }
        };
        let mut inputs = self.inputs.iter().map(|input| input.dtype());
        for (arg, count) in self.op.inputs.iter().zip(&self.calls) {
            match (count, &arg.kind) {
                // Tensors that are added one by one do not tell where a list ends.
                (None, _) if arg.is_list() => break,
                (Some(_), _) if !arg.is_list() => break,
                _ => {}
            }
            let dtypes: Vec<DType> = inputs.by_ref().take(count.unwrap_or(1)).collect();
            let number = AttrValue::Int(dtypes.len() as i64);
            match &arg.kind {
                ArgKind::Fixed(_) => {}
                ArgKind::TypeAttr(attr) => settle(attr, AttrValue::Type(dtypes[0])),
                ArgKind::FixedTimes(_, attr) => settle(attr, number),
                ArgKind::AttrTimes { dtype, number: attr } => {
                    settle(attr, number);
                    if let Some(&first) = dtypes.first() {
                        settle(dtype, AttrValue::Type(first));
                    }
                }
                ArgKind::ListAttr(attr) => settle(attr, AttrValue::types(dtypes)),
            }
        }
        self.op.add_defaults(&mut attrs);
        attrs
    }

    /// The error of an attr that nothing settles; types are asked for first.
    fn missing_attr(&self, attrs: &Attrs) -> Option<Error> {
        let missing = self.op.attrs.iter().filter(|attr| !attrs.contains(&attr.name));
        let attr = missing.min_by_key(|attr| attr.type_name != "type")?;
        let name = &self.op.name;
        let is_of = |kind: &ArgKind| match kind {
            ArgKind::TypeAttr(dtype) | ArgKind::AttrTimes { dtype, .. } => *dtype == attr.name,
            _ => false,
        };
        Some(match self.op.inputs.iter().any(|arg| is_of(&arg.kind)) {
            true => {
                let known = attrs.iter().map(|(name, value)| format!("{name}={value}"));
                invalid!(
                    "OpKernel '{name}' has constraint on attr '{}' not in NodeDef '[{}]'",
                    attr.name,
                    known.collect::<Vec<_>>().join(", ")
                )
            }
            false => not_found!("No attr named '{}' in NodeDef:", attr.name).at_node(name),
        })
    }

    /// All attrs of the op, once the inputs have been compared with them.
    ///
    /// # Errors
    /// `NotFound` for an attr that nothing settles, `InvalidArgument` for inputs that are not what the op takes.
    pub(crate) fn resolve(&self) -> Result<Attrs> {
        let attrs = self.known_attrs();
        let name = &self.op.name;
        if let Some(missing) = self.missing_attr(&attrs) {
            return Err(missing);
        }
        let expected = self.op.input_dtypes(&attrs)?;
        if self.inputs.len() < expected.len() {
            return Err(invalid!("expected {} inputs, got {}", expected.len(), self.inputs.len()));
        }
        if self.inputs.len() > expected.len() {
            let names: Vec<String> = expected.iter().map(|dtype| dtype.name()).collect();
            return Err(invalid!(
                "NodeDef expected inputs '{}' do not match {} inputs specified; {}; NodeDef: {{{{node {name}}}}}",
                names.join(", "),
                self.inputs.len(),
                self.op
            ));
        }
        for (index, (input, expected)) in self.inputs.iter().zip(expected).enumerate() {
            if input.dtype() != expected {
                return Err(invalid!(
                    "cannot compute {name} as input #{index}(zero-based) was expected to be a {expected} tensor but \
                     is a {} tensor",
                    input.dtype()
                ));
            }
        }
        Ok(attrs)
    }
}
