//! Locks: `MutexLock` waits for the lock and hands out a value that holds it for as long as the value lives.

use std::any::Any;
use std::sync::Arc;

use tfcore_base::{Error, Result, cancelled, invalid};
use tfcore_framework::{
    DEFAULT_CONTAINER, Kernel, KernelInit, OpContext, Registry, Resource, kernel, shape_fns,
};
use tfcore_tensor::{Tensor, Variant, VariantValue};

use crate::monitor::{Line, Monitor, State, Turn, waiting_kernel};
use crate::named::{NamedResource, checked_handle, handle};
use crate::shapes;

pub(crate) fn register(r: &mut Registry) {
    // `MutexV2(; container, shared_name) -> resource`, the handle of the lock of that name.
    r.op("MutexV2").shape(shapes::resource_handle).cpu(mutex);

    // `MutexLock(mutex: resource) -> mutex_lock: variant`, waits until nobody holds the lock.
    r.op("MutexLock").shape(shape_fns::scalar).cpu(|_| {
        waiting_kernel(|ctx| {
            let key = checked_handle::<Mutex>(ctx, 0)?;
            let mutex =
                ctx.resources().get_or_create(&key.container, Mutex::TYPE, &key.name, || {
                    Ok(Mutex(Monitor::new(Lock { held: false })))
                })?;
            Ok(Some((mutex.0.clone(), mutex.0.clone())))
        })
    });

    // `ConsumeMutexLock(mutex_lock: variant)`, keeps the lock until it is run.
    r.op("ConsumeMutexLock").shape(shape_fns::no_outputs).compute(|ctx| {
        let input = ctx.input(0)?;
        let [variant] = ctx.input_slice::<Variant>(0)? else {
            return Err(invalid!("Expected input to be a scalar, saw shape {}", input.shape()));
        };
        match variant.get::<Held>() {
            Some(_) => Ok(()),
            None => Err(invalid!(
                "Expected input to contain a SharedLockReleaser object, but saw variant: '{variant:?}'"
            )),
        }
    });
}

struct Mutex(Arc<Monitor<Lock>>);

impl Resource for Mutex {
    fn type_name(&self) -> &'static str {
        Mutex::TYPE
    }
}

impl NamedResource for Mutex {
    const TYPE: &'static str = "N10tensorflow12_GLOBAL__N_15MutexE";
}

struct Lock {
    held: bool,
}

impl State for Lock {
    type Attempt = Arc<Monitor<Lock>>;
    type Outcome = Held;

    fn line(_: &Arc<Monitor<Lock>>) -> Line {
        Line::Take
    }

    fn attempt(&mut self, lock: &mut Arc<Monitor<Lock>>) -> Turn<Held> {
        match std::mem::replace(&mut self.held, true) {
            true => Turn::Wait,
            false => Turn::Done(Ok(Held(lock.clone()))),
        }
    }

    fn cancelled(_: &Arc<Monitor<Lock>>) -> Error {
        cancelled!("Lock acquisition cancelled.")
    }

    fn deliver(held: Held, op: &mut OpContext<'_>) -> Result<()> {
        op.set_output(0, Tensor::scalar(Variant(Some(Arc::new(held)))));
        Ok(())
    }
}

/// A lock that is held; dropping it gives the lock to the next.
struct Held(Arc<Monitor<Lock>>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.change(|lock| lock.held = false);
    }
}

impl VariantValue for Held {
    fn type_name(&self) -> &str {
        "(anonymous namespace)::SharedLockReleaser"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn mutex(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let container = match init.attrs.str("container")? {
        "" => DEFAULT_CONTAINER.to_string(),
        container => container.to_string(),
    };
    let name = init.attrs.str("shared_name")?.to_string();
    kernel(move |ctx| {
        let handle = handle(ctx, &container, &name, Mutex::TYPE);
        ctx.set_output(0, handle);
        Ok(())
    })
}
