//! libamd_smi, loaded where it is found: the functions of amdsmi.h that are called, with their prototypes.
//!
//! The one idea: only what has had the same prototype since ROCm 6.0 is called, and the rest of the package never sees
//! a pointer. The functions that fill a struct get a [`Buffer`] that holds any, whatever its version. A function that the
//! library has not is a question that it does not support.

#![allow(unsafe_code, reason = "a C library is loaded and called; each block says what must hold")]

use std::collections::BTreeMap;
use std::ffi::{OsString, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hardware::Fault;

use crate::layout::{Buffer, EVENT, EVENT_DEVICE, EVENT_MESSAGE, VERSIONS};
use crate::status::{OUT_OF_RESOURCES, checked};

/// `AMDSMI_INIT_AMD_GPUS`.
const GPUS: u64 = 2;
/// `AMDSMI_PROCESSOR_TYPE_AMD_GPU`.
const GPU: u32 = 1;
/// Sockets, and devices of each, that are listed at most.
const HANDLES_MAX: usize = 256;
/// Processes of a device that are listed at most.
const PROCESSES_MAX: usize = 256;
/// Bytes of a UUID that are taken at most.
const UUID_BYTES: usize = 256;

/// A device, or a socket that devices stand on: a pointer of the library's own.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub(crate) struct Handle(usize);

/// A library that is initialised.
#[derive(Debug)]
pub(crate) struct Smi {
    library: libloading::Library,
    path: OsString,
    version: u32,
}

/// How many of this process have each library open, by its path. Older libraries do not count themselves who
/// initialised it: whoever shut it down took it from the others.
static OPENED: Mutex<BTreeMap<OsString, usize>> = Mutex::new(BTreeMap::new());

/// Held while a library is initialised or shut down. A count is right whoever panicked.
fn opened() -> MutexGuard<'static, BTreeMap<OsString, usize>> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What fills a struct of a device.
type Fill = unsafe extern "C" fn(Handle, *mut c_void) -> u32;
/// What lists sockets.
type Sockets = unsafe extern "C" fn(*mut u32, *mut Handle) -> u32;
/// What lists what stands on one.
type Processors = unsafe extern "C" fn(Handle, *mut u32, *mut Handle) -> u32;
/// What a device is.
type Type = unsafe extern "C" fn(Handle, *mut u32) -> u32;
/// What gives one number of a device's, of several kinds.
type Number = unsafe extern "C" fn(Handle, u32, *mut u64) -> u32;
/// The energy, its unit in microjoules, and when it was.
type Energy = unsafe extern "C" fn(Handle, *mut u64, *mut f32, *mut u64) -> u32;
/// The UUID of a device.
type Uuid = unsafe extern "C" fn(Handle, *mut u32, *mut c_char) -> u32;
/// The processes on a device.
type Processes = unsafe extern "C" fn(Handle, *mut u32, *mut c_void) -> u32;
/// Which events of a device are wanted.
type Mask = unsafe extern "C" fn(Handle, u64) -> u32;
/// The next events of any device.
type Next = unsafe extern "C" fn(c_int, *mut u32, *mut c_void) -> u32;

/// What the driver told of a device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Notification {
    pub(crate) device: Handle,
    /// Its number.
    pub(crate) event: u64,
    pub(crate) message: String,
}

impl Smi {
    /// The first of these libraries that is there, initialised, if it is of a version that is known.
    pub(crate) fn open(paths: &[OsString]) -> Result<Smi, Fault> {
        let load = |path: &OsString| {
            // SAFETY: what a library runs when it is loaded is for whoever configured its path to answer for.
            unsafe { libloading::Library::new(path) }.ok().map(|library| (library, path.clone()))
        };
        let (library, path) = paths.iter().find_map(load).ok_or(Fault::Failed("library_not_found"))?;
        let mut opened = opened();
        let count = opened.entry(path.clone()).or_default();
        if *count == 0 {
            call(&library, b"amdsmi_init\0", |init: unsafe extern "C" fn(u64) -> u32| {
                // SAFETY: the prototype of amdsmi_init, which needs nothing before it.
                unsafe { init(GPUS) }
            })?;
        }
        *count += 1;
        drop(opened);
        let mut smi = Smi { library, path, version: 0 };
        smi.version = smi.known_version()?;
        Ok(smi)
    }

    /// One that a struct of this library can be put into.
    pub(crate) fn buffer(&self) -> Buffer {
        Buffer::new(self.version)
    }

    fn known_version(&self) -> Result<u32, Fault> {
        let mut buffer = self.buffer();
        let into: *mut c_void = buffer.clear().cast();
        call(&self.library, b"amdsmi_get_lib_version\0", |get: unsafe extern "C" fn(*mut c_void) -> u32| {
            // SAFETY: the prototype of amdsmi_get_lib_version, and a buffer that holds any version of its struct.
            unsafe { get(into) }
        })?;
        match buffer.first() {
            version if VERSIONS.contains(&version) => Ok(version),
            _ => Err(Fault::Failed("unknown_version")),
        }
    }

    /// The GPUs that the library found when it was initialised.
    pub(crate) fn gpus(&self) -> Result<Vec<Handle>, Fault> {
        let sockets = self.list(|count, into| {
            call(&self.library, b"amdsmi_get_socket_handles\0", |get: Sockets| {
                // SAFETY: the prototype, and room for as many handles as the count says.
                unsafe { get(count, into) }
            })
        })?;
        let mut gpus = Vec::new();
        for socket in sockets {
            let on = self.list(|count, into| {
                call(&self.library, b"amdsmi_get_processor_handles\0", |get: Processors| {
                    // SAFETY: the prototype, a handle of the library's, and room for as many as the count says.
                    unsafe { get(socket, count, into) }
                })
            });
            gpus.extend(on.unwrap_or_default().into_iter().filter(|handle| self.is_gpu(*handle)));
        }
        Ok(gpus)
    }

    /// What a function lists into room for [`HANDLES_MAX`].
    fn list(
        &self,
        get: impl FnOnce(*mut u32, *mut Handle) -> Result<(), Fault>,
    ) -> Result<Vec<Handle>, Fault> {
        let mut handles = vec![Handle(0); HANDLES_MAX];
        let mut count = HANDLES_MAX as u32;
        get(&raw mut count, handles.as_mut_ptr())?;
        handles.truncate(count as usize);
        Ok(handles)
    }

    fn is_gpu(&self, handle: Handle) -> bool {
        let mut kind = 0;
        let asked = call(&self.library, b"amdsmi_get_processor_type\0", |get: Type| {
            // SAFETY: the prototype of amdsmi_get_processor_type.
            unsafe { get(handle, &raw mut kind) }
        });
        asked.is_ok() && kind == GPU
    }

    /// Lets a function fill a struct. Its prototype has to be [`Fill`]'s.
    pub(crate) fn fill(&self, name: &'static [u8], device: Handle, into: &mut Buffer) -> Result<(), Fault> {
        let into: *mut c_void = into.clear().cast();
        call(&self.library, name, |fill: Fill| {
            // SAFETY: the callers name functions of this prototype, and the buffer holds any struct of them.
            unsafe { fill(device, into) }
        })
    }

    /// One number of a device's, of a kind. The function's prototype has to be [`Number`]'s.
    pub(crate) fn number(&self, name: &'static [u8], device: Handle, kind: u32) -> Result<u64, Fault> {
        let mut number = 0;
        call(&self.library, name, |get: Number| {
            // SAFETY: the callers name functions of this prototype.
            unsafe { get(device, kind, &raw mut number) }
        })?;
        Ok(number)
    }

    /// Energy since the driver was loaded, microjoules.
    pub(crate) fn energy_uj(&self, device: Handle) -> Result<f64, Fault> {
        let (mut count, mut unit_uj, mut at_ns) = (0, 0.0, 0);
        call(&self.library, b"amdsmi_get_energy_count\0", |get: Energy| {
            // SAFETY: the prototype of amdsmi_get_energy_count.
            unsafe { get(device, &raw mut count, &raw mut unit_uj, &raw mut at_ns) }
        })?;
        Ok(count as f64 * f64::from(unit_uj))
    }

    /// Who a device is.
    pub(crate) fn uuid(&self, device: Handle) -> Result<String, Fault> {
        let mut bytes: [c_char; UUID_BYTES] = [0; UUID_BYTES];
        let mut length = UUID_BYTES as u32;
        call(&self.library, b"amdsmi_get_gpu_device_uuid\0", |get: Uuid| {
            // SAFETY: the prototype of amdsmi_get_gpu_device_uuid, and room for as many bytes as the length says.
            unsafe { get(device, &raw mut length, bytes.as_mut_ptr()) }
        })?;
        let text = bytes.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect();
        Ok(text)
    }

    /// Pids of the processes on a device, and bytes that each has of it; as many as there is room for.
    pub(crate) fn processes(&self, device: Handle) -> Result<Vec<(u32, u64)>, Fault> {
        let mut buffer = Buffer::of_processes(self.version, PROCESSES_MAX);
        let (mut count, into) = (PROCESSES_MAX as u32, buffer.clear().cast());
        let told = status(&self.library, b"amdsmi_get_gpu_process_list\0", |get: Processes| {
            // SAFETY: the prototype of amdsmi_get_gpu_process_list, and room for as many as the count says.
            unsafe { get(device, &raw mut count, into) }
        });
        match told? {
            OUT_OF_RESOURCES => {}
            status => checked(status)?,
        }
        Ok((0..PROCESSES_MAX.min(count as usize)).filter_map(|index| buffer.process(index)).collect())
    }

    /// From now on a device's events with these bits are told.
    pub(crate) fn watch(&self, device: Handle, mask: u64) -> Result<(), Fault> {
        self.of_device(b"amdsmi_init_gpu_event_notification\0", device)?;
        call(&self.library, b"amdsmi_set_gpu_event_notification_mask\0", |set: Mask| {
            // SAFETY: the prototype of amdsmi_set_gpu_event_notification_mask.
            unsafe { set(device, mask) }
        })
    }

    /// A device's events are told no more.
    pub(crate) fn forget(&self, device: Handle) -> Result<(), Fault> {
        self.of_device(b"amdsmi_stop_gpu_event_notification\0", device)
    }

    fn of_device(&self, name: &'static [u8], device: Handle) -> Result<(), Fault> {
        call(&self.library, name, |function: unsafe extern "C" fn(Handle) -> u32| {
            // SAFETY: both callers name functions of this prototype.
            unsafe { function(device) }
        })
    }

    /// The next event, waited for.
    pub(crate) fn next(&self, at_most: Duration) -> Result<Notification, Fault> {
        let mut buffer = self.buffer();
        let (mut count, into) = (1, buffer.clear().cast());
        let timeout_ms = c_int::try_from(at_most.as_millis()).unwrap_or(c_int::MAX);
        call(&self.library, b"amdsmi_get_gpu_event_notification\0", |next: Next| {
            // SAFETY: the prototype of amdsmi_get_gpu_event_notification, and room for the one that is asked for.
            unsafe { next(timeout_ms, &raw mut count, into) }
        })?;
        if count == 0 {
            return Err(Fault::Failed("no_data"));
        }
        Ok(Notification {
            device: Handle(buffer.number(EVENT_DEVICE).unwrap_or(0) as usize),
            event: buffer.number(EVENT).unwrap_or(0),
            message: buffer.text(EVENT_MESSAGE),
        })
    }
}

impl Drop for Smi {
    fn drop(&mut self) {
        let mut opened = opened();
        let left = opened.get(&self.path).map_or(0, |count| count.saturating_sub(1));
        if left > 0 {
            opened.insert(self.path.clone(), left);
            return;
        }
        opened.remove(&self.path);
        // What it says to that changes nothing.
        let _ = call(&self.library, b"amdsmi_shut_down\0", |end: unsafe extern "C" fn() -> u32| {
            // SAFETY: the prototype of amdsmi_shut_down; nobody has it open any more.
            unsafe { end() }
        });
    }
}

/// Calls a function by its name, which ends with a NUL. The closure has to call it as what it is.
fn call<F: Copy>(
    library: &libloading::Library,
    name: &'static [u8],
    call: impl FnOnce(F) -> u32,
) -> Result<(), Fault> {
    checked(status(library, name, call)?)
}

/// The same, for a status that is to be looked at.
fn status<F: Copy>(
    library: &libloading::Library,
    name: &'static [u8],
    call: impl FnOnce(F) -> u32,
) -> Result<u32, Fault> {
    // SAFETY: whoever names a function takes it with its prototype of amdsmi.h, and says so where it calls it.
    let function = unsafe { library.get::<F>(name) }.map_err(|_| Fault::Unsupported)?;
    Ok(call(*function))
}
