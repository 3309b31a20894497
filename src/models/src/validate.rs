//! Checks of the constants of a SavedModel's graph.

use tfcore_base::{Result, failed_precondition, invalid};
use tfcore_proto::wire::{Fields, Malformed};

/// Checks that constants have a value of a known shape.
///
/// # Errors
/// `FailedPrecondition` for the first node that has none, `InvalidArgument` for bytes that are no GraphDef.
pub(crate) fn check_constants(graph_def: &[u8]) -> Result<()> {
    let first = bad_constant(graph_def).map_err(|_| invalid!("Invalid GraphDef"))?;
    let Some(node) = first else { return Ok(()) };
    Err(match node.has_value {
        true => failed_precondition!(
            "Saved model contains node \"{}\" (op \"{}\") which initializes from a tensor with -1 elements",
            node.name,
            node.op
        ),
        false => failed_precondition!(
            "Saved model contains node \"{}\" which is a constant tensor but no value has been provided",
            node.name
        ),
    })
}

/// What matters of a node.
#[derive(Default)]
struct Node<'a> {
    name: &'a str,
    op: &'a str,
    has_value: bool,
    has_known_shape: bool,
}

fn bad_constant(graph_def: &[u8]) -> std::result::Result<Option<Node<'_>>, Malformed> {
    let mut fields = Fields::new(graph_def);
    while let Some((number, value)) = fields.next()? {
        // `GraphDef.node`
        if number == 1 {
            let node = parse_node(value.bytes()?)?;
            let is_bad = if node.has_value { !node.has_known_shape } else { node.op == "Const" };
            if is_bad {
                return Ok(Some(node));
            }
        }
    }
    Ok(None)
}

fn parse_node(bytes: &[u8]) -> std::result::Result<Node<'_>, Malformed> {
    let mut node = Node { has_known_shape: true, ..Node::default() };
    let mut fields = Fields::new(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => node.name = value.text()?,
            2 => node.op = value.text()?,
            // `NodeDef.attr`, a map entry.
            5 => {
                let (mut key, mut attr): (_, &[u8]) = ("", &[]);
                let mut entry = Fields::new(value.bytes()?);
                while let Some((number, value)) = entry.next()? {
                    match number {
                        1 => key = value.text()?,
                        2 => attr = value.bytes()?,
                        _ => {}
                    }
                }
                if key == "value" {
                    node.has_value = true;
                    node.has_known_shape = is_known(attr)?;
                }
            }
            _ => {}
        }
    }
    Ok(node)
}

/// True if an AttrValue is no tensor, or one of a known shape.
fn is_known(attr: &[u8]) -> std::result::Result<bool, Malformed> {
    let Some(tensor) = message(attr, 8)? else { return Ok(true) };
    let Some(shape) = message(tensor, 2)? else { return Ok(true) };
    let mut fields = Fields::new(shape);
    while let Some((number, value)) = fields.next()? {
        match number {
            2 => {
                let mut dim = Fields::new(value.bytes()?);
                while let Some((number, value)) = dim.next()? {
                    if number == 1 && (value.varint()? as i64) < 0 {
                        return Ok(false);
                    }
                }
            }
            3 if value.varint()? != 0 => return Ok(false),
            _ => {}
        }
    }
    Ok(true)
}

/// The message in field `number`.
fn message(bytes: &[u8], number: u32) -> std::result::Result<Option<&[u8]>, Malformed> {
    let mut fields = Fields::new(bytes);
    let mut found = None;
    while let Some((other, value)) = fields.next()? {
        if other == number {
            found = Some(value.bytes()?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use tfcore_proto::{AttrValue, GraphDef, Message, text};

    use super::*;

    fn check(text: &str) -> Result<()> {
        check_constants(&text::decode::<GraphDef>(text.as_bytes()).unwrap().encode_to_vec())
    }

    /// Messages as the reference has them.
    #[test]
    fn constants_have_values_of_known_shapes() {
        let constant = |value: &str| {
            format!("node {{ name: 'c' op: 'Const' attr {{ key: 'value' value {{ {value} }} }} }}")
        };
        check(&constant("tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } }")).unwrap();
        check(&constant("tensor { dtype: DT_FLOAT }")).unwrap();
        check("node { name: 'n' op: 'NoOp' }").unwrap();
        for shape in ["dim { size: -1 }", "unknown_rank: true"] {
            let error = check(&constant(&format!("tensor {{ tensor_shape {{ {shape} }} }}")));
            assert_eq!(
                error.unwrap_err().message(),
                "Saved model contains node \"c\" (op \"Const\") which initializes from a tensor with -1 elements"
            );
        }
        assert_eq!(
            check("node { name: 'c' op: 'Const' }").unwrap_err().message(),
            "Saved model contains node \"c\" which is a constant tensor but no value has been provided"
        );
        assert!(check_constants(&AttrValue::default().encode_to_vec()).is_ok());
        assert!(check_constants(b"\x0a\xff").is_err());
    }
}
