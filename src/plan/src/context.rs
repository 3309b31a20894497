//! `PassContext`: what passes and the lowering may ask for, besides the graph.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use tfcore_base::Result;
use tfcore_framework::{Attrs, DeviceType, Kernel, KernelInit, Registry};
use tfcore_graph::Node;

use crate::graph::PlanGraph;
use crate::options::PassOptions;
use crate::place::{CallSite, Placer};
use crate::plan::{Function, Kernels, Loop};

/// The functions that nodes may call. `functions.rs` implements it and uses the planner in turn.
pub trait FunctionSource {
    /// True if there are none.
    fn is_empty(&self) -> bool;

    fn contains(&self, name: &str) -> bool;

    /// The function `name` for calls with `attrs` at `site`.
    fn get(&self, name: &str, attrs: &Attrs, site: CallSite) -> Arc<Function>;

    /// The gradient of the function `name`: the one that the library names, or one derived from its body. It takes the
    /// function's arguments and the derivatives by its results.
    fn gradient_of(&self, name: &str, attrs: &Attrs, site: CallSite) -> Arc<Function>;

    /// Plans the body of a function together with its caller, unless it is its own caller or nested too deeply.
    ///
    /// # Errors
    /// What is wrong with the function, in the reference's words.
    fn plan_with_caller(&self, function: &Function, callers: &[usize]) -> Result<()>;

    /// For each argument of a function: true if the body reads it. Empty if that is unknown.
    fn reads<'f>(&self, function: &'f Function, callers: &[usize]) -> &'f [bool];

    /// The loop of a condition and a body as one body; `None` if it must run by calls.
    fn while_loop(
        &self,
        cond: &Arc<Function>,
        body: &Arc<Function>,
        callers: &[usize],
    ) -> Option<Arc<Loop>>;
}

/// What plans are made with.
#[derive(Clone, Copy)]
pub struct PassContext<'p> {
    pub registry: &'p Arc<Registry>,
    pub functions: &'p dyn FunctionSource,
    pub placer: &'p Placer,
    pub kernels: &'p Kernels,
    /// The functions that are being planned, each called by the one before; see [`Function::callers`].
    pub callers: &'p [usize],
    /// True if the nodes are those of a function's body.
    pub in_function: bool,
    pub options: &'p PassOptions,
}

impl PassContext<'_> {
    /// What of a calling node decides on the devices of the function's nodes.
    pub fn call_site(&self, graph: &PlanGraph<'_>, node: &Node) -> CallSite {
        self.placer.call_site(node, graph.source.placement)
    }

    /// The kernel of a node, built if need be.
    ///
    /// # Errors
    /// The kernel factory's, with the node's name; `NotFound` without a kernel for the node's dtypes.
    pub fn kernel_of(&self, node: &Node) -> Result<Arc<dyn Kernel>> {
        if let Some(kernel) = self.kernels.lock().get(&node.id) {
            return Ok(kernel.clone());
        }
        let init = KernelInit {
            name: &node.name,
            op: &node.op,
            attrs: &node.attrs,
            input_dtypes: &node.input_dtypes,
            output_dtypes: &node.output_dtypes,
        };
        let kernel = self.registry.build_kernel(DeviceType::Cpu, &init);
        let kernel: Arc<dyn Kernel> = kernel.map_err(|error| error.at_node(&node.name))?.into();
        // If another thread was faster, its kernel may hold state by now.
        match self.kernels.lock().entry(node.id) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(entry) => Ok(entry.insert(kernel).clone()),
        }
    }
}
