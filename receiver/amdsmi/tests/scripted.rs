//! Emitted metrics equal the driver's script: every metric, unit, attribute and time.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

mod common;

use common::registry::{Seen, is_of_hardware};
use common::*;

/// Every point of the device at ten seconds, derived from the script by hand.
const EXPECTED: &[(&str, f64)] = &[
    ("gpu.hardware.clock.frequency{gpu.hardware.clock.domain=graphics,<ID>} Hz", 2.1e9),
    ("gpu.hardware.clock.frequency{gpu.hardware.clock.domain=memory,<ID>} Hz", 1.3e9),
    ("gpu.hardware.clock.frequency{gpu.hardware.clock.domain=soc,<ID>} Hz", 9e8),
    ("gpu.hardware.clock.frequency{gpu.hardware.clock.domain=video,<ID>} Hz", 2.9e7),
    ("gpu.hardware.process.unreported{} {process}", 0.0),
    ("gpu.hardware.poll.duration{} s", 0.003),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=hw,<ID>} 1", 0.0),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=hw_slowdown,<ID>} 1", 0.0),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=hw_thermal,<ID>} 1", 1.0),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=memory_thermal,<ID>} 1", 0.0),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=sw_power_cap,<ID>} 1", 1.0),
    ("gpu.hardware.throttle.active{gpu.hardware.throttle.reason=vr_thermal,<ID>} 1", 0.0),
    ("gpu.hardware.throttle.duration{<SAMPLED>=hw,<ID>} s", 0.0),
    ("gpu.hardware.throttle.duration{<COUNTED>=hw_slowdown,<ID>} s", 0.0),
    ("gpu.hardware.throttle.duration{<COUNTED>=hw_thermal,<ID>} s", 0.1),
    ("gpu.hardware.throttle.duration{<COUNTED>=memory_thermal,<ID>} s", 0.0),
    ("gpu.hardware.throttle.duration{<COUNTED>=sw_power_cap,<ID>} s", 2.5),
    ("gpu.hardware.throttle.duration{<COUNTED>=vr_thermal,<ID>} s", 0.0),
    ("hw.energy{<ID>,hw.type=gpu} J", 30.6),
    ("hw.errors{error.type=corrected,<ID>,hw.type=gpu} {error}", 3.0),
    ("hw.errors{error.type=deferred,<ID>,hw.type=gpu} {error}", 2.0),
    ("hw.errors{error.type=pcie_nak_received,<ID>,hw.type=gpu} {error}", 4.0),
    ("hw.errors{error.type=pcie_nak_sent,<ID>,hw.type=gpu} {error}", 5.0),
    ("hw.errors{error.type=pcie_recovery,<ID>,hw.type=gpu} {error}", 6.0),
    ("hw.errors{error.type=pcie_replay,<ID>,hw.type=gpu} {error}", 7.0),
    ("hw.errors{error.type=uncorrected,<ID>,hw.type=gpu} {error}", 1.0),
    ("hw.fan.speed_ratio{hw.id=<UUID>/fan0,hw.name=GPU 0 fan 0,hw.parent=<UUID>} 1", 0.4),
    ("hw.gpu.io{gpu.hardware.link=xgmi,<HEAD>,<TAIL>,network.io.direction=receive} By", 2_252_800.0),
    ("hw.gpu.io{gpu.hardware.link=xgmi,<HEAD>,<TAIL>,network.io.direction=transmit} By", 4_505_600.0),
    ("hw.gpu.memory.limit{<HEAD>,<TAIL>} By", 206_158_430_208.0),
    ("hw.gpu.memory.usage{<HEAD>,<TAIL>} By", 51_539_607_552.0),
    ("hw.gpu.memory.utilization{<HEAD>,<TAIL>} 1", 0.25),
    ("hw.gpu.utilization{<HEAD>,hw.gpu.task=general,<TAIL>} 1", 0.93),
    ("hw.power{<ID>,hw.type=gpu} W", 612.0),
    ("hw.status{<ID>,hw.state=degraded,hw.type=gpu} 1", 0.0),
    ("hw.status{<ID>,hw.state=failed,hw.type=gpu} 1", 0.0),
    ("hw.status{<ID>,hw.state=ok,hw.type=gpu} 1", 1.0),
    ("hw.status{<ID>,hw.state=predicted_failure,hw.type=gpu} 1", 0.0),
    ("hw.temperature{<ID>,hw.sensor_location=edge} Cel", 48.0),
    ("hw.temperature{<ID>,hw.sensor_location=hotspot} Cel", 71.0),
    ("hw.temperature{<ID>,hw.sensor_location=memory} Cel", 63.0),
    ("4194303 gpu.hardware.process.memory.usage{hw.id=<UUID>} By", 1_048_576.0),
];

/// Abbreviations and their meaning.
const LONG: [(&str, &str); 6] = [
    ("<COUNTED>", "gpu.hardware.throttle.origin=counted,gpu.hardware.throttle.reason"),
    ("<HEAD>", "hw.driver_version=6.14.14,hw.firmware_version=022.040.003.042"),
    ("<ID>", "hw.id=<UUID>,hw.name=GPU 0"),
    ("<SAMPLED>", "gpu.hardware.throttle.origin=sampled,gpu.hardware.throttle.reason"),
    (
        "<TAIL>",
        "hw.id=<UUID>,hw.model=AMD Instinct MI300X,hw.name=GPU 0,hw.serial_number=692341,hw.vendor=AMD",
    ),
    ("<UUID>", "2cff74a1-0000-1000-80f1-000000000000"),
];

#[test]
fn every_metric_unit_attribute_and_value_equals_the_script() {
    let outputs = machine_of(WHOLE).polls([0, 10]);
    check_points(&outputs[1], EXPECTED, &LONG);
}

#[test]
fn older_and_newer_libraries_give_equal_points() {
    let [found, older, newer] = ["26.0.2", "25.3.0", "27.1.0"]
        .map(|version| points(&machine_of(&WHOLE.replace("26.0.2", version)).polls([0, 10])[1]));
    assert_eq!(older, found);
    assert_eq!(newer, found);
}

#[test]
fn chip_without_cycle_counters_is_read_by_its_bits() {
    let script = format!("{BITS}20s gpu0 throttle 0\n");
    let outputs = machine_of(&script).polls([0, 10, 20, 30]);
    let found = points(&outputs[1]);
    let active = |reason: &str| {
        found[&format!(
            "gpu.hardware.throttle.active{{gpu.hardware.throttle.reason={reason},hw.id=a1,hw.name=GPU 0}} 1"
        )]
    };
    let all = ["hw", "hw_slowdown", "hw_thermal", "memory_thermal", "sw_power_cap", "vr_thermal"];
    assert_eq!(all.map(active), [0.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    assert_eq!(found["hw.power{hw.id=a1,hw.name=GPU 0,hw.type=gpu} W"], 250.0);
    let key = "gpu.hardware.throttle.duration{gpu.hardware.throttle.origin=sampled,gpu.hardware.throttle.reason=memory_thermal,hw.id=a1,hw.name=GPU 0} s";
    let held: Vec<f64> = outputs.iter().map(|output| points(output)[key]).collect();
    assert_eq!(held, [0.0, 10.0, 20.0, 20.0]);
}

#[test]
fn partitions_with_one_id_are_distinguished() {
    let script =
        format!("{WHOLE}0s gpu0/part1 uuid 2cff74a1-0000-1000-80f1-000000000000\n0s gpu0/part1 power 5\n");
    let found = points(&machine_of(&script).polls([0])[0]);
    let powers: Vec<(&String, &f64)> = found.iter().filter(|(key, _)| key.starts_with("hw.power")).collect();
    let ids: Vec<bool> = powers.iter().map(|(key, _)| key.contains("000000000000/1,hw.name=GPU 1")).collect();
    assert_eq!(
        (ids, powers.iter().map(|(_, watts)| **watts).collect()),
        (vec![false, true], vec![612.0, 5.0])
    );
}

/// A machine on which every logged event happens.
const EVENTFUL: &str = "
    10s gpu0 notification 1
    20s gpu0 ecc.uncorrected 2
    30s gpu0 energy TIMEOUT
    40s gpu0 energy 9000000
    50s gpu0 * IO
    60s gpu0 * answers
    0s gpu1 uuid b2
    70s gpu1 present no
";

/// Signals that only drivers of other vendors emit.
const OF_OTHERS: [&str; 2] = ["gpu.hardware.xid", "gpu.xid"];

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
    for (signal, uses) in metrics.chain(events).filter(|(name, _)| ours(name)) {
        // Only a fan has a parent.
        let is_ours =
            |key: &str| !OF_OTHERS.contains(&key) && (key != "hw.parent" || signal == "hw.fan.speed_ratio");
        for used in uses.iter().filter(|used| is_ours(used.key)) {
            let pair = (signal.to_owned(), used.key.to_owned());
            assert!(seen.attributes.contains(&pair), "{pair:?} is declared and was not emitted");
        }
    }
}
