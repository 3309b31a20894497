//! Optimisers: steps of variables by gradients, `Apply*` on refs, `ResourceApply*` on handles, and their sparse forms, which step
//! the rows that indices name.
//!
//! `rules.rs` has the formula of each, `driver.rs` what they share: which inputs an op has, the checks, locks, threads.

mod driver;
mod field;
mod neg_train;
mod rules;
mod shapes;

use tfcore_base::{BFloat16, Complex64, Complex128, Floats, Half, LoopSet};
use tfcore_framework::Registry;

use driver::{Checks, Steps, step_kernel};
use rules::*;

/// Types of variables that are trained in any arithmetic.
type All = (f32, f64, Half, BFloat16, Complex64, Complex128);
/// The same without `bfloat16`.
type AllButBFloat16 = (f32, f64, Half, Complex64, Complex128);
/// Types for which the reference has the kernels that are rarely asked for.
type Wide = (f32, f64);

pub(crate) fn register(r: &mut Registry) {
    // `ApplyAdadelta(var: Ref(T), accum: Ref(T), accum_update: Ref(T), lr: T, rho: T, epsilon: T, grad: T) -> out: Ref(T)`; the
    // form on handles has no output. So all of these: variable, slots, scalars, the gradient, and for the sparse forms indices.
    both::<Adadelta, 2, All>(r, ["ApplyAdadelta", "ResourceApplyAdadelta"], SCALARS_FIRST);
    both::<Adadelta, 2, All>(r, ["SparseApplyAdadelta", "ResourceSparseApplyAdadelta"], IN_ORDER);
    // `accum += grad^2`, `var -= lr * grad / sqrt(accum)`.
    both::<Adagrad, 1, All>(r, ["ApplyAdagrad", "ResourceApplyAdagrad"], IN_ORDER);
    both::<Adagrad, 1, All>(r, ["SparseApplyAdagrad", "ResourceSparseApplyAdagrad"], SAME_RANK);
    both::<AdagradV2, 1, All>(r, ["ApplyAdagradV2", "ResourceApplyAdagradV2"], IN_ORDER);
    both::<AdagradV2, 1, All>(
        r,
        ["SparseApplyAdagradV2", "ResourceSparseApplyAdagradV2"],
        SAME_RANK,
    );
    both::<AdagradDa, 2, Wide>(r, ["ApplyAdagradDA", "ResourceApplyAdagradDA"], IN_ORDER);
    both::<AdagradDa, 2, Wide>(
        r,
        ["SparseApplyAdagradDA", "ResourceSparseApplyAdagradDA"],
        NOT_EMPTY,
    );
    both::<Adam, 2, All>(r, ["ApplyAdam", "ResourceApplyAdam"], SCALARS_FIRST);
    one::<AdamWithAmsgrad, 3, Floats>(r, "ResourceApplyAdamWithAmsgrad", SCALARS_FIRST);
    both::<AdaMax, 2, (f32, f64, Half)>(r, ["ApplyAdaMax", "ResourceApplyAdaMax"], SCALARS_FIRST);
    both::<AddSign, 1, Floats>(r, ["ApplyAddSign", "ResourceApplyAddSign"], SCALARS_FIRST);
    both::<PowerSign, 1, Floats>(r, ["ApplyPowerSign", "ResourceApplyPowerSign"], SCALARS_FIRST);
    both::<RmsProp, 2, All>(r, ["ApplyRMSProp", "ResourceApplyRMSProp"], SCALARS_FIRST);
    both::<SparseRmsProp, 2, AllButBFloat16>(
        r,
        ["SparseApplyRMSProp", "ResourceSparseApplyRMSProp"],
        SCALARS_FIRST,
    );
    both::<CenteredRmsProp, 3, All>(
        r,
        ["ApplyCenteredRMSProp", "ResourceApplyCenteredRMSProp"],
        SCALARS_FIRST,
    );
    both::<SparseCenteredRmsProp, 3, AllButBFloat16>(
        r,
        ["SparseApplyCenteredRMSProp", "ResourceSparseApplyCenteredRMSProp"],
        SCALARS_FIRST,
    );
    // `accum = accum * momentum + grad`, `var -= lr * accum`.
    both::<Momentum, 1, All>(r, ["ApplyMomentum", "ResourceApplyMomentum"], IN_ORDER);
    both::<Momentum, 1, All>(r, ["SparseApplyMomentum", "ResourceSparseApplyMomentum"], IN_ORDER);
    // `accum = accum * momentum - lr * grad`, `var += accum`.
    one::<KerasMomentum, 1, All>(r, "ResourceApplyKerasMomentum", IN_ORDER);
    one::<KerasMomentum, 1, All>(
        r,
        "ResourceSparseApplyKerasMomentum",
        Checks { names_indices: true, ..IN_ORDER },
    );
    both::<ProximalGradientDescent, 0, Wide>(
        r,
        ["ApplyProximalGradientDescent", "ResourceApplyProximalGradientDescent"],
        IN_ORDER,
    );
    both::<ProximalGradientDescent, 0, Wide>(
        r,
        ["SparseApplyProximalGradientDescent", "ResourceSparseApplyProximalGradientDescent"],
        NOT_EMPTY,
    );
    both::<ProximalAdagrad, 1, Wide>(
        r,
        ["ApplyProximalAdagrad", "ResourceApplyProximalAdagrad"],
        Checks { signs: true, ..IN_ORDER },
    );
    both::<ProximalAdagrad, 1, Wide>(
        r,
        ["SparseApplyProximalAdagrad", "ResourceSparseApplyProximalAdagrad"],
        Checks { signs: true, ..NOT_EMPTY },
    );
    both::<Ftrl, 2, Floats>(r, ["ApplyFtrl", "ResourceApplyFtrl"], IN_ORDER);
    both::<FtrlV2, 2, Floats>(r, ["ApplyFtrlV2", "ResourceApplyFtrlV2"], IN_ORDER);
    both::<SparseFtrl, 2, Floats>(
        r,
        ["SparseApplyFtrl", "ResourceSparseApplyFtrl"],
        Checks { signs: true, ..NOT_EMPTY },
    );
    both::<SparseFtrlV2, 2, Floats>(
        r,
        ["SparseApplyFtrlV2", "ResourceSparseApplyFtrlV2"],
        Checks { signs: true, ..NOT_EMPTY },
    );
    neg_train::register(r);
}

const IN_ORDER: Checks = Checks {
    scalars_first: false,
    signs: false,
    not_empty: false,
    same_rank: false,
    names_indices: false,
};
const SCALARS_FIRST: Checks = Checks { scalars_first: true, ..IN_ORDER };
const NOT_EMPTY: Checks = Checks { not_empty: true, ..IN_ORDER };
const SAME_RANK: Checks = Checks { same_rank: true, ..NOT_EMPTY };

/// Registers the form on refs and the one on handles.
fn both<R: 'static, const SLOTS: usize, S: LoopSet<Steps<R, SLOTS>>>(
    r: &mut Registry,
    names: [&'static str; 2],
    checks: Checks,
) {
    for name in names {
        one::<R, SLOTS, S>(r, name, checks);
    }
}

fn one<R: 'static, const SLOTS: usize, S: LoopSet<Steps<R, SLOTS>>>(
    r: &mut Registry,
    name: &'static str,
    checks: Checks,
) {
    r.op(name)
        .shape(shapes::infer)
        .typed_kernel::<Steps<R, SLOTS>, S>("T", move |init, run| step_kernel(init, checks, run));
}

#[cfg(test)]
mod tests;
