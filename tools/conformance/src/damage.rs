//! Ways to damage a case: its graph by field, where the result is still a message, its graph by
//! byte, and its feeds.

use prost::Message;

use crate::graph_def::{AttrEntry, AttrValue, Dim, GraphDef, NodeDef, Shape, Tensor, Versions};
use crate::random::Random;
use crate::value::{Data, STRING, Value, item_size};

/// Numbers at the borders of what sizes, indices and counts can be.
const NUMBERS: [i64; 16] = [
    0,
    -1,
    1,
    -2,
    2,
    3,
    127,
    65536,
    i32::MAX as i64,
    i32::MIN as i64,
    1 << 32,
    1 << 40,
    (1 << 62) + 1,
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
];

/// Pieces of names that parsers trip over.
const NAMES: [&[u8]; 16] = [
    b"",
    b"^",
    b"^^a",
    b":",
    b"a:",
    b":1",
    b"a:b:c",
    b"a:-1",
    b"a:99999999999999999999",
    b"/",
    b"_",
    b"a b",
    b"\xff\xfe",
    b"a\0b",
    b"..",
    b"loc:@",
];

/// Devices, good and bad.
const DEVICES: [&[u8]; 8] = [
    b"/device:GPU:0",
    b"/cpu:0",
    b"/job:worker/task:1",
    b"/device:CPU:99999999999",
    b"/device:CPU:-1",
    b"CPU",
    b"/job:localhost/replica:0/task:0/device:CPU:0",
    b"/\xff",
];

/// Damages a serialised graph in one place, or in up to four; `others` are graphs to take pieces
/// from.
pub(crate) fn damage_graph_def(graph_def: &[u8], others: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut bytes = graph_def.to_vec();
    let places = if random.one_in(3) { 2 + random.below(3) } else { 1 };
    for _ in 0..places {
        match GraphDef::decode(&bytes[..]) {
            Ok(mut graph) if !random.one_in(5) => {
                damage_graph(&mut graph, others, random);
                bytes = graph.encode_to_vec();
            }
            _ => damage_bytes(&mut bytes, others, random),
        }
    }
    bytes
}

fn damage_bytes(bytes: &mut Vec<u8>, others: &[&[u8]], random: &mut Random) {
    if bytes.is_empty() {
        bytes.push(random.byte());
        return;
    }
    let at = random.below(bytes.len());
    let end = at + random.below((bytes.len() - at).min(64)) + 1;
    match random.below(7) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.byte(),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..end)),
        4 => bytes[at..end].fill(0xff),
        5 => bytes.insert(at, random.byte()),
        _ => {
            if let Some(other) = random.pick(others).filter(|other| !other.is_empty()) {
                let from = random.below(other.len());
                let piece = &other[from..(from + 1 + random.below(64)).min(other.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
}

fn damage_graph(graph: &mut GraphDef, others: &[&[u8]], random: &mut Random) {
    let in_function = random.one_in(3);
    let functions = graph.library.as_mut().map(|library| &mut library.functions);
    if let Some(function) =
        functions.filter(|_| in_function).and_then(|functions| random.pick_mut(functions))
    {
        match random.below(8) {
            0 => drop(
                random
                    .pick_mut(&mut function.results)
                    .map(|entry| entry.value = name(&function.nodes, random)),
            ),
            1 => drop(function.results.pop()),
            2 => drop(
                random
                    .pick_mut(&mut function.control_results)
                    .map(|e| e.value = name(&function.nodes, random)),
            ),
            3 => damage_bytes(&mut function.signature, &[], random),
            _ => damage_nodes(&mut function.nodes, others, random),
        }
        return;
    }
    match random.below(24) {
        0 => {
            let number = |random: &mut Random| random.pick(&NUMBERS).map_or(0, |n| *n as i32);
            let versions = graph.versions.get_or_insert_with(Versions::default);
            match random.below(3) {
                0 => versions.producer = number(random),
                1 => versions.min_consumer = number(random),
                _ => versions.bad_consumers.push(number(random)),
            }
        }
        1 => {
            if let Some(library) = &mut graph.library {
                match random.pick(&library.functions).cloned() {
                    Some(function) if random.one_in(2) => library.functions.push(function),
                    Some(_) => {
                        drop(library.functions.remove(random.below(library.functions.len())))
                    }
                    None => library.gradients.push(b"\x0a\x01a\x12\x01b".to_vec()),
                }
            }
        }
        _ => damage_nodes(&mut graph.nodes, others, random),
    }
}

fn damage_nodes(nodes: &mut Vec<NodeDef>, others: &[&[u8]], random: &mut Random) {
    if nodes.is_empty() {
        nodes.push(NodeDef { name: b"alone".to_vec(), op: b"NoOp".to_vec(), ..NodeDef::default() });
        return;
    }
    let at = random.below(nodes.len());
    match random.below(13) {
        0 => drop(nodes.remove(at)),
        1 => nodes.push(nodes[at].clone()),
        2 => {
            let mut copy = nodes[at].clone();
            copy.name.extend_from_slice(b"_copy");
            nodes.push(copy);
        }
        3 => nodes[at].name = name(nodes, random),
        4 => {
            let other = random.below(nodes.len());
            nodes.swap(at, other);
        }
        5 => nodes[at].op = any_node(nodes, others, random).op,
        6 => {
            let stranger = any_node(nodes, others, random);
            nodes[at] = NodeDef {
                name: nodes[at].name.clone(),
                inputs: nodes[at].inputs.clone(),
                ..stranger
            };
        }
        7 => nodes[at].device = random.pick(&DEVICES).map_or(Vec::new(), |device| device.to_vec()),
        8 | 9 => damage_inputs(nodes, at, random),
        _ => {
            let stranger = any_node(nodes, others, random);
            damage_attrs(&mut nodes[at].attrs, &stranger, random);
        }
    }
}

/// A node of this graph or of another one.
fn any_node(nodes: &[NodeDef], others: &[&[u8]], random: &mut Random) -> NodeDef {
    let other =
        random.pick(others).and_then(|bytes| GraphDef::decode(*bytes).ok()).unwrap_or_default();
    let own = random.one_in(3) || other.nodes.is_empty();
    random.pick(if own { nodes } else { &other.nodes }).cloned().unwrap_or_default()
}

/// The name of some node, or none a node could have.
fn name(nodes: &[NodeDef], random: &mut Random) -> Vec<u8> {
    match random.pick(nodes) {
        Some(node) if !random.one_in(3) => node.name.clone(),
        _ if random.one_in(8) => vec![b'n'; 1 << 16],
        _ => random.pick(&NAMES).map_or(Vec::new(), |name| name.to_vec()),
    }
}

fn damage_inputs(nodes: &mut [NodeDef], at: usize, random: &mut Random) {
    let mut input = name(nodes, random);
    match random.below(5) {
        0 => input.splice(0..0, *b"^").for_each(drop),
        1 => input.extend_from_slice(format!(":{}", random.below(4)).as_bytes()),
        2 => input.extend(random.pick(&NUMBERS).iter().flat_map(|n| format!(":{n}").into_bytes())),
        _ => {}
    }
    let inputs = &mut nodes[at].inputs;
    match random.below(5) {
        0 => drop(inputs.pop()),
        1 => inputs.push(input),
        2 => inputs.reverse(),
        _ => match random.pick_mut(inputs) {
            Some(old) => *old = input,
            None => inputs.push(input),
        },
    }
}

fn damage_attrs(attrs: &mut Vec<AttrEntry>, stranger: &NodeDef, random: &mut Random) {
    if attrs.is_empty() {
        attrs.extend(stranger.attrs.iter().cloned());
        return;
    }
    let at = random.below(attrs.len());
    match random.below(10) {
        0 => drop(attrs.remove(at)),
        1 => attrs.push(attrs[at].clone()),
        2 => attrs[at].key = random.pick(&NAMES).map_or(Vec::new(), |name| name.to_vec()),
        3 => attrs[at].value = random.pick(&stranger.attrs).and_then(|attr| attr.value.clone()),
        4 => attrs[at].value = None,
        5 => {
            let other = random.below(attrs.len());
            let value = attrs[other].value.clone();
            attrs[at].value = value;
        }
        _ => damage_value(attrs[at].value.get_or_insert_with(AttrValue::default), random),
    }
}

fn damage_value(value: &mut AttrValue, random: &mut Random) {
    let number = random.pick(&NUMBERS).copied().unwrap_or_default();
    if let Some(tensor) = &mut value.tensor {
        damage_tensor(tensor, random);
    } else if let Some(shape) = &mut value.shape {
        damage_shape(shape, random);
    } else if let Some(dtype) = &mut value.dtype {
        *dtype = if random.one_in(4) { number as i32 } else { random.below(132) as i32 };
    } else if let Some(i) = &mut value.i {
        *i = number;
    } else if let Some(f) = &mut value.f {
        let floats = [f32::NAN, f32::INFINITY, -1.0, 0.0, f32::MAX, f32::MIN_POSITIVE];
        *f = random.pick(&floats).copied().unwrap_or_default();
    } else if let Some(b) = &mut value.b {
        *b = !*b;
    } else if let Some(s) = &mut value.s {
        match random.below(3) {
            0 => s.clear(),
            1 => s.push(random.byte()),
            _ => *s = random.pick(&NAMES).map_or(Vec::new(), |name| name.to_vec()),
        }
    } else if let Some(function) = &mut value.func {
        function.name = random.pick(&NAMES).map_or(Vec::new(), |name| name.to_vec());
    } else if let Some(list) = &mut value.list {
        match random.below(8) {
            0 => list.i.push(number),
            1 => drop(random.pick_mut(&mut list.i).map(|i| *i = number)),
            2 => drop(list.i.pop()),
            3 => list.dtype.push(random.below(132) as i32),
            4 => drop(list.dtype.pop()),
            5 => drop(random.pick_mut(&mut list.shape).map(|shape| shape.dims.clear())),
            6 => list.s.push(vec![random.byte()]),
            _ => {
                list.f.push(f32::NAN);
                list.b.push(true);
            }
        }
    } else {
        value.i = Some(number);
    }
}

fn damage_shape(shape: &mut Shape, random: &mut Random) {
    let size = random.pick(&NUMBERS).copied().unwrap_or_default();
    match random.below(6) {
        0 => shape.unknown_rank = !shape.unknown_rank,
        1 => shape.dims.push(Dim { size, ..Dim::default() }),
        2 => drop(shape.dims.pop()),
        3 => shape.dims.resize(300, Dim { size: 1, ..Dim::default() }),
        _ => match random.pick_mut(&mut shape.dims) {
            Some(dim) => dim.size = size,
            None => shape.dims.push(Dim { size, ..Dim::default() }),
        },
    }
}

fn damage_tensor(tensor: &mut Tensor, random: &mut Random) {
    match random.below(7) {
        0 => tensor.dtype = random.below(132) as i32,
        1 | 2 => damage_shape(tensor.shape.get_or_insert_with(Shape::default), random),
        3 => {
            let length = random.below(tensor.content.len() + 9);
            tensor.content.resize(length, 0x7f);
        }
        4 => {
            // Values that sizes, axes and indices are often made of.
            let byte = if random.one_in(2) { 0xff } else { random.byte() };
            match random.pick_mut(&mut tensor.content) {
                Some(old) => *old = byte,
                None => tensor.ints.push(vec![byte & 0x7f]),
            }
        }
        5 => {
            tensor.floats.push(vec![0xff; random.below(9)]);
            tensor.int64s.push(vec![random.byte() & 0x7f]);
        }
        _ => tensor.strings.push(vec![random.byte(); random.below(40)]),
    }
}

/// Changes a fed tensor: some of its values, its shape or its dtype. What comes out is a tensor one
/// can make.
pub(crate) fn damage_feed(value: &mut Value, random: &mut Random) {
    if let Data::Strings(strings) = &mut value.data {
        if let Some(text) = random.pick_mut(strings) {
            damage_bytes(text, &[], random);
        }
        return;
    }
    let Some(size) = item_size(value.dtype) else { return };
    let Data::Bytes(bytes) = &mut value.data else { return };
    match random.below(6) {
        0 | 1 => {
            let number = random.pick(&NUMBERS).copied().unwrap_or_default().to_le_bytes();
            if let Some(element) =
                random.pick_mut(&mut bytes.chunks_exact_mut(size).collect::<Vec<_>>())
            {
                let length = size.min(number.len());
                element[..length].copy_from_slice(&number[..length]);
            }
        }
        2 => damage_values(bytes, size, random),
        3 => value.dims.insert(random.below(value.dims.len() + 1), 1),
        4 => {
            if let Some(dim) = random.pick_mut(&mut value.dims) {
                *dim = random.below(5) as i64;
            }
        }
        _ => value.dtype = [1, 3, STRING, 9, 10, 19][random.below(6)],
    }
    let item = item_size(value.dtype).unwrap_or(0);
    let count: i64 = value.dims.iter().product();
    match (value.dtype, &mut value.data) {
        (STRING, data) => *data = Data::Strings(vec![b"text".to_vec(); count as usize]),
        (_, Data::Bytes(bytes)) => bytes.resize(count as usize * item, 0),
        _ => {}
    }
}

/// Fills the tensor with one value: ones in all bits (-1, NaN), the largest, zero, or any.
fn damage_values(bytes: &mut [u8], size: usize, random: &mut Random) {
    let any = random.byte();
    let byte = [0xff, 0x7f, 0, any][random.below(4)];
    bytes.fill(byte);
    if byte == 0x7f {
        // The largest integer, and an infinity or NaN of a float.
        for element in bytes.chunks_exact_mut(size) {
            element[..size - 1].fill(0xff);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> Vec<u8> {
        let dtype = AttrValue { dtype: Some(1), ..AttrValue::default() };
        let shape = Shape { dims: vec![Dim { size: 2, ..Dim::default() }], unknown_rank: false };
        let attrs = vec![
            AttrEntry { key: b"T".to_vec(), value: Some(dtype) },
            AttrEntry {
                key: b"shape".to_vec(),
                value: Some(AttrValue { shape: Some(shape), ..AttrValue::default() }),
            },
        ];
        let node = |name: &[u8], inputs: &[&[u8]]| NodeDef {
            name: name.to_vec(),
            op: b"Abs".to_vec(),
            inputs: inputs.iter().map(|input| input.to_vec()).collect(),
            attrs: attrs.clone(),
            ..NodeDef::default()
        };
        GraphDef { nodes: vec![node(b"a", &[]), node(b"b", &[b"a"])], ..GraphDef::default() }
            .encode_to_vec()
    }

    #[test]
    fn damage_is_reproducible_and_mostly_damages() {
        let graph = graph();
        let mutant = |stream| damage_graph_def(&graph, &[&graph], &mut Random::new(1, stream));
        let mutants: Vec<_> = (0..500).map(mutant).collect();
        assert_eq!(mutants, (0..500).map(mutant).collect::<Vec<_>>());
        // Some damage has nothing to act on in so small a graph, like a list attribute.
        assert!(mutants.iter().filter(|mutant| **mutant != graph).count() > 350);
        let readable =
            mutants.iter().filter(|mutant| GraphDef::decode(&mutant[..]).is_ok()).count();
        assert!((250..500).contains(&readable), "{readable}");
    }

    #[test]
    fn nothing_is_too_small_to_be_damaged() {
        for stream in 0..500 {
            damage_graph_def(&[], &[], &mut Random::new(3, stream));
        }
    }

    #[test]
    fn a_damaged_feed_is_still_a_tensor() {
        let feed = Value { dtype: 1, dims: vec![2, 3], data: Data::Bytes(vec![1; 24]) };
        for stream in 0..500 {
            let (mut value, mut random) = (feed.clone(), Random::new(4, stream));
            for _ in 0..3 {
                damage_feed(&mut value, &mut random);
            }
            let count: i64 = value.dims.iter().product();
            match &value.data {
                Data::Strings(strings) => assert_eq!(strings.len() as i64, count),
                Data::Bytes(bytes) => {
                    assert_eq!(bytes.len() as i64, count * item_size(value.dtype).unwrap() as i64);
                }
            }
        }
    }
}
