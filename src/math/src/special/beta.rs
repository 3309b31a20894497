//! The regularised incomplete beta function.

use super::Special;

/// The integral of `t^(a-1) (1-t)^(b-1)` from 0 to x by that from 0 to 1; NaN unless a and b are positive and x is
/// within `[0, 1]`.
pub fn betainc<T: Special>(a: T, b: T, x: T) -> T {
    let (zero, one) = (T::zero(), T::one());
    if a <= zero || b <= zero {
        return T::nan();
    }
    if x <= zero || x >= one {
        return if x == zero || x == one { x.abs() } else { T::nan() };
    }
    if !T::IS_SINGLE {
        return double_form(a, b, x);
    }
    if a > one {
        return single_form(a, b, x);
    }
    // The recurrence in a.
    let logarithm =
        a * x.ln() + b * (-x).ln_1p() + (a + b).ln_gamma() - (a + one).ln_gamma() - b.ln_gamma();
    single_form(a + one, b, x) + logarithm.exp()
}

/// For f32 and a beyond 1.
fn single_form<T: Special>(a: T, b: T, x: T) -> T {
    let (one, two) = (T::one(), T::of(2.0));
    // The tail beyond the mean is computed from the other end.
    let is_reversed = x > a / (a + b);
    let (a, b, x, rest) = if is_reversed { (b, a, one - x, x) } else { (a, b, x, one - x) };
    let finish = |result: T| if is_reversed { one - result } else { result };
    if b > T::of(10.0) && (b * x / a).abs() < T::of(0.3) {
        return finish(single_series(a, b, x));
    }
    let near = x * (a + b - two) / (a - one) < one;
    let value = fraction(a, b, x, near);
    let mut t = (if near { b } else { b - one }) * rest.ln();
    t = t + (a * x.ln() + (a + b).ln_gamma() - a.ln_gamma() - b.ln_gamma());
    t = t + (value / a).ln();
    finish(t.exp())
}

/// The power series for f32, for small `b x / a`.
fn single_series<T: Special>(a: T, b: T, x: T) -> T {
    let one = T::one();
    let mut y = a * x.ln() + (b - one) * (-x).ln_1p() - a.ln();
    y = y - (a.ln_gamma() + b.ln_gamma());
    y = y + (a + b).ln_gamma();
    let t = x / (one - x);
    let (mut a, mut b) = (a, b);
    let (mut sum, mut term) = (T::zero(), one);
    loop {
        b = b - one;
        if b == T::zero() {
            break;
        }
        a = a + one;
        term = term * (t * b / a);
        sum = sum + term;
        // A series that has run away stays so.
        if term.abs() <= T::MACHINE_EPSILON || !term.is_finite() {
            break;
        }
    }
    y.exp() * (one + sum)
}

fn double_form<T: Special>(a: T, b: T, x: T) -> T {
    let (one, two) = (T::one(), T::of(2.0));
    let is_short = |b: T, x: T| b * x <= one && x <= T::of(0.95);
    if is_short(b, x) {
        return double_series(a, b, x);
    }
    let is_reversed = x > a / (a + b);
    let (a, b, x, rest) = if is_reversed { (b, a, one - x, x) } else { (a, b, x, one - x) };
    let finish = |result: T| match is_reversed {
        false => result,
        true if result <= T::MACHINE_EPSILON => one - T::MACHINE_EPSILON,
        true => one - result,
    };
    if is_reversed && is_short(b, x) {
        return finish(double_series(a, b, x));
    }
    let near = x * (a + b - two) - (a - one) < T::zero();
    let value = fraction(a, b, x, near);
    let w = if near { value } else { value / rest };
    let mut y = a * x.ln();
    y = y + (b * rest.ln() + (a + b).ln_gamma() - a.ln_gamma() - b.ln_gamma());
    y = y + (w / a).ln();
    finish(y.exp())
}

/// The power series for f64, for `b x` up to 1 and x up to 0.95.
fn double_series<T: Special>(a: T, b: T, x: T) -> T {
    let one = T::one();
    let inverse = a.recip();
    let mut t = (one - b) * x;
    let mut v = t / (a + one);
    let first = v;
    let mut n = T::of(2.0);
    let mut sum = T::zero();
    let limit = T::MACHINE_EPSILON * inverse;
    while v.abs() > limit {
        t = t * ((n - b) * x / n);
        v = t / (a + n);
        sum = sum + v;
        n = n + one;
    }
    sum = sum + first + inverse;
    let logarithm = (a + b).ln_gamma() - a.ln_gamma() - b.ln_gamma() + a * x.ln() + sum.ln();
    logarithm.exp()
}

/// The continued fraction: in x, or, for values that are not near 0, in `x / (1 - x)`.
fn fraction<T: Special>(a: T, b: T, x: T, near: bool) -> T {
    let (zero, one, two) = (T::zero(), T::one(), T::of(2.0));
    let terms = if T::IS_SINGLE { 100 } else { 300 };
    let tolerance = T::MACHINE_EPSILON * T::of(if T::IS_SINGLE { 1.0 } else { 3.0 });
    let (mut k1, mut k3, mut k4, mut k5, mut k7, mut k8) = (a, a, a + one, one, a + one, a + two);
    let (mut k2, mut k6, step, x) = match near {
        true => (a + b, b - one, one, x),
        false => (b - one, a + b, -one, x / (one - x)),
    };
    let (mut p2, mut q2, mut p1, mut q1) = (zero, one, one, one);
    let mut value = one;
    for _ in 0..terms {
        let odd = -(x * k1 * k2) / (k3 * k4);
        (p2, p1) = (p1, p1 + p2 * odd);
        (q2, q1) = (q1, q1 + q2 * odd);
        let even = (x * k5 * k6) / (k7 * k8);
        (p2, p1) = (p1, p1 + p2 * even);
        (q2, q1) = (q1, q1 + q2 * even);
        if q1 != zero {
            let last = value;
            value = p1 / q1;
            if (last - value).abs() < value.abs() * tolerance {
                break;
            }
        }
        (k1, k2, k3, k4) = (k1 + one, k2 + step, k3 + two, k4 + two);
        (k5, k6, k7, k8) = (k5 + one, k6 - step, k7 + two, k8 + two);
        let (p, q) = (p1.abs(), q1.abs());
        let mut scale = |factor: T| {
            for term in [&mut p2, &mut p1, &mut q2, &mut q1] {
                *term = *term * factor;
            }
        };
        if q + p > T::BIG {
            scale(T::BIG_INVERSE);
        }
        if q < T::BIG_INVERSE || p < T::BIG_INVERSE {
            scale(T::BIG);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::betainc;
    use crate::special::check;

    #[test]
    fn values_of_the_reference() {
        // From TensorFlow 2.21: arguments, float and double result.
        let rows = [
            ("Betainc", [0.5, 0.5, 0.25], 0.3333333, 0.33333333333333337),
            ("Betainc", [2.0, 3.0, 0.625], 0.8483887, 0.848388671875),
            ("Betainc", [2.0, 3.0, 0.125], 0.078857414, 0.07885742187500004),
            ("Betainc", [30.0, 40.0, 0.5], 0.8858001, 0.8857998873233486),
            ("Betainc", [500.0, 12.0, 0.0625], 0.0, 0.0),
            ("Betainc", [0.25, 12.5, 0.75], 1.0, 0.9999999985044331),
            ("Betainc", [9.0, 0.5, 0.96875], 0.4559291, 0.4559288751588165),
            ("Betainc", [1.0, 1.0, 0.0], 0.0, 0.0),
            ("Betainc", [1.0, 1.0, 1.0], 1.0, 1.0),
            ("Betainc", [0.0, 1.0, 0.5], f32::NAN, f64::NAN),
            ("Betainc", [1.0, 1.0, 1.5], f32::NAN, f64::NAN),
            ("Betainc", [1.0, 1.0, f64::NAN], f32::NAN, f64::NAN),
        ];
        for (name, [a, b, x], single, double) in rows {
            let results = (betainc(a as f32, b as f32, x as f32), betainc(a, b, x));
            check((name, &[a, b, x]), results, (single, double));
        }
    }
}
