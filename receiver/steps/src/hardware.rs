//! The GPU that a step ran on, and what held its clocks down meanwhile.
//!
//! The one idea: a driver is looked at from time to time, so what is known of a step that just ended is known at the
//! next look. An outlier waits for that look, a second at most; every other step goes out at once. Whether a step may
//! teach what is usual cannot wait so long: since the last look things are taken to be as it found them, so that at most
//! an interval's steps at the edges of a brake are mistaken, and those that are strange teach nothing anyway.
//!
//! Bounded: devices, looks remembered of each ([`looks`]), outliers that wait; what is beyond goes, the oldest first.

mod looks;

use std::collections::{BTreeMap, VecDeque};

use crate::causes::{StepFacts, Throttle};
use event::{Clocks, Device, Event, LauncherEnv, ProcessId};

use self::looks::Looks;
use crate::baseline::Outlier;
use crate::finding::{Certainty, Finding, Gpu, Step, Throttled};
use crate::throttling::Shares;

/// GPUs that are remembered.
const DEVICES_MAX: usize = 64;
/// Outliers that wait for a look. Full: the oldest goes out with what is known.
const WAITING_MAX: usize = 256;
/// How long one waits, ns, in event time.
const WAIT_NS: u64 = 1_000_000_000;
/// Processes whose devices are known from their environment.
const PROCESSES_MAX: usize = 1024;

/// By which a process is told which devices it is to use, and in which order. HIP goes by CUDA's where it is not told.
const VISIBLE: [&str; 2] = ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"];
/// By which ROCm below HIP is told the same: HIP counts those that it leaves.
const RUNTIME: &str = "ROCR_VISIBLE_DEVICES";
/// By which the container runtime is told which devices to put into a container.
const CONTAINER: &str = "NVIDIA_VISIBLE_DEVICES";
/// What it is told where that is no list.
const NO_LIST: [&str; 4] = ["", "all", "none", "void"];

/// Takes findings.
type Out<'a> = &'a mut dyn FnMut(Finding);

/// What is known of the GPUs of the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hardware {
    devices: BTreeMap<u32, Known>,
    sights: BTreeMap<ProcessId, Sight>,
    waiting: VecDeque<Step>,
}

/// Where what is found goes: past what is known of the hardware.
pub(crate) struct Beside<'a> {
    hardware: &'a mut Hardware,
    out: &'a mut dyn FnMut(Finding),
}

impl<'a> Beside<'a> {
    pub(crate) fn new(hardware: &'a mut Hardware, out: &'a mut dyn FnMut(Finding)) -> Beside<'a> {
        Beside { hardware, out }
    }

    /// Takes a finding.
    pub(crate) fn find(&mut self, finding: Finding) {
        self.hardware.pass(finding, self.out);
    }

    /// For which share of a step that just ended each reason held the clocks of its GPU down; `None` where nobody looks.
    pub(crate) fn throttling(&self, step: &Step) -> Option<Shares> {
        let (index, _) = self.hardware.gpu(step)?;
        self.hardware.devices.get(&index)?.looks.shares(step.start_ns, step.end_ns)
    }
}

/// What a process was told of the devices that it sees.
#[derive(Clone, Debug, Default)]
struct Sight {
    /// Those that are in its container, in no order; none where that was not said.
    container: Option<Vec<String>>,
    /// Those that are left of them, in this order, by ROCm.
    runtime: Option<Vec<String>>,
    /// Those that it is to use, in its order, numbers counting those that are left.
    visible: Option<Vec<String>>,
}

/// One GPU.
#[derive(Clone, Debug, Default)]
struct Known {
    device: Device,
    looks: Looks,
}

impl Hardware {
    /// Takes what an event says of the hardware, and gives out what waited for it.
    pub(crate) fn observe(&mut self, event: &Event, out: Out<'_>) {
        match event {
            Event::Device(device) => self.describe(device),
            Event::Clocks(clocks) => self.look(clocks),
            Event::LauncherEnv(launched) => self.launch(launched),
            Event::Exit { process, .. } => {
                self.give(out, |_, step| step.process == *process);
                self.sights.remove(process);
            }
            _ => {}
        }
        let Some(now_ns) = event.at_ns() else { return };
        let is_over = |step: &Step| now_ns > step.end_ns.saturating_add(WAIT_NS);
        if matches!(event, Event::Clocks(_)) || self.waiting.front().is_some_and(is_over) {
            self.give(out, |all, step| all.is_known_to(step) || is_over(step));
        }
    }

    /// Passes a finding on; an outlier whose GPU is looked at waits for the next look.
    pub(crate) fn pass(&mut self, finding: Finding, out: Out<'_>) {
        match finding {
            Finding::Step(step) if step.outlier != Outlier::None && self.gpu(&step).is_some() => {
                if self.is_known_to(&step) {
                    return out(Finding::Step(self.explained(step)));
                }
                self.waiting.push_back(step);
                let mut beyond = self.waiting.len().saturating_sub(WAITING_MAX);
                self.give(out, |_, _| std::mem::replace(&mut beyond, 0) > 0);
            }
            other => out(other),
        }
    }

    /// Nothing will follow.
    pub(crate) fn finish(&mut self, out: Out<'_>) {
        self.give(out, |_, _| true);
    }

    fn give(&mut self, out: Out<'_>, mut is_due: impl FnMut(&Hardware, &Step) -> bool) {
        for step in std::mem::take(&mut self.waiting) {
            match is_due(self, &step) {
                true => out(Finding::Step(self.explained(step))),
                false => self.waiting.push_back(step),
            }
        }
    }

    fn describe(&mut self, device: &Device) {
        if self.devices.len() < DEVICES_MAX || self.devices.contains_key(&device.index) {
            let known = self.devices.entry(device.index).or_default();
            if known.device.id != device.id {
                known.looks = Looks::default();
            }
            known.device = device.clone();
        }
    }

    fn look(&mut self, clocks: &Clocks) {
        if let Some(known) = self.devices.get_mut(&clocks.device) {
            known.looks.push(clocks);
        }
    }

    fn launch(&mut self, launched: &LauncherEnv) {
        let list = |names: &[&str]| {
            let text = launched.first(names).filter(|text| !NO_LIST.contains(text))?;
            Some(text.split(',').map(|entry| entry.trim().to_owned()).take(DEVICES_MAX).collect())
        };
        let sight =
            Sight { container: list(&[CONTAINER]), runtime: list(&[RUNTIME]), visible: list(&VISIBLE) };
        if self.sights.len() < PROCESSES_MAX || self.sights.contains_key(&launched.process) {
            self.sights.insert(launched.process, sight);
        }
    }

    /// True where its GPU was looked at behind its end.
    fn is_known_to(&self, step: &Step) -> bool {
        let known = self.gpu(step).and_then(|(index, _)| self.devices.get(&index));
        known.is_some_and(|known| known.looks.reach(step.end_ns))
    }

    /// The GPU of a step, and how sure that is.
    fn gpu(&self, step: &Step) -> Option<(u32, Certainty)> {
        let is_listed = |known: &&Known| known.device.processes.contains(&step.process.pid);
        let mut listed = self.devices.values().filter(is_listed).map(|known| known.device.index);
        let first = listed.next();
        if let (Some(one), None) = (first, listed.next()) {
            return Some((one, Certainty::Listed));
        }
        let mut all = self.devices.keys();
        if let (Some(one), None) = (all.next(), all.next()) {
            return Some((*one, Certainty::Only));
        }
        let found = self.by_number(step)?;
        // A driver that says which devices the process is on must say this one.
        let is_on_it = || self.devices.get(&found.0).as_ref().is_some_and(is_listed);
        (first.is_none() || is_on_it()).then_some(found)
    }

    /// By the device's number in the process: through what the process was told that it sees, or, where it was told
    /// nothing, in the order of the PCI bus, which CUDA and HIP go by on a machine of equal GPUs.
    fn by_number(&self, step: &Step) -> Option<(u32, Certainty)> {
        let number = usize::try_from(step.device).ok()?;
        let nothing = Sight::default();
        let sight = self.sights.get(&step.process).unwrap_or(&nothing);
        let is_inside = |known: &&Known| match &sight.container {
            Some(list) => list.iter().any(|entry| known.is_named(entry)),
            None => true,
        };
        let inside: Vec<&Known> = self.devices.values().filter(is_inside).collect();
        let left = match &sight.runtime {
            Some(list) => list.iter().map_while(|entry| chosen(&inside, entry)).collect(),
            None => inside,
        };
        let found = match &sight.visible {
            Some(list) => chosen(&left, list.get(number)?),
            None => left.get(number).copied(),
        };
        let is_told = [&sight.container, &sight.runtime, &sight.visible].iter().any(|list| list.is_some());
        let certainty = if is_told { Certainty::Visible } else { Certainty::Order };
        found.map(|known| (known.device.index, certainty))
    }

    /// With its GPU, what held its clocks down, and its causes in the light of that.
    fn explained(&self, mut step: Step) -> Step {
        let Some((index, certainty)) = self.gpu(&step) else { return step };
        let Some(known) = self.devices.get(&index) else { return step };
        step.gpu = Some(Gpu { id: known.device.id.clone(), index, certainty });
        step.throttled = known.looks.held(step.start_ns, step.end_ns);
        let Some(throttle) = furthest(&step) else { return step };
        let facts = StepFacts { throttle: Some(throttle), ..step.facts() };
        step.causes = crate::causes::explain(&facts, &step.usual);
        step
    }
}

/// The one that an entry of a list means: by its place among those that are there, or by its name.
fn chosen<'a>(there: &[&'a Known], entry: &str) -> Option<&'a Known> {
    match entry.parse::<usize>() {
        Ok(at) => there.get(at).copied(),
        Err(_) => there.iter().find(|known| known.is_named(entry)).copied(),
    }
}

impl Known {
    /// By its number, or by how its id begins.
    fn is_named(&self, entry: &str) -> bool {
        match entry.parse::<u32>() {
            Ok(index) => index == self.device.index,
            Err(_) => !entry.is_empty() && self.device.id.starts_with(entry),
        }
    }
}

/// What held its clocks down furthest beyond the usual.
fn furthest(step: &Step) -> Option<Throttle> {
    let throttle = |most: &Throttled| Throttle {
        reason: most.reason.as_str(),
        ns: most.ns as f64,
        at_least_ns: most.at_least_ns as f64,
        at_most_ns: most.at_most_ns as f64,
        usual_ns: step.usually_throttled.of(most.reason) * step.duration_ns as f64,
    };
    let all = step.throttled.iter().map(throttle);
    all.max_by(|a, b| (a.ns - a.usual_ns).total_cmp(&(b.ns - b.usual_ns)))
}
