//! Eager execution, `eager/c_api.h` and `eager/c_api_experimental.h`.

pub mod attrs;
pub mod cancellation;
pub mod cluster;
pub mod context;
pub mod custom_device;
pub mod executor;
pub mod experimental;
pub mod functions;
pub mod monitoring;
pub mod op;
pub mod op_attrs;
pub mod op_experimental;
pub mod placement;
pub mod tensor_handle;
pub mod tensor_memory;
