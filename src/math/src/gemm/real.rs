//! Products of f32 and f64: operands and results in memory as the kernels have them.

use std::ops::Range;

use super::block::{self, Left, Product, Right, Target};
use super::epilogue::Finish;
use super::kernel::Kernels;
use super::pack::{self, Panels};
use super::{AnyPanels, Job, MatRef, MatmulElem, Out, PackElem, PanelsOf, RightOperand};
use crate::pool::Parallel;
use crate::scratch::Bits;

/// Columns up to which a product whose left side lies in memory column by column is computed as its transpose.
const FEW_COLS: usize = 8;

/// A type that kernels multiply as it is.
pub(crate) trait Real: Bits + Finish {
    fn kernels() -> &'static Kernels<Self, Self>;

    /// Panels of this type, if these are.
    fn of(panels: &AnyPanels) -> Option<&Panels<Self>>;

    fn any(panels: Panels<Self>) -> AnyPanels;
}

macro_rules! real {
    ($t:ty, $kernels:ident, $variant:ident) => {
        impl Real for $t {
            fn kernels() -> &'static Kernels<$t, $t> {
                #[cfg(target_arch = "x86_64")]
                {
                    super::x86::$kernels()
                }
                #[cfg(not(target_arch = "x86_64"))]
                {
                    super::plain::$kernels()
                }
            }

            fn of(panels: &AnyPanels) -> Option<&Panels<$t>> {
                match &panels.0 {
                    PanelsOf::$variant(panels) => Some(panels),
                    _ => None,
                }
            }

            fn any(panels: Panels<$t>) -> AnyPanels {
                AnyPanels(PanelsOf::$variant(panels))
            }
        }

        impl MatmulElem for $t {
            type Sum = $t;

            const ZERO: $t = 0.0;

            fn run(par: Parallel, job: &Job<'_, $t>) {
                products(par, job);
            }
        }

        impl PackElem for $t {
            fn pack(par: Parallel, k: usize, n: usize, b: MatRef<$t>) -> AnyPanels {
                let view = b.view(0);
                <$t>::any(Panels::new(par, <$t>::kernels(), k, n, &|cols, depths, out| {
                    // SAFETY: the caller has checked that the view has so many rows and columns.
                    unsafe { pack::panel(<$t>::kernels(), view, cols, depths, out) };
                }))
            }
        }
    };
}
real!(f32, f32_kernels, F32);
real!(f64, f64_kernels, F64);

/// Runs a job as it is, or as its transpose if that suits the kernels better.
fn products<T: Real + MatmulElem<Sum = T>>(par: Parallel, job: &Job<'_, T>) {
    let (size, c) = (job.size, job.c);
    let by_column = |view: MatRef<T>| view.row_stride == 1 && view.col_stride != 1;
    let few = size.n <= FEW_COLS && size.m > 4 * size.n && by_column(job.a);
    let columns = c.col_stride != 1 && c.row_stride == 1;
    match job.b {
        RightOperand::Matrix(b) if columns || few => {
            let turned = Job {
                size: super::Size { m: size.n, n: size.m, k: size.k },
                a: b.transposed(),
                b: RightOperand::Matrix(job.a.transposed()),
                c: Out { row_stride: c.col_stride, col_stride: c.row_stride, ..c },
                offsets: &|i| {
                    let [a, b, c] = (job.offsets)(i);
                    [b, a, c]
                },
                ..*job
            };
            straight(par, &turned, true);
        }
        _ => straight(par, job, false),
    }
}

/// Runs a job; `turned` if the epilogue's rows are the job's columns.
fn straight<T: Real + MatmulElem<Sum = T>>(par: Parallel, job: &Job<'_, T>, turned: bool) {
    let epilogue = job.epilogue.filter(|epilogue| !epilogue.is_empty());
    let finish = |i: usize, j: usize, run: &mut [T]| {
        if let Some(epilogue) = epilogue {
            epilogue.apply(i, j, run);
        }
    };
    let take = |index, rows: Range<usize>, cols: Range<usize>, sums: &mut [T], stride| {
        let c = job.c.offset((job.offsets)(index)[2]);
        store(job, c, turned, rows, cols, sums, stride);
    };
    // Rows of contiguous results are written by the kernels, and finished where they are.
    let rows = job.c.col_stride == 1 && !(turned && epilogue.is_some());
    block::run(par, T::kernels(), job.count, &|index| {
        let [of_a, of_b, of_c] = (job.offsets)(index);
        Product {
            index,
            m: job.size.m,
            n: job.size.n,
            depth: job.size.k,
            left: Left::InPlace(job.a.view(of_a)),
            right: match job.b {
                RightOperand::Matrix(b) => Right::InPlace(b.view(of_b)),
                RightOperand::Panels(panels) => {
                    Right::Panels(T::of(panels).expect("a packed operand has panels of its type"))
                }
            },
            target: if rows {
                Target::Rows {
                    data: job.c.offset(of_c).ptr,
                    stride: job.c.row_stride,
                    accumulate: job.accumulate,
                    finish: if epilogue.is_some() { Some(&finish) } else { None },
                }
            } else {
                Target::Blocks(&take)
            },
        }
    });
}

/// Stores a block of sums element by element.
fn store<T: Real + MatmulElem<Sum = T>>(
    job: &Job<'_, T>,
    c: Out<T>,
    turned: bool,
    rows: Range<usize>,
    cols: Range<usize>,
    sums: &mut [T],
    stride: usize,
) {
    for (i, sums) in rows.zip(sums.chunks_mut(stride)) {
        let sums = &mut sums[..cols.len()];
        if let Some(epilogue) = job.epilogue.filter(|_| !turned) {
            epilogue.apply(i, cols.start, sums);
        }
        for (j, sum) in cols.clone().zip(sums) {
            if let Some(epilogue) = job.epilogue.filter(|_| turned) {
                epilogue.apply(j, i, std::slice::from_mut(sum));
            }
            // SAFETY: (i, j) lies in the job's result.
            let place = unsafe { &mut *c.at(i, j) };
            *place = if job.accumulate { *place + *sum } else { *sum };
        }
    }
}
