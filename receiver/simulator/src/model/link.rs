//! The dynamic linker functions that a library needs to find its driver.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const RTLD_NOW: c_int = 2;
const RTLD_NOLOAD: c_int = 4;

#[repr(C)]
struct DlInfo {
    file_name: *const c_char,
    base: *mut c_void,
    symbol_name: *const c_char,
    symbol: *mut c_void,
}

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

/// A loaded library. It is never unloaded, as real GPU libraries are not.
#[derive(Clone, Copy, Debug)]
pub struct Loaded(usize);

impl Loaded {
    /// Loads the library at `path`.
    pub fn open(path: &Path) -> Option<Loaded> {
        Loaded::with(path.as_os_str(), RTLD_NOW)
    }

    /// Returns the library of this name if the process has loaded it.
    pub fn present(name: &str) -> Option<Loaded> {
        Loaded::with(OsStr::new(name), RTLD_NOW | RTLD_NOLOAD)
    }

    fn with(name: &OsStr, flags: c_int) -> Option<Loaded> {
        let name = CString::new(name.as_bytes()).ok()?;
        // SAFETY: `name` is a NUL-terminated string that outlives the call. Initialisers of the library run;
        // the libraries opened here are the stubs, which have none.
        let library = unsafe { dlopen(name.as_ptr(), flags) };
        (!library.is_null()).then_some(Loaded(library as usize))
    }

    /// Returns the address of an exported symbol, or 0.
    pub fn find(self, symbol: &str) -> usize {
        let Ok(symbol) = CString::new(symbol) else { return 0 };
        // SAFETY: the handle came from dlopen and is never closed; `symbol` outlives the call.
        unsafe { dlsym(self.0 as *mut c_void, symbol.as_ptr()) as usize }
    }
}

/// Returns the file that the code at `address` was loaded from.
pub fn file_of(address: usize) -> Option<PathBuf> {
    let null = std::ptr::null_mut();
    let mut info =
        DlInfo { file_name: null as *const c_char, base: null, symbol_name: null as _, symbol: null };
    // SAFETY: `info` has the linker's layout and outlives the call; any address may be passed.
    let found = unsafe { dladdr(address as *const c_void, &mut info) };
    if found == 0 || info.file_name.is_null() {
        return None;
    }
    // SAFETY: the linker gave a NUL-terminated name that is valid while the library is loaded.
    let name = unsafe { CStr::from_ptr(info.file_name) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}
