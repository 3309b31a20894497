//! Changes to nodes that are in the graph already.
//!
//! A session that has taken a node in shares it, and keeps it as it was: a change replaces the graph's own node. Changes are
//! checked as little as the reference checks them. A type that does not fit any more or a cycle is found when a
//! session takes the graph in; nothing in the graph may rely on their absence once [`Graph::is_mutated`] says so.

use std::sync::Arc;

use tfcore_base::{DType, Result, internal, invalid, out_of_range};
use tfcore_framework::{
    AttrValue, Role, ShapeAndType, shape_from_proto, shape_ops, shape_to_proto,
};
use tfcore_proto::{self as proto, cpp_shape_inference_result as inference};
use tfcore_tensor::PartialShape;

use crate::Graph;
use crate::node::{Annotations, Edge, Node, NodeId, OutputRef};

impl Graph {
    /// Makes `id` run after `before`. That may close a cycle.
    pub fn add_control_input(&mut self, id: NodeId, before: NodeId) {
        self.set_mutated();
        if !self.node(id).control_inputs.contains(&before) {
            self.push_control_input(id, before);
        }
    }

    /// Makes `id` run as soon as its data inputs are there.
    pub fn remove_control_inputs(&mut self, id: NodeId) {
        self.set_mutated();
        self.clear_control_inputs(id);
    }

    /// Requests a device for a node; none, if the name is empty.
    pub fn set_requested_device(&mut self, id: NodeId, device: &str) {
        let device = self.intern_device(device);
        self.node_mut(id).device = device;
    }

    /// Sets an attr of a node, whatever its op declares. The types of inputs and outputs follow.
    pub fn set_attr(&mut self, id: NodeId, name: &str, value: AttrValue) {
        self.node_mut(id).attrs.set(name, value);
        self.update_dtypes(id);
    }

    /// Removes an attr of a node, if it has it.
    pub fn clear_attr(&mut self, id: NodeId, name: &str) {
        self.node_mut(id).attrs.remove(name);
        self.update_dtypes(id);
    }

    /// Sets or removes the full type of a node.
    pub fn set_full_type(&mut self, id: NodeId, full_type: Option<proto::FullTypeDef>) {
        let mut annotations = self.node(id).annotations.as_deref().cloned().unwrap_or_default();
        annotations.full_type = full_type;
        self.annotate(id, (annotations != Annotations::default()).then_some(annotations));
    }

    pub(crate) fn annotate(&mut self, id: NodeId, annotations: Option<Annotations>) {
        if annotations.is_some() || self.node(id).annotations.is_some() {
            self.node_mut(id).annotations = annotations.map(Box::new);
        }
    }

    /// Makes `source` feed input `input` of a node. That may close a cycle. Whether the types fit is seen when a
    /// session takes the node in.
    ///
    /// # Errors
    /// `OutOfRange` if there is no such output or input, `InvalidArgument` if the shape of the output contradicts what
    /// is known of the input. The edge is then as it was.
    pub fn update_edge(&mut self, source: OutputRef, id: NodeId, input: usize) -> Result<()> {
        let outputs = self.node(source.node).num_outputs();
        if source.port() >= outputs {
            return Err(out_of_range!(
                "Cannot update edge. Output index [{}] is greater than the number of total outputs \
                 [{outputs}].",
                source.index
            ));
        }
        let Some(old) = self.node(id).inputs.get(input).map(|edge| edge.source) else {
            return Err(out_of_range!(
                "Cannot update edge. Input index [{input}] is greater than the number of total inputs \
                 [{}].",
                self.node(id).inputs.len()
            ));
        };
        let shape = self.shape(source)?;
        // What was known of the input outlasts the edge that told it.
        let unknown = PartialShape::unknown();
        let known = match self.updated_inputs().get(&(id, input)) {
            Some(known) => known,
            None => self.shape(old).unwrap_or(&unknown),
        };
        let merged = shape_ops::merge(known, shape).map_err(|_| {
            invalid!("Cannot update edge, incompatible shapes: {shape} and {known}.")
        })?;
        self.updated_inputs_mut().insert((id, input), merged);
        self.set_mutated();
        // The reference writes the edge with its index.
        self.set_input(id, input, Edge { source, explicit_zero: source.index == 0 });
        Ok(())
    }

    /// Adds a data input behind the last one of a While whose attrs have been given room for it.
    ///
    /// # Errors
    /// `Internal` for another op, `OutOfRange` if there is no such output, `InvalidArgument` if the attrs leave no room.
    pub fn add_while_input(&mut self, id: NodeId, source: OutputRef) -> Result<()> {
        self.output_dtype(source)?;
        let node = self.node(id);
        if node.role() != Role::While {
            return Err(internal!(
                "dst argument to AddWhileEdgeHack should be a While op, got: {}",
                node.name
            ));
        }
        let input = node.inputs.len();
        if input >= node.input_dtypes.len() {
            return Err(invalid!(
                "Node '{}' takes {} inputs, and has them all",
                node.name,
                node.input_dtypes.len()
            ));
        }
        self.set_mutated();
        self.push_input(id, source);
        Ok(())
    }

    /// What is known of the values behind a resource handle, if anything.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such output.
    pub fn handle_data_to_proto(&self, output: OutputRef) -> Result<Option<inference::HandleData>> {
        let values = self.handle_data(output)?.as_deref();
        Ok(values.map(|values| inference::HandleData {
            is_set: true,
            shape_and_type: values
                .iter()
                .map(|value| inference::HandleShapeAndType {
                    shape: Some(shape_to_proto(&value.shape)),
                    dtype: value.dtype.to_i32(),
                    r#type: Some(proto::FullTypeDef::default()),
                })
                .collect(),
        }))
    }

    /// Replaces what is known of the values behind a resource handle.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such output, or the message describes what is no shape or no type.
    pub fn set_handle_data(
        &mut self,
        output: OutputRef,
        message: &inference::HandleData,
    ) -> Result<()> {
        let values = message.shape_and_type.iter().map(|value| {
            let shape = shape_from_proto(&value.shape.clone().unwrap_or_default())?;
            let dtype = DType::from_i32(value.dtype)
                .ok_or_else(|| invalid!("Invalid dtype {} in HandleData proto", value.dtype))?;
            Ok(ShapeAndType { shape, dtype })
        });
        let values = values.collect::<Result<Arc<[_]>>>()?;
        self.set_handle(output, Some(values))
    }

    /// Brings the types of inputs and outputs in line with the attrs. They stay as they are if the attrs do not tell
    /// them any more.
    fn update_dtypes(&mut self, id: NodeId) {
        self.set_mutated();
        self.forget_values(id);
        let Some((inputs, outputs)) = dtypes(self.node(id)) else {
            return;
        };
        self.node_mut(id).input_dtypes = inputs.into();
        self.set_output_dtypes(id, outputs.into());
    }
}

fn dtypes(node: &Node) -> Option<(Vec<DType>, Vec<DType>)> {
    Some((node.op.input_dtypes(&node.attrs).ok()?, node.op.output_dtypes(&node.attrs).ok()?))
}
