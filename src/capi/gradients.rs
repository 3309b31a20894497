//! Gradients.

use std::ffi::c_int;

use super::function::output_list;
use super::graph::{TF_Graph, TF_Output};
use super::handle::{ArrayMut, CStrIn, Ref, Status, guard};
use super::operation::NO_OUTPUT;

/// Adds operations that compute the derivatives of the sum of `y` by each of `x`, and stores their outputs in `dy`, which
/// has room for `nx`; an output without an operation where nothing flows back.
///
/// `dx` has the `ny` derivatives by the `y` to begin with, or is null for ones. The operations are named `gradients/...`, in
/// later calls `gradients_1/...` and so on. On an error the graph is as it was.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AddGradients(
    g: Ref<TF_Graph>,
    y: ArrayMut<TF_Output>,
    ny: c_int,
    x: ArrayMut<TF_Output>,
    nx: c_int,
    dx: ArrayMut<TF_Output>,
    status: Status,
    dy: ArrayMut<TF_Output>,
) {
    TF_AddGradientsWithPrefix(g, CStrIn::NULL, y, ny, x, nx, dx, status, dy)
}

/// As `TF_AddGradients`, with names in the scope `prefix`, which nothing in the graph may use; null for the default.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AddGradientsWithPrefix(
    g: Ref<TF_Graph>,
    prefix: CStrIn,
    y: ArrayMut<TF_Output>,
    ny: c_int,
    x: ArrayMut<TF_Output>,
    nx: c_int,
    dx: ArrayMut<TF_Output>,
    status: Status,
    mut dy: ArrayMut<TF_Output>,
) {
    guard(status, (), || {
        let graph = g.get("g")?;
        let ys = output_list(&graph.shared, y.as_array(), ny, "y")?;
        let xs = output_list(&graph.shared, x.as_array(), nx, "x")?;
        let dys = match dx.as_array().is_null() {
            true => None,
            false => Some(output_list(&graph.shared, dx.as_array(), ny, "dx")?),
        };
        let slots = dy.get(xs.len(), "dy")?;
        let (mut graph, prefix) = (graph.shared.lock(), prefix.opt());
        let grads = graph.add_gradients(&ys, &xs, dys.as_deref(), prefix.as_deref())?;
        for (slot, grad) in slots.iter_mut().zip(grads) {
            *slot = grad.map_or(NO_OUTPUT, |grad| graph.output(grad));
        }
        Ok(())
    })
}
