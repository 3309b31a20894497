//! Ops that call functions again and again, one call after the other: While, For and MapDefun.
//!
//! What is called next is decided here; who calls differs: on the caller's thread with [`run`], or, where a node of
//! a function may wait, as part of a run in the gear with frames.

use std::sync::Arc;

use tfcore_base::{Result, internal, invalid};
use tfcore_framework::{Outputs, Value};
use tfcore_plan::plan::Function;
use tfcore_tensor::Tensor;

use crate::run::call::call;
use crate::run::condition::holds;
use crate::run::exec::{Exec, Inputs, Within};

/// One execution of such an op, between two calls.
pub(crate) trait Repeat: Send {
    /// What follows after the call before, with these results; they are empty at the beginning.
    fn next(&mut self, results: Outputs, exec: Exec<'_>) -> Result<Next>;

    /// The step, as the op sees it.
    fn view<'r>(&self, exec: Exec<'r>) -> Exec<'r> {
        exec
    }
}

pub(crate) enum Next {
    Call(Arc<Function>, Inputs),
    /// It was the last one; these are the op's outputs.
    End(Outputs),
}

/// Makes all calls on this thread.
pub(crate) fn run(mut repeat: Box<dyn Repeat>, exec: Exec<'_>) -> Result<Outputs> {
    let exec = repeat.view(exec);
    let mut results = Outputs::new();
    loop {
        exec.check()?;
        match repeat.next(results, exec)? {
            Next::Call(function, args) => results = call(&function, args, exec)?,
            Next::End(outputs) => return Ok(outputs),
        }
    }
}

/// A While whose condition and body are called.
pub(crate) struct While {
    cond: Arc<Function>,
    body: Arc<Function>,
    /// Empty during a call of the body.
    vars: Inputs,
    called: Called,
    /// Whether it runs as if made of Switches.
    by_switches: bool,
}

enum Called {
    Nothing,
    Condition,
    Body,
}

impl While {
    pub(crate) fn new(
        cond: &Arc<Function>,
        body: &Arc<Function>,
        vars: Inputs,
        by_switches: bool,
    ) -> While {
        let (cond, body) = (cond.clone(), body.clone());
        While { cond, body, vars, called: Called::Nothing, by_switches }
    }
}

impl Repeat for While {
    fn next(&mut self, results: Outputs, _: Exec<'_>) -> Result<Next> {
        match std::mem::replace(&mut self.called, Called::Condition) {
            Called::Condition => {
                let vars = std::mem::take(&mut self.vars);
                if !goes_on(&results, self.by_switches)? {
                    return Ok(Next::End(vars.into_iter().collect()));
                }
                self.called = Called::Body;
                return Ok(Next::Call(self.body.clone(), vars));
            }
            Called::Body => self.vars = results.into_iter().collect(),
            Called::Nothing => {}
        }
        Ok(Next::Call(self.cond.clone(), self.vars.clone()))
    }

    fn view<'r>(&self, exec: Exec<'r>) -> Exec<'r> {
        exec.within(if self.by_switches { Within::Loop } else { Within::Call })
    }
}

/// Whether a condition's results say that the loop goes on.
fn goes_on(results: &[Value], by_switches: bool) -> Result<bool> {
    match results {
        [Value::Tensor(tensor)] => holds(tensor, by_switches),
        _ => Err(invalid!(
            "Expected a single scalar return value from WhileOp cond, got {} tensors.",
            results.len()
        )),
    }
}

/// A For.
pub(crate) struct For {
    body: Arc<Function>,
    range: Range,
    /// Those before the first call.
    vars: Option<Inputs>,
}

impl For {
    /// `inputs` are start, limit, delta and the loop's variables.
    pub(crate) fn new(body: &Arc<Function>, inputs: Inputs) -> Result<For> {
        let (range, vars) = Range::of(inputs)?;
        Ok(For { body: body.clone(), range, vars: Some(vars) })
    }
}

impl Repeat for For {
    fn next(&mut self, results: Outputs, _: Exec<'_>) -> Result<Next> {
        let mut vars = self.vars.take().unwrap_or_else(|| results.into_iter().collect());
        Ok(match self.range.next() {
            Some(counter) => {
                vars.insert(0, counter);
                Next::Call(self.body.clone(), vars)
            }
            None => Next::End(vars.into_iter().collect()),
        })
    }
}

/// The counters of a For.
struct Range {
    next: i64,
    limit: i64,
    delta: i64,
}

impl Range {
    /// Reads start, limit and delta; what is left are the loop's variables.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no scalar, and for steps that do not lead from the start to the limit.
    fn of(mut inputs: Inputs) -> Result<(Range, Inputs)> {
        let mut number = |what: &str| match inputs.remove(0) {
            Value::Tensor(tensor) if tensor.rank() != 0 => {
                Err(invalid!("{what} must be a scalar, but {}", tensor.shape()))
            }
            Value::Tensor(tensor) => tensor.scalar_value::<i32>().map(i64::from),
            _ => Err(internal!("A bound of the loop is missing")),
        };
        let (next, limit, delta) = (number("start")?, number("limit")?, number("delta")?);
        if next.cmp(&limit) != 0.cmp(&delta) && next != limit {
            return Err(invalid!("Invalid start/limit/delta: {next} {limit} {delta}"));
        }
        Ok((Range { next, limit, delta }, inputs))
    }
}

impl Iterator for Range {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let is_over =
            if self.delta > 0 { self.next >= self.limit } else { self.next <= self.limit };
        let counter = Tensor::scalar(self.next as i32);
        self.next += self.delta;
        (!is_over).then_some(Value::Tensor(counter))
    }
}

#[cfg(test)]
mod tests {
    use tfcore_tensor::Shape;

    use super::*;

    #[test]
    fn bounds_lead_from_the_start_to_the_limit() {
        let cases = [
            ([0, 3, 1], Ok(3)),
            ([3, 0, -1], Ok(3)),
            ([0, 0, 0], Ok(0)),
            ([2, 2, -1], Ok(0)),
            ([3, 0, 1], Err("Invalid start/limit/delta: 3 0 1")),
            ([0, 3, -1], Err("Invalid start/limit/delta: 0 3 -1")),
            ([0, 1, 0], Err("Invalid start/limit/delta: 0 1 0")),
        ];
        for (bounds, expected) in cases {
            let inputs = bounds.iter().map(|&bound| Value::Tensor(Tensor::scalar::<i32>(bound)));
            let count = Range::of(inputs.collect()).map(|(range, _)| range.count());
            assert_eq!(count.map_err(|e| e.message().to_string()), expected.map_err(String::from));
        }
        let mut inputs: Inputs = (0..3).map(|bound| Value::Tensor(Tensor::scalar(bound))).collect();
        inputs[1] = Value::Tensor(Tensor::from_slice(Shape::vector(1), &[3]).expect("a vector"));
        let error = Range::of(inputs).map(|_| ()).expect_err("a vector for a limit");
        assert_eq!(error.message(), "limit must be a scalar, but [1]");
    }
}
