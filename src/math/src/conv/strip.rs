//! The micro-kernel of convolutions without sums over channels: each lane is a channel with filters of its own.
//!
//! A strip is a few output pixels of one row. For each vector of channels, a tap of the filter is loaded once and multiplied with
//! the pixels of the source under it; the sums stay in registers.

use crate::gemm::kernel::Machine;

/// Pixels of the longest strip.
pub(crate) const PIXELS: usize = 8;

/// A strip of outputs.
pub(crate) struct Strip<U, S> {
    /// The source rows: where channel 0 of the first pixel lies before the taps' offsets are added.
    pub(crate) rows: *const *const U,
    pub(crate) row_count: usize,
    /// What a tap adds to the place in a row, in elements.
    pub(crate) offsets: *const isize,
    pub(crate) taps: usize,
    /// From one output pixel to the next, in the source and in the result.
    pub(crate) source_step: usize,
    pub(crate) out_step: usize,
    /// For each row and each of its taps, the factors of all channels.
    pub(crate) filter: *const U,
    pub(crate) channels: usize,
    pub(crate) out: *mut S,
}

pub(crate) type StripFn<U, S> = unsafe fn(&Strip<U, S>);

/// Computes a strip of `COUNT` pixels.
///
/// # Safety
/// Those of [`Machine`]; the places that the strip names are valid.
#[inline(always)]
pub(crate) unsafe fn strip<M: Machine, const COUNT: usize>(s: &Strip<M::Unit, M::Sum>) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut channel = 0;
        while channel + M::LANES <= s.channels {
            lanes::<M, COUNT, true>(s, channel, M::LANES);
            channel += M::LANES;
        }
        if channel < s.channels {
            lanes::<M, COUNT, false>(s, channel, s.channels - channel);
        }
    }
}

/// Computes `count` channels from `channel` on: a vector of them if `WHOLE`, else fewer.
///
/// # Safety
/// As for [`strip`].
#[inline(always)]
unsafe fn lanes<M: Machine, const COUNT: usize, const WHOLE: bool>(
    s: &Strip<M::Unit, M::Sum>,
    channel: usize,
    count: usize,
) {
    // SAFETY: the caller's promise, for every access below.
    unsafe {
        let mut sums = [M::zero(); COUNT];
        let mut factors = s.filter.wrapping_add(channel);
        for row in 0..s.row_count {
            let row = (*s.rows.add(row)).wrapping_add(channel);
            for tap in 0..s.taps {
                let x = row.wrapping_offset(*s.offsets.add(tap));
                let w = load::<M, WHOLE>(factors, count);
                for i in 0..COUNT {
                    let x = load::<M, WHOLE>(x.wrapping_add(i * s.source_step), count);
                    sums[i] = M::multiply_add(sums[i], x, w);
                }
                factors = factors.wrapping_add(s.channels);
            }
        }
        for i in 0..COUNT {
            let place = s.out.wrapping_add(i * s.out_step + channel);
            if WHOLE {
                M::store(place, sums[i]);
            } else {
                M::store_first(place, count, sums[i]);
            }
        }
    }
}

/// # Safety
/// Those of [`Machine`]; `p` is valid for a vector if `WHOLE`, else for `count` units.
#[inline(always)]
unsafe fn load<M: Machine, const WHOLE: bool>(p: *const M::Unit, count: usize) -> M::Factors {
    // SAFETY: the caller's promise.
    unsafe { if WHOLE { M::factors(p) } else { M::first_factors(p, count) } }
}
