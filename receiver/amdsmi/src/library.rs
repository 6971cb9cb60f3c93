//! libamd_smi, loaded at run time: the functions of amdsmi.h that are called, with their prototypes.
//!
//! Only functions whose prototype is unchanged since ROCm 6.0 are called, and the rest of the crate never sees a pointer.
//! Functions that fill a struct get a [`Buffer`] that is large enough for any version. A query whose function the
//! library does not have is unsupported.

#![allow(unsafe_code, reason = "a C library is loaded and called; each block says what must hold")]

use std::collections::BTreeMap;
use std::ffi::{OsString, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hardware::Fault;

use crate::layout::{Buffer, EVENT, EVENT_DEVICE, EVENT_MESSAGE, VERSIONS};
use crate::status::{OUT_OF_RESOURCES, checked};

/// Initialisation flag for GPUs, `AMDSMI_INIT_AMD_GPUS`.
const GPUS: u64 = 2;
/// Processor type of GPUs, `AMDSMI_PROCESSOR_TYPE_AMD_GPU`.
const GPU: u32 = 1;
/// Maximum number of sockets, and of devices per socket.
const HANDLES_MAX: usize = 256;
/// Maximum number of processes per device.
const PROCESSES_MAX: usize = 256;
/// Maximum length of a UUID in bytes.
const UUID_BYTES: usize = 256;

/// A device or socket: an opaque pointer of the library.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub(crate) struct Handle(usize);

/// An initialised library.
#[derive(Debug)]
pub(crate) struct Smi {
    library: libloading::Library,
    path: OsString,
    version: u32,
}

/// Number of users of each library in this process, by path. Older libraries do not count their users, so that one
/// shutdown would end the library for all.
static OPENED: Mutex<BTreeMap<OsString, usize>> = Mutex::new(BTreeMap::new());

/// Locks the counts, during initialisation and shutdown. They are valid also after a panic.
fn opened() -> MutexGuard<'static, BTreeMap<OsString, usize>> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prototype of functions that fill a struct for a device.
type Fill = unsafe extern "C" fn(Handle, *mut c_void) -> u32;
/// Prototype of the function that lists sockets.
type Sockets = unsafe extern "C" fn(*mut u32, *mut Handle) -> u32;
/// Prototype of the function that lists the processors of a socket.
type Processors = unsafe extern "C" fn(Handle, *mut u32, *mut Handle) -> u32;
/// Prototype of the function that returns the type of a processor.
type Type = unsafe extern "C" fn(Handle, *mut u32) -> u32;
/// Prototype of functions that return a number of a device, by kind.
type Number = unsafe extern "C" fn(Handle, u32, *mut u64) -> u32;
/// Prototype of the function that returns the energy counter, its unit in microjoules, and its time.
type Energy = unsafe extern "C" fn(Handle, *mut u64, *mut f32, *mut u64) -> u32;
/// Prototype of the function that returns the UUID of a device.
type Uuid = unsafe extern "C" fn(Handle, *mut u32, *mut c_char) -> u32;
/// Prototype of the function that lists the processes on a device.
type Processes = unsafe extern "C" fn(Handle, *mut u32, *mut c_void) -> u32;
/// Prototype of the function that selects the events of a device.
type Mask = unsafe extern "C" fn(Handle, u64) -> u32;
/// Prototype of the function that waits for events of any device.
type Next = unsafe extern "C" fn(c_int, *mut u32, *mut c_void) -> u32;

/// A notification of the driver about a device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Notification {
    pub(crate) device: Handle,
    /// Number of its kind.
    pub(crate) event: u64,
    pub(crate) message: String,
}

impl Smi {
    /// Loads and initialises the first library that exists.
    ///
    /// # Errors
    /// There is none, it cannot be initialised, or its version is unknown.
    pub(crate) fn open(paths: &[OsString]) -> Result<Smi, Fault> {
        let load = |path: &OsString| {
            // SAFETY: the library's initialisers run; the operator who configured its path trusts it.
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

    /// Returns a buffer for the structs of this library.
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

    /// Returns the GPUs that the library found at initialisation.
    pub(crate) fn gpus(&self) -> Result<Vec<Handle>, Fault> {
        let sockets = self.list(|count, into| {
            call(&self.library, b"amdsmi_get_socket_handles\0", |get: Sockets| {
                // SAFETY: the prototype, and space for as many handles as the count says.
                unsafe { get(count, into) }
            })
        })?;
        let mut gpus = Vec::new();
        for socket in sockets {
            let on = self.list(|count, into| {
                call(&self.library, b"amdsmi_get_processor_handles\0", |get: Processors| {
                    // SAFETY: the prototype, a handle of the library's, and space for as many as the count says.
                    unsafe { get(socket, count, into) }
                })
            });
            gpus.extend(on.unwrap_or_default().into_iter().filter(|handle| self.is_gpu(*handle)));
        }
        Ok(gpus)
    }

    /// Calls a function that lists at most [`HANDLES_MAX`] handles.
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

    /// Calls a function that fills a struct; its prototype must be [`Fill`].
    pub(crate) fn fill(&self, name: &'static [u8], device: Handle, into: &mut Buffer) -> Result<(), Fault> {
        let into: *mut c_void = into.clear().cast();
        call(&self.library, name, |fill: Fill| {
            // SAFETY: the callers name functions of this prototype, and the buffer holds any struct of them.
            unsafe { fill(device, into) }
        })
    }

    /// Calls a function that returns a number of a device; its prototype must be [`Number`].
    pub(crate) fn number(&self, name: &'static [u8], device: Handle, kind: u32) -> Result<u64, Fault> {
        let mut number = 0;
        call(&self.library, name, |get: Number| {
            // SAFETY: the callers name functions of this prototype.
            unsafe { get(device, kind, &raw mut number) }
        })?;
        Ok(number)
    }

    /// Returns the energy since the driver was loaded, in microjoules.
    pub(crate) fn energy_uj(&self, device: Handle) -> Result<f64, Fault> {
        let (mut count, mut unit_uj, mut at_ns) = (0, 0.0, 0);
        call(&self.library, b"amdsmi_get_energy_count\0", |get: Energy| {
            // SAFETY: the prototype of amdsmi_get_energy_count.
            unsafe { get(device, &raw mut count, &raw mut unit_uj, &raw mut at_ns) }
        })?;
        Ok(count as f64 * f64::from(unit_uj))
    }

    /// Returns the UUID of a device.
    pub(crate) fn uuid(&self, device: Handle) -> Result<String, Fault> {
        let mut bytes: [c_char; UUID_BYTES] = [0; UUID_BYTES];
        let mut length = UUID_BYTES as u32;
        call(&self.library, b"amdsmi_get_gpu_device_uuid\0", |get: Uuid| {
            // SAFETY: the prototype of amdsmi_get_gpu_device_uuid, and space for as many bytes as the length says.
            unsafe { get(device, &raw mut length, bytes.as_mut_ptr()) }
        })?;
        let text = bytes.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect();
        Ok(text)
    }

    /// Returns the pids of at most [`PROCESSES_MAX`] processes on a device, and the bytes that each uses.
    pub(crate) fn processes(&self, device: Handle) -> Result<Vec<(u32, u64)>, Fault> {
        let mut buffer = Buffer::of_processes(self.version, PROCESSES_MAX);
        let (mut count, into) = (PROCESSES_MAX as u32, buffer.clear().cast());
        let listed = status(&self.library, b"amdsmi_get_gpu_process_list\0", |get: Processes| {
            // SAFETY: the prototype of amdsmi_get_gpu_process_list, and space for as many as the count says.
            unsafe { get(device, &raw mut count, into) }
        });
        match listed? {
            OUT_OF_RESOURCES => {}
            status => checked(status)?,
        }
        Ok((0..PROCESSES_MAX.min(count as usize)).filter_map(|index| buffer.process(index)).collect())
    }

    /// Starts notifications of a device for the kinds in `mask`.
    pub(crate) fn watch(&self, device: Handle, mask: u64) -> Result<(), Fault> {
        self.of_device(b"amdsmi_init_gpu_event_notification\0", device)?;
        call(&self.library, b"amdsmi_set_gpu_event_notification_mask\0", |set: Mask| {
            // SAFETY: the prototype of amdsmi_set_gpu_event_notification_mask.
            unsafe { set(device, mask) }
        })
    }

    /// Stops the notifications of a device.
    pub(crate) fn unwatch(&self, device: Handle) -> Result<(), Fault> {
        self.of_device(b"amdsmi_stop_gpu_event_notification\0", device)
    }

    fn of_device(&self, name: &'static [u8], device: Handle) -> Result<(), Fault> {
        call(&self.library, name, |function: unsafe extern "C" fn(Handle) -> u32| {
            // SAFETY: both callers name functions of this prototype.
            unsafe { function(device) }
        })
    }

    /// Waits for the next notification.
    pub(crate) fn next(&self, at_most: Duration) -> Result<Notification, Fault> {
        let mut buffer = self.buffer();
        let (mut count, into) = (1, buffer.clear().cast());
        let timeout_ms = c_int::try_from(at_most.as_millis()).unwrap_or(c_int::MAX);
        call(&self.library, b"amdsmi_get_gpu_event_notification\0", |next: Next| {
            // SAFETY: the prototype of amdsmi_get_gpu_event_notification, and space for one notification.
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
        // Its status changes nothing here.
        let _ = call(&self.library, b"amdsmi_shut_down\0", |end: unsafe extern "C" fn() -> u32| {
            // SAFETY: the prototype of amdsmi_shut_down; no other user of this process is left.
            unsafe { end() }
        });
    }
}

/// Looks up a function by its NUL-terminated name and calls it; the closure must use its prototype.
fn call<F: Copy>(
    library: &libloading::Library,
    name: &'static [u8],
    call: impl FnOnce(F) -> u32,
) -> Result<(), Fault> {
    checked(status(library, name, call)?)
}

/// Looks up and calls a function, and returns its status unchecked.
fn status<F: Copy>(
    library: &libloading::Library,
    name: &'static [u8],
    call: impl FnOnce(F) -> u32,
) -> Result<u32, Fault> {
    // SAFETY: each caller names a function together with its prototype of amdsmi.h, and says so at the call.
    let function = unsafe { library.get::<F>(name) }.map_err(|_| Fault::Unsupported)?;
    Ok(call(*function))
}
