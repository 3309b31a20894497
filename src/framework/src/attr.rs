//! `AttrValue`: the values of attributes, and `Attrs`, the attributes of one node.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{Code, DType, Error, Result, escape_bytes, format_float, invalid};
use tfcore_tensor::{PartialShape, Tensor};

use crate::raw_attr::{RawAttr, mismatch};
use crate::tensor_attr::TensorAttr;

/// The value of an attribute. Cloning is cheap: whatever is large is shared.
#[derive(Clone, PartialEq)]
pub enum AttrValue {
    String(Arc<[u8]>),
    Int(i64),
    Float(f32),
    Bool(bool),
    Type(DType),
    Shape(Arc<PartialShape>),
    Tensor(Arc<TensorAttr>),
    Func(Arc<Func>),
    /// In function bodies: the value of the function's attr of this name.
    Placeholder(Arc<str>),
    List(Arc<AttrList>),
    /// What came from outside and is none of the others.
    Raw(Arc<RawAttr>),
}

/// A function by name with the attrs to instantiate it with.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Func {
    pub name: String,
    pub attrs: Attrs,
}

/// The value of a list attribute. An empty list has no type of its own.
#[derive(Clone, PartialEq, Debug)]
pub enum AttrList {
    Empty,
    String(Vec<Arc<[u8]>>),
    Int(Vec<i64>),
    Float(Vec<f32>),
    Bool(Vec<bool>),
    Type(Vec<DType>),
    Shape(Vec<PartialShape>),
    Tensor(Vec<Arc<TensorAttr>>),
    Func(Vec<Func>),
}

impl AttrList {
    pub fn len(&self) -> usize {
        match self {
            AttrList::Empty => 0,
            AttrList::String(list) => list.len(),
            AttrList::Int(list) => list.len(),
            AttrList::Float(list) => list.len(),
            AttrList::Bool(list) => list.len(),
            AttrList::Type(list) => list.len(),
            AttrList::Shape(list) => list.len(),
            AttrList::Tensor(list) => list.len(),
            AttrList::Func(list) => list.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn type_name(&self) -> &'static str {
        match self {
            AttrList::Empty => "list(any)",
            AttrList::String(_) => "list(string)",
            AttrList::Int(_) => "list(int)",
            AttrList::Float(_) => "list(float)",
            AttrList::Bool(_) => "list(bool)",
            AttrList::Type(_) => "list(type)",
            AttrList::Shape(_) => "list(shape)",
            AttrList::Tensor(_) => "list(tensor)",
            AttrList::Func(_) => "list(func)",
        }
    }
}

impl AttrValue {
    pub fn string(text: impl AsRef<[u8]>) -> AttrValue {
        AttrValue::String(text.as_ref().into())
    }

    pub fn shape(shape: PartialShape) -> AttrValue {
        AttrValue::Shape(Arc::new(shape))
    }

    pub fn tensor(tensor: Tensor) -> AttrValue {
        AttrValue::Tensor(Arc::new(TensorAttr::from(tensor)))
    }

    pub fn func(name: impl Into<String>, attrs: Attrs) -> AttrValue {
        AttrValue::Func(Arc::new(Func { name: name.into(), attrs }))
    }

    pub fn list(list: AttrList) -> AttrValue {
        AttrValue::List(Arc::new(if list.is_empty() { AttrList::Empty } else { list }))
    }

    pub fn strings<S: AsRef<[u8]>>(items: impl IntoIterator<Item = S>) -> AttrValue {
        AttrValue::list(AttrList::String(items.into_iter().map(|s| s.as_ref().into()).collect()))
    }

    pub fn ints(items: impl IntoIterator<Item = i64>) -> AttrValue {
        AttrValue::list(AttrList::Int(items.into_iter().collect()))
    }

    pub fn types(items: impl IntoIterator<Item = DType>) -> AttrValue {
        AttrValue::list(AttrList::Type(items.into_iter().collect()))
    }

    /// The type as op definitions write it: `int`, `list(type)`; `list(any)` for an empty list.
    pub fn type_name(&self) -> &'static str {
        match self {
            AttrValue::String(_) => "string",
            AttrValue::Int(_) => "int",
            AttrValue::Float(_) => "float",
            AttrValue::Bool(_) => "bool",
            AttrValue::Type(_) => "type",
            AttrValue::Shape(_) => "shape",
            AttrValue::Tensor(_) => "tensor",
            AttrValue::Func(_) => "func",
            AttrValue::Placeholder(_) => "placeholder",
            AttrValue::List(list) => list.type_name(),
            AttrValue::Raw(raw) => raw.type_name(),
        }
    }

    /// Checks that the value is of the type that an op definition declares.
    ///
    /// # Errors
    /// `InvalidArgument` "AttrValue had value with type 'string' when 'int' expected", or a text about
    /// types that no tensor can have.
    pub fn check_type(&self, declared: &str) -> Result<()> {
        if let AttrValue::Raw(raw) = self {
            return raw.check_type(declared);
        }
        let actual = self.type_name();
        let fits = actual == declared
            || matches!(self, AttrValue::Placeholder(_))
            || (actual == "list(any)" && declared.starts_with("list("));
        if !fits {
            return Err(mismatch(actual, declared));
        }
        match self {
            AttrValue::Type(dtype) => check_no_reference(*dtype),
            AttrValue::List(list) => match &**list {
                AttrList::Type(list) => list.iter().copied().try_for_each(check_no_reference),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

fn check_no_reference(dtype: DType) -> Result<()> {
    if dtype.is_ref() {
        return Err(invalid!("AttrValue must not have reference type value of {dtype}"));
    }
    Ok(())
}

/// The attributes of a node, sorted by name. Clones share them until one is changed.
#[derive(Clone, PartialEq, Default)]
pub struct Attrs {
    /// `None` for no attributes, which take no memory.
    entries: Option<Arc<Entries>>,
}

/// Two of them, the most frequent number, take one allocation.
pub(crate) type Entries = SmallVec<[(Arc<str>, AttrValue); 2]>;

impl Attrs {
    pub fn new() -> Attrs {
        Attrs::default()
    }

    fn entries(&self) -> &[(Arc<str>, AttrValue)] {
        self.entries.as_ref().map_or(&[], |entries| entries)
    }

    fn entries_mut(&mut self) -> &mut Entries {
        Arc::make_mut(self.entries.get_or_insert_default())
    }

    fn position(&self, name: &str) -> std::result::Result<usize, usize> {
        self.entries().binary_search_by(|(key, _)| (**key).cmp(name))
    }

    pub fn get(&self, name: &str) -> Option<&AttrValue> {
        self.position(name).ok().map(|index| &self.entries()[index].1)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.position(name).is_ok()
    }

    /// Entries in order of their names, each of which is there once.
    pub(crate) fn from_sorted(entries: Entries) -> Attrs {
        debug_assert!(entries.is_sorted_by(|(a, _), (b, _)| a < b));
        Attrs { entries: (!entries.is_empty()).then(|| Arc::new(entries)) }
    }

    /// Sets or replaces an attribute.
    pub fn set(&mut self, name: impl Into<Arc<str>>, value: AttrValue) {
        let name = name.into();
        match self.position(&name) {
            Ok(index) => self.entries_mut()[index].1 = value,
            Err(index) => self.entries_mut().insert(index, (name, value)),
        }
    }

    /// Removes an attribute and returns the value it had.
    pub fn remove(&mut self, name: &str) -> Option<AttrValue> {
        self.position(name).ok().map(|index| self.entries_mut().remove(index).1)
    }

    pub fn len(&self) -> usize {
        self.entries().len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Names and values in order of the names.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Arc<str>, &AttrValue)> {
        self.entries().iter().map(|(name, value)| (name, value))
    }

    /// The attribute `name`.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn require(&self, name: &str) -> Result<&AttrValue> {
        self.get(name).ok_or_else(|| {
            Error::new(Code::NotFound, format!("No attr named '{name}' in NodeDef:"))
        })
    }

    pub fn int(&self, name: &str) -> Result<i64> {
        match self.require(name)? {
            AttrValue::Int(value) => Ok(*value),
            other => Err(other.mismatch(name, "int")),
        }
    }

    pub fn float(&self, name: &str) -> Result<f32> {
        match self.require(name)? {
            AttrValue::Float(value) => Ok(*value),
            other => Err(other.mismatch(name, "float")),
        }
    }

    pub fn bool(&self, name: &str) -> Result<bool> {
        match self.require(name)? {
            AttrValue::Bool(value) => Ok(*value),
            other => Err(other.mismatch(name, "bool")),
        }
    }

    pub fn dtype(&self, name: &str) -> Result<DType> {
        match self.require(name)? {
            AttrValue::Type(value) => Ok(*value),
            other => Err(other.mismatch(name, "type")),
        }
    }

    pub fn bytes(&self, name: &str) -> Result<&[u8]> {
        match self.require(name)? {
            AttrValue::String(value) => Ok(value),
            other => Err(other.mismatch(name, "string")),
        }
    }

    /// A string attribute that must be text.
    pub fn str(&self, name: &str) -> Result<&str> {
        std::str::from_utf8(self.bytes(name)?)
            .map_err(|_| invalid!("The value of attr '{name}' is not valid UTF-8"))
    }

    pub fn shape(&self, name: &str) -> Result<&PartialShape> {
        match self.require(name)? {
            AttrValue::Shape(value) => Ok(value),
            other => Err(other.mismatch(name, "shape")),
        }
    }

    pub fn tensor(&self, name: &str) -> Result<&Arc<TensorAttr>> {
        match self.require(name)? {
            AttrValue::Tensor(value) => Ok(value),
            other => Err(other.mismatch(name, "tensor")),
        }
    }

    pub fn func(&self, name: &str) -> Result<&Func> {
        match self.require(name)? {
            AttrValue::Func(value) => Ok(value),
            other => Err(other.mismatch(name, "func")),
        }
    }

    pub fn ints(&self, name: &str) -> Result<&[i64]> {
        match self.list(name)? {
            AttrList::Empty => Ok(&[]),
            AttrList::Int(list) => Ok(list),
            _ => Err(self.require(name)?.mismatch(name, "list(int)")),
        }
    }

    pub fn floats(&self, name: &str) -> Result<&[f32]> {
        match self.list(name)? {
            AttrList::Empty => Ok(&[]),
            AttrList::Float(list) => Ok(list),
            _ => Err(self.require(name)?.mismatch(name, "list(float)")),
        }
    }

    pub fn bools(&self, name: &str) -> Result<&[bool]> {
        match self.list(name)? {
            AttrList::Empty => Ok(&[]),
            AttrList::Bool(list) => Ok(list),
            _ => Err(self.require(name)?.mismatch(name, "list(bool)")),
        }
    }

    pub fn dtypes(&self, name: &str) -> Result<&[DType]> {
        match self.list(name)? {
            AttrList::Empty => Ok(&[]),
            AttrList::Type(list) => Ok(list),
            _ => Err(self.require(name)?.mismatch(name, "list(type)")),
        }
    }

    pub fn shapes(&self, name: &str) -> Result<&[PartialShape]> {
        match self.list(name)? {
            AttrList::Empty => Ok(&[]),
            AttrList::Shape(list) => Ok(list),
            _ => Err(self.require(name)?.mismatch(name, "list(shape)")),
        }
    }

    pub fn string_list(&self, name: &str) -> Result<&[Arc<[u8]>]> {
        match self.list(name)? {
            AttrList::Empty => Ok(&[]),
            AttrList::String(list) => Ok(list),
            _ => Err(self.require(name)?.mismatch(name, "list(string)")),
        }
    }

    pub fn funcs(&self, name: &str) -> Result<&[Func]> {
        match self.list(name)? {
            AttrList::Empty => Ok(&[]),
            AttrList::Func(list) => Ok(list),
            _ => Err(self.require(name)?.mismatch(name, "list(func)")),
        }
    }

    fn list(&self, name: &str) -> Result<&AttrList> {
        match self.require(name)? {
            AttrValue::List(list) => Ok(list),
            other => Err(other.mismatch(name, "list")),
        }
    }
}

impl AttrValue {
    fn mismatch(&self, name: &str, expected: &str) -> Error {
        match self {
            AttrValue::Raw(raw) if raw.type_name() == expected => raw.error(),
            AttrValue::Raw(raw) if expected == "list" => raw.error(),
            _ => with_suffix(
                mismatch(self.type_name(), expected),
                &format!("\n\t for attr '{name}'"),
            ),
        }
    }
}

/// The error with more text behind its message.
pub(crate) fn with_suffix(error: Error, suffix: &str) -> Error {
    let message = format!("{}{suffix}", error.message());
    error.with_message(message)
}

impl<N: Into<Arc<str>>> FromIterator<(N, AttrValue)> for Attrs {
    fn from_iter<I: IntoIterator<Item = (N, AttrValue)>>(entries: I) -> Attrs {
        let mut attrs = Attrs::new();
        for (name, value) in entries {
            attrs.set(name, value);
        }
        attrs
    }
}

impl fmt::Display for AttrValue {
    /// As messages show it: `DT_FLOAT`, `[1, 2]`, `"text"`, `Tensor<type: float shape: [2] values: 1 2>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttrValue::String(value) => f.write_str(&summarize_string(value)),
            AttrValue::Int(value) => write!(f, "{value}"),
            AttrValue::Float(value) => f.write_str(&format_float(*value)),
            AttrValue::Bool(value) => write!(f, "{value}"),
            AttrValue::Type(value) => f.write_str(&value.enum_name()),
            AttrValue::Shape(value) => f.write_str(&summarize_shape(value)),
            AttrValue::Tensor(value) => f.write_str(&value.summary()),
            AttrValue::Func(value) => f.write_str(&summarize_func(value)),
            AttrValue::Placeholder(value) => write!(f, "${value}"),
            AttrValue::List(value) => value.fmt(f),
            AttrValue::Raw(value) => f.write_str(&value.summary()),
        }
    }
}

impl fmt::Display for AttrList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<String> = match self {
            AttrList::Empty => Vec::new(),
            AttrList::String(list) => list.iter().map(|value| summarize_string(value)).collect(),
            AttrList::Int(list) => list.iter().map(i64::to_string).collect(),
            AttrList::Float(list) => list.iter().map(|&value| format_float(value)).collect(),
            AttrList::Bool(list) => list.iter().map(bool::to_string).collect(),
            AttrList::Type(list) => list.iter().map(|value| value.enum_name()).collect(),
            AttrList::Shape(list) => list.iter().map(summarize_shape).collect(),
            AttrList::Tensor(list) => list.iter().map(|value| value.summary()).collect(),
            AttrList::Func(list) => list.iter().map(summarize_func).collect(),
        };
        // The reference abridges long lists around an ellipsis and a hash; only the hash is its own.
        if items.len() > 50 {
            let (head, tail) = (&items[..5], &items[items.len() - 5..]);
            return write!(f, "[{}, ..., {}]", head.join(", "), tail.join(", "));
        }
        write!(f, "[{}]", items.join(", "))
    }
}

impl fmt::Debug for AttrValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Attrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Strings longer than 80 bytes are abridged to their ends.
fn summarize_string(value: &[u8]) -> String {
    let escaped = escape_bytes(value);
    if escaped.len() > 80 {
        format!("\"{}...{}\"", &escaped[..10], &escaped[escaped.len() - 10..])
    } else {
        format!("\"{escaped}\"")
    }
}

fn summarize_shape(shape: &PartialShape) -> String {
    if shape.rank().is_none() { "<unknown>".to_string() } else { shape.to_string() }
}

fn summarize_func(func: &Func) -> String {
    let attrs: Vec<String> =
        func.attrs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{}[{}]", func.name, attrs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attrs_are_sorted_and_typed() {
        let attrs: Attrs =
            [("b", AttrValue::Int(2)), ("a", AttrValue::ints([1, 2])), ("b", AttrValue::Int(3))]
                .into_iter()
                .collect();
        assert_eq!(attrs.int("b").unwrap(), 3);
        assert_eq!(attrs.ints("a").unwrap(), [1, 2]);
        assert_eq!(attrs.int("c").unwrap_err().code(), Code::NotFound);
        assert!(attrs.float("b").unwrap_err().message().contains("'int' when 'float' expected"));
        assert_eq!(AttrValue::ints([1, 2]).to_string(), "[1, 2]");
        assert_eq!(AttrValue::ints([]).type_name(), "list(any)");
    }
}
