//! Profiler traces: any bytes are a trace or an error, and every call of a trace has a fate.

#![no_main]

use trace::{Limits, Trace};
use event::{Event, EventSource};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { bytes: 1 << 20, calls: 1000, works: 1000, annotations: 100 };
    let Ok(trace) = Trace::read(bytes, &limits) else { return };
    let calls = trace.calls.len() as u64;
    let (mut source, mut events) = (trace.into_events(), Vec::new());
    while let Ok(true) = source.read(&mut events) {}
    let account = events.iter().rev().find_map(|e| if let Event::Account(a) = e { Some(a) } else { None });
    let account = account.expect("a source ends with its account");
    assert!(account.is_balanced());
    assert_eq!(account.hits + account.ignored(), calls);
});
