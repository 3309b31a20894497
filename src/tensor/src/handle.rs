//! The elements of resource and variant tensors: reference-counted, opaque to all but their ops.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use tfcore_base::{DType, Elem, Result, internal};

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

    /// A value of the same make-up with zeros for elements; `None` for kinds that have no zeros.
    fn zeros_like(&self) -> Result<Option<Variant>> {
        Ok(None)
    }

    /// The sum with a value of the same kind; `None` for kinds that have no sums.
    fn plus(&self, _other: &Variant) -> Result<Option<Variant>> {
        Ok(None)
    }
}

/// An element of a variant tensor; empty until an op has filled it.
#[derive(Clone, Default)]
pub struct Variant(pub Option<Arc<dyn VariantValue>>);

impl Variant {
    pub fn new(value: impl VariantValue) -> Variant {
        Variant(Some(Arc::new(value)))
    }

    /// The value, if it is of type `T`.
    pub fn get<T: VariantValue>(&self) -> Option<&T> {
        self.0.as_ref()?.as_any().downcast_ref()
    }

    /// The value for writing, if it is of type `T` and nobody else holds it.
    pub fn get_mut<T: VariantValue>(&mut self) -> Option<&mut T> {
        let any: &mut dyn Any = Arc::get_mut(self.0.as_mut()?)?;
        any.downcast_mut()
    }

    /// The value for writing, if it is of type `T`. What others hold is copied first, and they keep it as
    /// it is.
    pub fn make_mut<T: VariantValue + Clone>(&mut self) -> Option<&mut T> {
        if Arc::get_mut(self.0.as_mut()?).is_none() {
            *self = Variant::new(self.get::<T>()?.clone());
        }
        self.get_mut()
    }

    /// The name of the value's type; empty without a value.
    pub fn type_name(&self) -> &str {
        self.0.as_ref().map_or("", |value| value.type_name())
    }

    /// See [`VariantValue::zeros_like`].
    ///
    /// # Errors
    /// `Internal` for an empty element or a kind without zeros.
    pub fn zeros_like(&self) -> Result<Variant> {
        let zeros = self.0.as_ref().map_or(Ok(None), |value| value.zeros_like())?;
        zeros.ok_or_else(|| no_unary_op("ZEROS_LIKE", self.type_name()))
    }

    /// The conjugate, which no kind of value has.
    ///
    /// # Errors
    /// `Internal`, always.
    pub fn conjugate(&self) -> Result<Variant> {
        Err(no_unary_op("CONJ", self.type_name()))
    }

    /// See [`VariantValue::plus`].
    ///
    /// # Errors
    /// `Internal` for empty elements, values of unlike kinds and kinds without sums.
    pub fn plus(&self, other: &Variant) -> Result<Variant> {
        let (a, b) = (self.type_name(), other.type_name());
        if a != b {
            return Err(internal!(
                "BinaryOpVariants: Variants a and b have different type ids.  Type names: '{a}' vs. '{b}'"
            ));
        }
        let sum = self.0.as_ref().map_or(Ok(None), |value| value.plus(other))?;
        sum.ok_or_else(|| {
            internal!(
                "No binary variant binary_op function found for op ADD Variant type_name: '{a}' for \
                 device type: CPU"
            )
        })
    }
}

fn no_unary_op(op: &str, type_name: &str) -> tfcore_base::Error {
    internal!(
        "No unary variant unary_op function found for op {op} Variant type_name: {type_name} for device \
         type: CPU"
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Number(i32);

    impl VariantValue for Number {
        fn type_name(&self) -> &str {
            "Number"
        }

        fn as_any(&self) -> &dyn Any {
            self
        }

        fn plus(&self, other: &Variant) -> Result<Option<Variant>> {
            Ok(other.get::<Number>().map(|other| Variant::new(Number(self.0 + other.0))))
        }
    }

    #[test]
    fn writing_leaves_what_others_hold() {
        let mut value = Variant::new(Number(1));
        let other = value.clone();
        assert!(value.get_mut::<Number>().is_none());
        value.make_mut::<Number>().unwrap().0 = 2;
        assert_eq!(other.get::<Number>().unwrap().0, 1);
        // Nobody else holds the copy.
        let address = std::ptr::from_ref(value.get::<Number>().unwrap());
        assert_eq!(std::ptr::from_mut(value.make_mut::<Number>().unwrap()).cast_const(), address);
        assert!(Variant::default().make_mut::<Number>().is_none());
    }

    #[test]
    fn kinds_say_what_they_can() {
        let value = Variant::new(Number(1));
        assert_eq!(value.plus(&value).unwrap().get::<Number>().unwrap().0, 2);
        for (result, message) in [
            (value.zeros_like(), "No unary variant unary_op function found for op ZEROS_LIKE"),
            (value.conjugate(), "for op CONJ Variant type_name: Number for device type: CPU"),
            (value.plus(&Variant::default()), "Type names: 'Number' vs. ''"),
            (Variant::default().plus(&Variant::default()), "for op ADD Variant type_name: ''"),
        ] {
            let error = result.unwrap_err();
            assert!(error.message().contains(message), "{error}");
        }
    }
}
