//! Datasets in files: `SaveDataset`, `LoadDataset` and snapshots. A directory has a file of what it holds, and for each run and shard a
//! directory with a TFRecord file; each component of an element is a record.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use tfcore_base::{DType, Result, data_loss, invalid, not_found, require};
use tfcore_framework::{Registry, shape_fns, tensor_from_proto, tensor_to_proto};
use tfcore_proto::TensorProto;
use tfcore_tensor::{PartialShape, Tensor};

use crate::args::{Args, Build, Captured, dataset_kernel, handle_shape, kernel};
use crate::dataset::{Dataset, Element, Elements, Handle, Iter, IterContext, Rule};
use crate::iterators::check_signature;
use crate::random::arbitrary;
use crate::records::{Bytes, Compression, RecordWriter, open, record};

pub(crate) fn register(r: &mut Registry) {
    // `SaveDataset(input_dataset: variant, path: string, shard_func_other_args: Tshard_func_args)`.
    r.op("SaveDataset").shape(shape_fns::no_outputs).cpu(|init| kernel(init, save_now));
    for (name, build) in [
        // `SaveDatasetV2(input_dataset: variant, path: string, ...) -> handle`, saves what is read through it.
        ("SaveDatasetV2", save as Build),
        // `LoadDataset(path: string, reader_func_other_args: Treader_func_args) -> handle`, `reader_func(shards)`.
        ("LoadDataset", load),
        // `SnapshotChunkDataset(chunk_file: string) -> handle`, one file.
        ("SnapshotChunkDataset", chunk),
        // `SnapshotDatasetReader(shard_dir: string, start_index: int64) -> handle`, the files of one shard.
        ("SnapshotDatasetReader", shard_reader),
        // `SnapshotDatasetV2(input_dataset: variant, path: string, ...) -> handle`, reads what an earlier pass has saved.
        ("SnapshotDatasetV2", snapshot),
        // `SnapshotDataset(input_dataset: variant, path: string) -> handle`, its older form, without functions.
        ("SnapshotDataset", old_snapshot),
    ] {
        r.op(name).shape(handle_shape).cpu(move |init| dataset_kernel(init, build));
    }
}

/// What a directory holds.
#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    graph_hash: String,
    /// The directory of the run.
    #[prost(string, tag = "2")]
    run_id: String,
    #[prost(int64, tag = "3")]
    creation_timestamp: i64,
    #[prost(int64, tag = "4")]
    version: i64,
    #[prost(int32, repeated, tag = "5")]
    dtypes: Vec<i32>,
    #[prost(int64, tag = "6")]
    num_elements: i64,
    #[prost(bool, tag = "1000")]
    finalized: bool,
}

/// The version of the files: records of tensors.
const VERSION: i64 = 2;

impl Metadata {
    fn path(directory: &Path) -> PathBuf {
        directory.join("snapshot.metadata")
    }

    fn write(&self, ctx: &IterContext, directory: &Path) -> Result<()> {
        ctx.files.write(&Metadata::path(directory), &self.encode_to_vec())
    }

    /// `None` if there is no such file.
    fn read(ctx: &IterContext, directory: &Path) -> Result<Option<Metadata>> {
        let path = Metadata::path(directory);
        if ctx.files.exists(&path).is_err() {
            return Ok(None);
        }
        let read = Metadata::decode(&ctx.files.read(&path)?[..]);
        read.map(Some).map_err(|_| data_loss!("Can't parse {} as binary proto", path.display()))
    }
}

fn path(args: &Args<'_, '_>, name: &str) -> Result<PathBuf> {
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(&args.text(name)?)))
}

/// What is not known is written as it is.
fn compression(args: &Args<'_, '_>) -> Result<Compression> {
    Ok(match args.attrs().bytes("compression")? {
        b"SNAPPY" => Compression::Snappy,
        other => Compression::named(other).unwrap_or(Compression::None),
    })
}

/// How and where a dataset is saved.
struct Save {
    input: Handle,
    path: PathBuf,
    compression: Compression,
    /// Gives an element its shard; all are in one without it.
    shard: Option<Captured>,
}

fn saving(args: &mut Args<'_, '_>) -> Result<Save> {
    let uses_shards = args.attrs().bool("use_shard_func").unwrap_or(true);
    let shard = match uses_shards && args.attrs().contains("shard_func") {
        true => Some(args.function("shard_func", "shard_func_other_args")?),
        false => None,
    };
    let (path, compression) = (path(args, "path")?, compression(args)?);
    Ok(Save { input: args.dataset("input_dataset")?, path, compression, shard })
}

/// A run that writes.
struct Saver {
    directory: PathBuf,
    metadata: Metadata,
    shards: BTreeMap<i64, RecordWriter>,
}

impl Save {
    fn begin(&self, ctx: &IterContext, directory: PathBuf) -> Result<Saver> {
        ctx.files.create_dir_all(&directory)?;
        let metadata = Metadata {
            run_id: (arbitrary() as u64).to_string(),
            version: VERSION,
            dtypes: self.input.dtypes.iter().map(|dtype| dtype.to_i32()).collect(),
            ..Metadata::default()
        };
        metadata.write(ctx, &directory)?;
        Ok(Saver { directory, metadata, shards: BTreeMap::new() })
    }

    fn write(&self, saver: &mut Saver, ctx: &IterContext, element: &Element) -> Result<()> {
        let must = "`shard_func` must return a scalar int64.";
        let shard: i64 = match &self.shard {
            Some(shard) => shard.scalar(ctx, element.clone(), must)?,
            None => 0,
        };
        if !saver.shards.contains_key(&shard) {
            let run = saver.directory.join(&saver.metadata.run_id);
            let directory = run.join(format!("{shard:08}"));
            ctx.files.create_dir_all(&directory)?;
            let file = directory.join("00000000.snapshot");
            saver.shards.insert(shard, RecordWriter::create(ctx, &file, self.compression)?);
        }
        if let Some(file) = saver.shards.get_mut(&shard) {
            for component in element {
                file.write(&tensor_to_proto(component).encode_to_vec())?;
            }
        }
        saver.metadata.num_elements += 1;
        Ok(())
    }
}

impl Saver {
    fn finish(mut self, ctx: &IterContext) -> Result<()> {
        while let Some((_, file)) = self.shards.pop_first() {
            file.close()?;
        }
        self.metadata.finalized = true;
        self.metadata.write(ctx, &self.directory)
    }
}

fn save_now(args: &mut Args<'_, '_>) -> Result<()> {
    let save = saving(args)?;
    let ctx = args.iter_context();
    let mut pass = save.input.iterate(&ctx.at_root())?;
    let mut saver = save.begin(&ctx, save.path.clone())?;
    while let Some(element) = pass.next(&ctx)? {
        save.write(&mut saver, &ctx, &element)?;
    }
    saver.finish(&ctx)
}

/// A pass that writes what it hands on.
fn writing<R: AsRef<Save> + Send + 'static>(
    rule: R,
    ctx: &IterContext,
    directory: PathBuf,
) -> Result<Iter> {
    let mut input = rule.as_ref().input.iterate(ctx)?;
    let mut saver = Some(rule.as_ref().begin(ctx, directory)?);
    Iter::new(move |ctx| {
        let next = input.next(ctx)?;
        match (&next, &mut saver) {
            (Some(element), Some(saver)) => rule.as_ref().write(saver, ctx, element)?,
            (None, saver) => saver.take().map_or(Ok(()), |saver| saver.finish(ctx))?,
            _ => {}
        }
        Ok(next)
    })
}

fn save(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    Ok(Arc::new(saving(args)?))
}

/// So that one function writes for all rules that hold what there is to save.
struct Held<T>(Arc<T>);

impl AsRef<Save> for Held<Save> {
    fn as_ref(&self) -> &Save {
        &self.0
    }
}

impl AsRef<Save> for Held<OldSnapshot> {
    fn as_ref(&self) -> &Save {
        &self.0.save
    }
}

impl AsRef<Save> for Held<Snapshot> {
    fn as_ref(&self) -> &Save {
        &self.0.save
    }
}

impl Rule for Save {
    fn cardinality(&self) -> i64 {
        self.input.cardinality()
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let directory = self.path.clone();
        writing(Held(self), ctx, directory)
    }
}

/// How saved elements are read.
struct Reader {
    function: Captured,
    compression: Compression,
    signature: (Vec<DType>, Vec<PartialShape>),
}

fn reading(args: &Args<'_, '_>) -> Result<Reader> {
    Ok(Reader {
        function: args.function("reader_func", "reader_func_other_args")?,
        compression: compression(args)?,
        signature: args.signature(&[])?,
    })
}

impl Reader {
    /// A pass over what `reader_func` makes of a dataset of the shards.
    fn iterate(&self, ctx: &IterContext, directory: &Path, metadata: &Metadata) -> Result<Iter> {
        let nested = ctx.nested()?;
        let saved = metadata
            .dtypes
            .iter()
            .map(|&dtype| DType::from_i32(dtype).ok_or_else(|| data_loss!("No dtype {dtype}")));
        let saved: Vec<DType> = saved.collect::<Result<_>>()?;
        check_signature(&self.signature.0, &[], &saved, &[])?;
        let run = directory.join(&metadata.run_id);
        let mut shards = match metadata.num_elements {
            0 => Vec::new(),
            _ => ctx.files.children(&run)?,
        };
        shards.sort();
        let shard = |name: &std::ffi::OsString| {
            let rule = Files {
                files: None,
                directory: run.join(name),
                compression: self.compression,
                skipped: 0,
                width: saved.len(),
            };
            let name = "SnapshotDatasetReader".to_string();
            let dataset = Dataset::new(name, self.signature.clone(), Vec::new(), Arc::new(rule))?;
            Ok(vec![dataset.into_tensor()])
        };
        let shards: Vec<Element> = shards.iter().map(shard).collect::<Result<_>>()?;
        let signature = (vec![DType::VARIANT], vec![PartialShape::scalar()]);
        let name = "Shards".to_string();
        let shards = Dataset::new(name, signature, Vec::new(), Arc::new(Elements(shards)))?;
        let dataset = self.function.dataset(&nested, vec![shards.into_tensor()])?;
        let mut pass = dataset.iterate(&nested)?;
        Iter::new(move |ctx| pass.next(&ctx.nested()?))
    }
}

struct Load {
    path: PathBuf,
    reader: Reader,
}

fn load(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    Ok(Arc::new(Load { path: path(args, "path")?, reader: reading(args)? }))
}

impl Rule for Load {
    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let metadata = Metadata::read(ctx, &self.path)?.ok_or_else(|| {
            not_found!("Could not find metadata file [{}]", Metadata::path(&self.path).display())
        })?;
        self.reader.iterate(ctx, &self.path, &metadata)
    }
}

/// The elements of files: one, or all of a directory by name.
struct Files {
    files: Option<PathBuf>,
    directory: PathBuf,
    compression: Compression,
    skipped: u64,
    /// The components of an element.
    width: usize,
}

fn chunk(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let width = args.attrs().dtypes("output_types")?.len();
    let files = Some(path(args, "chunk_file")?);
    let compression = compression(args)?;
    Ok(Arc::new(Files { files, directory: PathBuf::new(), compression, skipped: 0, width }))
}

fn shard_reader(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let width = args.attrs().dtypes("output_types")?.len();
    let version = args.attrs().int("version")?;
    require!(
        version == VERSION,
        "SnapshotDatasetReader with attr version = {version} is not supported"
    );
    let skipped: i64 = args.scalar("start_index")?;
    let skipped = u64::try_from(skipped)
        .map_err(|_| invalid!("start_index should be greater or equal to 0, got {skipped}"))?;
    let (directory, compression) = (path(args, "shard_dir")?, compression(args)?);
    Ok(Arc::new(Files { files: None, directory, compression, skipped, width }))
}

impl Files {
    fn element(&self, bytes: &mut Bytes, at: &mut u64) -> Result<Option<Element>> {
        let mut element = Vec::with_capacity(self.width);
        while element.len() < self.width {
            let Some(bytes) = record(bytes, at)? else {
                return match element.is_empty() {
                    true => Ok(None),
                    false => Err(data_loss!("An element of a snapshot is cut off")),
                };
            };
            let proto = TensorProto::decode(&bytes[..])
                .map_err(|_| data_loss!("Unable to parse tensor from stored proto in file"))?;
            let tensor: Tensor = tensor_from_proto(&proto)?;
            element.push(tensor);
        }
        Ok((!element.is_empty()).then_some(element))
    }
}

impl Rule for Files {
    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut files = match &self.files {
            Some(file) => vec![file.clone()],
            None => {
                let names = ctx.files.children(&self.directory)?;
                names.into_iter().map(|name| self.directory.join(name)).collect()
            }
        };
        files.sort();
        let mut files = files.into_iter();
        let (mut bytes, mut at, mut skipped): (Option<Bytes>, u64, u64) = (None, 0, 0);
        Iter::new(move |ctx| {
            loop {
                ctx.check()?;
                let Some(open_file) = &mut bytes else {
                    let Some(file) = files.next() else {
                        return Ok(None);
                    };
                    bytes = Some(open(ctx, &file, self.compression)?);
                    at = 0;
                    continue;
                };
                match self.element(open_file, &mut at)? {
                    None => bytes = None,
                    Some(_) if skipped < self.skipped => skipped += 1,
                    element => return Ok(element),
                }
            }
        })
    }
}

struct Snapshot {
    save: Save,
    reader: Reader,
    /// The directory of a pipeline like this one.
    directory: PathBuf,
}

fn snapshot(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let save = saving(args)?;
    let hash = match args.attrs().bool("hash_valid")? {
        true => args.attrs().int("hash")? as u64,
        false => save.input.fingerprint()?,
    };
    let directory = save.path.join(hash.to_string());
    Ok(Arc::new(Snapshot { save, reader: reading(args)?, directory }))
}

impl Rule for Snapshot {
    fn cardinality(&self) -> i64 {
        self.save.input.cardinality()
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        match Metadata::read(ctx, &self.directory)?.filter(|metadata| metadata.finalized) {
            Some(metadata) => self.reader.iterate(ctx, &self.directory, &metadata),
            None => {
                let directory = self.directory.clone();
                writing(Held(self), ctx, directory)
            }
        }
    }
}

struct OldSnapshot {
    save: Save,
    /// The directory of a pipeline like this one.
    directory: PathBuf,
    mode: Mode,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Auto,
    Read,
    Write,
    Passthrough,
}

fn old_snapshot(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let mode = match args.attrs().bytes("mode")? {
        b"" | b"auto" => Mode::Auto,
        b"read" => Mode::Read,
        b"write" => Mode::Write,
        b"passthrough" => Mode::Passthrough,
        other => {
            return Err(invalid!(
                "mode must be either 'read', 'write', 'passthrough', or 'auto', got {}",
                String::from_utf8_lossy(other)
            ));
        }
    };
    for name in ["reader_path_prefix", "writer_path_prefix"] {
        require!(
            args.attrs().bytes(name)?.is_empty(),
            "SnapshotDataset with attr {name} is not supported"
        );
    }
    if args.attrs().bool("shuffle_on_read")? {
        return Err(tfcore_base::unimplemented_error!(
            "SnapshotDataset with attr shuffle_on_read = true is not supported"
        ));
    }
    let save = saving(args)?;
    let directory = match args.attrs().str("snapshot_name")? {
        "" => save.path.join(save.input.fingerprint()?.to_string()),
        name => save.path.join(format!("custom-{name}")),
    };
    Ok(Arc::new(OldSnapshot { save, directory, mode }))
}

impl Rule for OldSnapshot {
    fn cardinality(&self) -> i64 {
        self.save.input.cardinality()
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let found = Metadata::read(ctx, &self.directory)?.filter(|metadata| metadata.finalized);
        match (self.mode, found) {
            (Mode::Passthrough, _) => self.save.input.iterate(ctx),
            (Mode::Auto | Mode::Read, Some(metadata)) => {
                let (compression, width) = (self.save.compression, self.save.input.dtypes.len());
                let directory = self.directory.join(&metadata.run_id).join("00000000");
                let files = Files { files: None, directory, compression, skipped: 0, width };
                match metadata.num_elements {
                    0 => Arc::new(Elements(Vec::new())).iterate(ctx),
                    _ => Arc::new(files).iterate(ctx),
                }
            }
            (Mode::Read, None) => {
                Err(not_found!("The snapshot in {} does not exist", self.directory.display()))
            }
            (Mode::Auto | Mode::Write, _) => {
                let directory = self.directory.clone();
                writing(Held(self), ctx, directory)
            }
        }
    }
}
