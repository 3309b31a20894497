//! The elements of resource and variant tensors: reference-counted, opaque to all but their ops.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use tfcore_base::{DType, Elem};

use crate::PartialShape;

/// What a resource handle says of its resource: where it lives, its name and what it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct HandleKey {
    pub device: String,
    pub container: String,
    pub name: String,
    /// The kind of resource, such as `Variable` or `Queue`.
    pub type_name: String,
    /// The dtype and static shape of each value the resource holds, where known.
    pub dtypes_and_shapes: Vec<(DType, PartialShape)>,
    /// The resource itself, where the handle owns it (anonymous resources).
    pub resource: Option<OpaqueResource>,
}

/// A resource that a handle keeps alive.
#[derive(Clone)]
pub struct OpaqueResource(pub Arc<dyn Any + Send + Sync>);

impl PartialEq for OpaqueResource {
    fn eq(&self, other: &OpaqueResource) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for OpaqueResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpaqueResource")
    }
}

/// An element of a resource tensor; empty until a handle op has filled it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResourceHandle(pub Option<Arc<HandleKey>>);

impl Elem for ResourceHandle {
    const DTYPE: DType = DType::RESOURCE;
}

/// A value inside a variant tensor, such as a tensor list.
pub trait VariantValue: Any + Send + Sync {
    /// The name under which the value is known in messages and protos.
    fn type_name(&self) -> &str;
    fn as_any(&self) -> &dyn Any;
}

/// An element of a variant tensor; empty until an op has filled it.
#[derive(Clone, Default)]
pub struct Variant(pub Option<Arc<dyn VariantValue>>);

impl Variant {
    /// The value, if it is of type `T`.
    pub fn get<T: VariantValue>(&self) -> Option<&T> {
        self.0.as_ref()?.as_any().downcast_ref()
    }
}

impl PartialEq for Variant {
    fn eq(&self, other: &Variant) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl fmt::Debug for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.as_ref().map_or("empty", |value| value.type_name());
        write!(f, "Variant<{name}>")
    }
}

impl Elem for Variant {
    const DTYPE: DType = DType::VARIANT;
}
