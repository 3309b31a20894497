//! The registry's kernels in the form in which clients list them.

use tfcore_base::DType;
use tfcore_proto::{self as proto, kernel_def::AttrConstraint};

use crate::{AttrValue, KernelDef, Registry};

impl Registry {
    /// The kernels of the op `name`; none for an op that has none or that nobody knows.
    pub fn kernel_list_of(&self, name: &str) -> proto::KernelList {
        let kernels = self.kernels(name);
        proto::KernelList { kernel: kernels.iter().flat_map(|def| def.to_protos(name)).collect() }
    }

    /// The kernels of all ops, by the ops' names.
    pub fn kernel_list(&self) -> proto::KernelList {
        let defs = self.defs();
        let kernel = defs.iter().flat_map(|def| self.kernel_list_of(&def.name).kernel).collect();
        proto::KernelList { kernel }
    }
}

impl KernelDef {
    /// One message for each combination of types, as TensorFlow registers its kernels one by one.
    fn to_protos(&self, op: &str) -> Vec<proto::KernelDef> {
        let mut combinations: Vec<Vec<(&str, DType)>> = vec![Vec::new()];
        for (attr, allowed) in &self.constraints {
            let mut extended = Vec::with_capacity(combinations.len() * allowed.len());
            for types in &combinations {
                extended.extend(
                    allowed.iter().map(|&dtype| [&types[..], &[(&**attr, dtype)]].concat()),
                );
            }
            combinations = extended;
        }
        let message = |types: Vec<(&str, DType)>| proto::KernelDef {
            op: op.to_string(),
            device_type: self.device.name().to_string(),
            constraint: types.into_iter().map(|(attr, dtype)| constraint(attr, dtype)).collect(),
            label: self.label.to_string(),
            priority: self.priority,
            host_memory_arg: self.host_memory.clone(),
        };
        combinations.into_iter().map(message).collect()
    }
}

fn constraint(attr: &str, dtype: DType) -> AttrConstraint {
    let allowed_values = Some(AttrValue::types([dtype]).to_proto());
    AttrConstraint { name: attr.to_string(), allowed_values }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kernel_for_each_combination() {
        let mut registry = Registry::new();
        registry.op("ArgMax").cpu(|_| Err(tfcore_base::invalid!("none")));
        registry.op("NoOp").compute(|_| Ok(()));
        let list = registry.kernel_list();
        let ops: Vec<&str> = list.kernel.iter().map(|kernel| &*kernel.op).collect();
        assert_eq!(ops, [["ArgMax"; 52].as_slice(), &["NoOp"]].concat());
        let first = &list.kernel[1];
        assert_eq!(first.device_type, "CPU");
        assert_eq!(
            first.constraint,
            [constraint("T", DType::BFLOAT16), constraint("output_type", DType::INT32)]
        );
        assert!(list.kernel[52].constraint.is_empty());
        assert!(registry.kernel_list_of("Nope").kernel.is_empty());
    }
}
