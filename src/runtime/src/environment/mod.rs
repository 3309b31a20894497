//! `Environment`: what a session is made of besides its graph. Sessions own or share one.

pub(crate) mod config;
pub(crate) mod device;

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tfcore_base::{Result, cancelled, invalid, not_found};
use tfcore_framework::{
    Attrs, Callable, Caller, Cancellation, FunctionLookup, Registry, Rendezvous, Step,
    StepContainer, Value,
};
use tfcore_math::denormals::FlushDenormals;
use tfcore_math::pool::Pool;
use tfcore_plan::functions::Functions;
use tfcore_plan::options::PassOptions;
use tfcore_plan::place::{CallSite, Placer};
use tfcore_plan::plan::Function;
use tfcore_tensor::{BufferPool, Tensor};

use crate::environment::config::SessionConfig;
use crate::environment::device::Device;
use crate::run::call::call;
use crate::run::engine::Gears;
use crate::run::exec::{Exec, Inputs, Run, fetched};

/// Step numbers are unique in the process: rendezvous and step containers are named after them.
static NEXT_STEP: AtomicI64 = AtomicI64::new(1);

/// The first of `count` step numbers that nobody else uses.
pub(crate) fn new_steps(count: i64) -> i64 {
    NEXT_STEP.fetch_add(count, Ordering::Relaxed)
}

/// Ops, devices with their resources, functions, memory and threads.
pub struct Environment {
    pub(crate) registry: Arc<Registry>,
    /// At least one; values pass through the memory of all of them without a copy.
    pub(crate) devices: Vec<Device>,
    pub(crate) functions: Arc<Functions>,
    pub(crate) options: PassOptions,
    pub(crate) buffers: Arc<BufferPool>,
    /// At least one; `None` for one thread.
    pub(crate) pools: Vec<Option<Arc<Pool>>>,
    /// How many sessions use it.
    users: AtomicUsize,
    this: Weak<Environment>,
}

impl Environment {
    /// # Errors
    /// `NotFound` without any device.
    pub fn new(registry: Arc<Registry>, config: &SessionConfig) -> Result<Arc<Environment>> {
        let devices: Vec<Device> = (0..config.cpu_devices).map(Device::cpu).collect();
        if devices.is_empty() {
            return Err(not_found!("No CPU devices are available in this process"));
        }
        let names = devices.iter().map(Device::name);
        let placer = Placer::new(names, config.soft_placement, config.log_placement);
        let options = config.pass_options();
        Ok(Arc::new_cyclic(|this| Environment {
            functions: Arc::new(Functions::new(registry.clone(), placer, options.clone())),
            registry,
            devices,
            options,
            buffers: BufferPool::new(),
            pools: config.pools(),
            users: AtomicUsize::new(0),
            this: this.clone(),
        }))
    }

    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Notes one more user.
    pub(crate) fn enter(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a user has gone. With the last one go all resources: some have threads, which call functions of the
    /// environment and so must have ended before it does. Tensors of clients may hold on to the memory for long.
    pub(crate) fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.devices.iter().for_each(|device| device.resources.clear_all());
            self.buffers.close();
        }
    }

    /// The pool for a run; -1 stands for the caller's thread alone.
    ///
    /// # Errors
    /// `InvalidArgument` for the number of no pool.
    pub(crate) fn pool(&self, index: i32) -> Result<&Option<Arc<Pool>>> {
        match usize::try_from(index) {
            Ok(index) if index < self.pools.len() => Ok(&self.pools[index]),
            _ if index == -1 => Ok(&None),
            _ => Err(invalid!("Invalid inter_op_thread_pool: {index}")),
        }
    }

    /// A run of step `id` without a trace or a time limit, which ends when the caller is cancelled.
    pub(crate) fn new_run(
        self: &Arc<Self>,
        id: i64,
        pool: &Option<Arc<Pool>>,
        caller: &Caller,
    ) -> Run {
        let (first, others) = self.devices.split_first().expect("there is a device");
        let step = Arc::new(Step {
            id,
            resources: first.resources.clone(),
            buffers: self.buffers.clone(),
            device: first.name.clone(),
            cancellation: Arc::new(Cancellation::child_of(&caller.cancellation)),
            // Not `..Step::default()`, which would make a pool and a manager to throw them away.
            container: StepContainer::default(),
            rendezvous: Rendezvous::default(),
            files: self.registry.files().clone(),
            first: None,
            functions: Some(self.clone()),
            depth: caller.depth,
        });
        Run {
            others: others.iter().map(|device| device.part_of(&step)).collect(),
            step,
            pool: pool.clone(),
            trace: None,
            deadline: None,
            call_deadlines: None,
            functions: self.functions.clone(),
            engine: &Gears,
            cause: OnceLock::new(),
        }
    }
}

impl FunctionLookup for Environment {
    fn function(&self, name: &str, attrs: &Attrs, device: &str) -> Result<Arc<dyn Callable>> {
        let function = self.functions.named(name, attrs, self.site_on(device))?;
        Ok(Arc::new(EnvironmentFunction { function, environment: self.this.clone() }))
    }

    fn threads(&self) -> usize {
        self.pools[0].as_ref().map_or(1, |pool| pool.threads())
    }
}

impl Environment {
    /// The site of a call by a kernel of this device.
    fn site_on(&self, device: &str) -> CallSite {
        let index = self.devices.iter().position(|known| known.name() == device);
        CallSite { device: index.unwrap_or(0) as u16, ..CallSite::default() }
    }
}

/// A function for kernels. It does not keep the environment: a resource that calls functions is kept by it.
struct EnvironmentFunction {
    function: Arc<Function>,
    environment: Weak<Environment>,
}

impl Callable for EnvironmentFunction {
    fn name(&self) -> &str {
        &self.function.name
    }

    fn call(&self, args: Vec<Tensor>, caller: &Caller) -> Result<Vec<Tensor>> {
        let environment =
            self.environment.upgrade().ok_or_else(|| cancelled!("Session has been closed."))?;
        let caller = Caller { depth: caller.depth + 1, ..caller.clone() };
        let run = Arc::new(environment.new_run(new_steps(1), &environment.pools[0], &caller));
        let args: Inputs = args.into_iter().map(Value::Tensor).collect();
        let _flush = FlushDenormals::new();
        let exec = Exec::called_by_kernel(&run, caller.depth);
        let results = call(&self.function, args, exec).map_err(|error| run.cause_of(error))?;
        results.into_iter().map(fetched).collect()
    }
}

#[cfg(test)]
mod tests {
    use tfcore_base::Code;
    use tfcore_framework::OpContext;
    use tfcore_graph::{Graph, ImportOptions, OutputRef};
    use tfcore_plan::testing::{add, registry_with, vector};
    use tfcore_proto as proto;

    use super::*;
    use crate::session::{Request, Session};

    /// `name(x) = op(x)`
    fn function(name: &str, op: &str) -> proto::FunctionDef {
        let arg = |name: &str| proto::op_def::ArgDef {
            name: name.to_string(),
            r#type: 1,
            ..Default::default()
        };
        let value = Some(proto::attr_value::Value::Type(1));
        proto::FunctionDef {
            signature: Some(proto::OpDef {
                name: name.to_string(),
                input_arg: vec![arg("x")],
                output_arg: vec![arg("y")],
                ..Default::default()
            }),
            node_def: vec![proto::NodeDef {
                name: "node".to_string(),
                op: op.to_string(),
                input: vec!["x".to_string()],
                attr: [("T".to_string(), proto::AttrValue { value })].into(),
                ..Default::default()
            }],
            ret: [("y".to_string(), "node:y:0".to_string())].into(),
            ..Default::default()
        }
    }

    /// The output is what the function `name` makes of the input.
    fn call_from(ctx: &mut OpContext<'_>, name: &str) -> Result<()> {
        let step = ctx.step();
        let function = step.functions()?.function(name, &Attrs::default(), &step.device)?;
        let results = function.call(vec![ctx.take_input(0)?], &step.caller())?;
        ctx.set_output(0, results[0].clone());
        Ok(())
    }

    /// A session of `y = Abs(x)`, and what it computes.
    fn run(abs: fn(&mut OpContext<'_>) -> Result<()>) -> (Result<Vec<Tensor>>, Session) {
        let registry = registry_with(|registry| {
            registry.op("Abs").compute(abs);
        });
        let mut graph = Graph::new(registry.clone());
        let library = proto::FunctionDefLibrary {
            function: vec![function("negate", "Neg"), function("endless", "Abs")],
            ..Default::default()
        };
        let def = proto::GraphDef { library: Some(library), ..Default::default() };
        graph.import(def, &ImportOptions::default()).unwrap();
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let y: OutputRef = add(&mut graph, "Abs", "y", &[x]);
        let session = Session::new(registry, &SessionConfig::default()).unwrap();
        session.extend(&graph).unwrap();
        let outcome = session.run(Request::new([(x, vector(&[2.0]))], &[y]));
        (outcome.map(|mut outcome| outcome.take_tensors().collect()), session)
    }

    #[test]
    fn kernels_call_functions_of_the_session() {
        let (results, _) = run(|ctx| call_from(ctx, "negate"));
        assert_eq!(results.unwrap()[0].as_slice::<f32>().unwrap(), [-2.0]);
        assert_eq!(run(|ctx| call_from(ctx, "nowhere")).0.unwrap_err().code(), Code::NotFound);
    }

    #[test]
    fn a_function_that_calls_itself_through_a_kernel_is_an_error() {
        let (results, _) = run(|ctx| call_from(ctx, "endless"));
        assert_eq!(results.unwrap_err().code(), Code::ResourceExhausted);
    }

    #[test]
    fn a_function_that_outlives_its_environment_is_an_error() {
        let (_, session) = run(|ctx| call_from(ctx, "negate"));
        let environment = session.environment().clone();
        let function = environment.function("negate", &Attrs::default(), "").unwrap();
        drop(session);
        drop(environment);
        let error = function.call(vec![vector(&[1.0])], &Caller::default()).unwrap_err();
        assert_eq!(error.code(), Code::Cancelled);
    }
}
