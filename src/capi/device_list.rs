//! Lists of devices.

use std::ffi::{c_char, c_int};
use std::ptr;

use tfcore_base::{Result, invalid};
use tfcore_runtime::Device;

use super::deprecated_session::TF_DeprecatedSession;
use super::handle::{Boxed, In, Owned, Ref, Status, guard, to_int};
use super::session::TF_Session;

/// The devices of a session.
pub struct TF_DeviceList {
    devices: Vec<Device>,
}

impl Boxed for TF_DeviceList {}

impl TF_DeviceList {
    pub(crate) fn new(devices: &[Device]) -> TF_DeviceList {
        TF_DeviceList { devices: devices.to_vec() }
    }

    fn device(&self, index: c_int) -> Result<&Device> {
        let device = usize::try_from(index).ok().and_then(|index| self.devices.get(index));
        device.ok_or_else(|| invalid!("index out of bounds"))
    }
}

/// Returns the devices of a session, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SessionListDevices(
    session: Ref<TF_Session>,
    status: Status,
) -> *mut TF_DeviceList {
    guard(status, ptr::null_mut(), || {
        Ok(TF_DeviceList::new(session.get("session")?.session().devices()).hand_out())
    })
}

/// Returns the devices of a deprecated session, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeprecatedSessionListDevices(
    session: Ref<TF_DeprecatedSession>,
    status: Status,
) -> *mut TF_DeviceList {
    guard(status, ptr::null_mut(), || {
        Ok(TF_DeviceList::new(session.get("session")?.session().devices()).hand_out())
    })
}

/// Deletes a list; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteDeviceList(list: Owned<TF_DeviceList>) {
    drop(list);
}

/// Returns the number of devices.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeviceListCount(list: In<TF_DeviceList>) -> c_int {
    list.opt().map_or(0, |list| to_int(list.devices.len()))
}

/// Returns the full name of a device, which lives as long as the list; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeviceListName(
    list: In<TF_DeviceList>,
    index: c_int,
    status: Status,
) -> *const c_char {
    guard(status, ptr::null(), || Ok(list.get("list")?.device(index)?.c_name.as_ptr()))
}

/// Returns the type of a device, such as "CPU", which lives as long as the list; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeviceListType(
    list: In<TF_DeviceList>,
    index: c_int,
    status: Status,
) -> *const c_char {
    guard(status, ptr::null(), || Ok(list.get("list")?.device(index)?.type_name.as_ptr()))
}

/// Returns the memory of a device in bytes; -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeviceListMemoryBytes(
    list: In<TF_DeviceList>,
    index: c_int,
    status: Status,
) -> i64 {
    guard(status, -1, || Ok(list.get("list")?.device(index)?.memory_limit))
}

/// Returns a number that tells this device from those of other sessions; 0 on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeviceListIncarnation(
    list: In<TF_DeviceList>,
    index: c_int,
    status: Status,
) -> u64 {
    guard(status, 0, || Ok(list.get("list")?.device(index)?.incarnation))
}
