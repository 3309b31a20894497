//! Gradients of the ops of the family image.

use super::harness::{Case, case};

/// Gradients that no kernel can check yet. The list only shrinks.
pub(crate) const UNTESTED: &[&str] = &[];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = resizes();
    cases.push(crops());
    for antialias in [true, false] {
        let image = case("ScaleAndTranslate").single(&[1, 3, 4, 2], &image()).ints(&[5, 3]);
        let moved = image.fixed(&[2], &[1.6f32, 0.7]).fixed(&[2], &[0.3f32, -0.4]);
        cases.push(moved.flag("antialias", antialias));
    }
    cases
}

/// Pixels without a pattern, [1, 3, 4, 2].
fn image() -> Vec<f32> {
    (0..24).map(|i| ((i as f32 + 1.0) * 0.618_034).fract() * 2.0 - 1.0).collect()
}

fn resizes() -> Vec<Case> {
    let mut cases = Vec::new();
    for op in ["ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor"] {
        for (corners, centers) in [(false, false), (true, false), (false, true)] {
            for size in [[5, 3], [2, 7]] {
                let resize = case(op).single(&[1, 3, 4, 2], &image()).ints(&size);
                let resize = resize.flag("align_corners", corners);
                cases.push(resize.flag("half_pixel_centers", centers));
            }
        }
    }
    cases
}

fn crops() -> Case {
    // Boxes that no sampled point of lies on a pixel, one of them partly outside of the image.
    let boxes = [0.13, 0.21, 0.83, 0.94, 0.37, -0.22, 1.19, 0.71];
    let crops = case("CropAndResize").single(&[1, 3, 4, 2], &image()).single(&[2, 4], &boxes);
    crops.ints(&[0, 0]).ints(&[3, 2])
}
