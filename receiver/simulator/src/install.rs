//! The built libraries as bytes inside this one, and onto a disk.

use std::io;
use std::path::{Path, PathBuf};

use probe_abi::Library;

use crate::{amdsmi, nvml};

/// A stub library as it was built.
#[derive(Clone, Copy, Debug)]
pub struct Built {
    /// What it is of.
    pub library: Library,
    /// Its file name and soname.
    pub file_name: &'static str,
    /// The shared object.
    pub bytes: &'static [u8],
}

/// The stub libraries.
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

/// The stub libnvidia-ml, which is no library of calls: nothing of it is traced.
static NVML: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libnvidia_ml.so"));

/// The same of libamd_smi.
static AMDSMI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libamd_smi.so"));

/// Objects that export the variable of trace contexts, as tracers' native parts do, and the function
/// `warptap_stub_context`, which gives the address of the calling thread's. Each reaches it in another way.
pub static PUBLISHERS: [(&str, &[u8]); 4] = [
    ("libpublisher_descriptor.so", include_bytes!(concat!(env!("OUT_DIR"), "/libpublisher_descriptor.so"))),
    (
        "libpublisher_descriptor_near.so",
        include_bytes!(concat!(env!("OUT_DIR"), "/libpublisher_descriptor_near.so")),
    ),
    ("libpublisher_distance.so", include_bytes!(concat!(env!("OUT_DIR"), "/libpublisher_distance.so"))),
    ("libpublisher_module.so", include_bytes!(concat!(env!("OUT_DIR"), "/libpublisher_module.so"))),
];

/// Where installed libraries lie.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Paths {
    /// libamdhip64.so.6.
    pub amdhip: PathBuf,
    /// libcuda.so.1.
    pub cuda: PathBuf,
    /// libcudart.so.12.
    pub cudart: PathBuf,
    /// libnccl.so.2.
    pub nccl: PathBuf,
}

impl Paths {
    /// Where [`install`] puts them under `dir`.
    pub fn under(dir: &Path) -> Paths {
        let [amdhip, cuda, cudart, nccl] = BUILT.map(|built| dir.join(built.file_name));
        Paths { amdhip, cuda, cudart, nccl }
    }

    /// The file of a library.
    pub fn of(&self, library: Library) -> &Path {
        match library {
            Library::Amdhip => &self.amdhip,
            Library::Cuda => &self.cuda,
            Library::Cudart => &self.cudart,
            Library::Nccl => &self.nccl,
        }
    }
}

/// Writes the stub libraries into `dir`, which is made where it is missing. One that is there already stays, so that
/// players share it; another file of its name is replaced by renaming, so that a program that has it mapped keeps it.
pub fn install(dir: &Path) -> io::Result<Paths> {
    std::fs::create_dir_all(dir)?;
    for built in &BUILT {
        put(&dir.join(built.file_name), built.bytes)?;
    }
    Ok(Paths::under(dir))
}

/// Writes the stub libnvidia-ml into `dir` the same way, and says where it is.
pub fn install_nvml(dir: &Path) -> io::Result<PathBuf> {
    install_one(dir, nvml::FILE_NAME, NVML)
}

/// Writes the stub libamd_smi into `dir` the same way, and says where it is.
pub fn install_amdsmi(dir: &Path) -> io::Result<PathBuf> {
    install_one(dir, amdsmi::FILE_NAME, AMDSMI)
}

fn install_one(dir: &Path, file_name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join(file_name);
    put(&path, bytes)?;
    Ok(path)
}

/// Writes one of [`PUBLISHERS`] into `dir` the same way, and says where it is.
pub fn install_publisher(dir: &Path, (name, bytes): (&str, &[u8])) -> io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join(name);
    put(&path, bytes)?;
    Ok(path)
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
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
    fn installing_again_replaces_what_differs_and_leaves_the_mapped_file_alone() {
        use std::os::unix::fs::MetadataExt;
        let dir = std::env::temp_dir().join(format!("stubs-install-{}", std::process::id()));
        let paths = install(&dir).unwrap();
        let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
        let before = inode(&paths.cudart);
        assert_eq!(install(&dir).unwrap(), paths);
        assert_eq!(inode(&paths.cudart), before);
        std::fs::write(&paths.cudart, "an older build").unwrap();
        let held = std::fs::File::open(&paths.cudart).unwrap();
        assert_eq!(install(&dir).unwrap(), paths);
        assert_ne!(inode(&paths.cudart), before);
        assert_eq!(held.metadata().unwrap().ino(), before);
        for built in &BUILT {
            assert_eq!(std::fs::read(paths.of(built.library)).unwrap(), built.bytes);
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
