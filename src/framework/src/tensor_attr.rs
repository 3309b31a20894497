//! Placeholder of the tensor attribute: lazily converted TensorProto.
