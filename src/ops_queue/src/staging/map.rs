//! Staging areas that hand out tuples by key. A tuple may come, and go, in parts.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use tfcore_base::{Error, Result, cancelled, internal, invalid};
use tfcore_framework::{
    Kernel, KernelInit, OpContext, OpEntry, Registry, Resource, kernel, missing_output, shape_fns,
};
use tfcore_tensor::Tensor;

use super::{AreaSpec, Limits, byte_size, set_outputs};
use crate::monitor::{Line, Monitor, State, Turn, waiting_kernel};
use crate::named::NamedResource;
use crate::queue::Element;

/// The ordered and the other maps have the same behaviour and resources of different types. The reference
/// says nothing of the order in which the latter hand out tuples; here it is that of the keys, too.
pub(crate) fn register(r: &mut Registry) {
    register_kind::<MapArea>(
        r,
        ["MapStage", "MapUnstage", "MapPeek", "MapUnstageNoKey"],
        ["MapSize", "MapIncompleteSize", "MapClear"],
    );
    register_kind::<OrderedMapArea>(
        r,
        ["OrderedMapStage", "OrderedMapUnstage", "OrderedMapPeek", "OrderedMapUnstageNoKey"],
        ["OrderedMapSize", "OrderedMapIncompleteSize", "OrderedMapClear"],
    );
}

fn register_kind<A: AreaKind>(
    r: &mut Registry,
    [stage, unstage, peek, unstage_no_key]: [&'static str; 4],
    [size, incomplete_size, clear]: [&'static str; 3],
) {
    // `MapStage(key: int64, indices: int32, values: fake_dtypes; dtypes, capacity, memory_limit, ...)`, brings the
    // values at these indices of the tuple with this key.
    r.op(stage).shape(shape_fns::unknown).cpu(put::<A>);

    // `MapUnstage(key: int64, indices: int32; dtypes, ...) -> values: dtypes`, takes values of the tuple with this
    // key, as soon as that is complete.
    r.op(unstage).shape(shape_fns::unknown).cpu(|init| take::<A>(init, false));

    // `MapPeek`, as `MapUnstage`, and leaves the values where they are.
    r.op(peek).shape(shape_fns::unknown).cpu(|init| take::<A>(init, true));

    // `MapUnstageNoKey(indices: int32; dtypes, ...) -> key: int64, values: dtypes`, takes values of some tuple.
    r.op(unstage_no_key).shape(shape_fns::unknown).cpu(take_any::<A>);

    // `MapSize(; ...) -> size: int32`, the number of complete tuples; `MapIncompleteSize`, that of the others.
    let counted = |op: OpEntry<'_>, count: fn(&MapState) -> usize| {
        op.shape(shape_fns::scalar).cpu(move |init| {
            let spec = MapSpec::new(init)?;
            kernel(move |ctx| {
                let size = spec.area::<A>(ctx)?.read(count);
                ctx.set_output(0, Tensor::scalar(i32::try_from(size).unwrap_or(i32::MAX)));
                Ok(())
            })
        });
    };
    counted(r.op(size), |state| state.complete.len());
    counted(r.op(incomplete_size), |state| state.incomplete.len());

    // `MapClear(; ...)`, drops all tuples.
    r.op(clear).shape(shape_fns::unknown).cpu(|init| {
        let spec = MapSpec::new(init)?;
        kernel(move |ctx| {
            // What the tuples hold is dropped once the area is unlocked.
            let tuples = spec.area::<A>(ctx)?.change(|state| {
                state.bytes = 0;
                (std::mem::take(&mut state.complete), std::mem::take(&mut state.incomplete))
            });
            drop(tuples);
            Ok(())
        })
    });
}

trait AreaKind: NamedResource {
    fn new(monitor: Arc<Monitor<MapState>>) -> Self;
    fn monitor(&self) -> &Arc<Monitor<MapState>>;
}

macro_rules! kinds {
    ($($name:ident $type_name:literal)*) => {$(
        struct $name(Arc<Monitor<MapState>>);

        impl Resource for $name {
            fn type_name(&self) -> &'static str {
                Self::TYPE
            }
        }

        impl NamedResource for $name {
            const TYPE: &'static str = $type_name;
        }

        impl AreaKind for $name {
            fn new(monitor: Arc<Monitor<MapState>>) -> Self {
                $name(monitor)
            }

            fn monitor(&self) -> &Arc<Monitor<MapState>> {
                &self.0
            }
        }
    )*};
}

kinds! {
    MapArea "N10tensorflow12_GLOBAL__N_110StagingMapILb0EEE"
    OrderedMapArea "N10tensorflow12_GLOBAL__N_110StagingMapILb1EEE"
}

/// What the nodes of a map say of it.
struct MapSpec {
    area: AreaSpec,
    /// The number of values in a tuple.
    width: usize,
}

impl MapSpec {
    fn new(init: &KernelInit<'_>) -> Result<MapSpec> {
        Ok(MapSpec { area: AreaSpec::new(init)?, width: init.attrs.dtypes("dtypes")?.len() })
    }

    fn area<A: AreaKind>(&self, ctx: &OpContext<'_>) -> Result<Arc<Monitor<MapState>>> {
        let (container, name) = (self.area.names.container(), self.area.names.name());
        let area = ctx.resources().get_or_create(container, A::TYPE, name, || {
            let (complete, incomplete) = (BTreeMap::new(), BTreeMap::new());
            let (width, limits) = (self.width, self.area.limits);
            Ok(A::new(Monitor::new(MapState { complete, incomplete, bytes: 0, width, limits })))
        })?;
        Ok(area.monitor().clone())
    }
}

struct MapState {
    complete: BTreeMap<i64, Tuple>,
    incomplete: BTreeMap<i64, Tuple>,
    bytes: usize,
    width: usize,
    limits: Limits,
}

/// A tuple, of which parts may be missing.
struct Tuple {
    values: Vec<Option<Tensor>>,
    /// The bytes that it counts for.
    bytes: usize,
}

enum Attempt {
    Put {
        key: i64,
        indices: Vec<i64>,
        values: Element,
    },
    /// To take values of the tuple with the key, or of any, or to look at them.
    Take {
        key: Option<i64>,
        indices: Vec<i64>,
        is_peek: bool,
    },
}

/// What ops take away from a map.
struct Taken {
    /// The key, if the op has not named it.
    key: Option<i64>,
    values: Vec<Tensor>,
}

fn put<A: AreaKind>(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let spec = MapSpec::new(init)?;
    waiting_kernel(move |ctx| {
        let area = spec.area::<A>(ctx)?;
        let key = ctx.input(0)?;
        let key = match ctx.input_slice::<i64>(0)? {
            [] => return Err(invalid!("key must not be empty")),
            [key] => *key,
            _ => {
                return Err(invalid!(
                    "key must be an int64 scalar, got tensor with shape: {}",
                    key.shape()
                ));
            }
        };
        let indices = checked_indices(ctx, 1)?;
        let values: Element = (2..ctx.num_inputs())
            .map(|index| ctx.take_or_copy_input(index))
            .collect::<Result<_>>()?;
        if values.len() < indices.len() {
            return Err(invalid!("{} indices for {} values", indices.len(), values.len()));
        }
        Ok(Some((area, Attempt::Put { key, indices, values })))
    })
}

fn take<A: AreaKind>(init: &KernelInit<'_>, is_peek: bool) -> Result<Box<dyn Kernel>> {
    let spec = MapSpec::new(init)?;
    waiting_kernel(move |ctx| {
        let area = spec.area::<A>(ctx)?;
        let key = ctx.input(0)?;
        if key.rank() != 0 {
            return Err(invalid!("key must be an int64 scalar: {}", key.shape()));
        }
        let key = Some(key.scalar_value::<i64>()?);
        let indices = checked_indices(ctx, 1)?;
        check_outputs(indices.len(), ctx.num_outputs(), 0)?;
        Ok(Some((area, Attempt::Take { key, indices, is_peek })))
    })
}

fn take_any<A: AreaKind>(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let spec = MapSpec::new(init)?;
    waiting_kernel(move |ctx| {
        let area = spec.area::<A>(ctx)?;
        let indices = checked_indices(ctx, 0)?;
        check_outputs(indices.len(), ctx.num_outputs() - 1, 1)?;
        Ok(Some((area, Attempt::Take { key: None, indices, is_peek: false })))
    })
}

/// The indices at input `input`.
///
/// # Errors
/// `InvalidArgument` unless there are some, in ascending order.
fn checked_indices(ctx: &OpContext<'_>, input: usize) -> Result<Vec<i64>> {
    let indices = ctx.input(input)?.to_i64s()?;
    if indices.is_empty() {
        return Err(invalid!("Indices are empty"));
    }
    if indices.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(invalid!("Indices are not strictly ordered"));
    }
    Ok(indices)
}

fn check_outputs(indices: usize, outputs: usize, first: usize) -> Result<()> {
    if indices < outputs {
        return Err(missing_output(first + indices));
    }
    if indices > outputs {
        return Err(invalid!("{indices} indices for {outputs} outputs"));
    }
    Ok(())
}

impl State for MapState {
    type Attempt = Attempt;
    type Outcome = Option<Taken>;

    /// Who waits for one key does not keep others from theirs.
    const IN_TURN: bool = false;

    fn line(attempt: &Attempt) -> Line {
        match attempt {
            Attempt::Put { .. } => Line::Bring,
            Attempt::Take { .. } => Line::Take,
        }
    }

    fn attempt(&mut self, attempt: &mut Attempt) -> Turn<Option<Taken>> {
        match attempt {
            Attempt::Put { key, indices, values } => self.put(*key, indices, values),
            Attempt::Take { key, indices, is_peek } => {
                let found = match key {
                    Some(key) => self.complete.contains_key(key).then_some(*key),
                    None => self.complete.keys().next().copied(),
                };
                let Some(found) = found else {
                    return Turn::Wait;
                };
                let named = key.is_some();
                Turn::Done(
                    self.take(found, indices, *is_peek)
                        .map(|values| Some(Taken { key: (!named).then_some(found), values })),
                )
            }
        }
    }

    fn cancelled(attempt: &Attempt) -> Error {
        match attempt {
            Attempt::Put { .. } => cancelled!("Map stage operation was cancelled"),
            Attempt::Take { .. } => cancelled!("Map unstage operation was cancelled"),
        }
    }

    fn deliver(outcome: Option<Taken>, op: &mut OpContext<'_>) -> Result<()> {
        let Some(Taken { key, values }) = outcome else {
            return Ok(());
        };
        let first = usize::from(key.is_some());
        if let Some(key) = key {
            op.set_output(0, Tensor::scalar(key));
        }
        set_outputs(op, first, values)
    }
}

impl MapState {
    fn put(&mut self, key: i64, indices: &[i64], values: &mut Element) -> Turn<Option<Taken>> {
        // The reference counts the last value alone, and areas sized by its count must not fill up earlier.
        let more = values.last().map_or(0, byte_size);
        if let Err(error) = self.limits.check(more) {
            return Turn::Done(Err(error));
        }
        let is_complete = indices.len() == self.width;
        let have_place = !is_complete || self.limits.have_place(self.complete.len());
        if !have_place || !self.limits.have_bytes(self.bytes, more) {
            return Turn::Wait;
        }
        if is_complete {
            // A tuple that is there already stays.
            if let Entry::Vacant(entry) = self.complete.entry(key) {
                let values = values.drain(..).take(self.width).map(Some).collect();
                entry.insert(Tuple { values, bytes: more });
                self.bytes += more;
            }
            return Turn::Done(Ok(None));
        }
        Turn::Done(self.put_parts(key, indices, values, more).map(|()| None))
    }

    fn put_parts(
        &mut self,
        key: i64,
        indices: &[i64],
        values: &mut Element,
        bytes: usize,
    ) -> Result<()> {
        let width = self.width;
        let places: Vec<usize> =
            indices.iter().map(|&index| place(index, key, width)).collect::<Result<_>>()?;
        if let Some(tuple) = self.incomplete.get(&key)
            && let Some(taken) = places.iter().find(|&&place| tuple.values[place].is_some())
        {
            return Err(invalid!(
                "The tensor for index '{taken}' for key '{key}' was already initialized '{width}'."
            ));
        }
        let tuple = self
            .incomplete
            .entry(key)
            .or_insert_with(|| Tuple { values: vec![None; width], bytes: 0 });
        for (place, value) in places.into_iter().zip(values.drain(..)) {
            tuple.values[place] = Some(value);
        }
        tuple.bytes += bytes;
        self.bytes += bytes;
        if tuple.values.iter().all(Option::is_some)
            && let Some(tuple) = self.incomplete.remove(&key)
        {
            match self.complete.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(tuple);
                }
                Entry::Occupied(_) => self.bytes -= tuple.bytes,
            }
        }
        Ok(())
    }

    /// The values at these indices of the tuple with this key, which is there.
    fn take(&mut self, key: i64, indices: &[i64], is_peek: bool) -> Result<Vec<Tensor>> {
        let Some(tuple) = self.complete.get_mut(&key) else {
            return Err(internal!("No tuple with key '{key}'"));
        };
        let width = tuple.values.len();
        let mut values = Vec::with_capacity(indices.len());
        for &index in indices {
            let value = tuple.values[place(index, key, width)?].clone();
            values.push(value.ok_or_else(|| {
                invalid!("Tensor at index '{index}' for key '{key}' has already been removed.")
            })?);
        }
        if !is_peek {
            for &index in indices {
                tuple.values[place(index, key, width)?] = None;
            }
            if tuple.values.iter().all(Option::is_none) {
                self.bytes -= tuple.bytes;
                self.complete.remove(&key);
            }
        }
        Ok(values)
    }
}

/// An index into a tuple of `width` values.
///
/// # Errors
/// `InvalidArgument` if it is outside.
fn place(index: i64, key: i64, width: usize) -> Result<usize> {
    usize::try_from(index).ok().filter(|&place| place < width).ok_or_else(|| {
        // The reference shows negative ones without their sign.
        invalid!("Index '{}' for key '{key}' was out of bounds '{width}'.", index as u64)
    })
}
