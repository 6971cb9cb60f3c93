//! The probe rows of NCCL: every function is called once with distinct arguments, which must be those recorded.

use capture::Settings;
use event::{CallArgs, Event};
use probe_abi::counters::SelfCounter;
use probe_abi::{Library, PROBES, row};
use simulator::oracle::{Line, NcclLine, read};

use crate::rig::{Rig, rig, settings};

/// Returns the recorded calls of NCCL.
pub fn recorded(rig: &Rig) -> Vec<CallArgs> {
    rig.events
        .iter()
        .filter_map(|e| if let Event::CallArgs(t) = e { Some(t.clone()) } else { None })
        .collect()
}

/// Returns the calls in the logs of players.
pub fn made(rig: &Rig) -> Vec<NcclLine> {
    let lines = read(&rig.oracle()).unwrap().into_iter();
    lines.filter_map(|l| if let Line::Nccl(call) = l { Some(call) } else { None }).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the memory at return; for the end of a group without unused elements.
fn exit(recorded: &CallArgs) -> String {
    let is_pairs = row(recorded.header.row).unwrap().wiring.args.exit.kind == probe_abi::PointeeKind::Written;
    let has_handle = |pair: &&[u8]| !is_pairs || pair[8..].iter().any(|byte| *byte != 0);
    match is_pairs {
        true => recorded.exit.chunks(16).filter(has_handle).map(hex).collect(),
        false => hex(&recorded.exit),
    }
}

/// Asserts that a record matches the line of its call.
#[track_caller]
pub fn compare(recorded: &CallArgs, made: &NcclLine) {
    let symbol = &made.symbol;
    assert_eq!((recorded.header.row, recorded.result), (made.row, made.result), "{symbol}");
    assert_eq!((recorded.header.pid, recorded.header.tid), (made.pid, made.tid), "{symbol}");
    let by_value = row(made.row).unwrap().wiring.args.by_value;
    for (at, (seen, passed)) in recorded.arguments.iter().zip(&made.arguments).enumerate() {
        match (by_value, at) {
            // The address of the id is up to the compiler; its bytes show that it was found.
            (true, 2) => {}
            // Typed arguments: of an `int` the low half counts.
            (true, 1 | 3) => assert_eq!(*seen as u32, *passed as u32, "{symbol}: argument {}", at + 1),
            _ => assert_eq!(seen, passed, "{symbol}: argument {}", at + 1),
        }
    }
    let beyond = recorded.arguments.get(made.arguments.len()..).unwrap_or_default();
    assert!(beyond.iter().all(|a| *a == 0), "{symbol}: {beyond:x?}");
    assert_eq!((hex(&recorded.entry), exit(recorded)), (made.entry.clone(), made.exit.clone()), "{symbol}");
    assert!(recorded.header.entry_ns >= made.entry_ns && recorded.exit_ns() <= made.exit_ns, "{symbol}");
}

/// ncclUniqueId was read as a pointer on x86-64: rank, nranks and communicator were 0 for every collective.
#[test]
fn every_nccl_row_records_arguments_and_memory() {
    let Some(mut rig) = rig("nccl-rows", &settings()) else { return };
    let player = rig.player(&["--nccl-sentinels"]);
    rig.play(player);
    let (recorded, made) = (recorded(&rig), made(&rig));
    let rows = PROBES.iter().filter(|p| p.library == Library::Nccl);
    assert!(rows.clone().all(|p| made.iter().any(|m| m.row == p.id)), "the player calls every row");
    for call in &made {
        let mut of_call =
            recorded.iter().filter(|t| t.header.entry_ns >= call.entry_ns && t.exit_ns() <= call.exit_ns);
        match call.symbol.as_ref() {
            // It creates an id internally, which is in no other record.
            "ncclCommInitAll" => {
                compare(of_call.clone().find(|t| t.header.row == call.row).unwrap(), call);
                assert_eq!(of_call.count(), 2, "{recorded:#x?}");
            }
            // `ncclBcast` calls `ncclBroadcast`: one call.
            symbol => {
                compare(of_call.next().unwrap_or_else(|| panic!("{symbol} is not recorded")), call);
                assert_eq!(of_call.next(), None, "{symbol} is recorded once");
            }
        }
    }
    let account = rig.capture.account();
    assert_eq!(
        (account.hits, account.delivered),
        (recorded.len() as u64, recorded.len() as u64),
        "{account:?}"
    );
    assert_eq!(
        (account[SelfCounter::Suppressed], account.lost(), account[SelfCounter::UnmatchedReturn]),
        (1, 0, 0),
        "{account:?}"
    );
    assert!(account.is_balanced(), "{account:?}");
}

#[test]
fn nccl_stays_unprobed_without_collectives() {
    let Some(mut rig) = rig("nccl-off", &Settings { collectives: false, ..settings() }) else { return };
    let script = "ranks 2\ncomm world\nrepeat 5\nallreduce world 8 float32 sum\nsync\nend\n";
    let (player, ranks) = rig.ranks(script);
    let (observed, gaps) = rig.capture.coverage(ranks[0]).unwrap();
    assert!(observed.iter().all(|library| !library.contains("nccl")), "{observed:?}");
    assert!(!observed.is_empty() && gaps.is_empty(), "the runtime is seen: {observed:?}, {gaps:?}");
    rig.play_all(player, &ranks);
    assert!(made(&rig).iter().any(|call| call.symbol == "ncclAllReduce"), "they were made");
    assert_eq!(recorded(&rig), []);
    let account = rig.capture.account();
    let of_runtime = rig.events.iter().filter(|e| matches!(e, Event::Step(_))).count() as u64;
    assert!(account.hits >= of_runtime && of_runtime == 2 * 5, "{account:?}");
    assert!(account.is_balanced(), "{account:?}");
}
