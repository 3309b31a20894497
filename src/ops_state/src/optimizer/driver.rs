//! What all optimisers share: the parts that an op's inputs play, the checks in the reference's order and words, the locks on the
//! variables, and the loops, dense and by rows, on several threads.

use std::sync::Arc;

use parking_lot::Mutex;
use tfcore_base::{
    BFloat16, Code, DType, Error, Half, LoopFor, Result, TypedLoop, internal, invalid, require,
};
use tfcore_framework::{ArgKind, Kernel, KernelInit, OpContext, OpDef, Variable, kernel};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{Elems, ElemsMut, Tensor};

use super::field::{BLOCK, Element, Field};
use super::rules::{MAX_SCALARS, Rule, Settings};
use crate::indices::Indices;

/// The part that an input plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The variable, which is the first, or a slot of it.
    Variable,
    /// The scalar of this number among the scalars.
    Scalar(usize),
    /// The number of the step, an integer.
    Step,
    Gradient,
    Indices,
}

/// The parts of the inputs of an optimiser's op.
pub(crate) fn parts(op: &OpDef) -> Vec<Part> {
    let mut scalars = 0;
    let part = |arg: &tfcore_framework::ArgDef| match arg.name.as_str() {
        _ if arg.is_ref || arg.kind == ArgKind::Fixed(DType::RESOURCE) => Part::Variable,
        "grad" | "delta" => Part::Gradient,
        "indices" => Part::Indices,
        "global_step" => Part::Step,
        _ => {
            scalars += 1;
            Part::Scalar(scalars - 1)
        }
    };
    op.inputs.iter().map(part).collect()
}

/// How the reference checks the inputs of an op.
#[derive(Clone, Copy)]
pub(crate) struct Checks {
    /// Scalars are checked before the shapes of slots.
    pub(crate) scalars_first: bool,
    /// Rates must be positive and penalties not negative.
    pub(crate) signs: bool,
    /// Rows must have elements.
    pub(crate) not_empty: bool,
    /// The gradient must have as many dimensions as the variable.
    pub(crate) same_rank: bool,
    /// A bad index is reported as those of gathers are.
    pub(crate) names_indices: bool,
}

/// A rule's loop for one type: steps part of a variable and of its slots.
pub(crate) type StepLoop = fn(&mut [ElemsMut<'_>], Elems<'_>, Rows<'_>, &Run<'_>);

/// Which elements of a part are stepped.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'i> {
    /// All, by as many elements of the gradient.
    All,
    /// Rows of `width` elements by number; the part begins with row `first`. The gradient is that of all indices, of which those
    /// of other parts are passed over; it has `stride` elements for each, of which the first `width` count.
    Picked { indices: &'i [i64], first: usize, width: usize, stride: usize },
}

/// The scalar inputs and attrs of one run.
pub(crate) struct Run<'r> {
    scalars: Vec<Elems<'r>>,
    flag: bool,
    step: i64,
}

/// The loops of rule `R`, which has so many slots.
pub(crate) struct Steps<R, const SLOTS: usize>(std::marker::PhantomData<R>);

impl<R: 'static, const SLOTS: usize> TypedLoop for Steps<R, SLOTS> {
    type Loop = StepLoop;
}

impl<T: Element, R: Rule<T::Wide, SLOTS>, const SLOTS: usize> LoopFor<T> for Steps<R, SLOTS> {
    const LOOP: StepLoop = |variables, grad, rows, run| {
        let mut scalars = [T::Wide::ZERO; MAX_SCALARS];
        for (scalar, value) in scalars.iter_mut().zip(&run.scalars) {
            T::widen(&value.typed::<T>()[..1], std::slice::from_mut(scalar));
        }
        let settings = R::prepare(Settings { scalars, flag: run.flag, step: run.step });
        let [var, slots @ ..] = variables else { return };
        let grad = grad.typed::<T>();
        let var: &mut [T] = var.reborrow().typed();
        let mut slots = slots.iter_mut();
        let mut slots: [&mut [T]; SLOTS] = std::array::from_fn(|_| {
            slots.next().map_or(Default::default(), |slot| slot.reborrow().typed())
        });
        match rows {
            Rows::All => step::<T, R, SLOTS>(&settings, var, slots, grad),
            Rows::Picked { indices, first, width, stride } => {
                let count = var.len() / width;
                for (grad, &index) in grad.chunks_exact(stride).zip(indices) {
                    let Some(row) = (index as usize).checked_sub(first).filter(|row| *row < count)
                    else {
                        continue;
                    };
                    let range = row * width..(row + 1) * width;
                    let slots = slots.each_mut().map(|slot| &mut slot[range.clone()]);
                    step::<T, R, SLOTS>(&settings, &mut var[range], slots, &grad[..width]);
                }
            }
        }
    };
}

/// Steps each element, in one pass over the memory.
fn step<T: Element, R: Rule<T::Wide, SLOTS>, const SLOTS: usize>(
    settings: &Settings<T::Wide>,
    var: &mut [T],
    mut slots: [&mut [T]; SLOTS],
    grad: &[T],
) {
    vectorize(
        #[inline(always)]
        || {
            let len = var.len();
            let whole = len / BLOCK * BLOCK;
            for start in (0..whole).step_by(BLOCK) {
                step_block::<T, R, SLOTS>(settings, var, &mut slots, grad, start, BLOCK);
            }
            if whole < len {
                step_block::<T, R, SLOTS>(settings, var, &mut slots, grad, whole, len - whole);
            }
        },
    );
}

/// Steps `count` elements from `start` on. They are copied, so that the compiler knows that nothing overlaps.
#[inline(always)]
fn step_block<T: Element, R: Rule<T::Wide, SLOTS>, const SLOTS: usize>(
    settings: &Settings<T::Wide>,
    var: &mut [T],
    slots: &mut [&mut [T]; SLOTS],
    grad: &[T],
    start: usize,
    count: usize,
) {
    let zeros = [T::Wide::ZERO; BLOCK];
    let (mut wide_var, mut wide_slots, mut wide_grad) = (zeros, [zeros; SLOTS], zeros);
    let range = start..start + count;
    T::widen(&var[range.clone()], &mut wide_var[..count]);
    T::widen(&grad[range.clone()], &mut wide_grad[..count]);
    for (wide, slot) in wide_slots.iter_mut().zip(slots.iter()) {
        T::widen(&slot[range.clone()], &mut wide[..count]);
    }
    for at in 0..count {
        let slots = wide_slots.each_mut().map(|slot| &mut slot[at]);
        R::update(settings, &mut wide_var[at], slots, wide_grad[at]);
    }
    T::narrow(&wide_var[..count], &mut var[range.clone()]);
    for (wide, slot) in wide_slots.iter().zip(slots) {
        T::narrow(&wide[..count], &mut slot[range.clone()]);
    }
}

/// What is known of an op when its kernel is built.
struct Plan {
    parts: Vec<Part>,
    names: Vec<String>,
    checks: Checks,
    run: StepLoop,
    flag: bool,
    /// The op's variables are refs, and its output is the first.
    is_ref: bool,
}

/// The kernel of an op, whose rule's loop is `run`.
pub(crate) fn step_kernel(
    init: &KernelInit<'_>,
    checks: Checks,
    run: StepLoop,
) -> Result<Box<dyn Kernel>> {
    let mut flag = false;
    for name in ["use_nesterov", "update_slots", "multiply_linear_by_lr"] {
        if init.attrs.contains(name) {
            flag = init.attrs.bool(name)?;
        }
    }
    let plan = Plan {
        parts: parts(init.op),
        names: init.op.inputs.iter().map(|arg| arg.name.clone()).collect(),
        checks,
        run,
        flag,
        is_ref: !init.op.outputs.is_empty(),
    };
    kernel(move |ctx| {
        plan.compute(ctx)?;
        if plan.is_ref {
            ctx.set_output_ref(0, ctx.input_ref(0)?.clone());
        }
        Ok(())
    })
}

impl Plan {
    /// The inputs that play part `part`.
    fn inputs_of(&self, part: impl Fn(Part) -> bool) -> impl Iterator<Item = usize> {
        self.parts
            .iter()
            .enumerate()
            .filter(move |(_, found)| part(**found))
            .map(|(index, _)| index)
    }

    fn compute(&self, ctx: &OpContext<'_>) -> Result<()> {
        let places: Vec<usize> = self.inputs_of(|part| part == Part::Variable).collect();
        let variables = places
            .iter()
            .map(|&place| self.variable(ctx, place))
            .collect::<Result<Vec<Arc<Variable>>>>()?;
        let names: Vec<&str> = places.iter().map(|&place| self.names[place].as_str()).collect();
        step_together(ctx, &variables, &names, &mut |tensors| self.step(ctx, &places, tensors))
    }

    /// The variable at input `place`, which must have a value of the gradient's type.
    fn variable(&self, ctx: &OpContext<'_>, place: usize) -> Result<Arc<Variable>> {
        let missing = |error: Error| match (error.code(), ctx.handle(place)) {
            (Code::FailedPrecondition | Code::NotFound, Ok(handle)) if !self.is_ref => {
                internal!("Invalid variable reference: {}", handle.name)
            }
            _ => error,
        };
        let variable = ctx.variable(place).map_err(missing)?;
        if !variable.is_initialized() {
            variable.read().map_err(missing)?;
        }
        let grad = self.inputs_of(|part| part == Part::Gradient).next().unwrap_or(place);
        require!(
            variable.dtype() == ctx.input(grad)?.dtype(),
            "{} and grad do not have the same type",
            self.names[place]
        );
        Ok(variable)
    }

    /// Checks the inputs and steps the variables, of which the first is the one that is trained.
    fn step(
        &self,
        ctx: &OpContext<'_>,
        places: &[usize],
        mut tensors: Vec<&mut Tensor>,
    ) -> Result<()> {
        let indices = self.inputs_of(|part| part == Part::Indices).next();
        let order: Vec<usize> = if self.checks.scalars_first {
            let is_scalar = |part| matches!(part, Part::Scalar(_));
            let rest = self.inputs_of(move |part| !is_scalar(part));
            self.inputs_of(is_scalar).chain(rest).collect()
        } else {
            (0..self.parts.len()).collect()
        };
        for input in order {
            match self.parts[input] {
                Part::Variable => {
                    let slot = places.iter().position(|place| *place == input).unwrap_or(0);
                    self.check_slot(&tensors, slot, input)?;
                    if indices.is_some() && slot + 1 == places.len() {
                        require!(tensors[0].rank() >= 1, "var must be at least 1 dimensional");
                    }
                }
                Part::Scalar(_) | Part::Step => self.check_scalar(ctx, input)?,
                Part::Gradient if indices.is_none() => {
                    let (var, grad) = (tensors[0].shape(), ctx.input(input)?.shape());
                    let name = &self.names[input];
                    require!(var == grad, "var and {name} do not have the same shape{var} {grad}");
                }
                Part::Gradient => {}
                Part::Indices => {
                    require!(ctx.input(input)?.rank() == 1, "indices must be one-dimensional")
                }
            }
        }
        let grad = self.inputs_of(|part| part == Part::Gradient).next();
        let grad = ctx.input(grad.ok_or_else(|| internal!("An optimiser without gradient"))?)?;
        let scalars = self.inputs_of(|part| matches!(part, Part::Scalar(_)));
        let step = self.inputs_of(|part| part == Part::Step).next();
        let run = Run {
            scalars: scalars.map(|input| Ok(ctx.input(input)?.elems())).collect::<Result<_>>()?,
            flag: self.flag,
            step: match step {
                Some(input) => ctx.input(input)?.to_i64s()?[0],
                None => 0,
            },
        };
        match indices {
            None => self.step_all(ctx, &mut tensors, grad, &run),
            Some(indices) => self.step_rows(ctx, &mut tensors, grad, ctx.input(indices)?, &run),
        }
    }

    fn check_slot(&self, tensors: &[&mut Tensor], slot: usize, input: usize) -> Result<()> {
        let (var, other) = (tensors[0].shape(), tensors[slot].shape());
        // The reference calls the sums of gradients by another name than their inputs.
        let name = match self.names[input].as_str() {
            "gradient_accumulator" | "gradient_squared_accumulator" => "accum",
            name => name,
        };
        require!(var == other, "var and {name} do not have the same shape{var} {other}");
        Ok(())
    }

    fn check_scalar(&self, ctx: &OpContext<'_>, input: usize) -> Result<()> {
        let tensor = ctx.input(input)?;
        let name = self.names[input].as_str();
        let label = match name {
            "l1" | "l2" => format!("{name} regularization strength"),
            "l2_shrinkage" => "l2 shrinkage regularization strength".to_string(),
            _ => name.to_string(),
        };
        // 0 does for all but rates.
        let (sign, low, high) = match name {
            _ if !self.checks.signs => ("", f64::NEG_INFINITY, f64::INFINITY),
            "lr" => ("positive ", f64::MIN_POSITIVE, f64::INFINITY),
            "lr_power" => ("non-positive ", f64::NEG_INFINITY, 0.0),
            "l1" | "l2" | "l2_shrinkage" => ("non-negative ", 0.0, f64::INFINITY),
            _ => ("", f64::NEG_INFINITY, f64::INFINITY),
        };
        let fits =
            tensor.rank() == 0 && (sign.is_empty() || (low..=high).contains(&to_f64(tensor)?));
        require!(fits, "{label} is not a {sign}scalar: {}", tensor.shape());
        Ok(())
    }

    fn step_all(
        &self,
        ctx: &OpContext<'_>,
        tensors: &mut [&mut Tensor],
        grad: &Tensor,
        run: &Run<'_>,
    ) -> Result<()> {
        for_parts(ctx, tensors, 1, grad.count(), &|start, part| {
            let len = part[0].len();
            (self.run)(part, grad.elems().slice(start..start + len), Rows::All, run);
        })
    }

    fn step_rows(
        &self,
        ctx: &OpContext<'_>,
        tensors: &mut [&mut Tensor],
        grad: &Tensor,
        indices: &Tensor,
        run: &Run<'_>,
    ) -> Result<()> {
        let shape = tensors[0].shape();
        // A gradient with more dimensions is taken by most ops of the reference.
        let fits = if self.checks.same_rank {
            grad.rank() == shape.rank()
        } else {
            grad.rank() >= shape.rank()
        };
        require!(
            fits,
            "grad must have the same number of dimensions as var: {} vs. {shape}",
            grad.shape()
        );
        for axis in 1..shape.rank() {
            require!(
                shape[axis] == grad.shape()[axis],
                "var and grad must match in dimension {axis}"
            );
        }
        let count = indices.count();
        require!(
            grad.dim(0) == count,
            "grad must be the same size as indices in the first dimension."
        );
        let (rows, width) = (shape.dim(0), shape[1..].iter().product::<i64>() as usize);
        require!(
            width > 0 || !self.checks.not_empty,
            "Inner dimension should be greater than zero."
        );
        let values = Indices::of(indices)?;
        if self.checks.names_indices {
            values.check(indices.shape(), rows)?;
        }
        let values: Vec<i64> = (0..count).map(|at| values.get(at)).collect();
        let outside = |index: &i64| usize::try_from(*index).map_or(true, |index| index >= rows);
        if let Some(at) = values.iter().position(outside) {
            return Err(invalid!("Index {} at offset {at} in indices is out of range", values[at]));
        }
        if width == 0 || count == 0 {
            return Ok(());
        }
        // Some ops take the gradient of rows of one element for a vector, whatever else it has.
        let is_vector = self.checks.not_empty && width == 1;
        let stride = if is_vector { 1 } else { grad.count() / count };
        require!(
            stride >= width && grad.count() >= stride * count,
            "grad of shape {} is too small for rows of {width} elements",
            grad.shape()
        );
        for_parts(ctx, tensors, width, grad.count(), &|start, part| {
            let rows = Rows::Picked { indices: &values, first: start / width, width, stride };
            (self.run)(part, grad.elems(), rows, run);
        })
    }
}

/// The number that a scalar of a real type holds.
fn to_f64(tensor: &Tensor) -> Result<f64> {
    Ok(match tensor.dtype() {
        DType::HALF => tensor.scalar_value::<Half>()?.to_f64(),
        DType::BFLOAT16 => tensor.scalar_value::<BFloat16>()?.to_f64(),
        DType::DOUBLE => tensor.scalar_value::<f64>()?,
        _ => tensor.scalar_value::<f32>()?.into(),
    })
}

/// Calls `run` with the tensors of all variables while no other op sees them.
///
/// # Errors
/// `InvalidArgument` if two are the same, `FailedPrecondition` if one has no value, and what `run` reports.
pub(crate) fn step_together(
    ctx: &OpContext<'_>,
    variables: &[Arc<Variable>],
    names: &[&str],
    run: &mut dyn FnMut(Vec<&mut Tensor>) -> Result<()>,
) -> Result<()> {
    // All ops lock in the same order, so that no two wait for each other.
    let mut order: Vec<usize> = (0..variables.len()).collect();
    order.sort_by_key(|&at| Arc::as_ptr(&variables[at]) as usize);
    for pair in order.windows(2) {
        let [a, b] = [pair[0].min(pair[1]), pair[0].max(pair[1])];
        require!(
            !Arc::ptr_eq(&variables[a], &variables[b]),
            "{} and {} must not be the same variable",
            names[a],
            names[b]
        );
    }
    lock_all(ctx, variables, &order, Vec::new(), &mut |mut held| {
        held.sort_by_key(|(at, _)| *at);
        run(held.into_iter().map(|(_, tensor)| tensor).collect())
    })
}

/// A variable's tensor and its number among the op's variables.
type Held<'t> = (usize, &'t mut Tensor);

/// Calls `run` with the tensors of all variables while no other op sees them; locks them in order `order`.
fn lock_all<'t>(
    ctx: &OpContext<'_>,
    variables: &[Arc<Variable>],
    order: &[usize],
    held: Vec<Held<'t>>,
    run: &mut dyn FnMut(Vec<Held<'_>>) -> Result<()>,
) -> Result<()> {
    let Some((&at, rest)) = order.split_first() else {
        return run(held);
    };
    variables[at].update(&ctx.step().buffers, |tensor| {
        let mut held: Vec<Held<'_>> = held;
        held.push((at, tensor));
        lock_all(ctx, variables, rest, held, run)
    })
}

/// Elements of the gradient that a thread should get at least.
const MIN_ELEMENTS: usize = 4 * 1024;

/// Calls `run(start, parts)` with parts of all tensors, which have the same shape, on several threads if `work` elements of a
/// gradient are worth it. Parts are multiples of `unit` elements and begin with element `start`.
fn for_parts(
    ctx: &OpContext<'_>,
    tensors: &mut [&mut Tensor],
    unit: usize,
    work: usize,
    run: &(dyn Fn(usize, &mut [ElemsMut<'_>]) + Sync),
) -> Result<()> {
    let mut rest =
        tensors.iter_mut().map(|tensor| tensor.elems_mut()).collect::<Result<Vec<_>>>()?;
    let parallel = ctx.parallel();
    let len = rest[0].len();
    let units = len / unit;
    let parts = (work / MIN_ELEMENTS).min(parallel.threads() * 4).min(units);
    if parallel.threads() == 1 || parts < 2 {
        if len > 0 {
            run(0, &mut rest);
        }
        return Ok(());
    }
    // A multiple of 16 elements, so that vectors of the variable's type fill a part.
    let step = units.div_ceil(parts) * unit;
    let step = if unit == 1 { step.next_multiple_of(16) } else { step };
    let mut cells = Vec::with_capacity(parts);
    while rest[0].len() > step {
        let (part, tail): (Vec<_>, Vec<_>) =
            rest.into_iter().map(|elems| elems.split_at(step)).unzip();
        cells.push(Mutex::new(part));
        rest = tail;
    }
    cells.push(Mutex::new(rest));
    parallel.for_each_chunk(cells.len(), 1, &|range| {
        for index in range {
            run(index * step, &mut cells[index].lock());
        }
    });
    Ok(())
}
