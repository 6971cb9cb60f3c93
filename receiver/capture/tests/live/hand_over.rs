//! Agents that take over from agents with other objects while a player makes calls: every call is counted once.

use std::path::Path;

use capture::{Capture, MapSizes, Settings};
use event::Event;
use simulator::oracle::{Line, read};

use crate::pins::{EXPIRE_AFTER, PinDir, STREAMS, agent, finish, pause, rounds, script, totals};
use crate::rig::{Rig, rig, settings};

/// Lets agents take over from killed ones while a player runs. Each has other objects than those with another number,
/// and is killed after a time, ms, except the last one, which is the rig's.
fn play_handed_over(rig: &mut Rig, dir: &PinDir, kills: &[(u32, u64)], last: u32) {
    rig.capture = Capture::start(&settings()).unwrap();
    let script = script(rig);
    let mut player = rig.unattached_player(&[&script, "--seconds", "10"]);
    let pid = player.pid();
    let mut agents = kills.iter().map(|(number, ms)| (agent(dir, EXPIRE_AFTER, pid, STREAMS + number), ms));
    let first = agents.next().unwrap();
    player.go().unwrap();
    for (mut agent, ms) in std::iter::once(first).chain(agents) {
        pause(*ms);
        agent.kill().unwrap();
        agent.wait().unwrap();
    }
    rig.events.clear();
    let began_ns = capture::now_ns();
    let sizes = MapSizes { streams: STREAMS + last, ..MapSizes::default() };
    rig.capture = Capture::start(&Settings { sizes, ..dir.settings(&[pid]) }).unwrap();
    let calls = finish(rig, player);
    let counted = totals(&rig.events, pid);
    let made = made(rig, "cudaMalloc").into_iter().filter(|at_ns| *at_ns > began_ns).count();
    let records = records(rig, "cudaMalloc").into_iter().filter(|at_ns| *at_ns > began_ns).count();
    let lost: u64 =
        rig.events.iter().map(|e| if let Event::Lost { count, .. } = e { *count } else { 0 }).sum();
    println!("killed {kills:?}, then {last}: {calls} calls, {counted} counted");
    println!("since then {made} allocations, {records} records, {lost} lost");
    assert_eq!((counted, rig.capture.account().lost()), (calls, 0));
    assert!(records <= made && made <= records + lost as usize, "each call has one record or is lost");
    rig.wait("the end of the former probes", |_| ids(&dir.0) == 1);
}

/// Returns when the records of a function's calls began.
fn records(rig: &Rig, symbol: &str) -> Vec<u64> {
    let records =
        rig.events.iter().filter_map(|e| if let Event::Call(c) = e { Some(c.header) } else { None });
    let of_symbol = records.filter(|h| probe_abi::row(h.row).is_some_and(|row| row.symbol == symbol));
    of_symbol.map(|h| h.entry_ns).collect()
}

/// Returns when the calls of a function in the player's log began.
fn made(rig: &Rig, symbol: &str) -> Vec<u64> {
    let row = probe_abi::PROBES.iter().find(|p| p.symbol == symbol).unwrap().id;
    let calls = read(&rig.oracle()).unwrap().into_iter();
    calls
        .filter_map(|line| {
            if let Line::Call(c) = line
                && c.row == row
            {
                Some(c.entry_ns)
            } else {
                None
            }
        })
        .collect()
}

fn ids(dir: &Path) -> usize {
    let names = std::fs::read_dir(dir).unwrap().flatten();
    names.filter(|entry| !entry.file_name().to_str().unwrap().starts_with("owner_")).count()
}

#[test]
fn agent_with_other_objects_takes_over_without_losing_a_call() {
    let (Some(dir), Some(mut rig)) = (PinDir::new("other"), rig("pins-other", &settings())) else { return };
    for round in 0..rounds(1) {
        play_handed_over(&mut rig, &dir, &[(round, 300)], round + 1);
    }
}

#[test]
fn interrupted_hand_overs_lose_no_call() {
    let (Some(dir), Some(mut rig)) = (PinDir::new("again"), rig("pins-again", &settings())) else { return };
    // Killed during the hand-over, then others; the first again; the second again, after it was complete.
    play_handed_over(&mut rig, &dir, &[(0, 100), (1, 50), (2, 400)], 3);
    play_handed_over(&mut rig, &dir, &[(0, 300), (1, 50)], 0);
    play_handed_over(&mut rig, &dir, &[(0, 100), (1, 2_000)], 1);
}
