//! The built stub libraries, embedded in this crate, and their installation.

use std::io;
use std::path::{Path, PathBuf};

use probe_abi::Library;

use crate::{amdsmi, nvml};

/// A built stub library.
#[derive(Clone, Copy, Debug)]
pub struct Built {
    /// Library that it replaces.
    pub library: Library,
    /// File name and soname.
    pub file_name: &'static str,
    /// Bytes of the shared object.
    pub bytes: &'static [u8],
}

/// The stub libraries of probed functions.
pub static BUILT: [Built; 4] = [
    Built {
        library: Library::Amdhip,
        file_name: "libamdhip64.so.6",
        bytes: include_bytes!(concat!(env!("OUT_DIR"), "/libamdhip64.so")),
    },
    Built {
        library: Library::Cuda,
        file_name: "libcuda.so.1",
        bytes: include_bytes!(concat!(env!("OUT_DIR"), "/libcuda.so")),
    },
    Built {
        library: Library::Cudart,
        file_name: "libcudart.so.12",
        bytes: include_bytes!(concat!(env!("OUT_DIR"), "/libcudart.so")),
    },
    Built {
        library: Library::Nccl,
        file_name: "libnccl.so.2",
        bytes: include_bytes!(concat!(env!("OUT_DIR"), "/libnccl.so")),
    },
];

/// The stub libnvidia-ml, which has no probed functions.
static NVML: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libnvidia_ml.so"));

/// The stub libamd_smi, which has no probed functions.
static AMDSMI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libamd_smi.so"));

/// Objects that export the trace context variable, as the native parts of tracers do, and `warptap_stub_context`, which
/// returns the address of the calling thread's. Each uses another TLS access model.
pub static PUBLISHERS: [(&str, &[u8]); 4] = [
    ("libpublisher_descriptor.so", include_bytes!(concat!(env!("OUT_DIR"), "/libpublisher_descriptor.so"))),
    (
        "libpublisher_descriptor_near.so",
        include_bytes!(concat!(env!("OUT_DIR"), "/libpublisher_descriptor_near.so")),
    ),
    ("libpublisher_distance.so", include_bytes!(concat!(env!("OUT_DIR"), "/libpublisher_distance.so"))),
    ("libpublisher_module.so", include_bytes!(concat!(env!("OUT_DIR"), "/libpublisher_module.so"))),
];

/// The paths of installed libraries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Paths {
    /// Path of libamdhip64.so.6.
    pub amdhip: PathBuf,
    /// Path of libcuda.so.1.
    pub cuda: PathBuf,
    /// Path of libcudart.so.12.
    pub cudart: PathBuf,
    /// Path of libnccl.so.2.
    pub nccl: PathBuf,
}

impl Paths {
    /// Returns the paths in the directory that [`install`] was called with.
    pub fn under(dir: &Path) -> Paths {
        let [amdhip, cuda, cudart, nccl] = BUILT.map(|built| dir.join(built.file_name));
        Paths { amdhip, cuda, cudart, nccl }
    }

    /// Returns the path of a library.
    pub fn of(&self, library: Library) -> &Path {
        match library {
            Library::Amdhip => &self.amdhip,
            Library::Cuda => &self.cuda,
            Library::Cudart => &self.cudart,
            Library::Nccl => &self.nccl,
        }
    }
}

/// Installs the stub libraries of probed functions in `dir`, creating it if necessary. An identical file is left alone, so
/// that players share it; another is replaced by renaming, so that programs that have mapped it continue to run.
pub fn install(dir: &Path) -> io::Result<Paths> {
    std::fs::create_dir_all(dir)?;
    for built in &BUILT {
        put(&dir.join(built.file_name), built.bytes)?;
    }
    Ok(Paths::under(dir))
}

/// Installs the stub libnvidia-ml in `dir` and returns its path.
pub fn install_nvml(dir: &Path) -> io::Result<PathBuf> {
    install_one(dir, nvml::FILE_NAME, NVML)
}

/// Installs the stub libamd_smi in `dir` and returns its path.
pub fn install_amdsmi(dir: &Path) -> io::Result<PathBuf> {
    install_one(dir, amdsmi::FILE_NAME, AMDSMI)
}

fn install_one(dir: &Path, file_name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join(file_name);
    put(&path, bytes)?;
    Ok(path)
}

/// Installs one of [`PUBLISHERS`] in `dir` and returns its path.
pub fn install_publisher(dir: &Path, (name, bytes): (&str, &[u8])) -> io::Result<PathBuf> {
    install_one(dir, name, bytes)
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    std::fs::write(&draft, bytes)?;
    std::fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_install_replaces_only_files_that_differ() {
        use std::os::unix::fs::MetadataExt;
        let dir = std::env::temp_dir().join(format!("stubs-install-{}", std::process::id()));
        let paths = install(&dir).unwrap();
        let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
        let before = inode(&paths.cudart);
        assert_eq!(install(&dir).unwrap(), paths);
        assert_eq!(inode(&paths.cudart), before);
        std::fs::write(&paths.cudart, "an older build").unwrap();
        let open = std::fs::File::open(&paths.cudart).unwrap();
        assert_eq!(install(&dir).unwrap(), paths);
        assert_ne!(inode(&paths.cudart), before);
        assert_eq!(open.metadata().unwrap().ino(), before);
        for built in &BUILT {
            assert_eq!(std::fs::read(paths.of(built.library)).unwrap(), built.bytes);
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
