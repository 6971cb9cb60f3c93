//! The device: streams that work off what they are given, in virtual time.
//!
//! The one idea: a stream is a queue whose end is known the moment something is put in, so a stream is one
//! number, the instant at which it will be done. An event is the same number, copied. No thread works behind.
//!
//! Left out: the legacy default stream does not wait for the others, and kernels of two streams do not slow each
//! other down, though those of two processes do. This file reads no clock and follows no pointer.

use probe_abi::Direction;
use probe_abi::record::StreamKey;

use super::call::{Call, Effect};
use super::memory::{Memory, Objects};
use super::order::Order;

/// Results, the same numbers in `cudaError_t`, `CUresult` and `hipError_t`.
pub mod result {
    /// Done.
    pub const SUCCESS: u64 = 0;
    /// An argument that cannot be.
    pub const INVALID_VALUE: u64 = 1;
    /// No memory, or no room for one more object.
    pub const OUT_OF_MEMORY: u64 = 2;
    /// The runtime found no driver.
    pub const INSUFFICIENT_DRIVER: u64 = 35;
    /// No such stream, event or graph.
    pub const INVALID_HANDLE: u64 = 400;
    /// Asked before it was done.
    pub const NOT_READY: u64 = 600;
    /// Waited for a stream that is captured.
    pub const CAPTURE_UNSUPPORTED: u64 = 900;
}

/// Device time of a kernel that no order speaks of, ns.
const KERNEL_NS: u64 = 5_000;
/// Device time of any copy or fill, beside its bytes, ns.
const COPY_NS: u64 = 2_000;
/// Bytes per microsecond between host and device: PCIe 5.
const BUS_BYTES_PER_US: u64 = 50_000;
/// Bytes per microsecond on the device.
const DEVICE_BYTES_PER_US: u64 = 1_000_000;
/// Memory of the device.
const CAPACITY_BYTES: u64 = 80 << 30;

/// Where and when a call is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// CLOCK_MONOTONIC, ns.
    pub now_ns: u64,
    /// The calling thread.
    pub tid: u32,
    /// The calling thread's device.
    pub device: u64,
    /// The call is a twin's: stream 0 is the thread's own.
    pub is_twin: bool,
    /// Processes that have work on the device, this one among them; 0 means 1.
    pub sharers: u64,
}

/// What a call comes to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Done {
    /// What it returns.
    pub result: u64,
    /// What it writes where its handle points.
    pub written: Option<u64>,
    /// When it may return, CLOCK_MONOTONIC ns; 0 for at once.
    pub until_ns: u64,
    /// Until when its stream has work now, for a call that enqueued; 0 for others.
    pub busy_until_ns: u64,
}

impl Done {
    const OK: Done = Done { result: result::SUCCESS, written: None, until_ns: 0, busy_until_ns: 0 };

    fn error(result: u64) -> Done {
        Done { result, ..Done::OK }
    }

    fn made(handle: Option<u64>) -> Done {
        match handle {
            Some(_) => Done { written: handle, ..Done::OK },
            None => Done::error(result::OUT_OF_MEMORY),
        }
    }

    fn until(until_ns: u64) -> Done {
        Done { until_ns, ..Done::OK }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    ready_ns: u64,
    device: u64,
    /// Nodes captured so far, while capturing.
    captured: Option<u64>,
}

/// All devices of a process.
#[derive(Debug)]
pub struct Device {
    /// By handle; default streams under the handles of [`default_handle`].
    streams: Objects<Stream>,
    /// When each event is done.
    events: Objects<u64>,
    /// Nodes of each graph.
    graphs: Objects<u64>,
    execs: Objects<u64>,
    memory: Memory,
    lenient: bool,
}

impl Default for Device {
    fn default() -> Device {
        Device {
            streams: Objects::new(0x5555_1000_0000),
            events: Objects::new(0x5555_2000_0000),
            graphs: Objects::new(0x5555_3000_0000),
            execs: Objects::new(0x5555_4000_0000),
            memory: Memory::new(CAPACITY_BYTES, 0x7f00_0000_0000),
            lenient: false,
        }
    }
}

/// A stand-in for the handle of a default stream, which has none: in the half of the addresses that no program has.
fn default_handle(key: StreamKey, device: u64) -> u64 {
    1 << 63 | device << 32 | u64::from(key.tid)
}

impl Device {
    /// From here on unknown handles mean objects made elsewhere, and every address may be freed.
    pub fn set_lenient(&mut self, lenient: bool) {
        self.lenient = lenient;
    }

    /// True where unknown handles are taken.
    pub fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Does what `call` asks for.
    pub fn act(&mut self, call: &Call, order: &Order, at: &Moment) -> Done {
        match call.effect {
            Effect::Nothing | Effect::HostAlloc | Effect::HostFree | Effect::SetDevice => Done::OK,
            Effect::Launch | Effect::GraphLaunch | Effect::Copy | Effect::Fill => {
                self.enqueue(call, order, at)
            }
            Effect::Alloc => Done::made(self.memory.alloc(call.bytes)),
            Effect::Free => self.free(call.handle),
            Effect::StreamSync | Effect::StreamQuery | Effect::StreamWaitEvent => self.on_stream(call, at),
            Effect::EventRecord | Effect::CaptureBegin | Effect::CaptureEnd => self.on_stream(call, at),
            Effect::EventSync => self.with_event(call.handle, Done::until),
            Effect::EventQuery => self.with_event(call.handle, |done_ns| answer(done_ns, at)),
            Effect::DeviceSync => Done::until(self.device_ready_ns(at.device)),
            Effect::StreamCreate => {
                Done::made(self.streams.make(Stream { device: at.device, ..Stream::default() }))
            }
            Effect::EventCreate => Done::made(self.events.make(0)),
            Effect::Instantiate => self.instantiate(call.graph),
            Effect::ExecUpdate => self.update(call),
            Effect::GraphDestroy => self.ended(|d| d.graphs.end(call.graph).is_some()),
            Effect::StreamDestroy => self.ended(|d| d.streams.end(call.stream).is_some()),
            Effect::EventDestroy => self.ended(|d| d.events.end(call.handle).is_some()),
            Effect::ExecDestroy => self.ended(|d| d.execs.end(call.handle).is_some()),
        }
    }

    fn enqueue(&mut self, call: &Call, order: &Order, at: &Moment) -> Done {
        let nodes = match call.effect {
            Effect::GraphLaunch => match self.execs.find(call.handle, self.lenient) {
                Some(nodes) => *nodes,
                None => return Done::error(result::INVALID_HANDLE),
            },
            _ => 1,
        };
        let Some(stream) = self.stream(call, at) else { return Done::error(result::INVALID_HANDLE) };
        if let Some(captured) = &mut stream.captured {
            *captured += 1;
            return Done::OK;
        }
        let gpu_ns = if order.gpu_ns == Order::BY_MODEL { gpu_ns(call, nodes) } else { order.gpu_ns };
        let gpu_ns = gpu_ns.saturating_mul(at.sharers.max(1));
        stream.ready_ns = stream.ready_ns.max(at.now_ns).saturating_add(gpu_ns);
        let until_ns = if call.blocking != 0 { stream.ready_ns } else { 0 };
        Done { until_ns, busy_until_ns: stream.ready_ns, ..Done::OK }
    }

    fn stream(&mut self, call: &Call, at: &Moment) -> Option<&mut Stream> {
        let key = StreamKey::of(0, at.tid, call.stream, at.is_twin);
        match key.stream {
            0 => {
                let stream = self.streams.find(default_handle(key, at.device), true)?;
                stream.device = at.device;
                Some(stream)
            }
            handle => self.streams.find(handle, self.lenient),
        }
    }

    fn on_stream(&mut self, call: &Call, at: &Moment) -> Done {
        let event_ns = match call.effect {
            Effect::StreamWaitEvent => self.events.find(call.handle, self.lenient).map(|ns| *ns),
            _ => None,
        };
        let Some(stream) = self.stream(call, at) else { return Done::error(result::INVALID_HANDLE) };
        let ready_ns = stream.ready_ns;
        match call.effect {
            Effect::CaptureBegin => stream.captured = Some(0),
            Effect::CaptureEnd => return self.end_capture(call, at),
            _ if stream.captured.is_some() && call.effect == Effect::StreamSync => {
                return Done::error(result::CAPTURE_UNSUPPORTED);
            }
            Effect::StreamSync => return Done::until(ready_ns),
            Effect::StreamQuery => return answer(ready_ns, at),
            Effect::StreamWaitEvent => match event_ns {
                Some(event_ns) => stream.ready_ns = ready_ns.max(event_ns),
                None => return Done::error(result::INVALID_HANDLE),
            },
            _ => return self.record(call.handle, ready_ns),
        }
        Done::OK
    }

    fn record(&mut self, event: u64, ready_ns: u64) -> Done {
        match self.events.find(event, self.lenient) {
            Some(done_ns) => *done_ns = ready_ns,
            None => return Done::error(result::INVALID_HANDLE),
        }
        Done::OK
    }

    fn end_capture(&mut self, call: &Call, at: &Moment) -> Done {
        let lenient = self.lenient;
        match self.stream(call, at).and_then(|s| s.captured.take()).or(lenient.then_some(0)) {
            Some(nodes) => Done::made(self.graphs.make(nodes)),
            None => Done::error(result::INVALID_VALUE),
        }
    }

    fn instantiate(&mut self, graph: u64) -> Done {
        match self.graphs.find(graph, self.lenient).map(|nodes| *nodes) {
            Some(nodes) => Done::made(self.execs.make(nodes)),
            None => Done::error(result::INVALID_HANDLE),
        }
    }

    fn update(&mut self, call: &Call) -> Done {
        let nodes = self.graphs.find(call.graph, self.lenient).map(|nodes| *nodes);
        match (self.execs.find(call.handle, self.lenient), nodes) {
            (Some(exec), Some(nodes)) => *exec = nodes,
            _ => return Done::error(result::INVALID_HANDLE),
        }
        Done::OK
    }

    fn with_event(&mut self, event: u64, then: impl FnOnce(u64) -> Done) -> Done {
        let done_ns = self.events.find(event, self.lenient).map(|ns| *ns);
        done_ns.map_or(Done::error(result::INVALID_HANDLE), then)
    }

    fn device_ready_ns(&self, device: u64) -> u64 {
        self.streams.iter().filter(|s| s.device == device).map(|s| s.ready_ns).max().unwrap_or(0)
    }

    /// `cudaFree` of null succeeds.
    fn free(&mut self, address: u64) -> Done {
        match address == 0 || self.memory.free(address) || self.lenient {
            true => Done::OK,
            false => Done::error(result::INVALID_VALUE),
        }
    }

    fn ended(&mut self, end: impl FnOnce(&mut Device) -> bool) -> Done {
        if end(self) || self.lenient { Done::OK } else { Done::error(result::INVALID_HANDLE) }
    }
}

fn answer(done_ns: u64, at: &Moment) -> Done {
    if done_ns > at.now_ns { Done::error(result::NOT_READY) } else { Done::OK }
}

/// What the device needs for work that no order speaks of.
fn gpu_ns(call: &Call, nodes: u64) -> u64 {
    let bytes_per_us = match call.direction {
        d if d == Direction::DeviceToDevice as u32 || call.effect == Effect::Fill => DEVICE_BYTES_PER_US,
        _ => BUS_BYTES_PER_US,
    };
    match call.effect {
        Effect::Launch | Effect::GraphLaunch => nodes.saturating_mul(KERNEL_NS),
        _ => COPY_NS.saturating_add(call.bytes.saturating_mul(1_000) / bytes_per_us),
    }
}

#[cfg(test)]
mod tests;
