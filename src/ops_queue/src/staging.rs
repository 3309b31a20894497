//! Staging areas: where ops leave tuples of tensors for others, in order or by key.

mod area;
mod map;

use tfcore_base::{DType, Result, resource_exhausted};
use tfcore_framework::{KernelInit, OpContext, Registry};
use tfcore_tensor::{TString, Tensor};

use crate::named::ResourceName;

pub(crate) fn register(r: &mut Registry) {
    area::register(r);
    map::register(r);
}

/// What the nodes of a staging area say of it.
struct AreaSpec {
    names: ResourceName,
    limits: Limits,
}

impl AreaSpec {
    fn new(init: &KernelInit<'_>) -> Result<AreaSpec> {
        let limit = |name: &str| -> Result<Option<usize>> {
            Ok(usize::try_from(init.attrs.int(name)?).ok().filter(|&limit| limit > 0))
        };
        let limits = Limits { tuples: limit("capacity")?, bytes: limit("memory_limit")? };
        Ok(AreaSpec { names: ResourceName::or_node(init)?, limits })
    }
}

/// How much a staging area holds; nothing means any amount.
#[derive(Debug, Clone, Copy)]
struct Limits {
    tuples: Option<usize>,
    bytes: Option<usize>,
}

impl Limits {
    /// # Errors
    /// `ResourceExhausted` if so many bytes never fit.
    fn check(&self, bytes: usize) -> Result<()> {
        match self.bytes {
            Some(limit) if bytes > limit => Err(resource_exhausted!(
                "Attempted to insert tensors with combined size of '{bytes}' bytes into Staging Area with a \
                 memory limit of '{limit}'."
            )),
            _ => Ok(()),
        }
    }

    /// Whether `more` bytes fit where `held` are.
    fn have_bytes(&self, held: usize, more: usize) -> bool {
        self.bytes.is_none_or(|limit| held.saturating_add(more) <= limit)
    }

    /// Whether one more tuple fits where `held` are.
    fn have_place(&self, held: usize) -> bool {
        self.tuples.is_none_or(|limit| held < limit)
    }
}

/// The bytes of a tensor, those of its strings included.
fn byte_size(tensor: &Tensor) -> usize {
    let strings = match tensor.dtype() {
        DType::STRING => tensor.elems().typed::<TString>(),
        _ => &[],
    };
    tensor.byte_size() + strings.iter().map(TString::len).sum::<usize>()
}

/// Sets the outputs from `first` on, which must have been declared with the tensors' types.
fn set_outputs(
    op: &mut OpContext<'_>,
    first: usize,
    tensors: impl IntoIterator<Item = Tensor>,
) -> Result<()> {
    let mut tensors = (first..).zip(tensors);
    tensors.try_for_each(|(index, tensor)| op.try_set_output(index, tensor))
}
