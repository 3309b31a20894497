//! The registry: the behaviour of ops, attached by name to their definitions.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tfcore_base::{
    DType, LoopSet, Result, TypeSet, TypedLoop, already_exists, internal, invalid, not_found,
};
use tfcore_files::Files;

use crate::context::OpContext;
use crate::gradient::{Gradient, GradientFn};
use crate::inference::InferenceContext;
use crate::kernel::{Kernel, KernelInit, kernel};
use crate::kernel_table::Constraints;
use crate::{AttrValue, Attrs, OpDef, kernel_table, op_table};

/// Computes the static shapes of a node's outputs.
pub type ShapeFn = Arc<dyn Fn(&mut InferenceContext<'_>) -> Result<()> + Send + Sync>;

/// Builds the kernel of a node.
pub type KernelFactory = Arc<dyn Fn(&KernelInit<'_>) -> Result<Box<dyn Kernel>> + Send + Sync>;

/// The kinds of devices that have kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceType {
    Cpu,
    Gpu,
}

impl DeviceType {
    pub fn name(self) -> &'static str {
        match self {
            DeviceType::Cpu => "CPU",
            DeviceType::Gpu => "GPU",
        }
    }
}

/// One kernel: for which nodes it is, and how it is built.
#[derive(Clone)]
pub struct KernelDef {
    pub device: DeviceType,
    pub constraints: Constraints,
    /// Nodes ask for a kernel with a label by the attr `_kernel`; others take one without.
    pub label: Cow<'static, str>,
    /// Of several kernels for a node the one with the highest priority is taken.
    pub priority: i32,
    /// The arguments of the op that lie in host memory on any device.
    pub host_memory: Vec<String>,
    /// `None` if the executor does what the op does: switches, loops, calls.
    pub factory: Option<KernelFactory>,
}

impl KernelDef {
    /// A CPU kernel.
    pub fn cpu(constraints: Constraints, factory: Option<KernelFactory>) -> KernelDef {
        KernelDef {
            device: DeviceType::Cpu,
            constraints,
            label: "".into(),
            priority: 0,
            host_memory: Vec::new(),
            factory,
        }
    }

    /// True if the kernel is for nodes with these attrs.
    fn matches(&self, attrs: &Attrs) -> bool {
        let label = attrs.get("_kernel").and_then(|_| attrs.str("_kernel").ok()).unwrap_or("");
        self.label == label
            && self.constraints.iter().all(|(name, allowed)| match attrs.get(name) {
                Some(AttrValue::Type(dtype)) => allowed.contains(dtype),
                Some(AttrValue::List(_)) => attrs
                    .dtypes(name)
                    .is_ok_and(|dtypes| dtypes.iter().all(|dtype| allowed.contains(dtype))),
                _ => false,
            })
    }
}

/// A kernel as an op family registers it.
enum Registration {
    /// With constraints of its own.
    Explicit(KernelDef),
    /// For the types of the reference's kernels of the op; of those in one attr, only for the ones
    /// that are listed.
    ByTable { only: Option<(&'static str, fn() -> Vec<DType>)>, factory: Option<KernelFactory> },
}

impl Registration {
    /// Appends the kernels of the op `name`.
    fn expand(&self, name: &str, kernels: &mut Vec<KernelDef>) {
        let (only, factory) = match self {
            Registration::Explicit(def) => return kernels.push(def.clone()),
            Registration::ByTable { only, factory } => (only, factory),
        };
        let only = only.map(|(attr, dtypes)| (attr, dtypes()));
        let Some(table) = kernel_table::get(name) else {
            let constraints = only.into_iter().map(|(attr, dtypes)| (attr.into(), dtypes));
            return kernels.push(KernelDef::cpu(constraints.collect(), factory.clone()));
        };
        for types in table {
            let mut def = KernelDef::cpu(types.constraints, factory.clone());
            def.label = types.label.into();
            def.priority = types.priority;
            if let Some((attr, dtypes)) = &only {
                match def.constraints.iter_mut().find(|(name, _)| name == attr) {
                    Some((_, allowed)) => allowed.retain(|dtype| dtypes.contains(dtype)),
                    None => def.constraints.push(((*attr).into(), dtypes.clone())),
                }
            }
            if def.constraints.iter().all(|(_, allowed)| !allowed.is_empty()) {
                kernels.push(def);
            }
        }
    }
}

/// What an op does.
#[derive(Default)]
pub struct Behaviour {
    shape: Option<ShapeFn>,
    registrations: Vec<Registration>,
    /// What the registrations come to, worked out when a kernel is first asked for.
    kernels: OnceLock<Vec<KernelDef>>,
    gradient: Gradient,
}

impl Behaviour {
    /// What an op does that has no kernel yet.
    pub fn with_shape(shape: Option<ShapeFn>) -> Behaviour {
        Behaviour { shape, ..Behaviour::default() }
    }

    /// The kernels of the op, whose name is `name`.
    fn kernels(&self, name: &str) -> &[KernelDef] {
        self.kernels.get_or_init(|| {
            let mut kernels = Vec::new();
            self.registrations.iter().for_each(|one| one.expand(name, &mut kernels));
            // The first of equal priority is taken.
            kernels.sort_by_key(|def| std::cmp::Reverse(def.priority));
            kernels
        })
    }
}

/// All ops that the process knows: the table's, with the behaviour that the op families attach, and
/// those added at run time.
#[derive(Default)]
pub struct Registry {
    behaviours: HashMap<&'static str, Behaviour>,
    added: RwLock<HashMap<Arc<str>, Arc<Op>>>,
    /// The kernels that were added at run time, by op.
    added_kernels: RwLock<HashMap<Box<str>, Vec<KernelDef>>>,
    files: Arc<Files>,
}

/// An op that was added at run time.
struct Op {
    def: Arc<OpDef>,
    behaviour: Behaviour,
}

impl Registry {
    pub fn new() -> Registry {
        Registry::default()
    }

    /// The file systems that the ops of the process reach.
    pub fn files(&self) -> &Arc<Files> {
        &self.files
    }

    /// Begins to attach behaviour to the op `name`.
    pub fn op(&mut self, name: &'static str) -> OpEntry<'_> {
        debug_assert!(op_table::get(name).is_some(), "no op {name}");
        OpEntry { behaviour: self.behaviours.entry(name).or_default() }
    }

    /// Attaches the same behaviour to several ops.
    pub fn ops<const N: usize>(&mut self, names: [&'static str; N], attach: impl Fn(OpEntry<'_>)) {
        for name in names {
            attach(self.op(name));
        }
    }

    /// Adds an op at run time.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken.
    pub fn add(&self, def: OpDef, behaviour: Behaviour) -> Result<()> {
        let mut added = self.added.write();
        if op_table::get(&def.name).is_some() || added.contains_key(&def.name) {
            return Err(already_exists!("Op with name {}", def.name));
        }
        let name = def.name.clone();
        added.insert(name, Arc::new(Op { def: Arc::new(def), behaviour }));
        Ok(())
    }

    /// Adds a kernel at run time, of an op that may be added later.
    pub fn add_kernel(&self, op: &str, kernel: KernelDef) {
        self.added_kernels.write().entry(op.into()).or_default().push(kernel);
    }

    /// The definition of the op `name`.
    pub fn def(&self, name: &str) -> Option<Arc<OpDef>> {
        match op_table::get(name) {
            Some(def) => Some(def.clone()),
            None => self.added.read().get(name).map(|op| op.def.clone()),
        }
    }

    /// The ops that were added at run time, by name.
    pub fn added(&self) -> Vec<Arc<OpDef>> {
        let mut added: Vec<_> = self.added.read().values().map(|op| op.def.clone()).collect();
        added.sort_by(|a, b| a.name.cmp(&b.name));
        added
    }

    /// Whether the op was added at run time.
    pub fn is_added(&self, name: &str) -> bool {
        self.added.read().contains_key(name)
    }

    /// All definitions, by name.
    pub fn defs(&self) -> Vec<Arc<OpDef>> {
        let mut defs: Vec<Arc<OpDef>> =
            op_table::names().filter_map(|name| op_table::get(name).cloned()).collect();
        defs.extend(self.added.read().values().map(|op| op.def.clone()));
        defs.sort_by(|a, b| a.name.cmp(&b.name));
        defs
    }

    /// The shape function of the op `name`, if it has one.
    pub fn shape_fn(&self, name: &str) -> Option<ShapeFn> {
        match self.behaviours.get(name) {
            Some(behaviour) => behaviour.shape.clone(),
            None => self.added.read().get(name).and_then(|op| op.behaviour.shape.clone()),
        }
    }

    /// What the op `name` has to say about its gradient.
    pub fn gradient(&self, name: &str) -> Gradient {
        self.behaviours.get(name).map_or(Gradient::Undefined, |behaviour| behaviour.gradient)
    }

    /// The ops that have a gradient function, sorted.
    pub fn differentiable(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = self
            .behaviours
            .iter()
            .filter(|(_, behaviour)| matches!(behaviour.gradient, Gradient::Function(_)))
            .map(|(name, _)| *name)
            .collect();
        names.sort_unstable();
        names
    }

    /// The kernels of the op `name`, for all devices.
    pub fn kernels(&self, name: &str) -> Vec<KernelDef> {
        let mut kernels = match self.behaviours.get(name) {
            Some(behaviour) => behaviour.kernels(name).to_vec(),
            None => {
                let added = self.added.read();
                added.get(name).map_or(Vec::new(), |op| op.behaviour.kernels(name).to_vec())
            }
        };
        if let Some(added) = self.added_kernels.read().get(name) {
            kernels.extend_from_slice(added);
            kernels.sort_by_key(|def| std::cmp::Reverse(def.priority));
        }
        kernels
    }

    /// The types for which loops of the op `name` are compiled although the reference has no kernel
    /// for them.
    pub fn superfluous_types(&self, name: &str) -> Vec<DType> {
        let (Some(behaviour), Some(table)) = (self.behaviours.get(name), kernel_table::get(name))
        else {
            return Vec::new();
        };
        let only = behaviour.registrations.iter().filter_map(|registration| match registration {
            Registration::ByTable { only, .. } => *only,
            Registration::Explicit(_) => None,
        });
        let unused = |(attr, dtypes): (&str, fn() -> Vec<DType>)| {
            let lists = table.iter().flat_map(|types| &types.constraints);
            let allowed: Vec<DType> =
                lists.filter(|(name, _)| name == attr).flat_map(|(_, list)| list.clone()).collect();
            dtypes().into_iter().filter(move |dtype| !allowed.contains(dtype)).collect::<Vec<_>>()
        };
        only.flat_map(unused).collect()
    }

    /// Whether the op `name` has a kernel on `device` for nodes with these attrs.
    pub fn has_kernel(&self, device: DeviceType, name: &str, attrs: &Attrs) -> bool {
        self.any_kernel(name, |def| def.device == device && def.matches(attrs))
    }

    /// Whether a kernel computes the op `name` on `device` for nodes with these attrs, rather than the executor.
    pub fn computes(&self, device: DeviceType, name: &str, attrs: &Attrs) -> bool {
        let has_factory = |def: &KernelDef| def.factory.is_some();
        self.any_kernel(name, |def| def.device == device && has_factory(def) && def.matches(attrs))
    }

    fn any_kernel(&self, name: &str, fits: impl Fn(&KernelDef) -> bool) -> bool {
        let fits = &fits;
        if self.added_kernels.read().get(name).is_some_and(|added| added.iter().any(fits)) {
            return true;
        }
        match self.behaviours.get(name) {
            Some(behaviour) => behaviour.kernels(name).iter().any(fits),
            None => {
                let added = self.added.read();
                added.get(name).is_some_and(|op| op.behaviour.kernels(name).iter().any(fits))
            }
        }
    }

    /// Checks that a device type, which need not be one that this library knows, has a kernel for the op `name` with these attrs.
    ///
    /// # Errors
    /// `NotFound` with a list of the kernels that there are, `InvalidArgument` if an attr is missing that tells.
    pub fn check_kernel(&self, device: &str, name: &str, attrs: &Attrs) -> Result<()> {
        let kernels = self.kernels(name);
        for def in kernels.iter().filter(|def| def.device.name() == device) {
            if let Some((attr, _)) = def.constraints.iter().find(|(attr, _)| !attrs.contains(attr))
            {
                return Err(missing_attr(name, attrs, attr));
            }
            if def.matches(attrs) {
                return Ok(());
            }
        }
        let mismatch = match kernels.is_empty() {
            true => String::new(),
            false => format!(
                " (OpKernel was found, but attributes didn't match) Requested Attributes: {}\n\t",
                attrs_text(attrs)
            ),
        };
        Err(not_found!(
            "No registered '{name}' OpKernel for {device} devices compatible with node {{{{node \
             {name}}}}}\n\t{mismatch}.  Registered:{}",
            kernels_text(&kernels)
        ))
    }

    /// Builds the kernel of a node.
    ///
    /// # Errors
    /// `InvalidArgument` "No OpKernel was registered to support Op ..." if there is none, and what
    /// the factory reports.
    pub fn build_kernel(
        &self,
        device: DeviceType,
        init: &KernelInit<'_>,
    ) -> Result<Box<dyn Kernel>> {
        let kernels = self.kernels(&init.op.name);
        for def in kernels.iter().filter(|def| def.device == device) {
            if let Some((attr, _)) =
                def.constraints.iter().find(|(attr, _)| !init.attrs.contains(attr))
            {
                return Err(missing_attr(&init.op.name, init.attrs, attr));
            }
        }
        let mut matching =
            kernels.iter().filter(|def| def.device == device && def.matches(init.attrs));
        let (best, next) = (matching.next(), matching.next());
        if let (Some(best), Some(next)) = (best, next)
            && best.priority == next.priority
            && self.added_kernels.read().contains_key(&*init.op.name)
        {
            return Err(ambiguous(init, best, next));
        }
        match best {
            Some(KernelDef { factory: Some(factory), .. }) => factory(init),
            Some(_) => Err(internal!("Op '{}' is the executor's", init.op.name)),
            None => Err(no_kernel(init, &kernels)),
        }
    }
}

/// The error for a kernel that is chosen by an attr that the node lacks.
fn missing_attr(op: &str, attrs: &Attrs, attr: &str) -> tfcore_base::Error {
    invalid!(
        "OpKernel '{op}' has constraint on attr '{attr}' not in NodeDef '[{}]'",
        attrs_text(attrs)
    )
}

/// The error for a node with two kernels, of which at least one was added at run time.
fn ambiguous(init: &KernelInit<'_>, one: &KernelDef, other: &KernelDef) -> tfcore_base::Error {
    let text = |def: &KernelDef| kernels_text(std::slice::from_ref(def)).trim().to_string();
    invalid!(
        "Multiple OpKernel registrations match NodeDef at the same priority '{{{{node {}}}}}': '{}' and '{}'",
        init.name,
        text(one),
        text(other)
    )
}

fn no_kernel(init: &KernelInit<'_>, kernels: &[KernelDef]) -> tfcore_base::Error {
    invalid!(
        "No OpKernel was registered to support Op '{}' used by {{{{node {}}}}} with these attrs: [{}]\n\
         Registered devices: [CPU]\nRegistered kernels:\n{}",
        init.op.name,
        init.name,
        attrs_text(init.attrs),
        kernels_text(kernels)
    )
    .placing(init.name)
}

/// The attrs that an op may declare.
fn attrs_text(attrs: &Attrs) -> String {
    let attrs: Vec<String> = attrs
        .iter()
        .filter(|(name, _)| !name.starts_with('_'))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    attrs.join(", ")
}

/// A line for each kernel.
fn kernels_text(kernels: &[KernelDef]) -> String {
    if kernels.is_empty() {
        return "  <no registered kernels>\n".to_string();
    }
    let mut text = String::new();
    for def in kernels {
        text.push_str(&format!("  device='{}'", def.device.name()));
        for (name, allowed) in &def.constraints {
            let names: Vec<String> = allowed.iter().map(|dtype| dtype.enum_name()).collect();
            text.push_str(&format!("; {name} in [{}]", names.join(", ")));
        }
        text.push('\n');
    }
    text
}

/// The builder that attaches behaviour to one op.
pub struct OpEntry<'r> {
    behaviour: &'r mut Behaviour,
}

impl OpEntry<'_> {
    /// The shape function.
    pub fn shape(
        self,
        shape: impl Fn(&mut InferenceContext<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.behaviour.shape = Some(Arc::new(shape));
        self
    }

    /// A CPU kernel for all types for which the reference has one.
    pub fn cpu(
        self,
        factory: impl Fn(&KernelInit<'_>) -> Result<Box<dyn Kernel>> + Send + Sync + 'static,
    ) -> Self {
        self.by_table(None, Some(Arc::new(factory)))
    }

    /// As [`OpEntry::cpu`], of the types of attr `attr` for those of set `S` only.
    pub fn cpu_of<S: TypeSet>(
        self,
        attr: &'static str,
        factory: impl Fn(&KernelInit<'_>) -> Result<Box<dyn Kernel>> + Send + Sync + 'static,
    ) -> Self {
        self.by_table(Some((attr, S::dtypes)), Some(Arc::new(factory)))
    }

    /// A CPU kernel that is a function of its inputs and of the loop of family `F` for the type of
    /// attr `attr`, which may be those of set `S`.
    pub fn typed<F: TypedLoop, S: LoopSet<F>>(
        self,
        attr: &'static str,
        compute: fn(&mut OpContext<'_>, F::Loop) -> Result<()>,
    ) -> Self {
        self.typed_kernel::<F, S>(attr, move |_, found| kernel(move |ctx| compute(ctx, found)))
    }

    /// As [`OpEntry::typed`], for kernels that have attrs: `build` reads them.
    pub fn typed_kernel<F: TypedLoop, S: LoopSet<F>>(
        self,
        attr: &'static str,
        build: impl Fn(&KernelInit<'_>, F::Loop) -> Result<Box<dyn Kernel>> + Send + Sync + 'static,
    ) -> Self {
        self.cpu_of::<S>(attr, move |init| build(init, init.typed::<F, S>(attr)?))
    }

    /// A CPU kernel that is the executor's.
    pub fn by_executor(self) -> Self {
        self.by_table(None, None)
    }

    /// A CPU kernel that needs nothing of its node: a function, for all types for which the reference
    /// has a kernel.
    pub fn compute(self, compute: fn(&mut OpContext<'_>) -> Result<()>) -> Self {
        self.cpu(move |_| Ok(Box::new(compute)))
    }

    fn by_table(
        self,
        only: Option<(&'static str, fn() -> Vec<DType>)>,
        factory: Option<KernelFactory>,
    ) -> Self {
        self.behaviour.registrations.push(Registration::ByTable { only, factory });
        self
    }

    /// The gradient.
    pub fn gradient(self, gradient: GradientFn) -> Self {
        self.behaviour.gradient = Gradient::Function(gradient);
        self
    }

    /// No gradient: the op is constant in its inputs, or has none that could be differentiated.
    pub fn no_gradient(self) -> Self {
        self.behaviour.gradient = Gradient::Zero;
        self
    }

    /// A kernel.
    pub fn kernel(self, def: KernelDef) -> Self {
        self.behaviour.registrations.push(Registration::Explicit(def));
        self
    }
}
