//! Gradients of the ops of the family nn.

use tfcore_framework::AttrValue;

use super::harness::{Case, case};

/// Gradients that no kernel can check yet. The list only shrinks.
pub(crate) const UNTESTED: &[&str] = &[];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = activations();
    cases.extend(losses());
    cases.extend(pools());
    cases.extend(convolutions());
    cases.extend(volumes());
    cases.extend(dilations());
    cases.extend(gradients_of_pools());
    cases.extend(normalisations());
    cases
}

fn activations() -> Vec<Case> {
    // Points on both sides of the corners at 0 and 6.
    let x = [-2.5, -0.4, 0.3, 5.5, 6.5, 1.2];
    let ops = [
        "Elu",
        "L2Loss",
        "LeakyRelu",
        "LogSoftmax",
        "Relu",
        "Relu6",
        "Selu",
        "Softmax",
        "Softplus",
        "Softsign",
    ];
    let mut cases: Vec<Case> = ops.into_iter().map(|op| case(op).x(&[2, 3], &x)).collect();
    cases.push(case("LeakyRelu").x(&[6], &x).attr("alpha", AttrValue::Float(0.5)));
    for op in ["Softmax", "LogSoftmax"] {
        cases.push(case(op).x(&[6], &x));
        cases.push(case(op).x(&[1, 2, 3], &x));
    }
    cases.push(case("LeakyReluGrad").x(&[6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).fixed(&[6], &x));
    cases.push(case("BiasAdd").x(&[2, 3], &x).x(&[3], &[0.1, 0.2, 0.3]));
    let channels_second = AttrValue::string("NCHW");
    let image = case("BiasAdd").x(&[1, 2, 1, 3], &x).x(&[2], &[0.1, 0.2]);
    cases.push(image.attr("data_format", channels_second));
    cases
}

fn losses() -> Vec<Case> {
    let logits = [-1.2, 0.4, 0.3, 2.5, -0.5, 1.2];
    let labels = [0.2, 0.5, 0.3, 0.6, 0.3, 0.1];
    let op = "SoftmaxCrossEntropyWithLogits";
    vec![
        case(op).x(&[2, 3], &logits).x(&[2, 3], &labels),
        case(op).x(&[2, 3], &logits).x(&[2, 3], &labels).outputs(1),
        case(op).x(&[2, 3], &logits).x(&[1, 3], &labels[..3]).outputs(1).known_shapes(),
    ]
}

/// Numbers without a pattern or a tie, between -1 and 1.
fn scattered(count: usize) -> Vec<f64> {
    (0..count).map(|i| ((i as f64 + 1.0) * 0.618_033_988_75).fract() * 2.0 - 1.0).collect()
}

fn scattered_singles(count: usize) -> Vec<f32> {
    scattered(count).into_iter().map(|value| value as f32).collect()
}

fn ints(values: &[i64]) -> AttrValue {
    AttrValue::ints(values.iter().copied())
}

fn pools() -> Vec<Case> {
    let mut cases = Vec::new();
    let image = scattered(2 * 4 * 5 * 2);
    for padding in ["SAME", "VALID"] {
        for op in ["AvgPool", "MaxPool"] {
            let windows = case(op).x(&[2, 4, 5, 2], &image).attr("ksize", ints(&[1, 2, 3, 1]));
            let moved = windows.attr("strides", ints(&[1, 1, 2, 1]));
            cases.push(moved.attr("padding", AttrValue::string(padding)));
        }
        let windows = case("MaxPoolV2").x(&[2, 4, 5, 2], &image).ints(&[1, 2, 3, 1]);
        cases.push(windows.ints(&[1, 1, 2, 1]).attr("padding", AttrValue::string(padding)));
        let volume = scattered_singles(2 * 3 * 4 * 3 * 2);
        for op in ["AvgPool3D", "MaxPool3D"] {
            let windows = case(op).single(&[2, 3, 4, 3, 2], &volume);
            let moved = windows
                .attr("ksize", ints(&[1, 2, 2, 3, 1]))
                .attr("strides", ints(&[1, 1, 2, 1, 1]));
            cases.push(moved.attr("padding", AttrValue::string(padding)));
        }
    }
    let explicit = case("MaxPool").x(&[2, 4, 5, 2], &image).attr("ksize", ints(&[1, 2, 3, 1]));
    let explicit = explicit.attr("strides", ints(&[1, 2, 2, 1]));
    let paddings = ints(&[0, 0, 1, 0, 2, 1, 0, 0]);
    cases.push(
        explicit.attr("padding", AttrValue::string("EXPLICIT")).attr("explicit_paddings", paddings),
    );
    for op in ["FractionalAvgPool", "FractionalMaxPool"] {
        for overlapping in [false, true] {
            let ratios = AttrValue::list(tfcore_framework::AttrList::Float(
                [1.0, 1.44, 1.73, 1.0].into_iter().collect(),
            ));
            cases.push(
                case(op)
                    .x(&[2, 4, 5, 2], &image)
                    .attr("pooling_ratio", ratios)
                    .flag("overlapping", overlapping)
                    .flag("deterministic", true)
                    .attr("seed", AttrValue::Int(7))
                    .attr("seed2", AttrValue::Int(8)),
            );
        }
    }
    cases
}

fn convolutions() -> Vec<Case> {
    let image = scattered(2 * 5 * 4 * 2);
    let windows = [
        ("SAME", [1, 2, 1, 1], [1, 1, 1, 1]),
        ("VALID", [1, 1, 2, 1], [1, 1, 1, 1]),
        ("EXPLICIT", [1, 2, 2, 1], [1, 1, 1, 1]),
    ];
    let moved = |case: Case, (padding, strides, dilations): (&str, [i64; 4], [i64; 4])| {
        let explicit: &[i64] = if padding == "EXPLICIT" { &[0, 0, 1, 0, 2, 1, 0, 0] } else { &[] };
        case.attr("padding", AttrValue::string(padding))
            .attr("explicit_paddings", ints(explicit))
            .attr("strides", ints(&strides))
            .attr("dilations", ints(&dilations))
    };
    let mut cases = Vec::new();
    for window in windows {
        let filter = scattered(3 * 2 * 2 * 3);
        let both = case("Conv2D").x(&[2, 5, 4, 2], &image).x(&[3, 2, 2, 3], &filter);
        cases.push(moved(both, window));
    }
    // The kernel has strides along both axes alike.
    for window in [("SAME", [1, 1, 1, 1], [1, 1, 1, 1]), ("VALID", [1, 2, 2, 1], [1, 1, 1, 1])] {
        let filter = scattered(3 * 2 * 2 * 3);
        let both = case("DepthwiseConv2dNative").x(&[2, 5, 4, 2], &image);
        cases.push(moved(both.x(&[3, 2, 2, 3], &filter), window));
    }
    // Sizes of the input, filter, gradient by the output.
    let outputs = [[2, 3, 4, 3], [2, 3, 2, 3], [2, 2, 3, 3]];
    for (window, output) in windows.into_iter().zip(outputs) {
        let count: i64 = output.iter().product();
        let sizes = case("Conv2DBackpropInput").ints(&[2, 5, 4, 2]);
        let both = sizes.x(&[3, 2, 2, 3], &scattered(36)).x(&output, &scattered(count as usize));
        cases.push(moved(both, window));
    }
    cases
}

fn normalisations() -> Vec<Case> {
    let mut cases = Vec::new();
    let positive: Vec<f32> = scattered_singles(24).iter().map(|x| x + 1.5).collect();
    let lrn = case("LRN").single(&[1, 2, 2, 6], &positive);
    let attrs = [("bias", 1.5), ("alpha", 0.7), ("beta", 0.6)];
    let lrn = attrs.into_iter().fold(lrn, |lrn, (name, x)| lrn.attr(name, AttrValue::Float(x)));
    cases.push(lrn.attr("depth_radius", AttrValue::Int(2)));
    for training in [true, false] {
        for (format, dims) in [
            ("NHWC", &[2, 3, 2, 2][..]),
            ("NCHW", &[3, 2, 2, 2][..]),
            ("NDHWC", &[2, 3, 2, 1, 2][..]),
            ("NCDHW", &[3, 2, 2, 1, 2][..]),
        ] {
            let x = case("FusedBatchNormV3").single(dims, &scattered_singles(24));
            let inputs = x.single(&[2], &[0.7, 1.3]).single(&[2], &[0.1, -0.2]);
            let statistics = inputs.fixed(&[2], &[0.1f32, -0.3]).fixed(&[2], &[0.8f32, 1.4]);
            let norm = statistics.attr("epsilon", AttrValue::Float(0.1)).outputs(1);
            let format = AttrValue::string(format);
            cases.push(norm.flag("is_training", training).attr("data_format", format));
        }
    }
    cases
}

fn volumes() -> Vec<Case> {
    let volume = scattered(2 * 3 * 4 * 3 * 2);
    let filter = scattered(2 * 2 * 2 * 2 * 3);
    let mut cases = Vec::new();
    for (padding, strides, output) in
        [("SAME", [1, 2, 1, 2, 1], [2, 2, 4, 2, 3]), ("VALID", [1, 1, 2, 1, 1], [2, 2, 2, 2, 3])]
    {
        let moved = |case: Case| {
            let padding = AttrValue::string(padding);
            case.attr("padding", padding).attr("strides", ints(&strides))
        };
        let gradient = scattered(output.iter().product::<i64>() as usize);
        let both = case("Conv3D").x(&[2, 3, 4, 3, 2], &volume);
        cases.push(moved(both.x(&[2, 2, 2, 2, 3], &filter)));
        let sizes = case("Conv3DBackpropInputV2").ints(&[2, 3, 4, 3, 2]);
        cases.push(moved(sizes.x(&[2, 2, 2, 2, 3], &filter).x(&output, &gradient)));
        let input = case("Conv3DBackpropFilterV2").x(&[2, 3, 4, 3, 2], &volume);
        cases.push(moved(input.ints(&[2, 2, 2, 2, 3]).x(&output, &gradient)));
    }
    cases
}

fn dilations() -> Vec<Case> {
    let (image, filter) = (scattered(2 * 4 * 5 * 2), scattered(2 * 2 * 2));
    let both = |padding: &str, rates: [i64; 4]| {
        let case = case("Dilation2D").x(&[2, 4, 5, 2], &image).x(&[2, 2, 2], &filter);
        case.attr("padding", AttrValue::string(padding))
            .attr("strides", ints(&[1, 2, 1, 1]))
            .attr("rates", ints(&rates))
    };
    vec![both("SAME", [1, 1, 1, 1]), both("VALID", [1, 2, 1, 1])]
}

fn gradients_of_pools() -> Vec<Case> {
    let windows = |case: Case, rank: usize| {
        let size: &[i64] = if rank == 4 { &[1, 2, 2, 1] } else { &[1, 2, 2, 2, 1] };
        case.attr("ksize", ints(size))
            .attr("strides", ints(size))
            .attr("padding", AttrValue::string("VALID"))
    };
    // Four rows of four: the largest elements of the windows are known.
    let image: Vec<f64> = (0..16).map(f64::from).collect();
    let (largest, coarse) = ([5.0, 7.0, 13.0, 15.0], scattered(4));
    let fine = scattered(16);
    let singles = |values: &[f64]| values.iter().map(|&x| x as f32).collect::<Vec<f32>>();
    let volume: Vec<f32> = (0..16).map(|i| i as f32).collect();
    let deep = [13.0f32, 15.0];
    vec![
        windows(case("MaxPoolWithArgmax").x(&[1, 4, 4, 1], &image).outputs(1), 4),
        windows(
            case("MaxPoolGrad")
                .fixed(&[1, 4, 4, 1], &image)
                .fixed(&[1, 2, 2, 1], &largest)
                .x(&[1, 2, 2, 1], &coarse),
            4,
        ),
        windows(
            case("MaxPoolGradGrad")
                .fixed(&[1, 4, 4, 1], &image)
                .fixed(&[1, 2, 2, 1], &largest)
                .x(&[1, 4, 4, 1], &fine),
            4,
        ),
        windows(
            case("MaxPool3DGrad")
                .fixed(&[1, 2, 2, 4, 1], &volume)
                .fixed(&[1, 1, 1, 2, 1], &deep)
                .single(&[1, 1, 1, 2, 1], &singles(&coarse[..2])),
            5,
        ),
        windows(
            case("MaxPool3DGradGrad")
                .fixed(&[1, 2, 2, 4, 1], &volume)
                .fixed(&[1, 1, 1, 2, 1], &deep)
                .single(&[1, 2, 2, 4, 1], &singles(&fine)),
            5,
        ),
    ]
}
