//! Eager execution: ops run one by one on tensors, without a client's graph.
//!
//! What runs for an op is prepared once for its attrs, the dtypes of its inputs and its device, and kept by the context. A kernel
//! with state, such as a generator of random numbers, is thereby the same one from call to call.

pub(crate) mod executor;
pub(crate) mod handle;
mod prepared;
pub(crate) mod request;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ThreadId};

use parking_lot::RwLock;
use smallvec::SmallVec;
use tfcore_base::{Error, Result, invalid, not_found};
use tfcore_framework::{Caller, Cancellation, OpContext, OpDef, Outputs, Registry, Value};
use tfcore_graph::{Function, FunctionLibrary};
use tfcore_math::denormals::FlushDenormals;
use tfcore_math::pool::Parallel;
use tfcore_plan::lanes::Lanes;
use tfcore_plan::place::DeviceSpec;
use tfcore_tensor::Tensor;

use crate::eager::executor::Executor;
use crate::eager::handle::{Promise, TensorHandle};
use crate::eager::prepared::{Action, Prepared};
use crate::eager::request::EagerOp;
use crate::environment::config::SessionConfig;
use crate::environment::device::Device;
use crate::environment::{Environment, new_steps};
use crate::run::engine;
use crate::run::exec::{Inputs, Run, fetched};

/// What happens to an input that lies on another device than the op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Explicit = 0,
    Warn = 1,
    Silent = 2,
    SilentForInt32 = 3,
}

/// Devices, functions, variables and kernels for ops that are executed one by one. It may be used by several threads.
pub struct EagerContext {
    environment: Arc<Environment>,
    soft_placement: AtomicBool,
    policy: Policy,
    id: u64,
    library: RwLock<Arc<FunctionLibrary>>,
    prepared: RwLock<HashMap<Vec<u8>, Arc<Prepared>>>,
    /// The last run of each lane, for the next op.
    runs: Lanes<Option<Arc<Run>>>,
    /// For threads without an executor of their own.
    executor: Arc<Executor>,
    executors: RwLock<HashMap<ThreadId, Arc<Executor>>>,
}

thread_local! {
    /// The policy of this thread for the context with this number.
    static POLICY: Cell<Option<(u64, Policy)>> = const { Cell::new(None) };
}

impl EagerContext {
    /// A context with an environment of its own.
    ///
    /// # Errors
    /// As [`Environment::new`].
    pub fn new(
        registry: Arc<Registry>,
        config: &SessionConfig,
        is_async: bool,
        policy: Policy,
    ) -> Result<EagerContext> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let environment = Environment::new(registry, config)?;
        environment.enter();
        Ok(EagerContext {
            environment,
            soft_placement: AtomicBool::new(config.soft_placement),
            policy,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            library: RwLock::default(),
            prepared: RwLock::default(),
            runs: Lanes::default(),
            executor: Executor::new(is_async, 0),
            executors: RwLock::default(),
        })
    }

    pub fn devices(&self) -> &[Device] {
        &self.environment.devices
    }

    /// A number that no other context of the process has.
    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn set_soft_placement(&self, is_on: bool) {
        self.soft_placement.store(is_on, Ordering::Relaxed);
    }

    /// The policy of this thread.
    pub fn policy(&self) -> Policy {
        match POLICY.get() {
            Some((id, policy)) if id == self.id => policy,
            _ => self.policy,
        }
    }

    pub fn set_thread_policy(&self, policy: Policy) {
        POLICY.set(Some((self.id, policy)));
    }

    /// Forgets the kernels and plans that were prepared.
    pub fn clear_caches(&self) {
        let prepared = std::mem::take(&mut *self.prepared.write());
        drop(prepared);
    }

    // ---- functions ----

    /// Adds a function, which can then be executed as an op.
    ///
    /// # Errors
    /// `InvalidArgument` if there is another function, or an op, of that name.
    pub fn add_function(&self, function: &Arc<Function>) -> Result<()> {
        let mut library = self.library.write();
        Arc::make_mut(&mut library).add(&self.environment.registry, function.clone())?;
        self.environment.functions.set_library(&library);
        Ok(())
    }

    /// # Errors
    /// `InvalidArgument` if there is no such function.
    pub fn remove_function(&self, name: &str) -> Result<()> {
        let mut library = self.library.write();
        if library.get(name).is_none() {
            return Err(invalid!("Tried to remove non-existent function '{name}'."));
        }
        Arc::make_mut(&mut library).remove(name)?;
        self.environment.functions.set_library(&library);
        drop(library);
        self.clear_caches();
        Ok(())
    }

    /// The function `name`, if there is one.
    pub fn function(&self, name: &str) -> Option<Arc<Function>> {
        self.library.read().get(name).cloned()
    }

    /// The interface of the op or function `name`.
    ///
    /// # Errors
    /// `NotFound` if it is neither.
    pub fn find_op(&self, name: &str) -> Result<Arc<OpDef>> {
        let op = self.environment.registry.def(name);
        let function = || self.function(name).map(|function| function.op().clone());
        op.or_else(function).ok_or_else(|| {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            not_found!(
                "'{name}' is neither a type of a primitive operation nor a name of a function registered in binary \
                 running on {}. Make sure the operation or function is registered in the binary running in this \
                 process.",
                host.trim()
            )
        })
    }

    // ---- executors ----

    /// The executor of this thread.
    pub fn executor(&self) -> Arc<Executor> {
        let executors = self.executors.read();
        match executors.is_empty() {
            true => self.executor.clone(),
            false => executors.get(&thread::current().id()).unwrap_or(&self.executor).clone(),
        }
    }

    pub fn set_thread_executor(&self, executor: Arc<Executor>) {
        self.executors.write().insert(thread::current().id(), executor);
    }

    /// Waits until all ops of all threads have run.
    ///
    /// # Errors
    /// The first error that an executor keeps.
    pub fn wait(&self) -> Result<()> {
        let mut executors = vec![self.executor.clone()];
        executors.extend(self.executors.read().values().cloned());
        executors.iter().map(|executor| executor.wait()).fold(Ok(()), Result::and)
    }

    // ---- devices ----

    /// The number of the device with exactly this name.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none.
    pub fn device_named(&self, name: &str) -> Result<u16> {
        let found = self.devices().iter().position(|device| device.name() == name);
        found.map(|index| index as u16).ok_or_else(|| invalid!("{name} unknown device."))
    }

    /// The number of the device for an op that asks for `device`.
    fn place(&self, device: &str) -> Result<u16> {
        if device.is_empty() {
            return Ok(0);
        }
        let wanted = DeviceSpec::parse(device).unwrap_or_default();
        let matches = |device: &Device| {
            DeviceSpec::parse(device.name()).is_some_and(|full| wanted.matches(&full))
        };
        match self.devices().iter().position(matches) {
            Some(index) => Ok(index as u16),
            None if self.soft_placement.load(Ordering::Relaxed) => Ok(0),
            None => {
                let names: Vec<&str> = self.devices().iter().map(Device::name).collect();
                Err(invalid!(
                    "Could not satisfy device specification '{wanted}'. enable_soft_placement=0. Supported device \
                     types [CPU]. All available devices [{}].",
                    names.join(", ")
                ))
            }
        }
    }

    // ---- execution ----

    /// What runs for a request, made if need be.
    fn prepare(&self, request: &EagerOp, device: u16) -> Result<Arc<Prepared>> {
        let key = request.key(device);
        if let Some(known) = self.prepared.read().get(&key) {
            return Ok(known.clone());
        }
        let library = self.library.read().clone();
        let made = Arc::new(Prepared::new(request, &self.environment, &library, device)?);
        // If another thread was faster, its kernel may hold state by now.
        Ok(self.prepared.write().entry(key).or_insert(made).clone())
    }

    /// Executes an op, or has the thread's executor do so, and returns handles of its outputs. `room` is for so many of
    /// them. `cancellation` ends the op.
    ///
    /// # Errors
    /// What is wrong with the request; the op's own error if the executor is not asynchronous.
    pub fn execute(
        self: &Arc<Self>,
        request: &mut EagerOp,
        room: usize,
        cancellation: Option<&Arc<Cancellation>>,
    ) -> Result<SmallVec<[TensorHandle; 2]>> {
        let executor = self.executor();
        executor.check()?;
        let device = self.place(request.device())?;
        request.set_device(self.devices()[usize::from(device)].name());
        let prepared = self.prepare(request, device)?;
        let dtypes = &prepared.output_dtypes;
        if room < dtypes.len() {
            return Err(invalid!("Expecting {} outputs, but *num_retvals is {room}", dtypes.len()));
        }
        let cancellation = cancellation.cloned();
        if !executor.is_async() {
            let outputs = self.run(&prepared, request.inputs(), device, cancellation)?;
            let handles = outputs.into_iter().map(|tensor| TensorHandle::new(tensor, device));
            return Ok(handles.collect());
        }
        let promises: Vec<Arc<Promise>> = dtypes.iter().map(|_| Arc::default()).collect();
        let pairs = dtypes.iter().zip(&promises);
        let handles =
            pairs.map(|(&dtype, promise)| TensorHandle::promised(dtype, device, promise.clone()));
        let handles = handles.collect();
        let (this, inputs) = (self.clone(), request.inputs().to_vec());
        executor.add(Box::new(move |error| {
            let run = || this.run(&prepared, &inputs, device, cancellation);
            keep(promises, error.map_or_else(run, Err))
        }));
        Ok(handles)
    }

    /// Runs what was prepared on the tensors of handles, and returns the outputs.
    fn run(
        &self,
        prepared: &Prepared,
        inputs: &[Arc<TensorHandle>],
        device: u16,
        cancellation: Option<Arc<Cancellation>>,
    ) -> Result<SmallVec<[Tensor; 2]>> {
        let mut values = Inputs::new();
        for input in inputs {
            values.push(Value::Tensor(input.tensor()?.clone()));
        }
        let is_kept = cancellation.is_none();
        let run = self.begin_run(cancellation);
        let outputs = {
            let _flush = FlushDenormals::new();
            compute(prepared, values, device, &run)
        };
        self.environment.buffers.end_run();
        if is_kept {
            self.end_run(run);
        }
        outputs?.into_iter().map(fetched).collect()
    }

    /// A step for one op: the last one of this thread, if nobody holds on to it and nobody can cancel the new one.
    fn begin_run(&self, cancellation: Option<Arc<Cancellation>>) -> Arc<Run> {
        if cancellation.is_none()
            && let Some(mut run) = self.runs.mine().take()
            && let Some(step) = Arc::get_mut(&mut run).and_then(|run| Arc::get_mut(&mut run.step))
        {
            step.id = new_steps(1);
            return run;
        }
        let caller = Caller { cancellation: cancellation.unwrap_or_default(), depth: 0 };
        Arc::new(self.environment.new_run(new_steps(1), &self.environment.pools[0], &caller))
    }

    /// Keeps a run that is over for the next op, unless something of it has to go with it.
    fn end_run(&self, mut run: Arc<Run>) {
        if Arc::get_mut(&mut run).is_some_and(Run::is_untouched) {
            *self.runs.mine() = Some(run);
        }
    }
}

impl Drop for EagerContext {
    fn drop(&mut self) {
        // The error of an op whose result nobody asked for is nobody's.
        let _ignored = self.wait();
        self.environment.leave();
    }
}

/// Keeps the promises of an op, and returns its error.
fn keep(promises: Vec<Arc<Promise>>, result: Result<SmallVec<[Tensor; 2]>>) -> Result<()> {
    match result {
        Ok(tensors) => {
            let pairs = promises.into_iter().zip(tensors);
            pairs.for_each(|(promise, tensor)| promise.keep(Ok(tensor)));
            Ok(())
        }
        Err(error) => {
            promises.into_iter().for_each(|promise| promise.keep(Err(Error::clone(&error))));
            Err(error)
        }
    }
}

fn compute(
    prepared: &Prepared,
    mut inputs: Inputs,
    device: u16,
    run: &Arc<Run>,
) -> Result<Outputs> {
    match &prepared.action {
        Action::Kernel(kernel) => {
            let dtypes = &prepared.output_dtypes;
            let mut outputs: Outputs = SmallVec::from_elem(Value::Absent, dtypes.len());
            let parallel = run.pool.as_ref().map_or(Parallel::SERIAL, |pool| Parallel::new(pool));
            let step = run.step_on(device);
            let mut ctx = OpContext::new(&mut inputs, &mut outputs, dtypes, step, parallel);
            kernel.compute(&mut ctx)?;
            Ok(outputs)
        }
        Action::Plan(plan) => engine::run(plan, inputs, run),
    }
}
