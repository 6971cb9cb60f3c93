//! The libamd_smi of this machine, if installed: the receiver emits what the library reads from the kernel, and works
//! without a GPU.
//!
//! A folder that is mounted over `/sys` for one child simulates the kernel: the files that the library reads of an
//! MI300X, and a table of metrics in the layout of the kernel's driver (`gpu_metrics_v1_6` of kgd_pp_interface.h).

#![allow(clippy::print_stdout, reason = "what was seen or skipped is printed")]
#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use amdsmi::AmdsmiLibrary;
use hardware::{Driver as _, DriverQuery, Fault};

/// Variable with the path of the folder, for the child.
const TREE: &str = "WARPTAP_TEST_AMDSMI_SYS";
/// PCI address of the simulated device.
const DEVICE: &str = "devices/pci0/0000:c1:00.0";

#[test]
fn installed_library_answers_or_fails_repeatably() {
    for _ in 0..3 {
        let mut ids = Vec::new();
        let opened = AmdsmiLibrary::default().open(&mut |session| {
            let readings = session.read().unwrap();
            ids = readings.into_iter().map(|reading| reading.identity.id).collect();
            session.wait(Duration::ZERO);
        });
        match opened {
            Err(Fault::Failed("library_not_found")) => return println!("skipped: no libamd_smi here"),
            Err(fault) => assert!(!fault.name().is_empty() && ids.is_empty()),
            Ok(()) => assert!(ids.iter().all(|id| !id.is_empty())),
        }
        println!("{opened:?}: {ids:?}");
    }
}

#[test]
fn values_of_the_kernel_table_are_emitted() {
    if AmdsmiLibrary::default().open(&mut |_| {}) == Err(Fault::Failed("library_not_found")) {
        return println!("skipped: no libamd_smi here");
    }
    let tree = tempfile::tempdir().unwrap();
    build(tree.path());
    let script = r#"mount --make-rprivate / && mount --bind "$1" /sys && exec "$0" child --exact --nocapture --ignored"#;
    let mut child = Command::new("unshare");
    child.args(["-m", "sh", "-c", script]).arg(std::env::current_exe().unwrap()).arg(tree.path());
    let Ok(output) = child.env(TREE, tree.path()).output() else {
        return println!("skipped: no unshare here");
    };
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    if !output.status.success() && !out.contains("running 1 test") {
        return println!("skipped: nothing can be mounted over /sys here: {err}");
    }
    assert!(output.status.success(), "{out}{err}");
}

#[test]
#[ignore = "runs in the child of another test"]
fn child() {
    let Some(tree) = std::env::var_os(TREE) else { return };
    let metrics = Path::new(&tree).join(DEVICE).join("gpu_metrics");
    let mut readings = Vec::new();
    let opened = AmdsmiLibrary::default().open(&mut |session| {
        for at_ms in [0, 1000] {
            fs::write(&metrics, table(at_ms)).unwrap();
            readings = session.read().unwrap();
        }
    });
    assert_eq!((opened, readings.len()), (Ok(()), 1));
    let reading = &readings[0];
    assert_eq!(reading.identity.pci, "0000:c1:00.0");
    let value = |query| reading.value(query).map_err(Fault::name);
    use DriverQuery::*;
    let expected = [
        (ClockGraphics, Ok(2100)),
        (ClockMemory, Ok(1300)),
        (ClockSoc, Ok(900)),
        (ClockVideo, Ok(29)),
        // 2 001 000 units of 15.3 uJ.
        (Energy, Ok(30_615)),
        (MemoryTotal, Ok(206_158_430_208)),
        (MemoryUsed, Ok(51_539_607_552)),
        (PcieNakReceived, Ok(4)),
        (PcieNakSent, Ok(5)),
        (PcieRecovery, Ok(6)),
        (PcieReplay, Ok(7)),
        (Power, Ok(612_000)),
        (TemperatureEdge, Err("not_supported")),
        (TemperatureHotspot, Ok(71)),
        (TemperatureMemory, Ok(63)),
        (ThrottledHwSlowdown, Ok(0)),
        (ThrottledHwThermal, Ok(10_000_000)),
        (ThrottledSwPowerCap, Ok(250_000_000)),
        (Utilization, Ok(93)),
        (XgmiReceived, Ok(2000 * 1024)),
        (XgmiTransmitted, Ok(4000 * 1024)),
    ];
    assert_eq!(expected.map(|(query, _)| (query, value(query))), expected);
}

/// Creates the `/sys` of a machine with one CPU and one GPU.
fn build(tree: &Path) {
    let put = |path: String, text: &str| {
        let path = tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let link = |path: &str, to: &str| {
        fs::create_dir_all(tree.join(path).parent().unwrap()).unwrap();
        symlink(to, tree.join(path)).unwrap();
    };
    put("module/amdgpu/initstate".to_owned(), "live\n");
    for (file, text) in [
        ("vendor", "0x1002"),
        ("device", "0x74a1"),
        ("subsystem_vendor", "0x1002"),
        ("subsystem_device", "0x74a1"),
        ("revision", "0x00"),
        ("class", "0x120000"),
        ("unique_id", "2cff74a1"),
        ("numa_node", "0"),
        ("uevent", "DRIVER=amdgpu\nPCI_CLASS=120000\nPCI_ID=1002:74A1\nPCI_SLOT_NAME=0000:c1:00.0"),
        ("mem_info_vram_total", "206158430208"),
        ("mem_info_vram_used", "51539607552"),
        ("hwmon/hwmon0/name", "amdgpu"),
        ("drm/card0/dev", "226:0"),
        ("drm/card0/uevent", "MAJOR=226\nMINOR=0\nDEVNAME=dri/card0\nDEVTYPE=drm_minor"),
        ("drm/renderD128/dev", "226:128"),
    ] {
        put(format!("{DEVICE}/{file}"), &format!("{text}\n"));
    }
    for node in ["card0", "renderD128"] {
        link(&format!("class/drm/{node}"), &format!("../../{DEVICE}/drm/{node}"));
        link(&format!("{DEVICE}/drm/{node}/device"), "../../../0000:c1:00.0");
    }
    link("bus/pci/devices/0000:c1:00.0", &format!("../../../{DEVICE}"));
    let nodes = "class/kfd/kfd/topology/nodes";
    let cpu = "cpu_cores_count 16\nsimd_count 0\nlocation_id 0\ndomain 0\nunique_id 0\ndrm_render_minor 0\n\
               vendor_id 0\n";
    let gpu = "cpu_cores_count 0\nsimd_count 1216\nmem_banks_count 1\ncaches_count 10\nio_links_count 1\n\
               max_waves_per_simd 8\nlds_size_in_kb 64\nwave_front_size 64\narray_count 32\n\
               simd_arrays_per_engine 1\ncu_per_simd_array 10\nsimd_per_cu 4\nmax_slots_scratch_cu 32\n\
               gfx_target_version 90402\nvendor_id 4098\ndevice_id 29857\nlocation_id 49408\ndomain 0\n\
               drm_render_minor 128\nhive_id 0\nnum_sdma_engines 2\nnum_cp_queues 24\nlocal_mem_size 0\n\
               fw_version 166\nsdma_fw_version 21\nunique_id 754939041\nnum_xcc 8\n";
    for (node, id, name, properties) in [(0, "0", "CPU", cpu), (1, "4242", "MI300X", gpu)] {
        put(format!("{nodes}/{node}/gpu_id"), &format!("{id}\n"));
        put(format!("{nodes}/{node}/name"), &format!("{name}\n"));
        put(format!("{nodes}/{node}/properties"), properties);
    }
    let link = "type 2\nversion_major 0\nversion_minor 0\nnode_from 1\nnode_to 0\nweight 20\nmin_latency 0\n\
                max_latency 0\nmin_bandwidth 0\nmax_bandwidth 64000\nrecommended_transfer_size 0\nflags 1\n";
    put(format!("{nodes}/1/io_links/0/properties"), link);
    for folder in [format!("{nodes}/0/io_links/0"), "class/kfd/kfd/proc".to_owned(), "class/hwmon".to_owned()]
    {
        fs::create_dir_all(tree.join(folder)).unwrap();
    }
    fs::write(tree.join(DEVICE).join("gpu_metrics"), table(0)).unwrap();
}

/// Returns the kernel's table at a time: the firmware counts one cycle per millisecond; in one of four it throttles for
/// the power limit, in one of a hundred for temperature.
fn table(at_ms: u64) -> Vec<u8> {
    const SIZE: u16 = 1664;
    let mut bytes = Vec::new();
    let mut put = |size: usize, numbers: &[u64]| {
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()[..size]));
    };
    put(2, &[SIZE.into(), 0x0601]);
    // Temperature of the hottest spot, memory, regulators; power; utilization of the graphics engine and the memory.
    put(2, &[71, 63, 52, 612, 93, 20]);
    // Energy and time.
    put(8, &[2_000_000 + at_ms, 15_000_000_000 + at_ms * 1_000_000]);
    // All cycles, and those throttled by PROCHOT, power, temperature, regulators, memory; locks.
    put(4, &[1_000_000 + at_ms, 10, 7000 + at_ms / 4, 40 + at_ms / 100, 5, 6, 0]);
    // Link widths and speeds; accumulated utilization, and padding.
    put(2, &[16, 320, 16, 32]);
    put(4, &[7, 8, 0]);
    // PCIe: bandwidths, recoveries, replays, their overflows; rejected by this side and the other.
    put(8, &[11, 12, 6, 7, 0]);
    put(4, &[5, 4]);
    // XGMI, read and written; the firmware's time.
    put(8, &[1000, 1000, 0, 0, 0, 0, 0, 0, 2000, 2000, 0, 0, 0, 0, 0, 0, 77]);
    // Clocks of the graphics engines, the chip, the video engines; of the memory; partitions.
    put(2, &[[2100; 8].as_slice(), &[900; 4], &[29; 4], &[30; 4], &[1300, 1]].concat());
    bytes.resize(SIZE.into(), 0);
    bytes
}
