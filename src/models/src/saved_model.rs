//! Reading the file of a SavedModel and finding the meta graph of a set of tags.

use std::collections::BTreeSet;
use std::path::Path;

use tfcore_base::{Code, Result, data_loss, not_found, out_of_range};
use tfcore_files::{Files, join};
use tfcore_proto::wire::{Fields, Malformed};
use tfcore_proto::{Message, SavedModel, text};

use crate::meta_graph::MetaGraph;

const BINARY_FILE: &str = "saved_model.pb";
const TEXT_FILE: &str = "saved_model.pbtxt";

/// The bytes that the reference reads at a time.
const READ_BUFFER: usize = 512 << 10;

/// The field `SavedModel.meta_graphs`.
const META_GRAPHS: u32 = 2;

/// The bytes of the SavedModel in `directory`.
///
/// # Errors
/// `NotFound` if there is none, `DataLoss` if the text form cannot be parsed; those of the file system.
pub fn read_saved_model(files: &Files, directory: &Path) -> Result<Vec<u8>> {
    let binary = join(directory, BINARY_FILE);
    match files.exists(&binary) {
        Ok(()) => return files.read(&binary),
        Err(error) if error.code() != Code::NotFound => return Err(error),
        Err(_) => {}
    }
    let path = join(directory, TEXT_FILE);
    if files.exists(&path).is_ok() {
        let model = text::decode::<SavedModel>(&files.read(&path)?);
        let model = model
            .map_err(|error| data_loss!("Can't parse {} as text proto: {error}", path.display()))?;
        return Ok(model.encode_to_vec());
    }
    Err(not_found!(
        "Could not find SavedModel .pb or .pbtxt at supplied export directory path: {}. Check that the \
         directory exists and that you have the right permissions for accessing it.",
        directory.display()
    ))
}

/// The meta graph that has these tags and no others.
///
/// # Errors
/// `NotFound` if there is none, with the tags that there are; `DataLoss` for bytes that are no SavedModel.
pub fn find_meta_graph<'a>(
    bytes: &'a [u8],
    directory: &Path,
    tags: &[String],
) -> Result<MetaGraph<'a>> {
    let wanted: BTreeSet<&str> = tags.iter().map(String::as_str).collect();
    let malformed = || {
        let path = join(directory, BINARY_FILE);
        // What the reference answers depends on its buffer: it has read to the end of a small file, and says so.
        match bytes.len() < READ_BUFFER {
            true => out_of_range!(
                "Can't parse {} as binary proto: Read less bytes than requested",
                path.display()
            ),
            false => data_loss!("Can't parse {} as binary proto", path.display()),
        }
    };
    let mut known = Vec::new();
    let messages = meta_graphs(bytes).map_err(|_| malformed())?;
    for message in messages {
        let meta_graph = MetaGraph::parse(message).map_err(|_| malformed())?;
        let found: BTreeSet<&str> = meta_graph.tags().iter().map(String::as_str).collect();
        if found == wanted {
            return Ok(meta_graph);
        }
        known.push(show(found.into_iter()));
    }
    let mut unique = BTreeSet::new();
    let tags = tags.iter().map(String::as_str).filter(|tag| unique.insert(*tag));
    Err(not_found!(
        "Could not find meta graph def matching supplied tags: {}. To inspect available tag-sets in the \
         SavedModel, please use the SavedModel CLI: `saved_model_cli`. The SavedModel has: {}",
        show(tags),
        known.join(", ")
    ))
}

/// `{ serve gpu }`
fn show<'t>(tags: impl Iterator<Item = &'t str>) -> String {
    let mut text = String::from("{ ");
    for tag in tags {
        text.push_str(tag);
        text.push(' ');
    }
    // Without tags there are two blanks, as in the reference.
    text.push_str(if text.len() == 2 { " }" } else { "}" });
    text
}

fn meta_graphs(bytes: &[u8]) -> std::result::Result<Vec<&[u8]>, Malformed> {
    let mut fields = Fields::new(bytes);
    let mut found = Vec::new();
    while let Some((number, value)) = fields.next()? {
        if number == META_GRAPHS {
            found.push(value.bytes()?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use tfcore_proto::{MetaGraphDef, meta_graph_def::MetaInfoDef};

    use super::*;

    fn model() -> SavedModel {
        let meta = |tags: &[&str]| MetaGraphDef {
            meta_info_def: Some(MetaInfoDef {
                tags: tags.iter().map(|tag| tag.to_string()).collect(),
                ..Default::default()
            }),
            ..Default::default()
        };
        SavedModel {
            saved_model_schema_version: 1,
            meta_graphs: vec![meta(&["serve"]), meta(&["serve", "gpu"]), meta(&[])],
        }
    }

    fn find(tags: &[&str]) -> Result<Vec<String>> {
        let bytes = model().encode_to_vec();
        let tags: Vec<String> = tags.iter().map(|tag| tag.to_string()).collect();
        find_meta_graph(&bytes, Path::new("d"), &tags).map(|found| found.tags().to_vec())
    }

    #[test]
    fn tags_are_compared_as_sets() {
        assert_eq!(find(&["serve"]).unwrap(), ["serve"]);
        assert_eq!(find(&["gpu", "serve", "gpu"]).unwrap(), ["serve", "gpu"]);
        assert!(find(&[]).unwrap().is_empty());
        let error = find(&["train"]).unwrap_err();
        assert_eq!(error.code(), Code::NotFound);
        assert_eq!(
            error.message(),
            "Could not find meta graph def matching supplied tags: { train }. To inspect available tag-sets in \
             the SavedModel, please use the SavedModel CLI: `saved_model_cli`. The SavedModel has: { serve }, \
             { gpu serve }, {  }"
        );
    }

    #[test]
    fn files_are_read_or_missed() {
        let files = Files::default();
        let directory = Path::new("ram://model");
        let error = read_saved_model(&files, directory).unwrap_err();
        assert!(error.message().starts_with(
            "Could not find SavedModel .pb or .pbtxt at supplied export directory path: ram://model. Check"
        ));
        let text =
            b"saved_model_schema_version: 1 meta_graphs { meta_info_def { tags: \"serve\" } }";
        files.write(Path::new("ram://model/saved_model.pbtxt"), text).unwrap();
        let bytes = read_saved_model(&files, directory).unwrap();
        assert!(find_meta_graph(&bytes, directory, &["serve".into()]).is_ok());
        files.write(Path::new("ram://model/saved_model.pb"), b"\x12\xff").unwrap();
        let bytes = read_saved_model(&files, directory).unwrap();
        let error = find_meta_graph(&bytes, directory, &[]).err().unwrap();
        assert_eq!(error.code(), Code::OutOfRange);
        assert!(
            error.message().starts_with("Can't parse ram://model/saved_model.pb as binary proto")
        );
    }
}
