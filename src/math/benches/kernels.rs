//! Rates of the kernels of this crate: `cargo bench -p tfcore-math -- [part of a name]`, on one thread.
//!
//! Each line has the median of several rounds. `TFCORE_ISA` holds the instructions down, so that levels can be compared.

use std::hint::black_box;
use std::time::Instant;

use half::{bf16, f16};
use tfcore_math::conv::{
    Conv2dGeometry, conv2d, conv2d_backprop_filter, conv2d_backprop_input, depthwise_conv2d,
    depthwise_conv2d_backprop_filter, depthwise_conv2d_backprop_input,
};
use tfcore_math::gemm::{Epilogue, MatMut, MatRef, MatmulElem, PackElem, Packed, matmul, product};
use tfcore_math::isa::level;
use tfcore_math::pool::Parallel;

const ROUNDS: usize = 7;
const SECONDS_PER_ROUND: f64 = 0.02;

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let mut out = String::new();
    let mut line = |name: String, work: f64, run: &mut dyn FnMut()| {
        if name.contains(&filter) {
            let seconds = median(run);
            let text = format!(
                "{name:40} {:10.1} us {:8.1} GFLOP/s\n",
                seconds * 1e6,
                work / seconds / 1e9
            );
            out.push_str(&text);
        }
    };
    products::<f32>(&mut line, "f32", |v| v);
    products::<f64>(&mut line, "f64", f64::from);
    products::<bf16>(&mut line, "bf16", bf16::from_f32);
    products::<f16>(&mut line, "f16", f16::from_f32);
    packed_products(&mut line);
    convolutions(&mut line);
    use std::io::Write;
    let mut stdout = std::io::stdout().lock();
    let _ = write!(stdout, "{:?}\n{out}", level());
}

/// Takes a name, the floating point operations of a run, and a run.
type Line<'a> = &'a mut dyn FnMut(String, f64, &mut dyn FnMut());

fn median(run: &mut dyn FnMut()) -> f64 {
    run();
    let start = Instant::now();
    run();
    let once = start.elapsed().as_secs_f64();
    let count = (SECONDS_PER_ROUND / once).ceil().max(1.0) as usize;
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..count).for_each(|_| run());
            start.elapsed().as_secs_f64() / count as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn values<T>(len: usize, from: impl Fn(f32) -> T) -> Vec<T> {
    (0..len).map(|i| from((i * 7 % 31) as f32 / 16.0 - 1.0)).collect()
}

fn products<T: MatmulElem>(line: Line, name: &str, from: impl Fn(f32) -> T + Copy) {
    let shapes = [
        [64, 64, 64],
        [128, 128, 64],
        [256, 256, 256],
        [512, 512, 512],
        [1024, 1024, 1024],
        [1, 1024, 1024],
        [4, 1024, 1024],
        [32, 4096, 1024],
        [1024, 4, 1024],
        [1000, 10, 300],
    ];
    for [m, n, k] in shapes {
        let (a, b) = (values(m * k, from), values(k * n, from));
        let mut c = vec![T::ZERO; m * n];
        for (layout, b_row, b_col, a_row, a_col) in
            [("", n, 1, k, 1), (" bT", 1, k, k, 1), (" aT", n, 1, 1, m)]
        {
            let work = 2.0 * (m * n * k) as f64;
            line(format!("{name} {m}x{k}x{n}{layout}"), work, &mut || {
                let (ra, rb) = (MatRef::new(&a, a_row, a_col), MatRef::new(&b, b_row, b_col));
                matmul(Parallel::SERIAL, m, n, k, ra, rb, MatMut::new(&mut c, n, 1), false);
                black_box(&c);
            });
        }
    }
}

fn packed_products(line: Line) {
    for m in [1, 4, 16, 64] {
        let (n, k) = (1024, 1024);
        packed(line, "f32", m, n, k, |v| v);
        packed(line, "bf16", m, n, k, bf16::from_f32);
    }
}

fn packed<T: PackElem<Sum = f32>>(
    line: Line,
    name: &str,
    m: usize,
    n: usize,
    k: usize,
    from: impl Fn(f32) -> T,
) {
    let (a, b) = (values(m * k, &from), values(k * n, &from));
    let b = Packed::new(Parallel::SERIAL, k, n, MatRef::new(&b, n, 1));
    let bias = values(n, |v| v);
    let epilogue = Epilogue { bias: Some(&bias), ..Epilogue::default() };
    let mut c = vec![T::ZERO; m * n];
    line(format!("{name} {m}x{k}x{n} packed, bias"), 2.0 * (m * n * k) as f64, &mut || {
        let c = MatMut::new(&mut c, n, 1);
        product(Parallel::SERIAL, m, MatRef::new(&a, k, 1), &b, c, &epilogue);
    });
}

/// A square convolution with `SAME` padding; `group_c` input channels a group.
fn geometry(
    size: usize,
    c: usize,
    filter: usize,
    stride: usize,
    out_c: usize,
    group_c: usize,
) -> Conv2dGeometry {
    let out = size.div_ceil(stride);
    let pad = ((out - 1) * stride + filter).saturating_sub(size);
    Conv2dGeometry {
        batch: 1,
        in_h: size,
        in_w: size,
        in_c: c,
        filter_h: filter,
        filter_w: filter,
        out_c,
        out_h: out,
        out_w: out,
        stride_h: stride,
        stride_w: stride,
        dilation_h: 1,
        dilation_w: 1,
        pad_top: pad / 2,
        pad_left: pad / 2,
        groups: c / group_c,
    }
}

fn convolutions(line: Line) {
    let dense = [
        ("7x7s2 224x3 64", geometry(224, 3, 7, 2, 64, 3)),
        ("3x3 56x64 64", geometry(56, 64, 3, 1, 64, 64)),
        ("1x1 56x64 256", geometry(56, 64, 1, 1, 256, 64)),
        ("3x3 14x256 256", geometry(14, 256, 3, 1, 256, 256)),
        ("1x1 7x2048 512", geometry(7, 2048, 1, 1, 512, 2048)),
        ("3x3s2 56x64 128", geometry(56, 64, 3, 2, 128, 64)),
        ("1x1s2 56x64 128", geometry(56, 64, 1, 2, 128, 64)),
        (
            "3x3 dilated 28x64 64",
            Conv2dGeometry {
                dilation_h: 2,
                dilation_w: 2,
                pad_top: 2,
                pad_left: 2,
                ..geometry(28, 64, 3, 1, 64, 64)
            },
        ),
        (
            "1x7 17x128 128",
            Conv2dGeometry { filter_h: 1, pad_top: 0, ..geometry(17, 128, 7, 1, 128, 128) },
        ),
        ("3x3 56x128 128, 32 groups", geometry(56, 128, 3, 1, 128, 4)),
        ("3x3 28x256 256, 8 groups", geometry(28, 256, 3, 1, 256, 32)),
    ];
    for (name, g) in dense {
        let work = 2.0 * (g.output_len() * g.filter_len() / g.out_c) as f64;
        let (x, w) = (values(g.input_len(), |v| v), values(g.filter_len(), |v| v));
        let (mut y, mut dx, mut dw) =
            (values(g.output_len(), |v| v), vec![0.0; x.len()], vec![0.0; w.len()]);
        line(format!("conv {name}"), work, &mut || {
            conv2d(Parallel::SERIAL, &g, &x, &w, &mut y);
        });
        line(format!("conv {name}, input gradient"), work, &mut || {
            conv2d_backprop_input(Parallel::SERIAL, &g, &w, &y, &mut dx);
        });
        line(format!("conv {name}, filter gradient"), work, &mut || {
            conv2d_backprop_filter(Parallel::SERIAL, &g, &x, &y, &mut dw);
        });
    }
    let depthwise = [
        ("3x3 112x32", geometry(112, 32, 3, 1, 32, 1)),
        ("3x3 56x144", geometry(56, 144, 3, 1, 144, 1)),
        ("3x3s2 112x64", geometry(112, 64, 3, 2, 64, 1)),
        ("5x5 28x240", geometry(28, 240, 5, 1, 240, 1)),
        ("3x3 56x32 x2", geometry(56, 32, 3, 1, 64, 1)),
        ("7x7 14x384", geometry(14, 384, 7, 1, 384, 1)),
    ];
    for (name, g) in depthwise {
        let work = 2.0 * (g.output_len() * g.filter_h * g.filter_w) as f64;
        let (x, w) = (values(g.input_len(), |v| v), values(g.filter_len(), |v| v));
        let (mut y, mut dx, mut dw) =
            (values(g.output_len(), |v| v), vec![0.0; x.len()], vec![0.0; w.len()]);
        line(format!("depthwise {name}"), work, &mut || {
            depthwise_conv2d(Parallel::SERIAL, &g, &x, &w, &mut y);
        });
        line(format!("depthwise {name}, input gradient"), work, &mut || {
            depthwise_conv2d_backprop_input(Parallel::SERIAL, &g, &w, &y, &mut dx);
        });
        line(format!("depthwise {name}, filter gradient"), work, &mut || {
            depthwise_conv2d_backprop_filter(Parallel::SERIAL, &g, &x, &y, &mut dw);
        });
    }
}
