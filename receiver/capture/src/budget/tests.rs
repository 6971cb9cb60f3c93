//! The budget against simulated processes: their probes slow them down, and only what is attached is counted.

use super::*;

const PID: u32 = 7;
const SHARE: f64 = 0.01;
const S: u64 = 1_000_000_000;
const STEP_NS: u64 = 1_000_000;
/// Time until breakpoints are gone after a long window, ns; they cost nearly as much as a hit.
const GONE_NS: u64 = 10_000_000;
const COSTS: HitCosts = HitCosts { launch_ns: 900, timed_ns: 1_800 };

/// A process, its probes, and what they cost it in each millisecond.
struct Machine {
    budget: Budget,
    now_ns: u64,
    hits: [f64; CLASSES],
    window: [f64; CLASSES],
    window_from_ns: u64,
    closed_ns: u64,
    /// Cost in each step, ns.
    cost_ns: Vec<f64>,
    levels: Vec<(u64, ThinningLevel)>,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            budget: Budget::new(SHARE, COSTS),
            now_ns: 0,
            hits: [0.0; CLASSES],
            window: [0.0; CLASSES],
            window_from_ns: 0,
            closed_ns: 0,
            cost_ns: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// Runs a thread that would make this many calls of each class per second without probes.
    fn run(&mut self, rates: [f64; CLASSES], for_ns: u64) {
        let end_ns = self.now_ns + for_ns;
        while self.now_ns < end_ns {
            self.step(rates);
        }
    }

    fn step(&mut self, rates: [f64; CLASSES]) {
        let level = self.budget.level(PID);
        let (window_ns, period_ns) = (level.window_ns(), level.period_ns());
        let at_ns = (self.now_ns - self.window_from_ns) % period_ns;
        let is_open = at_ns >= period_ns - window_ns;
        let is_tail = self.now_ns < self.closed_ns + GONE_NS && window_ns > GONE_NS;
        // A second of calls takes longer by what its hits cost.
        let cost_of = |class: ProbeClass| COSTS.by_class(&[1; CLASSES])[class as usize] as f64;
        let costs = |class: ProbeClass| !level.classes.contains(class) || is_open || is_tail;
        let slow: f64 = ProbeClass::ALL
            .iter()
            .filter(|c| costs(**c))
            .map(|c| rates[*c as usize] * cost_of(*c) / 1e9)
            .sum();
        let calls = |class: ProbeClass| rates[class as usize] / (1.0 + slow) * STEP_NS as f64 / 1e9;
        let mut cost_ns = 0.0;
        for class in ProbeClass::ALL {
            if costs(class) {
                cost_ns += calls(class) * cost_of(class);
            }
            let into = if level.classes.contains(class) { &mut self.window } else { &mut self.hits };
            if !level.classes.contains(class) || is_open {
                into[class as usize] += calls(class);
            }
        }
        self.cost_ns.push(cost_ns);
        self.now_ns += STEP_NS;
        if !level.classes.is_empty() && at_ns + STEP_NS == period_ns {
            self.budget.window(PID, window_ns, &take(&mut self.window));
            self.closed_ns = self.now_ns;
        }
        if self.now_ns.is_multiple_of(INTERVAL_NS) {
            self.interval();
        }
    }

    fn interval(&mut self) {
        let hits = take(&mut self.hits);
        if let Some(change) = self.budget.interval(PID, self.now_ns, INTERVAL_NS, &hits) {
            assert_ne!(change.from, change.to);
            self.window = [0.0; CLASSES];
            (self.window_from_ns, self.closed_ns) = (self.now_ns, self.now_ns);
            self.levels.push((self.now_ns, change.to));
        }
    }

    /// Returns the largest share of a period that the probes took, of the periods that begin in this time.
    fn worst(&self, from_ns: u64, to_ns: u64) -> f64 {
        let period_ns = self.level().period_ns();
        let (from, to) = ((from_ns / STEP_NS) as usize, (to_ns / STEP_NS) as usize);
        let periods = self.cost_ns[from..to].windows((period_ns / STEP_NS) as usize).step_by(50);
        periods.map(|period| period.iter().sum::<f64>() / period_ns as f64).fold(0.0, f64::max)
    }

    fn level(&self) -> ThinningLevel {
        self.budget.level(PID)
    }
}

fn take(hits: &mut [f64; CLASSES]) -> [u64; CLASSES] {
    std::mem::take(hits).map(|n| n as u64)
}

fn launches(rate: f64) -> [f64; CLASSES] {
    [rate, 0.0, 0.0, 0.0]
}

#[test]
fn storms_of_any_rate_and_class_are_held_within_two_seconds() {
    for rate in [1.2e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 1e7] {
        for class in ProbeClass::THINNABLE {
            for began_ns in [2 * S, 2 * S + 90 * STEP_NS, 2 * S + 240 * STEP_NS] {
                let mut machine = Machine::new();
                machine.run([0.0; CLASSES], began_ns);
                let mut rates = [0.0; CLASSES];
                rates[class as usize] = rate;
                machine.run(rates, 30 * S);
                let worst = machine.worst(began_ns + 2 * S, began_ns + 30 * S);
                assert!(
                    worst <= SHARE,
                    "{class:?} at {rate}/s from {began_ns}: {worst}, {:?}",
                    machine.levels
                );
            }
        }
    }
}

#[test]
fn everything_is_attached_again_after_the_storm() {
    for rate in [2e4, 1e5, 5e5] {
        let mut machine = Machine::new();
        machine.run(launches(rate), 10 * S);
        assert_ne!(machine.level(), ThinningLevel::FULL);
        machine.run(launches(100.0), 5 * S);
        assert_eq!(machine.level(), ThinningLevel::FULL, "{rate}/s: {:?}", machine.levels);
    }
}

#[test]
fn constant_load_settles_at_one_level() {
    for rate in (1..60).map(|n| f64::from(n) * 1e3) {
        let mut machine = Machine::new();
        machine.run(launches(rate), 120 * S);
        let late = machine.levels.iter().filter(|(at_ns, _)| *at_ns > 20 * S).count();
        assert_eq!(late, 0, "{rate}/s: {:?}", machine.levels);
    }
}

#[test]
fn load_at_the_limit_does_not_flap() {
    // 11,111 launches a second cost 1 %.
    let mut machine = Machine::new();
    for turn in 0..300 {
        machine.run(launches(if turn % 2 == 0 { 1.07e4 } else { 1.17e4 }), S);
    }
    assert!(machine.levels.len() <= 4, "{:?}", machine.levels);
}

#[test]
fn storms_in_turns_change_the_level_less_often_each_time() {
    let mut machine = Machine::new();
    for _ in 0..60 {
        machine.run(launches(5e5), 5 * S);
        machine.run(launches(0.0), 5 * S);
    }
    let rises = machine.levels.iter().filter(|(_, level)| *level == ThinningLevel::FULL).count();
    assert!((2..=14).contains(&rises), "{rises} rises in ten minutes: {:?}", machine.levels);
    let worst = machine.worst(400 * S, 600 * S);
    assert!(worst <= 0.5, "{worst}");
}

#[test]
fn essential_calls_are_never_thinned() {
    let mut machine = Machine::new();
    machine.run([0.0, 0.0, 0.0, 1e5], 10 * S);
    assert_eq!((machine.level(), machine.budget.is_exceeded(PID)), (ThinningLevel::FULL, true));
    machine.run([5e5, 0.0, 0.0, 1e5], 10 * S);
    assert_eq!(machine.level().classes.iter().collect::<Vec<_>>(), [ProbeClass::Launch]);
    machine.run([0.0; CLASSES], 30 * S);
    assert_eq!((machine.level(), machine.budget.is_exceeded(PID)), (ThinningLevel::FULL, false));
}

#[test]
fn ended_processes_are_removed() {
    let mut machine = Machine::new();
    machine.run(launches(5e5), 3 * S);
    machine.budget.remove(PID);
    assert_eq!(machine.level(), ThinningLevel::FULL);
    assert!(machine.budget.processes.is_empty());
}
