//! Every function against the definition of a convolution, over geometries that reach every path.

use half::{bf16, f16};

use super::*;
use crate::pool::Pool;

/// A small deterministic sequence of whole numbers, exact in every type.
fn numbers(len: usize, seed: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 31 + seed * 17 + i / 7) % 5) as f64 - 2.0).collect()
}

fn geometry(
    [batch, in_h, in_w, in_c]: [usize; 4],
    [filter_h, filter_w, out_c]: [usize; 3],
    [stride_h, stride_w]: [usize; 2],
    [dilation_h, dilation_w]: [usize; 2],
    [pad_top, pad_left]: [usize; 2],
    [out_h, out_w]: [usize; 2],
    groups: usize,
) -> Conv2dGeometry {
    Conv2dGeometry {
        batch,
        in_h,
        in_w,
        in_c,
        filter_h,
        filter_w,
        out_c,
        out_h,
        out_w,
        stride_h,
        stride_w,
        dilation_h,
        dilation_w,
        pad_top,
        pad_left,
        groups,
    }
}

fn geometries() -> Vec<Conv2dGeometry> {
    vec![
        // A unit filter, a filter as large as the image, and the same two with a stride or padding.
        geometry([2, 5, 4, 3], [1, 1, 6], [1, 1], [1, 1], [0, 0], [5, 4], 1),
        geometry([3, 4, 5, 2], [4, 5, 3], [1, 1], [1, 1], [0, 0], [1, 1], 1),
        geometry([2, 5, 5, 3], [1, 1, 2], [2, 2], [1, 1], [0, 0], [3, 3], 1),
        geometry([1, 3, 3, 2], [1, 1, 2], [1, 1], [1, 1], [1, 1], [5, 5], 1),
        // Same, valid, strided, dilated, asymmetric.
        geometry([2, 7, 6, 3], [3, 3, 4], [1, 1], [1, 1], [1, 1], [7, 6], 1),
        geometry([1, 7, 9, 2], [3, 2, 5], [2, 3], [1, 1], [0, 0], [3, 3], 1),
        geometry([2, 9, 8, 2], [3, 3, 3], [1, 1], [2, 3], [2, 3], [9, 8], 1),
        geometry([1, 5, 6, 1], [2, 4, 2], [2, 1], [1, 1], [0, 3], [3, 8], 1),
        // Groups.
        geometry([2, 6, 6, 4], [3, 3, 6], [1, 2], [1, 1], [1, 0], [6, 3], 2),
        geometry([1, 5, 5, 6], [2, 2, 3], [1, 1], [2, 2], [1, 1], [5, 5], 3),
        // Windows wholly outside of the image, and gaps between windows.
        geometry([1, 2, 2, 2], [3, 3, 2], [1, 1], [1, 1], [6, 5], [14, 12], 1),
        geometry([1, 11, 10, 2], [2, 2, 2], [4, 5], [1, 1], [0, 0], [3, 2], 1),
        geometry([1, 3, 3, 1], [2, 2, 1], [1, 1], [usize::MAX / 2, 7], [0, 0], [3, 3], 1),
        // Empty extents.
        geometry([0, 5, 5, 2], [3, 3, 2], [1, 1], [1, 1], [1, 1], [5, 5], 1),
        geometry([2, 5, 5, 0], [3, 3, 2], [1, 1], [1, 1], [1, 1], [5, 5], 1),
        geometry([2, 5, 5, 2], [3, 3, 0], [1, 1], [1, 1], [1, 1], [5, 5], 1),
        geometry([2, 0, 5, 2], [1, 3, 2], [1, 1], [1, 1], [0, 1], [0, 5], 1),
        geometry([2, 5, 5, 2], [0, 3, 2], [1, 1], [1, 1], [0, 1], [5, 5], 1),
        // Several tiles and several threads.
        geometry([2, 40, 33, 16], [3, 3, 24], [1, 1], [1, 1], [1, 1], [40, 33], 1),
        geometry([1, 30, 31, 8], [5, 5, 16], [2, 2], [1, 1], [2, 2], [15, 16], 2),
    ]
}

/// The same, one filter set per channel: `out_c` a multiple of `in_c`.
fn depthwise_geometries() -> Vec<Conv2dGeometry> {
    geometries()
        .into_iter()
        .flat_map(|g| {
            [1, 3].map(|multiplier| Conv2dGeometry {
                out_c: g.in_c * multiplier,
                groups: g.in_c,
                ..g
            })
        })
        .collect()
}

/// Calls `f(input index, filter index, output index)` for every product of the convolution.
fn for_each_product(g: &Conv2dGeometry, mut f: impl FnMut(usize, usize, usize)) {
    let (group_in, group_out) = (g.in_c / g.groups.max(1), g.out_c / g.groups.max(1));
    for b in 0..g.batch {
        for oh in 0..g.out_h {
            for ow in 0..g.out_w {
                for fh in 0..g.filter_h {
                    for fw in 0..g.filter_w {
                        let ih = oh as i128 * g.stride_h as i128
                            + fh as i128 * g.dilation_h as i128
                            - g.pad_top as i128;
                        let iw = ow as i128 * g.stride_w as i128
                            + fw as i128 * g.dilation_w as i128
                            - g.pad_left as i128;
                        if ih < 0 || iw < 0 || ih >= g.in_h as i128 || iw >= g.in_w as i128 {
                            continue;
                        }
                        let pixel = (b * g.in_h + ih as usize) * g.in_w + iw as usize;
                        for oc in 0..g.out_c {
                            for ic in 0..group_in {
                                f(
                                    pixel * g.in_c + oc / group_out * group_in + ic,
                                    ((fh * g.filter_w + fw) * group_in + ic) * g.out_c + oc,
                                    ((b * g.out_h + oh) * g.out_w + ow) * g.out_c + oc,
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

struct Functions<T> {
    forward: fn(Parallel, &Conv2dGeometry, &[T], &[T], &mut [T]),
    backprop_input: fn(Parallel, &Conv2dGeometry, &[T], &[T], &mut [T]),
    backprop_filter: fn(Parallel, &Conv2dGeometry, &[T], &[T], &mut [T]),
}

fn check_all<T: Copy + Send + PartialEq>(
    geometries: &[Conv2dGeometry],
    functions: Functions<T>,
    from: fn(f64) -> T,
) {
    let pool = Pool::new(3);
    let type_name = std::any::type_name::<T>();
    let convert = |v: &[f64]| v.iter().map(|&v| from(v)).collect::<Vec<T>>();
    for g in geometries {
        let (input, filter, gradient) =
            (numbers(g.input_len(), 1), numbers(g.filter_len(), 2), numbers(g.output_len(), 3));
        let (mut output, mut d_input, mut d_filter) =
            (vec![0.0; gradient.len()], vec![0.0; input.len()], vec![0.0; filter.len()]);
        for_each_product(g, |i, f, o| {
            output[o] += input[i] * filter[f];
            d_input[i] += gradient[o] * filter[f];
            d_filter[f] += gradient[o] * input[i];
        });
        let (ti, tf, tg) = (convert(&input), convert(&filter), convert(&gradient));
        for par in [Parallel::SERIAL, Parallel::new(&pool)] {
            let threads = par.threads();
            let mut actual = vec![from(77.0); output.len()];
            (functions.forward)(par, g, &ti, &tf, &mut actual);
            assert!(actual == convert(&output), "{type_name} forward, {threads} threads, {g:?}");
            let mut actual = vec![from(77.0); input.len()];
            (functions.backprop_input)(par, g, &tf, &tg, &mut actual);
            assert!(
                actual == convert(&d_input),
                "{type_name} backprop input, {threads} threads, {g:?}"
            );
            let mut actual = vec![from(77.0); filter.len()];
            (functions.backprop_filter)(par, g, &ti, &tg, &mut actual);
            assert!(
                actual == convert(&d_filter),
                "{type_name} backprop filter, {threads} threads, {g:?}"
            );
        }
    }
}

#[test]
fn convolutions() {
    fn functions<T: ConvElem>() -> Functions<T> {
        Functions {
            forward: conv2d,
            backprop_input: conv2d_backprop_input,
            backprop_filter: conv2d_backprop_filter,
        }
    }
    check_all::<f32>(&geometries(), functions(), |v| v as f32);
    check_all::<f64>(&geometries(), functions(), |v| v);
    check_all::<i32>(&geometries(), functions(), |v| v as i32);
    check_all::<f16>(&geometries(), functions(), f16::from_f64);
    check_all::<bf16>(&geometries(), functions(), bf16::from_f64);
}

#[test]
fn depthwise_convolutions() {
    fn functions<T: ConvElem>() -> Functions<T> {
        Functions {
            forward: depthwise_conv2d,
            backprop_input: depthwise_conv2d_backprop_input,
            backprop_filter: depthwise_conv2d_backprop_filter,
        }
    }
    check_all::<f32>(&depthwise_geometries(), functions(), |v| v as f32);
    check_all::<f64>(&depthwise_geometries(), functions(), |v| v);
    check_all::<f16>(&depthwise_geometries(), functions(), f16::from_f64);
    check_all::<bf16>(&depthwise_geometries(), functions(), bf16::from_f64);
}

#[test]
#[should_panic(expected = "lengths")]
fn short_slices_are_refused() {
    conv2d(Parallel::SERIAL, &geometries()[0], &[0.0f32; 3], &[0.0; 18], &mut [0.0; 240]);
}

#[test]
fn padding_meets_an_infinite_filter_as_zeros() {
    // 3x4 ones; TensorFlow's values.
    let g = geometry([1, 3, 4, 1], [3, 3, 1], [1, 1], [1, 1], [1, 1], [3, 4], 1);
    let (ones, mut filter) = (vec![1.0f32; 12], vec![0.0f32; 9]);
    filter[0] = f32::INFINITY;
    let is_padded = |i: usize| i < 4 || i.is_multiple_of(4);
    for forward in [conv2d::<f32>, depthwise_conv2d::<f32>] {
        let mut out = vec![0.0; 12];
        forward(Parallel::SERIAL, &g, &ones, &filter, &mut out);
        for (i, v) in out.iter().enumerate() {
            assert!(if is_padded(i) { v.is_nan() } else { *v == f32::INFINITY }, "{i}: {v}");
        }
    }
    let mut out = vec![0.0; 12];
    conv2d_backprop_input(Parallel::SERIAL, &g, &filter, &ones, &mut out);
    let expected = |i: usize| if i >= 8 || i % 4 == 3 { 0.0 } else { f32::INFINITY };
    assert!(out.iter().enumerate().all(|(i, &v)| v == expected(i)), "{out:?}");
    depthwise_conv2d_backprop_input(Parallel::SERIAL, &g, &filter, &ones, &mut out);
    let padded = |i: usize| i >= 8 || i % 4 == 3;
    assert!(out.iter().enumerate().all(|(i, v)| v.is_nan() == padded(i)), "{out:?}");
}
