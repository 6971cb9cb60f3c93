//! A rank's stream calls: sync calls within which the stub waits for the other ranks, and captures.

use probe_abi::PROBES;

use super::super::super::lines::call_line;
use super::{Flow, Rank, Stream};
use crate::functions::by_symbol;
use crate::invoke::{Outcome, Request};
use crate::model::order::Order;
use crate::model::thread;
use crate::oracle::{Line, WaitLine};
use crate::ranks::RankStatement;
use crate::sentinel;

impl Rank<'_> {
    /// Calls a runtime function.
    fn runtime(&mut self, symbol: &str, stream: u64, handle: u64, order: &Order) -> Outcome {
        let Some((index, function)) = by_symbol(symbol) else { return Outcome::default() };
        self.request(&Request { stream, handle, ..Request::new(index, function) }, order)
    }

    fn request(&mut self, request: &Request, order: &Order) -> Outcome {
        self.calls += 1;
        let made = self.functions.call(request, order);
        let meaning = sentinel::meaning(request, &made);
        self.lines.push(Line::Call(call_line(thread::tid(), request, &made, &meaning)));
        made
    }

    pub(super) fn stream(&mut self, name: &str) -> u64 {
        if let Some(known) = self.streams.get(name) {
            return known.handle;
        }
        let handle = self.runtime("cudaStreamCreate", 0, 0, &Order::NONE).written;
        self.streams.insert(name.into(), Stream { handle, ..Stream::default() });
        handle
    }

    pub(super) fn sync(&mut self, name: &str) {
        let stream = self.stream(name);
        self.wait("cudaStreamSynchronize", "warptap_stub_wait_stream", name, stream, 0);
    }

    pub(super) fn event_sync(&mut self, name: &str) {
        let stream = self.stream(name);
        let known = self.streams.get(name).map_or(0, |s| s.event);
        let event =
            if known == 0 { self.runtime("cudaEventCreate", 0, 0, &Order::NONE).written } else { known };
        self.nccl.record(event, stream);
        self.runtime("cudaEventRecord", stream, event, &Order::NONE);
        if let Some(stream) = self.streams.get_mut(name) {
            stream.event = event;
        }
        self.wait("cudaEventSynchronize", "warptap_stub_wait_event", name, stream, event);
    }

    /// Makes a sync call within which the stub waits for the other ranks.
    fn wait(&mut self, symbol: &'static str, inside: &str, name: &str, stream: u64, event: u64) {
        // The call may never return. Paced ranks do not write now, since their peers need the CPU.
        if !self.is_paced {
            self.flush();
        }
        let row = PROBES.iter().find(|p| p.symbol == symbol).map_or(0, |p| p.id);
        let order = Order {
            inner: self.nccl.address(inside) as u64,
            inner_row: row.into(),
            inner_depth: 1,
            gpu_ns: 0,
            ..Order::NONE
        };
        let made = self.runtime(symbol, stream, event, &order);
        let covers = self.streams.get_mut(name).map(|s| std::mem::take(&mut s.pending)).unwrap_or_default();
        self.lines.push(Line::Wait(WaitLine {
            symbol: symbol.into(),
            pid: std::process::id(),
            tid: thread::tid(),
            stream,
            enter_ns: made.entry_ns,
            exit_ns: made.exit_ns,
            covers,
        }));
    }

    pub(super) fn capture(&mut self, name: &str, body: &[RankStatement], turn: u64) -> Flow {
        let stream = self.stream(name);
        self.runtime("cudaStreamBeginCapture", stream, 0, &Order::NONE);
        self.nccl.set_capturing(stream, true);
        self.is_capturing = true;
        let flow = self.all(body, turn);
        self.is_capturing = false;
        self.nccl.set_capturing(stream, false);
        let graph = self.runtime("cudaStreamEndCapture", stream, 0, &Order::NONE).written;
        let Some((index, function)) = by_symbol("cudaGraphInstantiate") else { return flow };
        let made = self.request(&Request { graph, ..Request::new(index, function) }, &Order::NONE);
        if let Some(stream) = self.streams.get_mut(name) {
            stream.graph = made.written;
        }
        flow
    }

    pub(super) fn replay(&mut self, name: &str) {
        let stream = self.stream(name);
        let graph = self.streams.get(name).map_or(0, |s| s.graph);
        self.runtime("cudaGraphLaunch", stream, graph, &Order::NONE);
    }
}
