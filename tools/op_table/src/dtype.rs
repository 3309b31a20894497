//! Names of dtypes and of sets of dtypes, as registrations write them.

use crate::Result;

/// Names by number, from `DT_FLOAT` = 1 on.
const NAMES: [&str; 33] = [
    "float",
    "double",
    "int32",
    "uint8",
    "int16",
    "int8",
    "string",
    "complex64",
    "int64",
    "bool",
    "qint8",
    "quint8",
    "qint32",
    "bfloat16",
    "qint16",
    "quint16",
    "uint16",
    "complex128",
    "half",
    "resource",
    "variant",
    "uint32",
    "uint64",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e4m3b11fnuz",
    "float8_e5m2fnuz",
    "int4",
    "uint4",
    "int2",
    "uint2",
    "float4_e2m1fn",
];

/// Sets with a name of their own, largest first; each lists its members by number.
const SETS: [(&str, &[i32]); 3] = [
    ("numbertype", &[1, 2, 3, 4, 5, 6, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 22, 23]),
    ("realnumbertype", &[1, 2, 3, 4, 5, 6, 9, 14, 17, 19, 22, 23]),
    ("quantizedtype", &[11, 12, 13, 15, 16]),
];

/// Number of the ref dtype of `dtype` less `dtype`.
const REF: i32 = 100;

/// `float`, `int32_ref` and so on.
pub(crate) fn name(dtype: i32) -> Result<String> {
    let (base, suffix) = if dtype > REF { (dtype - REF, "_ref") } else { (dtype, "") };
    let index = usize::try_from(base).ok().and_then(|number| number.checked_sub(1));
    match index.and_then(|index| NAMES.get(index)) {
        Some(name) => Ok(format!("{name}{suffix}")),
        None => Err(format!("dtype {dtype} has no name").into()),
    }
}

/// `{half, float}`, `{realnumbertype, bool}` or `numbertype`, in the order given.
pub(crate) fn set(mut dtypes: &[i32]) -> Result<String> {
    let mut items = Vec::new();
    let mut is_named = false;
    while let Some(&first) = dtypes.first() {
        if let Some((name, members)) = SETS.iter().find(|(_, members)| dtypes.starts_with(members))
        {
            items.push(name.to_string());
            is_named = true;
            dtypes = &dtypes[members.len()..];
        } else {
            items.push(name(first)?);
            is_named = false;
            dtypes = &dtypes[1..];
        }
    }
    Ok(if is_named && items.len() == 1 {
        items.remove(0)
    } else {
        format!("{{{}}}", items.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_use_the_names_that_registrations_know() {
        for (dtypes, expected) in [
            (&[1][..], "{float}"),
            (&[19, 14, 101], "{half, bfloat16, float_ref}"),
            (&[11, 12, 13, 15, 16], "quantizedtype"),
            (&[14, 11, 12, 13, 15, 16], "{bfloat16, quantizedtype}"),
            (&[1, 2, 3, 4, 5, 6, 9, 14, 17, 19, 22, 23, 10], "{realnumbertype, bool}"),
            // One member short of a set.
            (&[11, 12, 13, 15], "{qint8, quint8, qint32, qint16}"),
        ] {
            assert_eq!(set(dtypes).expect("known dtypes"), expected);
        }
        for unknown in [0, -1, 34, 100, 134, i32::MIN, i32::MAX] {
            assert!(set(&[unknown]).is_err(), "{unknown}");
        }
    }
}
