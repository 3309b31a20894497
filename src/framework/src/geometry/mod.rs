//! Geometry: how the elements of operands and results correspond. Each kind is a small value computed
//! once and used by the shape function, the kernels and the gradient alike.

mod broadcast;
mod reduction;
mod slice;
mod strided;
mod window;

pub use broadcast::{Broadcast, Run};
pub use reduction::Reduction;
pub use slice::{DenseSlice, SliceMasks, SliceSpec, check_slice_operands};
pub use strided::{StridedDim, StridedView};
pub use window::{AxisPadding, ImageFormat, ImageWindow, WindowAxis, WindowPlaces};
