//! Starting points of k-means, and the nearest of many centres.

use std::collections::HashSet;

use tfcore_base::{Result, require};
use tfcore_framework::{OpContext, Registry, shape_fns};
use tfcore_math::philox::Philox;
use tfcore_math::pool::par_chunks_mut;
use tfcore_tensor::{Shape, Tensor};

use crate::candidates::Words;

pub(crate) fn register(r: &mut Registry) {
    // `KmeansPlusPlusInitialization(points: float, num_to_sample: int64, seed: int64, num_retries_per_sample: int64) ->
    // samples: float`: points, each drawn with a probability proportional to its squared distance from those drawn before.
    r.op("KmeansPlusPlusInitialization").shape(shape_fns::unknown).compute(plus_plus);
    // `KMC2ChainInitialization(distances: float, seed: int64) -> index: int64`: the end of a Markov chain over the points.
    r.op("KMC2ChainInitialization").shape(shape_fns::scalar).compute(chain);
    // `NearestNeighbors(points: float, centers: float, k: int64) -> (nearest_center_indices: int64,
    // nearest_center_distances: float)`: squared distances, smallest first.
    r.op("NearestNeighbors").shape(shape_fns::unknown).compute(nearest);
}

fn scalar(ctx: &OpContext<'_>, index: usize, name: &str) -> Result<i64> {
    let tensor = ctx.input(index)?;
    require!(tensor.rank() == 0, "Input {name} should be a scalar.");
    tensor.scalar_value()
}

fn matrix<'c>(ctx: &'c OpContext<'_>, index: usize, name: &str) -> Result<&'c Tensor> {
    let tensor = ctx.input(index)?;
    require!(tensor.rank() == 2, "Input {name} should be a matrix.");
    Ok(tensor)
}

/// Half the squared length of each row.
fn half_norms(rows: &[f32], len: usize) -> Vec<f32> {
    rows.chunks_exact(len).map(|row| 0.5 * row.iter().map(|x| x * x).sum::<f32>()).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn plus_plus(ctx: &mut OpContext<'_>) -> Result<()> {
    let points = matrix(ctx, 0, "points")?;
    let wanted = scalar(ctx, 1, "num_to_sample")?;
    let seed = scalar(ctx, 2, "seed")?;
    let retries = match scalar(ctx, 3, "num_retries_per_sample")? {
        retries @ 0.. => retries,
        _ => 2 + (wanted as f64).ln() as i64,
    };
    let (count, dims) = (points.dim(0), points.dim(1));
    require!(count > 0, "Expected points.rows() > 0.");
    require!(wanted > 0, "Expected num_to_sample > 0.");
    require!(
        wanted <= count as i64,
        "Expected num_to_sample <= points.rows(). {wanted} vs {count}."
    );
    let rows = points.as_slice::<f32>()?;
    let shape = Shape::new(&[wanted, dims as i64])?;
    if dims == 0 {
        return ctx.produce(0, shape, |_| ());
    }
    let norms = half_norms(rows, dims);
    let row = |index: usize| &rows[index * dims..(index + 1) * dims];
    let mut words = Words::new(Philox::new(seed as u64, 0));
    let mut nearest = vec![f32::INFINITY; count];
    let mut sampled = HashSet::new();
    let mut order = Vec::new();
    for _ in 0..wanted {
        let mut sums = nearest.clone();
        for index in 1..count {
            sums[index] += sums[index - 1];
        }
        let mut best: Option<(f32, usize, Vec<f32>)> = None;
        for _ in 0..=retries {
            let index = draw(&mut words, &sums, &sampled);
            let closer: Vec<f32> = (0..count)
                .map(|other| {
                    let distance = norms[other] - dot(row(other), row(index)) + norms[index];
                    nearest[other].min(distance)
                })
                .collect();
            let potential: f32 = closer.iter().sum();
            if best.as_ref().is_none_or(|(least, _, _)| potential < *least) {
                best = Some((potential, index, closer));
            }
        }
        if let Some((_, index, closer)) = best {
            sampled.insert(index);
            order.push(index);
            nearest = closer;
        }
    }
    ctx.produce(0, shape, |out| {
        for (out, index) in out.typed::<f32>().chunks_exact_mut(dims).zip(order) {
            out.copy_from_slice(row(index));
        }
    })
}

/// A point that has not been drawn yet, with a probability proportional to its part of the sums.
fn draw(words: &mut Words, sums: &[f32], sampled: &HashSet<usize>) -> usize {
    let count = sums.len();
    if sampled.is_empty() {
        return words.below_u64(count as u64) as usize;
    }
    let total = sums[count - 1];
    // Points that are left may have no weight, or too little to be hit.
    for _ in 0..1 << 16 {
        let index = match total > 0.0 {
            true => {
                let at = words.next_f32() * total;
                sums.partition_point(|&sum| sum <= at).min(count - 1)
            }
            false => words.below_u64(count as u64) as usize,
        };
        if !sampled.contains(&index) {
            return index;
        }
    }
    (0..count).find(|index| !sampled.contains(index)).unwrap_or(0)
}

fn chain(ctx: &mut OpContext<'_>) -> Result<()> {
    let distances = ctx.input(0)?;
    require!(distances.rank() == 1, "Input distances should be a vector.");
    let seed = scalar(ctx, 1, "seed")?;
    let distances = distances.as_slice::<f32>()?;
    require!(!distances.is_empty(), "Expected distances_tensor.size() > 0.");
    let mut words = Words::new(Philox::new(seed as u64, 0));
    let mut selected = 0;
    for (index, &distance) in distances.iter().enumerate().skip(1) {
        if distance > words.next_f32() * distances[selected] {
            selected = index;
        }
    }
    ctx.set_output(0, Tensor::scalar(selected as i64));
    Ok(())
}

fn nearest(ctx: &mut OpContext<'_>) -> Result<()> {
    let (points, centers) = (matrix(ctx, 0, "points")?, matrix(ctx, 1, "centers")?);
    let k = scalar(ctx, 2, "k")?;
    let (dims, of_centers) = (points.dim(1), centers.dim(1));
    require!(points.dim(0) > 0, "Expected points.rows() > 0.");
    require!(
        dims == of_centers,
        "Expected point_dimensions == center_dimensions: {dims} vs {of_centers}."
    );
    require!(k >= 0, "Expected k >= 0.");
    let k = (k as u64).min(centers.dim(0) as u64) as usize;
    let shape = Shape::new(&[points.dim(0) as i64, k as i64])?;
    let (rows, targets) = (points.as_slice::<f32>()?, centers.as_slice::<f32>()?);
    let center = |index: usize| &targets[index * dims..(index + 1) * dims];
    let norms: Vec<f32> =
        (0..centers.dim(0)).map(|index| 0.5 * dot(center(index), center(index))).collect();
    let mut found: Vec<(i64, f32)> = tfcore_base::try_filled((0, 0.0), shape.count())?;
    par_chunks_mut(ctx.parallel(), &mut found, k, 64, &|start, piece| {
        for (number, out) in (start / k.max(1)..).zip(piece.chunks_exact_mut(k.max(1))) {
            let point = &rows[number * dims..(number + 1) * dims];
            let norm = 0.5 * dot(point, point);
            let mut all: Vec<(f32, usize)> = norms
                .iter()
                .enumerate()
                .map(|(index, half)| (half - dot(point, center(index)), index))
                .collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for (out, (partial, index)) in out.iter_mut().zip(all) {
                *out = (index as i64, (2.0 * (partial + norm)).max(0.0));
            }
        }
    });
    ctx.produce(0, shape.clone(), |out| {
        for (out, (index, _)) in out.typed::<i64>().iter_mut().zip(&found) {
            *out = *index;
        }
    })?;
    ctx.produce(1, shape, |out| {
        for (out, (_, distance)) in out.typed::<f32>().iter_mut().zip(&found) {
            *out = *distance;
        }
    })
}

#[cfg(test)]
mod tests {
    use tfcore_framework::testing::{floats, registry_of, run_op};

    use super::*;

    #[test]
    fn the_nearest_come_first() {
        let registry = registry_of(register);
        let points = floats(&[2, 1], &[0.0, 10.0]);
        let centers = floats(&[3, 1], &[1.0, 8.0, -2.0]);
        let inputs = [points, centers, Tensor::scalar(2i64)];
        let out = run_op(&registry, "NearestNeighbors", &[], &inputs).unwrap();
        assert_eq!(out[0].as_slice::<i64>().unwrap(), [0, 2, 1, 0]);
        assert_eq!(out[1].as_slice::<f32>().unwrap(), [1.0, 4.0, 4.0, 81.0]);
    }

    #[test]
    fn starting_points_differ() {
        let registry = registry_of(register);
        // Two of the points are the same: the third draw has no weight left.
        let points = floats(&[3, 1], &[1.0, 5.0, 5.0]);
        let scalars = [3i64, 7, -1].map(Tensor::scalar);
        let inputs = [&[points][..], &scalars].concat();
        let out = run_op(&registry, "KmeansPlusPlusInitialization", &[], &inputs).unwrap();
        let mut found = out[0].as_slice::<f32>().unwrap().to_vec();
        found.sort_by(f32::total_cmp);
        assert_eq!(found, [1.0, 5.0, 5.0]);
    }
}
