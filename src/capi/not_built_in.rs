//! Functions that exist because programs link with them, and that report `TF_UNIMPLEMENTED`.

use tfcore_base::{Error, unimplemented_error};

/// Each function with the reason.
const REASONS: &[(&str, &str)] = &[
    ("TFE_ContextCheckAlive", SERVERS),
    ("TFE_ContextSetServerDef", SERVERS),
    ("TFE_ContextSetServerDefWithTimeout", SERVERS),
    ("TFE_ContextSetServerDefWithTimeoutAndRetries", SERVERS),
    ("TFE_ContextUpdateServerDef", SERVERS),
    ("TFE_ContextUpdateServerDefWithTimeout", SERVERS),
    ("TFE_CreatePackedTensorHandle", "a tensor lies on one device"),
    ("TFE_DeleteConfigKeyValue", COORDINATION),
    ("TFE_GetConfigKeyValue", COORDINATION),
    ("TFE_InitializeLocalOnlyContext", SERVERS),
    ("TFE_InsertConfigKeyValue", COORDINATION),
    ("TFE_NewCustomDeviceTensorHandle", CUSTOM_DEVICES),
    ("TFE_RegisterCustomDevice", CUSTOM_DEVICES),
    ("TFE_ReportErrorToCluster", COORDINATION),
    (
        "TFE_SetLogicalCpuDevices",
        "the number of CPU devices is `device_count` of the configuration",
    ),
    ("TFE_WaitAtBarrier", COORDINATION),
    ("TF_AddNVariant", VARIANTS),
    ("TF_AllocateTempForVariableInfo", PLUGGABLE_DEVICES),
    ("TF_CoordinationServiceDeleteKeyValue", COORDINATION),
    ("TF_CoordinationServiceGetKeyValue", COORDINATION),
    ("TF_CoordinationServiceGetKeyValueWithTimeout", COORDINATION),
    ("TF_CoordinationServiceInsertKeyValue", COORDINATION),
    ("TF_CoordinationServiceTryGetKeyValue", COORDINATION),
    ("TF_CreateAndSetPjRtCApiClient", PJRT),
    ("TF_CreatePjRtBuffer", PJRT),
    ("TF_CreatePluginResource", PLUGGABLE_DEVICES),
    ("TF_CreateVariableInfoFromContext", PLUGGABLE_DEVICES),
    ("TF_DestroyTemporaryVariable", TEMPORARY_VARIABLES),
    ("TF_GetFetchNodesList", OPTIMIZERS),
    ("TF_GetFetchNodesListSize", OPTIMIZERS),
    ("TF_GetInputPropertiesList", OPTIMIZERS),
    ("TF_GetInputPropertiesListSize", OPTIMIZERS),
    ("TF_GetNodesToPreserveList", OPTIMIZERS),
    ("TF_GetNodesToPreserveListSize", OPTIMIZERS),
    ("TF_GetOutputPropertiesList", OPTIMIZERS),
    ("TF_GetOutputPropertiesListSize", OPTIMIZERS),
    ("TF_GetPjRtCBuffer", PJRT),
    ("TF_GetPjRtCClient", PJRT),
    ("TF_GetSerializedConfigProto", "a kernel does not learn the configuration of its session"),
    ("TF_GetSerializedFunctionDefLibrary", "a kernel does not learn the functions of its session"),
    ("TF_GetTensorFromVariableInfo", PLUGGABLE_DEVICES),
    ("TF_GraphImportGraphDefWithResultsNoSerialization", "the buffer holds a C++ object"),
    ("TF_InferStatically", OPTIMIZERS),
    ("TF_LoadPluggableDeviceLibrary", PLUGGABLE_DEVICES),
    ("TF_LockVariableInfos", PLUGGABLE_DEVICES),
    ("TF_LookupOrCreatePluginResource", PLUGGABLE_DEVICES),
    ("TF_NewServer", SERVERS),
    ("TF_ResetPjRtCClient", PJRT),
    ("TF_ServerJoin", SERVERS),
    ("TF_ServerStart", SERVERS),
    ("TF_ServerStop", SERVERS),
    ("TF_TemporaryVariable", TEMPORARY_VARIABLES),
    ("TF_ZerosLikeVariant", VARIANTS),
];

const COORDINATION: &str = "the coordination service of a cluster is not built in";
const CUSTOM_DEVICES: &str = "devices of the program are not built in";
const OPTIMIZERS: &str = "no graph optimizer of a plug-in is called";
const PJRT: &str = "PJRT is not built in";
const PLUGGABLE_DEVICES: &str = "devices of plug-ins (stream_executor) are not built in";
const SERVERS: &str = "servers of a cluster are not built in";
const TEMPORARY_VARIABLES: &str = "kernels of plug-ins make no temporary variables";
const VARIANTS: &str = "kernels of plug-ins do not see into variants";

/// The error of a function that is listed above.
pub(crate) fn not_built_in(function: &str) -> Error {
    let reason = REASONS.iter().find(|(name, _)| *name == function).map(|(_, reason)| *reason);
    debug_assert!(reason.is_some(), "{function} has no reason");
    let reason = reason.unwrap_or("it is not built in");
    unimplemented_error!("{function} is not implemented: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_sorted_and_unique() {
        assert!(REASONS.is_sorted_by(|(left, _), (right, _)| left < right));
    }
}
