//! Loops of the old kind, made of two graphs: the condition and the body.
//!
//! Each loop variable enters a frame (Enter), meets its next value (Merge), and the condition decides whether it goes
//! through the body and around (Switch, NextIteration) or leaves (Exit).

use tfcore_base::{DType, Result, invalid};
use tfcore_framework::AttrValue;
use tfcore_tensor::PartialShape;

use crate::copy::Copy;
use crate::name_scope::NameScope;
use crate::node::OutputRef;
use crate::{Graph, NodeBuilder};

/// How many iterations of a loop may run at the same time.
const PARALLEL_ITERATIONS: i64 = 10;

/// A graph that takes the place of a condition or a body while a loop is put together.
pub struct LoopPart<'a> {
    pub graph: &'a Graph,
    /// The placeholders of the loop variables.
    pub inputs: &'a [OutputRef],
    /// The condition's value, or the next values of the loop variables.
    pub outputs: &'a [OutputRef],
}

impl Graph {
    /// Adds placeholders for the loop variables whose first values are `inputs` of `parent`. They are called `stem0`, `stem1`
    /// and so on; their shapes are unknown, since they may change from one iteration to the next.
    ///
    /// # Errors
    /// `OutOfRange` if `parent` has no such output.
    pub fn add_loop_inputs(
        &mut self,
        parent: &Graph,
        inputs: &[OutputRef],
        stem: &str,
    ) -> Result<Vec<OutputRef>> {
        let mut placeholders = Vec::with_capacity(inputs.len());
        for (index, &input) in inputs.iter().enumerate() {
            let mut builder = NodeBuilder::new("Placeholder", format!("{stem}{index}"));
            builder.set_attr("dtype", AttrValue::Type(parent.output_dtype(input)?.base()));
            builder.set_attr("shape", AttrValue::shape(PartialShape::unknown()));
            placeholders.push(OutputRef::new(builder.finish(self)?, 0));
        }
        Ok(placeholders)
    }

    /// Adds a loop that begins with `inputs`, and returns the values of its variables after the last iteration. Its nodes
    /// are in the scope `name`, with a number behind it if that is taken.
    ///
    /// # Errors
    /// `InvalidArgument` if there is another loop of this name, the condition is not a bool, or a variable changes its type;
    /// and what copying the parts reports. The graph is then as it was.
    pub fn add_while(
        &mut self,
        name: &str,
        inputs: &[OutputRef],
        cond: &LoopPart<'_>,
        body: &LoopPart<'_>,
    ) -> Result<Vec<OutputRef>> {
        if inputs.is_empty() {
            return Err(invalid!("TF_NewWhile() must be passed at least one input"));
        }
        let is_taken = self.is_name_or_scope(name);
        if is_taken && self.nodes().iter().any(|node| is_enter_of(node, name)) {
            return Err(invalid!("WhileContext with frame name '{name}' already exists"));
        }
        let checkpoint = self.checkpoint();
        let outcome = build(self, name, inputs, cond, body);
        if outcome.is_err() {
            self.restore(checkpoint);
        }
        outcome
    }
}

fn is_enter_of(node: &crate::Node, frame: &str) -> bool {
    node.is_enter() && node.attrs.bytes("frame_name").is_ok_and(|name| name == frame.as_bytes())
}

fn build(
    graph: &mut Graph,
    name: &str,
    inputs: &[OutputRef],
    cond: &LoopPart<'_>,
    body: &LoopPart<'_>,
) -> Result<Vec<OutputRef>> {
    let scope = match name {
        "" => String::new(),
        _ => NameScope::new("").unique(graph, name),
    };
    let mut names = NameScope::new(&scope);
    let mut merges = Vec::with_capacity(inputs.len());
    let mut enters = Vec::with_capacity(inputs.len());
    for &input in inputs {
        let attrs = [
            ("frame_name", AttrValue::string(name)),
            ("is_constant", AttrValue::Bool(false)),
            ("parallel_iterations", AttrValue::Int(PARALLEL_ITERATIONS)),
        ];
        enters.push(single(graph, &mut names, "Enter", input, &attrs)?);
    }
    for &enter in &enters {
        let mut builder = NodeBuilder::new("Merge", names.unique(graph, "Merge"));
        // The next value takes the second place when it is there.
        builder.add_input_list(vec![enter, enter]);
        merges.push(OutputRef::new(builder.finish(graph)?, 0));
    }

    let prefix = names.unique(graph, "cond");
    let proceed = copy(graph, cond, &merges, &prefix)?[0];
    let dtype = graph.output_dtype(proceed)?;
    if dtype != DType::BOOL {
        return Err(invalid!(
            "BuildWhileLoop: 'cond' argument must return a boolean output, got {dtype}"
        ));
    }
    let proceed = single(graph, &mut names, "LoopCond", proceed, &[])?;
    let mut switches = Vec::with_capacity(inputs.len());
    for &merge in &merges {
        let mut builder = NodeBuilder::new("Switch", names.unique(graph, "Switch"));
        builder.add_input(merge);
        builder.add_input(proceed);
        switches.push(builder.finish(graph)?);
    }

    let prefix = names.unique(graph, "body");
    let values: Vec<OutputRef> = switches.iter().map(|&id| OutputRef::new(id, 1)).collect();
    let next_values = copy(graph, body, &values, &prefix)?;
    for (&merge, &value) in merges.iter().zip(&next_values) {
        let next = single(graph, &mut names, "NextIteration", value, &[])?;
        let (expected, actual) = (graph.output_dtype(merge)?, graph.output_dtype(next)?);
        if expected != actual {
            return Err(invalid!(
                "Input 1 of node {} was passed {actual} from {}:0 incompatible with expected {expected}.",
                graph.node(merge.node).name,
                graph.node(next.node).name
            ));
        }
        graph.set_input(merge.node, 1, next.into());
    }
    let leave = |id| OutputRef::new(id, 0);
    switches.into_iter().map(|id| single(graph, &mut names, "Exit", leave(id), &[])).collect()
}

/// A node of one argument.
fn single(
    graph: &mut Graph,
    names: &mut NameScope,
    op: &str,
    input: OutputRef,
    attrs: &[(&str, AttrValue)],
) -> Result<OutputRef> {
    let mut builder = NodeBuilder::new(op, names.unique(graph, op));
    builder.add_input(input);
    for (name, value) in attrs {
        builder.set_attr(*name, value.clone());
    }
    Ok(OutputRef::new(builder.finish(graph)?, 0))
}

/// Copies a part of the loop, in which `values` take the place of the loop variables.
fn copy(
    graph: &mut Graph,
    part: &LoopPart<'_>,
    values: &[OutputRef],
    prefix: &str,
) -> Result<Vec<OutputRef>> {
    let replaced: Vec<(OutputRef, OutputRef)> =
        part.inputs.iter().copied().zip(values.iter().copied()).collect();
    let control = values[0].node;
    Copy { replaced: &replaced, prefix, control, renames_frames: false }.graph(
        part.graph,
        graph,
        part.outputs,
    )
}
