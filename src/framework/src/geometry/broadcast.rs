//! `Broadcast`: how two operands of an element-wise op are stretched to one shape.

use smallvec::SmallVec;
use tfcore_base::{Result, invalid};
use tfcore_tensor::Shape;

/// Two shapes stretched to one: dimensions of size 1 repeat.
///
/// Neighbouring dimensions that behave alike are collapsed, so that the innermost one is as long as
/// it can be.
#[derive(Debug, Clone)]
pub struct Broadcast {
    output: Shape,
    /// From the outermost to the innermost; never empty.
    dims: SmallVec<[BroadcastDim; 4]>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct BroadcastDim {
    size: usize,
    /// How far each operand moves for one step, in elements; 0 where it repeats.
    strides: [usize; 2],
}

/// A stretch of consecutive output elements whose operands each either advance by one or stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    pub output: usize,
    pub operands: [usize; 2],
}

impl Broadcast {
    /// # Errors
    /// `InvalidArgument` "Incompatible shapes: [2] vs. [3]".
    pub fn new(a: &Shape, b: &Shape) -> Result<Broadcast> {
        if a == b {
            let whole = BroadcastDim { size: a.count(), strides: [1, 1] };
            return Ok(Broadcast { output: a.clone(), dims: SmallVec::from_slice(&[whole]) });
        }
        let rank = a.rank().max(b.rank());
        let at = |shape: &Shape, axis: usize| match (axis + shape.rank()).checked_sub(rank) {
            Some(index) => shape.dim(index),
            None => 1,
        };
        let mut output = SmallVec::<[i64; 6]>::new();
        let mut dims: SmallVec<[BroadcastDim; 4]> = SmallVec::new();
        for axis in 0..rank {
            let (x, y) = (at(a, axis), at(b, axis));
            if x != y && x != 1 && y != 1 {
                return Err(invalid!("Incompatible shapes: {a} vs. {b}"));
            }
            let size = if x == 1 { y } else { x };
            output.push(size as i64);
            if size == 1 {
                continue;
            }
            // For now the strides only mark which operand moves.
            let moves = [usize::from(x != 1), usize::from(y != 1)];
            match dims.last_mut() {
                Some(last) if last.strides == moves => last.size *= size,
                _ => dims.push(BroadcastDim { size, strides: moves }),
            }
        }
        if dims.is_empty() {
            dims.push(BroadcastDim { size: 1, strides: [1, 1] });
        }
        let mut steps = [1, 1];
        for dim in dims.iter_mut().rev() {
            for (stride, step) in dim.strides.iter_mut().zip(&mut steps) {
                if *stride == 1 {
                    *stride = *step;
                    *step *= dim.size;
                }
            }
        }
        Ok(Broadcast { output: Shape::new(&output)?, dims })
    }

    /// The common shape.
    pub fn output(&self) -> &Shape {
        &self.output
    }

    /// The length of every run.
    pub fn run_len(&self) -> usize {
        self.innermost().size
    }

    /// Whether each operand advances within a run.
    pub fn advances(&self) -> [bool; 2] {
        self.innermost().strides.map(|stride| stride != 0)
    }

    /// How many neighbouring runs make a block in which operand `repeating` is the same in each run and
    /// the other one goes on: 1 if there is no such pattern.
    pub fn repeats(&self, repeating: usize) -> usize {
        let [.., outer, inner] = self.dims.as_slice() else {
            return 1;
        };
        let other = 1 - repeating;
        let fits = outer.strides[repeating] == 0
            && inner.strides == [1, 1]
            && outer.strides[other] == inner.size;
        if fits { outer.size } else { 1 }
    }

    fn innermost(&self) -> BroadcastDim {
        *self.dims.last().expect("there is always a dimension")
    }

    /// Where both operands of each element of the output begin, if their elements are blocks of `sizes` elements.
    pub fn offsets(&self, sizes: [usize; 2]) -> [Vec<usize>; 2] {
        let count = self.output().count();
        let mut offsets = [Vec::with_capacity(count), Vec::with_capacity(count)];
        let len = self.run_len();
        for index in 0..count / len.max(1) {
            let run = self.run(index);
            for k in [0, 1] {
                let step = usize::from(self.advances()[k]);
                offsets[k].extend((0..len).map(|i| (run.operands[k] + i * step) * sizes[k]));
            }
        }
        offsets
    }

    /// Run number `index`, in order of the output.
    pub fn run(&self, index: usize) -> Run {
        let outer = &self.dims[..self.dims.len() - 1];
        let mut run = Run { output: index * self.run_len(), operands: [0, 0] };
        let mut rest = index;
        for dim in outer.iter().rev() {
            let step = rest % dim.size;
            rest /= dim.size;
            for (operand, stride) in run.operands.iter_mut().zip(dim.strides) {
                *operand += step * stride;
            }
        }
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operand indices of every output element, one dimension at a time.
    fn naive(a: &[i64], b: &[i64], output: &[i64]) -> Vec<[usize; 2]> {
        let index = |dims: &[i64], coords: &[i64]| {
            let skip = coords.len() - dims.len();
            dims.iter().zip(&coords[skip..]).fold(0, |at, (&size, &c)| {
                at * size as usize + if size == 1 { 0 } else { c as usize }
            })
        };
        let count: i64 = output.iter().product();
        (0..count)
            .map(|mut flat| {
                let mut coords = vec![0; output.len()];
                for axis in (0..output.len()).rev() {
                    coords[axis] = flat % output[axis];
                    flat /= output[axis];
                }
                [index(a, &coords), index(b, &coords)]
            })
            .collect()
    }

    #[test]
    fn runs_visit_the_operands_of_every_element() {
        let cases: [(&[i64], &[i64]); 8] = [
            (&[2, 3], &[2, 3]),
            (&[2, 3], &[3]),
            (&[2, 1, 4], &[3, 1]),
            (&[], &[2, 2]),
            (&[5, 1], &[1, 4]),
            (&[1, 1], &[1]),
            (&[2, 3, 4, 5], &[4, 1]),
            (&[2, 1, 3, 1], &[4, 1, 5]),
        ];
        for (a, b) in cases {
            let (left, right) = (Shape::new(a).unwrap(), Shape::new(b).unwrap());
            let broadcast = Broadcast::new(&left, &right).unwrap();
            let len = broadcast.run_len();
            let advances = broadcast.advances();
            let mut visited = Vec::new();
            for index in 0..broadcast.output().count() / len {
                let run = broadcast.run(index);
                for i in 0..len {
                    visited.push([0, 1].map(|k| run.operands[k] + i * usize::from(advances[k])));
                }
            }
            assert_eq!(visited, naive(a, b, broadcast.output().dims()), "{a:?} {b:?}");
        }
    }

    #[test]
    fn unlike_shapes_are_refused() {
        let shape = |dims: &[i64]| Shape::new(dims).unwrap();
        let error = Broadcast::new(&shape(&[2]), &shape(&[3])).unwrap_err();
        assert_eq!(error.message(), "Incompatible shapes: [2] vs. [3]");
        assert_eq!(Broadcast::new(&shape(&[0]), &shape(&[1])).unwrap().output().dims(), [0]);
        assert_eq!(Broadcast::new(&shape(&[4, 3]), &shape(&[3])).unwrap().repeats(1), 4);
    }
}
