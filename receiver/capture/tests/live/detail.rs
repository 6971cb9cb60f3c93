//! Individual records of folded calls: as many as the detail of the process sets, each with its weight; the folds do not
//! depend on it.

use capture::{MapSizes, Settings, now_ns};
use event::{CallRecord, Event, ProcessId};
use probe_abi::detail::{Detail, LONG_NS};
use simulator::oracle::{CallLine, Line, read};
use simulator::player::Player;

use crate::rig::{Rig, rig, settings};

/// Steps of one process whose calls are only copies and waits.
const COPIES: &str = "\
stream main
thread main
  repeat 400
    repeat 99
      copy h2d 64 main
    end
    sync stream main
  end
end
";
const HEALTHY: u64 = 100;

fn player(rig: &mut Rig, script: &str) -> Player {
    let path = rig.dir.join("script");
    std::fs::write(&path, script).unwrap();
    rig.player(&[path.to_str().unwrap()])
}

fn process(rig: &Rig, pid: u32) -> Option<ProcessId> {
    let mut all = rig.events.iter();
    all.find_map(
        |e| if let Event::Process(p) = e { (p.process.pid == pid).then_some(p.process) } else { None },
    )
}

fn details(rig: &Rig, pid: u32) -> Vec<CallRecord> {
    let calls = rig.events.iter().filter_map(|e| if let Event::Call(c) = e { Some(*c) } else { None });
    calls.filter(|c| c.header.is_detail() && c.header.pid == pid).collect()
}

fn copies(rig: &Rig, pid: u32) -> Vec<CallLine> {
    let lines = read(&rig.oracle()).unwrap().into_iter();
    let calls = lines.filter_map(|l| if let Line::Call(call) = l { Some(call) } else { None });
    calls.filter(|c| c.pid == pid && c.symbol == "cudaMemcpyAsync").collect()
}

fn exit_ns(call: &CallRecord) -> u64 {
    call.header.entry_ns + call.header.duration_ns
}

/// A sampler never left its degraded state, because a gate was keyed to process 0.
#[test]
fn detail_of_one_process_does_not_affect_another() {
    let all = Settings { detail: Detail::one_of(HEALTHY), ..settings() };
    let Some(mut rig) = rig("detail", &all) else { return };
    let (mut troubled, mut other) = (player(&mut rig, COPIES), player(&mut rig, COPIES));
    let pids = [troubled.pid(), other.pid()];
    troubled.go().unwrap();
    rig.wait("healthy calls", |rig| details(rig, pids[0]).len() >= 40 && process(rig, pids[0]).is_some());
    let process_id = process(&rig, pids[0]).unwrap();
    other.go().unwrap();
    rig.wait("the neighbour", |rig| !details(rig, pids[1]).is_empty());
    let turn = |rig: &mut Rig, detail| {
        let before_ns = now_ns();
        assert!(rig.capture.set_detail(process_id, detail));
        (before_ns, now_ns())
    };
    let up = turn(&mut rig, Some(Detail::ALL));
    rig.wait("calls in detail", |rig| details(rig, pids[0]).len() >= 5_000);
    let down = turn(&mut rig, None);
    rig.wait("both to be done", |rig| {
        let calls = rig.capture.account().hits;
        calls >= 2 * 400 * 100
    });
    let calls = troubled.done().unwrap() + other.done().unwrap();
    rig.wait("all records", |rig| rig.capture.account().received == rig.capture.account().records);

    // A call that was preempted for long is recorded with weight 1.
    let is_short = |c: &CallRecord| c.header.duration_ns < LONG_NS || c.header.weight() != 1;
    let weights = |from_ns: u64, to_ns: u64, pid, is_meant: &dyn Fn(&CallRecord) -> bool| {
        let calls = details(&rig, pid).into_iter().filter(is_meant);
        let within = calls.filter(move |c| c.header.entry_ns >= from_ns && exit_ns(c) < to_ns);
        within.map(|c| c.header.weight()).collect::<Vec<_>>()
    };
    let healthy = weights(0, up.0, pids[0], &is_short);
    let troubled_ones = weights(up.1, down.0, pids[0], &|_| true);
    let healthy_again = weights(down.1, u64::MAX, pids[0], &is_short);
    let neighbour = weights(0, u64::MAX, pids[1], &is_short);
    assert!(healthy.iter().chain(&healthy_again).chain(&neighbour).all(|w| *w == HEALTHY));
    assert!(healthy.len() >= 30 && !healthy_again.is_empty() && neighbour.len() >= 100);
    let made = copies(&rig, pids[0]);
    let of_trouble = made.iter().filter(|c| c.entry_ns >= up.1 && c.exit_ns < down.0);
    let is_one = |w: &&u64| **w == 1;
    let recorded = troubled_ones.iter().filter(is_one).count();
    assert_eq!(recorded, troubled_ones.len());
    assert!(
        recorded >= of_trouble.count() && recorded >= 4_900,
        "every call between the two settings is recorded"
    );
    let estimated: u64 = neighbour.iter().sum();
    assert!((20_000..60_000).contains(&estimated), "{estimated} calls by weight, 39,600 made");

    let mut totals = Vec::new();
    rig.capture.read_totals(&mut totals);
    let counted = totals.iter().filter_map(|e| match e {
        Event::Operation(total) if pids.contains(&total.process.pid) => Some((total.calls, total.returned)),
        _ => None,
    });
    let counted = counted.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!(counted, (calls, calls), "aggregates are those of all calls");
    let account = rig.capture.account();
    assert_eq!((account.hits, account.lost()), (calls, 0), "{account:?}");
    assert!(account.is_balanced() && account.sampled_out > 60_000, "{account:?}");
    troubled.finish().unwrap();
    assert!(
        !rig.capture.set_detail(ProcessId { start_ns: 1, ..process_id }, Some(Detail::ALL)),
        "another process"
    );
    other.finish().unwrap();
}

/// A first slow step had one recorded call in a hundred, which was rarely the slow one.
#[test]
fn long_calls_are_recorded_when_calls_are_sampled() {
    let all = Settings { detail: Detail::one_of(u64::MAX), ..settings() };
    let Some(mut rig) = rig("detail-long", &all) else { return };
    let script =
        COPIES.replace("copy h2d 64 main", "copy h2d 64 main\n      copy h2d 64 main host=3ms every=33");
    let script = script.replace("repeat 400", "repeat 5");
    let mut player = player(&mut rig, &script);
    player.go().unwrap();
    let calls = player.done().unwrap();
    rig.wait("all calls", |rig| rig.capture.account().hits == calls && process(rig, player.pid()).is_some());
    rig.wait("all records", |rig| rig.capture.account().received == rig.capture.account().records);
    let made: Vec<CallLine> = copies(&rig, player.pid());
    let slow = made.iter().filter(|c| c.exit_ns - c.entry_ns >= 3_000_000);
    let recorded = details(&rig, player.pid());
    assert!(
        recorded.iter().all(|c| c.header.weight() == 1 && c.header.duration_ns >= LONG_NS),
        "{recorded:?}"
    );
    for call in slow {
        let is_it = |c: &&CallRecord| c.header.entry_ns >= call.entry_ns && exit_ns(c) <= call.exit_ns;
        assert_eq!(recorded.iter().filter(is_it).count(), 1, "{call:?}");
    }
    assert!(recorded.len() >= 15, "three in each of five steps: {}", recorded.len());
    player.finish().unwrap();
}

#[test]
fn overflowing_detail_is_counted_and_spares_steps() {
    let sizes = MapSizes { ring_bytes: 65_536, ..MapSizes::default() };
    let settings = Settings { sizes, detail: Detail::ALL, ..settings() };
    let Some(mut rig) = rig("detail-flood", &settings) else { return };
    let script = COPIES.replace("repeat 400", "repeat 50");
    let mut player = player(&mut rig, &script);
    // The ring is not read while the player runs, so that it overflows.
    player.go().unwrap();
    let calls = player.done().unwrap();
    let account = rig.capture.account();
    assert_eq!((account.hits, account.delivered + account.lost()), (calls, calls), "{account:?}");
    assert!(account.is_balanced() && account.dropped[0] > 4_000, "{account:?}");
    rig.wait("all records", |rig| rig.capture.account().received == rig.capture.account().records);
    let steps = rig.events.iter().filter(|e| matches!(e, Event::Step(_))).count();
    assert_eq!(steps, 50, "no step was lost to it");
    player.finish().unwrap();
}
