//! Gradients of the ops of recurrent networks.

use super::harness::{Case, case};

/// Numbers without a pattern, between -0.5 and 0.5.
fn scattered(count: usize, first: usize) -> Vec<f32> {
    let number = |i: usize| (i as f64 * 0.618_033_988_75).fract() as f32 - 0.5;
    (first..first + count).map(number).collect()
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for op in ["BlockLSTM", "BlockLSTMV2"] {
        for peephole in [false, true] {
            // Three steps, a batch of two, two inputs, one cell. The gradient knows of cs and h alone, so that the others are left out.
            let sequence = case(op)
                .fixed(&[], &[3i64])
                .single(&[3, 2, 2], &scattered(12, 1))
                .single(&[2, 1], &scattered(2, 20))
                .single(&[2, 1], &scattered(2, 30))
                .single(&[3, 4], &scattered(12, 40));
            let peepholes = [60, 61, 62].into_iter().fold(sequence, |case, first| {
                let weight = scattered(1, first);
                if peephole { case.single(&[1], &weight) } else { case.fixed(&[1], &weight) }
            });
            cases.push(
                peepholes
                    .single(&[4], &scattered(4, 70))
                    .flag("use_peephole", peephole)
                    .only(&[1, 6]),
            );
        }
    }
    let loss = case("CTCLoss")
        .x(&[4, 2, 3], &scattered(24, 1).iter().map(|&x| f64::from(x)).collect::<Vec<f64>>())
        .fixed(&[3, 2], &[0i64, 0, 0, 1, 1, 0])
        .fixed(&[3], &[0i32, 1, 1])
        .fixed(&[2], &[4i32, 3]);
    cases.push(loss.outputs(1));
    cases
}
