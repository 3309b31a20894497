//! Resources by name: what a node calls its resource, the handles it hands out, and how other ops find the
//! resource behind a handle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tfcore_base::{DType, Result, invalid};
use tfcore_tensor::{HandleKey, OpaqueResource, ResourceHandle, Shape, TString, Tensor};

use crate::{
    Attrs, DEFAULT_CONTAINER, Kernel, KernelInit, OpContext, Resource, Value, Variable,
    container_and_name, kernel,
};

/// A resource that ops name by its type.
pub trait NamedResource: Resource {
    /// The name of the type, as handles and messages have it.
    const TYPE: &'static str;
}

/// The container and the name that a node gives its resource.
pub struct ResourceName {
    container: String,
    name: Name,
}

enum Name {
    Given(String),
    /// A name that no other node has, made up at the first use.
    Private {
        node: String,
        made: OnceLock<String>,
    },
}

impl ResourceName {
    /// By attrs `container` and `shared_name`; without the latter the resource is this node's alone.
    ///
    /// # Errors
    /// `InvalidArgument` if an attr has characters that it may not have.
    pub fn or_private(init: &KernelInit<'_>) -> Result<ResourceName> {
        let node = init.name.to_string();
        ResourceName::new(init, || Name::Private { node, made: OnceLock::new() })
    }

    /// By attrs `container` and `shared_name`; without the latter by the name of the node.
    ///
    /// # Errors
    /// As [`ResourceName::or_private`].
    pub fn or_node(init: &KernelInit<'_>) -> Result<ResourceName> {
        ResourceName::new(init, || Name::Given(init.name.to_string()))
    }

    fn new(init: &KernelInit<'_>, default: impl FnOnce() -> Name) -> Result<ResourceName> {
        let (container, shared) = container_and_name(init.attrs)?;
        let container = if container.is_empty() { DEFAULT_CONTAINER } else { container };
        let name = match shared {
            "" => default(),
            shared => Name::Given(shared.to_string()),
        };
        Ok(ResourceName { container: container.to_string(), name })
    }

    /// The name of the container.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// The name of the resource.
    pub fn name(&self) -> &str {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        match &self.name {
            Name::Given(name) => name,
            Name::Private { node, made } => made.get_or_init(|| {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                format!("_{number}_{node}")
            }),
        }
    }
}

/// A kernel that hands out the handle of a resource, which it makes unless there is one of that name: then
/// `check` looks whether it is what the node describes.
pub fn handle_kernel<R: NamedResource>(
    init: &KernelInit<'_>,
    make: impl Fn(&str) -> Result<R> + Send + Sync + 'static,
    check: impl Fn(&R) -> Result<()> + Send + Sync + 'static,
) -> Result<Box<dyn Kernel>> {
    let names = ResourceName::or_private(init)?;
    handle_kernel_of(init, names, move |_, name| make(name), check)
}

/// As [`handle_kernel`], for a resource called `names` that is made of the node's inputs.
pub fn handle_kernel_of<R: NamedResource>(
    init: &KernelInit<'_>,
    names: ResourceName,
    make: impl Fn(&OpContext<'_>, &str) -> Result<R> + Send + Sync + 'static,
    check: impl Fn(&R) -> Result<()> + Send + Sync + 'static,
) -> Result<Box<dyn Kernel>> {
    let is_ref = init.output_dtypes[0].is_ref();
    let node = init.name.to_string();
    let made: OnceLock<Value> = OnceLock::new();
    kernel(move |ctx| {
        let (container, name) = (names.container(), names.name());
        let resource =
            ctx.resources().get_or_create(container, R::TYPE, name, || make(ctx, name))?;
        check(&resource)?;
        let handle = made.get_or_init(|| match is_ref {
            true => Value::Ref(Arc::new(ref_handle(&node, container, name))),
            false => Value::Tensor(handle(ctx, container, name, R::TYPE)),
        });
        match handle {
            Value::Ref(variable) => ctx.set_output_ref(0, variable.clone()),
            Value::Tensor(tensor) => ctx.set_output(0, tensor.clone()),
            Value::Absent => {}
        }
        Ok(())
    })
}

/// A handle that keeps its resource alive, which no name leads to.
pub fn anonymous_handle<R: NamedResource>(
    ctx: &OpContext<'_>,
    name: String,
    resource: Arc<R>,
) -> Tensor {
    Tensor::scalar(ResourceHandle(Some(Arc::new(HandleKey {
        device: ctx.step().device.to_string(),
        container: "localhost".to_string(),
        name,
        type_name: R::TYPE.to_string(),
        dtypes_and_shapes: Vec::new(),
        resource: Some(OpaqueResource(resource)),
    }))))
}

/// The handles of old: a variable with the container and the name.
pub fn ref_handle(node: &str, container: &str, name: &str) -> Variable {
    let shape = Shape::vector(2);
    let variable = Variable::new(node, DType::STRING, shape.clone());
    let words = [container, name].map(|word| TString::from(word.as_bytes()));
    variable.write(Tensor::from_slice(shape, &words).expect("two words have a buffer"));
    variable
}

/// A handle that names a resource.
pub fn handle(ctx: &OpContext<'_>, container: &str, name: &str, type_name: &'static str) -> Tensor {
    Tensor::scalar(ResourceHandle(Some(Arc::new(HandleKey {
        device: ctx.step().device.to_string(),
        container: container.to_string(),
        name: name.to_string(),
        type_name: type_name.to_string(),
        dtypes_and_shapes: Vec::new(),
        resource: None,
    }))))
}

/// The resource behind the handle at input `index`, be it one of old or a resource handle.
///
/// # Errors
/// `NotFound` if there is no such resource, `InvalidArgument` if the handle is of another type.
pub fn find<R: NamedResource>(ctx: &OpContext<'_>, index: usize) -> Result<Arc<R>> {
    match ctx.value(index) {
        Some(Value::Ref(variable)) => {
            let tensor = variable.read()?;
            let [container, name] = tensor.as_slice::<TString>()? else {
                return Err(invalid!(
                    "Resource handle must have 2 elements, but had shape: {}",
                    tensor.shape()
                ));
            };
            let text = |word: &TString| String::from_utf8_lossy(word.as_bytes()).into_owned();
            ctx.resources().get(&text(container), R::TYPE, &text(name))
        }
        Some(Value::Tensor(tensor)) if tensor.dtype() == DType::RESOURCE => {
            let key = checked_handle::<R>(ctx, index)?;
            if let Some(OpaqueResource(owned)) = &key.resource
                && let Ok(resource) = owned.clone().downcast()
            {
                return Ok(resource);
            }
            ctx.resources().get(&key.container, R::TYPE, &key.name)
        }
        _ => Err(invalid!("{index}-th input expects a ref type")),
    }
}

/// The resource handle at input `index`, which must be of type `R`.
///
/// # Errors
/// `InvalidArgument` if it is of another.
pub fn checked_handle<'c, R: NamedResource>(
    ctx: &'c OpContext<'_>,
    index: usize,
) -> Result<&'c Arc<HandleKey>> {
    let key = ctx.handle(index)?;
    if key.type_name != R::TYPE {
        return Err(invalid!(
            "Trying to access a handle's resource using the wrong type. The handle points to a resource \
             (name '{}') of type '{}' but you are trying to access the resource as type '{}'",
            key.name,
            readable(&key.type_name),
            readable(R::TYPE)
        ));
    }
    Ok(key)
}

/// A type's name as people write it: `tensorflow::Var` for `N10tensorflow3VarE`.
fn readable(type_name: &str) -> String {
    let parts = || {
        let mut rest = type_name.strip_prefix('N')?.strip_suffix('E')?;
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let len: usize = rest[..digits].parse().ok()?;
            let part = rest.get(digits..digits.checked_add(len)?)?;
            rest = &rest[digits + len..];
            parts.push(if part == "_GLOBAL__N_1" { "(anonymous namespace)" } else { part });
        }
        Some(parts.join("::"))
    };
    parts().unwrap_or_else(|| type_name.to_string())
}

/// The types of a node's inputs and outputs, to be compared with what its resource holds.
pub struct Signature {
    inputs: Vec<DType>,
    outputs: Vec<DType>,
}

impl Signature {
    /// Of a node.
    pub fn new(init: &KernelInit<'_>) -> Signature {
        Signature { inputs: init.input_dtypes.to_vec(), outputs: init.output_dtypes.to_vec() }
    }

    /// # Errors
    /// `InvalidArgument` unless the inputs after the first `before` have the types `dtypes`.
    pub fn check_inputs(&self, before: usize, dtypes: &[DType]) -> Result<()> {
        if &self.inputs[before..] == dtypes {
            return Ok(());
        }
        let expected = [&self.inputs[..before], dtypes].concat();
        Err(self.mismatch(&expected, &self.outputs))
    }

    /// # Errors
    /// `InvalidArgument` unless the outputs after the first `before` have the types `dtypes`.
    pub fn check_outputs(&self, before: usize, dtypes: &[DType]) -> Result<()> {
        if &self.outputs[before..] == dtypes {
            return Ok(());
        }
        let expected = [&self.outputs[..before], dtypes].concat();
        Err(self.mismatch(&self.inputs, &expected))
    }

    /// # Errors
    /// `InvalidArgument` unless the inputs after the first one and the outputs have these types.
    pub fn check(&self, inputs: &[DType], outputs: &[DType]) -> Result<()> {
        if self.inputs.get(1..) == Some(inputs) && self.outputs == outputs {
            return Ok(());
        }
        let handle = &self.inputs[..self.inputs.len().min(1)];
        Err(self.mismatch(&[handle, inputs].concat(), outputs))
    }

    fn mismatch(&self, inputs: &[DType], outputs: &[DType]) -> tfcore_base::Error {
        invalid!(
            "Signature mismatch, have: {}->{} expected: {}->{}",
            join(&self.inputs),
            join(&self.outputs),
            join(inputs),
            join(outputs)
        )
    }
}

/// A list as messages have it: `int64, float`.
pub fn join<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// An attr that the reference keeps in 32 bits.
///
/// # Errors
/// `InvalidArgument` if it does not fit.
pub fn int32(attrs: &Attrs, name: &str) -> Result<i32> {
    let value = attrs.int(name)?;
    i32::try_from(value)
        .map_err(|_| invalid!("Attr {name} has value {value} out of range for an int32"))
}

/// Timeouts of single ops are attrs that the reference refuses.
///
/// # Errors
/// `InvalidArgument` if there is one.
pub fn check_no_timeout(attrs: &Attrs) -> Result<()> {
    if attrs.int("timeout_ms")? != -1 {
        return Err(invalid!("Timeout not supported yet."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_names_are_readable() {
        let cases = [
            ("N10tensorflow3VarE", "tensorflow::Var"),
            ("N10tensorflow12_GLOBAL__N_15MutexE", "tensorflow::(anonymous namespace)::Mutex"),
            ("N99tensorflowE", "N99tensorflowE"),
            ("N10E", "N10E"),
            ("Var", "Var"),
        ];
        for (name, expected) in cases {
            assert_eq!(readable(name), expected);
        }
    }
}
