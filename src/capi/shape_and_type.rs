//! Lists of shapes and types. They are made and freed with `calloc` and `free`, so that a program may hand in its own.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::handle::{Array, ArrayMut, Handle, Mut, Owned, count, quiet};
use super::tf_datatype::TF_DataTypeNumber;

/// A shape and a type.
#[repr(C)]
pub struct TF_ShapeAndType {
    /// The number of dimensions, -1 for an unknown rank.
    pub num_dims: c_int,
    /// The dimensions, -1 for unknown ones.
    pub dims: *mut i64,
    /// The type, 0 for an unknown one.
    pub dtype: TF_DataTypeNumber,
}

/// A list of shapes and types.
#[repr(C)]
pub struct TF_ShapeAndTypeList {
    pub num_items: c_int,
    pub items: *mut TF_ShapeAndType,
}

impl TF_ShapeAndTypeList {
    fn item(&mut self, index: c_int) -> Option<&mut TF_ShapeAndType> {
        if !(0..self.num_items).contains(&index) || self.items.is_null() {
            return None;
        }
        // SAFETY: the list has so many items.
        Some(unsafe { &mut *self.items.add(index as usize) })
    }
}

impl TF_ShapeAndType {
    fn set(&mut self, num_dims: c_int, dims: *mut i64) {
        // SAFETY: the dimensions came from `calloc`, or are null; nothing else has them.
        unsafe { libc::free(self.dims.cast::<c_void>()) };
        (self.num_dims, self.dims) = (num_dims, dims);
    }
}

impl Handle for TF_ShapeAndTypeList {
    unsafe fn free(list: *mut TF_ShapeAndTypeList) {
        // SAFETY: as the caller promises.
        let items = unsafe { &mut *list };
        for index in 0..items.num_items {
            if let Some(item) = items.item(index) {
                item.set(0, ptr::null_mut());
            }
        }
        // SAFETY: both came from `calloc`.
        unsafe {
            libc::free(items.items.cast());
            libc::free(list.cast());
        }
    }
}

/// `len` zeroed elements, or null.
fn zeroed<T>(len: usize) -> *mut T {
    // SAFETY: any sizes may be asked for; the elements are plain data, for which zeros are valid.
    unsafe { libc::calloc(len.max(1), size_of::<T>()).cast() }
}

/// Returns a list of `num_shapes` scalars of unknown type, for the caller to delete; null if there is no memory for it.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewShapeAndTypeList(num_shapes: c_int) -> *mut TF_ShapeAndTypeList {
    quiet(ptr::null_mut(), || {
        let list: *mut TF_ShapeAndTypeList = zeroed(1);
        let items: *mut TF_ShapeAndType = zeroed(count(num_shapes, "num_shapes")?);
        if list.is_null() || items.is_null() {
            // SAFETY: from `calloc`, or null.
            unsafe {
                libc::free(list.cast());
                libc::free(items.cast());
            }
            return Ok(ptr::null_mut());
        }
        // SAFETY: new memory of the right size.
        unsafe { list.write(TF_ShapeAndTypeList { num_items: num_shapes, items }) };
        Ok(list)
    })
}

/// Sets the shape of an item to a copy of `dims`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeAndTypeListSetShape(
    mut shape_list: Mut<TF_ShapeAndTypeList>,
    index: c_int,
    dims: Array<i64>,
    num_dims: c_int,
) {
    quiet((), || {
        let dims = dims.get(count(num_dims, "num_dims")?, "dims")?;
        let Some(item) = shape_list.get("shape_list")?.item(index) else { return Ok(()) };
        let copy: *mut i64 = zeroed(dims.len());
        if !copy.is_null() {
            // SAFETY: new memory for so many elements.
            unsafe { ptr::copy_nonoverlapping(dims.as_ptr(), copy, dims.len()) };
            item.set(num_dims, copy);
        }
        Ok(())
    });
}

/// Sets the shape of an item to one of unknown rank.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeAndTypeListSetUnknownShape(
    mut shape_list: Mut<TF_ShapeAndTypeList>,
    index: c_int,
) {
    if let Some(item) = shape_list.opt().and_then(|list| list.item(index)) {
        item.set(-1, ptr::null_mut());
    }
}

/// Sets the type of an item.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ShapeAndTypeListSetDtype(
    mut shape_list: Mut<TF_ShapeAndTypeList>,
    index: c_int,
    dtype: TF_DataTypeNumber,
) {
    if let Some(item) = shape_list.opt().and_then(|list| list.item(index)) {
        item.dtype = dtype;
    }
}

/// Deletes a list with its shapes; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteShapeAndTypeList(shape_list: Owned<TF_ShapeAndTypeList>) {
    drop(shape_list);
}

/// Deletes an array of lists, as this library hands it out; null is allowed, also for its lists.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteShapeAndTypeListArray(
    mut shape_list_array: ArrayMut<*mut TF_ShapeAndTypeList>,
    num_items: c_int,
) {
    quiet((), || {
        let lists = shape_list_array.get(count(num_items, "num_items")?, "shape_list_array")?;
        for &mut list in lists.iter_mut().filter(|list| !list.is_null()) {
            // SAFETY: the caller hands the lists over.
            unsafe { TF_ShapeAndTypeList::free(list) };
        }
        // SAFETY: the array came from `calloc`, and the caller hands it over.
        unsafe { libc::free(shape_list_array.as_ptr().cast()) };
        Ok(())
    });
}
