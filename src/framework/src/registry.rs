//! The registry: the behaviour of ops, attached by name to their definitions.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tfcore_base::{DType, Result, already_exists, internal, invalid, not_found};

use crate::gradient::{Gradient, GradientFn};
use crate::inference::InferenceContext;
use crate::kernel::{Kernel, KernelInit};
use crate::{AttrValue, Attrs, OpDef, op_table};

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
    /// Type attrs and the types that each may have.
    pub constraints: Vec<(&'static str, Vec<DType>)>,
    /// Nothing where what the op does is up to the executor: switches, loops, calls.
    pub factory: Option<KernelFactory>,
}

impl KernelDef {
    /// Whether the kernel is for nodes with these attrs.
    fn matches(&self, attrs: &Attrs) -> bool {
        self.constraints.iter().all(|(name, allowed)| match attrs.get(name) {
            Some(AttrValue::Type(dtype)) => allowed.contains(dtype),
            Some(AttrValue::List(_)) => attrs
                .dtypes(name)
                .is_ok_and(|dtypes| dtypes.iter().all(|dtype| allowed.contains(dtype))),
            _ => false,
        })
    }
}

/// What an op does.
#[derive(Clone, Default)]
pub struct Behaviour {
    pub shape: Option<ShapeFn>,
    pub kernels: Vec<KernelDef>,
    pub gradient: Gradient,
}

/// All ops that the process knows: the table's, with the behaviour that the op families attach, and
/// those added at run time.
#[derive(Default)]
pub struct Registry {
    behaviours: HashMap<&'static str, Behaviour>,
    added: RwLock<HashMap<Arc<str>, Arc<Op>>>,
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

    /// The definition of the op `name`.
    pub fn def(&self, name: &str) -> Option<Arc<OpDef>> {
        match op_table::get(name) {
            Some(def) => Some(def.clone()),
            None => self.added.read().get(name).map(|op| op.def.clone()),
        }
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
        match self.behaviours.get(name) {
            Some(behaviour) => behaviour.kernels.clone(),
            None => {
                self.added.read().get(name).map_or(Vec::new(), |op| op.behaviour.kernels.clone())
            }
        }
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
        match self.behaviours.get(name) {
            Some(behaviour) => behaviour.kernels.iter().any(fits),
            None => {
                self.added.read().get(name).is_some_and(|op| op.behaviour.kernels.iter().any(fits))
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
                return Err(invalid!(
                    "OpKernel '{name}' has constraint on attr '{attr}' not in NodeDef '[{}]'",
                    attrs_text(attrs)
                ));
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
        match kernels.iter().find(|def| def.device == device && def.matches(init.attrs)) {
            Some(KernelDef { factory: Some(factory), .. }) => factory(init),
            Some(_) => Err(internal!("Op '{}' is the executor's", init.op.name)),
            None => Err(no_kernel(init, &kernels)),
        }
    }
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

    /// A CPU kernel for nodes of any type.
    pub fn cpu(
        self,
        factory: impl Fn(&KernelInit<'_>) -> Result<Box<dyn Kernel>> + Send + Sync + 'static,
    ) -> Self {
        self.cpu_where(Vec::new(), factory)
    }

    /// A CPU kernel for nodes whose type attr `attr` is one of `dtypes`.
    pub fn cpu_for(
        self,
        attr: &'static str,
        dtypes: &[DType],
        factory: impl Fn(&KernelInit<'_>) -> Result<Box<dyn Kernel>> + Send + Sync + 'static,
    ) -> Self {
        self.cpu_where(vec![(attr, dtypes.to_vec())], factory)
    }

    /// A CPU kernel for nodes that meet several type constraints.
    pub fn cpu_where(
        self,
        constraints: Vec<(&'static str, Vec<DType>)>,
        factory: impl Fn(&KernelInit<'_>) -> Result<Box<dyn Kernel>> + Send + Sync + 'static,
    ) -> Self {
        let factory: Option<KernelFactory> = Some(Arc::new(factory));
        self.kernel(KernelDef { device: DeviceType::Cpu, constraints, factory })
    }

    /// A CPU kernel that is the executor's, for nodes that meet several type constraints.
    pub fn by_executor(self, constraints: Vec<(&'static str, Vec<DType>)>) -> Self {
        self.kernel(KernelDef { device: DeviceType::Cpu, constraints, factory: None })
    }

    /// A CPU kernel that needs nothing of its node: a function.
    pub fn compute(self, compute: fn(&mut crate::OpContext<'_>) -> Result<()>) -> Self {
        self.cpu(move |_| Ok(Box::new(compute)))
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
        self.behaviour.kernels.push(def);
        self
    }
}
