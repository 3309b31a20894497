//! `ApiDefMap`: how language bindings present ops, from the ops' definitions and files of overrides.

use std::collections::HashMap;

use tfcore_base::{Result, failed_precondition};
use tfcore_proto::{self as proto, ApiDef, ApiDefs, api_def, op_def, text};

/// The API definitions of a list of ops.
#[derive(Debug, Clone)]
pub struct ApiDefMap {
    defs: HashMap<String, ApiDef>,
    /// Whether the docs speak of arguments by their new names, after which nothing is overridden.
    finished: bool,
}

impl ApiDefMap {
    /// The definitions that the ops themselves imply: every op visible under its own name.
    pub fn new(ops: &proto::OpList) -> ApiDefMap {
        let defs = ops.op.iter().map(|op| (op.name.clone(), implied(op))).collect();
        ApiDefMap { defs, finished: false }
    }

    /// Overrides definitions. `text` has the form `op { graph_op_name: "Add" summary: "..." }`, where a string may
    /// also stand as it is on lines of its own, from `<<END` to `END`. Ops that the map lacks are skipped.
    ///
    /// # Errors
    /// `InvalidArgument` for a text that cannot be read; then nothing is changed. `FailedPrecondition` after the
    /// first [`ApiDefMap::get`], and for arguments and attrs that the op does not have; then what came
    /// before has been taken over.
    pub fn put(&mut self, text: &[u8]) -> Result<()> {
        if self.finished {
            return Err(failed_precondition!(
                "TF_ApiDefMapPut cannot be called after TF_ApiDefMapGet has been called."
            ));
        }
        let overrides: ApiDefs = text::decode(&with_quotes(text))?;
        for new in overrides.op {
            if let Some(def) = self.defs.get_mut(&new.graph_op_name) {
                merge(def, new)?;
            }
        }
        Ok(())
    }

    /// The definition of the op `name`.
    pub fn get(&mut self, name: &str) -> Option<&ApiDef> {
        if !self.finished {
            self.defs.values_mut().for_each(rename_in_docs);
            self.finished = true;
        }
        self.defs.get(name)
    }
}

fn implied(op: &proto::OpDef) -> ApiDef {
    let arg = |arg: &op_def::ArgDef| api_def::Arg {
        name: arg.name.clone(),
        rename_to: arg.name.clone(),
        description: arg.description.clone(),
    };
    let attr = |attr: &op_def::AttrDef| api_def::Attr {
        name: attr.name.clone(),
        rename_to: attr.name.clone(),
        default_value: attr.default_value.clone(),
        description: attr.description.clone(),
    };
    ApiDef {
        graph_op_name: op.name.clone(),
        visibility: ApiDef::VISIBLE,
        endpoint: vec![api_def::Endpoint { name: op.name.clone(), ..Default::default() }],
        in_arg: op.input_arg.iter().map(arg).collect(),
        out_arg: op.output_arg.iter().map(arg).collect(),
        attr: op.attr.iter().map(attr).collect(),
        summary: op.summary.clone(),
        description: op.description.clone(),
        arg_order: op.input_arg.iter().map(|arg| arg.name.clone()).collect(),
        ..ApiDef::default()
    }
}

fn merge(def: &mut ApiDef, new: ApiDef) -> Result<()> {
    let op = &def.graph_op_name;
    if new.visibility != ApiDef::DEFAULT_VISIBILITY {
        def.visibility = new.visibility;
    }
    if !new.endpoint.is_empty() {
        def.endpoint = new.endpoint;
    }
    for (args, overrides) in [(&mut def.in_arg, new.in_arg), (&mut def.out_arg, new.out_arg)] {
        for new in overrides {
            let Some(arg) = args.iter_mut().find(|arg| arg.name == new.name) else {
                return Err(failed_precondition!(
                    "Argument {} not defined in base api for {op}",
                    new.name
                ));
            };
            replace(&mut arg.rename_to, new.rename_to);
            replace(&mut arg.description, new.description);
        }
    }
    if !new.arg_order.is_empty() {
        def.arg_order = checked_order(op, &def.arg_order, new.arg_order)?;
    }
    for new in new.attr {
        let Some(attr) = def.attr.iter_mut().find(|attr| attr.name == new.name) else {
            return Err(failed_precondition!(
                "Attribute {} not defined in base api for {op}",
                new.name
            ));
        };
        replace(&mut attr.rename_to, new.rename_to);
        replace(&mut attr.description, new.description);
        attr.default_value = new.default_value.or(attr.default_value.take());
    }
    replace(&mut def.summary, new.summary);
    replace(&mut def.description, new.description);
    if !new.description_prefix.is_empty() {
        def.description = format!("{}\n{}", new.description_prefix, def.description);
    }
    if !new.description_suffix.is_empty() {
        def.description = format!("{}\n{}", def.description, new.description_suffix);
    }
    Ok(())
}

/// An empty text overrides nothing.
fn replace(old: &mut String, new: String) {
    if !new.is_empty() {
        *old = new;
    }
}

/// The new order, if it has the same arguments as the old one.
fn checked_order(op: &str, old: &[String], new: Vec<String>) -> Result<Vec<String>> {
    if new.len() != old.len() {
        return Err(failed_precondition!(
            "Invalid number of arguments {} for {op}. Expected: {}",
            new.len(),
            old.len()
        ));
    }
    let sorted = |names: &[String]| {
        let mut names = names.to_vec();
        names.sort();
        names
    };
    if sorted(&new) != sorted(old) {
        return Err(failed_precondition!(
            "Invalid arg_order: {} for {op}. All elements in arg_order override must match base arg_order: {}",
            new.join(", "),
            old.join(", ")
        ));
    }
    Ok(new)
}

/// Lets the docs of an op speak of it, its arguments and its attrs, each in backquotes, by their new names.
fn rename_in_docs(def: &mut ApiDef) {
    let mut renamed: Vec<(String, String)> = Vec::new();
    let endpoint = def.endpoint.first().map(|endpoint| &endpoint.name);
    let names = endpoint
        .map(|name| (&def.graph_op_name, name))
        .into_iter()
        .chain(def.in_arg.iter().chain(&def.out_arg).map(|arg| (&arg.name, &arg.rename_to)))
        .chain(def.attr.iter().map(|attr| (&attr.name, &attr.rename_to)));
    for (old, new) in names.filter(|(old, new)| old != new) {
        renamed.push((format!("`{old}`"), format!("`{new}`")));
    }
    let args = def.in_arg.iter_mut().chain(&mut def.out_arg).map(|arg| &mut arg.description);
    let attrs = def.attr.iter_mut().map(|attr| &mut attr.description);
    for doc in args.chain(attrs).chain([&mut def.summary, &mut def.description]) {
        for (old, new) in &renamed {
            if doc.contains(old) {
                *doc = doc.replace(old, new);
            }
        }
    }
}

/// The text with its `name: <<END` lines and what follows them, up to the line that begins with `END`, as quoted
/// strings.
fn with_quotes(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len());
    let mut lines = text.split_inclusive(|&byte| byte == b'\n');
    while let Some(line) = lines.next() {
        let Some((field, end)) = opens_block(line) else {
            quoted.extend_from_slice(line);
            continue;
        };
        let mut block: Vec<&[u8]> = Vec::new();
        let mut rest: &[u8] = &[];
        for line in lines.by_ref() {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            if let Some(behind) = line.strip_prefix(end) {
                rest = behind;
                break;
            }
            block.push(line);
        }
        quoted.extend_from_slice(field);
        quoted.extend_from_slice(b" \"");
        for byte in block.join(&b'\n') {
            match byte {
                b'"' | b'\\' => quoted.extend_from_slice(&[b'\\', byte]),
                b'\n' => quoted.extend_from_slice(b"\\n"),
                _ => quoted.push(byte),
            }
        }
        quoted.push(b'"');
        quoted.extend_from_slice(rest);
        quoted.push(b'\n');
    }
    quoted
}

/// The parts of a line `name: <<END`: up to the colon, and the word that ends the block.
fn opens_block(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (field, rest) = line.split_at(colon + 1);
    let blanks = rest.iter().take_while(|&&byte| byte == b' ').count();
    Some((field, rest[blanks..].strip_prefix(b"<<")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpSpec;

    fn map() -> ApiDefMap {
        let spec = OpSpec::new("Foo").input("x: T").input("z: float").output("y: T");
        let mut op = spec.attr("T: type = DT_FLOAT").finalize().unwrap().to_proto();
        op.input_arg[0].description = "see `x` and `y` and `Foo`".into();
        op.summary = "sum `Foo`".into();
        op.description = "desc `Foo` of `x`".into();
        ApiDefMap::new(&proto::OpList { op: vec![op] })
    }

    fn overridden(text: &str) -> ApiDef {
        let mut map = map();
        map.put(text.as_bytes()).unwrap();
        map.get("Foo").unwrap().clone()
    }

    #[test]
    fn an_op_implies_its_definition() {
        let def = overridden("op { graph_op_name: \"Nope\" summary: \"x\" }");
        assert_eq!(def.visibility, ApiDef::VISIBLE);
        assert_eq!(def.endpoint[0].name, "Foo");
        assert_eq!(def.arg_order, ["x", "z"]);
        assert_eq!((&*def.out_arg[0].name, &*def.out_arg[0].rename_to), ("y", "y"));
        assert!(def.attr[0].default_value.is_some());
        assert!(map().get("Nope").is_none());
    }

    #[test]
    fn overrides() {
        let def = overridden(
            "op { graph_op_name: 'Foo' visibility: HIDDEN endpoint { name: 'NewFoo' } \
             in_arg { name: 'x' rename_to: 'xx' } attr { name: 'T' description: 'new' } \
             arg_order: ['z', 'x'] description_prefix: 'P' description_suffix: 'S' }",
        );
        assert_eq!((def.visibility, &*def.summary), (ApiDef::HIDDEN, "sum `NewFoo`"));
        assert_eq!(def.in_arg[0].description, "see `xx` and `y` and `NewFoo`");
        assert_eq!(def.description, "P\ndesc `NewFoo` of `xx`\nS");
        assert_eq!(def.arg_order, ["z", "x"]);
        assert_eq!(def.attr[0].description, "new");
        assert!(def.attr[0].default_value.is_some());
    }

    #[test]
    fn blocks_of_lines() {
        let def = overridden(
            "op {\n  graph_op_name: \"Foo\"\n  summary: <<END\nline \"one\"\n  line two\\ \n END\nEND\n  \
             description:<<XX\nq\nXX}\n",
        );
        assert_eq!(def.summary, "line \"one\"\n  line two\\ \n END");
        assert_eq!(def.description, "q");
        let error =
            map().put(b"op {\n graph_op_name: \"Foo\"\n  summary: <<END\nline").unwrap_err();
        assert_eq!(error.message(), "4(1): Expected identifier, got: \n");
    }

    #[test]
    fn mistakes() {
        let cases = [
            ("in_arg { name: 'a' }", "Argument a not defined in base api for Foo"),
            ("out_arg { name: 'x' }", "Argument x not defined in base api for Foo"),
            ("attr { name: 'a' }", "Attribute a not defined in base api for Foo"),
            ("arg_order: 'x'", "Invalid number of arguments 1 for Foo. Expected: 2"),
            (
                "arg_order: ['x', 'x']",
                "Invalid arg_order: x, x for Foo. All elements in arg_order override must match base \
                 arg_order: x, z",
            ),
        ];
        for (text, message) in cases {
            let text = format!("op {{ graph_op_name: 'Foo' {text} }}");
            assert_eq!(map().put(text.as_bytes()).unwrap_err().message(), message);
        }
        let mut read = map();
        read.get("Foo");
        let error = read.put(b"").unwrap_err();
        assert!(error.message().starts_with("TF_ApiDefMapPut cannot be called after"), "{error}");
    }

    #[test]
    fn damaged_overrides_never_panic() {
        let text =
            b"op {\n graph_op_name: \"Foo\"\n summary: <<END\nl\nEND\n in_arg { name: 'x' }\n}\n";
        for cut in 0..text.len() {
            for byte in [0, b'<', b'\n', b'"', 0xff] {
                let mut text = text.to_vec();
                text[cut] = byte;
                let _ = map().put(&text);
                let _ = map().put(&text[..cut]);
            }
        }
    }
}
