//! For the tests: ops on the resources of one session, without a graph.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tfcore_base::{DType, Result};
use tfcore_framework::testing::registry_of;
use tfcore_framework::{
    AttrList, AttrValue, Attrs, Cancellation, DeviceType, Kernel, KernelInit, OpContext, Registry,
    ResourceManager, Step, Value,
};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{PartialShape, Tensor};

/// A session of one device.
#[derive(Clone)]
pub(crate) struct Host {
    registry: Arc<Registry>,
    resources: Arc<ResourceManager>,
    pub(crate) cancellation: Arc<Cancellation>,
}

/// A node, ready to run.
#[derive(Clone)]
pub(crate) struct Node {
    kernel: Arc<dyn Kernel>,
    output_dtypes: Vec<DType>,
}

impl Host {
    pub(crate) fn new() -> Host {
        Host {
            registry: Arc::new(registry_of(crate::register)),
            resources: Arc::default(),
            cancellation: Arc::default(),
        }
    }

    /// The node `name` of an op.
    pub(crate) fn node(&self, name: &str, op: &str, attrs: &[(&str, AttrValue)]) -> Result<Node> {
        let def = self.registry.def(op).expect("the op is in the table");
        let mut attrs: Attrs = attrs.iter().map(|(name, value)| (*name, value.clone())).collect();
        def.add_defaults(&mut attrs);
        let (input_dtypes, output_dtypes) = (def.input_dtypes(&attrs)?, def.output_dtypes(&attrs)?);
        let init = KernelInit {
            name,
            op: &def,
            attrs: &attrs,
            input_dtypes: &input_dtypes,
            output_dtypes: &output_dtypes,
        };
        let kernel = self.registry.build_kernel(DeviceType::Cpu, &init)?.into();
        Ok(Node { kernel, output_dtypes: output_dtypes.to_vec() })
    }

    /// Runs a node in a step of its own.
    pub(crate) fn run(&self, node: &Node, inputs: &[Value]) -> Result<Vec<Value>> {
        let step = Arc::new(Step {
            resources: self.resources.clone(),
            device: "/job:localhost/replica:0/task:0/device:CPU:0".into(),
            cancellation: Arc::new(Cancellation::child_of(&self.cancellation)),
            ..Step::default()
        });
        let mut inputs = inputs.to_vec();
        let mut outputs = vec![Value::Absent; node.output_dtypes.len()];
        let dtypes = &node.output_dtypes;
        let mut ctx = OpContext::new(&mut inputs, &mut outputs, dtypes, &step, Parallel::SERIAL);
        node.kernel.compute(&mut ctx)?;
        Ok(outputs)
    }

    /// Runs a node that makes a handle.
    pub(crate) fn handle(
        &self,
        name: &str,
        op: &str,
        attrs: &[(&str, AttrValue)],
    ) -> Result<Value> {
        let node = self.node(name, op, attrs)?;
        Ok(self.run(&node, &[])?.swap_remove(0))
    }

    /// Makes a node and runs it.
    pub(crate) fn op(
        &self,
        op: &str,
        attrs: &[(&str, AttrValue)],
        inputs: &[Value],
    ) -> Result<Vec<Value>> {
        self.run(&self.node("op", op, attrs)?, inputs)
    }

    /// Makes a node and runs it on a thread of its own, which waits by the time that this returns.
    pub(crate) fn waiting(
        &self,
        op: &str,
        attrs: &[(&str, AttrValue)],
        inputs: &[Value],
    ) -> JoinHandle<Result<Vec<Value>>> {
        let (host, node, inputs) =
            (self.clone(), self.node("op", op, attrs).expect("a valid node"), inputs.to_vec());
        let thread = std::thread::spawn(move || host.run(&node, &inputs));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!thread.is_finished(), "{op} does not wait");
        thread
    }
}

pub(crate) fn scalar<T: tfcore_base::Elem>(value: T) -> Value {
    Value::Tensor(Tensor::scalar(value))
}

pub(crate) fn vector<T: tfcore_base::Elem>(values: &[T]) -> Value {
    let shape = tfcore_tensor::Shape::vector(values.len());
    Value::Tensor(Tensor::from_slice(shape, values).expect("as many values as the shape has"))
}

/// The elements of a value.
pub(crate) fn elements<T: tfcore_base::Elem>(value: &Value) -> Vec<T> {
    match value {
        Value::Tensor(tensor) => tensor.as_slice().expect("the type of the value").to_vec(),
        _ => Vec::new(),
    }
}

pub(crate) fn types(dtypes: &[DType]) -> AttrValue {
    AttrValue::types(dtypes.iter().copied())
}

/// A list of full shapes.
pub(crate) fn shapes(shapes: &[&[i64]]) -> AttrValue {
    let shapes = shapes.iter().map(|dims| PartialShape::from_i64s(dims).expect("a valid shape"));
    AttrValue::list(AttrList::Shape(shapes.collect()))
}
