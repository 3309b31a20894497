//! `Role`: the part that an op plays in the structure of a graph, apart from the arithmetic of its kernel.
//!
//! Passes, gradients, shape inference and the executor match on roles instead of names. An op with several
//! spellings (`Switch`, `RefSwitch`, `_SwitchN`) has one role.

/// The part that an op plays in a graph. Set once, when the op's definition is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Role {
    /// An op that is described completely by its kernel, shape function and gradient.
    #[default]
    Plain,

    // Control flow within a graph.
    /// `Switch`, `RefSwitch`, `_SwitchN`: all outputs but the selected one are dead.
    Switch,
    /// `Merge`, `RefMerge`: forwards the first input that is not dead.
    Merge,
    /// `_XlaMerge`: as [`Role::Merge`], with a kernel of its own.
    XlaMerge,
    /// `Enter`, `RefEnter`
    Enter,
    /// `Exit`, `RefExit`
    Exit,
    /// `NextIteration`, `RefNextIteration`
    NextIteration,
    /// `LoopCond`
    LoopCond,
    /// `ControlTrigger`: runs even if its control inputs are dead.
    ControlTrigger,

    // Calls.
    /// `PartitionedCall`, `StatefulPartitionedCall`: calls the function of attr `f`.
    Call,
    /// A node whose op is a function of the graph's library: calls it with the node's attrs.
    Function,
    /// `RemoteCall`: calls the function of attr `f` on the device that input `target` names.
    RemoteCall,
    /// `SymbolicGradient`: calls the gradient of the function of attr `f`.
    SymbolicGradient,
    /// `If`, `StatelessIf`, `_If`: calls one of attrs `then_branch` and `else_branch`.
    If,
    /// `Case`, `StatelessCase`: calls one of attr `branches`.
    Case,
    /// `While`, `StatelessWhile`, `_While`: calls attrs `cond` and `body` in turns.
    While,
    /// `For`: calls attr `body` once for each value of a range.
    For,
    /// `MapDefun`: calls attr `f` once for each row of its arguments.
    MapDefun,

    // Boundaries of graphs, functions and partitions.
    /// `_Arg`, `_DeviceArg`: an argument of a function.
    Arg,
    /// `_Retval`, `_DeviceRetval`: a result of a function.
    Retval,
    /// `Placeholder`, `PlaceholderV2`: fails unless it is fed.
    Placeholder,
    /// `PlaceholderWithDefault`: an identity that clients may feed.
    PlaceholderWithDefault,
    /// `_Send`, `_HostSend`
    Send,
    /// `_Recv`, `_HostRecv`
    Recv,

    // State.
    /// `Variable`, `VariableV2`: a variable that is passed by reference.
    Variable,
    /// `VarHandleOp`: the handle of a resource variable.
    VarHandle,
    /// `ReadVariableOp`
    ReadVariable,
    /// `ResourceGather`, `ResourceGatherNd`, `VariableShape`: read a resource variable in part.
    ReadVariablePart,
    /// `Assert`: stateful, so that it is not pruned; changes nothing.
    Assert,

    // Values that shape inference and folding know without a kernel.
    /// `Const`
    Const,
    /// `Identity`, `RefIdentity`
    Identity,
    /// `StopGradient`
    StopGradient,
    /// `NoOp`
    NoOp,
    /// `Shape`
    Shape,
    /// `ShapeN`
    ShapeN,
    /// `Rank`
    Rank,
    /// `Size`
    Size,
    /// `Cast`
    Cast,
    /// `Pack`
    Pack,
    /// `Concat`: the axis is the first input.
    Concat,
    /// `ConcatV2`: the axis is the last input.
    ConcatV2,
    /// `StridedSlice`
    StridedSlice,
}

impl Role {
    /// The role of the registered op `name`. Functions have [`Role::Function`], whatever their name is.
    pub fn of_op(name: &str) -> Role {
        match name {
            "Switch" | "RefSwitch" | "_SwitchN" => Role::Switch,
            "Merge" | "RefMerge" => Role::Merge,
            "_XlaMerge" => Role::XlaMerge,
            "Enter" | "RefEnter" => Role::Enter,
            "Exit" | "RefExit" => Role::Exit,
            "NextIteration" | "RefNextIteration" => Role::NextIteration,
            "LoopCond" => Role::LoopCond,
            "ControlTrigger" => Role::ControlTrigger,
            "PartitionedCall" | "StatefulPartitionedCall" => Role::Call,
            "RemoteCall" => Role::RemoteCall,
            "SymbolicGradient" => Role::SymbolicGradient,
            "If" | "StatelessIf" | "_If" => Role::If,
            "Case" | "StatelessCase" => Role::Case,
            "While" | "StatelessWhile" | "_While" => Role::While,
            "For" => Role::For,
            "MapDefun" => Role::MapDefun,
            "_Arg" | "_DeviceArg" => Role::Arg,
            "_Retval" | "_DeviceRetval" => Role::Retval,
            "Placeholder" | "PlaceholderV2" => Role::Placeholder,
            "PlaceholderWithDefault" => Role::PlaceholderWithDefault,
            "_Send" | "_HostSend" => Role::Send,
            "_Recv" | "_HostRecv" => Role::Recv,
            "Variable" | "VariableV2" => Role::Variable,
            "VarHandleOp" => Role::VarHandle,
            "ReadVariableOp" => Role::ReadVariable,
            "ResourceGather" | "ResourceGatherNd" | "VariableShape" => Role::ReadVariablePart,
            "Assert" => Role::Assert,
            "Const" => Role::Const,
            "Identity" | "RefIdentity" => Role::Identity,
            "StopGradient" => Role::StopGradient,
            "NoOp" => Role::NoOp,
            "Shape" => Role::Shape,
            "ShapeN" => Role::ShapeN,
            "Rank" => Role::Rank,
            "Size" => Role::Size,
            "Cast" => Role::Cast,
            "Pack" => Role::Pack,
            "Concat" => Role::Concat,
            "ConcatV2" => Role::ConcatV2,
            "StridedSlice" => Role::StridedSlice,
            _ => Role::Plain,
        }
    }

    /// True if values join here that may be dead: [`Role::Merge`] or [`Role::XlaMerge`].
    pub fn is_merge(self) -> bool {
        matches!(self, Role::Merge | Role::XlaMerge)
    }

    /// True if the op calls one function with its inputs: by attr `f`, or as the function itself.
    pub fn is_call(self) -> bool {
        matches!(self, Role::Call | Role::Function)
    }

    /// True if the op selects one of several functions: [`Role::If`] or [`Role::Case`].
    pub fn is_branch(self) -> bool {
        matches!(self, Role::If | Role::Case)
    }

    /// True if the op's behaviour is that of the functions that it calls.
    pub fn calls_functions(self) -> bool {
        matches!(
            self,
            Role::Call
                | Role::Function
                | Role::RemoteCall
                | Role::SymbolicGradient
                | Role::If
                | Role::Case
                | Role::While
                | Role::For
                | Role::MapDefun
        )
    }

    /// True if the executor needs frames or dead values for the op.
    pub fn is_control_flow(self) -> bool {
        matches!(
            self,
            Role::Switch
                | Role::Merge
                | Role::XlaMerge
                | Role::Enter
                | Role::Exit
                | Role::NextIteration
                | Role::LoopCond
                | Role::ControlTrigger
        )
    }

    /// True if the op is stateful by its definition but neither changes a state nor holds one that differs
    /// between steps by itself.
    pub fn only_reads_state(self) -> bool {
        matches!(self, Role::VarHandle | Role::ReadVariable | Role::ReadVariablePart | Role::Assert)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op_table;

    #[test]
    fn spellings_of_one_op_share_a_role() {
        let cases: [(&[&str], Role); 12] = [
            (&["Switch", "RefSwitch", "_SwitchN"], Role::Switch),
            (&["Merge", "RefMerge"], Role::Merge),
            (&["Enter", "RefEnter"], Role::Enter),
            (&["Exit", "RefExit"], Role::Exit),
            (&["NextIteration", "RefNextIteration"], Role::NextIteration),
            (&["PartitionedCall", "StatefulPartitionedCall"], Role::Call),
            (&["If", "StatelessIf", "_If"], Role::If),
            (&["While", "StatelessWhile", "_While"], Role::While),
            (&["_Arg", "_DeviceArg"], Role::Arg),
            (&["_Retval", "_DeviceRetval"], Role::Retval),
            (&["_Send", "_HostSend"], Role::Send),
            (&["_Recv", "_HostRecv"], Role::Recv),
        ];
        for (names, role) in cases {
            for name in names {
                assert_eq!(op_table::get(name).map(|op| op.role), Some(role), "{name}");
            }
        }
        assert_eq!(op_table::get("AddV2").unwrap().role, Role::Plain);
    }

    /// A misspelt name in `of_op` would leave fewer ops with a role.
    #[test]
    fn every_name_is_that_of_an_op() {
        let with_role = op_table::names().filter(|name| Role::of_op(name) != Role::Plain);
        assert_eq!(with_role.count(), 61);
    }
}
