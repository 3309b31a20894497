//! `FunctionLibrary`: the functions that the nodes of a graph may call, and their gradients.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tfcore_base::{Result, invalid, not_found};
use tfcore_framework::{OpDef, Registry};
use tfcore_proto as proto;

/// Functions and gradients by name, in the order in which they were added.
///
/// A graph holds its library in an `Arc` and changes it by copy on write: whoever keeps a clone of the
/// `Arc` has a snapshot. The functions themselves are shared between all copies.
#[derive(Debug, Clone, Default)]
pub struct FunctionLibrary {
    functions: Ordered<Arc<Function>>,
    /// Names of gradient functions by the names of the functions that they are for.
    gradients: Ordered<String>,
    version: u64,
}

/// A function: its definition, and its signature as nodes that call it need it.
#[derive(Debug)]
pub struct Function {
    def: proto::FunctionDef,
    op: Arc<OpDef>,
}

impl Function {
    /// # Errors
    /// `InvalidArgument` for a signature that no op can have.
    pub fn new(def: proto::FunctionDef) -> Result<Function> {
        let signature = def.signature.clone().unwrap_or_default();
        Ok(Function { op: Arc::new(OpDef::of_function(signature)?), def })
    }

    pub fn name(&self) -> &str {
        &self.op.name
    }

    pub fn def(&self) -> &proto::FunctionDef {
        &self.def
    }

    /// The interface of nodes that call the function by its name.
    pub fn op(&self) -> &Arc<OpDef> {
        &self.op
    }

    /// The function with an attribute set or replaced.
    pub fn with_attr(&self, name: &str, value: proto::AttrValue) -> Function {
        let mut def = self.def.clone();
        def.attr.insert(name.to_string(), value);
        Function { def, op: self.op.clone() }
    }

    /// Whether two definitions say the same. The order of the body's nodes does not matter.
    fn is_same(&self, other: &Function) -> bool {
        fn by_name(def: &proto::FunctionDef) -> Vec<&proto::NodeDef> {
            let mut nodes: Vec<&proto::NodeDef> = def.node_def.iter().collect();
            nodes.sort_by(|a, b| a.name.cmp(&b.name));
            nodes
        }
        let (a, b) = (&self.def, &other.def);
        a.signature == b.signature
            && a.attr == b.attr
            && a.arg_attr == b.arg_attr
            && a.ret == b.ret
            && a.control_ret == b.control_ret
            && a.node_def.len() == b.node_def.len()
            && (a.node_def == b.node_def || by_name(a) == by_name(b))
    }
}

/// How far a library had grown.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    functions: u64,
    gradients: u64,
    version: u64,
}

impl Mark {
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
}

impl FunctionLibrary {
    /// Counts the changes, so that a copy can be told from a newer one.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn len(&self) -> usize {
        self.functions.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.functions.items.is_empty()
    }

    /// The function called `name`.
    pub fn get(&self, name: &str) -> Option<&Arc<Function>> {
        self.functions.get(name)
    }

    /// The functions in order of their addition.
    pub fn functions(&self) -> impl Iterator<Item = &Arc<Function>> {
        self.functions.items.values().map(|(_, function)| function)
    }

    /// The name of the function that computes the gradient of the function `name`.
    pub fn gradient(&self, name: &str) -> Option<&str> {
        self.gradients.get(name).map(String::as_str)
    }

    /// Functions and the names of their gradient functions.
    pub fn gradients(&self) -> impl Iterator<Item = (&str, &str)> {
        self.gradients.items.values().map(|(name, gradient)| (&**name, &**gradient))
    }

    /// Adds a function. The same definition again changes nothing.
    ///
    /// # Errors
    /// `InvalidArgument` if another function or an op has the name.
    pub fn add(&mut self, registry: &Registry, function: Arc<Function>) -> Result<()> {
        let name = function.name();
        if let Some(known) = self.get(name) {
            if Arc::ptr_eq(known, &function) || known.is_same(&function) {
                return Ok(());
            }
            return Err(invalid!(
                "Cannot add function '{name}' because a different function with the same name already \
                 exists."
            ));
        }
        if registry.def(name).is_some() {
            return Err(invalid!(
                "Cannot add function '{name}' because an op with the same name already exists."
            ));
        }
        self.functions.insert(name.into(), function);
        self.version += 1;
        Ok(())
    }

    /// Makes `gradient` the gradient function of `name`. Neither needs to be there.
    ///
    /// # Errors
    /// `InvalidArgument` if `name` has another one.
    pub fn add_gradient(&mut self, name: &str, gradient: &str) -> Result<()> {
        match self.gradient(name) {
            Some(known) if known == gradient => Ok(()),
            Some(known) => Err(invalid!(
                "Cannot assign gradient function '{gradient}' to '{name}' because it already has \
                 gradient function '{known}'"
            )),
            None => {
                self.gradients.insert(name.into(), gradient.into());
                self.version += 1;
                Ok(())
            }
        }
    }

    /// Removes a function. Its gradient entry stays.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none of this name.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        if !self.functions.remove(name) {
            return Err(invalid!("Tried to remove non-existent function '{name}'."));
        }
        self.version += 1;
        Ok(())
    }

    /// The library as a message.
    pub fn to_proto(&self) -> proto::FunctionDefLibrary {
        proto::FunctionDefLibrary {
            function: self.functions().map(|function| function.def.clone()).collect(),
            gradient: self
                .gradients()
                .map(|(name, gradient)| proto::GradientDef {
                    function_name: name.to_string(),
                    gradient_func: gradient.to_string(),
                })
                .collect(),
            ..Default::default()
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            functions: self.functions.next,
            gradients: self.gradients.next,
            version: self.version,
        }
    }

    /// Takes back all additions since the mark. Nothing may have been removed in between.
    pub(crate) fn rewind(&mut self, mark: &Mark) {
        self.functions.truncate(mark.functions);
        self.gradients.truncate(mark.gradients);
        self.version = mark.version;
    }

    /// # Errors
    /// `NotFound` "Function F is not defined."
    pub(crate) fn require(&self, name: &str) -> Result<&Arc<Function>> {
        self.get(name).ok_or_else(|| not_found!("Function {name} is not defined."))
    }
}

/// Values by name that remember their order.
#[derive(Debug, Clone)]
struct Ordered<V> {
    items: BTreeMap<u64, (Arc<str>, V)>,
    positions: HashMap<Arc<str>, u64>,
    next: u64,
}

impl<V> Default for Ordered<V> {
    fn default() -> Ordered<V> {
        Ordered { items: BTreeMap::new(), positions: HashMap::new(), next: 0 }
    }
}

impl<V> Ordered<V> {
    fn get(&self, name: &str) -> Option<&V> {
        let position = self.positions.get(name)?;
        self.items.get(position).map(|(_, value)| value)
    }

    /// Adds a value under a name that is free.
    fn insert(&mut self, name: Arc<str>, value: V) {
        self.positions.insert(name.clone(), self.next);
        self.items.insert(self.next, (name, value));
        self.next += 1;
    }

    /// Whether there was something to remove.
    fn remove(&mut self, name: &str) -> bool {
        match self.positions.remove(name) {
            Some(position) => self.items.remove(&position).is_some(),
            None => false,
        }
    }

    fn truncate(&mut self, next: u64) {
        for (name, _) in self.items.split_off(&next).into_values() {
            self.positions.remove(&name);
        }
        self.next = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, nodes: &[&str]) -> Arc<Function> {
        let node = |name: &&str| proto::NodeDef { name: name.to_string(), ..Default::default() };
        let signature = proto::OpDef { name: name.into(), ..Default::default() };
        let node_def = nodes.iter().map(node).collect();
        let def = proto::FunctionDef { signature: Some(signature), node_def, ..Default::default() };
        Arc::new(Function::new(def).unwrap())
    }

    fn names(library: &FunctionLibrary) -> Vec<&str> {
        library.functions().map(|function| function.name()).collect()
    }

    #[test]
    fn functions_keep_their_order_and_names_are_unique() {
        let registry = Registry::new();
        let mut library = FunctionLibrary::default();
        for name in ["B", "A", "C"] {
            library.add(&registry, function(name, &["x", "y"])).unwrap();
        }
        let version = library.version();
        library.add(&registry, function("A", &["y", "x"])).unwrap();
        assert_eq!((library.version(), library.len()), (version, 3));
        let cases = [
            (
                function("A", &["x"]),
                "Cannot add function 'A' because a different function with the same name already \
                 exists.",
            ),
            (
                function("Neg", &[]),
                "Cannot add function 'Neg' because an op with the same name already exists.",
            ),
        ];
        for (function, text) in cases {
            assert_eq!(library.add(&registry, function).unwrap_err().message(), text);
        }
        library.remove("A").unwrap();
        assert!(library.version() > version);
        assert_eq!(
            library.remove("A").unwrap_err().message(),
            "Tried to remove non-existent function 'A'."
        );
        library.add(&registry, function("A", &[])).unwrap();
        assert_eq!(names(&library), ["B", "C", "A"]);
    }

    #[test]
    fn rewinding_takes_additions_back() {
        let registry = Registry::new();
        let mut library = FunctionLibrary::default();
        library.add(&registry, function("A", &[])).unwrap();
        library.add_gradient("A", "GradA").unwrap();
        let mark = library.mark();
        library.add(&registry, function("B", &[])).unwrap();
        library.add_gradient("B", "GradB").unwrap();
        library.rewind(&mark);
        assert_eq!((names(&library), library.gradient("A")), (vec!["A"], Some("GradA")));
        assert!(library.get("B").is_none() && library.gradient("B").is_none());
        library.add_gradient("A", "GradA").unwrap();
        assert_eq!(
            library.add_gradient("A", "Other").unwrap_err().message(),
            "Cannot assign gradient function 'Other' to 'A' because it already has gradient function \
             'GradA'"
        );
    }
}
