//! The composition root: the one list of all op families.

use std::sync::{Arc, OnceLock};

use tfcore_framework::Registry;

/// The registry of the process, built when it is first asked for.
pub fn registry() -> &'static Arc<Registry> {
    static REGISTRY: OnceLock<Arc<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut registry = Registry::new();
        register_all(&mut registry);
        Arc::new(registry)
    })
}

fn register_all(registry: &mut Registry) {
    tfcore_ops_array::register(registry);
    tfcore_ops_control::register(registry);
    tfcore_ops_data::register(registry);
    tfcore_ops_math::register(registry);
    tfcore_ops_misc::register(registry);
    tfcore_ops_image::register(registry);
    tfcore_ops_linalg::register(registry);
    tfcore_ops_io::register(registry);
    tfcore_ops_list::register(registry);
    tfcore_ops_nn::register(registry);
    tfcore_ops_parse::register(registry);
    tfcore_ops_quant::register(registry);
    tfcore_ops_queue::register(registry);
    tfcore_ops_random::register(registry);
    tfcore_ops_rnn::register(registry);
    tfcore_ops_sparse::register(registry);
    tfcore_ops_state::register(registry);
    tfcore_ops_string::register(registry);
    tfcore_ops_table::register(registry);
}
