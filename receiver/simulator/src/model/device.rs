//! The device model: streams that execute work in virtual time.
//!
//! The end of a stream's queue is known when work is enqueued, so a stream is one number, the time at which it will be
//! done, and an event is a copy of that number. No thread executes anything.
//!
//! Not modelled: the legacy default stream does not wait for other streams, and kernels of two streams do not slow each
//! other down, though those of two processes do. This file reads no clock and dereferences no pointer.

use probe_abi::Direction;
use probe_abi::record::StreamKey;

use super::call::{DecodedCall, Effect};
use super::memory::{DeviceMemory, Objects};
use super::order::Order;

/// Results, the same numbers in `cudaError_t`, `CUresult` and `hipError_t`.
pub mod result {
    /// Success.
    pub const SUCCESS: u64 = 0;
    /// Invalid argument.
    pub const INVALID_VALUE: u64 = 1;
    /// Out of memory, or too many objects.
    pub const OUT_OF_MEMORY: u64 = 2;
    /// No driver was found.
    pub const INSUFFICIENT_DRIVER: u64 = 35;
    /// Unknown stream, event or graph.
    pub const INVALID_HANDLE: u64 = 400;
    /// The work queried is not done.
    pub const NOT_READY: u64 = 600;
    /// The stream waited for is being captured.
    pub const CAPTURE_UNSUPPORTED: u64 = 900;
}

/// Device time of a kernel without an order, ns.
const KERNEL_NS: u64 = 5_000;
/// Device time of a copy or fill, in addition to that of its bytes, ns.
const COPY_NS: u64 = 2_000;
/// Bandwidth between host and device (PCIe 5), bytes per microsecond.
const BUS_BYTES_PER_US: u64 = 50_000;
/// Bandwidth on the device, bytes per microsecond.
const DEVICE_BYTES_PER_US: u64 = 1_000_000;
/// Memory of the device, bytes.
const CAPACITY_BYTES: u64 = 80 << 30;

/// The time and thread of a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// CLOCK_MONOTONIC, ns.
    pub now_ns: u64,
    /// Thread id of the caller.
    pub tid: u32,
    /// Device of the calling thread.
    pub device: u64,
    /// Whether stream 0 is the thread's own default stream.
    pub is_twin: bool,
    /// Number of processes with work on the device, including this one; 0 means 1.
    pub sharers: u64,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Done {
    /// Return value.
    pub result: u64,
    /// Value to write to the address in the handle argument.
    pub written: Option<u64>,
    /// Time at which it returns, CLOCK_MONOTONIC ns; 0 for immediately.
    pub until_ns: u64,
    /// Time at which its stream will be done, for a call that enqueued; 0 for others.
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
    /// Number of nodes captured so far, while capturing.
    captured: Option<u64>,
}

/// All devices of a process and their objects.
#[derive(Debug)]
pub struct DeviceModel {
    /// Streams by handle; default streams have the handles of [`default_handle`].
    streams: Objects<Stream>,
    /// Time at which each event is done.
    events: Objects<u64>,
    /// Number of nodes of each graph.
    graphs: Objects<u64>,
    execs: Objects<u64>,
    functions: Objects<()>,
    memory: DeviceMemory,
    lenient: bool,
}

impl Default for DeviceModel {
    fn default() -> DeviceModel {
        DeviceModel {
            streams: Objects::new(0x5555_1000_0000),
            events: Objects::new(0x5555_2000_0000),
            graphs: Objects::new(0x5555_3000_0000),
            execs: Objects::new(0x5555_4000_0000),
            functions: Objects::new(0x5555_5000_0000),
            memory: DeviceMemory::new(CAPACITY_BYTES, 0x7f00_0000_0000),
            lenient: false,
        }
    }
}

/// Returns a handle for a default stream, an address that no program can have.
fn default_handle(key: StreamKey, device: u64) -> u64 {
    1 << 63 | device << 32 | u64::from(key.tid)
}

impl DeviceModel {
    /// Sets whether unknown handles are valid and every address may be freed.
    pub fn set_lenient(&mut self, lenient: bool) {
        self.lenient = lenient;
    }

    /// Returns whether unknown handles are valid.
    pub fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Performs a call.
    pub fn act(&mut self, call: &DecodedCall, order: &Order, at: &Moment) -> Done {
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
            Effect::EventQuery => self.with_event(call.handle, |done_ns| status(done_ns, at)),
            Effect::DeviceSync => Done::until(self.device_ready_ns(at.device)),
            Effect::StreamCreate => {
                Done::made(self.streams.make(Stream { device: at.device, ..Stream::default() }))
            }
            Effect::EventCreate => Done::made(self.events.make(0)),
            Effect::FunctionHandle => Done::made(self.functions.make(())),
            Effect::Instantiate => self.instantiate(call.graph),
            Effect::ExecUpdate => self.update(call),
            Effect::GraphDestroy => self.ended(|d| d.graphs.remove(call.graph).is_some()),
            Effect::StreamDestroy => self.ended(|d| d.streams.remove(call.stream).is_some()),
            Effect::EventDestroy => self.ended(|d| d.events.remove(call.handle).is_some()),
            Effect::ExecDestroy => self.ended(|d| d.execs.remove(call.handle).is_some()),
        }
    }

    fn enqueue(&mut self, call: &DecodedCall, order: &Order, at: &Moment) -> Done {
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

    fn stream(&mut self, call: &DecodedCall, at: &Moment) -> Option<&mut Stream> {
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

    fn on_stream(&mut self, call: &DecodedCall, at: &Moment) -> Done {
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
            Effect::StreamQuery => return status(ready_ns, at),
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

    fn end_capture(&mut self, call: &DecodedCall, at: &Moment) -> Done {
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

    fn update(&mut self, call: &DecodedCall) -> Done {
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

    /// Frees memory. As in `cudaFree`, freeing null succeeds.
    fn free(&mut self, address: u64) -> Done {
        match address == 0 || self.memory.free(address) || self.lenient {
            true => Done::OK,
            false => Done::error(result::INVALID_VALUE),
        }
    }

    fn ended(&mut self, end: impl FnOnce(&mut DeviceModel) -> bool) -> Done {
        if end(self) || self.lenient { Done::OK } else { Done::error(result::INVALID_HANDLE) }
    }
}

fn status(done_ns: u64, at: &Moment) -> Done {
    if done_ns > at.now_ns { Done::error(result::NOT_READY) } else { Done::OK }
}

/// Returns the device time of work without an order.
fn gpu_ns(call: &DecodedCall, nodes: u64) -> u64 {
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
