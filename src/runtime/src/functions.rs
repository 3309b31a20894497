//! The functions of a session: each is instantiated and planned once for every set of attrs.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use tfcore_base::{DType, Result};
use tfcore_framework::{Attrs, Registry};
use tfcore_graph::{FunctionBody, FunctionLibrary, Node, NodeId, OutputRef};
use tfcore_proto::Message;

use crate::control::Loop;
use crate::place::{CallSite, Placement, Placer};
use crate::plan::Plan;
use crate::planner::{self, Kernels, Planner};
use crate::unread::read_args;

/// So many functions, each called by the one before, are planned together with the first; those beyond when they are
/// called, so that a chain of thousands needs no stack of thousands.
const MAX_EAGER_DEPTH: usize = 32;

/// The functions that a session knows, and those that it has instantiated.
pub(crate) struct Functions {
    registry: Arc<Registry>,
    placer: Arc<Placer>,
    library: RwLock<Library>,
    /// By name and attrs, and by where they are called as far as that tells where nodes go.
    instances: Mutex<HashMap<(InstanceKey, CallSite), Arc<Function>>>,
    /// Loops by condition and body; `None` for what cannot be one, or is being made.
    loops: Mutex<HashMap<(usize, usize), Option<Arc<Loop>>>>,
}

/// The functions of the graph, with those that gradients have been made of.
#[derive(Default)]
struct Library {
    functions: Arc<FunctionLibrary>,
    derived: Vec<Arc<tfcore_graph::Function>>,
}

impl Library {
    /// Adds the functions that gradients are made of to those of the graph.
    fn add_derived(&mut self, registry: &Registry) {
        if !self.derived.is_empty() {
            let library = Arc::make_mut(&mut self.functions);
            for function in &self.derived {
                // Their names stand for what they hold: another one of the same name is the graph's own, and stays.
                drop(library.add(registry, function.clone()));
            }
        }
    }
}

/// A function with the attrs of its calls.
pub(crate) struct Function {
    name: String,
    attrs: Attrs,
    site: CallSite,
    /// Whether it is the function's gradient rather than the function.
    is_gradient: bool,
    kernels: Kernels,
    /// The body, instantiated once: kernels belong to its nodes.
    parts: OnceLock<Arc<Parts>>,
    plan: OnceLock<Arc<Plan>>,
    /// Which arguments the body reads.
    reads: OnceLock<Vec<bool>>,
}

impl Functions {
    pub(crate) fn new(registry: Arc<Registry>, placer: Arc<Placer>) -> Functions {
        Functions {
            registry,
            placer,
            library: RwLock::default(),
            instances: Mutex::default(),
            loops: Mutex::default(),
        }
    }

    /// Takes over the functions of a graph. Those in use stay as they are.
    pub(crate) fn set_library(&self, library: &Arc<FunctionLibrary>) {
        let mut known = self.library.write();
        known.functions = library.clone();
        known.add_derived(&self.registry);
    }

    fn library(&self) -> Arc<FunctionLibrary> {
        self.library.read().functions.clone()
    }

    /// Takes over the functions of `library` that were not there.
    fn add_derived(&self, library: &FunctionLibrary) {
        let mut known = self.library.write();
        let new =
            library.functions().filter(|function| known.functions.get(function.name()).is_none());
        let new: Vec<_> = new.cloned().collect();
        known.derived.extend(new);
        known.add_derived(&self.registry);
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.library.read().functions.is_empty()
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.library.read().functions.get(name).is_some()
    }

    /// Where nodes are placed.
    pub(crate) fn placer(&self) -> &Placer {
        &self.placer
    }

    /// The function `name` for calls with `attrs` at `site`.
    pub(crate) fn get(&self, name: &str, attrs: &Attrs, site: CallSite) -> Arc<Function> {
        self.instance(name, attrs, site, false)
    }

    /// The loop of two functions as one body; `None` if it has to run by calls. Each is made once.
    pub(crate) fn while_loop(
        self: &Arc<Self>,
        cond: &Arc<Function>,
        body: &Arc<Function>,
        callers: &[usize],
    ) -> Option<Arc<Loop>> {
        // The instances live as long as this, so that their addresses tell them apart.
        let key = (Arc::as_ptr(cond) as usize, Arc::as_ptr(body) as usize);
        if callers.len() >= MAX_EAGER_DEPTH {
            return None;
        }
        if let Some(known) = self.loops.lock().get(&key) {
            return known.clone();
        }
        self.loops.lock().insert(key, None);
        // What is wrong with the functions is reported when they are planned by themselves.
        let made = planner::while_loop(self, cond, body, callers).ok().flatten().map(Arc::new);
        self.loops.lock().insert(key, made.clone());
        made
    }

    /// The gradient of the function `name`: the one that the library names, or one derived from its body. It takes the
    /// function's arguments and the derivatives by its results.
    pub(crate) fn gradient_of(&self, name: &str, attrs: &Attrs, site: CallSite) -> Arc<Function> {
        match self.library().gradient(name) {
            Some(gradient) => self.instance(gradient, attrs, site, false),
            None => self.instance(name, attrs, site, true),
        }
    }

    fn instance(
        &self,
        name: &str,
        attrs: &Attrs,
        site: CallSite,
        is_gradient: bool,
    ) -> Arc<Function> {
        let key = InstanceKey::new(name, attrs, is_gradient);
        let mut instances = self.instances.lock();
        let instance = instances.entry((key, site.clone())).or_insert_with(|| {
            Arc::new(Function {
                name: name.to_string(),
                attrs: attrs.clone(),
                site,
                is_gradient,
                kernels: Mutex::default(),
                parts: OnceLock::new(),
                plan: OnceLock::new(),
                reads: OnceLock::new(),
            })
        });
        instance.clone()
    }
}

/// What tells the instances of functions apart: name, attrs in their order, and whether it is the gradient.
#[derive(PartialEq, Eq, Hash)]
struct InstanceKey {
    name: String,
    /// Names and serialised values; texts for people leave out a part.
    attrs: Vec<(String, Vec<u8>)>,
    is_gradient: bool,
}

impl InstanceKey {
    fn new(name: &str, attrs: &Attrs, is_gradient: bool) -> InstanceKey {
        let attrs_of_body = attrs.iter().filter(|(name, _)| !name.starts_with('_'));
        let mut attrs: Vec<(String, Vec<u8>)> = attrs_of_body
            .map(|(name, value)| (name.to_string(), value.to_proto().encode_to_vec()))
            .collect();
        attrs.sort();
        InstanceKey { name: name.to_string(), attrs, is_gradient }
    }
}

impl Function {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The plan of the body, made if need be.
    ///
    /// # Errors
    /// What is wrong with the function, in the reference's words.
    pub(crate) fn plan(&self, functions: &Arc<Functions>, callers: &[usize]) -> Result<&Arc<Plan>> {
        if let Some(plan) = self.plan.get() {
            return Ok(plan);
        }
        let made = self.make_plan(functions, callers)?;
        Ok(self.plan.get_or_init(|| made))
    }

    /// Plans the body together with its caller, unless it is its own caller or too far down.
    pub(crate) fn plan_with_caller(
        &self,
        functions: &Arc<Functions>,
        callers: &[usize],
    ) -> Result<()> {
        if self.goes_with(callers) {
            self.plan(functions, callers)?;
        }
        Ok(())
    }

    fn goes_with(&self, callers: &[usize]) -> bool {
        callers.len() < MAX_EAGER_DEPTH && !callers.contains(&self.address())
    }

    /// Which arguments the body reads; nothing where that is not known.
    pub(crate) fn reads(&self, functions: &Arc<Functions>, callers: &[usize]) -> &[bool] {
        if let Some(known) = self.reads.get() {
            return known;
        }
        if !self.goes_with(callers) {
            return &[];
        }
        let callers = self.callers(callers);
        let find = |parts: &Arc<Parts>| read_args(&self.planner(functions, parts, &callers), parts);
        // What is wrong with the function is reported when it is planned.
        self.parts(functions).and_then(find).map_or(&[], |read| self.reads.get_or_init(|| read))
    }

    /// What stands for the function in a list of callers.
    fn address(&self) -> usize {
        self as *const Function as usize
    }

    /// The functions that are being planned when this one is, each called by the one before.
    pub(crate) fn callers(&self, callers: &[usize]) -> Vec<usize> {
        [callers, &[self.address()]].concat()
    }

    /// The plan, if the body has been planned.
    pub(crate) fn known_plan(&self) -> Option<&Plan> {
        self.plan.get().map(|plan| &**plan)
    }

    /// Whether a node of the body may wait for another node of the step, as far as is known.
    pub(crate) fn may_wait(&self) -> bool {
        self.known_plan().is_some_and(Plan::may_wait)
    }

    fn make_plan(&self, functions: &Arc<Functions>, callers: &[usize]) -> Result<Arc<Plan>> {
        let parts = self.parts(functions)?;
        let callers = self.callers(callers);
        let planner = self.planner(functions, parts, &callers);
        Ok(Arc::new(planner.plan(&parts.args, &parts.results, &parts.targets)?))
    }

    /// The body, instantiated.
    pub(crate) fn parts(&self, functions: &Functions) -> Result<&Arc<Parts>> {
        if let Some(parts) = self.parts.get() {
            return Ok(parts);
        }
        let made = Arc::new(self.instantiate(functions)?);
        Ok(self.parts.get_or_init(|| made))
    }

    fn instantiate(&self, functions: &Functions) -> Result<Parts> {
        let library = functions.library();
        let mut body = library.instantiate(&functions.registry, &self.name, &self.attrs)?;
        if self.is_gradient {
            body = body.gradient()?;
            if !Arc::ptr_eq(body.graph.library(), &library) {
                functions.add_derived(body.graph.library());
            }
        }
        let nodes: Vec<Arc<Node>> = (0..body.graph.num_ids())
            .map(|index| body.graph.node(NodeId(index as u32)).clone())
            .collect();
        let results = body.rets.iter().map(|id| nodes[id.index()].inputs[0].source).collect();
        let placement = functions.placer.place_body(&nodes, &body.args, &self.site)?;
        Ok(Parts {
            args: body.args.iter().map(|&id| OutputRef::new(id, 0)).collect(),
            results,
            targets: targets(&body),
            nodes,
            placement,
        })
    }

    /// What plans of the body are made from.
    pub(crate) fn planner<'p>(
        &'p self,
        functions: &'p Arc<Functions>,
        parts: &'p Parts,
        callers: &'p [usize],
    ) -> Planner<'p> {
        Planner {
            registry: &functions.registry,
            functions,
            kernels: &self.kernels,
            nodes: &parts.nodes,
            placement: &parts.placement,
            callers,
            in_function: true,
        }
    }
}

impl Parts {
    /// The dtypes of some outputs.
    pub(crate) fn dtypes(&self, outputs: &[OutputRef]) -> Vec<DType> {
        let dtype = |o: &OutputRef| self.nodes[o.node.index()].output_dtypes[o.port()].base();
        outputs.iter().map(dtype).collect()
    }
}

/// A body, instantiated.
pub(crate) struct Parts {
    pub(crate) nodes: Vec<Arc<Node>>,
    placement: Placement,
    pub(crate) args: Vec<OutputRef>,
    pub(crate) results: Vec<OutputRef>,
    /// Nodes that run though nobody asks for their outputs.
    pub(crate) targets: Vec<NodeId>,
}

/// The nodes that run though nobody asks for their outputs. A body that does not name them has all its stateful
/// nodes run.
fn targets(body: &FunctionBody) -> Vec<NodeId> {
    if !body.control_rets.is_empty() {
        return body.control_rets.clone();
    }
    let is_end = |node: &Node| matches!(&*node.op.name, "_Arg" | "_Retval");
    let nodes = body.graph.nodes().iter();
    nodes.filter(|node| node.op.is_stateful && !is_end(node)).map(|node| node.id).collect()
}
