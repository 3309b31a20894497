//! The attrs of an eager op, apart from it.

use std::ptr;

use tfcore_base::invalid;
use tfcore_framework::{AttrValue, Attrs};
use tfcore_proto as proto;

use super::attrs::try_set;
use super::op::TFE_Op;
use crate::capi::handle::{Bytes, CStrIn, In, Mut, Ref, Status, guard, quiet};
use crate::capi::tf_buffer::{TF_Buffer, fill};

/// The attrs of an op. They belong to the op that they come from.
pub struct TFE_OpAttrs {
    name: String,
    attrs: Attrs,
}

/// Returns the attrs that are set on an op. They live until the next call for the op, or until it is deleted.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpGetAttrs(op: Ref<TFE_Op>) -> *const TFE_OpAttrs {
    quiet(ptr::null(), || {
        // SAFETY: the contract of the function: no other thread uses the op during the call.
        let op = unsafe { op.as_ptr().as_mut() };
        let op = op.ok_or_else(|| tfcore_base::invalid!("Argument 'op' is null"))?;
        let (name, attrs) = (op.op.op().name.to_string(), op.op.attrs().clone());
        let handed_out = op.attrs.insert(Box::new(TFE_OpAttrs { name, attrs }));
        Ok(ptr::from_ref(&**handed_out))
    })
}

/// Sets all attrs of `attrs` on an op.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpAddAttrs(mut op: Mut<TFE_Op>, attrs: In<TFE_OpAttrs>) {
    quiet((), || {
        let (op, attrs) = (op.get("op")?, attrs.get("attrs")?);
        attrs.attrs.iter().for_each(|(name, value)| op.op.set_attr(name, value.clone()));
        Ok(())
    });
}

/// Stores the attrs, with the name of the op, as a serialised `NameAttrList`.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpAttrsSerialize(
    attrs: In<TFE_OpAttrs>,
    buf: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        let attrs = attrs.get("attrs")?;
        let pairs = attrs.attrs.iter().map(|(name, value)| (name.to_string(), value.to_proto()));
        fill(buf, &proto::NameAttrList { name: attrs.name.clone(), attr: pairs.collect() })
    })
}

/// Sets an attr to a serialised `AttrValue`.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrValueProto(
    op: Mut<TFE_Op>,
    attr_name: CStrIn,
    proto: Bytes,
    proto_len: usize,
    status: Status,
) {
    try_set(op, attr_name, status, |_| {
        let message = tfcore_proto::decode(proto.get(proto_len, "proto")?)
            .map_err(|_| invalid!("Unparseable AttrValue proto"))?;
        Ok(AttrValue::from_proto(message))
    });
}
