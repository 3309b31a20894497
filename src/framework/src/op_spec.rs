//! `OpSpec`: an op definition from the strings that op registrations are written in.
//!
//! The library's own table and ops that clients define at run time go through the same parser.

use std::collections::HashSet;
use std::ffi::CString;
use std::sync::Arc;

use tfcore_base::{DType, Error, Result, invalid, require};

use crate::attr::with_suffix;
use crate::spec_reader::Reader;
use crate::{ArgDef, ArgKind, AttrDef, AttrValue, OpDef, Role};

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

    pub fn name(&self) -> &str {
        &self.name
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
    /// `InvalidArgument` naming the op and what is wrong: a spec, a name, or a default that its own attr
    /// does not allow.
    pub fn finalize(self) -> Result<OpDef> {
        if !is_op_name(&self.name) {
            return Err(invalid!("Invalid name: {} (Did you use CamelCase?)", self.name));
        }
        let in_spec = |what: &str, spec: &str, error: Error| {
            let suffix = format!(" from {what}(\"{spec}\") for Op {}", self.name);
            with_suffix(error, &suffix)
        };
        let mut attrs = Vec::with_capacity(self.attrs.len());
        for spec in &self.attrs {
            attrs.push(parse_attr(spec).map_err(|error| in_spec("Attr", spec, error))?);
        }
        let mut parse_args = |specs: &[String], what: &str| -> Result<Vec<ArgDef>> {
            let parse = |spec: &String| {
                parse_arg(spec, &mut attrs).map_err(|error| in_spec(what, spec, error))
            };
            specs.iter().map(parse).collect()
        };
        let inputs = parse_args(&self.inputs, "Input")?;
        let outputs = parse_args(&self.outputs, "Output")?;
        check_names(&attrs, inputs.iter().chain(&outputs))?;
        for attr in &attrs {
            let suffix = format!("\n\t in Op '{}'", self.name);
            check_attr(attr).map_err(|error| with_suffix(error, &suffix))?;
        }
        // Who holds a handle can change what it stands for.
        let takes_handle =
            inputs.iter().any(|input| matches!(input.kind, ArgKind::Fixed(DType::RESOURCE)));
        let c_name = CString::new(self.name.as_str()).expect("an op's name has no NUL");
        let (summary, description) = split_doc(&self.doc);
        Ok(OpDef {
            role: Role::of_op(&self.name),
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
            is_stateful: self.is_stateful || takes_handle,
            allows_uninitialized_input: self.allows_uninitialized_input,
            is_distributed_communication: self.is_distributed_communication,
        })
    }
}

/// `MatMul`, `Namespace>Op`; `_send` for the library's internal ones.
fn is_op_name(name: &str) -> bool {
    let is_word = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_camel = |part: &str| is_word(part) && part.starts_with(|c: char| c.is_ascii_uppercase());
    let mut parts = name.split('>');
    let head = parts.next().unwrap_or_default();
    (is_camel(head) || (is_word(head) && head.starts_with('_'))) && parts.all(is_camel)
}

fn check_names<'a>(attrs: &[AttrDef], args: impl Iterator<Item = &'a ArgDef>) -> Result<()> {
    let mut names = HashSet::new();
    let all = attrs.iter().map(|attr| &*attr.name).chain(args.map(|arg| &*arg.name));
    for name in all {
        require!(names.insert(name.to_string()), "Duplicate name: {name}");
    }
    Ok(())
}

/// Checks a declaration with its minimum, which arguments may have set.
fn check_attr(attr: &AttrDef) -> Result<()> {
    if attr.type_name.starts_with("list(")
        && let Some(minimum) = attr.minimum
    {
        require!(
            minimum >= 0,
            "Attr '{}' with list type must have a non-negative minimum, not {minimum}",
            attr.name
        );
    }
    attr.default.as_ref().map_or(Ok(()), |default| attr.check(default))
}

/// The first line of a doc is the summary, what follows the description.
fn split_doc(doc: &str) -> (String, String) {
    let (summary, description) = doc.trim().split_once('\n').unwrap_or((doc.trim(), ""));
    (summary.trim().to_string(), description.trim().to_string())
}

/// Parses `name: type >= minimum = default`.
fn parse_attr(spec: &str) -> Result<AttrDef> {
    let mut reader = Reader::new(spec);
    let name = (!spec.starts_with(char::is_whitespace))
        .then(|| reader.word())
        .flatten()
        .filter(|_| reader.accept(":"))
        .ok_or_else(|| invalid!("Trouble parsing '<name>:'"))?;
    let is_list = reader.accept_call("list");
    let (item_type, allowed) = attr_type(&mut reader)?;
    if is_list && !reader.accept(")") {
        return Err(invalid!("Expected ) to close 'list(', not: '{}'", reader.rest()));
    }
    let type_name = if is_list { format!("list({item_type})") } else { item_type.to_string() };
    let mut minimum = None;
    if (type_name == "int" || is_list) && reader.accept(">=") {
        let text = reader.rest();
        minimum = Some(reader.integer().ok_or_else(|| {
            invalid!("Could not parse integer lower limit after '>=', found '{text}' instead")
        })?);
    }
    let mut default = None;
    if reader.accept("=") {
        let text = reader.rest();
        let value = Reader::new(text).attr_value(&type_name);
        default = Some(value.ok_or_else(|| invalid!("Could not parse default value '{text}'"))?);
        reader = Reader::new("");
    }
    check_end(&mut reader)?;
    Ok(AttrDef {
        name: name.into(),
        type_name,
        description: String::new(),
        default,
        minimum,
        allowed,
    })
}

fn check_end(reader: &mut Reader<'_>) -> Result<()> {
    let rest = reader.rest();
    require!(rest.is_empty(), "Extra '{rest}' unparsed at the end");
    Ok(())
}

/// The type of an attr or of the items of a list, and the values that it may have.
fn attr_type(reader: &mut Reader<'_>) -> Result<(&'static str, Option<AttrValue>)> {
    const TYPES: [&str; 8] = ["string", "int", "float", "bool", "type", "shape", "tensor", "func"];
    if reader.accept("{") {
        return match reader.at_quote() {
            true => Ok(("string", Some(allowed_strings(reader)?))),
            false => Ok(("type", Some(allowed_types(reader)?))),
        };
    }
    let text = reader.rest();
    let word = reader.word().unwrap_or_default();
    match TYPES.into_iter().find(|&name| name == word) {
        Some(name) => Ok((name, None)),
        None => match type_set(word) {
            Some(set) => Ok(("type", Some(AttrValue::types(set)))),
            None => Err(invalid!("Trouble parsing type string at '{text}'")),
        },
    }
}

/// `'a', 'b'}`
fn allowed_strings(reader: &mut Reader<'_>) -> Result<AttrValue> {
    let mut strings = Vec::new();
    while !reader.accept("}") {
        let text = reader.rest();
        strings
            .push(reader.string().ok_or_else(|| invalid!("Trouble parsing string at '{text}'"))?);
        if !reader.accept(",") && !reader.at("}") {
            return Err(invalid!(
                "Expected , or }} after strings in list, not: '{}'",
                reader.rest()
            ));
        }
    }
    Ok(AttrValue::strings(strings))
}

/// `float, realnumbertype}`
fn allowed_types(reader: &mut Reader<'_>) -> Result<AttrValue> {
    let mut types: Vec<DType> = Vec::new();
    loop {
        let text = reader.rest();
        let word =
            reader.word().ok_or_else(|| invalid!("Trouble parsing type string at '{text}'"))?;
        match (type_set(word), dtype(word)) {
            (Some(set), _) => types.extend(set),
            (None, Some(dtype)) => types.push(dtype),
            (None, None) => return Err(invalid!("Unrecognized type string '{word}'")),
        }
        let goes_on = reader.accept(",");
        if reader.accept("}") {
            return Ok(AttrValue::types(types));
        }
        if !goes_on {
            return Err(invalid!("Expected , or }} after types in list, not: '{}'", reader.rest()));
        }
    }
}

/// The type that is called so in op definitions: `float`, not `DT_FLOAT`.
fn dtype(name: &str) -> Option<DType> {
    DType::from_name(name).filter(|_| !name.starts_with("DT_"))
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
    let mut reader = Reader::new(spec);
    let name = (!spec.starts_with(char::is_whitespace))
        .then(|| reader.word())
        .flatten()
        .filter(|word| !word.contains(|c: char| c.is_ascii_uppercase()) && reader.accept(":"))
        .ok_or_else(|| invalid!("Trouble parsing 'name:'"))?;
    let is_ref = reader.accept_call("Ref");
    let mut type_name = type_or_attr(&mut reader)?;
    let mut number = None;
    if reader.accept("*") {
        number = Some(number_attr(type_name, name, attrs)?);
        type_name = type_or_attr(&mut reader)?;
    }
    let kind = arg_kind(type_name, number, name, attrs)?;
    if is_ref && !reader.accept(")") {
        return Err(invalid!(
            "Did not find closing ')' for 'Ref(', instead found: '{}'",
            reader.rest()
        ));
    }
    check_end(&mut reader)?;
    Ok(ArgDef { name: name.to_string(), description: String::new(), kind, is_ref })
}

fn type_or_attr<'a>(reader: &mut Reader<'a>) -> Result<&'a str> {
    let text = reader.rest();
    let word = reader.word();
    word.ok_or_else(|| invalid!("Trouble parsing either a type or an attr name at '{text}'"))
}

fn arg_kind(
    type_name: &str,
    number: Option<Arc<str>>,
    arg: &str,
    attrs: &mut [AttrDef],
) -> Result<ArgKind> {
    if let Some(dtype) = dtype(type_name) {
        require!(
            !dtype.is_ref(),
            "Illegal use of ref type '{dtype}'. Use 'Ref(type)' instead for input '{arg}'"
        );
        return Ok(match number {
            None => ArgKind::Fixed(dtype),
            Some(number) => ArgKind::FixedTimes(dtype, number),
        });
    }
    let attr = find_attr(type_name, attrs)?;
    match (&*attr.type_name, number) {
        ("type", None) => Ok(ArgKind::TypeAttr(attr.name.clone())),
        ("type", Some(number)) => Ok(ArgKind::AttrTimes { dtype: attr.name.clone(), number }),
        ("list(type)", None) => {
            attr.minimum.get_or_insert(1);
            Ok(ArgKind::ListAttr(attr.name.clone()))
        }
        ("list(type)", Some(_)) => {
            Err(invalid!("Can't have both number_attr and type_list_attr for input '{arg}'"))
        }
        (other, _) => Err(invalid!(
            "Reference to attr '{type_name}' with type {other} that isn't type or list(type)"
        )),
    }
}

fn number_attr(name: &str, arg: &str, attrs: &mut [AttrDef]) -> Result<Arc<str>> {
    let attr = find_attr(name, attrs)?;
    require!(
        attr.type_name == "int",
        "Attr '{name}' used as length for input '{arg}' has type {} != int",
        attr.type_name
    );
    let minimum = attr.minimum.get_or_insert(1);
    require!(
        *minimum >= 0,
        "Attr '{name}' used as length for input '{arg}' must have minimum >= 0"
    );
    Ok(attr.name.clone())
}

fn find_attr<'a>(name: &str, attrs: &'a mut [AttrDef]) -> Result<&'a mut AttrDef> {
    attrs
        .iter_mut()
        .find(|attr| &*attr.name == name)
        .ok_or_else(|| invalid!("Reference to unknown attr '{name}'"))
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
            .input("more : N*T")
            .output("y: Ref(T)")
            .output("z: Ref (M * float32)")
            .attr("T: {float, int32} = DT_FLOAT")
            .attr("N:int")
            .attr("M: int >= 0")
            .attr("Tany: list(type) >= 0")
            .attr("mode: {'A', 'B',} = 'A'")
            .attr("sizes: list (int)>=2 = [1, -2]");
        spec.set_flag("stateful").unwrap();
        let text = spec.finalize().unwrap().to_string();
        assert_eq!(
            text,
            "Op<name=Foo; signature=x:T, rest:N*int32, any:, more:N*T -> y:Ref(T), \
             z:Ref(M*float); attr=T:type,default=DT_FLOAT,allowed=[DT_FLOAT, DT_INT32]; \
             attr=N:int,min=1; attr=M:int,min=0; attr=Tany:list(type),min=0; \
             attr=mode:string,default=\"A\",allowed=[\"A\", \"B\"]; \
             attr=sizes:list(int),default=[1, -2],min=2; is_stateful=true>"
        );
        let reader = OpSpec::new("Foo").input("x: resource").finalize().unwrap();
        assert!(reader.is_stateful);
    }

    #[test]
    fn every_type_has_defaults() {
        let cases = [
            ("string = 'it\\'s'", "\"it\\'s\""),
            ("string = \"x\\x41\\101\\n\"", "\"xAA\\n\""),
            ("string = ''", "\"\""),
            ("int = +3", "3"),
            ("float = -.5", "-0.5"),
            ("float = 1e400", "inf"),
            ("float = nan", "nan"),
            ("bool = true", "true"),
            ("bool = 0", "false"),
            ("type = DT_INT64", "DT_INT64"),
            ("type = 3", "DT_INT32"),
            ("shape = { dim { size: 2 } dim { size: -1 } }", "[2,?]"),
            ("shape = {dim:[{size:2},{size:3 name:'x'}]}", "[2,3]"),
            ("shape = { unknown_rank: true }", "<unknown>"),
            ("shape = { }", "[]"),
            (
                "tensor = { dtype: DT_UINT8 tensor_shape { dim { size: 4 } } int_val: [255, 0, 0, 7] }",
                "Tensor<type: uint8 shape: [4] values: 255 0 0...>",
            ),
            (
                "tensor = {dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: 1 float_val: -inf}",
                "Tensor<type: float shape: [2] values: 1 -inf>",
            ),
            ("func = { name: 'f' attr { key: 'T' value { type: DT_FLOAT } } }", "f[T=DT_FLOAT]"),
            ("func = {name: 'f' attr: {key: 'n' value: {list {i: 1 i: 2}}}}", "f[n=[1, 2]]"),
            ("list(string) = ['a,b', \"c\"]", "[\"a,b\", \"c\"]"),
            ("list(int) = [ ]", "[]"),
            ("list(float) = [1, 2.5]", "[1, 2.5]"),
            ("list(bool) = [true, false]", "[true, false]"),
            ("list(type) = [DT_FLOAT, 3]", "[DT_FLOAT, DT_INT32]"),
            ("list(shape) = [{dim{size:2}}, {unknown_rank:true}]", "[[2], <unknown>]"),
            (
                "list(tensor) = [{dtype: DT_INT32 int_val: 5}]",
                "[Tensor<type: int32 shape: [] values: 5>]",
            ),
            ("list(func) = [{name:'f'}, {name:'g'}]", "[f[], g[]]"),
            ("list({'x', 'y'}) = ['x']", "[\"x\"]"),
        ];
        for (spec, text) in cases {
            let def = OpSpec::new("A").attr(format!("a: {spec}")).finalize().unwrap();
            assert_eq!(def.attrs[0].default.as_ref().unwrap().to_string(), text, "{spec}");
        }
    }

    #[test]
    fn op_names() {
        for name in ["A", "Foo", "_Foo", "_foo", "__Foo", "_", "_9", "Ns>Foo", "A>B>C", "A_"] {
            assert!(OpSpec::new(name).finalize().is_ok(), "{name}");
        }
        for name in ["", "9", "abc", "Foo bar", "Foo>", ">Foo", "Ns>foo", "Ns>_Foo", "A>>B", "F.o"]
        {
            assert!(OpSpec::new(name).finalize().is_err(), "{name}");
        }
    }

    #[test]
    fn mistakes_in_args_are_named() {
        let cases = [
            ("x", "Trouble parsing 'name:'"),
            ("X: float", "Trouble parsing 'name:'"),
            ("_x: float", "Trouble parsing 'name:'"),
            (" x: float", "Trouble parsing 'name:'"),
            ("x: U", "Reference to unknown attr 'U'"),
            ("x: DT_FLOAT", "Reference to unknown attr 'DT_FLOAT'"),
            ("x: float_ref", "Illegal use of ref type 'float_ref'. Use 'Ref(type)' instead"),
            ("x: n", "Reference to attr 'n' with type int that isn't type or list(type)"),
            ("x: T * float", "Attr 'T' used as length for input 'x' has type type != int"),
            ("x: low * float", "Attr 'low' used as length for input 'x' must have minimum >= 0"),
            ("x: n * L", "Can't have both number_attr and type_list_attr for input 'x'"),
            ("x: 3*float", "Trouble parsing either a type or an attr name at '3*float'"),
            ("x: float extra", "Extra 'extra' unparsed at the end"),
            ("x: float as DATASET", "Extra 'as DATASET' unparsed at the end"),
            ("x: Ref(float", "Did not find closing ')' for 'Ref(', instead found: ''"),
            ("x: Ref", "Reference to unknown attr 'Ref'"),
        ];
        for (spec, text) in cases {
            let op = OpSpec::new("A").attr("T: type").attr("n: int").attr("L: list(type)");
            let error = op.attr("low: int >= -3").input(spec).finalize().unwrap_err();
            assert!(error.message().starts_with(text), "{spec}: {error}");
            let place = format!(" from Input(\"{spec}\") for Op A");
            assert!(error.message().ends_with(&place), "{spec}: {error}");
        }
    }

    #[test]
    fn mistakes_in_attrs_are_named() {
        let cases = [
            ("", "Trouble parsing '<name>:'"),
            ("_a: int", "Trouble parsing '<name>:'"),
            ("9a: int", "Trouble parsing '<name>:'"),
            ("a:", "Trouble parsing type string at ''"),
            ("a: nonsense", "Trouble parsing type string at 'nonsense'"),
            ("a: {}", "Trouble parsing type string at '}'"),
            ("a: list(list(int))", "Trouble parsing type string at 'list(int))'"),
            ("a: list(int", "Expected ) to close 'list(', not: ''"),
            ("a: {'x' 'y'}", "Expected , or } after strings in list, not: ''y'}'"),
            ("a: {float int32}", "Expected , or } after types in list, not: 'int32}'"),
            ("a: {float, foo}", "Unrecognized type string 'foo'"),
            ("a: int 5", "Extra '5' unparsed at the end"),
            ("a: type >= 1", "Extra '>= 1' unparsed at the end"),
            ("a: int >= - 3", "Could not parse integer lower limit after '>=', found '- 3'"),
            ("a: int = ", "Could not parse default value ''"),
            ("a: int = 'a'", "Could not parse default value ''a''"),
            ("a: int = 3.5", "Could not parse default value '3.5'"),
            ("a: float = 1.5f", "Could not parse default value '1.5f'"),
            ("a: bool = TRUE", "Could not parse default value 'TRUE'"),
            ("a: type = float", "Could not parse default value 'float'"),
            ("a: list(int) = [1,2,]", "Could not parse default value '[1,2,]'"),
            ("a: shape = { dim { dim {", "Could not parse default value '{ dim { dim {'"),
            ("a: string = 'a' 'b'", "Could not parse default value ''a' 'b''"),
            ("a: int >= 3 = 2", "Value for attr 'a' of 2 must be at least minimum 3\n\t in Op 'A'"),
            (
                "a: list(int) >= -1",
                "Attr 'a' with list type must have a non-negative minimum, not -1",
            ),
            (
                "a: type = 77",
                "AttrValue has invalid DataType enum: 77\n\t for attr 'a'\n\t in Op 'A'",
            ),
            (
                "a: {float} = DT_INT32",
                "Value for attr 'a' of int32 is not in the list of allowed values: float",
            ),
            (
                "a: {'x', 'y'} = 'z'",
                "Value for attr 'a' of \"z\" is not in the list of allowed values: \"x\", \"y\"",
            ),
        ];
        for (spec, text) in cases {
            let error = OpSpec::new("A").attr(spec).finalize().unwrap_err();
            assert!(error.message().starts_with(text), "{spec}: {error}");
        }
        let twice = [
            OpSpec::new("A").attr("T: type").attr("T: type"),
            OpSpec::new("A").input("x: float").input("x: int32"),
            OpSpec::new("A").input("x: float").output("x: float"),
            OpSpec::new("A").attr("x: type").input("x: x"),
        ];
        for spec in twice {
            let error = spec.clone().finalize().unwrap_err();
            assert!(error.message().starts_with("Duplicate name: "), "{spec:?}: {error}");
        }
        let error = OpSpec::new("A").attr("N: int = 0").input("x: N * float").finalize();
        assert!(error.unwrap_err().message().contains("must be at least minimum 1"));
    }

    #[test]
    fn functions_nest_to_a_limit() {
        let nested = |depth: usize| {
            let open = "{ attr { key: 'f' value { func ".repeat(depth);
            format!("a: func = {open}{{}}{}", "} } }".repeat(depth))
        };
        assert!(OpSpec::new("A").attr(nested(3)).finalize().is_ok());
        assert!(OpSpec::new("A").attr(nested(100_000)).finalize().is_err());
    }

    #[test]
    fn damaged_specs_never_panic() {
        let specs = [
            "s: list({'a', \"b\\n\\x41\"}) >= 1 = ['a', 'b']",
            "s: shape = { dim { size: 2 } dim: [{ size: 3 }] }",
            "s: func = { name: 'f' attr { key: 'T' value { list { f: [1.5e3, -7] } } } }",
            "s: tensor = { dtype: DT_HALF tensor_shape { dim { size: 4 } } half_val: [255, 0] }",
            "s: {numbertype, string} = DT_STRING",
            "s: Ref(s * float)",
        ];
        let mut state = 1u64;
        for round in 0..30_000 {
            let mut bytes = specs[round % specs.len()].as_bytes().to_vec();
            for _ in 0..=round % 3 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let position = (state >> 33) as usize % bytes.len();
                match state >> 24 & 3 {
                    0 => bytes.truncate(position.max(1)),
                    1 => bytes[position] = b"{}[]()'\"\\:,"[(state >> 50) as usize % 11],
                    _ => bytes[position] = (state >> 40) as u8,
                }
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let spec = OpSpec::new("A").attr(text.clone());
            let _ = spec.clone().finalize();
            let _ = spec.input(text.clone()).output(text).finalize();
        }
    }
}
