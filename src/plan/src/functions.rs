//! The functions of a session: each is instantiated and planned once for every set of attrs.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tfcore_base::{Result, not_found};
use tfcore_framework::{Attrs, Registry, Role};
use tfcore_graph::{FunctionBody, FunctionLibrary, Node, NodeId, OutputRef};
use tfcore_proto::Message;

use crate::context::{FunctionSource, PassContext};
use crate::graph::{PlanGraph, Source};
use crate::options::PassOptions;
use crate::passes::unread::read_args;
use crate::place::{CallSite, Placer};
use crate::plan::{Function, Loop, Parts, Plan};
use crate::planner::{LoopPart, plan, while_loop};
use crate::shapes::Shapes;
use crate::stack::with_stack;

/// So many functions, each called by the one before, are planned together with the first; those beyond when they are
/// called, so that a chain of thousands needs no stack of thousands.
const MAX_EAGER_DEPTH: usize = 32;

/// The functions that a session knows, and those that it has instantiated.
pub struct Functions {
    registry: Arc<Registry>,
    placer: Placer,
    options: PassOptions,
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

impl Functions {
    pub fn new(registry: Arc<Registry>, placer: Placer, options: PassOptions) -> Functions {
        Functions {
            registry,
            placer,
            options,
            library: RwLock::default(),
            instances: Mutex::default(),
            loops: Mutex::default(),
        }
    }

    /// Takes over the functions of a graph. Those in use stay as they are.
    pub fn set_library(&self, library: &Arc<FunctionLibrary>) {
        let mut known = self.library.write();
        known.functions = library.clone();
        known.add_derived(&self.registry);
    }

    pub fn placer(&self) -> &Placer {
        &self.placer
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

    fn instance(
        &self,
        name: &str,
        attrs: &Attrs,
        site: CallSite,
        is_gradient: bool,
    ) -> Arc<Function> {
        let key = InstanceKey::new(name, attrs, is_gradient);
        let mut instances = self.instances.lock();
        let instance = instances
            .entry((key, site.clone()))
            .or_insert_with(|| Arc::new(Function::new(name, attrs, site, is_gradient)));
        instance.clone()
    }

    /// The function `name` for calls with `attrs` at `site`.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn named(&self, name: &str, attrs: &Attrs, site: CallSite) -> Result<Arc<Function>> {
        match self.contains(name) {
            true => Ok(self.instance(name, attrs, site, false)),
            false => Err(not_found!("Function {name} is not defined.")),
        }
    }

    /// The plan of a function's body, made if need be.
    ///
    /// # Errors
    /// What is wrong with the function, in the reference's words.
    pub fn plan<'f>(&self, function: &'f Function) -> Result<&'f Arc<Plan>> {
        self.plan_called(function, &[])
    }

    fn plan_called<'f>(&self, function: &'f Function, callers: &[usize]) -> Result<&'f Arc<Plan>> {
        if let Some(plan) = function.plan.get() {
            return Ok(plan);
        }
        let callers = function.callers(callers);
        let made = with_stack(|| {
            let parts = self.parts(function)?;
            plan(parts.source(), &self.context(function, &callers)).map(Arc::new)
        })?;
        Ok(function.plan.get_or_init(|| made))
    }

    /// The body, instantiated.
    fn parts<'f>(&self, function: &'f Function) -> Result<&'f Arc<Parts>> {
        if let Some(parts) = function.parts.get() {
            return Ok(parts);
        }
        let made = Arc::new(self.instantiate(function)?);
        Ok(function.parts.get_or_init(|| made))
    }

    fn instantiate(&self, function: &Function) -> Result<Parts> {
        let library = self.library();
        let mut body = library.instantiate(&self.registry, &function.name, &function.attrs)?;
        if function.is_gradient {
            body = body.gradient()?;
            if !Arc::ptr_eq(body.graph.library(), &library) {
                self.add_derived(body.graph.library());
            }
        }
        let nodes: Vec<Arc<Node>> = (0..body.graph.num_ids())
            .map(|index| body.graph.node(NodeId(index as u32)).clone())
            .collect();
        let results = body.rets.iter().map(|id| nodes[id.index()].inputs[0].source).collect();
        let placement = self.placer.place_body(&nodes, &body.args, &function.site)?;
        let mut shapes = Shapes::default();
        shapes.extend(&body.graph);
        Ok(Parts {
            shapes,
            args: body.args.iter().map(|&id| OutputRef::new(id, 0)).collect(),
            results,
            targets: targets(&body),
            nodes,
            placement,
        })
    }

    /// What plans of a function's body are made from.
    fn context<'p>(&'p self, function: &'p Function, callers: &'p [usize]) -> PassContext<'p> {
        PassContext {
            registry: &self.registry,
            functions: self,
            placer: &self.placer,
            kernels: &function.kernels,
            callers,
            in_function: true,
            options: &self.options,
        }
    }

    fn make_loop(
        &self,
        cond: &Function,
        body: &Function,
        callers: &[usize],
    ) -> Result<Option<Loop>> {
        let callers = (cond.callers(callers), body.callers(callers));
        let part = |function, callers| -> Result<LoopPart<'_>> {
            let parts = self.parts(function)?;
            let context = self.context(function, callers);
            Ok(LoopPart { name: &function.name, parts, context })
        };
        while_loop(&part(cond, &callers.0)?, &part(body, &callers.1)?)
    }
}

impl FunctionSource for Functions {
    fn is_empty(&self) -> bool {
        self.library.read().functions.is_empty()
    }

    fn contains(&self, name: &str) -> bool {
        self.library.read().functions.get(name).is_some()
    }

    fn get(&self, name: &str, attrs: &Attrs, site: CallSite) -> Arc<Function> {
        self.instance(name, attrs, site, false)
    }

    fn gradient_of(&self, name: &str, attrs: &Attrs, site: CallSite) -> Arc<Function> {
        match self.library().gradient(name) {
            Some(gradient) => self.instance(gradient, attrs, site, false),
            None => self.instance(name, attrs, site, true),
        }
    }

    fn plan_with_caller(&self, function: &Function, callers: &[usize]) -> Result<()> {
        if goes_with(function, callers) {
            self.plan_called(function, callers)?;
        }
        Ok(())
    }

    fn reads<'f>(&self, function: &'f Function, callers: &[usize]) -> &'f [bool] {
        if let Some(known) = function.reads.get() {
            return known;
        }
        if !goes_with(function, callers) {
            return &[];
        }
        let callers = function.callers(callers);
        let find = |parts: &Arc<Parts>| {
            // An argument is a node that is needed, rather than a value that is given.
            let mut graph = PlanGraph::new(Source { args: &[], targets: &[], ..parts.source() });
            let context = self.context(function, &callers);
            read_args(&mut graph, &context, &parts.args, &parts.targets)
        };
        // What is wrong with the function is reported when it is planned.
        with_stack(|| self.parts(function).and_then(find))
            .map_or(&[], |read| function.reads.get_or_init(|| read))
    }

    /// Each loop is made once.
    fn while_loop(
        &self,
        cond: &Arc<Function>,
        body: &Arc<Function>,
        callers: &[usize],
    ) -> Option<Arc<Loop>> {
        // The instances live as long as this, so that their addresses tell them apart.
        let key = (cond.address(), body.address());
        if callers.len() >= MAX_EAGER_DEPTH {
            return None;
        }
        if let Some(known) = self.loops.lock().get(&key) {
            return known.clone();
        }
        self.loops.lock().insert(key, None);
        // What is wrong with the functions is reported when they are planned by themselves.
        let made = with_stack(|| self.make_loop(cond, body, callers));
        let made = made.ok().flatten().map(Arc::new);
        self.loops.lock().insert(key, made.clone());
        made
    }
}

/// True if a function is planned together with its caller.
fn goes_with(function: &Function, callers: &[usize]) -> bool {
    callers.len() < MAX_EAGER_DEPTH && !callers.contains(&function.address())
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

/// The nodes that run though nobody asks for their outputs. A body that does not name them has all its stateful
/// nodes run.
fn targets(body: &FunctionBody) -> Vec<NodeId> {
    if !body.control_rets.is_empty() {
        return body.control_rets.clone();
    }
    let is_end = |node: &Node| matches!(node.role(), Role::Arg | Role::Retval);
    let nodes = body.graph.nodes().iter();
    nodes.filter(|node| node.op.is_stateful && !is_end(node)).map(|node| node.id).collect()
}
