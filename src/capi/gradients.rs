//! Gradients.

use std::ffi::{c_char, c_int};
use std::ptr;

use super::function::output_list;
use super::graph::{TF_Graph, TF_Output};
use super::handle::{get, guard, slice_mut, text};
use super::operation::NO_OUTPUT;
use super::tf_status::TF_Status;

/// Adds operations that compute the derivatives of the sum of `y` by each of `x`, and stores their outputs in `dy`, which
/// has room for `nx`; an output without an operation where nothing flows back.
///
/// `dx` has the `ny` derivatives by the `y` to begin with, or is null for ones. The operations are named `gradients/...`, in
/// later calls `gradients_1/...` and so on. On an error the graph is as it was.
///
/// # Safety
/// `g`, the operations and `status` must be live, `y` readable for `ny` elements and so on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_AddGradients(
    g: *mut TF_Graph,
    y: *mut TF_Output,
    ny: c_int,
    x: *mut TF_Output,
    nx: c_int,
    dx: *mut TF_Output,
    status: *mut TF_Status,
    dy: *mut TF_Output,
) {
    // SAFETY: as the caller promises.
    unsafe { TF_AddGradientsWithPrefix(g, ptr::null(), y, ny, x, nx, dx, status, dy) }
}

/// As `TF_AddGradients`, with names in the scope `prefix`, which nothing in the graph may use; null for the default.
///
/// # Safety
/// As for `TF_AddGradients`; `prefix` must be null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_AddGradientsWithPrefix(
    g: *mut TF_Graph,
    prefix: *const c_char,
    y: *mut TF_Output,
    ny: c_int,
    x: *mut TF_Output,
    nx: c_int,
    dx: *mut TF_Output,
    status: *mut TF_Status,
    dy: *mut TF_Output,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let graph = unsafe { get(g, "g")? };
        // SAFETY: as the caller promises.
        let (ys, xs, prefix) = unsafe {
            let prefix = if prefix.is_null() { None } else { Some(text(prefix, "prefix")?) };
            (
                output_list(&graph.shared, y, ny, "y")?,
                output_list(&graph.shared, x, nx, "x")?,
                prefix,
            )
        };
        let dys = match dx.is_null() {
            true => None,
            // SAFETY: as the caller promises.
            false => Some(unsafe { output_list(&graph.shared, dx, ny, "dx")? }),
        };
        // SAFETY: as the caller promises.
        let slots = unsafe { slice_mut(dy, xs.len(), "dy")? };
        let mut graph = graph.shared.lock();
        let grads = graph.add_gradients(&ys, &xs, dys.as_deref(), prefix.as_deref())?;
        for (slot, grad) in slots.iter_mut().zip(grads) {
            *slot = grad.map_or(NO_OUTPUT, |grad| graph.output(grad));
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}
