//! Functions that a process launches: their names, launches and signatures are those of the player's log.

use std::collections::BTreeMap;

use event::{Event, ProcessId, StepRecord};
use probe_abi::function::{LANES, lane};
use probe_abi::record::flag;
use probe_abi::{Action, row};
use simulator::oracle::{CallLine, Line, StepLine, read};

use crate::rig::{Rig, rig, settings};

const SCRIPT: &str = "@named-functions";
/// Launches of a step by name; those without a name together.
type Launches = BTreeMap<String, u64>;

/// What the events say of functions.
#[derive(Default)]
struct Seen {
    /// By process and ordinal.
    symbols: BTreeMap<(ProcessId, u32), String>,
    totals: BTreeMap<(ProcessId, u32), u64>,
    /// Blocks and threads of sampled launches, by symbol.
    sizes: BTreeMap<String, [[u32; 3]; 2]>,
    steps: Vec<StepRecord>,
}

impl Seen {
    fn of(events: &[Event]) -> Seen {
        let mut seen = Seen::default();
        for event in events {
            match event {
                Event::Function(f) => _ = seen.symbols.insert((f.process, f.ordinal), f.symbol.clone()),
                Event::FunctionTotal(t) => _ = seen.totals.insert((t.process, t.ordinal), t.launches),
                Event::Step(step) if step.header.flags & flag::UNFINISHED == 0 => seen.steps.push(*step),
                _ => {}
            }
        }
        // A name may arrive after the launch.
        for event in events {
            if let Event::Launch(launch) = event {
                let key = (ProcessId::from(&launch.header), launch.ordinal);
                seen.sizes.entry(seen.symbols[&key].clone()).or_insert([launch.grid, launch.block]);
            }
        }
        seen
    }

    fn totals(&self) -> Launches {
        let mut by_name = Launches::new();
        for (key, launches) in &self.totals {
            *by_name.entry(self.symbols[key].clone()).or_default() += launches;
        }
        by_name
    }

    /// Returns the launches of a step by the names of its lanes.
    fn launches(&self, step: &StepRecord) -> Launches {
        let process = ProcessId::from(&step.header);
        let mut by_name = Launches::new();
        for at in (0..LANES).filter(|at| step.signature.launches(*at) > 0) {
            let of_lane =
                self.symbols.iter().find(|((of, ordinal), _)| *of == process && lane(*ordinal) == at);
            let name = of_lane.map_or("", |(_, symbol)| symbol.as_str());
            *by_name.entry(name.to_owned()).or_default() += step.signature.launches(at);
        }
        by_name
    }
}

/// What the log says of the functions.
struct Logged {
    calls: Vec<CallLine>,
    steps: Vec<StepLine>,
}

impl Logged {
    fn of(rig: &Rig) -> Logged {
        let (mut calls, mut steps) = (Vec::new(), Vec::new());
        for line in read(&rig.oracle()).unwrap() {
            match line {
                Line::Call(call) => calls.push(call),
                Line::Step(step) => steps.push(step),
                _ => {}
            }
        }
        Logged { calls, steps }
    }

    fn totals(&self) -> Launches {
        let mut by_name = Launches::new();
        let is_launch = |call: &&CallLine| row(call.row).is_some_and(|p| p.action == Action::Launch);
        for call in self.calls.iter().filter(is_launch) {
            *by_name.entry(call.name.clone()).or_default() += 1;
        }
        by_name
    }

    /// Returns the launches of a step with this label. Its graph launches kernels without a name.
    fn launches(&self, step: &StepLine) -> Launches {
        let mut by_name = Launches::new();
        let is_of = |call: &&CallLine| {
            call.step == step.step && row(call.row).is_some_and(|p| p.action == Action::Launch)
        };
        for call in self.calls.iter().filter(is_of) {
            *by_name.entry(call.name.clone()).or_default() += 1;
        }
        if step.work.graphs.kernels > 0 {
            *by_name.entry(String::new()).or_default() += step.work.graphs.kernels;
        }
        by_name
    }
}

#[test]
fn names_launches_and_signatures_are_those_of_the_log() {
    let Some(mut rig) = rig("functions", &settings()) else { return };
    let player = rig.player(&[SCRIPT]);
    rig.play(player);
    let (seen, logged) = (Seen::of(&rig.events), Logged::of(&rig));
    assert_eq!(seen.totals(), logged.totals());
    assert_eq!(logged.totals().len(), 6, "five named functions, and those without a name");
    let sizes = &seen.sizes;
    assert_eq!(sizes["_Z20flash_fwd_kernel_bf1PKvPv"], [[64, 8, 1], [128, 1, 1]]);
    assert_eq!(sizes["_Z21reshape_and_cache_krnPvS_i"], [[16, 1, 1], [64, 1, 1]]);
    assert_eq!(sizes["triton_poi_fused_add_mul_7"], [[4, 1, 1], [32, 1, 1]]);
    assert_eq!(seen.steps.len(), logged.steps.len());
    for (step, line) in seen.steps.iter().zip(&logged.steps) {
        assert_eq!(seen.launches(step), logged.launches(line), "{line:?}");
    }
}

/// A process that registers its functions before the agent attaches, and launches them until it is killed.
const LATE: &str = "\
stream main
function _Z20flash_fwd_kernel_bf1PKvPv
function _Z14add_all_kernelPfi symbol
thread engine
  repeat 60s
    launch main kernel=_Z20flash_fwd_kernel_bf1PKvPv
    launch main kernel=_Z14add_all_kernelPfi
    sync stream main
    sleep 5ms
  end
end
";

#[test]
fn late_processes_get_the_names_that_their_files_have() {
    let Some(mut rig) = rig("functions-late", &settings()) else { return };
    let path = rig.dir.join("late.script");
    std::fs::write(&path, LATE).unwrap();
    let mut player = rig.unattached_player(&[path.to_str().unwrap()]);
    player.go().unwrap();
    rig.attach(&player);
    rig.wait("the name of the function with a symbol", |rig| {
        Seen::of(&rig.events).symbols.values().any(|symbol| symbol == "_Z14add_all_kernelPfi")
    });
    let seen = Seen::of(&rig.events);
    let named = seen.symbols.values().filter(|symbol| !symbol.is_empty()).count();
    assert_eq!(
        (named, seen.symbols.len()),
        (1, 2),
        "the other one was registered before: {:?}",
        seen.symbols
    );
}
