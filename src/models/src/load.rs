//! Loading a SavedModel: its graph, its variables, its tables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tfcore_base::{Code, Error, Result, invalid, not_found};
use tfcore_checkpoint::index_path;
use tfcore_files::{Files, join};
use tfcore_graph::{Graph, ImportOptions, OutputRef, ParsedGraphDef, parse_tensor};
use tfcore_proto::{AssetFileDef, RunOptions};
use tfcore_runtime::{Request, Session, SessionConfig};
use tfcore_tensor::{TString, Tensor};

use crate::meta_graph::tensor_name;
use crate::saved_model::{find_meta_graph, read_saved_model};
use crate::validate::check_constants;

const ASSETS: &str = "assets";
const VARIABLES: &str = "variables";

/// How a model is loaded.
pub struct LoadOptions<'a> {
    pub config: &'a SessionConfig,
    /// Of the runs that restore variables and run the init op.
    pub run_options: RunOptions,
    pub tags: &'a [String],
}

/// A model that has been loaded.
pub struct Loaded {
    pub graph: Graph,
    /// A session that has taken in all of the graph.
    pub session: Session,
    /// The serialized MetaGraphDef.
    pub meta_graph: Vec<u8>,
}

/// Loads the SavedModel in `directory`: imports its graph into `graph`, which has no nodes, restores its variables and runs
/// its init op.
///
/// # Errors
/// `NotFound` if there is no SavedModel or no meta graph of these tags; those of import, of the file system and of the
/// ops that restore and prepare.
pub fn load(mut graph: Graph, directory: &Path, options: &LoadOptions<'_>) -> Result<Loaded> {
    let registry = graph.registry().clone();
    let files = registry.files();
    let bytes = read_saved_model(files, directory)?;
    let meta_graph = find_meta_graph(&bytes, directory, options.tags)?;
    check_constants(meta_graph.graph_def())?;
    let parsed = ParsedGraphDef::from_bytes(meta_graph.graph_def(), &registry)?;
    graph.import_parsed(parsed, &ImportOptions::default())?;
    let session = Session::new(registry.clone(), options.config)?;
    session.extend(&graph)?;
    let assets = feeds_of_assets(directory, &meta_graph.assets()?);
    let loader = Loader { graph: &graph, session: &session, options, assets };
    let saver = meta_graph.def().saver_def.clone().unwrap_or_default();
    loader.restore(files, directory, &saver.filename_tensor_name, &saver.restore_op_name)?;
    if let Some(op) = meta_graph.init_op(directory)?.filter(|op| !op.is_empty()) {
        loader.run(Vec::new(), op)?;
    }
    let meta_graph = meta_graph.bytes().to_vec();
    Ok(Loaded { graph, session, meta_graph })
}

/// The tensors that take the paths of assets, with the paths.
fn feeds_of_assets(directory: &Path, assets: &[AssetFileDef]) -> Vec<(String, Tensor)> {
    let feed = |asset: &AssetFileDef| {
        let path = join(&join(directory, ASSETS), &asset.filename);
        let name = asset.tensor_info.as_ref().map_or("", tensor_name);
        (name.to_string(), path_tensor(&path))
    };
    assets.iter().map(feed).collect()
}

fn path_tensor(path: &Path) -> Tensor {
    Tensor::scalar(TString::from(path.as_os_str().as_encoded_bytes()))
}

/// A model on the way.
struct Loader<'a> {
    graph: &'a Graph,
    session: &'a Session,
    options: &'a LoadOptions<'a>,
    assets: Vec<(String, Tensor)>,
}

impl Loader<'_> {
    /// Restores the variables, if the model has any.
    fn restore(
        &self,
        files: &Files,
        directory: &Path,
        filename_tensor: &str,
        restore_op: &str,
    ) -> Result<()> {
        let prefix: PathBuf = join(&join(directory, VARIABLES), VARIABLES);
        match files.exists(&index_path(&prefix)) {
            Err(error) if error.code() == Code::NotFound => return Ok(()),
            result => result?,
        }
        let filename = (filename_tensor.to_string(), path_tensor(&prefix));
        self.run(vec![filename], restore_op)
    }

    /// Runs an op with the given feeds and those of the assets.
    fn run(&self, mut feeds: Vec<(String, Tensor)>, op: &str) -> Result<()> {
        feeds.extend(self.assets.iter().cloned());
        let mut request = Request::default();
        for (name, tensor) in feeds {
            request.feed(self.output(&name)?, tensor);
        }
        let (node, _) = parse_tensor(op);
        let target = self.graph.find(node);
        let target = target
            .ok_or_else(|| not_found!("PruneForTargets: Some target nodes not found: {node} "))?;
        request.targets.push(target);
        let options = &self.options.run_options;
        let millis = u64::try_from(options.timeout_in_ms).ok().filter(|&millis| millis > 0);
        request.timeout = millis.map(Duration::from_millis);
        request.pool = options.inter_op_thread_pool;
        self.session.run(request).map(|_| ())
    }

    fn output(&self, name: &str) -> Result<OutputRef> {
        let (node, index) = parse_tensor(name);
        let missing = || -> Error {
            invalid!(
                "Tensor {name}, specified in either feed_devices or fetch_devices was not found in the Graph"
            )
        };
        let id = self.graph.find(node).ok_or_else(missing)?;
        Ok(OutputRef::new(id, usize::try_from(index).map_err(|_| missing())?))
    }
}
