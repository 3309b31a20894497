//! What a file says: its modules, its items, its `use` declarations, and the paths in its code.

use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A module of a file: the file itself, or an inline module.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Scope {
    /// Inline modules around this one, from the outside in. Empty for the file itself.
    pub(crate) within: Vec<String>,
    /// Names of `mod name;`.
    pub(crate) children: Vec<String>,
    /// Names of functions, types, constants and traits.
    pub(crate) items: Vec<String>,
    /// `use` declarations: the name that the path is known by here (`*` for a glob), and the path.
    pub(crate) uses: Vec<(String, Vec<String>)>,
    /// Other paths of two or more segments.
    pub(crate) paths: Vec<Vec<String>>,
}

/// Parses a file. Items under `#[cfg(test)]` are left out.
///
/// # Errors
/// The text of the error if the file is not made of Rust's tokens.
pub(crate) fn parse(text: &str) -> Result<Vec<Scope>, String> {
    let tokens = TokenStream::from_str(text).map_err(|error| error.to_string())?;
    let mut scopes = Vec::new();
    scan_module(tokens, Vec::new(), &mut scopes);
    Ok(scopes)
}

fn scan_module(tokens: TokenStream, within: Vec<String>, scopes: &mut Vec<Scope>) {
    let mut scope = Scope { within, ..Scope::default() };
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        if is_test_attr(&tokens[at..]) {
            at = end_of_item(&tokens, at + 2);
        } else if let Some((name, body)) = inline_module(&tokens[at..]) {
            let mut inner = scope.within.clone();
            inner.push(name);
            scan_module(body, inner, scopes);
            at += 3;
        } else {
            if let [TokenTree::Ident(keyword), TokenTree::Ident(name), ..] = &tokens[at..] {
                match keyword.to_string().as_str() {
                    "mod" => scope.children.push(name.to_string()),
                    "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" => {
                        scope.items.push(name.to_string());
                    }
                    _ => {}
                }
            }
            at = scan_token(&tokens, at, &mut scope);
        }
    }
    scopes.push(scope);
}

/// Notes what begins at a token of a module or of code; returns the position behind it.
fn scan_token(tokens: &[TokenTree], at: usize, scope: &mut Scope) -> usize {
    match &tokens[at] {
        TokenTree::Ident(word) if *word == "use" => {
            let end = (at..tokens.len()).find(|&at| is_punct(&tokens[at], ';'));
            let end = end.unwrap_or(tokens.len());
            use_tree(&tokens[at + 1..end], Vec::new(), &mut scope.uses);
            end
        }
        TokenTree::Ident(_) => {
            let (path, end) = path_at(tokens, at);
            if path.len() > 1 {
                scope.paths.push(path);
            }
            end
        }
        TokenTree::Group(group) => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let mut next = 0;
            while next < inner.len() {
                next = match is_test_attr(&inner[next..]) {
                    true => end_of_item(&inner, next + 2),
                    false => scan_token(&inner, next, scope),
                };
            }
            at + 1
        }
        _ => at + 1,
    }
}

/// The path of identifiers that begins at a token, and the position behind it.
fn path_at(tokens: &[TokenTree], start: usize) -> (Vec<String>, usize) {
    let mut path = vec![tokens[start].to_string()];
    let mut at = start + 1;
    while let [a, b, TokenTree::Ident(next), ..] = &tokens[at..]
        && is_punct(a, ':')
        && is_punct(b, ':')
    {
        path.push(next.to_string());
        at += 3;
    }
    (path, at)
}

/// Adds the imports of a `use` declaration whose path so far is `prefix`.
fn use_tree(tokens: &[TokenTree], prefix: Vec<String>, uses: &mut Vec<(String, Vec<String>)>) {
    let mut path = prefix.clone();
    let mut name = None;
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Ident(word) if *word == "as" => {
                name = tokens.get(at + 1).map(ToString::to_string);
                at += 1;
            }
            TokenTree::Ident(word) => path.push(word.to_string()),
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for part in inner.split(|token| is_punct(token, ',')) {
                    use_tree(part, path.clone(), uses);
                }
                return;
            }
            token if is_punct(token, '*') => name = Some("*".to_string()),
            _ => {}
        }
        at += 1;
    }
    // `use a::{self}` is `use a`.
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if path.len() > prefix.len() || (!prefix.is_empty() && !tokens.is_empty()) {
        let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
        uses.push((name, path));
    }
}

/// True if an attribute begins here that removes the next item unless tests are built.
fn is_test_attr(tokens: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(group), ..] = tokens else {
        return false;
    };
    let text = group.stream().to_string().replace(' ', "");
    is_punct(hash, '#')
        && group.delimiter() == Delimiter::Bracket
        && (text == "cfg(test)"
            || text.starts_with("cfg(all(test,")
            || text.starts_with("cfg(any(test,"))
}

/// The position behind the item that begins at `at`: behind its `;` or its braces.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is_punct(token, ';'),
    };
    let is_use = matches!(&tokens[at..], [TokenTree::Ident(word), ..] if *word == "use");
    let end = match is_use {
        true => tokens[at..].iter().position(|token| is_punct(token, ';')),
        false => tokens[at..].iter().position(ends),
    };
    end.map_or(tokens.len(), |end| at + end + 1)
}

fn inline_module(tokens: &[TokenTree]) -> Option<(String, TokenStream)> {
    match tokens {
        [TokenTree::Ident(keyword), TokenTree::Ident(name), TokenTree::Group(body), ..]
            if *keyword == "mod" =>
        {
            Some((name.to_string(), body.stream()))
        }
        _ => None,
    }
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(path: &str) -> Vec<String> {
        path.split("::").map(str::to_string).collect()
    }

    #[test]
    fn a_file_is_taken_apart() {
        let text = r#"
            //! crate::comment::no
            use std::fmt;
            pub use crate::a::{self, B as C, d::*};
            mod child;
            mod inner { use super::X; fn f() { crate::deep::g(); } }
            #[cfg(test)]
            use crate::only::Tests;
            #[cfg(test)]
            mod tests { use crate::only::Tests; }
            pub struct S(crate::t::T);
            fn f<'a>() -> &'a str { child::g(); "crate::string::no" }
        "#;
        let scopes = parse(text).unwrap();
        assert_eq!(scopes.len(), 2);
        let (inner, file) = (&scopes[0], &scopes[1]);
        assert_eq!(inner.within, ["inner"]);
        assert_eq!(inner.uses, [("X".to_string(), words("super::X"))]);
        assert_eq!(inner.paths, [words("crate::deep::g")]);
        assert_eq!(file.children, ["child"]);
        assert_eq!(file.items, ["S", "f"]);
        let uses =
            [("fmt", "std::fmt"), ("a", "crate::a"), ("C", "crate::a::B"), ("*", "crate::a::d")];
        assert_eq!(file.uses, uses.map(|(name, path)| (name.to_string(), words(path))));
        assert_eq!(file.paths, [words("crate::t::T"), words("child::g")]);
    }
}
