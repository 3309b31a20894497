//! Histograms of summaries: buckets that grow by a tenth.

use crate::wire::Message;

/// The upper limits of the buckets, in order.
fn limits() -> Vec<f64> {
    let mut positive = vec![];
    let mut limit = 1.0e-12;
    while limit < 1.0e20 {
        positive.push(limit);
        limit *= 1.1;
    }
    positive.push(f64::MAX);
    let negative = positive.iter().rev().map(|limit| -limit);
    negative.chain([0.0]).chain(positive.iter().copied()).collect()
}

/// A `HistogramProto` of finite values.
pub(crate) fn encode(values: impl Iterator<Item = f64>) -> Vec<u8> {
    let limits = limits();
    let mut buckets = vec![0.0; limits.len()];
    let (mut min, mut max) = (f64::MAX, -f64::MAX);
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        let bucket = limits.partition_point(|&limit| limit <= value);
        buckets[bucket.min(limits.len() - 1)] += 1.0;
        min = f64::min(min, value);
        max = f64::max(max, value);
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    let mut message = Message::default();
    for (field, value) in (1..).zip([min, max, count, sum, squares]) {
        message.double(field, value);
    }
    // A run of empty buckets is one.
    let (mut ends, mut counts) = (vec![], vec![]);
    let mut at = 0;
    while at < buckets.len() {
        if buckets[at] <= 0.0 {
            while at + 1 < buckets.len() && buckets[at + 1] <= 0.0 {
                at += 1;
            }
        }
        ends.push(limits[at]);
        counts.push(buckets[at]);
        at += 1;
    }
    message.doubles(6, &ends);
    message.doubles(7, &counts);
    message.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fields;

    #[test]
    fn empty_buckets_are_joined() {
        let message = encode([1.0, 1.0, -2.0].into_iter());
        let fields = fields(&message).unwrap();
        let doubles = |field: u32| -> Vec<f64> {
            let bytes = fields.iter().find(|(number, _)| *number == field).unwrap().1;
            bytes.chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect()
        };
        assert_eq!(doubles(7), [0.0, 1.0, 0.0, 2.0, 0.0]);
        assert_eq!([doubles(1), doubles(2), doubles(5)].concat(), [-2.0, 1.0, 6.0]);
    }
}
