//! Switches, merges and the frames of loops.

use tfcore_base::{Result, invalid};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_fns, shape_ops};
use tfcore_tensor::{Dim, PartialShape};

pub(crate) fn register(r: &mut Registry) {
    // Switch(data: T, pred: bool) -> output_false: T, output_true: T
    // _SwitchN(data: T, output_index: int32) -> outputs: num_outs * T
    r.ops(["Switch", "RefSwitch", "_SwitchN"], |op| {
        op.shape(switch_shape).by_executor();
    });
    // Merge(inputs: N * T) -> output: T, value_index: int32
    r.ops(["Merge", "RefMerge"], |op| {
        op.shape(merge_shape).by_executor();
    });
    // RefSelect(index: int32, inputs: Ref(N * T)) -> output: Ref(T)
    r.op("RefSelect").shape(select_shape).compute(select);
    // Enter(data: T, frame_name, is_constant, parallel_iterations) -> output: T
    r.op("Enter").shape(enter_shape).by_executor();
    // Exit(data: T) -> output: T
    r.ops(["RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration"], |op| {
        op.shape(shape_fns::unchanged).by_executor();
    });
    // LoopCond(input: bool) -> output: bool
    r.op("LoopCond").shape(shape_fns::unchanged_of_rank(0)).by_executor();
    r.op("ControlTrigger").shape(shape_fns::no_outputs).by_executor();
}

/// Every output is the data.
fn switch_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 0)?;
    for output in 0..ctx.num_outputs() {
        ctx.set_output(output, ctx.input(0).clone());
        ctx.forward_handle(0, output);
    }
    Ok(())
}

/// What all inputs have in common.
fn merge_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let mut common = ctx.input(0).clone();
    for input in ctx.inputs() {
        common = match (common.dims(), input.dims()) {
            (Some(a), Some(b)) if a.len() == b.len() => a
                .iter()
                .zip(b)
                // Unknown sizes count as equal: the dimension keeps its identity.
                .map(|(&a, &b)| if a.value() == b.value() { a } else { Dim::fresh() })
                .collect(),
            _ => PartialShape::unknown(),
        };
    }
    ctx.set_output(0, common);
    ctx.set_output(1, PartialShape::scalar());
    Ok(())
}

/// The shape of the inputs if all are known and the same.
fn select_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 0)?;
    let inputs = ctx.input_list("inputs")?;
    let Some(first) = inputs.first().filter(|first| first.is_fully_known()) else {
        return Ok(());
    };
    let same =
        |shape: &PartialShape| shape.is_fully_known() && shape_ops::merge(first, shape).is_ok();
    if inputs.iter().all(same) {
        ctx.set_output(0, first.clone());
    }
    Ok(())
}

fn select(ctx: &mut OpContext<'_>) -> Result<()> {
    let index = ctx.input(0)?;
    if index.rank() != 0 {
        return Err(invalid!("Index must be a scalar, but it has shape {}", index.shape()));
    }
    let (index, count) = (index.scalar_value::<i32>()?, ctx.num_inputs() - 1);
    let chosen = usize::try_from(index).ok().filter(|&index| index < count);
    let chosen = chosen
        .ok_or_else(|| invalid!("Index must be in the range [0, {count}) but got {index}"))?;
    let variable = ctx.input_ref(1 + chosen)?.clone();
    ctx.set_output_ref(0, variable);
    Ok(())
}

/// The shape of a loop variable may change from one iteration to the next, that of a constant or of what a
/// handle stands for does not.
fn enter_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    if ctx.input_handle(0).is_some() {
        ctx.forward_handle(0, 0);
    } else if ctx.attrs.bool("is_constant")? {
        ctx.set_output(0, ctx.input(0).clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of};

    use super::*;

    #[test]
    fn shapes_of_switches_and_frames() {
        let registry = registry_of(register);
        let t = ("T", AttrValue::Type(DType::FLOAT));
        let frame = ("frame_name", AttrValue::string("f"));
        let enter =
            |is_constant| [t.clone(), frame.clone(), ("is_constant", AttrValue::Bool(is_constant))];
        let of = |count| [t.clone(), ("N", AttrValue::Int(count))];
        let cases: [(&str, &[(&str, AttrValue)], &str, &str); 16] = [
            ("Switch", std::slice::from_ref(&t), "[2,?];[]", "[2,?];[2,?]"),
            ("Switch", std::slice::from_ref(&t), "[2];[1]", "Shape must be rank 0 but is rank 1"),
            ("_SwitchN", &[t.clone(), ("num_outs", AttrValue::Int(3))], "[2];?", "[2];[2];[2]"),
            ("Merge", &of(1), "[2,?]", "[2,?];[]"),
            ("Merge", &of(2), "[2,3];[2,4]", "[2,?];[]"),
            ("Merge", &of(2), "[2,3];[2,3]", "[2,3];[]"),
            ("Merge", &of(2), "[2,?];[2,3]", "[2,?];[]"),
            ("Merge", &of(2), "[2];[2,3]", "?;[]"),
            ("Merge", &of(2), "[2];?", "?;[]"),
            ("RefSelect", &of(2), "[];[2];[2]", "[2]"),
            ("RefSelect", &of(2), "[];[2];[3]", "?"),
            ("RefSelect", &of(2), "[];[2];[?]", "?"),
            ("Enter", &enter(false), "[2]", "?"),
            ("Enter", &enter(true), "[2]", "[2]"),
            ("NextIteration", std::slice::from_ref(&t), "[2]", "[2]"),
            ("LoopCond", &[], "?", "[]"),
        ];
        for (op, attrs, inputs, expected) in cases {
            let actual = infer(&registry, op, attrs, inputs, &[]);
            let actual = actual.unwrap_or_else(|error| error.message().to_string());
            assert_eq!(actual, expected, "{op} of {inputs}");
        }
    }
}
