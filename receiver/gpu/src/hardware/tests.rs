//! Looks at a driver that answers by a script, as events.

use event::{ExitStatus, ProcessInfo};
use simulator::DriverControl;

use super::*;

const MS: u64 = 1_000_000;

const GPU: &str = "\
0s gpu0 uuid GPU-5a
0s gpu0 pci 00000000:1B:00.0
0s gpu0 throttle 0
0s gpu0 throttled.hw_power_brake 7000000
0s gpu0 processes 100:5 7:5
";

/// Looks at these milliseconds of a script, processes at every other one.
fn looked(script: &str, times: &[u64]) -> Vec<Event> {
    let folder = tempfile::tempdir().unwrap();
    let control = DriverControl::nvml(folder.path()).unwrap();
    assert!(control.set_script(&format!("{GPU}{script}")));
    let mut library = nvml::Library { path: control.path().into() };
    let (mut looks, mut events) = (Looks::default(), Vec::new());
    let opened = library.open(&mut |session| {
        for (at, time) in times.iter().enumerate() {
            control.set_now(time * MS);
            let readings = session.read_clocks(at % 2 == 0).unwrap();
            events.extend(looks.take(time * MS, &readings, at % 2 == 0));
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
fn two_looks_say_how_long_the_driver_counted_and_what_it_does_not_count_was_seen() {
    let script =
        "100ms gpu0 throttle 136\n150ms gpu0 throttled.hw_power_brake 38000000\n300ms gpu0 throttle 1";
    let held = |ms, slow| {
        let mut all = Vec::new();
        all.extend((ms > 0).then_some((ThrottleReason::HwPowerBrake, ms, true)));
        all.extend((slow > 0).then_some((ThrottleReason::HwSlowdown, slow, false)));
        all
    };
    assert_eq!(
        looked(script, &[0, 100, 200, 300, 400]),
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
fn a_device_is_told_again_when_others_use_it_and_a_lost_one_leaves_a_gap() {
    let script = "150ms gpu0 processes 9:5\n250ms gpu0 * GPU_IS_LOST\n350ms gpu0 * answers\n350ms gpu0 throttled.hw_power_brake 1000000";
    assert_eq!(
        looked(script, &[0, 100, 200, 300, 400, 500]),
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

/// Of a chip of AMD's, whose firmware counts a thousand cycles a second: a quarter of them at its power limit.
const AMD: &str = "\
0s gpu0 uuid 2cff
0s gpu0 bdf 49408
0s gpu0 processes 100:5 7:5
0s gpu0 clock_ns 0 +1000000000/s
0s gpu0 accumulation 1000000 +1000/s
0s gpu0 held.ppt 0 +250/s
";

#[test]
fn where_there_is_no_driver_of_nvidias_amds_is_looked_at_and_its_counts_are_times() {
    let folder = tempfile::tempdir().unwrap();
    let control = DriverControl::amdsmi(folder.path()).unwrap();
    assert!(control.set_script(AMD));
    let nowhere = nvml::Library { path: folder.path().join("libnvidia-ml.so.1").into() };
    let mut driver = FirstOf([Box::new(nowhere), Box::new(amdsmi::Library::at(control.path()))]);
    let (mut looks, mut events) = (Looks::default(), Vec::new());
    let opened = driver.open(&mut |session| {
        for (at, time) in [0, 100, 200].into_iter().enumerate() {
            control.set_now(time * MS);
            let readings = session.read_clocks(at == 0).unwrap();
            events.extend(looks.take(time * MS, &readings, at == 0));
        }
    });
    assert_eq!(opened, Ok(()));
    let (id, pci) = ("2cff".to_owned(), "0000:c1:00.0".to_owned());
    let device = Device { at_ns: 0, index: 0, id, pci, processes: vec![7, 100] };
    let capped = [(ThrottleReason::SwPowerCap, 25, true)];
    assert_eq!(events, [Event::Device(Box::new(device)), clocks(0, 100, &capped), clocks(100, 200, &capped)]);
}

#[test]
fn why_there_is_no_driver_is_what_the_first_says() {
    let folder = tempfile::tempdir().unwrap();
    let control = DriverControl::nvml(folder.path()).unwrap();
    assert!(control.set_script("0s driver init DRIVER_NOT_LOADED"));
    let refusing = nvml::Library { path: control.path().into() };
    let mut driver = FirstOf([Box::new(refusing), Box::new(amdsmi::Library::at("/no/such/library.so"))]);
    assert_eq!(driver.open(&mut |_| {}), Err(Fault::Failed("driver_not_loaded")));
}

/// A process that begins, and ends when it is told to.
struct Life {
    is_ending: Arc<AtomicBool>,
    has_begun: bool,
}

impl AnySource for Life {
    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, SourceError> {
        let process = ProcessId { pid: 7, start_ns: 1 };
        if !std::mem::replace(&mut self.has_begun, true) {
            into.push(Event::Process(Box::new(ProcessInfo { process, ..ProcessInfo::default() })));
        }
        if self.is_ending.swap(false, Ordering::Relaxed) {
            into.push(Event::Exit { process, at_ns: 2, status: ExitStatus::Unknown });
        }
        Ok(true)
    }
}

#[test]
fn devices_are_looked_at_while_there_is_a_process_and_the_driver_is_closed_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let control = DriverControl::nvml(folder.path()).unwrap();
    assert!(control.set_script(GPU));
    let library = nvml::Library { path: control.path().into() };
    let is_ending = Arc::new(AtomicBool::new(false));
    let life = Life { is_ending: Arc::clone(&is_ending), has_begun: false };
    let hardware = Hardware::look(Duration::from_millis(1), Box::new(library), || 5);
    let mut source = Beside { calls: Box::new(life), hardware };
    assert_eq!(control.calls(), 0);
    let mut events = Vec::new();
    while !events.iter().any(|event| matches!(event, Event::Clocks(_))) {
        assert!(source.read(&mut events).unwrap());
        thread::yield_now();
    }
    assert!(events.iter().any(|event| matches!(event, Event::Device(device) if device.id == "GPU-5a")));
    is_ending.store(true, Ordering::Relaxed);
    assert!(source.read(&mut events).unwrap());
    assert!(!source.hardware.shared.is_wanted.load(Ordering::Relaxed));
}
