//! Safe owners of the library's handles: status, graph, session and tensor.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};

use crate::library::{Api, RawBuffer, RawOutput};
use crate::value::{Data, RESOURCE, STRING, VARIANT, Value, dtype_name, item_size};

/// An error of the library, or (code -1, stage `api`) an answer it must not give.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) stage: &'static str,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn api(message: impl Into<String>) -> Self {
        Self { code: -1, stage: "api", message: message.into() }
    }
}

/// `TF_RESOURCE_EXHAUSTED`.
const RESOURCE_EXHAUSTED: i32 = 8;

/// Owns a `TF_Status`.
struct Status<'a> {
    api: &'a Api,
    raw: *mut c_void,
}

impl<'a> Status<'a> {
    fn new(api: &'a Api) -> Self {
        // SAFETY: no arguments.
        let raw = unsafe { (api.TF_NewStatus)() };
        Self { api, raw }
    }

    fn check(&self, stage: &'static str) -> Result<(), Failure> {
        // SAFETY: `raw` is a live status.
        let code = unsafe { (self.api.TF_GetCode)(self.raw) };
        if code == 0 {
            return Ok(());
        }
        // SAFETY: `raw` is a live status, whose message is a C string that lives until it changes.
        let message = unsafe { CStr::from_ptr((self.api.TF_Message)(self.raw)) };
        Err(Failure { code, stage, message: message.to_string_lossy().into_owned() })
    }
}

impl Drop for Status<'_> {
    fn drop(&mut self) {
        // SAFETY: `raw` is a live status, used no more.
        unsafe { (self.api.TF_DeleteStatus)(self.raw) }
    }
}

/// Owns a `TF_Buffer` with a copy of some bytes.
struct Buffer<'a> {
    api: &'a Api,
    raw: *mut RawBuffer,
}

impl<'a> Buffer<'a> {
    fn new(api: &'a Api, bytes: &[u8]) -> Self {
        // SAFETY: the bytes are readable and are copied.
        let raw = unsafe { (api.TF_NewBufferFromString)(bytes.as_ptr().cast(), bytes.len()) };
        Self { api, raw }
    }

    fn new_empty(api: &'a Api) -> Self {
        // SAFETY: no arguments.
        let raw = unsafe { (api.TF_NewBuffer)() };
        Self { api, raw }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: `raw` is a live buffer, used no more.
        unsafe { (self.api.TF_DeleteBuffer)(self.raw) }
    }
}

/// An operation of a living graph.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'g> {
    raw: *mut c_void,
    graph: PhantomData<&'g ()>,
}

/// An output that its operation has.
#[derive(Clone, Copy)]
pub(crate) struct Output<'g> {
    raw: RawOutput,
    graph: PhantomData<&'g ()>,
}

/// Owns a `TF_Graph`.
pub(crate) struct Graph<'a> {
    api: &'a Api,
    raw: *mut c_void,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(api: &'a Api) -> Self {
        // SAFETY: no arguments.
        let raw = unsafe { (api.TF_NewGraph)() };
        Self { api, raw }
    }

    /// `TF_GraphImportGraphDef` without options.
    pub(crate) fn import(&self, graph_def: &[u8]) -> Result<(), Failure> {
        let status = Status::new(self.api);
        let buffer = Buffer::new(self.api, graph_def);
        // SAFETY: every handle is live; the options are deleted once.
        unsafe {
            let options = (self.api.TF_NewImportGraphDefOptions)();
            (self.api.TF_GraphImportGraphDef)(self.raw, buffer.raw, options, status.raw);
            (self.api.TF_DeleteImportGraphDefOptions)(options);
        }
        status.check("import")
    }

    /// `TF_GraphToGraphDef`.
    pub(crate) fn export(&self) -> Result<Vec<u8>, Failure> {
        let status = Status::new(self.api);
        let buffer = Buffer::new_empty(self.api);
        // SAFETY: every handle is live.
        unsafe { (self.api.TF_GraphToGraphDef)(self.raw, buffer.raw, status.raw) };
        status.check("export")?;
        // SAFETY: a filled buffer has so many bytes, which live as long as it does.
        let bytes = unsafe {
            let RawBuffer { data, length, .. } = *buffer.raw;
            if length == 0 { &[] } else { std::slice::from_raw_parts(data.cast::<u8>(), length) }
        };
        Ok(bytes.to_vec())
    }

    /// Names of all operations, as `TF_GraphNextOperation` gives them.
    pub(crate) fn operation_names(&self) -> Vec<CString> {
        let mut names = Vec::new();
        let mut position = 0;
        loop {
            // SAFETY: the graph is live and `position` is only changed by this function.
            let operation = unsafe { (self.api.TF_GraphNextOperation)(self.raw, &mut position) };
            if operation.is_null() {
                return names;
            }
            // SAFETY: an operation's name is a C string that lives as long as the graph.
            names
                .push(unsafe { CStr::from_ptr((self.api.TF_OperationName)(operation)) }.to_owned());
        }
    }

    pub(crate) fn operation(&self, name: &str) -> Result<Operation<'_>, Failure> {
        let missing = || Failure::api(format!("no operation {name:?} in the graph"));
        let c_name = CString::new(name).map_err(|_| missing())?;
        // SAFETY: the graph is live and the name a C string.
        let raw = unsafe { (self.api.TF_GraphOperationByName)(self.raw, c_name.as_ptr()) };
        if raw.is_null() { Err(missing()) } else { Ok(Operation { raw, graph: PhantomData }) }
    }

    /// The output called `node:index`, or `node` for its first.
    pub(crate) fn output(&self, name: &str) -> Result<Output<'_>, Failure> {
        let (node, index) = name.rsplit_once(':').unwrap_or((name, "0"));
        let operation = self.operation(node)?.raw;
        let missing = || Failure::api(format!("no output {name:?}"));
        let index: c_int = index.parse().map_err(|_| missing())?;
        // SAFETY: the operation belongs to this graph, which is live.
        let outputs = unsafe { (self.api.TF_OperationNumOutputs)(operation) };
        if !(0..outputs).contains(&index) {
            return Err(missing());
        }
        Ok(Output { raw: RawOutput { operation, index }, graph: PhantomData })
    }

    /// The inferred shape; `None` is the unknown rank, -1 an unknown dimension.
    pub(crate) fn static_shape(&self, output: Output<'_>) -> Result<Option<Vec<i64>>, Failure> {
        let status = Status::new(self.api);
        // SAFETY: graph, output and status are live.
        let rank = unsafe { (self.api.TF_GraphGetTensorNumDims)(self.raw, output.raw, status.raw) };
        status.check("shape")?;
        let Ok(length) = usize::try_from(rank) else {
            return Ok(None);
        };
        let mut dims = vec![0; length];
        // SAFETY: `dims` has room for `rank` numbers.
        unsafe {
            (self.api.TF_GraphGetTensorShape)(
                self.raw,
                output.raw,
                dims.as_mut_ptr(),
                rank,
                status.raw,
            )
        };
        status.check("shape")?;
        Ok(Some(dims))
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        // SAFETY: sessions and operations borrow the graph, so nothing uses it any more.
        unsafe { (self.api.TF_DeleteGraph)(self.raw) }
    }
}

/// Owns a `TF_Session` of a graph.
pub(crate) struct Session<'g> {
    api: &'g Api,
    raw: *mut c_void,
    closed: Cell<bool>,
}

impl<'g> Session<'g> {
    /// `TF_NewSession` with default options.
    pub(crate) fn new(graph: &'g Graph<'_>) -> Result<Self, Failure> {
        Self::open(graph.api, |options, status| {
            // SAFETY: every handle is live.
            unsafe { (graph.api.TF_NewSession)(graph.raw, options, status) }
        })
    }

    /// `TF_LoadSessionFromSavedModel` of the tag `serve` into an empty graph.
    pub(crate) fn load(graph: &'g Graph<'_>, directory: &str) -> Result<Self, Failure> {
        let api = graph.api;
        let path = CString::new(directory).map_err(|_| Failure::api("a path has a zero byte"))?;
        let tags: [*const c_char; 1] = [c"serve".as_ptr()];
        // SAFETY: no arguments.
        let raw = unsafe { (api.TF_NewBuffer)() };
        let meta_graph = Buffer { api, raw };
        let session = Self::open(api, |options, status| {
            // SAFETY: every handle is live, `tags` has one C string.
            unsafe {
                (api.TF_LoadSessionFromSavedModel)(
                    options,
                    null(),
                    path.as_ptr(),
                    tags.as_ptr(),
                    1,
                    graph.raw,
                    meta_graph.raw,
                    status,
                )
            }
        })?;
        // SAFETY: the buffer is live.
        if unsafe { (*meta_graph.raw).length } == 0 {
            return Err(Failure::api("the MetaGraphDef is empty"));
        }
        Ok(session)
    }

    fn open(
        api: &'g Api,
        make: impl FnOnce(*const c_void, *mut c_void) -> *mut c_void,
    ) -> Result<Self, Failure> {
        let status = Status::new(api);
        // SAFETY: no arguments.
        let options = unsafe { (api.TF_NewSessionOptions)() };
        let raw = make(options, status.raw);
        // SAFETY: the options are live and used no more.
        unsafe { (api.TF_DeleteSessionOptions)(options) };
        status.check("session")?;
        if raw.is_null() {
            return Err(Failure::api("no session and no error"));
        }
        Ok(Self { api, raw, closed: Cell::new(false) })
    }

    /// `TF_SessionRun`. `options` is a serialised `RunOptions`; empty stands for none.
    pub(crate) fn run(
        &self,
        options: &[u8],
        feeds: &[(Output<'g>, &Tensor<'_>)],
        fetches: &[Output<'g>],
        targets: &[Operation<'g>],
    ) -> Result<Vec<Tensor<'g>>, Failure> {
        let status = Status::new(self.api);
        let options = (!options.is_empty()).then(|| Buffer::new(self.api, options));
        let feed_outputs: Vec<RawOutput> = feeds.iter().map(|(output, _)| output.raw).collect();
        let feed_tensors: Vec<*mut c_void> = feeds.iter().map(|(_, tensor)| tensor.raw).collect();
        let fetches: Vec<RawOutput> = fetches.iter().map(|output| output.raw).collect();
        let targets: Vec<*mut c_void> = targets.iter().map(|operation| operation.raw).collect();
        let mut fetched = vec![null_mut(); fetches.len()];
        // SAFETY: every handle is live, every array as long as its count says.
        unsafe {
            (self.api.TF_SessionRun)(
                self.raw,
                options.as_ref().map_or(null(), |options| options.raw),
                feed_outputs.as_ptr(),
                feed_tensors.as_ptr(),
                count(feeds.len()),
                fetches.as_ptr(),
                fetched.as_mut_ptr(),
                count(fetches.len()),
                targets.as_ptr(),
                count(targets.len()),
                null_mut(),
                status.raw,
            );
        }
        status.check("run")?;
        let tensor = |raw: *mut c_void| (!raw.is_null()).then_some(Tensor { api: self.api, raw });
        let tensors: Vec<_> = fetched.into_iter().map(tensor).collect();
        tensors
            .into_iter()
            .collect::<Option<_>>()
            .ok_or_else(|| Failure::api("no tensor for a fetch"))
    }

    /// Closes and deletes the session.
    pub(crate) fn close(self) -> Result<(), Failure> {
        self.delete()
    }

    fn delete(&self) -> Result<(), Failure> {
        if self.closed.replace(true) {
            return Ok(());
        }
        let status = Status::new(self.api);
        // SAFETY: the session is live here and used no more afterwards, which `closed` records.
        let closed = unsafe {
            (self.api.TF_CloseSession)(self.raw, status.raw);
            let closed = status.check("close");
            (self.api.TF_DeleteSession)(self.raw, status.raw);
            closed
        };
        closed.and(status.check("close"))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // A failing run has been told already; what closing adds to it is of no interest.
        let _ = self.delete();
    }
}

fn count(length: usize) -> c_int {
    c_int::try_from(length).expect("a case has few tensors")
}

/// Bytes of one `TF_TString`.
const STRING_SIZE: usize = 24;
/// The longest text that is stored within the 24 bytes.
const SMALL_STRING: usize = 22;

/// Owns a `TF_Tensor`.
pub(crate) struct Tensor<'a> {
    api: &'a Api,
    raw: *mut c_void,
}

impl<'a> Tensor<'a> {
    /// A tensor of `TF_AllocateTensor` with the given contents.
    pub(crate) fn new(api: &'a Api, value: &Value) -> Result<Self, Failure> {
        let length = match &value.data {
            Data::Bytes(bytes) => bytes.len(),
            Data::Strings(strings) => STRING_SIZE * strings.len(),
        };
        // SAFETY: `dims` is as long as the rank says.
        let raw = unsafe {
            (api.TF_AllocateTensor)(
                value.dtype,
                value.dims.as_ptr(),
                count(value.dims.len()),
                length,
            )
        };
        if raw.is_null() {
            return Err(Failure::api(format!("no tensor of shape {:?}", value.dims)));
        }
        let tensor = Self { api, raw };
        let bytes = match &value.data {
            Data::Bytes(bytes) => bytes,
            Data::Strings(strings) => {
                &strings.iter().flat_map(|text| encode_string(text)).collect()
            }
        };
        // SAFETY: the tensor was allocated with exactly this many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (api.TF_TensorData)(raw), bytes.len())
        };
        Ok(tensor)
    }

    /// Copies the contents out, after checking that the size fits the shape.
    pub(crate) fn read(&self) -> Result<Value, Failure> {
        let (api, raw) = (self.api, self.raw);
        // SAFETY: the tensor is live, and every dimension asked for is below the rank.
        let (dtype, dims, size, data) = unsafe {
            let dims: Vec<i64> = (0..(api.TF_NumDims)(raw)).map(|k| (api.TF_Dim)(raw, k)).collect();
            ((api.TF_TensorType)(raw), dims, (api.TF_TensorByteSize)(raw), (api.TF_TensorData)(raw))
        };
        if matches!(dtype, RESOURCE | VARIANT) {
            return Ok(Value { dtype, dims, data: Data::Bytes(Vec::new()) });
        }
        let item = if dtype == STRING { Some(STRING_SIZE) } else { item_size(dtype) };
        let expected = dims.iter().try_fold(item.unwrap_or(0), |size, dim| {
            usize::try_from(*dim).ok().and_then(|dim| size.checked_mul(dim))
        });
        if item.is_none() || expected != Some(size) || (data.is_null() && size > 0) {
            return Err(Failure::api(format!(
                "{size} bytes at {data:?} for shape {dims:?} {}",
                dtype_name(dtype)
            )));
        }
        let data = match (size, dtype) {
            (0, STRING) => Data::Strings(Vec::new()),
            (0, _) => Data::Bytes(Vec::new()),
            (_, STRING) => {
                // SAFETY: the buffer holds `size / 24` strings in the layout of the header.
                let text = |k| unsafe { decode_string(data.add(k * STRING_SIZE)) };
                Data::Strings((0..size / STRING_SIZE).map(text).collect())
            }
            _ => {
                // A mutant may fetch gigabytes, and running out of memory here is not the library's fault.
                let mut copy = Vec::new();
                copy.try_reserve_exact(size).map_err(|_| Failure {
                    code: RESOURCE_EXHAUSTED,
                    stage: "read",
                    message: format!("{size} bytes cannot be copied"),
                })?;
                // SAFETY: the buffer has `size` readable bytes.
                copy.extend_from_slice(unsafe { std::slice::from_raw_parts(data, size) });
                Data::Bytes(copy)
            }
        };
        Ok(Value { dtype, dims, data })
    }
}

impl Drop for Tensor<'_> {
    fn drop(&mut self) {
        // SAFETY: the tensor is live and used no more.
        unsafe { (self.api.TF_DeleteTensor)(self.raw) }
    }
}

/// Makes a `TF_TString`: up to 22 bytes within the 24, else size, capacity and pointer.
///
/// A long text lies in memory of `malloc`, as a kernel may take it over and free it. Nobody can
/// tell when the last reader of the buffer is gone, so it is never freed here; a worker lives only
/// for some cases.
fn encode_string(text: &[u8]) -> [u8; STRING_SIZE] {
    let mut out = [0; STRING_SIZE];
    if text.len() <= SMALL_STRING {
        out[0] = (text.len() as u8) << 2;
        out[1..=text.len()].copy_from_slice(text);
        return out;
    }
    // SAFETY: the memory is one byte longer than the text, for the closing zero.
    let pointer = unsafe {
        let pointer = libc::malloc(text.len() + 1).cast::<u8>();
        assert!(!pointer.is_null(), "out of memory");
        std::ptr::copy_nonoverlapping(text.as_ptr(), pointer, text.len());
        pointer.add(text.len()).write(0);
        pointer
    };
    out[..8].copy_from_slice(&(text.len() << 2 | 1).to_le_bytes());
    out[8..16].copy_from_slice(&text.len().to_le_bytes());
    out[16..].copy_from_slice(&(pointer as usize).to_le_bytes());
    out
}

/// Reads a `TF_TString` of any of the four kinds: small, large, offset, view.
///
/// # Safety
/// `at` points to an initialised `TF_TString`.
unsafe fn decode_string(at: *const u8) -> Vec<u8> {
    // SAFETY: 24 bytes are readable.
    let raw = unsafe { at.cast::<[u8; STRING_SIZE]>().read_unaligned() };
    let word = |k: usize| usize::from_le_bytes(*raw[8 * k..].first_chunk().expect("three words"));
    let half = |k: usize| {
        u32::from_le_bytes(*raw[4 * k..].first_chunk().expect("six half words")) as usize
    };
    let (start, length) = match raw[0] & 3 {
        0 => return raw[1..][..usize::from(raw[0] >> 2)].to_vec(),
        1 => (word(2) as *const u8, word(0) >> 2),
        2 => (at.wrapping_add(half(1)), half(0) >> 2),
        _ => (word(1) as *const u8, word(0) >> 2),
    };
    if length == 0 {
        return Vec::new();
    }
    // SAFETY: the string's own fields say where its text is and how long.
    unsafe { std::slice::from_raw_parts(start, length) }.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_survive_the_layout() {
        for length in [0, 1, 22, 23, 1000] {
            let text: Vec<u8> = (0..length).map(|k| k as u8).collect();
            let raw = encode_string(&text);
            assert_eq!(raw[0] & 3, u8::from(length > 22), "{length}");
            // SAFETY: `raw` is an initialised string.
            assert_eq!(unsafe { decode_string(raw.as_ptr()) }, text);
        }
    }

    #[test]
    fn views_and_offsets_are_read() {
        let text = b"somewhere else in memory";
        let mut view = [0_u8; STRING_SIZE];
        view[..8].copy_from_slice(&(text.len() << 2 | 3).to_le_bytes());
        view[8..16].copy_from_slice(&(text.as_ptr() as usize).to_le_bytes());
        // SAFETY: a view of `text`.
        assert_eq!(unsafe { decode_string(view.as_ptr()) }, text);

        let mut block = [0_u8; STRING_SIZE + 4];
        block[..4].copy_from_slice(&(4_u32 << 2 | 2).to_le_bytes());
        block[4..8].copy_from_slice(&(STRING_SIZE as u32).to_le_bytes());
        block[STRING_SIZE..].copy_from_slice(b"tail");
        // SAFETY: the text lies 24 bytes behind the start of the string, inside the block.
        assert_eq!(unsafe { decode_string(block.as_ptr()) }, b"tail");
    }
}
