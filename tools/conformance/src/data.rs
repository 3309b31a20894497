//! Where the recorded cases and models come from: the packs beside this tool, or directories named
//! by the environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::case::split_cases;
use crate::pack::{self, Files};
use crate::pool::Scratch;

/// The folder with the packs, the table of families and the list of what is missing.
pub(crate) fn test_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// The serialised cases of each op.
pub(crate) fn load_cases() -> Result<BTreeMap<String, Vec<Vec<u8>>>, String> {
    let files = match std::env::var_os("TFCORE_CORPUS") {
        Some(directory) => corpus_files(Path::new(&directory))?,
        None => pack::read(&test_data().join("corpus.pack.xz"))?,
    };
    let mut cases = BTreeMap::new();
    for (name, contents) in files {
        let op =
            name.strip_suffix(".cases").ok_or_else(|| format!("{name} is no file of cases"))?;
        let of_op = split_cases(&contents).map_err(|why| format!("{name}: {why}"))?;
        cases.insert(op.to_owned(), of_op.into_iter().map(<[u8]>::to_vec).collect());
    }
    Ok(cases)
}

/// The `.cases` files of a directory or, if there is one, of its folder `op`.
pub(crate) fn corpus_files(directory: &Path) -> Result<Files, String> {
    let of_ops = directory.join("op");
    let mut files = pack::read_directory(if of_ops.is_dir() { &of_ops } else { directory })?;
    files.retain(|(name, _)| name.ends_with(".cases"));
    Ok(files)
}

/// The family of each op.
pub(crate) fn load_families() -> Result<BTreeMap<String, String>, String> {
    let own = std::env::var_os("TFCORE_CORPUS")
        .map(|directory| Path::new(&directory).join("families.tsv"));
    let path =
        own.filter(|path| path.is_file()).unwrap_or_else(|| test_data().join("families.tsv"));
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let pairs = text.lines().skip(1).filter_map(|line| line.split_once('\t'));
    Ok(pairs.map(|(family, op)| (op.to_owned(), family.to_owned())).collect())
}

/// Directories of models, one each, by name.
pub(crate) struct Models {
    pub(crate) directories: BTreeMap<String, PathBuf>,
    /// Holds what was unpacked for as long as it is needed.
    _unpacked: Option<Scratch>,
}

impl Models {
    pub(crate) fn load() -> Result<Self, String> {
        let (root, unpacked) = match std::env::var_os("TFCORE_MODELS") {
            Some(directory) => (PathBuf::from(directory), None),
            None => {
                let scratch = Scratch::new().map_err(|e| e.to_string())?;
                unpack(&test_data().join("models.pack.xz"), &scratch.0)?;
                (scratch.0.clone(), Some(scratch))
            }
        };
        let tell = |e: std::io::Error| format!("{}: {e}", root.display());
        let mut directories = BTreeMap::new();
        for entry in root.canonicalize().and_then(|root| root.read_dir()).map_err(tell)? {
            let path = entry.map_err(tell)?.path();
            if path.join("io.bin").is_file() {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                directories.insert(name, path);
            }
        }
        Ok(Self { directories, _unpacked: unpacked })
    }
}

fn unpack(pack: &Path, directory: &Path) -> Result<(), String> {
    for (name, contents) in pack::read(pack)? {
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(directory);
        let write = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, contents));
        write.map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// What a player needs of some models, for a pack: the graph and `io.bin`.
pub(crate) fn model_files(directory: &Path, names: &[String]) -> Result<Files, String> {
    let mut files = Files::new();
    for name in names {
        for (file, contents) in pack::read_directory(&directory.join(name))? {
            if file == "model.pb" || file == "io.bin" || file.starts_with("saved_model/") {
                files.push((format!("{name}/{file}"), contents));
            }
        }
    }
    Ok(files)
}
