//! Prints what capture sees, for as many seconds as the argument says.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs, clippy::allow_attributes_without_reason)]
use event::{Event, EventSource as _};
fn main() {
    let seconds: u64 = std::env::args().nth(1).map_or(5, |s| s.parse().unwrap());
    let mut capture = capture::Capture::start(&capture::Settings::default()).unwrap_or_else(|e| panic!("{e}"));
    println!("ready {} cost {} ns", capture.attach_name(), capture.account().run_cost_ns);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let mut events = Vec::new();
    while std::time::Instant::now() < end {
        capture.read(&mut events).unwrap();
        for e in events.drain(..) {
            if !matches!(e, Event::Tick { .. }) { println!("{e:?}"); }
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    capture.read_totals(&mut events);
    for e in events { println!("{e:?}"); }
}
