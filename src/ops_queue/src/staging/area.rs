//! Staging areas that hand out tuples in the order in which they came.

use std::collections::VecDeque;
use std::sync::Arc;

use tfcore_base::{Error, Result, cancelled, invalid};
use tfcore_framework::{Kernel, KernelInit, OpContext, Registry, Resource, kernel, shape_fns};
use tfcore_tensor::Tensor;

use super::{AreaSpec, Limits, byte_size, set_outputs};
use crate::monitor::{Line, Monitor, State, Turn, waiting_kernel};
use crate::named::NamedResource;
use crate::queue::Element;

pub(crate) fn register(r: &mut Registry) {
    // `Stage(values: dtypes; capacity, memory_limit, container, shared_name)`, brings a tuple as soon as there is
    // room for it.
    r.op("Stage").shape(shape_fns::unknown).cpu(stage);

    // `Unstage(; dtypes, ...) -> values: dtypes`, takes the first tuple as soon as there is one.
    r.op("Unstage").shape(shape_fns::unknown).cpu(unstage);

    // `StagePeek(index: int32; dtypes, ...) -> values: dtypes`, looks at a tuple as soon as it is there.
    r.op("StagePeek").shape(shape_fns::unknown).cpu(peek);

    // `StageSize(; ...) -> size: int32`, the number of tuples.
    r.op("StageSize").shape(shape_fns::scalar).cpu(|init| {
        let spec = AreaSpec::new(init)?;
        kernel(move |ctx| {
            let size = area(ctx, &spec)?.0.read(|state| state.tuples.len());
            ctx.set_output(0, Tensor::scalar(i32::try_from(size).unwrap_or(i32::MAX)));
            Ok(())
        })
    });

    // `StageClear(; ...)`, drops all tuples.
    r.op("StageClear").shape(shape_fns::unknown).cpu(|init| {
        let spec = AreaSpec::new(init)?;
        kernel(move |ctx| {
            // What the tuples hold is dropped once the area is unlocked.
            let tuples = area(ctx, &spec)?.0.change(|state| {
                state.bytes = 0;
                std::mem::take(&mut state.tuples)
            });
            drop(tuples);
            Ok(())
        })
    });
}

struct Area(Arc<Monitor<AreaState>>);

impl Resource for Area {
    fn type_name(&self) -> &'static str {
        Area::TYPE
    }
}

impl NamedResource for Area {
    const TYPE: &'static str = "N10tensorflow12_GLOBAL__N_16BufferE";
}

fn area(ctx: &OpContext<'_>, spec: &AreaSpec) -> Result<Arc<Area>> {
    let (container, name) = (spec.names.container(), spec.names.name());
    ctx.resources().get_or_create(container, Area::TYPE, name, || {
        let limits = spec.limits;
        Ok(Area(Monitor::new(AreaState { tuples: VecDeque::new(), bytes: 0, limits })))
    })
}

struct AreaState {
    tuples: VecDeque<Element>,
    bytes: usize,
    limits: Limits,
}

enum Attempt {
    Put(Element),
    /// To take the first tuple.
    Take,
    /// To look at the tuple of this number.
    Peek(usize),
}

fn stage(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let spec = AreaSpec::new(init)?;
    waiting_kernel(move |ctx| {
        let area = area(ctx, &spec)?;
        let tuple: Element = (0..ctx.num_inputs())
            .map(|index| ctx.take_or_copy_input(index))
            .collect::<Result<_>>()?;
        Ok(Some((area.0.clone(), Attempt::Put(tuple))))
    })
}

fn unstage(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let spec = AreaSpec::new(init)?;
    waiting_kernel(move |ctx| Ok(Some((area(ctx, &spec)?.0.clone(), Attempt::Take))))
}

fn peek(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let spec = AreaSpec::new(init)?;
    waiting_kernel(move |ctx| {
        let area = area(ctx, &spec)?;
        let index = ctx.input(0)?;
        if index.rank() != 0 {
            return Err(invalid!("index must be scalar"));
        }
        let index = index.scalar_value::<i32>()?;
        let Ok(index) = usize::try_from(index) else {
            return Err(invalid!("index must be at least 0, got {index}"));
        };
        Ok(Some((area.0.clone(), Attempt::Peek(index))))
    })
}

impl State for AreaState {
    type Attempt = Attempt;
    /// The tuple, if the op takes one.
    type Outcome = Option<Element>;

    /// Who looks at a tuple that is not there yet does not keep others from taking what is.
    const IN_TURN: bool = false;

    fn line(attempt: &Attempt) -> Line {
        match attempt {
            Attempt::Put(_) => Line::Bring,
            Attempt::Take | Attempt::Peek(_) => Line::Take,
        }
    }

    fn attempt(&mut self, attempt: &mut Attempt) -> Turn<Self::Outcome> {
        match attempt {
            Attempt::Put(tuple) => self.put(tuple),
            Attempt::Take => match self.tuples.pop_front() {
                Some(tuple) => {
                    self.bytes -= bytes(&tuple);
                    Turn::Done(Ok(Some(tuple)))
                }
                None => Turn::Wait,
            },
            Attempt::Peek(index) => match self.tuples.get(*index) {
                Some(tuple) => Turn::Done(Ok(Some(tuple.clone()))),
                None => Turn::Wait,
            },
        }
    }

    fn cancelled(attempt: &Attempt) -> Error {
        match attempt {
            Attempt::Put(_) => cancelled!("Stage operation was cancelled"),
            Attempt::Take => cancelled!("Unstage operation was cancelled"),
            Attempt::Peek(_) => cancelled!("StagePeek operation was cancelled"),
        }
    }

    fn deliver(outcome: Self::Outcome, op: &mut OpContext<'_>) -> Result<()> {
        let Some(tuple) = outcome else {
            return Ok(());
        };
        if tuple.len() != op.num_outputs() {
            return Err(invalid!(
                "Mismatch stage/unstage: {} vs. {}",
                tuple.len(),
                op.num_outputs()
            ));
        }
        set_outputs(op, 0, tuple)
    }
}

impl AreaState {
    fn put(&mut self, tuple: &mut Element) -> Turn<<AreaState as State>::Outcome> {
        let more = bytes(tuple);
        if let Err(error) = self.limits.check(more) {
            return Turn::Done(Err(error));
        }
        if !self.limits.have_place(self.tuples.len()) || !self.limits.have_bytes(self.bytes, more) {
            return Turn::Wait;
        }
        self.bytes += more;
        self.tuples.push_back(std::mem::take(tuple));
        Turn::Done(Ok(None))
    }
}

fn bytes(tuple: &Element) -> usize {
    tuple.iter().map(byte_size).sum()
}
