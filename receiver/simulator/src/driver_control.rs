//! The stub of a driver's library in hand: the control functions of one installed copy.
//!
//! Whoever loads the same file shares its state; another copy is another driver.

#![allow(unsafe_code, reason = "functions of a shared object are called; each block says what must hold")]

use std::ffi::{CString, c_char};
use std::io;
use std::path::{Path, PathBuf};

use libloading::Library;

/// A loaded stub and where it lies.
#[derive(Debug)]
pub struct DriverControl {
    path: PathBuf,
    library: Library,
}

impl DriverControl {
    /// Puts a stub libnvidia-ml into `dir` and loads it.
    pub fn nvml(dir: &Path) -> io::Result<DriverControl> {
        DriverControl::load(crate::install_nvml(dir)?)
    }

    /// Puts a stub libamd_smi into `dir` and loads it.
    pub fn amdsmi(dir: &Path) -> io::Result<DriverControl> {
        DriverControl::load(crate::install_amdsmi(dir)?)
    }

    fn load(path: PathBuf) -> io::Result<DriverControl> {
        // SAFETY: our own library: loading it runs nothing but Rust's own beginning.
        let library = unsafe { Library::new(&path) }.map_err(io::Error::other)?;
        Ok(DriverControl { path, library })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From here on this script holds; false if it cannot be read.
    pub fn set_script(&self, text: &str) -> bool {
        let Ok(text) = CString::new(text) else { return false };
        let function =
            self.function::<unsafe extern "C" fn(*const c_char) -> u32>(b"warptap_stub_smi_script");
        // SAFETY: the prototype is the stub's, the text ends with a NUL.
        unsafe { function(text.as_ptr()) == 0 }
    }

    /// It is this time, nanoseconds since the script's beginning, until another is told.
    pub fn set_now(&self, at_ns: u64) {
        let function = self.function::<unsafe extern "C" fn(u64)>(b"warptap_stub_smi_now");
        // SAFETY: the prototype is the stub's.
        unsafe { function(at_ns) }
    }

    /// Questions asked so far.
    pub fn calls(&self) -> u64 {
        let function = self.function::<unsafe extern "C" fn() -> u64>(b"warptap_stub_smi_calls");
        // SAFETY: the prototype is the stub's.
        unsafe { function() }
    }

    fn function<F: Copy>(&self, name: &[u8]) -> F {
        // SAFETY: each caller names the prototype that the stub has.
        *unsafe { self.library.get::<F>(name) }.expect("the stub has its control functions")
    }
}
