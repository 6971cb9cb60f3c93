//! Ranks in their own processes: each call is recorded as it was made, and the waits show which rank was late.

use std::collections::BTreeMap;

use capture::{MapSizes, Settings};
use event::{Event, StepRecord};
use probe_abi::counters::SelfCounter;
use simulator::oracle::{Line, NcclLine, WaitLine, read};

use crate::nccl::{compare, made, recorded};
use crate::rig::{Rig, rig, settings};

/// A script with all operations of an NCCL program on four ranks, one of them late at times.
const JOB: &str = "\
ranks 4
seed 11
comm world
comm two of=1,3
split pairs world color=rank/2
query pairs
repeat 12
  sleep 0us..500us
  late 15ms only=2 every=3
  allreduce world 4096 float16 sum
  sync
  reducescatter pairs 64 float32 avg stream=side
  group
    send world 10 uint8 peer=+1
    recv world 10 uint8 peer=+3
  end
  bcast two 3 int64 root=1
  eventsync
  sync side
end
capture main
  allgather world 128 bfloat16
end
replay main
sync
finalize two
destroy two
group
  comm first
  group
    comm two of=1,3
  end
end
allreduce first 1 int32 max
sync
abort pairs
destroy world
";

fn waits(rig: &Rig) -> Vec<WaitLine> {
    let lines = read(&rig.oracle()).unwrap().into_iter();
    lines.filter_map(|l| if let Line::Wait(wait) = l { Some(wait) } else { None }).collect()
}

fn steps(rig: &Rig) -> Vec<StepRecord> {
    rig.events.iter().filter_map(|e| if let Event::Step(s) = e { Some(*s) } else { None }).collect()
}

/// Plays a job to its end.
fn play(name: &str, job: &str) -> Option<(Rig, Vec<u32>)> {
    let mut rig = rig(name, &settings())?;
    let (player, ranks) = rig.ranks(job);
    rig.play_all(player, &ranks);
    Some((rig, ranks))
}

#[test]
fn every_call_of_every_rank_is_recorded_once() {
    let Some((rig, ranks)) = play("ranks", JOB) else { return };
    let (recorded, made) = (recorded(&rig), made(&rig));
    for pid in &ranks {
        let key = |ns: u64, row: u16| (ns, row);
        let mut seen: Vec<_> = recorded.iter().filter(|t| t.header.pid == *pid).collect();
        let mut called: Vec<_> = made.iter().filter(|c| c.pid == *pid).collect();
        seen.sort_by_key(|t| key(t.header.entry_ns, t.header.row));
        called.sort_by_key(|c| key(c.entry_ns, c.row));
        assert!(called.len() > 50, "rank {pid} made {} calls", called.len());
        assert_eq!(seen.len(), called.len(), "rank {pid}");
        seen.iter().zip(&called).for_each(|(recorded, call)| compare(recorded, call));
    }
    let account = rig.capture.account();
    assert_eq!((account.lost(), account[SelfCounter::UnmatchedReturn]), (0, 0), "{account:?}");
    assert!(account.is_balanced(), "{account:?}");
}

/// The kernel counts, so that a dropped record is noticed. `two` and `first` reuse handles of others.
#[test]
fn collectives_are_numbered_per_communicator() {
    let Some((rig, _)) = play("ordinals", JOB) else { return };
    let recorded = recorded(&rig);
    for call in made(&rig) {
        let is_it = |t: &&event::CallArgs| {
            (t.header.pid, t.header.row) == (call.pid, call.row)
                && t.header.entry_ns >= call.entry_ns
                && t.exit_ns() <= call.exit_ns
        };
        let recorded = recorded.iter().find(is_it).unwrap();
        assert_eq!(recorded.ordinal, call.seq, "{call:?}");
    }
}

/// The ring holds a few dozen records and is not read before some are dropped.
#[test]
fn dropped_record_leaves_a_gap_in_the_numbers() {
    const CALLS: u64 = 3_000;
    let sizes = MapSizes { ring_bytes: 4_096, ..MapSizes::default() };
    let Some(mut rig) = rig("gaps", &Settings { sizes, ..settings() }) else { return };
    let script = format!("ranks 1\ncomm world\nrepeat {CALLS}\nallreduce world 8 float32 sum\nend\nsync\n");
    let (mut player, _) = rig.ranks(&script);
    player.go().unwrap();
    let playing = std::thread::spawn(move || {
        player.done().unwrap();
        player
    });
    let mut lost = 0;
    rig.wait("the player's end", |rig| {
        while rig.capture.account().lost() == lost && !playing.is_finished() {
            std::thread::yield_now();
        }
        lost = rig.capture.account().lost();
        playing.is_finished()
    });
    rig.wait("every record that was not dropped", |rig| {
        let account = rig.capture.account();
        account.received == account.records
    });
    let ordinals: Vec<u64> = recorded(&rig).iter().filter_map(|t| t.ordinal).collect();
    let gaps = ordinals.windows(2).map(|pair| pair[1] - pair[0] - 1);
    let missing = ordinals[0] + gaps.sum::<u64>() + CALLS - 1 - ordinals[ordinals.len() - 1];
    let account = rig.capture.account();
    assert_eq!(ordinals.len() as u64 + missing, CALLS);
    assert!(missing > 0 && missing <= account.lost(), "{missing} missing: {account:?}");
    assert!(account.is_balanced(), "{account:?}");
    playing.join().unwrap().finish().unwrap();
}

/// Ranks of a communicator older than the capture are known by the variables of the launcher alone.
#[test]
fn ranks_have_the_variables_of_their_launcher() {
    let Some(mut rig) = rig("launched", &settings()) else { return };
    let (mut player, ranks) = rig.ranks("ranks 3\ncomm world\nallreduce world 1 int8 sum\nsync\n");
    player.go().unwrap();
    // While they live: of a process that is gone nothing can be read any more.
    let launched = |rig: &Rig, pid: u32| {
        rig.events.iter().find_map(|e| match e {
            Event::LauncherEnv(l) if l.process.pid == pid => Some(l.clone()),
            _ => None,
        })
    };
    rig.wait("every rank", |rig| ranks.iter().all(|pid| launched(rig, *pid).is_some()));
    player.done().unwrap();
    let made = made(&rig);
    for pid in ranks {
        let (launched, call) =
            (launched(&rig, pid).unwrap(), made.iter().find(|c| c.pid == pid && c.seq.is_some()));
        let rank = call.unwrap().rank.to_string();
        assert_eq!(launched.first(&["SLURM_PROCID", "RANK"]), Some(rank.as_str()));
        assert_eq!(launched.first(&["WORLD_SIZE"]), Some("3"));
    }
}

/// Without them, a wait for the compute stream does not include the stream of the collectives.
#[test]
fn ordering_calls_of_collective_processes_are_recorded() {
    let Some((rig, _)) = play("ordering", JOB) else { return };
    let ordering = ["cudaEventRecord", "cudaStreamBeginCapture"];
    let lines = read(&rig.oracle()).unwrap().into_iter();
    let calls = lines.filter_map(|l| if let Line::Call(call) = l { Some(call) } else { None });
    let calls: Vec<_> = calls.filter(|c| ordering.contains(&c.symbol.as_ref())).collect();
    assert!(calls.len() >= 4 * 12 + 4, "{}", calls.len());
    for call in calls {
        let is_it = |e: &&Event| match e {
            Event::Call(c) => {
                let places = (c.header.pid, c.header.row, c.stream) == (call.pid, call.row, call.stream);
                places && c.header.entry_ns >= call.entry_ns && c.header.entry_ns <= call.exit_ns
            }
            _ => false,
        };
        let of_call: Vec<_> = rig.events.iter().filter(is_it).collect();
        assert_eq!(of_call.len(), 1, "{call:?}");
        let Event::Call(record) = of_call[0] else { unreachable!() };
        let handle = if call.symbol == "cudaEventRecord" { call.handle } else { 0 };
        assert_eq!(record.handle, handle, "{call:?}");
    }
}

/// Returns the entries of each collective, by communicator and number, from the records.
fn arrivals(rig: &Rig) -> BTreeMap<(String, u64), Vec<(u64, NcclLine)>> {
    let recorded = recorded(rig);
    let mut arrivals: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for call in made(rig).into_iter().filter(|c| c.seq.is_some() && !c.captured) {
        let of_call = |t: &&event::CallArgs| t.header.pid == call.pid && t.header.entry_ns >= call.entry_ns;
        let entry_ns = recorded.iter().filter(of_call).map(|t| t.header.entry_ns).min().unwrap();
        let key = (call.communicator.clone(), call.seq.unwrap());
        arrivals.entry(key).or_default().push((entry_ns, call));
    }
    arrivals
}

#[test]
fn late_rank_arrives_last_and_the_others_wait() {
    let Some((rig, _)) = play("late", JOB) else { return };
    let (arrivals, waits, steps) = (arrivals(&rig), waits(&rig), steps(&rig));
    let late: Vec<_> = arrivals.values().filter(|all| all.iter().any(|(_, c)| c.late_ns > 0)).collect();
    assert_eq!(late.len(), 4, "the script makes rank 2 late for every third of twelve");
    for all in late {
        let (last_ns, last) = all.iter().max_by_key(|(ns, _)| ns).unwrap();
        let first_ns = all.iter().map(|(ns, _)| ns).min().unwrap();
        assert_eq!((last.rank, last.communicator.as_str()), (2, "world"));
        // Its lateness less the jitter of the others.
        assert!(last_ns - first_ns >= 14_000_000, "{} ns", last_ns - first_ns);
        let key = (last.communicator.clone(), last.seq.unwrap());
        for wait in waits.iter().filter(|w| w.covers.contains(&key)) {
            assert!(wait.exit_ns >= *last_ns, "no rank continues before the last has arrived");
            let closes = |s: &&StepRecord| {
                s.header.pid == wait.pid
                    && s.header.entry_ns >= wait.enter_ns
                    && s.header.entry_ns + s.header.duration_ns <= wait.exit_ns
            };
            // NCCL's own launch by the driver is the stream's work: its wait is a step's.
            assert_eq!(steps.iter().filter(closes).count(), 1, "{wait:?}");
        }
    }
}

/// One rank never arrives: its peers are reported inside the wait while it lasts.
#[test]
fn call_that_does_not_return_is_reported_while_it_lasts() {
    let Some(mut rig) = rig("hang", &settings()) else { return };
    let script =
        "ranks 3\ncomm world\nrepeat 5\nstop only=1 at=2\nallreduce world 8 float32 sum\nsync\nend\n";
    let (mut player, ranks) = rig.ranks(script);
    player.go().unwrap();
    let wait = probe_abi::PROBES.iter().find(|p| p.symbol == "cudaStreamSynchronize").unwrap().id;
    let seen = |rig: &Rig| -> BTreeMap<u32, Vec<u64>> {
        let mut seen: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for event in &rig.events {
            if let Event::UnderWay(call) = event {
                assert_eq!(call.row, wait, "{call:?}");
                assert!(call.at_ns > call.entry_ns, "{call:?}");
                seen.entry(call.process.pid).or_default().push(call.entry_ns);
            }
        }
        seen
    };
    rig.wait("two samples of two ranks", |rig| {
        let seen = seen(rig);
        seen.len() == 2 && seen.values().all(|samples| samples.len() >= 2)
    });
    let seen = seen(&rig);
    let stuck: Vec<u32> = seen.keys().copied().collect();
    assert!(stuck.iter().all(|pid| ranks.contains(pid)));
    assert!(seen.values().all(|samples| samples.iter().all(|entry| *entry == samples[0])), "{seen:?}");
    let last: Vec<NcclLine> = made(&rig).into_iter().filter(|c| c.seq == Some(2)).collect();
    assert_eq!(last.iter().map(|c| c.pid).collect::<std::collections::BTreeSet<_>>().len(), 2);
    assert!(last.iter().all(|c| stuck.contains(&c.pid)), "those that came wait, the other is gone: {last:?}");
}
