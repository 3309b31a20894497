//! Registration of ops that solve batches of problems.

use tfcore_base::{LoopSet, Result};
use tfcore_framework::{InferenceContext, OpEntry};

use crate::batch::{Algorithms, BatchOp};

/// Gives an op its shape function and, for the types of set `S`, by attr `T`, kernels by the algorithm `A`.
pub(crate) fn register_op<A, S>(
    entry: OpEntry<'_>,
    shape: fn(&mut InferenceContext<'_>) -> Result<()>,
    op: BatchOp,
) where
    A: 'static,
    S: LoopSet<Algorithms<A>>,
{
    entry
        .shape(shape)
        .typed_kernel::<Algorithms<A>, S>("T", move |init, solve| op.kernel(init, solve));
}
