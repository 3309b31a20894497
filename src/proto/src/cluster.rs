//! Clusters, jobs and servers.

use std::collections::BTreeMap;

use prost::Message;

use crate::ConfigProto;

/// The jobs of a cluster.
#[derive(Clone, PartialEq, Message)]
pub struct ClusterDef {
    #[prost(message, repeated, tag = "1")]
    pub job: Vec<JobDef>,
}

/// A job: task index to `host:port`.
#[derive(Clone, PartialEq, Message)]
pub struct JobDef {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(btree_map = "int32, string", tag = "2")]
    pub tasks: BTreeMap<i32, String>,
}

/// One server of a cluster.
#[derive(Clone, PartialEq, Message)]
pub struct ServerDef {
    #[prost(message, optional, tag = "1")]
    pub cluster: Option<ClusterDef>,
    #[prost(string, tag = "2")]
    pub job_name: String,
    #[prost(int32, tag = "3")]
    pub task_index: i32,
    #[prost(message, optional, tag = "4")]
    pub default_session_config: Option<ConfigProto>,
    #[prost(string, tag = "5")]
    pub protocol: String,
    #[prost(int32, tag = "6")]
    pub port: i32,
    #[prost(message, optional, tag = "7")]
    pub cluster_device_filters: Option<ClusterDeviceFilters>,
    #[prost(int32, tag = "8")]
    pub replica: i32,
}

/// Which remote devices each task sees.
#[derive(Clone, PartialEq, Message)]
pub struct ClusterDeviceFilters {
    #[prost(message, repeated, tag = "1")]
    pub jobs: Vec<JobDeviceFilters>,
}

/// Device filters of a job, by task index.
#[derive(Clone, PartialEq, Message)]
pub struct JobDeviceFilters {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(btree_map = "int32, message", tag = "2")]
    pub tasks: BTreeMap<i32, TaskDeviceFilters>,
}

/// Device filters of a task.
#[derive(Clone, PartialEq, Message)]
pub struct TaskDeviceFilters {
    #[prost(string, repeated, tag = "1")]
    pub device_filters: Vec<String>,
}
