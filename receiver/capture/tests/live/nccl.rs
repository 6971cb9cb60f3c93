//! NCCL's rows: every function called once with arguments no two of which are alike, and told as it was called.

use capture::Settings;
use event::{CallArgs, Event};
use probe_abi::{Library, PROBES, row};
use simulator::oracle::{Line, NcclLine, read};

use crate::rig::{Rig, rig, settings};

/// What the kernel told of NCCL.
pub fn told(rig: &Rig) -> Vec<CallArgs> {
    rig.events
        .iter()
        .filter_map(|e| if let Event::CallArgs(t) = e { Some(t.clone()) } else { None })
        .collect()
}

/// What players say that they called.
pub fn made(rig: &Rig) -> Vec<NcclLine> {
    let lines = read(&rig.oracle()).unwrap().into_iter();
    lines.filter_map(|l| if let Line::Nccl(call) = l { Some(call) } else { None }).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What was written until the return; of the end of a group without the places that nothing stands in.
fn exit(told: &CallArgs) -> String {
    let is_pairs = row(told.header.row).unwrap().wiring.args.exit.kind == probe_abi::PointeeKind::Written;
    let has_handle = |pair: &&[u8]| !is_pairs || pair[8..].iter().any(|byte| *byte != 0);
    match is_pairs {
        true => told.exit.chunks(16).filter(has_handle).map(hex).collect(),
        false => hex(&told.exit),
    }
}

/// A record is of the call that the line tells of: everything that it says is true.
#[track_caller]
pub fn compare(told: &CallArgs, made: &NcclLine) {
    let symbol = &made.symbol;
    assert_eq!((told.header.row, told.result), (made.row, made.result), "{symbol}");
    assert_eq!((told.header.pid, told.header.tid), (made.pid, made.tid), "{symbol}");
    let by_value = row(made.row).unwrap().wiring.args.by_value;
    for (at, (seen, passed)) in told.arguments.iter().zip(&made.arguments).enumerate() {
        match (by_value, at) {
            // Where the id stands is the compiler's choice; that it was found shows in its bytes.
            (true, 2) => {}
            // Typed arguments: of an `int` the low half counts.
            (true, 1 | 3) => assert_eq!(*seen as u32, *passed as u32, "{symbol}: argument {}", at + 1),
            _ => assert_eq!(seen, passed, "{symbol}: argument {}", at + 1),
        }
    }
    let beyond = told.arguments.get(made.arguments.len()..).unwrap_or_default();
    assert!(beyond.iter().all(|a| *a == 0), "{symbol}: {beyond:x?}");
    assert_eq!((hex(&told.entry), exit(told)), (made.entry.clone(), made.exit.clone()), "{symbol}");
    assert!(told.header.entry_ns >= made.entry_ns && told.exit_ns() <= made.exit_ns, "{symbol}");
}

/// ncclUniqueId read as a pointer on x86-64: rank, nranks, communicator were 0 for every collective.
#[test]
fn every_nccl_row_is_told_with_its_arguments_and_the_memory_behind_them() {
    let Some(mut rig) = rig("nccl-rows", &settings()) else { return };
    let player = rig.player(&["--nccl-sentinels"]);
    rig.play(player);
    let (told, made) = (told(&rig), made(&rig));
    let rows = PROBES.iter().filter(|p| p.library == Library::Nccl);
    assert!(rows.clone().all(|p| made.iter().any(|m| m.row == p.id)), "the player calls every row");
    for call in &made {
        let mut of_call =
            told.iter().filter(|t| t.header.entry_ns >= call.entry_ns && t.exit_ns() <= call.exit_ns);
        match call.symbol.as_ref() {
            // It asks for an id itself, which nobody else shows.
            "ncclCommInitAll" => {
                compare(of_call.clone().find(|t| t.header.row == call.row).unwrap(), call);
                assert_eq!(of_call.count(), 2, "{told:#x?}");
            }
            // `ncclBcast` calls `ncclBroadcast`: one call.
            symbol => {
                compare(of_call.next().unwrap_or_else(|| panic!("{symbol} is not told")), call);
                assert_eq!(of_call.next(), None, "{symbol} is told once");
            }
        }
    }
    let account = rig.capture.account();
    assert_eq!((account.hits, account.delivered), (told.len() as u64, told.len() as u64), "{account:?}");
    assert_eq!((account.suppressed, account.lost(), account.unmatched), (1, 0, 0), "{account:?}");
    assert!(account.is_balanced(), "{account:?}");
}

#[test]
fn where_nobody_looks_at_collectives_nothing_is_attached_and_no_call_costs_anything() {
    let Some(mut rig) = rig("nccl-off", &Settings { collectives: false, ..settings() }) else { return };
    let script = "ranks 2\ncomm world\nrepeat 5\nallreduce world 8 float32 sum\nsync\nend\n";
    let (player, ranks) = rig.ranks(script);
    let (visible, blind) = rig.capture.sight(ranks[0]).unwrap();
    assert!(visible.iter().all(|library| !library.contains("nccl")), "{visible:?}");
    assert!(!visible.is_empty() && blind.is_empty(), "the runtime is seen: {visible:?}, {blind:?}");
    rig.play_all(player, &ranks);
    assert!(made(&rig).iter().any(|call| call.symbol == "ncclAllReduce"), "they were made");
    assert_eq!(told(&rig), []);
    let account = rig.capture.account();
    let of_runtime = rig.events.iter().filter(|e| matches!(e, Event::Step(_))).count() as u64;
    assert!(account.hits >= of_runtime && of_runtime == 2 * 5, "{account:?}");
    assert!(account.is_balanced(), "{account:?}");
}
