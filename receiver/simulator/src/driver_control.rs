//! Control of a stub driver library by its control functions.
//!
//! All users of the same file share its state; another copy is another driver.

#![allow(unsafe_code, reason = "functions of a shared object are called; each block states its requirements")]

use std::ffi::{CString, c_char};
use std::io;
use std::path::{Path, PathBuf};

use libloading::Library;

/// A loaded stub driver library.
#[derive(Debug)]
pub struct DriverControl {
    path: PathBuf,
    library: Library,
}

impl DriverControl {
    /// Installs a stub libnvidia-ml in `dir` and loads it.
    pub fn nvml(dir: &Path) -> io::Result<DriverControl> {
        DriverControl::load(crate::install_nvml(dir)?)
    }

    /// Installs a stub libamd_smi in `dir` and loads it.
    pub fn amdsmi(dir: &Path) -> io::Result<DriverControl> {
        DriverControl::load(crate::install_amdsmi(dir)?)
    }

    fn load(path: PathBuf) -> io::Result<DriverControl> {
        // SAFETY: a stub library has no initialisers except those of Rust's standard library.
        let library = unsafe { Library::new(&path) }.map_err(io::Error::other)?;
        Ok(DriverControl { path, library })
    }

    /// Returns the path of the library.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the script; returns false if it could not be parsed.
    pub fn set_script(&self, text: &str) -> bool {
        let Ok(text) = CString::new(text) else { return false };
        let function =
            self.function::<unsafe extern "C" fn(*const c_char) -> u32>(b"warptap_stub_smi_script");
        // SAFETY: the prototype is the stub's, the text ends with a NUL.
        unsafe { function(text.as_ptr()) == 0 }
    }

    /// Stops the driver's clock at a time since the script's beginning, ns.
    pub fn set_now(&self, at_ns: u64) {
        let function = self.function::<unsafe extern "C" fn(u64)>(b"warptap_stub_smi_now");
        // SAFETY: the prototype is the stub's.
        unsafe { function(at_ns) }
    }

    /// Returns the number of queries.
    pub fn calls(&self) -> u64 {
        let function = self.function::<unsafe extern "C" fn() -> u64>(b"warptap_stub_smi_calls");
        // SAFETY: the prototype is the stub's.
        unsafe { function() }
    }

    fn function<F: Copy>(&self, name: &[u8]) -> F {
        // SAFETY: each caller passes the function's prototype.
        *unsafe { self.library.get::<F>(name) }.expect("a stub library exports its control functions")
    }
}
