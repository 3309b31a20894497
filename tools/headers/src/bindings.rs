//! Compares layouts, constants and signatures: of the Rust functions with those that bindgen reads from `include/`, and of
//! `include/` with the headers of a TensorFlow wheel.
//!
//! bindgen needs libclang; without it there is nothing to compare, and the test says so. The wheel is the directory in the
//! variable `TF`; without it the Rust functions alone are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use quote::ToTokens;
use syn::{FnArg, ForeignItem, Item, ReturnType, Type};

use super::generate::generate;
use super::pointers::plain;
use super::table::{HEADERS, RENAMED};
use super::{Result, root, say};

/// Names that only our headers have, with the reason.
const OURS_ALONE: &[(&str, &str)] = &[
    ("tfcore_version", "our own version"),
    ("TF_TSTR_", "TensorFlow's header defines these strings with inline functions"),
];

/// Types that the headers define by hand.
const BY_HAND: &[&str] = &["SP_Stream", "TF_TString"];

/// What a program sees, by name.
#[derive(Default)]
struct Surface {
    functions: BTreeMap<String, String>,
    /// Values of enums and of macros.
    constants: BTreeMap<String, String>,
    /// Sizes, alignments, offsets and types of fields.
    layouts: BTreeMap<String, String>,
}

/// Types that stand for others, and those that are enums.
#[derive(Default)]
struct Names {
    aliases: BTreeMap<String, Type>,
    enums: BTreeSet<String>,
}

#[test]
fn bindings_agree() {
    if let Err(error) = clang_sys::load() {
        return say(&format!("skipped: bindings cannot be read without libclang: {error}"));
    }
    let include = root().join("include");
    let names = header_names().expect("the headers can be generated");
    let ours = Surface::of_headers(&include, &names);
    let mut wrong = differences("src/capi", &Surface::of_functions(), "include", &ours);
    if let Some(wheel) = env::var_os("TF").filter(|path| !path.is_empty()) {
        let reference = Surface::of_headers(&Path::new(&wheel).join("include"), &names);
        wrong.extend(ours.absent_from(&reference));
        wrong.extend(differences("include", &ours, "TensorFlow", &reference));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The paths of the headers that TensorFlow has too.
fn header_names() -> Result<Vec<String>> {
    let paths = generate(&root())?.into_keys().map(|path| path.to_string_lossy().into_owned());
    Ok(paths.filter(|path| path.starts_with("tensorflow/c/")).collect())
}

/// What both have and is not the same.
fn differences(left_name: &str, left: &Surface, right_name: &str, right: &Surface) -> Vec<String> {
    let pairs = [
        (&left.functions, &right.functions),
        (&left.constants, &right.constants),
        (&left.layouts, &right.layouts),
    ];
    let differing = pairs.into_iter().flat_map(|(left, right)| {
        left.iter().filter_map(move |(name, value)| {
            let other = right.get(name)?;
            (value != other)
                .then(|| format!("{name}:\n  {left_name}: {value}\n  {right_name}: {other}"))
        })
    });
    differing.collect()
}

impl Surface {
    /// Names that the other lacks without a reason.
    fn absent_from(&self, other: &Surface) -> Vec<String> {
        let is_excused = |name: &str| OURS_ALONE.iter().any(|(start, _)| name.starts_with(start));
        let pairs = [(&self.functions, &other.functions), (&self.constants, &other.constants)];
        let absent = pairs.into_iter().flat_map(|(ours, theirs)| {
            ours.keys().filter(|name| !theirs.contains_key(*name) && !is_excused(name))
        });
        absent.map(|name| format!("{name}: TensorFlow's headers lack it")).collect()
    }

    /// As bindgen reads these headers, as C++: TensorFlow's `ops.h` is no C.
    fn of_headers(include: &Path, names: &[String]) -> Surface {
        let lines: String = names.iter().map(|name| format!("#include \"{name}\"\n")).collect();
        let bindings = bindgen::Builder::default()
            .header_contents("all.h", &lines)
            .clang_args(["-xc++", "-std=c++17"])
            .clang_arg(format!("-I{}", include.display()))
            .allowlist_item("(TF|TFE|TSL|SP|SE|TP|tfcore)_.*")
            .layout_tests(true)
            .generate_comments(false)
            .generate()
            .unwrap_or_else(|error| panic!("{}: {error}", include.display()));
        Surface::of_rust(&bindings.to_string())
    }

    /// The functions that the headers are made of.
    fn of_functions() -> Surface {
        let sources: BTreeSet<&str> =
            HEADERS.iter().flat_map(|header| header.sources).copied().collect();
        let items = sources.into_iter().flat_map(|source| {
            let path = root().join("src/capi").join(source);
            let text = fs::read_to_string(&path).expect("a source of a header");
            syn::parse_file(&plain(&text).expect("valid Rust")).expect("valid Rust").items
        });
        let surface = Surface::of_items(&items.collect::<Vec<_>>());
        Surface { functions: surface.functions, ..Surface::default() }
    }

    fn of_rust(text: &str) -> Surface {
        Surface::of_items(&syn::parse_file(text).expect("valid Rust").items)
    }

    fn of_items(items: &[Item]) -> Surface {
        let names = Names::of(items);
        let mut surface = Surface::default();
        for item in items {
            surface.add(item, &names);
        }
        surface
    }

    fn add(&mut self, item: &Item, names: &Names) {
        match item {
            Item::ForeignMod(block) => {
                for item in &block.items {
                    if let ForeignItem::Fn(function) = item {
                        let sig = &function.sig;
                        self.functions.insert(sig.ident.to_string(), names.signature(sig));
                    }
                }
            }
            Item::Fn(function) if function.sig.abi.is_some() => {
                let sig = &function.sig;
                self.functions.insert(sig.ident.to_string(), names.signature(sig));
            }
            Item::Const(constant) if constant.ident == "_" => {
                self.layouts.extend(layout_tests(&constant.expr.to_token_stream().to_string()));
            }
            Item::Const(constant) => {
                let value = constant.expr.to_token_stream().to_string();
                self.constants.insert(common(&constant.ident.to_string()), value);
            }
            Item::Struct(item) => {
                for field in &item.fields {
                    let Some(field_name) = &field.ident else { continue };
                    if !field_name.to_string().starts_with('_') {
                        let name = format!("{}.{field_name}", item.ident);
                        self.layouts.insert(name, names.text(&field.ty));
                    }
                }
            }
            _ => {}
        }
    }
}

/// bindgen's checks of a struct, `["Size of TF_Buffer"][size_of::<TF_Buffer>() - 24usize];`, as names and numbers.
fn layout_tests(text: &str) -> Vec<(String, String)> {
    let check = |statement: &str| {
        let name = statement.split('"').nth(1)?;
        let number = statement.rsplit("- ").next()?.split("usize").next()?;
        Some((name.to_string(), number.to_string()))
    };
    text.split(';').filter_map(check).collect()
}

impl Names {
    fn of(items: &[Item]) -> Names {
        let mut names = Names::default();
        for item in items {
            match item {
                Item::Type(alias) => {
                    names.aliases.insert(alias.ident.to_string(), (*alias.ty).clone());
                }
                Item::Const(constant) => {
                    names.enums.insert(constant.ty.to_token_stream().to_string());
                }
                _ => {}
            }
        }
        names
    }

    fn signature(&self, sig: &syn::Signature) -> String {
        let arguments = sig.inputs.iter().map(|argument| match argument {
            FnArg::Typed(argument) => self.text(&argument.ty),
            FnArg::Receiver(_) => "self".into(),
        });
        format!("({}){}", arguments.collect::<Vec<_>>().join(", "), self.result(&sig.output))
    }

    fn result(&self, output: &ReturnType) -> String {
        match output {
            ReturnType::Default => String::new(),
            ReturnType::Type(_, ty) => format!(" -> {}", self.text(ty)),
        }
    }

    /// A type without its path, as the type that it stands for.
    fn text(&self, ty: &Type) -> String {
        match ty {
            Type::Ptr(pointer) => {
                let kind = if pointer.mutability.is_some() { "mut" } else { "const" };
                format!("*{kind} {}", self.text(&pointer.elem))
            }
            Type::BareFn(function) => {
                let arguments = function.inputs.iter().map(|argument| self.text(&argument.ty));
                let arguments = arguments.collect::<Vec<_>>().join(", ");
                format!("fn({arguments}){}", self.result(&function.output))
            }
            Type::Path(path) => {
                let Some(last) = path.path.segments.last() else { return String::new() };
                if let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
                    && let Some(syn::GenericArgument::Type(inner)) = arguments.args.first()
                {
                    // `Option` around a function pointer, which may be null.
                    return self.text(inner);
                }
                self.named(&last.ident.to_string())
            }
            other => other.to_token_stream().to_string(),
        }
    }

    fn named(&self, name: &str) -> String {
        let primitive = match name {
            "c_uchar" => "u8",
            "c_schar" => "i8",
            "c_int" => "i32",
            "c_uint" => "u32",
            "c_long" | "c_longlong" => "i64",
            "c_ulong" | "c_ulonglong" => "u64",
            "c_float" => "f32",
            "c_double" => "f64",
            _ => "",
        };
        if !primitive.is_empty() {
            return primitive.into();
        }
        if let Some((_, c)) = RENAMED.iter().find(|(rust, _)| *rust == name) {
            return (*c).into();
        }
        match self.aliases.get(name) {
            Some(ty) if !self.enums.contains(name) && !BY_HAND.contains(&name) => self.text(ty),
            _ => common(name),
        }
    }
}

/// The name of a type or constant of a status, of which TensorFlow has two.
fn common(name: &str) -> String {
    name.replace("TSL_", "TF_")
}

#[test]
fn layouts_are_read() {
    let text = r#"{ ["Size of A"][::std::mem::size_of::<A>() - 24usize]; ["Offset of field: A::b"][x - 8usize]; }"#;
    let expected = [("Size of A", "24"), ("Offset of field: A::b", "8")];
    let expected = expected.map(|(name, number)| (name.to_string(), number.to_string()));
    assert_eq!(layout_tests(text), expected);
}

#[test]
fn differences_are_found() {
    let of = Surface::of_rust;
    let ours =
        of("extern \"C\" { fn f(a: *mut T) -> c_int; } pub const N: u32 = 1; struct S { a: i8 }");
    let same =
        of("extern \"C\" { fn f(b: *mut x::T) -> i32; } pub const N: u32 = 1; struct S { a: i8 }");
    let other =
        of("extern \"C\" { fn f(a: *const T) -> i32; } pub const N: u32 = 2; struct S { a: u8 }");
    assert!(differences("ours", &ours, "same", &same).is_empty());
    assert_eq!(differences("ours", &ours, "other", &other).len(), 3);
    assert_eq!(ours.absent_from(&of("")).len(), 2);
}
