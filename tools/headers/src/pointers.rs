//! The argument types of `src/capi/handle.rs`, written as the plain pointers that they are to C.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, process};

use quote::ToTokens;
use syn::fold::{self, Fold};
use syn::{GenericArgument, PathArguments, PathSegment, Type, parse_quote};

use super::Result;

/// A copy of a file of `src/capi` in which pointers are plain. Dropping it deletes the copy.
pub(crate) struct Plain {
    path: PathBuf,
}

impl Plain {
    pub(crate) fn new(source: &Path) -> Result<Plain> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let fail = |error: &dyn std::fmt::Display| format!("{}: {error}", source.display());
        let text = fs::read_to_string(source).map_err(|error| fail(&error))?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("tfcore-headers-{}-{number}.rs", process::id()));
        fs::write(&path, plain(&text).map_err(|error| fail(&error))?)
            .map_err(|error| fail(&error))?;
        Ok(Plain { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // A file that stays in the directory for temporary files does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

/// The same source with plain pointers.
pub(crate) fn plain(text: &str) -> syn::Result<String> {
    let file = Pointers.fold_file(syn::parse_file(text)?);
    Ok(file.into_token_stream().to_string())
}

struct Pointers;

impl Fold for Pointers {
    fn fold_type(&mut self, ty: Type) -> Type {
        let ty = fold::fold_type(self, ty);
        let Type::Path(path) = &ty else { return ty };
        let Some(last) = path.path.segments.last() else { return ty };
        pointer(last).unwrap_or(ty)
    }
}

/// The pointer that a type of `handle.rs` is.
fn pointer(segment: &PathSegment) -> Option<Type> {
    let name = segment.ident.to_string();
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return match name.as_str() {
            "Bytes" => Some(parse_quote!(*const c_void)),
            "BytesMut" => Some(parse_quote!(*mut c_void)),
            "CStrIn" => Some(parse_quote!(*const c_char)),
            "Status" => Some(parse_quote!(*mut TF_Status)),
            _ => None,
        };
    };
    let Some(GenericArgument::Type(object)) = arguments.args.first() else { return None };
    match name.as_str() {
        "In" | "Array" => Some(parse_quote!(*const #object)),
        "Ref" | "Mut" | "Out" | "Owned" | "ArrayMut" => Some(parse_quote!(*mut #object)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_become_pointers() {
        let cases = [
            ("fn f(a: In<T>, b: Ref<T>) -> c_int;", "fn f(a: *const T, b: *mut T) -> c_int;"),
            ("fn f(mut a: Mut<T>, b: Out<i64>);", "fn f(mut a: *mut T, b: *mut i64);"),
            ("fn f(a: Owned<T>, s: Status);", "fn f(a: *mut T, s: *mut TF_Status);"),
            ("fn f(a: Array<In<T>>);", "fn f(a: *const *const T);"),
            ("fn f(a: ArrayMut<*mut T>);", "fn f(a: *mut *mut T);"),
            (
                "fn f(a: Array<CStrIn>, b: Bytes);",
                "fn f(a: *const *const c_char, b: *const c_void);",
            ),
            ("fn f(a: BytesMut, b: Option<T>);", "fn f(a: *mut c_void, b: Option<T>);"),
        ];
        for (text, expected) in cases {
            let function = |text: &str| format!("extern \"C\" {{ {text} }}");
            let parsed = syn::parse_file(&function(expected)).expect("valid Rust");
            let expected = parsed.into_token_stream().to_string();
            assert_eq!(plain(&function(text)).expect("valid Rust"), expected, "{text:?}");
        }
        let text = "struct S { oper: Ref<T> }";
        assert_eq!(plain(text).expect("valid Rust"), "struct S { oper : * mut T }");
    }
}
