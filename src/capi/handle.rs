//! From C to Rust and back: the guard around every function, and the types of its arguments.
//!
//! A pointer that C passes has one of the types below. To C each is a plain pointer (`repr(transparent)`, and the header
//! generator writes it as one):
//!
//! | type            | in C            | the pointer is null, or points at                                 |
//! |-----------------|-----------------|-------------------------------------------------------------------|
//! | [`In<T>`]       | `const T *`     | a live `T` that does not change during the call                   |
//! | [`Ref<T>`]      | `T *`           | the same, where TensorFlow's header has no `const`                |
//! | [`Mut<T>`]      | `T *`           | a live `T` that no other thread uses during the call              |
//! | [`Out<T>`]      | `T *`           | room for a `T`                                                    |
//! | [`Owned<T>`]    | `T *`           | a live `T` that the caller gives up                               |
//! | [`Array<T>`]    | `const T *`     | as many `T` as the count that is passed with it says              |
//! | [`ArrayMut<T>`] | `T *`           | the same, writable and used by no other thread                    |
//! | [`Bytes`]       | `const void *`  | as many bytes as the length that is passed with it says           |
//! | [`BytesMut`]    | `void *`        | the same, writable and used by no other thread                    |
//! | [`CStrIn`]      | `const char *`  | a NUL-terminated string, or bytes with a length                   |
//! | [`Status`]      | `TF_Status *`   | a live status that no other thread uses during the call           |
//!
//! The last column is the contract of the C API. Only C and unsafe code can make values of these types, so that the methods
//! that turn them into references are safe, and functions that take nothing else are safe themselves.

use std::any::Any;
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Error, Result, internal, invalid};
use tfcore_math::fork;

use super::tf_status::TF_Status;

/// Runs the body of a C function. An error or a panic goes to `status`, and `failure` is returned.
pub(crate) fn guard<R>(mut status: Status, failure: R, body: impl FnOnce() -> Result<R>) -> R {
    let _inside = fork::enter();
    let result =
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(&*panic)));
    match (result, status.0.opt()) {
        (Ok(value), status) => {
            if let Some(status) = status {
                status.set_ok();
            }
            value
        }
        (Err(error), status) => {
            if let Some(status) = status {
                status.set_error(&error);
            }
            failure
        }
    }
}

/// Runs the body of a C function that has no status.
pub(crate) fn quiet<R>(failure: R, body: impl FnOnce() -> Result<R>) -> R {
    let _inside = fork::enter();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(_)) | Err(_) => failure,
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    internal!("panic in the library: {text}")
}

// ---- objects ----

/// `const T *`: an object that is read.
#[repr(transparent)]
pub struct In<T>(*const T);

/// `T *`: an object that is read, or that guards its changes itself.
#[repr(transparent)]
pub struct Ref<T>(*mut T);

/// `T *`: an object that is changed.
#[repr(transparent)]
pub struct Mut<T>(*mut T);

/// `T *`: a place that a result is written to.
#[repr(transparent)]
pub struct Out<T>(*mut T);

/// `T *`: an object that the caller gives up. Dropping it frees the object.
#[repr(transparent)]
pub struct Owned<T: Handle>(*mut T);

/// The status that a function reports to; null is allowed.
#[repr(transparent)]
pub struct Status(Mut<TF_Status>);

impl Status {
    /// # Safety
    /// The contract of `Status`, for as long as the value is used.
    pub(crate) unsafe fn new(status: *mut TF_Status) -> Status {
        Status(Mut(status))
    }
}

impl<T> Clone for In<T> {
    fn clone(&self) -> In<T> {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> In<T> {
    /// # Errors
    /// `InvalidArgument` naming the argument if it is null.
    pub(crate) fn get(&self, name: &str) -> Result<&T> {
        self.opt().ok_or_else(|| is_null(name))
    }

    /// The object of an argument that may be null.
    pub(crate) fn opt(&self) -> Option<&T> {
        // SAFETY: the contract of `In`.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Ref<T> {
        *self
    }
}

impl<T> Copy for Ref<T> {}

impl<T> Ref<T> {
    pub(crate) const NULL: Ref<T> = Ref(ptr::null_mut());

    /// # Safety
    /// The contract of `Ref`, for as long as the value or a copy of it is used.
    pub(crate) unsafe fn new(pointer: *mut T) -> Ref<T> {
        Ref(pointer)
    }

    /// # Errors
    /// `InvalidArgument` naming the argument if it is null.
    pub(crate) fn get(&self, name: &str) -> Result<&T> {
        self.opt().ok_or_else(|| is_null(name))
    }

    /// The object of an argument that may be null.
    pub(crate) fn opt(&self) -> Option<&T> {
        // SAFETY: the contract of `Ref`.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.0
    }
}

impl<T> Mut<T> {
    /// # Errors
    /// `InvalidArgument` naming the argument if it is null.
    pub(crate) fn get(&mut self, name: &str) -> Result<&mut T> {
        self.opt().ok_or_else(|| is_null(name))
    }

    /// The object of an argument that may be null.
    pub(crate) fn opt(&mut self) -> Option<&mut T> {
        // SAFETY: the contract of `Mut`.
        unsafe { self.0.as_mut() }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The object as one of the type that it really has.
    ///
    /// # Errors
    /// `InvalidArgument` naming the argument if it is null.
    ///
    /// # Safety
    /// The contract of `Mut` for the other type.
    pub(crate) unsafe fn get_as<U>(&mut self, name: &str) -> Result<&mut U> {
        // SAFETY: as the caller promises.
        unsafe { self.0.cast::<U>().as_mut() }.ok_or_else(|| is_null(name))
    }
}

impl<T> Out<T> {
    /// # Errors
    /// `InvalidArgument` naming the argument if it is null.
    pub(crate) fn put(&mut self, value: T, name: &str) -> Result<()> {
        if self.0.is_null() {
            return Err(is_null(name));
        }
        // SAFETY: the contract of `Out`. The place may be uninitialised, so that nothing in it is dropped.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

/// A type of objects that C owns and gives back to be freed.
pub trait Handle {
    /// # Safety
    /// The object must have been handed out by this library, and is not used any more.
    #[doc(hidden)]
    unsafe fn free(object: *mut Self);
}

/// A handle that lies in a box.
pub trait Boxed: Sized {
    /// The pointer for C, which owns the object from now on.
    fn hand_out(self) -> *mut Self {
        Box::into_raw(Box::new(self))
    }
}

impl<T: Boxed> Handle for T {
    unsafe fn free(object: *mut T) {
        // SAFETY: made by `hand_out`, as the caller promises.
        drop(unsafe { Box::from_raw(object) });
    }
}

/// A handle that lies behind a count: the library, or another handle, holds the object too.
pub trait Counted: Sized {
    /// The pointer for C, which holds one count from now on.
    fn hand_out_counted(self: Arc<Self>) -> *mut Self {
        Arc::into_raw(self).cast_mut()
    }

    /// Shares the object with C.
    ///
    /// # Errors
    /// `InvalidArgument` naming the argument if it is null.
    fn share(object: Ref<Self>, name: &str) -> Result<Arc<Self>> {
        object.get(name)?;
        // SAFETY: all objects of the type that C has come from `hand_out_counted`. The count lies beside what a reference may
        // reach, so that it takes the pointer; it now has one for the result.
        Ok(unsafe {
            Arc::increment_strong_count(object.as_ptr());
            Arc::from_raw(object.as_ptr())
        })
    }

    /// Takes back the count that C holds.
    ///
    /// # Safety
    /// `object` must come from `hand_out_counted`, and not have been taken back before.
    unsafe fn take_back(object: *mut Self) -> Arc<Self> {
        // SAFETY: as the caller promises.
        unsafe { Arc::from_raw(object) }
    }
}

impl<T: Handle> Owned<T> {
    /// # Safety
    /// The contract of `Owned`.
    pub(crate) unsafe fn new(object: *mut T) -> Owned<T> {
        Owned(object)
    }

    /// The object, which is still to be freed; `None` for null.
    pub(crate) fn opt(&self) -> Option<&T> {
        // SAFETY: the contract of `Owned`.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Boxed> Owned<T> {
    /// Takes the object over.
    ///
    /// # Errors
    /// `InvalidArgument` naming the argument if it is null.
    pub(crate) fn take(mut self, name: &str) -> Result<T> {
        let object = std::mem::replace(&mut self.0, ptr::null_mut());
        if object.is_null() {
            return Err(is_null(name));
        }
        // SAFETY: made by `hand_out`, and the contract of `Owned`.
        Ok(*unsafe { Box::from_raw(object) })
    }
}

impl<T: Handle> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.0.is_null() {
            quiet((), || {
                // SAFETY: the contract of `Owned`.
                unsafe { T::free(self.0) };
                Ok(())
            });
        }
    }
}

// ---- arrays ----

/// `const T *`: an array that is read.
#[repr(transparent)]
pub struct Array<T>(*const T);

/// `T *`: an array that is written.
#[repr(transparent)]
pub struct ArrayMut<T>(*mut T);

/// `const void *`: bytes that are read.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Bytes(*const c_void);

/// `void *`: bytes that are written.
#[repr(transparent)]
pub struct BytesMut(*mut c_void);

impl<T> Clone for Array<T> {
    fn clone(&self) -> Array<T> {
        *self
    }
}

impl<T> Copy for Array<T> {}

impl<T> Array<T> {
    pub(crate) const NULL: Array<T> = Array(ptr::null());

    /// The elements. The pointer is not looked at for no elements.
    ///
    /// # Errors
    /// `InvalidArgument` naming the argument if it is null.
    pub(crate) fn get(&self, len: usize, name: &str) -> Result<&[T]> {
        check_array::<T>(self.0, len, name)?;
        match len {
            0 => Ok(&[]),
            // SAFETY: the contract of `Array`.
            _ => Ok(unsafe { std::slice::from_raw_parts(self.0, len) }),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

impl<T> ArrayMut<T> {
    pub(crate) const NULL: ArrayMut<T> = ArrayMut(ptr::null_mut());

    /// # Safety
    /// The contract of `ArrayMut`, for as long as the value is used.
    pub(crate) unsafe fn new(pointer: *mut T) -> ArrayMut<T> {
        ArrayMut(pointer)
    }

    /// The elements. The pointer is not looked at for no elements.
    ///
    /// # Errors
    /// `InvalidArgument` naming the argument if it is null.
    pub(crate) fn get(&mut self, len: usize, name: &str) -> Result<&mut [T]> {
        check_array::<T>(self.0, len, name)?;
        match len {
            0 => Ok(&mut []),
            // SAFETY: the contract of `ArrayMut`.
            _ => Ok(unsafe { std::slice::from_raw_parts_mut(self.0, len) }),
        }
    }

    /// The elements from `at` on.
    pub(crate) fn from(&self, at: usize) -> ArrayMut<T> {
        ArrayMut(self.0.wrapping_add(at))
    }

    /// The array of a function that reads it although TensorFlow's header has no `const`.
    pub(crate) fn as_array(&self) -> Array<T> {
        Array(self.0)
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.0
    }
}

impl ArrayMut<c_char> {
    /// Writes text and a terminator.
    ///
    /// # Errors
    /// `InvalidArgument` naming the argument if it is null.
    pub(crate) fn put_text(&mut self, text: &str, name: &str) -> Result<()> {
        let out = self.get(text.len() + 1, name)?;
        for (out, byte) in out.iter_mut().zip(text.bytes().chain([0])) {
            *out = byte as c_char;
        }
        Ok(())
    }
}

impl Bytes {
    pub(crate) const NULL: Bytes = Bytes(ptr::null());

    /// # Safety
    /// The contract of `Bytes`, for as long as the value or a copy of it is used.
    pub(crate) unsafe fn new(pointer: *const c_void) -> Bytes {
        Bytes(pointer)
    }

    /// # Errors
    /// `InvalidArgument` naming the argument if it is null and `len` is not 0.
    pub(crate) fn get(&self, len: usize, name: &str) -> Result<&[u8]> {
        check_array::<u8>(self.0.cast(), len, name)?;
        match len {
            0 => Ok(&[]),
            // SAFETY: the contract of `Bytes`.
            _ => Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), len) }),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn as_ptr(&self) -> *const c_void {
        self.0
    }
}

impl BytesMut {
    /// # Errors
    /// `InvalidArgument` naming the argument if it is null and `len` is not 0.
    pub(crate) fn get(&mut self, len: usize, name: &str) -> Result<&mut [u8]> {
        check_array::<u8>(self.0.cast(), len, name)?;
        match len {
            0 => Ok(&mut []),
            // SAFETY: the contract of `BytesMut`.
            _ => Ok(unsafe { std::slice::from_raw_parts_mut(self.0.cast(), len) }),
        }
    }

    /// The bytes from offset `at` on.
    pub(crate) fn from(&self, at: usize) -> BytesMut {
        BytesMut(self.0.wrapping_byte_add(at))
    }

    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.0
    }
}

fn check_array<T>(pointer: *const T, len: usize, name: &str) -> Result<()> {
    if len == 0 {
        return Ok(());
    }
    if pointer.is_null() {
        return Err(is_null(name));
    }
    if len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(invalid!("Argument '{name}' cannot have {len} elements"));
    }
    Ok(())
}

// ---- strings ----

/// `const char *`: text, NUL-terminated or with a length.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct CStrIn(*const c_char);

impl CStrIn {
    pub(crate) const NULL: CStrIn = CStrIn(ptr::null());

    /// The text. Bytes that are no UTF-8 are replaced.
    ///
    /// # Errors
    /// `InvalidArgument` naming the argument if it is null.
    pub(crate) fn get(&self, name: &str) -> Result<Cow<'_, str>> {
        self.opt().ok_or_else(|| is_null(name))
    }

    /// The text of an argument that may be null.
    pub(crate) fn opt(&self) -> Option<Cow<'_, str>> {
        self.c_str().map(CStr::to_string_lossy)
    }

    pub(crate) fn c_str(&self) -> Option<&CStr> {
        // SAFETY: the contract of `CStrIn`.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }

    /// The bytes of text that comes with its length.
    ///
    /// # Errors
    /// `InvalidArgument` naming the argument if it is null and `len` is not 0.
    pub(crate) fn bytes(&self, len: usize, name: &str) -> Result<&[u8]> {
        check_array::<u8>(self.0.cast(), len, name)?;
        match len {
            0 => Ok(&[]),
            // SAFETY: the contract of `CStrIn`.
            _ => Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), len) }),
        }
    }
}

// ---- numbers ----

/// A count as C passes it.
///
/// # Errors
/// `InvalidArgument` naming the argument if it is negative.
pub(crate) fn count(value: c_int, name: &str) -> Result<usize> {
    usize::try_from(value).map_err(|_| invalid!("Argument '{name}' is negative: {value}"))
}

/// A count for C, which has no more than `int` for it.
pub(crate) fn to_int(value: usize) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

fn is_null(name: &str) -> Error {
    invalid!("Argument '{name}' is null")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tfcore_base::Code;

    use super::*;

    thread_local! {
        static FREED: Cell<usize> = const { Cell::new(0) };
    }

    struct Counted(u8);

    impl Boxed for Counted {}

    impl Drop for Counted {
        fn drop(&mut self) {
            FREED.set(FREED.get() + 1);
            assert_ne!(self.0, 9, "a panic while an object is freed");
        }
    }

    #[test]
    fn null_arguments_are_named() {
        let errors = [
            In::<u8>(ptr::null()).get("a").err(),
            Ref::<u8>::NULL.get("b").err(),
            Mut::<u8>(ptr::null_mut()).get("c").err(),
            Out::<u8>(ptr::null_mut()).put(1, "d").err(),
            Owned::<Counted>(ptr::null_mut()).take("e").err(),
            Array::<u8>::NULL.get(1, "f").err(),
            ArrayMut::<u8>(ptr::null_mut()).get(1, "g").err(),
            Bytes::NULL.get(1, "h").err(),
            BytesMut(ptr::null_mut()).get(1, "i").err(),
            CStrIn::NULL.get("j").err(),
            CStrIn::NULL.bytes(1, "k").err(),
        ];
        for (error, name) in errors.into_iter().zip('a'..) {
            let error = error.expect("an error");
            assert_eq!(error.code(), Code::InvalidArgument);
            assert_eq!(error.message(), format!("Argument '{name}' is null"));
        }
    }

    #[test]
    fn arrays_without_elements_may_be_null() {
        assert_eq!(Array::<u64>::NULL.get(0, "a").ok(), Some(&[][..]));
        assert_eq!(Bytes::NULL.get(0, "a").ok(), Some(&[][..]));
        assert_eq!(CStrIn::NULL.bytes(0, "a").ok(), Some(&[][..]));
        let value = 7u64;
        let too_many = Array(&value).get(usize::MAX / 8, "a").map(<[u64]>::len);
        assert!(too_many.is_err_and(|error| error.message().contains("cannot have")));
    }

    #[test]
    fn what_the_caller_gives_up_is_freed_once() {
        let freed = |body: &dyn Fn(Owned<Counted>)| {
            FREED.set(0);
            body(Owned(Counted(1).hand_out()));
            FREED.get()
        };
        assert_eq!(freed(&|owned| drop(owned)), 1);
        assert_eq!(freed(&|owned| drop(owned.take("owned"))), 1);
        FREED.set(0);
        drop(Owned(Counted(9).hand_out()));
        assert_eq!(FREED.get(), 1, "a panic stays inside");
    }

    #[test]
    fn errors_and_panics_reach_the_status() {
        let code = |body: &dyn Fn() -> Result<i32>| {
            let mut status = TF_Status::default();
            // SAFETY: the status lives during the call.
            let value = guard(unsafe { Status::new(&mut status) }, -1, body);
            (value, status.result().map_err(|error| error.code()))
        };
        assert_eq!(code(&|| Ok(3)), (3, Ok(())));
        assert_eq!(code(&|| Err(invalid!("wrong"))), (-1, Err(Code::InvalidArgument)));
        assert_eq!(code(&|| panic!("a bug")), (-1, Err(Code::Internal)));
        // SAFETY: a null status is allowed.
        assert_eq!(guard(unsafe { Status::new(ptr::null_mut()) }, -1, || Ok(3)), 3);
        assert_eq!(quiet(-1, || panic!("a bug")), -1);
    }
}
