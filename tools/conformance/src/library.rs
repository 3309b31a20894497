//! The C functions the players call, found in a shared library at run time.

use std::error::Error;
use std::ffi::{c_char, c_int, c_uchar, c_void};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};

/// `TF_Output`: one output of an operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawOutput {
    pub(crate) operation: *mut c_void,
    pub(crate) index: c_int,
}

/// `TF_Buffer`.
#[repr(C)]
pub(crate) struct RawBuffer {
    pub(crate) data: *const c_void,
    pub(crate) length: usize,
    pub(crate) deallocator: *const c_void,
}

macro_rules! c_functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Every C function used, under its own name. All handles are opaque pointers.
        #[allow(non_snake_case)]
        pub(crate) struct Api {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            fn bind(library: &Library) -> Result<Self, String> {
                Ok(Self {
                    // SAFETY: the type is the one the function has in TensorFlow's public header.
                    $($name: *unsafe { library.get(stringify!($name).as_bytes()) }
                        .map_err(|_| concat!("has no ", stringify!($name)))?,)*
                })
            }
        }
    };
}

c_functions! {
    TF_NewStatus() -> *mut c_void;
    TF_DeleteStatus(*mut c_void);
    TF_GetCode(*mut c_void) -> c_int;
    TF_Message(*mut c_void) -> *const c_char;
    TF_NewBuffer() -> *mut RawBuffer;
    TF_NewBufferFromString(*const c_void, usize) -> *mut RawBuffer;
    TF_DeleteBuffer(*mut RawBuffer);
    TF_NewGraph() -> *mut c_void;
    TF_DeleteGraph(*mut c_void);
    TF_NewImportGraphDefOptions() -> *mut c_void;
    TF_DeleteImportGraphDefOptions(*mut c_void);
    TF_GraphImportGraphDef(*mut c_void, *const RawBuffer, *mut c_void, *mut c_void);
    TF_GraphToGraphDef(*mut c_void, *mut RawBuffer, *mut c_void);
    TF_GraphOperationByName(*mut c_void, *const c_char) -> *mut c_void;
    TF_GraphNextOperation(*mut c_void, *mut usize) -> *mut c_void;
    TF_OperationName(*mut c_void) -> *const c_char;
    TF_OperationNumOutputs(*mut c_void) -> c_int;
    TF_GraphGetTensorNumDims(*mut c_void, RawOutput, *mut c_void) -> c_int;
    TF_GraphGetTensorShape(*mut c_void, RawOutput, *mut i64, c_int, *mut c_void);
    TF_NewSessionOptions() -> *mut c_void;
    TF_DeleteSessionOptions(*mut c_void);
    TF_NewSession(*mut c_void, *const c_void, *mut c_void) -> *mut c_void;
    TF_LoadSessionFromSavedModel(
        *const c_void, *const RawBuffer, *const c_char, *const *const c_char, c_int,
        *mut c_void, *mut RawBuffer, *mut c_void
    ) -> *mut c_void;
    TF_CloseSession(*mut c_void, *mut c_void);
    TF_DeleteSession(*mut c_void, *mut c_void);
    TF_SessionRun(
        *mut c_void, *const RawBuffer,
        *const RawOutput, *const *mut c_void, c_int,
        *const RawOutput, *mut *mut c_void, c_int,
        *const *mut c_void, c_int,
        *mut RawBuffer, *mut c_void
    );
    TF_AllocateTensor(c_int, *const i64, c_int, usize) -> *mut c_void;
    TF_DeleteTensor(*mut c_void);
    TF_TensorType(*mut c_void) -> c_int;
    TF_NumDims(*mut c_void) -> c_int;
    TF_Dim(*mut c_void, c_int) -> i64;
    TF_TensorByteSize(*mut c_void) -> usize;
    TF_TensorData(*mut c_void) -> *mut c_uchar;
}

impl Api {
    /// Opens `path`, after the libraries of `preload` whose symbols it needs.
    ///
    /// None is ever closed: a library of this size leaves threads behind, so the answer lives as
    /// long as the process.
    pub(crate) fn open(path: &str, preload: &[String]) -> Result<&'static Self, String> {
        let open = |path: &str, flags| {
            // SAFETY: loading runs the library's initialisers; running its code is what the caller
            // asked for.
            unsafe { Library::open(Some(path), RTLD_NOW | flags) }.map_err(|e| {
                format!("{path}: {e}{}", e.source().map_or(String::new(), |why| format!(": {why}")))
            })
        };
        for path in preload {
            std::mem::forget(open(path, RTLD_GLOBAL)?);
        }
        let library = open(path, RTLD_LOCAL)?;
        let api = Self::bind(&library).map_err(|e| format!("{path}: {e}"))?;
        std::mem::forget(library);
        Ok(Box::leak(Box::new(api)))
    }
}
