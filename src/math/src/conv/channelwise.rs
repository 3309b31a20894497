//! Passes whose result channels each see few source channels: depthwise convolutions, and groups of few channels.
//!
//! The source is spread first, if need be, so that each result channel has the source channels that it sees in its own lane: a
//! pixel of it has `planes` runs of as many elements as there are result channels, and each plane a filter of its own.

use super::pass::{Expand, Pass, with_rows};
use super::strip::{PIXELS, Strip};
use crate::gemm::Real;
use crate::gemm::block::even_parts;
use crate::pool::{Parallel, SharedMut};

/// Bytes of source rows that are worked on together: they stay in the second cache.
const BAND_BYTES: usize = 192 << 10;

/// Multiplications that are worth a thread of their own.
const WORK_PER_THREAD: usize = 1 << 15;

/// How result channels see source channels.
pub(super) struct Spread<'a, W> {
    /// Source channels that a result channel sees.
    pub(super) planes: usize,
    /// Result channels.
    pub(super) channels: usize,
    /// Spreads a row of the source. `None` if lanes are the source's channels as they are.
    pub(super) expand: Option<&'a (dyn Fn(&[W], &mut [W]) + Sync)>,
    /// Writes the factors of a plane at a cell, by its place in depth, rows and columns.
    pub(super) factors: &'a dyn Fn([usize; 3], usize, &mut [W]),
}

/// Writes the pass over `source` to the pixels of `out` that are the pass's.
pub(super) fn run<W: Real>(
    par: Parallel,
    pass: &Pass,
    source: &[W],
    spread: &Spread<'_, W>,
    out: &mut [W],
) {
    let (planes, channels) = (spread.planes, spread.channels);
    let pixel = planes * channels;
    let (row_taps, cols) = (pass.row_taps(), pass.w.taps.len());
    if row_taps * cols * planes == 0 {
        return pass.zero(channels, out);
    }
    let mut filter = vec![W::ZERO; row_taps * cols * pixel];
    let mut places = filter.chunks_exact_mut(channels.max(1));
    for row_tap in 0..row_taps {
        let [d, h] = pass.row_cell(row_tap);
        for plane in 0..planes {
            for tap in &pass.w.taps {
                let place = places.next().expect("the filter has a place for each tap");
                (spread.factors)([d, h, tap.cell], plane, place);
            }
        }
    }
    let offsets: Vec<isize> = pass.w.taps.iter().map(|tap| tap.offset * pixel as isize).collect();
    let work = pass.rows() * pass.w.count * filter.len();
    let bands = if par.threads() > 1 { (2 * par.threads()).min(work / WORK_PER_THREAD) } else { 1 };
    let band = pass.band::<W>(pixel, BAND_BYTES, bands);
    let expand = spread.expand.map(|expand| expand as &(dyn Fn(&[W], &mut [W]) + Sync));
    let functions = W::kernels().strips;
    let base = SharedMut(out.as_mut_ptr());
    par.for_each_chunk(pass.rows().div_ceil(band), 1, &|indices| {
        for index in indices {
            let rows = index * band..pass.rows().min((index + 1) * band);
            let expand = expand.map(|expand| expand as Expand<'_, W>);
            with_rows(pass, source, rows.clone(), pixel, expand, |starts| {
                let mut places: Vec<*const W> = Vec::with_capacity(row_taps * planes);
                for (row, starts) in rows.clone().zip(starts.chunks_exact(row_taps.max(1))) {
                    places.clear();
                    for start in starts {
                        places.extend((0..planes).map(|p| start.wrapping_add(p * channels)));
                    }
                    let first = pass.out_pixel(row);
                    let step = pass.w.stride * pixel;
                    for (col, count) in even_parts(pass.w.count, PIXELS) {
                        let place = (first + col * pass.w.step) * channels;
                        let strip = Strip {
                            rows: places.as_ptr(),
                            row_count: places.len(),
                            offsets: offsets.as_ptr(),
                            taps: cols,
                            source_step: step,
                            out_step: pass.w.step * channels,
                            filter: filter.as_ptr(),
                            channels,
                            out: base.get().wrapping_add(place),
                        };
                        // SAFETY: the starts are valid for what the taps read; the pixels are this task's.
                        unsafe { functions[count - 1](&strip) };
                        places.iter_mut().for_each(|p| *p = p.wrapping_add(count * step));
                    }
                }
            });
        }
    });
}
