//! Kernel registrations and device descriptions.

use prost::Message;

/// A list of kernel registrations.
#[derive(Clone, PartialEq, Message)]
pub struct KernelList {
    #[prost(message, repeated, tag = "1")]
    pub kernel: Vec<KernelDef>,
}

/// One kernel: op, device, type constraints.
#[derive(Clone, PartialEq, Message)]
pub struct KernelDef {
    #[prost(string, tag = "1")]
    pub op: String,
    #[prost(string, tag = "2")]
    pub device_type: String,
    #[prost(message, repeated, tag = "3")]
    pub constraint: Vec<kernel_def::AttrConstraint>,
    #[prost(string, repeated, tag = "4")]
    pub host_memory_arg: Vec<String>,
    #[prost(string, tag = "5")]
    pub label: String,
    #[prost(int32, tag = "6")]
    pub priority: i32,
}

/// Parts of [`KernelDef`].
pub mod kernel_def {
    use prost::Message;

    /// The values of an attribute (a `list(type)`) that the kernel takes.
    #[derive(Clone, PartialEq, Message)]
    pub struct AttrConstraint {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, optional, tag = "2")]
        pub allowed_values: Option<crate::AttrValue>,
    }
}

/// A device as listed to users.
#[derive(Clone, PartialEq, Message)]
pub struct DeviceAttributes {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub device_type: String,
    #[prost(int64, tag = "4")]
    pub memory_limit: i64,
    #[prost(message, optional, tag = "5")]
    pub locality: Option<DeviceLocality>,
    #[prost(fixed64, tag = "6")]
    pub incarnation: u64,
    #[prost(string, tag = "7")]
    pub physical_device_desc: String,
    #[prost(int64, tag = "8")]
    pub xla_global_id: i64,
}

/// Where a device sits in the machine.
#[derive(Clone, PartialEq, Message)]
pub struct DeviceLocality {
    #[prost(int32, tag = "1")]
    pub bus_id: i32,
    #[prost(int32, tag = "2")]
    pub numa_node: i32,
    #[prost(message, optional, tag = "3")]
    pub links: Option<LocalLinks>,
}

/// A device's links to its neighbours.
#[derive(Clone, PartialEq, Message)]
pub struct LocalLinks {
    #[prost(message, repeated, tag = "1")]
    pub link: Vec<InterconnectLink>,
}

/// A link to another device.
#[derive(Clone, PartialEq, Message)]
pub struct InterconnectLink {
    #[prost(int32, tag = "1")]
    pub device_id: i32,
    #[prost(string, tag = "2")]
    pub r#type: String,
    #[prost(int32, tag = "3")]
    pub strength: i32,
}
