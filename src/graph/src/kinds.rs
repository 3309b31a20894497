//! Kinds of nodes: op, attrs and what follows from them, made once for nodes that are alike.

use std::collections::HashMap;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use smallvec::SmallVec;
use tfcore_base::Result;
use tfcore_framework::{AttrList, AttrValue, Attrs, OpDef, Registry};

use crate::node::NodeKind;
use crate::validate::check_attrs;

/// How many kinds of an op are remembered. Most ops of a graph have one or two.
const PER_OP: usize = 8;

/// The kinds of a graph's nodes that were in use last, by the address of the op's definition, which they keep alive.
#[derive(Default)]
pub(crate) struct Kinds(HashMap<usize, SmallVec<[Arc<NodeKind>; 1]>, DefaultHashBuilder>);

impl Kinds {
    /// The kind of nodes of `op` with these attrs, to which the op's defaults are added.
    ///
    /// # Errors
    /// `InvalidArgument` for attrs that the op's definition forbids; `node` is the name in the message.
    pub(crate) fn get(
        &mut self,
        registry: &Registry,
        node: &str,
        op: &Arc<OpDef>,
        mut attrs: Attrs,
    ) -> Result<Arc<NodeKind>> {
        op.add_defaults(&mut attrs);
        let known = self.0.entry(Arc::as_ptr(op) as usize).or_default();
        if let Some(kind) = known.iter().find(|kind| are_same(&kind.attrs, &attrs)) {
            return Ok(kind.clone());
        }
        check_attrs(node, op, &attrs)?;
        let is_shared = attrs.iter().all(|(_, value)| is_same(value, value));
        let kind = Arc::new(NodeKind {
            input_dtypes: op.input_dtypes(&attrs)?.into(),
            output_dtypes: op.output_dtypes(&attrs)?.into(),
            shape_fn: registry.shape_fn(&op.name),
            op: op.clone(),
            attrs,
        });
        if is_shared {
            known.truncate(PER_OP - 1);
            known.insert(0, kind.clone());
        }
        Ok(kind)
    }
}

fn are_same(a: &Attrs, b: &Attrs) -> bool {
    a.len() == b.len() && a.iter().zip(b.iter()).all(|((a, x), (b, y))| **a == **b && is_same(x, y))
}

/// Whether one value can stand for the other. Values that take long to compare are not even the same as
/// themselves.
fn is_same(a: &AttrValue, b: &AttrValue) -> bool {
    match (a, b) {
        // Zeros of either sign are equal, but not the same.
        (AttrValue::Float(a), AttrValue::Float(b)) => a.to_bits() == b.to_bits(),
        (AttrValue::Tensor(_) | AttrValue::Func(_) | AttrValue::Raw(_), _) => false,
        (AttrValue::List(list), _) => match **list {
            AttrList::Float(_) | AttrList::Tensor(_) | AttrList::Func(_) => false,
            _ => a == b,
        },
        _ => a == b,
    }
}
