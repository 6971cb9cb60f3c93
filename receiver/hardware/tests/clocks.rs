//! Clocks of a driver that answers by a script, as events.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::thread;
use std::time::Duration;

use event::{Clocks, Device, Event, ExitStatus, ProcessId, ProcessInfo, ThrottleReason, ThrottleTime};
use hardware::{ClockPoller, ClockSamples, Driver, Fault, FirstDriver};
use simulator::DriverControl;

const MS: u64 = 1_000_000;

const GPU: &str = "\
0s gpu0 uuid GPU-5a
0s gpu0 pci 00000000:1B:00.0
0s gpu0 throttle 0
0s gpu0 throttled.hw_power_brake 7000000
0s gpu0 processes 100:5 7:5
";

/// Samples a script at these milliseconds, with processes at every other one.
fn sampled(script: &str, times: &[u64]) -> Vec<Event> {
    let folder = tempfile::tempdir().unwrap();
    let control = DriverControl::nvml(folder.path()).unwrap();
    assert!(control.set_script(&format!("{GPU}{script}")));
    let mut library = nvml::NvmlLibrary { path: control.path().into() };
    let (mut samples, mut events) = (ClockSamples::default(), Vec::new());
    let opened = library.open(&mut |session| {
        for (at, time) in times.iter().enumerate() {
            control.set_now(time * MS);
            let readings = session.read_clocks(at % 2 == 0).unwrap();
            events.extend(samples.sample(time * MS, &readings, at % 2 == 0));
        }
    });
    opened.unwrap();
    events
}

fn clocks(from_ms: u64, to_ms: u64, held: &[(ThrottleReason, u64, bool)]) -> Event {
    let held = held.iter().map(|(reason, ms, is_counted)| ThrottleTime {
        reason: *reason,
        ns: ms * MS,
        is_counted: *is_counted,
    });
    Event::Clocks(Clocks { from_ns: from_ms * MS, to_ns: to_ms * MS, device: 0, throttled: held.collect() })
}

fn device(at_ms: u64, processes: &[u32]) -> Event {
    let (id, pci) = ("GPU-5a".to_owned(), "00000000:1B:00.0".to_owned());
    Event::Device(Box::new(Device { at_ns: at_ms * MS, index: 0, id, pci, processes: processes.to_vec() }))
}

#[test]
fn throttle_time_is_counted_by_the_driver_or_sampled() {
    let script =
        "100ms gpu0 throttle 136\n150ms gpu0 throttled.hw_power_brake 38000000\n300ms gpu0 throttle 1";
    let held = |ms, slow| {
        let mut all = Vec::new();
        all.extend((ms > 0).then_some((ThrottleReason::HwPowerBrake, ms, true)));
        all.extend((slow > 0).then_some((ThrottleReason::HwSlowdown, slow, false)));
        all
    };
    assert_eq!(
        sampled(script, &[0, 100, 200, 300, 400]),
        [
            device(0, &[7, 100]),
            clocks(0, 100, &[]),
            clocks(100, 200, &held(31, 100)),
            clocks(200, 300, &held(0, 100)),
            clocks(300, 400, &[]),
        ]
    );
}

#[test]
fn device_changes_are_reported_and_losses_leave_a_gap() {
    let script = "150ms gpu0 processes 9:5\n250ms gpu0 * GPU_IS_LOST\n350ms gpu0 * answers\n350ms gpu0 throttled.hw_power_brake 1000000";
    assert_eq!(
        sampled(script, &[0, 100, 200, 300, 400, 500]),
        [
            device(0, &[7, 100]),
            clocks(0, 100, &[]),
            device(200, &[9]),
            clocks(100, 200, &[]),
            device(400, &[9]),
            clocks(400, 500, &[]),
        ]
    );
}

/// An AMD GPU whose firmware counts 1000 cycles per second, a quarter of them at its power limit.
const AMD: &str = "\
0s gpu0 uuid 2cff
0s gpu0 bdf 49408
0s gpu0 processes 100:5 7:5
0s gpu0 clock_ns 0 +1000000000/s
0s gpu0 accumulation 1000000 +1000/s
0s gpu0 held.ppt 0 +250/s
";

#[test]
fn second_driver_is_polled_when_the_first_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let control = DriverControl::amdsmi(folder.path()).unwrap();
    assert!(control.set_script(AMD));
    let nowhere = nvml::NvmlLibrary { path: folder.path().join("libnvidia-ml.so.1").into() };
    let mut driver =
        FirstDriver(vec![Box::new(nowhere), Box::new(amdsmi::AmdsmiLibrary::at(control.path()))]);
    let (mut samples, mut events) = (ClockSamples::default(), Vec::new());
    let opened = driver.open(&mut |session| {
        for (at, time) in [0, 100, 200].into_iter().enumerate() {
            control.set_now(time * MS);
            let readings = session.read_clocks(at == 0).unwrap();
            events.extend(samples.sample(time * MS, &readings, at == 0));
        }
    });
    assert_eq!(opened, Ok(()));
    let (id, pci) = ("2cff".to_owned(), "0000:c1:00.0".to_owned());
    let device = Device { at_ns: 0, index: 0, id, pci, processes: vec![7, 100] };
    let capped = [(ThrottleReason::SwPowerCap, 25, true)];
    assert_eq!(events, [Event::Device(Box::new(device)), clocks(0, 100, &capped), clocks(100, 200, &capped)]);
}

#[test]
fn fault_is_that_of_the_first_driver() {
    let folder = tempfile::tempdir().unwrap();
    let control = DriverControl::nvml(folder.path()).unwrap();
    assert!(control.set_script("0s driver init DRIVER_NOT_LOADED"));
    let refusing = nvml::NvmlLibrary { path: control.path().into() };
    let mut driver =
        FirstDriver(vec![Box::new(refusing), Box::new(amdsmi::AmdsmiLibrary::at("/no/such/library.so"))]);
    assert_eq!(driver.open(&mut |_| {}), Err(Fault::Failed("driver_not_loaded")));
}

#[test]
fn devices_are_polled_while_a_process_runs() {
    let folder = tempfile::tempdir().unwrap();
    let control = DriverControl::nvml(folder.path()).unwrap();
    assert!(control.set_script(GPU));
    let library = nvml::NvmlLibrary { path: control.path().into() };
    let process = ProcessId { pid: 7, start_ns: 1 };
    let mut poller = ClockPoller::start(Duration::from_millis(1), Box::new(library), || 5);
    assert_eq!(control.calls(), 0);
    let mut events = vec![Event::Process(Box::new(ProcessInfo { process, ..ProcessInfo::default() }))];
    poller.read(0, &mut events);
    assert!(poller.is_wanted());
    while !events.iter().any(|event| matches!(event, Event::Clocks(_))) {
        let before = events.len();
        poller.read(before, &mut events);
        thread::yield_now();
    }
    assert!(events.iter().any(|event| matches!(event, Event::Device(device) if device.id == "GPU-5a")));
    let before = events.len();
    events.push(Event::Exit { process, at_ns: 2, status: ExitStatus::Unknown });
    poller.read(before, &mut events);
    assert!(!poller.is_wanted());
}
