//! Lists of devices.

use std::ffi::{c_char, c_int};
use std::ptr;

use tfcore_base::{Result, invalid};
use tfcore_runtime::DeviceInfo;

use super::deprecated_session::TF_DeprecatedSession;
use super::handle::{get, guard, to_int};
use super::session::TF_Session;
use super::tf_status::TF_Status;

/// The devices of a session.
pub struct TF_DeviceList {
    devices: Vec<DeviceInfo>,
}

impl TF_DeviceList {
    fn device(&self, index: c_int) -> Result<&DeviceInfo> {
        let device = usize::try_from(index).ok().and_then(|index| self.devices.get(index));
        device.ok_or_else(|| invalid!("index out of bounds"))
    }
}

/// Returns the devices of a session, for the caller to delete.
///
/// # Safety
/// `session` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SessionListDevices(
    session: *mut TF_Session,
    status: *mut TF_Status,
) -> *mut TF_DeviceList {
    let body = || {
        // SAFETY: as the caller promises.
        let devices = unsafe { get(session, "session")? }.session().devices().to_vec();
        Ok(Box::into_raw(Box::new(TF_DeviceList { devices })))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), body) }
}

/// Returns the devices of a deprecated session, for the caller to delete.
///
/// # Safety
/// `session` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeprecatedSessionListDevices(
    session: *mut TF_DeprecatedSession,
    status: *mut TF_Status,
) -> *mut TF_DeviceList {
    let body = || {
        // SAFETY: as the caller promises.
        let devices = unsafe { get(session, "session")? }.session().devices().to_vec();
        Ok(Box::into_raw(Box::new(TF_DeviceList { devices })))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), body) }
}

/// Deletes a list; null is allowed.
///
/// # Safety
/// `list` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeleteDeviceList(list: *mut TF_DeviceList) {
    if !list.is_null() {
        // SAFETY: the caller hands the list over.
        drop(unsafe { Box::from_raw(list) });
    }
}

/// Returns the number of devices.
///
/// # Safety
/// `list` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeviceListCount(list: *const TF_DeviceList) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { list.as_ref() }.map_or(0, |list| to_int(list.devices.len()))
}

/// Returns the full name of a device, which lives as long as the list; null on error.
///
/// # Safety
/// `list` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeviceListName(
    list: *const TF_DeviceList,
    index: c_int,
    status: *mut TF_Status,
) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null(), || Ok(get(list, "list")?.device(index)?.name.as_ptr())) }
}

/// Returns the type of a device, such as "CPU", which lives as long as the list; null on error.
///
/// # Safety
/// `list` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeviceListType(
    list: *const TF_DeviceList,
    index: c_int,
    status: *mut TF_Status,
) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe {
        guard(status, ptr::null(), || Ok(get(list, "list")?.device(index)?.type_name.as_ptr()))
    }
}

/// Returns the memory of a device in bytes; -1 on error.
///
/// # Safety
/// `list` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeviceListMemoryBytes(
    list: *const TF_DeviceList,
    index: c_int,
    status: *mut TF_Status,
) -> i64 {
    // SAFETY: as the caller promises.
    unsafe { guard(status, -1, || Ok(get(list, "list")?.device(index)?.memory_limit)) }
}

/// Returns a number that tells this device from those of other sessions; 0 on error.
///
/// # Safety
/// `list` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeviceListIncarnation(
    list: *const TF_DeviceList,
    index: c_int,
    status: *mut TF_Status,
) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { guard(status, 0, || Ok(get(list, "list")?.device(index)?.incarnation)) }
}
