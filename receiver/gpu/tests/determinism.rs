//! Equal recordings give equal bytes: on every replay, in batches of any size, with any other processes.

mod common;

use common::job::{Job, job_events};
use common::*;
use event::Event;
use gpu::Settings;

fn busy_machine() -> Vec<Event> {
    let mut server = Program::new(100);
    server.allocate(0x10, 1 << 30, 0);
    server.allocate(0x20, 1 << 40, 2);
    server.serve(300, 5 * MS);
    server.decode(40 * MS);
    server.serve(200, 5 * MS);
    let mut second = Program::new(200);
    second.serve(150, 8 * MS);
    second.decode(60 * MS);
    second.serve(50, 8 * MS);
    let mut trainer = Program::new(300);
    (0..60).for_each(|_| trainer.train(20 * MS));
    let mut events = events(&[server, second, trainer], true);
    events.extend(collectives().split_off(1));
    events[1..].sort_by_key(Event::at_ns);
    events
}

/// Returns ranks of which one is late, and one is missing at the end.
fn collectives() -> Vec<Event> {
    let mut job = Job::new(4, 1_000);
    job.rounds(40, |_| Some(0));
    job.rounds(30, |rank| Some(if rank == 1 { 15 * MS } else { 0 }));
    job.round(|rank| (rank != 3).then_some(0));
    job.now_ns += 40 * SECOND;
    job_events(&job)
}

fn settings() -> Settings {
    let mut settings = Settings { collection_interval_ns: 700 * MS, ..Settings::default() };
    settings.collectives.engine.trace.rate = 0.2;
    settings
}

#[test]
fn equal_events_give_equal_bytes() {
    let events = busy_machine();
    let once = analysed(&events, settings()).bytes();
    assert!(once.len() > 10);
    let output = analysed(&events, settings());
    assert!(!output.logs("nccl.straggler").is_empty() && !output.logs("nccl.hang").is_empty());
    for _ in 0..4 {
        assert!(analysed(&events, settings()).bytes() == once);
    }
}

#[test]
fn batch_size_does_not_change_the_output() {
    let events = busy_machine();
    let whole = read_in_batches(&events, events.len(), settings()).bytes();
    for batch in [1, 2, 7, 64, 1_000] {
        assert!(read_in_batches(&events, batch, settings()).bytes() == whole, "batches of {batch}");
    }
}

#[test]
fn output_has_no_times_except_those_of_events() {
    let output = analysed(&busy_machine(), settings());
    let last_ns = busy_machine().iter().filter_map(Event::at_ns).max().unwrap();
    let window = UNIX..=UNIX + last_ns;
    for (_, span) in output.spans() {
        assert!(window.contains(&span.start_time_unix_nano) && window.contains(&span.end_time_unix_nano));
    }
    for name in
        ["gpu.step.outlier", "nccl.flight_record", "nccl.hang", "nccl.straggler", "warptap.process.coverage"]
    {
        for (_, log) in output.logs(name) {
            assert!(window.contains(&log.time_unix_nano) && window.contains(&log.observed_time_unix_nano));
        }
    }
    for collected in output.collections() {
        for point in distributions(collected, "gpu.step.duration") {
            assert!(window.contains(&point.start_time_unix_nano) && window.contains(&point.time_unix_nano));
        }
        for point in numbers(collected, "gpu.step.baseline") {
            assert!(window.contains(&point.time_unix_nano) && point.start_time_unix_nano == 0);
        }
    }
}
