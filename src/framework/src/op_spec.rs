//! `OpSpec`: an op definition from the strings that op registrations are written in.
//!
//! The library's own table and ops that clients define at run time go through the same parser.

use std::collections::HashSet;
use std::ffi::CString;
use std::sync::Arc;

use tfcore_base::{DType, Result, invalid};

use crate::spec_reader::Reader;
use crate::{ArgDef, ArgKind, AttrDef, AttrValue, OpDef};

/// Collects what an op definition is made of; [`OpSpec::finalize`] parses and checks it.
#[derive(Debug, Clone, Default)]
pub struct OpSpec {
    name: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    attrs: Vec<String>,
    control_outputs: Vec<String>,
    doc: String,
    deprecation: Option<(i32, String)>,
    is_commutative: bool,
    is_aggregate: bool,
    is_stateful: bool,
    allows_uninitialized_input: bool,
    is_distributed_communication: bool,
}

impl OpSpec {
    pub fn new(name: impl Into<String>) -> OpSpec {
        OpSpec { name: name.into(), ..OpSpec::default() }
    }

    /// `x: T`, `x: float`, `x: N * T`, `x: Tlist`, `x: Ref(T)`
    #[must_use]
    pub fn input(mut self, spec: impl Into<String>) -> OpSpec {
        self.inputs.push(spec.into());
        self
    }

    /// As [`OpSpec::input`].
    #[must_use]
    pub fn output(mut self, spec: impl Into<String>) -> OpSpec {
        self.outputs.push(spec.into());
        self
    }

    /// `T: {float, int32} = DT_FLOAT`, `N: int >= 1`, `s: list(string) = ['a']`
    #[must_use]
    pub fn attr(mut self, spec: impl Into<String>) -> OpSpec {
        self.attrs.push(spec.into());
        self
    }

    #[must_use]
    pub fn control_output(mut self, name: impl Into<String>) -> OpSpec {
        self.control_outputs.push(name.into());
        self
    }

    #[must_use]
    pub fn doc(mut self, text: impl Into<String>) -> OpSpec {
        self.doc = text.into();
        self
    }

    /// Refused in graphs of producers from `version` on.
    #[must_use]
    pub fn deprecated(mut self, version: i32, explanation: impl Into<String>) -> OpSpec {
        self.deprecation = Some((version, explanation.into()));
        self
    }

    /// Sets the flag called `name`: `stateful`, `commutative`, `aggregate`,
    /// `allows_uninitialized_input` or `distributed_communication`.
    ///
    /// # Errors
    /// `InvalidArgument` for any other name.
    pub fn set_flag(&mut self, name: &str) -> Result<()> {
        *match name {
            "stateful" => &mut self.is_stateful,
            "commutative" => &mut self.is_commutative,
            "aggregate" => &mut self.is_aggregate,
            "allows_uninitialized_input" => &mut self.allows_uninitialized_input,
            "distributed_communication" => &mut self.is_distributed_communication,
            _ => return Err(invalid!("Unknown op flag '{name}'")),
        } = true;
        Ok(())
    }

    /// The definition.
    ///
    /// # Errors
    /// `InvalidArgument` naming the op and the spec that is wrong.
    pub fn finalize(self) -> Result<OpDef> {
        let name = self.name.clone();
        self.parse().map_err(|error| {
            let message = format!("{} (op '{name}')", error.message());
            error.with_message(message)
        })
    }

    fn parse(self) -> Result<OpDef> {
        let mut chars = self.name.chars();
        let valid = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '>'));
        if !valid {
            return Err(invalid!("Invalid name: {} (Did you use CamelCase?)", self.name));
        }
        let mut attrs: Vec<AttrDef> = self
            .attrs
            .iter()
            .map(|spec| in_spec("Attr", spec, parse_attr(spec)))
            .collect::<Result<_>>()?;
        let mut names = HashSet::new();
        for attr in &attrs {
            if !names.insert(attr.name.to_string()) {
                return Err(invalid!("Duplicate name: {}", attr.name));
            }
        }
        let mut parse_args = |specs: &[String], what: &str| -> Result<Vec<ArgDef>> {
            let mut args = Vec::with_capacity(specs.len());
            for spec in specs {
                let arg = in_spec(what, spec, parse_arg(spec, &mut attrs))?;
                if !names.insert(arg.name.clone()) {
                    return Err(invalid!("Duplicate name: {}", arg.name));
                }
                args.push(arg);
            }
            Ok(args)
        };
        let inputs = parse_args(&self.inputs, "Input")?;
        // An input and an output may not share a name, but an output may be called like nothing else.
        let outputs = parse_args(&self.outputs, "Output")?;
        let c_name = CString::new(self.name.as_str()).expect("the name is made of ASCII letters");
        let (summary, description) = split_doc(&self.doc);
        Ok(OpDef {
            name: self.name.into(),
            c_name,
            inputs,
            outputs,
            attrs,
            control_outputs: self.control_outputs,
            summary,
            description,
            deprecation: self.deprecation,
            is_commutative: self.is_commutative,
            is_aggregate: self.is_aggregate,
            is_stateful: self.is_stateful,
            allows_uninitialized_input: self.allows_uninitialized_input,
            is_distributed_communication: self.is_distributed_communication,
        })
    }
}

fn in_spec<T>(what: &str, spec: &str, result: Result<T>) -> Result<T> {
    result.map_err(|error| {
        let message = format!("{} from {what}(\"{spec}\")", error.message());
        error.with_message(message)
    })
}

/// The first line of a doc is the summary, what follows the description.
fn split_doc(doc: &str) -> (String, String) {
    let (summary, description) = doc.trim().split_once('\n').unwrap_or((doc.trim(), ""));
    (summary.trim().to_string(), description.trim().to_string())
}

/// Parses `name: type >= minimum = default`.
fn parse_attr(spec: &str) -> Result<AttrDef> {
    let mut reader = Reader::new(spec);
    let name = reader.identifier()?;
    reader.expect(":")?;
    let is_list = reader.accept_word("list");
    if is_list {
        reader.expect("(")?;
    }
    let (type_name, allowed) = attr_type(&mut reader)?;
    if is_list {
        reader.expect(")")?;
    }
    let type_name = if is_list { format!("list({type_name})") } else { type_name };
    let mut minimum = None;
    if reader.accept(">=") {
        if type_name != "int" && !is_list {
            return Err(invalid!("A minimum is for int and list attrs, not '{type_name}'"));
        }
        minimum = Some(reader.integer()?);
    }
    let default = if reader.accept("=") { Some(reader.attr_value(&type_name)?) } else { None };
    reader.expect_end()?;
    let attr = AttrDef {
        name: name.into(),
        type_name,
        description: String::new(),
        default,
        minimum,
        allowed,
    };
    if let Some(default) = &attr.default {
        attr.check(default)?;
    }
    Ok(attr)
}

/// The type of an attr or of the items of a list, and the values that it may have.
fn attr_type(reader: &mut Reader<'_>) -> Result<(String, Option<AttrValue>)> {
    if reader.accept("{") {
        if reader.at_quote() {
            let mut items = Vec::new();
            loop {
                items.push(reader.string()?);
                if !reader.accept(",") {
                    break;
                }
                if reader.accept("}") {
                    return Ok(("string".into(), Some(AttrValue::strings(items))));
                }
            }
            reader.expect("}")?;
            return Ok(("string".into(), Some(AttrValue::strings(items))));
        }
        let mut types: Vec<DType> = Vec::new();
        while !reader.accept("}") {
            let word = reader.word()?;
            match type_set(word) {
                Some(set) => types.extend(set),
                None => types.push(
                    DType::from_name(word).ok_or_else(|| invalid!("Unrecognized type '{word}'"))?,
                ),
            }
            if !reader.accept(",") {
                reader.expect("}")?;
                break;
            }
        }
        return Ok(("type".into(), Some(AttrValue::types(types))));
    }
    let word = reader.word()?;
    match word {
        "string" | "int" | "float" | "bool" | "type" | "shape" | "tensor" | "func" => {
            Ok((word.into(), None))
        }
        _ => match type_set(word) {
            Some(set) => Ok(("type".into(), Some(AttrValue::types(set)))),
            None => Err(invalid!("Unrecognized attr type '{word}'")),
        },
    }
}

/// The members of a set that has a name, in order of their numbers.
fn type_set(name: &str) -> Option<Vec<DType>> {
    let is_number = |dtype: DType| {
        dtype.is_integer() || dtype.is_float() || dtype.is_complex() || dtype.is_quantized()
    };
    let is_member: &dyn Fn(DType) -> bool = match name {
        "numbertype" | "numerictype" => &is_number,
        "realnumbertype" => &|dtype| dtype.is_integer() || dtype.is_float(),
        "quantizedtype" => &|dtype| dtype.is_quantized(),
        _ => return None,
    };
    Some(DType::ALL.iter().copied().filter(|&dtype| is_member(dtype)).collect())
}

/// Parses `name: T`, `name: N * T` and `name: Ref(...)`. A number attr and a type list that declare no
/// minimum get 1.
fn parse_arg(spec: &str, attrs: &mut [AttrDef]) -> Result<ArgDef> {
    // What follows ` as ` is the full type of the output, which only the compiler of functions reads.
    let spec = spec.split_once(" as ").map_or(spec, |(spec, _)| spec);
    let mut reader = Reader::new(spec);
    let name = reader.identifier()?;
    reader.expect(":")?;
    let is_ref = reader.accept_word("Ref");
    if is_ref {
        reader.expect("(")?;
    }
    let first = reader.word()?;
    let (number, type_name) =
        if reader.accept("*") { (Some(first), reader.word()?) } else { (None, first) };
    if is_ref {
        reader.expect(")")?;
    }
    reader.expect_end()?;
    let number = match number {
        None => None,
        Some(number) => Some(at_least_one(number, "int", attrs)?),
    };
    let kind = match (DType::from_name(type_name), number) {
        (Some(dtype), None) => ArgKind::Fixed(dtype),
        (Some(dtype), Some(number)) => ArgKind::FixedTimes(dtype, number),
        (None, number) => {
            let attr = attrs
                .iter()
                .find(|attr| &*attr.name == type_name)
                .ok_or_else(|| invalid!("Reference to unknown attr '{type_name}'"))?;
            match (&*attr.type_name, number) {
                ("type", None) => ArgKind::TypeAttr(attr.name.clone()),
                ("type", Some(number)) => ArgKind::AttrTimes { dtype: attr.name.clone(), number },
                ("list(type)", None) => {
                    ArgKind::ListAttr(at_least_one(type_name, "list(type)", attrs)?)
                }
                (other, _) => {
                    return Err(invalid!(
                        "Reference to attr '{type_name}' with type {other} that isn't type or list(type)"
                    ));
                }
            }
        }
    };
    Ok(ArgDef { name, description: String::new(), kind, is_ref })
}

fn at_least_one(name: &str, type_name: &str, attrs: &mut [AttrDef]) -> Result<Arc<str>> {
    let attr = attrs
        .iter_mut()
        .find(|attr| &*attr.name == name)
        .ok_or_else(|| invalid!("Reference to unknown attr '{name}'"))?;
    if attr.type_name != type_name {
        return Err(invalid!(
            "Reference to attr '{name}' with type {} that isn't {type_name}",
            attr.type_name
        ));
    }
    attr.minimum.get_or_insert(1);
    Ok(attr.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_becomes_a_definition() {
        let mut spec = OpSpec::new("Foo")
            .input("x: T")
            .input("rest: N * int32")
            .input("any: Tany")
            .output("y: Ref(T)")
            .attr("T: {float, int32} = DT_FLOAT")
            .attr("N: int")
            .attr("Tany: list(type) >= 0")
            .attr("mode: {'A', 'B'} = 'A'")
            .attr("sizes: list(int) = [1, -2]")
            .attr("shape: shape = { dim { size: 2 } dim { size: -1 } }")
            .attr("f: float = 0.5");
        spec.set_flag("stateful").unwrap();
        let text = spec.finalize().unwrap().to_string();
        assert_eq!(
            text,
            "Op<name=Foo; signature=x:T, rest:N*int32, any:Tany -> y:Ref(T); \
             attr=T:type,default=DT_FLOAT,allowed=[DT_FLOAT, DT_INT32]; attr=N:int,min=1; \
             attr=Tany:list(type),min=0; attr=mode:string,default=\"A\",allowed=[\"A\", \"B\"]; \
             attr=sizes:list(int),default=[1, -2]; attr=shape:shape,default=[2,?]; \
             attr=f:float,default=0.5; is_stateful=true>"
        );
    }

    #[test]
    fn mistakes_are_errors() {
        let cases = [
            OpSpec::new("9"),
            OpSpec::new("A").input("x"),
            OpSpec::new("A").input("x: T"),
            OpSpec::new("A").input("x: float").input("x: int32"),
            OpSpec::new("A").attr("T: nonsense"),
            OpSpec::new("A").attr("T: int = 'a'"),
            OpSpec::new("A").attr("T: int >= 3 = 2"),
            OpSpec::new("A").attr("T: type >= 1"),
            OpSpec::new("A").attr("T: {float} = DT_INT32"),
            OpSpec::new("A").attr("T: int").input("x: T"),
            OpSpec::new("A").attr("T: type").input("x: T * float"),
            OpSpec::new("A").attr("s: shape = { dim { dim {"),
        ];
        for spec in cases {
            assert!(spec.clone().finalize().is_err(), "{spec:?}");
        }
    }

    #[test]
    fn damaged_specs_never_panic() {
        let spec = b"s: list({'a', \"b\\n\"}) >= 1 = ['a', 'b'] { dim { size: 2 } } [1.5e3, -7]";
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut bytes = spec.to_vec();
            for _ in 0..3 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let position = (state >> 33) as usize % bytes.len();
                bytes[position] = (state >> 25) as u8;
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let _ = OpSpec::new("A").attr(text.clone()).input(text).finalize();
        }
    }
}
