//! `OpDef`: the interface of an op, in the form that building nodes needs.

use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

use tfcore_base::{DType, Result, invalid};

use crate::attr::with_suffix;
use crate::{AttrList, AttrValue, Attrs, Role};

/// The interface of an op or of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct OpDef {
    pub name: Arc<str>,
    pub role: Role,
    /// The name as C sees it; its address is as stable as the definition.
    pub c_name: CString,
    pub inputs: Vec<ArgDef>,
    pub outputs: Vec<ArgDef>,
    pub attrs: Vec<AttrDef>,
    pub control_outputs: Vec<String>,
    pub summary: String,
    pub description: String,
    /// From which producer version on the op is refused, and what to use instead.
    pub deprecation: Option<(i32, String)>,
    pub is_commutative: bool,
    pub is_aggregate: bool,
    pub is_stateful: bool,
    pub allows_uninitialized_input: bool,
    pub is_distributed_communication: bool,
}

/// An input or output of an op: one tensor, or several.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgDef {
    pub name: String,
    pub description: String,
    pub kind: ArgKind,
    /// Whether the tensors are passed by reference, as those of `Variable` are.
    pub is_ref: bool,
}

/// How many tensors an argument stands for, and of which types. Names are those of attrs.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgKind {
    /// `x: float`
    Fixed(DType),
    /// `x: T`
    TypeAttr(Arc<str>),
    /// `x: N * float`
    FixedTimes(DType, Arc<str>),
    /// `x: N * T`
    AttrTimes { dtype: Arc<str>, number: Arc<str> },
    /// `x: Tlist`
    ListAttr(Arc<str>),
}

/// The declaration of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct AttrDef {
    pub name: Arc<str>,
    /// `int`, `list(type)`, ...
    pub type_name: String,
    pub description: String,
    pub default: Option<AttrValue>,
    /// The least value of an int, or the least length of a list.
    pub minimum: Option<i64>,
    /// A list of types or strings.
    pub allowed: Option<AttrValue>,
}

impl ArgDef {
    /// Whether the argument takes a list rather than one tensor.
    pub fn is_list(&self) -> bool {
        !matches!(self.kind, ArgKind::Fixed(_) | ArgKind::TypeAttr(_))
    }

    /// Appends the dtype of each tensor of this argument for a node with `attrs`.
    ///
    /// # Errors
    /// `InvalidArgument` or `NotFound` if an attr is missing, of another type or negative.
    pub fn append_dtypes(&self, attrs: &Attrs, dtypes: &mut Vec<DType>) -> Result<()> {
        let mark = |dtype: DType| if self.is_ref { dtype.make_ref() } else { dtype };
        let repeat = |dtypes: &mut Vec<DType>, dtype: DType, number: &str| {
            let count = attrs.int(number)?;
            let count = usize::try_from(count).ok().filter(|&count| count <= MAX_LIST).ok_or_else(
                || {
                    invalid!(
                        "Value for number_attr {number} must be within [0, {MAX_LIST}], got {count}"
                    )
                },
            )?;
            dtypes.extend(std::iter::repeat_n(mark(dtype), count));
            Ok(())
        };
        match &self.kind {
            ArgKind::Fixed(dtype) => dtypes.push(mark(*dtype)),
            ArgKind::TypeAttr(attr) => dtypes.push(mark(attrs.dtype(attr)?)),
            ArgKind::FixedTimes(dtype, number) => repeat(dtypes, *dtype, number)?,
            ArgKind::AttrTimes { dtype, number } => repeat(dtypes, attrs.dtype(dtype)?, number)?,
            ArgKind::ListAttr(attr) => {
                dtypes.extend(attrs.dtypes(attr)?.iter().map(|&dtype| mark(dtype)))
            }
        }
        Ok(())
    }

    /// How many tensors the argument has for a node with `attrs`.
    pub fn len(&self, attrs: &Attrs) -> Result<usize> {
        let mut dtypes = Vec::new();
        self.append_dtypes(attrs, &mut dtypes)?;
        Ok(dtypes.len())
    }
}

/// No node has lists longer than this; a hostile number attr must not exhaust the memory.
const MAX_LIST: usize = 1 << 20;

impl OpDef {
    /// The declaration of attr `name`.
    pub fn attr(&self, name: &str) -> Option<&AttrDef> {
        self.attrs.iter().find(|attr| &*attr.name == name)
    }

    pub fn input_dtypes(&self, attrs: &Attrs) -> Result<Vec<DType>> {
        all_dtypes(&self.inputs, attrs)
    }

    pub fn output_dtypes(&self, attrs: &Attrs) -> Result<Vec<DType>> {
        all_dtypes(&self.outputs, attrs)
    }

    /// The tensors of input argument `name`, as a range of input indices.
    pub fn input_range(&self, name: &str, attrs: &Attrs) -> Result<std::ops::Range<usize>> {
        arg_range(&self.inputs, name, attrs)
            .ok_or_else(|| invalid!("Input arg '{name}' not found"))?
    }

    /// The tensors of output argument `name`, as a range of output indices.
    pub fn output_range(&self, name: &str, attrs: &Attrs) -> Result<std::ops::Range<usize>> {
        arg_range(&self.outputs, name, attrs)
            .ok_or_else(|| invalid!("Output arg '{name}' not found"))?
    }

    /// Adds the defaults of attrs that a node leaves out.
    pub fn add_defaults(&self, attrs: &mut Attrs) {
        for attr in &self.attrs {
            if let Some(default) = &attr.default
                && !attrs.contains(&attr.name)
            {
                attrs.set(attr.name.clone(), default.clone());
            }
        }
    }
}

fn all_dtypes(args: &[ArgDef], attrs: &Attrs) -> Result<Vec<DType>> {
    let mut dtypes = Vec::with_capacity(args.len());
    for arg in args {
        arg.append_dtypes(attrs, &mut dtypes)?;
    }
    Ok(dtypes)
}

fn arg_range(args: &[ArgDef], name: &str, attrs: &Attrs) -> Option<Result<std::ops::Range<usize>>> {
    let position = args.iter().position(|arg| arg.name == name)?;
    let range = || {
        let start = all_dtypes(&args[..position], attrs)?.len();
        Ok(start..start + args[position].len(attrs)?)
    };
    Some(range())
}

impl AttrDef {
    /// Checks a value against the declared type, minimum and allowed values.
    ///
    /// # Errors
    /// `InvalidArgument` with the reference's text.
    pub fn check(&self, value: &AttrValue) -> Result<()> {
        value
            .check_type(&self.type_name)
            .map_err(|error| with_suffix(error, &format!("\n\t for attr '{}'", self.name)))?;
        if matches!(value, AttrValue::Placeholder(_)) {
            return Ok(());
        }
        if let Some(minimum) = self.minimum {
            match value {
                AttrValue::Int(number) if *number < minimum => {
                    return Err(invalid!(
                        "Value for attr '{}' of {number} must be at least minimum {minimum}",
                        self.name
                    ));
                }
                AttrValue::List(list) if (list.len() as i64) < minimum => {
                    return Err(invalid!(
                        "Length for attr '{}' of {} must be at least minimum {minimum}",
                        self.name,
                        list.len()
                    ));
                }
                _ => {}
            }
        }
        match &self.allowed {
            Some(AttrValue::List(allowed)) => self.check_allowed(value, allowed),
            _ => Ok(()),
        }
    }

    fn check_allowed(&self, value: &AttrValue, allowed: &AttrList) -> Result<()> {
        let check_type = |dtype: &DType| match allowed {
            AttrList::Type(types) if !types.contains(dtype) => {
                let names: Vec<String> = types.iter().map(|dtype| dtype.name()).collect();
                Err(invalid!(
                    "Value for attr '{}' of {dtype} is not in the list of allowed values: {}",
                    self.name,
                    names.join(", ")
                ))
            }
            _ => Ok(()),
        };
        let check_string = |text: &Arc<[u8]>| match allowed {
            AttrList::String(strings) if !strings.contains(text) => {
                let names: Vec<String> = strings
                    .iter()
                    .map(|text| format!("\"{}\"", String::from_utf8_lossy(text)))
                    .collect();
                Err(invalid!(
                    "Value for attr '{}' of \"{}\" is not in the list of allowed values: {}",
                    self.name,
                    String::from_utf8_lossy(text),
                    names.join(", ")
                ))
            }
            _ => Ok(()),
        };
        match value {
            AttrValue::Type(dtype) => check_type(dtype),
            AttrValue::String(text) => check_string(text),
            AttrValue::List(list) => match &**list {
                AttrList::Type(types) => types.iter().try_for_each(check_type),
                AttrList::String(strings) => strings.iter().try_for_each(check_string),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl fmt::Display for OpDef {
    /// The signature in messages: `Op<name=Neg; signature=x:T -> y:T; attr=T:type,allowed=[DT_FLOAT]>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args =
            |args: &[ArgDef]| args.iter().map(ArgDef::to_string).collect::<Vec<_>>().join(", ");
        write!(
            f,
            "Op<name={}; signature={} -> {}",
            self.name,
            args(&self.inputs),
            args(&self.outputs)
        )?;
        for attr in &self.attrs {
            write!(f, "; attr={attr}")?;
        }
        if self.is_commutative {
            f.write_str("; is_commutative=true")?;
        }
        if self.is_aggregate {
            f.write_str("; is_aggregate=true")?;
        }
        if self.is_stateful {
            f.write_str("; is_stateful=true")?;
        }
        if self.allows_uninitialized_input {
            f.write_str("; allows_uninitialized_input=true")?;
        }
        if self.is_distributed_communication {
            f.write_str("; is_distributed_communication=true")?;
        }
        f.write_str(">")
    }
}

impl fmt::Display for ArgDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.is_ref { ("Ref(", ")") } else { ("", "") };
        write!(f, "{}:{open}", self.name)?;
        match &self.kind {
            ArgKind::Fixed(dtype) => write!(f, "{dtype}")?,
            ArgKind::TypeAttr(attr) => write!(f, "{attr}")?,
            // TensorFlow's messages leave the type of such arguments out.
            ArgKind::ListAttr(_) => {}
            ArgKind::FixedTimes(dtype, number) => write!(f, "{number}*{dtype}")?,
            ArgKind::AttrTimes { dtype, number } => write!(f, "{number}*{dtype}")?,
        }
        f.write_str(close)
    }
}

impl fmt::Display for AttrDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.type_name)?;
        if let Some(default) = &self.default {
            write!(f, ",default={default}")?;
        }
        if let Some(minimum) = self.minimum {
            write!(f, ",min={minimum}")?;
        }
        if let Some(allowed) = &self.allowed {
            write!(f, ",allowed={allowed}")?;
        }
        Ok(())
    }
}
