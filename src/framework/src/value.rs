//! `Value`: the content of an edge while a graph runs.

use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_tensor::Tensor;

use crate::variable::Variable;

/// What flows along an edge.
#[derive(Clone, Default)]
pub enum Value {
    /// Nothing: not computed yet, or dead.
    #[default]
    Absent,
    Tensor(Tensor),
    /// What a ref-typed output hands out: the variable itself.
    Ref(Arc<Variable>),
}

/// The values of a node's outputs.
pub type Outputs = SmallVec<[Value; 2]>;
