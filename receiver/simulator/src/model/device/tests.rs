//! Tests of the device model in virtual time.

use super::*;

struct Scene {
    device: DeviceModel,
    now_ns: u64,
}

impl Scene {
    fn new() -> Scene {
        Scene { device: DeviceModel::default(), now_ns: 1_000 }
    }

    fn act(&mut self, call: DecodedCall, gpu_ns: u64) -> Done {
        let at = Moment { now_ns: self.now_ns, tid: 7, ..Moment::default() };
        self.device.act(&call, &Order { gpu_ns, ..Order::NONE }, &at)
    }

    fn make(&mut self, effect: Effect) -> u64 {
        self.act(DecodedCall { effect, ..DecodedCall::default() }, 0).written.unwrap()
    }

    fn launch(&mut self, stream: u64, gpu_ns: u64) -> Done {
        self.act(DecodedCall { effect: Effect::Launch, stream, ..DecodedCall::default() }, gpu_ns)
    }

    fn on(&mut self, effect: Effect, stream: u64, handle: u64) -> Done {
        self.act(DecodedCall { effect, stream, handle, ..DecodedCall::default() }, Order::BY_MODEL)
    }
}

#[test]
fn stream_executes_its_work_in_order() {
    let mut scene = Scene::new();
    let stream = scene.make(Effect::StreamCreate);
    assert_eq!(scene.launch(stream, 500).until_ns, 0, "a launch does not wait");
    scene.launch(stream, 300);
    assert_eq!(scene.on(Effect::StreamSync, stream, 0).until_ns, 1_800);
    scene.now_ns = 5_000;
    scene.launch(stream, 100);
    assert_eq!(scene.on(Effect::StreamSync, stream, 0).until_ns, 5_100, "an idle stream starts immediately");
}

#[test]
fn event_is_done_with_the_work_before_it() {
    let mut scene = Scene::new();
    let (stream, event) = (scene.make(Effect::StreamCreate), scene.make(Effect::EventCreate));
    scene.launch(stream, 500);
    scene.on(Effect::EventRecord, stream, event);
    scene.launch(stream, 10_000);
    assert_eq!(scene.on(Effect::EventSync, 0, event).until_ns, 1_500);
    assert_eq!(scene.on(Effect::EventQuery, 0, event).result, result::NOT_READY);
    scene.now_ns = 1_500;
    assert_eq!(scene.on(Effect::EventQuery, 0, event).result, result::SUCCESS);
    assert_eq!(scene.on(Effect::StreamQuery, stream, 0).result, result::NOT_READY);
}

#[test]
fn waiting_stream_starts_after_the_event() {
    let mut scene = Scene::new();
    let (first, second) = (scene.make(Effect::StreamCreate), scene.make(Effect::StreamCreate));
    let event = scene.make(Effect::EventCreate);
    scene.launch(first, 500);
    scene.on(Effect::EventRecord, first, event);
    scene.on(Effect::StreamWaitEvent, second, event);
    scene.launch(second, 100);
    assert_eq!(scene.on(Effect::StreamSync, second, 0).until_ns, 1_600);
    assert_eq!(scene.on(Effect::DeviceSync, 0, 0).until_ns, 1_600);
}

#[test]
fn captured_work_runs_when_its_graph_is_launched() {
    let mut scene = Scene::new();
    let stream = scene.make(Effect::StreamCreate);
    scene.on(Effect::CaptureBegin, stream, 0);
    scene.launch(stream, 500);
    scene.launch(stream, 500);
    assert_eq!(scene.on(Effect::StreamSync, stream, 0).result, result::CAPTURE_UNSUPPORTED);
    let graph = scene.on(Effect::CaptureEnd, stream, 0).written.unwrap();
    assert_eq!(scene.on(Effect::StreamSync, stream, 0), Done::OK, "nothing ran");
    let exec = DecodedCall { effect: Effect::Instantiate, graph, ..DecodedCall::default() };
    let exec = scene.act(exec, 0).written.unwrap();
    scene.on(Effect::GraphLaunch, stream, exec);
    assert_eq!(scene.on(Effect::StreamSync, stream, 0).until_ns, 1_000 + 2 * KERNEL_NS);
}

#[test]
fn blocking_copy_waits_for_its_bytes() {
    let mut scene = Scene::new();
    let copy = DecodedCall {
        effect: Effect::Copy,
        bytes: 50_000_000,
        direction: Direction::DeviceToHost as u32,
        blocking: 1,
        ..DecodedCall::default()
    };
    assert_eq!(scene.act(copy, Order::BY_MODEL).until_ns, 1_000 + COPY_NS + 1_000_000);
}

#[test]
fn twin_has_its_own_default_stream() {
    let mut scene = Scene::new();
    scene.launch(0, 500);
    let at = Moment { now_ns: 1_000, tid: 7, is_twin: true, ..Moment::default() };
    let sync = DecodedCall { effect: Effect::StreamSync, ..DecodedCall::default() };
    assert_eq!(scene.device.act(&sync, &Order::NONE, &at).until_ns, 0);
    assert_eq!(scene.on(Effect::StreamSync, 1, 0).until_ns, 1_500, "1 names the legacy default stream");
}

#[test]
fn unknown_handles_are_refused_unless_lenient() {
    let unknown = |effect, expected| {
        let mut scene = Scene::new();
        assert_eq!(scene.on(effect, 0xdead_0000_0000, 0xbeef_0000_0000).result, expected, "{effect:?}");
        scene.device.set_lenient(true);
        assert_eq!(scene.on(effect, 0xdead_0000_0000, 0xbeef_0000_0000).result, 0, "{effect:?} lenient");
    };
    unknown(Effect::Launch, result::INVALID_HANDLE);
    unknown(Effect::GraphLaunch, result::INVALID_HANDLE);
    unknown(Effect::StreamSync, result::INVALID_HANDLE);
    unknown(Effect::EventRecord, result::INVALID_HANDLE);
    unknown(Effect::EventSync, result::INVALID_HANDLE);
    unknown(Effect::StreamDestroy, result::INVALID_HANDLE);
    unknown(Effect::Free, result::INVALID_VALUE);
}

#[test]
fn shared_device_takes_twice_as_long() {
    let mut scene = Scene::new();
    let at = Moment { now_ns: 1_000, sharers: 2, ..Moment::default() };
    let launch = DecodedCall { effect: Effect::Launch, ..DecodedCall::default() };
    let done = scene.device.act(&launch, &Order { gpu_ns: 500, ..Order::NONE }, &at);
    assert_eq!((done.until_ns, done.busy_until_ns), (0, 2_000));
}
