//! What each optimiser does to one element of a variable and of its slots.
//!
//! A rule is written in terms of the op's scalar inputs, in the order of the op's definition. Where the sparse form of the
//! reference computes by another formula, it has a rule of its own, because the two round differently.

use super::field::{Field, Real};

/// The scalar inputs and attrs of one run.
pub(crate) struct Settings<T> {
    /// The scalar inputs in order; zeros behind them.
    pub(crate) scalars: [T; MAX_SCALARS],
    /// Attr `use_nesterov`, `update_slots` or `multiply_linear_by_lr`.
    pub(crate) flag: bool,
    /// Input `global_step`.
    pub(crate) step: i64,
}

/// The most scalar inputs that an op has.
pub(crate) const MAX_SCALARS: usize = 6;

/// What an optimiser does, with `SLOTS` slots for each element.
pub(crate) trait Rule<T, const SLOTS: usize>: 'static {
    /// Called once for each run, for what depends on scalars alone.
    fn prepare(settings: Settings<T>) -> Settings<T> {
        settings
    }

    fn update(settings: &Settings<T>, var: &mut T, slots: [&mut T; SLOTS], grad: T);
}

/// Defines rules: `Name<trait of elements, slots>(scalars) |settings, var, [slots], grad| statements`.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident: $class:ident, $slots:literal, $(prepare $prepare:ident,)?
        |$s:pat_param, $var:ident, [$($slot:ident),*], $grad:ident| $body:block)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl<T: $class> Rule<T, $slots> for $name {
            $(fn prepare(settings: Settings<T>) -> Settings<T> {
                $prepare(settings)
            })?

            #[inline(always)]
            fn update(settings: &Settings<T>, $var: &mut T, [$($slot),*]: [&mut T; $slots], $grad: T) {
                let $s = settings;
                $body
            }
        }
    )*};
}

rules! {
    Adadelta: Field, 2, |Settings { scalars: [lr, rho, epsilon, ..], .. }, var, [accum, accum_update], grad| {
        *accum = *accum * *rho + grad.square() * (T::ONE - *rho);
        let update = (*accum_update + *epsilon).root() * (*accum + *epsilon).inverse_root() * grad;
        *var = *var - update * *lr;
        *accum_update = *accum_update * *rho + update.square() * (T::ONE - *rho);
    }

    Adagrad: Field, 1, |Settings { scalars: [lr, ..], flag: update_slots, .. }, var, [accum], grad| {
        if *update_slots {
            *accum = *accum + grad.square();
        }
        *var = *var - grad * *lr * accum.inverse_root();
    }

    AdagradV2: Field, 1,
    |Settings { scalars: [lr, epsilon, ..], flag: update_slots, .. }, var, [accum], grad| {
        if *update_slots {
            *accum = *accum + grad.square();
        }
        *var = *var - grad * *lr / (accum.root() + *epsilon);
    }

    /// Dual averaging: the variable is computed anew from the sums of gradients and of their squares.
    AdagradDa: Real, 2,
    |Settings { scalars: [lr, l1, l2, ..], step, .. }, var, [sum, squares], grad| {
        *sum = *sum + grad;
        *squares = *squares + grad.square();
        let step = T::of(*step as f64);
        let divisor = *l2 * (step * *lr) + squares.root();
        *var = if *l1 > T::ZERO {
            *lr * -T::ONE * sum.sign() * (sum.magnitude() - step * *l1).or_more(T::ZERO) / divisor
        } else {
            *lr * *sum * -T::ONE / divisor
        };
    }

    Adam: Field, 2, prepare with_alpha,
    |Settings { scalars: [_, _, alpha, beta1, beta2, epsilon], flag: nesterov, .. }, var, [m, v], grad| {
        *m = *m + (grad - *m) * (T::ONE - *beta1);
        *v = *v + (grad.square() - *v) * (T::ONE - *beta2);
        let step = if *nesterov { grad * (T::ONE - *beta1) + *beta1 * *m } else { *m };
        *var = *var - step * *alpha / (v.root() + *epsilon);
    }

    AdamWithAmsgrad: Real, 3, prepare with_alpha,
    |Settings { scalars: [_, _, alpha, beta1, beta2, epsilon], .. }, var, [m, v, vhat], grad| {
        *m = *m + (grad - *m) * (T::ONE - *beta1);
        *v = *v + (grad.square() - *v) * (T::ONE - *beta2);
        *vhat = vhat.or_more(*v);
        *var = *var - *m * *alpha / (vhat.root() + *epsilon);
    }

    AdaMax: Real, 2,
    |Settings { scalars: [beta1_power, lr, beta1, beta2, epsilon, ..], .. }, var, [m, v], grad| {
        *m = *m + (grad - *m) * (T::ONE - *beta1);
        *v = (*beta2 * *v).or_more(grad.magnitude());
        *var = *var - *lr / (T::ONE - *beta1_power) * (*m / (*v + *epsilon));
    }

    AddSign: Real, 1,
    |Settings { scalars: [lr, alpha, sign_decay, beta, ..], .. }, var, [m], grad| {
        *m = *m * *beta + grad * (T::ONE - *beta);
        let agreement = grad.sign() * m.sign();
        *var = *var - *lr * (*alpha + *sign_decay * agreement) * grad;
    }

    PowerSign: Real, 1,
    |Settings { scalars: [lr, logbase, sign_decay, beta, ..], .. }, var, [m], grad| {
        *m = *m * *beta + grad * (T::ONE - *beta);
        let agreement = grad.sign() * m.sign();
        *var = *var - *lr * (*logbase * *sign_decay * agreement).exponential() * grad;
    }

    RmsProp: Field, 2,
    |Settings { scalars: [lr, rho, momentum, epsilon, ..], .. }, var, [ms, mom], grad| {
        *ms = *ms + (grad.square() - *ms) * (T::ONE - *rho);
        *mom = *mom * *momentum + (grad * *lr) / (*ms + *epsilon).root();
        *var = *var - *mom;
    }

    SparseRmsProp: Field, 2,
    |Settings { scalars: [lr, rho, momentum, epsilon, ..], .. }, var, [ms, mom], grad| {
        *ms = *ms * *rho + grad.square() * (T::ONE - *rho);
        *mom = *mom * *momentum + (*ms + *epsilon).inverse_root() * *lr * grad;
        *var = *var - *mom;
    }

    CenteredRmsProp: Field, 3,
    |Settings { scalars: [lr, rho, momentum, epsilon, ..], .. }, var, [mg, ms, mom], grad| {
        *ms = *ms + (grad.square() - *ms) * (T::ONE - *rho);
        *mg = *mg + (grad - *mg) * (T::ONE - *rho);
        let variance = *ms - mg.square() + *epsilon;
        *mom = *mom * *momentum + (grad * *lr) / variance.root();
        *var = *var - *mom;
    }

    SparseCenteredRmsProp: Field, 3,
    |Settings { scalars: [lr, rho, momentum, epsilon, ..], .. }, var, [mg, ms, mom], grad| {
        *ms = *ms * *rho + grad.square() * (T::ONE - *rho);
        *mg = *mg * *rho + grad * (T::ONE - *rho);
        let variance = *ms + *epsilon - mg.square();
        *mom = *mom * *momentum + variance.inverse_root() * *lr * grad;
        *var = *var - *mom;
    }

    Momentum: Field, 1,
    |Settings { scalars: [lr, momentum, ..], flag: nesterov, .. }, var, [accum], grad| {
        *accum = *accum * *momentum + grad;
        *var = if *nesterov {
            *var - (grad * *lr + *accum * *momentum * *lr)
        } else {
            *var - *accum * *lr
        };
    }

    KerasMomentum: Field, 1,
    |Settings { scalars: [lr, momentum, ..], flag: nesterov, .. }, var, [accum], grad| {
        *accum = *accum * *momentum - grad * *lr;
        *var = if *nesterov {
            *var + (*accum * *momentum - grad * *lr)
        } else {
            *var + *accum
        };
    }

    ProximalGradientDescent: Real, 0, |Settings { scalars: [lr, l1, l2, ..], .. }, var, [], grad| {
        let moved = *var - grad * *lr;
        *var = shrunk(moved, *lr, *l1, *l2);
    }

    ProximalAdagrad: Real, 1, |Settings { scalars: [lr, l1, l2, ..], .. }, var, [accum], grad| {
        *accum = *accum + grad.square();
        let rate = *lr * accum.inverse_root();
        let moved = *var - grad * rate;
        *var = shrunk(moved, rate, *l1, *l2);
    }

    Ftrl: Real, 2,
    |Settings { scalars: [lr, l1, l2, lr_power, ..], flag, .. }, var, [accum, linear], grad| {
        let form = FtrlForm { lr: *lr, l1: *l1, l2: *l2, lr_power: *lr_power, by_lr: *flag };
        form.accumulate(*var, accum, linear, grad, grad);
        *var = form.solve(*accum, *linear);
    }

    /// With `l2_shrinkage`, which counts for the sum of gradients and not for that of their squares.
    FtrlV2: Real, 2,
    |Settings { scalars: [lr, l1, l2, shrinkage, lr_power, ..], flag, .. }, var, [accum, linear], grad| {
        let form = FtrlForm { lr: *lr, l1: *l1, l2: *l2, lr_power: *lr_power, by_lr: *flag };
        let shrunk = grad + T::of(2.0) * *shrinkage * *var;
        form.accumulate(*var, accum, linear, grad, shrunk);
        *var = form.solve(*accum, *linear);
    }

    SparseFtrl: Real, 2,
    |Settings { scalars: [lr, l1, l2, lr_power, ..], flag, .. }, var, [accum, linear], grad| {
        let form = FtrlForm { lr: *lr, l1: *l1, l2: *l2, lr_power: *lr_power, by_lr: *flag };
        form.accumulate(*var, accum, linear, grad, grad);
        *var = form.solve_clamped(*accum, *linear);
    }

    SparseFtrlV2: Real, 2,
    |Settings { scalars: [lr, l1, l2, shrinkage, lr_power, ..], flag, .. }, var, [accum, linear], grad| {
        let form = FtrlForm { lr: *lr, l1: *l1, l2: *l2, lr_power: *lr_power, by_lr: *flag };
        let shrunk = grad + T::of(2.0) * *shrinkage * *var;
        form.accumulate(*var, accum, linear, grad, shrunk);
        *var = form.solve_clamped(*accum, *linear);
    }
}

/// Brings `moved` nearer to zero: by `rate * l1`, and by a share that grows with `l2`.
#[inline(always)]
fn shrunk<T: Real>(moved: T, rate: T, l1: T, l2: T) -> T {
    let divisor = T::ONE + l2 * rate;
    if l1 > T::ZERO {
        moved.sign() * (moved.magnitude() - rate * l1).or_more(T::ZERO) / divisor
    } else {
        moved / divisor
    }
}

/// "Follow the regularised leader", with the learning rate divided out of `linear` or, with `by_lr`, multiplied into it.
struct FtrlForm<T> {
    lr: T,
    l1: T,
    l2: T,
    lr_power: T,
    by_lr: bool,
}

impl<T: Real> FtrlForm<T> {
    /// `accum^-lr_power`.
    #[inline(always)]
    fn scale(&self, accum: T) -> T {
        if self.lr_power == T::of(-0.5) { accum.root() } else { accum.power(-self.lr_power) }
    }

    /// Adds a gradient to both sums.
    #[inline(always)]
    fn accumulate(&self, var: T, accum: &mut T, linear: &mut T, grad: T, shrunk: T) {
        let sum = *accum + grad.square();
        let growth = self.scale(sum) - self.scale(*accum);
        *linear = if self.by_lr {
            *linear + (shrunk * self.lr - growth * var)
        } else {
            *linear + (shrunk - growth / self.lr * var)
        };
        *accum = sum;
    }

    /// The distance from zero below which a variable becomes zero, and what it is divided by.
    #[inline(always)]
    fn threshold(&self, accum: T) -> (T, T) {
        if self.by_lr {
            (self.l1 * self.lr, self.scale(accum) + T::of(2.0) * self.l2 * self.lr)
        } else {
            (self.l1, self.scale(accum) / self.lr + T::of(2.0) * self.l2)
        }
    }

    /// The variable that the sums ask for.
    #[inline(always)]
    fn solve(&self, accum: T, linear: T) -> T {
        let (threshold, divisor) = self.threshold(accum);
        if linear.magnitude() > threshold {
            (threshold * linear.sign() - linear) / divisor
        } else {
            T::ZERO
        }
    }

    /// The same, as the sparse ops compute it.
    #[inline(always)]
    fn solve_clamped(&self, accum: T, linear: T) -> T {
        let (threshold, divisor) = self.threshold(accum);
        (linear.or_less(threshold).or_more(-threshold) - linear) / divisor
    }
}

/// The step size of Adam for all elements: `lr * sqrt(1 - beta2_power) / (1 - beta1_power)`, in the place of `lr`.
fn with_alpha<T: Field>(mut settings: Settings<T>) -> Settings<T> {
    let [beta1_power, beta2_power, lr, ..] = settings.scalars;
    settings.scalars[2] = lr * (T::ONE - beta2_power).root() / (T::ONE - beta1_power);
    settings
}
