//! Ops that look for values which are no numbers.

use num_traits::Float;
use tfcore_base::{Elem, Floats, LoopFor, Result, TypedLoop, invalid};
use tfcore_framework::{Kernel, KernelInit, Registry, kernel, shape_fns};
use tfcore_math::isa::vectorize;
use tfcore_tensor::Elems;

pub(crate) fn register(r: &mut Registry) {
    // CheckNumerics(tensor: T, message) -> output: T, the input, or an error if an element is NaN or infinite.
    // CheckNumericsV2 tells the infinities apart.
    for (name, tells_signs) in [("CheckNumerics", false), ("CheckNumericsV2", true)] {
        r.op(name)
            .shape(shape_fns::unchanged)
            .typed_kernel::<Search, Floats>("T", move |init, search| {
                check_kernel(init, search, tells_signs)
            });
    }
}

/// What was found among some elements.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Found {
    nan: bool,
    negative: bool,
    positive: bool,
}

type SearchLoop = fn(Elems<'_>) -> Found;

struct Search;

impl TypedLoop for Search {
    type Loop = SearchLoop;
}

impl<T: Elem + Float> LoopFor<T> for Search {
    const LOOP: SearchLoop = search::<T>;
}

fn search<T: Elem + Float>(elems: Elems<'_>) -> Found {
    let values = elems.typed::<T>();
    let is_bad = vectorize(
        #[inline(always)]
        || values.iter().fold(false, |is_bad, value| is_bad | !value.is_finite()),
    );
    if !is_bad {
        return Found::default();
    }
    values.iter().fold(Found::default(), |found, value| Found {
        nan: found.nan || value.is_nan(),
        negative: found.negative || *value == T::neg_infinity(),
        positive: found.positive || *value == T::infinity(),
    })
}

fn check_kernel(
    init: &KernelInit<'_>,
    search: SearchLoop,
    tells_signs: bool,
) -> Result<Box<dyn Kernel>> {
    let message = init.attrs.str("message")?.to_string();
    kernel(move |ctx| {
        let found = search(ctx.input(0)?.elems());
        if found != Found::default() {
            let kinds = describe(found, tells_signs);
            return Err(invalid!("{message} : Tensor had {kinds} values"));
        }
        let tensor = ctx.take_input(0)?;
        ctx.set_output(0, tensor);
        Ok(())
    })
}

fn describe(found: Found, tells_signs: bool) -> String {
    let Found { nan, negative, positive } = found;
    let kinds: Vec<&str> = if tells_signs {
        let kinds = [(negative, "-Inf"), (positive, "+Inf"), (nan, "NaN")];
        kinds.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name).collect()
    } else {
        let kinds = [(negative || positive, "Inf"), (nan, "NaN")];
        kinds.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name).collect()
    };
    match &kinds[..] {
        [one] => one.to_string(),
        [first, last] => format!("{first} and {last}"),
        _ => "-Inf, +Inf, and NaN".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op};
    use tfcore_tensor::{Shape, Tensor};

    use super::*;

    #[test]
    fn what_is_no_number_is_named() {
        let registry = registry_of(register);
        let attrs = [("T", AttrValue::Type(DType::FLOAT)), ("message", AttrValue::string("here"))];
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let cases: [(&[f32], [&str; 2]); 5] = [
            (&[1.0, nan], ["NaN", "NaN"]),
            (&[inf, 0.0], ["Inf", "+Inf"]),
            (&[inf, -inf], ["Inf", "-Inf and +Inf"]),
            (&[nan, -inf], ["Inf and NaN", "-Inf and NaN"]),
            (&[nan, -inf, inf], ["Inf and NaN", "-Inf, +Inf, and NaN"]),
        ];
        for (values, expected) in cases {
            let tensor = Tensor::from_slice(Shape::vector(values.len()), values).unwrap();
            for (op, expected) in ["CheckNumerics", "CheckNumericsV2"].into_iter().zip(expected) {
                let error =
                    run_op(&registry, op, &attrs, std::slice::from_ref(&tensor)).unwrap_err();
                assert_eq!(error.message(), format!("here : Tensor had {expected} values"));
            }
        }
        let fine = Tensor::from_slice(Shape::vector(2), &[1.0f32, f32::MAX]).unwrap();
        assert!(run_op(&registry, "CheckNumerics", &attrs, &[fine]).is_ok());
    }
}
