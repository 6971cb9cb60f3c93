//! Emitted metrics equal the driver's script: every metric, unit, attribute and time.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

mod common;

use common::registry::{Seen, is_of_hardware};
use common::*;

/// Every point of the device at ten seconds, derived from the script by hand.
const EXPECTED: &[(&str, f64)] = &[
    ("gpu.hardware.clock.frequency{gpu.hardware.clock.domain=graphics,<ID>} Hz", 1.98e9),
    ("gpu.hardware.clock.frequency{gpu.hardware.clock.domain=memory,<ID>} Hz", 2.619e9),
    ("gpu.hardware.clock.frequency{gpu.hardware.clock.domain=sm,<ID>} Hz", 1.965e9),
    ("gpu.hardware.clock.frequency{gpu.hardware.clock.domain=video,<ID>} Hz", 1.545e9),
    ("gpu.hardware.process.unreported{} {process}", 0.0),
    ("gpu.hardware.poll.duration{} s", 0.003),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=applications_clocks,<ID>} 1", 0.0),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=display_clock,<ID>} 1", 0.0),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=hw,<ID>} 1", 0.0),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=hw_power_brake,<ID>} 1", 1.0),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=hw_slowdown,<ID>} 1", 0.0),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=hw_thermal,<ID>} 1", 0.0),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=sw_power_cap,<ID>} 1", 1.0),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=sw_thermal,<ID>} 1", 0.0),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=sync_boost,<ID>} 1", 0.0),
    ("gpu.hardware.throttle.duration{<SAMPLED>=applications_clocks,<ID>} s", 0.0),
    ("gpu.hardware.throttle.duration{<SAMPLED>=display_clock,<ID>} s", 0.0),
    ("gpu.hardware.throttle.duration{<SAMPLED>=hw,<ID>} s", 0.0),
    ("gpu.hardware.throttle.duration{<SAMPLED>=hw_slowdown,<ID>} s", 0.0),
    ("gpu.hardware.throttle.duration{<COUNTED>=hw_power_brake,<ID>} s", 0.031),
    ("gpu.hardware.throttle.duration{<COUNTED>=hw_thermal,<ID>} s", 0.0),
    ("gpu.hardware.throttle.duration{<COUNTED>=sw_power_cap,<ID>} s", 11.5),
    ("gpu.hardware.throttle.duration{<COUNTED>=sw_thermal,<ID>} s", 0.005),
    ("gpu.hardware.throttle.duration{<COUNTED>=sync_boost,<ID>} s", 0.0),
    ("hw.energy{<ID>,hw.type=gpu} J", 8000.0),
    ("hw.errors{error.type=corrected,<ID>,hw.type=gpu} {error}", 3.0),
    ("hw.errors{error.type=nvlink_crc_data,<ID>,hw.type=gpu} {error}", 4.0),
    ("hw.errors{error.type=nvlink_crc_flit,<ID>,hw.type=gpu} {error}", 5.0),
    ("hw.errors{error.type=nvlink_recovery,<ID>,hw.type=gpu} {error}", 6.0),
    ("hw.errors{error.type=nvlink_replay,<ID>,hw.type=gpu} {error}", 7.0),
    ("hw.errors{error.type=pcie_replay,<ID>,hw.type=gpu} {error}", 8.0),
    ("hw.errors{error.type=uncorrected,<ID>,hw.type=gpu} {error}", 1.0),
    ("hw.fan.speed_ratio{hw.id=GPU-5a/fan0,hw.name=GPU 0 fan 0,hw.parent=GPU-5a} 1", 0.45),
    ("hw.fan.speed_ratio{hw.id=GPU-5a/fan1,hw.name=GPU 0 fan 1,hw.parent=GPU-5a} 1", 0.5),
    ("hw.gpu.io{<HEAD>,<TAIL>,network.io.direction=receive} By", 2000.0),
    ("hw.gpu.io{<HEAD>,<TAIL>,network.io.direction=transmit} By", 4000.0),
    ("hw.gpu.memory.limit{<HEAD>,<TAIL>} By", 85_899_345_920.0),
    ("hw.gpu.memory.usage{<HEAD>,<TAIL>} By", 21_474_836_480.0),
    ("hw.gpu.memory.utilization{<HEAD>,<TAIL>} 1", 0.25),
    ("hw.gpu.utilization{<HEAD>,hw.gpu.task=decoder,<TAIL>} 1", 0.34),
    ("hw.gpu.utilization{<HEAD>,hw.gpu.task=encoder,<TAIL>} 1", 0.12),
    ("hw.gpu.utilization{<HEAD>,hw.gpu.task=general,<TAIL>} 1", 0.87),
    ("hw.power{<ID>,hw.type=gpu} W", 312.5),
    ("hw.status{<ID>,hw.state=degraded,hw.type=gpu} 1", 0.0),
    ("hw.status{<ID>,hw.state=failed,hw.type=gpu} 1", 0.0),
    ("hw.status{<ID>,hw.state=ok,hw.type=gpu} 1", 1.0),
    ("hw.status{<ID>,hw.state=predicted_failure,hw.type=gpu} 1", 0.0),
    ("hw.temperature{<ID>,hw.sensor_location=gpu} Cel", 61.0),
    ("hw.temperature{<ID>,hw.sensor_location=memory} Cel", 72.0),
    ("4194303 gpu.hardware.process.memory.usage{hw.id=GPU-5a} By", 1_048_576.0),
];

/// Abbreviations and their meaning.
const LONG: [(&str, &str); 5] = [
    ("<COUNTED>", "gpu.hardware.throttle.origin=counted,gpu.hardware.throttle.reason"),
    ("<HEAD>", "hw.driver_version=550.54.15,hw.firmware_version=96.00"),
    ("<ID>", "hw.id=GPU-5a,hw.name=GPU 0"),
    ("<SAMPLED>", "gpu.hardware.throttle.origin=sampled,gpu.hardware.throttle.reason"),
    (
        "<TAIL>",
        "hw.id=GPU-5a,hw.model=NVIDIA H100 80GB HBM3,hw.name=GPU 0,hw.serial_number=165,hw.vendor=NVIDIA",
    ),
];

#[test]
fn every_metric_unit_attribute_and_value_equals_the_script() {
    let outputs = machine_of(WHOLE).polls([0, 10]);
    check_points(&outputs[1], EXPECTED, &LONG);
}

#[test]
fn newer_driver_with_other_fields_gives_equal_points() {
    let older = points(&machine_of(WHOLE).polls([10])[0]);
    let newer = WHOLE.replace("550.54.15", "580.95.05");
    let newer = points(&machine_of(&newer).polls([10])[0]);
    let newer: Vec<(String, f64)> =
        newer.into_iter().map(|(key, value)| (key.replace("580.95.05", "550.54.15"), value)).collect();
    assert_eq!(newer, older.into_iter().collect::<Vec<_>>());
}

/// A machine on which every logged event happens.
const EVENTFUL: &str = "
    10s gpu0 xid 79
    20s gpu0 ecc.uncorrected 2
    30s gpu0 power TIMEOUT
    40s gpu0 power 200000
    50s gpu0 * GPU_IS_LOST
    60s gpu0 * answers
    0s gpu1 uuid GPU-6b
    70s gpu1 present no
    0s gpu0/mig0 uuid MIG-1
    0s gpu0/mig0 name NVIDIA H100 MIG 1g.10gb
    0s gpu0/mig0 memory.total 1000
    0s gpu0/mig0 memory.used 250
";

/// Signals that only drivers of other vendors emit.
const OF_OTHERS: [&str; 2] = ["gpu.hardware.link", "gpu.hardware.notification"];

#[test]
fn exactly_the_declared_hardware_signals_are_emitted() {
    let mut seen = Seen::default();
    for output in machine_of(&format!("{WHOLE}{EVENTFUL}")).polls((0..=8).map(|n| n * 10)) {
        seen.check(&output);
    }
    let ours = |name: &&str| is_of_hardware(name) && !OF_OTHERS.contains(name);
    let metrics: Vec<&str> = semconv::METRICS.iter().map(|m| m.name()).filter(ours).collect();
    assert_eq!(seen.metrics.iter().collect::<Vec<_>>(), metrics);
    let events: Vec<&str> = semconv::EVENTS.iter().map(|e| e.name).filter(ours).collect();
    assert_eq!(seen.events.iter().collect::<Vec<_>>(), events);
    let metrics = semconv::METRICS.iter().map(|m| (m.name(), m.attributes()));
    let events = semconv::EVENTS.iter().map(|e| (e.name, e.attributes));
    // A partition has only memory of its own, so that no other signal has a parent here.
    let has_parent = ["hw.fan.speed_ratio", "hw.gpu.memory.limit", "hw.gpu.memory.usage", "hw.status"];
    let has_parent = |name: &str| has_parent.contains(&name) || name == "gpu.hardware.device.discovered";
    for (signal, uses) in metrics.chain(events).filter(|(name, _)| ours(name)) {
        let is_ours = |key: &str| !OF_OTHERS.contains(&key) && (key != "hw.parent" || has_parent(signal));
        for used in uses.iter().filter(|used| is_ours(used.key)) {
            let pair = (signal.to_owned(), used.key.to_owned());
            assert!(seen.attributes.contains(&pair), "{pair:?} is declared and was not emitted");
        }
    }
}

#[test]
fn partition_has_its_parent_and_its_processes_once() {
    let script = format!("{WHOLE}{EVENTFUL}\n0s gpu0/mig0 processes 4194303:1048576");
    let found = points(&machine_of(&script).polls([1])[0]);
    let of_part: Vec<&String> = found.keys().filter(|key| key.contains("hw.id=MIG-1")).collect();
    assert!(of_part.iter().all(|key| key.contains("hw.parent=GPU-5a") || key.starts_with("4194303 ")));
    let used = found.iter().find(|(key, _)| key.starts_with("hw.gpu.memory.usage") && key.contains("MIG-1"));
    assert_eq!(used.map(|(_, bytes)| *bytes), Some(250.0));
    let of_process: Vec<&String> = found.keys().filter(|key| key.starts_with("4194303 ")).collect();
    assert_eq!(of_process, ["4194303 gpu.hardware.process.memory.usage{hw.id=MIG-1} By"]);
}

#[test]
fn largest_processes_have_series_and_the_others_are_counted() {
    let list: Vec<String> = (1..=80).map(|n| format!("{}:{}", 4_000_000 + n, n * 1000)).collect();
    let script = format!("{WHOLE}1s gpu0 processes {}\n", list.join(" "));
    let found = points(&machine_of(&script).polls([2])[0]);
    let processes: Vec<&String> = found.keys().filter(|key| key.contains("process.memory")).collect();
    assert_eq!((processes.len(), found["gpu.hardware.process.unreported{} {process}"]), (64, 16.0));
    assert!(processes[0].starts_with("4000017 "), "{}", processes[0]);
}
