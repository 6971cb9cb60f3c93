//! AMD's own Python wrappers, from the Python package index, which declare every struct and prototype of a version.
//!
//! The offsets that are read and the prototypes that are called are compared with those of each version. Skipped with a
//! message without Python or a package index.

#![allow(clippy::print_stdout, reason = "a skip prints its reason")]
#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::path::{Path, PathBuf};
use std::process::Command;

use amdsmi::FIELDS;
use serde_json::Value;

/// Versions of ROCm, and the major version of the library in each.
const VERSIONS: [(&str, u32); 4] = [("6.4.0", 25), ("6.4.4", 25), ("7.0.0", 26), ("7.0.2", 26)];

/// Prints the offset of each requested member and the parameters of each function in the wrapper.
const PROGRAM: &str = r#"
import ctypes, json, os, pathlib, sys, types
class Function: pass
class Nothing:
    def __init__(self, *names, **options): self.__dict__["functions"] = {}
    def __getattr__(self, name): return self.functions.setdefault(name, Function())
def written(kind):
    if kind in (ctypes.c_void_p, None): return "pointer"
    if hasattr(kind, "contents"): return "pointer"
    return f"{'float' if kind is ctypes.c_float else 'int'}{8 * ctypes.sizeof(kind)}"
os.environ.setdefault("ROCM_PATH", "/")
pathlib.Path.exists = lambda path: True
ctypes.CDLL = Nothing
wrapper = types.ModuleType("wrapper")
wrapper.__file__ = sys.argv[1]
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), wrapper.__dict__)
members = {}
for name, struct in vars(wrapper).items():
    if isinstance(struct, type) and issubclass(struct, (ctypes.Structure, ctypes.Union)) and hasattr(struct, "_fields_"):
        of = name.removeprefix("struct_").removeprefix("union_")
        size = lambda f: ctypes.sizeof(f[1])
        members[of] = {f[0]: [getattr(struct, f[0]).offset, size(f)] for f in struct._fields_ if f[0]}
        members[of][""] = [0, ctypes.sizeof(struct)]
functions = {
    name: [written(kind) for kind in function.argtypes]
    for name, function in vars(wrapper).items() if isinstance(function, Function)
}
print(json.dumps({"members": members, "functions": functions}))
"#;

/// Parameters of the called functions.
const CALLED: [(&str, &[&str]); 23] = [
    ("amdsmi_get_energy_count", &["pointer", "pointer", "pointer", "pointer"]),
    ("amdsmi_get_gpu_asic_info", &["pointer", "pointer"]),
    ("amdsmi_get_gpu_board_info", &["pointer", "pointer"]),
    ("amdsmi_get_gpu_device_bdf", &["pointer", "pointer"]),
    ("amdsmi_get_gpu_device_uuid", &["pointer", "pointer", "pointer"]),
    ("amdsmi_get_gpu_driver_info", &["pointer", "pointer"]),
    ("amdsmi_get_gpu_event_notification", &["int32", "pointer", "pointer"]),
    ("amdsmi_get_gpu_fan_speed", &["pointer", "int32", "pointer"]),
    ("amdsmi_get_gpu_memory_total", &["pointer", "int32", "pointer"]),
    ("amdsmi_get_gpu_memory_usage", &["pointer", "int32", "pointer"]),
    ("amdsmi_get_gpu_metrics_info", &["pointer", "pointer"]),
    ("amdsmi_get_gpu_process_list", &["pointer", "pointer", "pointer"]),
    ("amdsmi_get_gpu_total_ecc_count", &["pointer", "pointer"]),
    ("amdsmi_get_gpu_vbios_info", &["pointer", "pointer"]),
    ("amdsmi_get_lib_version", &["pointer"]),
    ("amdsmi_get_processor_handles", &["pointer", "pointer", "pointer"]),
    ("amdsmi_get_processor_type", &["pointer", "pointer"]),
    ("amdsmi_get_socket_handles", &["pointer", "pointer"]),
    ("amdsmi_init", &["int64"]),
    ("amdsmi_init_gpu_event_notification", &["pointer"]),
    ("amdsmi_set_gpu_event_notification_mask", &["pointer", "int64"]),
    ("amdsmi_shut_down", &[]),
    ("amdsmi_stop_gpu_event_notification", &["pointer"]),
];

/// Downloads the wrapper of a version into the target folder; prints why and returns `None` if it cannot.
fn wrapper(version: &str) -> Option<PathBuf> {
    let dir = std::env::current_exe().unwrap().parent()?.join("wheels").join(format!("amdsmi-{version}"));
    let file = dir.join("amdsmi/amdsmi_wrapper.py");
    if !file.exists() {
        std::fs::create_dir_all(&dir).unwrap();
        let pip = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"];
        let package = format!("amdsmi=={version}");
        let downloaded = Command::new("python3").args(pip).arg(&dir).arg(&package).output();
        if !downloaded.is_ok_and(|output| output.status.success()) {
            println!("skipped: {package} cannot be downloaded with pip");
            return None;
        }
        let wheel = dir.join(format!("amdsmi-{version}-py3-none-any.whl"));
        Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&dir).status().unwrap();
    }
    Some(file)
}

fn described(wrapper: &Path) -> Value {
    let output = Command::new("python3").args(["-c", PROGRAM]).arg(wrapper).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn layouts_and_prototypes_equal_amds_wrappers() {
    for (version, major) in VERSIONS {
        let Some(wrapper) = wrapper(version) else { return };
        let described = described(&wrapper);
        for field in FIELDS {
            let place = field.place(major).unwrap();
            let found = &described["members"][field.of][field.name];
            assert_eq!(*found, serde_json::json!([place.at, place.size]), "{version}: {field:?}");
        }
        for (function, parameters) in CALLED {
            assert_eq!(
                described["functions"][function],
                serde_json::json!(parameters),
                "{version}: {function}"
            );
        }
        assert_eq!(described["members"]["amdsmi_proc_info_t"][""][1], 704, "{version}");
        assert!(described["members"]["amdsmi_gpu_metrics_t"][""][1].as_u64().unwrap() < 1 << 16, "{version}");
    }
}

/// Include folder of ROCm's development files.
const INCLUDES: [&str; 2] = ["/usr/include", "/opt/rocm/include"];

/// Returns a program that prints the major version of a header and the offset of every field.
fn program() -> String {
    let mut text = "#include <stddef.h>\n#include <stdio.h>\n#include <amd_smi/amdsmi.h>\nint main(void) {\n\
                    printf(\"%d\\n\", AMDSMI_LIB_VERSION_MAJOR);\n"
        .to_owned();
    for field in FIELDS {
        let (of, name) = (field.of, field.name);
        text += &format!("printf(\"%zu %zu\\n\", offsetof({of}, {name}), sizeof((({of} *)0)->{name}));\n");
    }
    text + "printf(\"%zu\\n\", sizeof(amdsmi_proc_info_t));\nreturn 0;\n}\n"
}

#[test]
fn layouts_equal_the_installed_header() {
    let include = INCLUDES.iter().find(|dir| Path::new(dir).join("amd_smi/amdsmi.h").exists());
    let Some(include) = include else { return println!("skipped: no amdsmi.h here") };
    let dir = tempfile::tempdir().unwrap();
    let [source, built] = ["places.c", "places"].map(|name| dir.path().join(name));
    std::fs::write(&source, program()).unwrap();
    let Ok(output) = Command::new("cc").arg("-I").arg(include).arg(&source).arg("-o").arg(&built).output()
    else {
        return println!("skipped: no cc here");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(Command::new(&built).output().unwrap().stdout).unwrap();
    let mut lines = output.lines();
    let version = lines.next().unwrap().parse().unwrap();
    if !amdsmi::VERSIONS.contains(&version) {
        return println!("skipped: amdsmi.h is of version {version}, which the receiver does not ask");
    }
    for field in FIELDS {
        let place = field.place(version).unwrap();
        assert_eq!(lines.next().unwrap(), format!("{} {}", place.at, place.size), "{version}: {field:?}");
    }
    assert_eq!(lines.next(), Some("704"));
}
