//! The modules of a crate, and which file each path leads to.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use crate::paths::{self, Scope};

/// A module path from the root of the crate; empty for the root.
type ModulePath = Vec<String>;

/// A file names an item of another file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub(crate) from: String,
    pub(crate) to: String,
    /// The path as the file writes it.
    pub(crate) path: String,
}

struct Module {
    file: String,
    scope: Scope,
}

/// All modules of a crate that are part of it outside of tests.
pub(crate) struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

impl Crate {
    /// Reads a root file and the files of its modules.
    ///
    /// # Errors
    /// A message that names the file that is missing or cannot be parsed.
    pub(crate) fn read(root: &Path) -> Result<Crate, String> {
        let dir = root.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut found = Crate { modules: BTreeMap::new() };
        let mut waiting = vec![(ModulePath::new(), root.to_path_buf(), dir)];
        while let Some((path, file, dir)) = waiting.pop() {
            let text = std::fs::read_to_string(&file)
                .map_err(|error| format!("{}: {error}", file.display()))?;
            let children = found.add_file(&path, &file.display().to_string(), &text)?;
            for (within, name) in children {
                let mut inner = path.clone();
                let mut folder = dir.clone();
                for name in within {
                    folder.push(&name);
                    inner.push(name);
                }
                inner.push(name.clone());
                let file = file_of(&folder, &name);
                waiting.push((inner, file, folder.join(name)));
            }
        }
        Ok(found)
    }

    /// Adds the modules of one file; returns the names of its children with the inline modules around them.
    fn add_file(
        &mut self,
        path: &[String],
        file: &str,
        text: &str,
    ) -> Result<Vec<(Vec<String>, String)>, String> {
        let scopes = paths::parse(text).map_err(|error| format!("{file}: {error}"))?;
        let mut children = Vec::new();
        for scope in scopes {
            let within = scope.within.clone();
            children.extend(scope.children.iter().map(|name| (within.clone(), name.clone())));
            let module = [path, &within[..]].concat();
            self.modules.insert(module, Module { file: file.to_string(), scope });
        }
        Ok(children)
    }

    /// The imports between different files, one for each pair of files.
    pub(crate) fn imports(&self) -> BTreeSet<Import> {
        let mut imports = BTreeSet::new();
        let mut seen = HashSet::new();
        for (module, Module { file, scope }) in &self.modules {
            let used = scope.uses.iter().map(|(_, path)| path).chain(&scope.paths);
            for path in used {
                let to = self.resolve(module, path, &mut HashSet::new());
                let Some(to) = to.filter(|to| to != file) else {
                    continue;
                };
                if seen.insert((file, to.clone())) {
                    imports.insert(Import { from: file.clone(), to, path: path.join("::") });
                }
            }
        }
        imports
    }

    /// The file that has the item of a path written in `module`; `None` for items of other crates.
    fn resolve(
        &self,
        module: &[String],
        path: &[String],
        visited: &mut HashSet<(ModulePath, String)>,
    ) -> Option<String> {
        let mut at = module.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => at.truncate(at.len().checked_sub(1)?),
            first => {
                // Names of `use` declarations have been followed where they are declared.
                at.push(first.to_string());
                if !self.modules.contains_key(&at) {
                    return None;
                }
            }
        }
        rest = &rest[1..];
        while let Some((name, behind)) = rest.split_first() {
            if name == "super" {
                at.pop()?;
                rest = behind;
                continue;
            }
            at.push(name.clone());
            if self.modules.contains_key(&at) {
                rest = behind;
                continue;
            }
            at.pop();
            let item = self.item(&at, name, behind, visited);
            return item.or_else(|| self.modules.get(&at).map(|module| module.file.clone()));
        }
        self.modules.get(&at).map(|module| module.file.clone())
    }

    /// The file of an item of a module that re-exports it.
    fn item(
        &self,
        module: &[String],
        name: &str,
        behind: &[String],
        visited: &mut HashSet<(ModulePath, String)>,
    ) -> Option<String> {
        let scope = &self.modules.get(module)?.scope;
        let is_new = visited.insert((module.to_vec(), name.to_string()));
        if !is_new || scope.items.iter().any(|item| item == name) {
            return None;
        }
        for (_, path) in scope.uses.iter().filter(|(known, _)| known == name) {
            let full: Vec<String> = path.iter().chain(behind).cloned().collect();
            if let Some(file) = self.resolve(module, &full, visited) {
                return Some(file);
            }
        }
        let globs = scope.uses.iter().filter(|(known, _)| known == "*");
        globs.filter_map(|(_, path)| self.through_glob(module, path, name, visited)).next()
    }

    /// The file of an item that `use path::*` brings into a module, if the module at `path` has it.
    fn through_glob(
        &self,
        module: &[String],
        path: &[String],
        name: &str,
        visited: &mut HashSet<(ModulePath, String)>,
    ) -> Option<String> {
        let mut target = match path.first()?.as_str() {
            "crate" => ModulePath::new(),
            "self" => module.to_vec(),
            "super" => module[..module.len().checked_sub(1)?].to_vec(),
            first => [module, &[first.to_string()]].concat(),
        };
        target.extend_from_slice(&path[1..]);
        let found = self.modules.get(&target)?;
        match found.scope.items.iter().any(|item| item == name) {
            true => Some(found.file.clone()),
            false => self.item(&target, name, &[], visited),
        }
    }
}

/// The file of a module: `name.rs` or `name/mod.rs`.
fn file_of(folder: &Path, name: &str) -> PathBuf {
    let flat = folder.join(format!("{name}.rs"));
    if flat.exists() { flat } else { folder.join(name).join("mod.rs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut found = Crate { modules: BTreeMap::new() };
        for (path, text) in files {
            let path: ModulePath = path.split("::").map(str::to_string).skip(1).collect();
            let file = path.last().cloned().unwrap_or("lib".to_string());
            found.add_file(&path, &file, text).unwrap();
        }
        let imports = found.imports().into_iter();
        let mut pairs: Vec<_> = imports.map(|import| (import.from, import.to)).collect();
        pairs.retain(|(from, _)| from != "lib");
        pairs
    }

    #[test]
    fn paths_lead_to_the_file_of_the_item() {
        let lib = "mod a; mod b; mod c; pub use b::B; pub use c::*; pub struct Root;";
        let c = "mod d; pub fn in_c() {} pub struct C; pub use d::D;";
        let cases = [
            ("use crate::b::B;", Some("b")),
            ("use crate::B;", Some("b")),
            ("use crate::C;", Some("c")),
            ("use crate::{Root, other};", Some("lib")),
            ("fn f() { crate::c::in_c() }", Some("c")),
            ("use crate::c::D;", Some("d")),
            ("use crate::D;", Some("d")),
            ("use super::b;", Some("b")),
            ("use std::fmt;", None),
            ("#[cfg(test)] mod tests { use crate::b::B; }", None),
        ];
        for (text, expected) in cases {
            let files = [
                ("crate", lib),
                ("crate::a", text),
                ("crate::b", "pub struct B;"),
                ("crate::c", c),
            ];
            let files = [&files[..], &[("crate::c::d", "pub struct D;")]].concat();
            let found = imports(&files);
            let of_a: Vec<&str> =
                found.iter().filter(|(from, _)| from == "a").map(|(_, to)| &**to).collect();
            assert_eq!(of_a, expected.into_iter().collect::<Vec<_>>(), "{text}");
        }
    }
}
