//! Gradients of calls, conditionals and loops made of functions, against difference quotients.

use std::sync::Arc;

use tfcore::registry;
use tfcore_base::{Code, DType, Result};
use tfcore_framework::{AttrList, AttrValue, Attrs, Func};
use tfcore_graph::{FunctionRequest, Graph, NodeBuilder, OutputRef};
use tfcore_runtime::{Request, Session, SessionConfig};
use tfcore_tensor::{PartialShape, Shape, Tensor};

/// A graph under construction.
struct Builder {
    graph: Graph,
}

impl Builder {
    fn new() -> Builder {
        Builder { graph: Graph::new(registry().clone()) }
    }

    fn build(&mut self, op: &str, set: impl FnOnce(&mut NodeBuilder)) -> OutputRef {
        let mut builder = NodeBuilder::new(op, format!("{op}_{}", self.graph.num_ids()));
        set(&mut builder);
        OutputRef::new(builder.finish(&mut self.graph).unwrap(), 0)
    }

    fn node(&mut self, op: &str, inputs: &[OutputRef]) -> OutputRef {
        self.build(op, |builder| inputs.iter().for_each(|&input| builder.add_input(input)))
    }

    fn constant(&mut self, value: Tensor) -> OutputRef {
        self.build("Const", |builder| {
            builder.set_attr("dtype", AttrValue::Type(value.dtype()));
            builder.set_attr("value", AttrValue::tensor(value));
        })
    }

    fn number(&mut self, value: f64) -> OutputRef {
        self.constant(Tensor::scalar(value))
    }

    fn input(&mut self, dtype: DType) -> OutputRef {
        self.build("Placeholder", |builder| builder.set_attr("dtype", AttrValue::Type(dtype)))
    }

    /// Adds the function `name` of arguments of these types.
    fn function(
        &mut self,
        name: &str,
        dtypes: &[DType],
        build: impl FnOnce(&mut Builder, &[OutputRef]) -> Vec<OutputRef>,
    ) {
        let mut inner = Builder::new();
        for function in self.graph.library().clone().functions() {
            inner.graph.add_function(function, None).unwrap();
        }
        let inputs: Vec<OutputRef> = dtypes.iter().map(|&dtype| inner.input(dtype)).collect();
        let outputs = build(&mut inner, &inputs);
        let request =
            FunctionRequest { name: name.into(), inputs, outputs, ..FunctionRequest::default() };
        let function = Arc::new(inner.graph.to_function(&request).unwrap());
        self.graph.add_function(&function, None).unwrap();
    }

    fn call(&mut self, function: &str, inputs: &[OutputRef], dtypes: &[DType]) -> OutputRef {
        self.build("PartitionedCall", |builder| {
            builder.add_input_list(inputs.to_vec());
            builder.set_attr("f", func(function));
            builder.set_attr("Tout", AttrValue::types(dtypes.iter().copied()));
        })
    }

    /// `If`, of one result.
    fn conditional(
        &mut self,
        condition: OutputRef,
        inputs: &[OutputRef],
        then_branch: &str,
        else_branch: &str,
    ) -> OutputRef {
        self.build("StatelessIf", |builder| {
            builder.add_input(condition);
            builder.add_input_list(inputs.to_vec());
            builder.set_attr("then_branch", func(then_branch));
            builder.set_attr("else_branch", func(else_branch));
            builder.set_attr("Tout", AttrValue::types([DType::DOUBLE]));
        })
    }

    fn repeat(&mut self, op: &str, inputs: &[OutputRef], cond: &str, body: &str) -> OutputRef {
        self.build(op, |builder| {
            builder.add_input_list(inputs.to_vec());
            builder.set_attr("cond", func(cond));
            builder.set_attr("body", func(body));
        })
    }
}

fn func(name: &str) -> AttrValue {
    AttrValue::func(name, Attrs::new())
}

const D: DType = DType::DOUBLE;

fn at(output: OutputRef, index: usize) -> OutputRef {
    OutputRef::new(output.node, index)
}

fn run(session: &Session, feeds: &[(OutputRef, f64)], fetch: OutputRef) -> Result<f64> {
    let feeds = feeds.iter().map(|&(x, value)| (x, Tensor::scalar(value)));
    let mut outcome = session.run(Request::new(feeds, &[fetch]))?;
    outcome.take_tensors().next().expect("one fetch").scalar_value()
}

/// Compares the derivatives of what `build` makes of two numbers with difference quotients.
fn check(
    what: &str,
    point: [f64; 2],
    build: impl FnOnce(&mut Builder, [OutputRef; 2]) -> OutputRef,
) {
    check_orders(what, point, 1, build);
}

/// The same for the derivatives up to this order, of which each is the one by the first number of the one before.
fn check_orders(
    what: &str,
    point: [f64; 2],
    orders: usize,
    build: impl FnOnce(&mut Builder, [OutputRef; 2]) -> OutputRef,
) {
    let mut b = Builder::new();
    let xs = [b.input(D), b.input(D)];
    let mut y = build(&mut b, xs);
    for order in 1..=orders {
        let one = b.number(1.0);
        let grads = b.graph.add_gradients(&[y], &xs, Some(&[one]), None);
        let grads = grads.unwrap_or_else(|error| panic!("{what}, order {order}: {error}"));
        let session = Session::new(registry().clone(), &SessionConfig::default()).unwrap();
        session.extend(&b.graph).unwrap();
        let value = |point: [f64; 2], fetch: OutputRef| {
            let feeds = [(xs[0], point[0]), (xs[1], point[1])];
            run(&session, &feeds, fetch).unwrap_or_else(|error| panic!("{what}: {error}"))
        };
        for index in 0..2 {
            let mut ends = [point, point];
            ends[0][index] += 1e-5;
            ends[1][index] -= 1e-5;
            let quotient = (value(ends[0], y) - value(ends[1], y)) / 2e-5;
            let gradient = grads[index].map_or(0.0, |grad| value(point, grad));
            let error = (gradient - quotient).abs() / quotient.abs().max(1.0);
            assert!(
                error < 1e-6,
                "{what}, order {order}, by input {index}: {gradient}, not {quotient}"
            );
        }
        y = grads[0].unwrap();
    }
}

/// `product(x, w) = sin(x) * w, 3`.
fn add_product(b: &mut Builder) {
    b.function("product", &[D, D], |b, v| {
        let sin = b.node("Sin", &[v[0]]);
        let three = b.constant(Tensor::scalar(3i32));
        vec![b.node("Mul", &[sin, v[1]]), three]
    });
}

#[test]
fn calls() {
    check("PartitionedCall", [0.7, 1.3], |b, xs| {
        add_product(b);
        let y = b.call("product", &xs, &[D, DType::INT32]);
        b.node("Mul", &[y, xs[0]])
    });
    check("by name", [0.7, 1.3], |b, xs| {
        add_product(b);
        b.node("product", &xs)
    });
    check("calls in calls", [0.7, 1.3], |b, xs| {
        add_product(b);
        b.function("outer", &[D, D], |b, v| {
            let y = b.call("product", v, &[D, DType::INT32]);
            vec![b.node("product", &[y, v[1]])]
        });
        b.call("outer", &xs, &[D])
    });
}

/// `square(x, w) = x^2` and `scaled(x, w) = exp(x) * w`.
fn add_branches(b: &mut Builder) {
    b.function("square", &[D, D], |b, v| vec![b.node("Square", &[v[0]])]);
    b.function("scaled", &[D, D], |b, v| {
        let exp = b.node("Exp", &[v[0]]);
        vec![b.node("Mul", &[exp, v[1]])]
    });
}

/// `x > 1 ? square(x, w) : scaled(x, w)`.
fn choose(b: &mut Builder, v: &[OutputRef]) -> OutputRef {
    let one = b.number(1.0);
    let is_large = b.node("Greater", &[v[0], one]);
    b.conditional(is_large, &v[..2], "square", "scaled")
}

#[test]
fn conditionals() {
    for point in [[0.6, 0.8], [1.7, 0.8]] {
        check("If", point, |b, xs| {
            add_branches(b);
            let y = choose(b, &xs);
            b.node("Mul", &[y, xs[1]])
        });
        check("If in a call", point, |b, xs| {
            add_branches(b);
            b.function("outer", &[D, D], |b, v| {
                let y = choose(b, v);
                vec![b.node("Mul", &[y, v[1]])]
            });
            b.call("outer", &xs, &[D])
        });
        check("If in If", point, |b, xs| {
            add_branches(b);
            b.function("outer", &[D, D], |b, v| vec![choose(b, v)]);
            let zero = b.number(0.0);
            let is_positive =
                b.node("Greater", &xs[..1].iter().copied().chain([zero]).collect::<Vec<_>>());
            let y = b.conditional(is_positive, &xs, "outer", "scaled");
            b.node("Mul", &[y, xs[1]])
        });
    }
    for index in [0, 1, 7] {
        check("Case", [0.4, 1.2], |b, xs| {
            add_branches(b);
            add_product(b);
            b.function("both", &[D, D], |b, v| vec![b.node("product", v)]);
            let index = b.constant(Tensor::scalar(index));
            let branches = ["square", "scaled", "both"]
                .map(|name| Func { name: name.into(), attrs: Attrs::new() });
            let y = b.build("Case", |builder| {
                builder.add_input(index);
                builder.add_input_list(xs.to_vec());
                builder.set_attr("branches", AttrValue::list(AttrList::Func(branches.to_vec())));
                builder.set_attr("Tout", AttrValue::types([D]));
            });
            b.node("Mul", &[y, xs[1]])
        });
    }
}

/// `below(i, x, w) = i < times`.
fn add_condition(b: &mut Builder, times: i32) {
    b.function("below", &[DType::INT32, D, D], |b, v| {
        let times = b.constant(Tensor::scalar(times));
        vec![b.node("Less", &[v[0], times])]
    });
}

/// Adds the body `name` of loops with a counter.
fn add_body(
    b: &mut Builder,
    name: &str,
    build: impl FnOnce(&mut Builder, &[OutputRef]) -> Vec<OutputRef>,
) {
    b.function(name, &[DType::INT32, D, D], |b, v| {
        let one = b.constant(Tensor::scalar(1i32));
        let mut next = vec![b.node("AddV2", &[v[0], one])];
        next.extend(build(b, &v[1..]));
        next
    });
}

/// The value of the first number after the loop.
fn repeat(b: &mut Builder, op: &str, xs: &[OutputRef], body: &str) -> OutputRef {
    let zero = b.constant(Tensor::scalar(0i32));
    at(b.repeat(op, &[zero, xs[0], xs[1]], "below", body), 1)
}

#[test]
fn loops() {
    for op in ["While", "StatelessWhile"] {
        check("x * w^4", [0.7, 1.3], |b, xs| {
            add_condition(b, 4);
            add_body(b, "body", |b, v| vec![b.node("Mul", v), v[1]]);
            repeat(b, op, &xs, "body")
        });
    }
    check("no iterations", [0.7, 1.3], |b, xs| {
        add_condition(b, 0);
        add_body(b, "body", |b, v| vec![b.node("Mul", v), v[1]]);
        let y = repeat(b, "While", &xs, "body");
        let y = b.node("Mul", &[y, at(y, 2)]);
        b.node("Square", &[y])
    });
    check("sin and tanh in turn", [0.4, -0.9], |b, xs| {
        add_condition(b, 5);
        add_body(b, "body", |b, v| {
            let sum = b.node("AddV2", v);
            vec![b.node("Sin", &[sum]), b.node("Tanh", &[v[0]])]
        });
        let y = repeat(b, "While", &xs, "body");
        b.node("Mul", &[y, at(y, 2)])
    });
    check("a value that is set anew", [0.4, -0.9], |b, xs| {
        add_condition(b, 3);
        add_body(b, "body", |b, v| vec![b.node("Square", &[v[1]]), v[1]]);
        let y = repeat(b, "While", &xs, "body");
        let y = b.node("Mul", &[y, xs[0]]);
        b.node("Square", &[y])
    });
}

#[test]
fn loops_and_conditionals_in_each_other() {
    check("a loop in a loop", [0.8, 1.1], |b, xs| {
        add_condition(b, 3);
        add_body(b, "inner", |b, v| {
            let product = b.node("Mul", v);
            vec![b.node("Sin", &[product]), v[1]]
        });
        add_body(b, "outer", |b, v| vec![repeat(b, "StatelessWhile", v, "inner"), v[1]]);
        repeat(b, "While", &xs, "outer")
    });
    check("a conditional in a loop in a call", [0.9, 1.4], |b, xs| {
        add_branches(b);
        add_condition(b, 3);
        add_body(b, "body", |b, v| {
            let chosen = choose(b, v);
            let root = b.node("Sqrt", &[chosen]);
            vec![b.node("Mul", &[root, v[1]]), v[1]]
        });
        b.function("whole", &[D, D], |b, v| vec![repeat(b, "StatelessWhile", v, "body")]);
        b.call("whole", &xs, &[D])
    });
}

/// A variable in functions: `x * v^2` by `v`, of which each iteration or branch reads the value.
#[test]
fn variables() {
    let x = 1.5;
    for (what, expected) in
        [("call", 2.0 * 3.0 * x), ("If", 2.0 * 3.0 * x), ("While", 6.0 * 3.0f64.powi(5) * x)]
    {
        let mut b = Builder::new();
        let handle = b.build("VarHandleOp", |builder| {
            builder.set_attr("dtype", AttrValue::Type(D));
            builder.set_attr("shape", AttrValue::shape(PartialShape::unknown()));
        });
        let three = b.number(3.0);
        let assign = b.node("AssignVariableOp", &[handle, three]);
        let input = b.input(D);
        let read = |b: &mut Builder, v: OutputRef| {
            b.build("ReadVariableOp", |builder| {
                builder.add_input(v);
                builder.set_attr("dtype", AttrValue::Type(D));
            })
        };
        let times_square = |b: &mut Builder, v: &[OutputRef]| {
            let value = read(b, v[1]);
            let square = b.node("Square", &[value]);
            b.node("Mul", &[v[0], square])
        };
        let dtypes = [D, DType::RESOURCE];
        b.function("scaled", &dtypes, |b, v| vec![times_square(b, v)]);
        b.function("same", &dtypes, |_, v| vec![v[0]]);
        let y = match what {
            "call" => b.call("scaled", &[input, handle], &[D]),
            "If" => {
                let yes = b.constant(Tensor::scalar(true));
                b.conditional(yes, &[input, handle], "scaled", "same")
            }
            _ => {
                let dtypes = [DType::INT32, D, DType::RESOURCE];
                b.function("below", &dtypes, |b, v| {
                    let times = b.constant(Tensor::scalar(3i32));
                    vec![b.node("Less", &[v[0], times])]
                });
                b.function("body", &dtypes, |b, v| {
                    let one = b.constant(Tensor::scalar(1i32));
                    vec![b.node("AddV2", &[v[0], one]), times_square(b, &v[1..]), v[2]]
                });
                let zero = b.constant(Tensor::scalar(0i32));
                at(b.repeat("While", &[zero, input, handle], "below", "body"), 1)
            }
        };
        let grad = b.graph.add_gradients(&[y], &[handle], None, None).unwrap()[0].unwrap();
        let session = Session::new(registry().clone(), &SessionConfig::default()).unwrap();
        session.extend(&b.graph).unwrap();
        session.run(Request { targets: vec![assign.node], ..Default::default() }).unwrap();
        let found = run(&session, &[(input, x)], grad).unwrap();
        assert!((found - expected).abs() < 1e-9, "{what}: {found}, not {expected}");
    }
}

/// Differentiating `name`, a conditional with both branches that function or a call of it, fails.
fn fails(b: &mut Builder, name: &str, code: Code, part: &str) {
    let xs = [b.input(D), b.input(D)];
    let yes = b.constant(Tensor::scalar(true));
    let y = b.conditional(yes, &xs, name, name);
    let (nodes, functions) = (b.graph.nodes().len(), b.graph.library().len());
    let error = b.graph.add_gradients(&[y], &xs, None, None).unwrap_err();
    assert_eq!(error.code(), code, "{name}: {error}");
    assert!(error.message().contains(part), "{name}: {error}");
    assert_eq!((b.graph.nodes().len(), b.graph.library().len()), (nodes, functions), "{name}");
}

#[test]
fn what_cannot_be_differentiated_leaves_the_graph_as_it_was() {
    let mut b = Builder::new();
    fails(&mut b, "nowhere", Code::NotFound, "nowhere");
    b.function("ceil", &[D, D], |b, v| vec![b.node("Ceil", &[v[0]])]);
    fails(&mut b, "ceil", Code::NotFound, "No gradient defined for op: Ceil");
    b.function("noise", &[D, D], |b, v| {
        let shape = b.constant(Tensor::from_slice(Shape::vector(0), &[] as &[i32]).unwrap());
        let noise = b.build("RandomUniform", |builder| {
            builder.add_input(shape);
            builder.set_attr("dtype", AttrValue::Type(D));
        });
        vec![b.node("Mul", &[v[0], noise])]
    });
    fails(&mut b, "noise", Code::Unimplemented, "depends on RandomUniform");
    b.function("itself", &[D, D], |b, v| {
        let yes = b.constant(Tensor::scalar(true));
        vec![b.conditional(yes, v, "itself", "itself")]
    });
    fails(&mut b, "itself", Code::InvalidArgument, "Function itself calls itself");
    // Each has two branches, so that going through all of them would take for ever.
    b.function("level0", &[D, D], |b, v| vec![b.node("Sin", &[v[0]])]);
    for level in 1..40 {
        b.function(&format!("level{level}"), &[D, D], |b, v| {
            let (yes, below) = (b.constant(Tensor::scalar(true)), format!("level{}", level - 1));
            vec![b.conditional(yes, v, &below, &below)]
        });
    }
    fails(&mut b, "level39", Code::InvalidArgument, "more than 32 deep");
    let point = [0.4, 0.7];
    check("20 conditionals in each other", point, |inner, xs| {
        for function in b.graph.library().functions() {
            inner.graph.add_function(function, None).unwrap();
        }
        let yes = inner.constant(Tensor::scalar(true));
        let y = inner.conditional(yes, &xs, "level20", "level20");
        inner.node("Mul", &[y, xs[1]])
    });
}

/// `power(n, x) = n < 1 ? 1 : x * power(n - 1, x)`.
#[test]
fn functions_that_call_themselves() {
    let mut b = Builder::new();
    let dtypes = [DType::INT32, D];
    let call = |b: &mut Builder, v: &[OutputRef]| b.call("power", v, &[D]);
    b.function("one", &dtypes, |b, _| vec![b.number(1.0)]);
    b.function("more", &dtypes, |b, v| {
        let one = b.constant(Tensor::scalar(1i32));
        let less = b.node("Sub", &[v[0], one]);
        let rest = call(b, &[less, v[1]]);
        vec![b.node("Mul", &[v[1], rest])]
    });
    b.function("power", &dtypes, |b, v| {
        let one = b.constant(Tensor::scalar(1i32));
        let ends = b.node("Less", &[v[0], one]);
        vec![b.conditional(ends, v, "one", "more")]
    });
    let (n, x) = (b.constant(Tensor::scalar(4i32)), b.input(D));
    let y = call(&mut b, &[n, x]);
    let grad = b.graph.add_gradients(&[y], &[x], None, None).unwrap()[0].unwrap();
    let session = Session::new(registry().clone(), &SessionConfig::default()).unwrap();
    session.extend(&b.graph).unwrap();
    let found = run(&session, &[(x, 1.5)], grad).unwrap();
    assert!((found - 4.0 * 1.5f64.powi(3)).abs() < 1e-12, "{found}");
}

/// `x^2 w`, through a list that `w` is put into and taken out of again.
#[test]
fn lists() {
    check("lists", [0.4, -0.9], |b, xs| {
        let element = ("element_dtype", AttrValue::Type(D));
        let scalar = b.constant(Tensor::from_slice(Shape::vector(0), &[] as &[i32]).unwrap());
        let (zero, one) = (b.constant(Tensor::scalar(0i32)), b.constant(Tensor::scalar(1i32)));
        let mut op = |name: &str, inputs: &[OutputRef]| {
            b.build(name, |builder| {
                inputs.iter().for_each(|&input| builder.add_input(input));
                builder.set_attr(element.0, element.1.clone());
            })
        };
        let list = op("TensorListReserve", &[scalar, one]);
        let list = op("TensorListSetItem", &[list, zero, xs[0]]);
        let list = op("TensorListPushBack", &[list, xs[1]]);
        let list = op("TensorListSetItem", &[list, one, xs[0]]);
        let item = op("TensorListGetItem", &[list, one, scalar]);
        let stacked = op("TensorListStack", &[list, scalar]);
        let list = op("TensorListFromTensor", &[stacked, scalar]);
        let popped = op("TensorListPopBack", &[list, scalar]);
        let item = b.node("Mul", &[item, at(popped, 1)]);
        b.node("Mul", &[item, xs[1]])
    });
}

#[test]
fn higher_derivatives() {
    check_orders("a call", [0.4, -0.9], 3, |b, xs| {
        b.function("f", &[D, D], |b, v| vec![b.node("Sin", &[v[0]])]);
        b.call("f", &xs, &[D])
    });
    check_orders("a conditional", [0.4, -0.9], 3, |b, xs| {
        b.function("square", &[D, D], |b, v| vec![b.node("Square", &[v[0]])]);
        b.function("sin", &[D, D], |b, v| vec![b.node("Sin", &[v[0]])]);
        let no = b.constant(Tensor::scalar(false));
        b.conditional(no, &xs, "square", "sin")
    });
    check_orders("a loop", [0.4, -0.9], 2, |b, xs| {
        add_condition(b, 3);
        add_body(b, "body", |b, v| vec![b.node("Sin", &[v[0]]), v[1]]);
        repeat(b, "While", &xs, "body")
    });
}
