//! Launches of graphs count the captured contents, or count as unknown.

use probe_abi::PROBES;
use probe_abi::counters::SelfCounter;
use probe_abi::fold::Counter;

use super::super::{Bounds, Folder};
use crate::Call;
use event::{Event, ProcessId};

const MAIN: u64 = 7;
const SIDE: u64 = 9;

/// Returns a call of a nanosecond; its index in the list gives its time.
fn call(symbol: &str) -> Call {
    let row = PROBES.iter().find(|p| p.symbol == symbol).unwrap().id;
    let process = ProcessId { pid: 5, start_ns: 1 };
    Call { process, tid: 1, row, duration_ns: 1, stream: MAIN, ..Call::default() }
}

fn launch(stream: u64, threads: u64) -> Call {
    Call { stream, threads, ..call("cudaLaunchKernel") }
}

fn begin() -> Call {
    call("cudaStreamBeginCapture")
}

fn end(graph: u64) -> Call {
    Call { handle: Some(graph), ..call("cudaStreamEndCapture") }
}

fn instantiate(exec: u64, graph: u64) -> Call {
    Call { handle: Some(exec), graph, stream: 0, ..call("cudaGraphInstantiate") }
}

fn update(exec: u64, graph: u64, result: u32) -> Call {
    Call { handle: Some(exec), graph, stream: 0, result, ..call("cudaGraphExecUpdate") }
}

fn run(exec: u64) -> Call {
    Call { handle: Some(exec), identity: exec, ..call("cudaGraphLaunch") }
}

/// Returns the calls that capture kernels with these numbers of threads into a graph.
fn captured(graph: u64, threads: &[u64]) -> Vec<Call> {
    let kernels = threads.iter().map(|threads| launch(MAIN, *threads));
    std::iter::once(begin()).chain(kernels).chain([end(graph)]).collect()
}

/// Checks the graph counters of the step that these calls make: graphs, known ones, kernels, threads, foreign kernels,
/// bytes, collectives.
#[track_caller]
fn check_bounded(calls: &[Call], bounds: Bounds, expected: [u64; 7]) -> Folder {
    let (mut folder, mut events) = (Folder::new(bounds), Vec::new());
    let sync = call("cudaStreamSynchronize");
    for (at, call) in calls.iter().chain([&sync]).enumerate() {
        folder.push(&Call { entry_ns: 10 * at as u64 + 1, ..*call }, &mut events);
    }
    folder.finish(&mut events);
    let columns = [
        Counter::GraphLaunches,
        Counter::GraphsKnown,
        Counter::GraphKernels,
        Counter::GraphThreads,
        Counter::GraphForeign,
        Counter::GraphBytes,
        Counter::GraphCollectives,
    ];
    let step = events.iter().find_map(|e| if let Event::Step(step) = e { Some(step) } else { None });
    let work = step.expect("a step").work;
    assert_eq!(columns.map(|counter| work[counter as usize]), expected);
    assert_eq!(work[Counter::Launches as usize], 0, "what is captured is not launched");
    folder
}

#[track_caller]
fn check(calls: &[&[Call]], expected: [u64; 7]) {
    check_bounded(&calls.concat(), Bounds::default(), expected);
}

#[test]
fn launches_run_the_captured_work() {
    let graph = captured(0xa, &[100, 50]);
    check(&[&graph, &[instantiate(0xe, 0xa), run(0xe), run(0xe)]], [2, 2, 4, 300, 0, 0, 0]);
}

#[test]
fn a_graph_whose_capture_was_not_seen_is_unknown() {
    check(&[&[run(0xe)]], [1, 0, 0, 0, 0, 0, 0]);
    check(&[&[instantiate(0xe, 0xa), run(0xe)]], [1, 0, 0, 0, 0, 0, 0]);
    // Only its end was seen, after another capture on the same stream.
    check(&[&captured(0xa, &[5]), &[end(0xa), instantiate(0xe, 0xa), run(0xe)]], [1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn streams_that_join_a_capture_are_part_of_it() {
    let on = |symbol, stream| Call { stream, handle: Some(0xf), ..call(symbol) };
    let copy = Call { stream: SIDE, bytes: 4_096, ..call("cudaMemcpyAsync") };
    let calls = [
        begin(),
        launch(MAIN, 1),
        on("cudaEventRecord", MAIN),
        on("cudaStreamWaitEvent", SIDE),
        launch(SIDE, 10),
        Call { tid: 2, ..launch(SIDE, 100) },
        Call { tid: 2, ..launch(MAIN, 1_000) },
        copy,
        end(0xa),
        instantiate(0xe, 0xa),
        run(0xe),
    ];
    check(&[&calls], [1, 1, 4, 1_111, 2, 4_096, 0]);
}

#[test]
fn only_successful_updates_change_an_executable_graph() {
    let (one, other) = (captured(0xa, &[1]), captured(0xb, &[7, 7]));
    let made = [instantiate(0xe, 0xa)];
    check(&[&one, &other, &made, &[update(0xe, 0xb, 0), run(0xe)]], [1, 1, 2, 14, 0, 0, 0]);
    check(&[&one, &other, &made, &[update(0xe, 0xb, 910), run(0xe)]], [1, 1, 1, 1, 0, 0, 0]);
    check(&[&one, &made, &[update(0xe, 0xc, 0), run(0xe)]], [1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn reused_handles_are_other_graphs() {
    let graph = captured(0xa, &[5]);
    let gone = Call { graph: 0xa, stream: 0, ..call("cudaGraphDestroy") };
    let exec_gone = Call { handle: Some(0xe), stream: 0, ..call("cudaGraphExecDestroy") };
    // The graph is destroyed, its executable graph is not.
    check(&[&graph, &[instantiate(0xe, 0xa), gone, run(0xe)]], [1, 1, 1, 5, 0, 0, 0]);
    check(&[&graph, &[gone, instantiate(0xe, 0xa), run(0xe)]], [1, 0, 0, 0, 0, 0, 0]);
    check(&[&graph, &[instantiate(0xe, 0xa), exec_gone, run(0xe)]], [1, 0, 0, 0, 0, 0, 0]);
    check(&[&graph, &captured(0xa, &[6, 6]), &[instantiate(0xe, 0xa), run(0xe)]], [1, 1, 2, 12, 0, 0, 0]);
}

#[test]
fn a_graph_to_which_nodes_are_added_is_unknown() {
    let graph = captured(0xa, &[5]);
    let add = Call { graph: 0xa, stream: 0, ..call("cudaGraphAddKernelNode") };
    check(&[&graph, &[add, instantiate(0xe, 0xa), run(0xe)]], [1, 0, 0, 0, 0, 0, 0]);
    // A node is added during the capture, by the graph's handle.
    let calls = [begin(), add, end(0xa), instantiate(0xe, 0xa), run(0xe)];
    check(&[&calls], [1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn captures_continue_with_the_contents_of_a_graph() {
    let again = Call { graph: 0xa, ..call("cudaStreamBeginCaptureToGraph") };
    let more = [again, launch(MAIN, 3), end(0xa), instantiate(0xe, 0xa), run(0xe)];
    check(&[&captured(0xa, &[5]), &more], [1, 1, 2, 8, 0, 0, 0]);
    check(&[&more], [1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_graph_launched_into_a_capture_is_part_of_it() {
    let child = captured(0xa, &[5, 5]);
    let parent = |exec| [begin(), launch(MAIN, 1), run(exec), end(0xb), instantiate(0xd, 0xb), run(0xd)];
    check(&[&child, &[instantiate(0xe, 0xa)], &parent(0xe)], [1, 1, 3, 11, 0, 0, 0]);
    check(&[&child, &[instantiate(0xe, 0xa)], &parent(0x99)], [1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn collectives_during_a_capture_are_counted() {
    let collective = Call { stream: 0, ..call("ncclAllReduce") };
    let group = Call { stream: 0, ..call("ncclGroupStart") };
    let calls = [
        collective,
        begin(),
        group,
        collective,
        collective,
        end(0xa),
        collective,
        instantiate(0xe, 0xa),
        run(0xe),
    ];
    check(&[&calls], [1, 1, 0, 0, 0, 0, 2]);
}

#[test]
fn graphs_beyond_the_bound_are_unknown_and_counted() {
    let calls = [
        captured(0xa, &[5]),
        captured(0xb, &[6]),
        vec![instantiate(0xe, 0xb), instantiate(0xd, 0xa), run(0xe)],
    ];
    let bounds = Bounds { graphs: 1, ..Bounds::default() };
    let folder = check_bounded(&calls.concat(), bounds, [1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(folder.account()[SelfCounter::GraphMapFull], 2, "a graph, and an executable one of the other");
}

#[test]
fn graphs_of_an_ended_process_are_removed() {
    let (mut folder, mut out) = (Folder::new(Bounds::default()), Vec::new());
    for (at, call) in captured(0xa, &[5]).iter().chain([&instantiate(0xe, 0xa)]).enumerate() {
        folder.push(&Call { entry_ns: 10 * at as u64 + 1, ..*call }, &mut out);
    }
    folder.exit(5, 1_000, &mut out);
    assert!(folder.graphs.by_key.is_empty());
}
