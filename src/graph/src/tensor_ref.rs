//! `TensorRef`: a tensor of a GraphDef, as its nodes write their inputs.

/// A tensor of a GraphDef: a node's name and the index of an output, -1 for control.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorRef {
    pub node: String,
    pub index: i32,
}

impl TensorRef {
    pub fn new(node: impl Into<String>, index: i32) -> TensorRef {
        TensorRef { node: node.into(), index }
    }

    /// `"n"`, `"n:0"`, `"n:k"` and `"^n"`.
    pub fn parse(text: &str) -> TensorRef {
        let (node, index) = parse_tensor(text);
        TensorRef::new(node, index)
    }

    pub(crate) fn is_control(&self) -> bool {
        self.index < 0
    }
}

/// The parts of a [`TensorRef`]: the node's name and the index, -1 for a control edge.
pub fn parse_tensor(text: &str) -> (&str, i32) {
    if let Some(node) = text.strip_prefix('^') {
        return (node, -1);
    }
    match text.rsplit_once(':').map(|(node, index)| (node, index.parse())) {
        Some((node, Ok(index))) if index >= 0 && !text.ends_with(':') => (node, index),
        _ => (text, 0),
    }
}

impl std::fmt::Display for TensorRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.index {
            -1 => write!(f, "^{}", self.node),
            index => write!(f, "{}:{index}", self.node),
        }
    }
}
